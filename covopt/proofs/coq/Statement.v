(* What is proved: a lower bound on the squared norm of every ReLU network through the points of a table.
   Nothing here is about how it is proved. *)
From Coq Require Import Reals ZArith List.
Import ListNotations.
Local Open Scope R_scope.

Fixpoint dot (a b : list R) : R :=
  match a, b with
  | x :: a', y :: b' => x * y + dot a' b'
  | _, _ => 0
  end.

Definition relu (t : R) : R := Rmax t 0.

(* A network has finitely many neurons, each with an output weight v and input weights w: f(x) = sum of v * max(w . x, 0) *)
Definition network := list (R * list R).

Fixpoint output (f : network) (x : list R) : R :=
  match f with
  | [] => 0
  | (v, w) :: f' => v * relu (dot w x) + output f' x
  end.

(* The sum of v^2 + |w|^2 *)
Fixpoint norm2 (f : network) : R :=
  match f with
  | [] => 0
  | (v, w) :: f' => v * v + dot w w + norm2 f'
  end.

(* The table, exactly: integers in rational units (1/10 for decimals of one digit, 1/2^52 for doubles). *)
Definition real (unit : Z * Z) (number : Z) : R := IZR number * IZR (fst unit) / IZR (snd unit).

Record table := {
  dimension : nat;
  x_unit : Z * Z;
  y_unit : Z * Z;
  bias : Z; (* in the units of x *)
  points : list (list Z * Z)
}.

(* Every neuron has a weight for each coordinate and one for the bias. *)
Definition fits (t : table) (f : network) : Prop :=
  Forall (fun neuron => length (snd neuron) = S (dimension t)) f.

(* The output bias b: none, part of the norm, or free *)
Inductive shift := Absent | Penalized | Free.
Definition allowed (s : shift) (b : R) : Prop := match s with Absent => b = 0 | _ => True end.
Definition cost (s : shift) (f : network) (b : R) : R := norm2 f + match s with Penalized => b * b | _ => 0 end.

Definition prediction (t : table) (f : network) (b : R) (x : list Z) : R :=
  output f (map (real (x_unit t)) (x ++ [bias t])) + real (x_unit t) (bias t) * b.

Definition lower_bound (t : table) (s : shift) (numerator denominator : Z) : Prop :=
  forall (f : network) (b : R), fits t f -> allowed s b ->
  (forall x y, In (x, y) (points t) -> prediction t f b x = real (y_unit t) y) ->
  IZR numerator / IZR denominator <= cost s f b.
