(* What is proved of fits: a lower bound on the mean loss plus weight decay of every ReLU network. *)
From Coq Require Import Reals ZArith List.
From Covopt Require Import Statement.
Import ListNotations.
Local Open Scope R_scope.

Inductive loss := Squared | Huber (delta : Z * Z) | Hinge | SquaredHinge.

(* f: what the network says; y: the target, 1 or -1 for both hinges *)
Definition loss_at (kind : loss) (f y : R) : R :=
  match kind with
  | Squared => (f - y) * (f - y)
  | Huber delta =>
      if Rle_dec (Rabs (f - y)) (real delta 1) then (f - y) * (f - y) / 2
      else real delta 1 * Rabs (f - y) - real delta 1 * real delta 1 / 2
  | Hinge => Rmax 0 (1 - y * f)
  | SquaredHinge => Rmax 0 (1 - y * f) * Rmax 0 (1 - y * f)
  end.

Definition losses (kind : loss) (t : table) (f : network) (b : R) (ps : list (list Z * Z)) : R :=
  fold_right (fun p sum => loss_at kind (prediction t f b (fst p)) (real (y_unit t) (snd p)) + sum) 0 ps.

Definition fit_bound (t : table) (s : shift) (kind : loss) (decay : Z * Z) (numerator denominator : Z) : Prop :=
  forall (f : network) (b : R), fits t f -> allowed s b ->
  IZR numerator / IZR denominator
  <= losses kind t f b (points t) / INR (length (points t)) + real decay 1 * cost s f b.
