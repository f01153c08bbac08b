(* The checker, once for any arithmetic that is the integers', and its correctness: a table and a certificate that it
   accepts have the lower bound. Instances: Z, and BigZ for speed. *)
From Coq Require Import Uint63.
From Coq Require PArray.
From Bignums Require Import BigN BigZ.
From Coq Require Import Reals ZArith List Lra Lia Psatz Bool.
From Covopt Require Import Statement Cover.
Import ListNotations.

Module Type ARITHMETIC.
  Parameter T : Type.
  Parameter toZ : T -> Z.
  Parameter ofZ : Z -> T.
  Parameters add sub mul : T -> T -> T.
  Parameter opp : T -> T.
  Parameter leb : T -> T -> bool.
  Parameter div : T -> T -> T. (* rounded down *)
  Parameter half : T -> T. (* anything: what it returns is compared *)
  Parameter token : int -> T. (* anything: what it returns is compared *)
  Parameter lift : int -> int -> T. (* anything: what it returns is compared; the first number times 2^the second *)
  Axiom toZ_ofZ : forall z, toZ (ofZ z) = z.
  Axiom toZ_add : forall a b, toZ (add a b) = (toZ a + toZ b)%Z.
  Axiom toZ_sub : forall a b, toZ (sub a b) = (toZ a - toZ b)%Z.
  Axiom toZ_mul : forall a b, toZ (mul a b) = (toZ a * toZ b)%Z.
  Axiom toZ_opp : forall a, toZ (opp a) = (- toZ a)%Z.
  Axiom toZ_div : forall a b, toZ (div a b) = (toZ a / toZ b)%Z.
  Axiom leb_toZ : forall a b, leb a b = (toZ a <=? toZ b)%Z.
End ARITHMETIC.

Module Checker (A : ARITHMETIC).
Import A.
Local Open Scope R_scope.

Definition zero := ofZ 0.
Definition max (a b : T) : T := if leb a b then b else a.

Definition V (t : T) : R := IZR (toZ t).

Lemma V_zero : V zero = 0.
Proof. unfold V, zero. rewrite toZ_ofZ. reflexivity. Qed.
Lemma V_ofZ : forall z, V (ofZ z) = IZR z.
Proof. intros. unfold V. rewrite toZ_ofZ. reflexivity. Qed.
Lemma V_add : forall a b, V (add a b) = V a + V b.
Proof. intros. unfold V. rewrite toZ_add, plus_IZR. reflexivity. Qed.
Lemma V_sub : forall a b, V (sub a b) = V a - V b.
Proof. intros. unfold V. rewrite toZ_sub, minus_IZR. reflexivity. Qed.
Lemma V_mul : forall a b, V (mul a b) = V a * V b.
Proof. intros. unfold V. rewrite toZ_mul, mult_IZR. reflexivity. Qed.
Lemma V_opp : forall a, V (opp a) = - V a.
Proof. intros. unfold V. rewrite toZ_opp, opp_IZR. reflexivity. Qed.
Lemma V_div : forall a b, 0 < V b -> V b * V (div a b) <= V a < V b * V (div a b) + V b.
Proof.
  unfold V. intros a b Hb. apply lt_IZR in Hb. rewrite toZ_div, <- mult_IZR, <- plus_IZR. split.
  - apply IZR_le. apply Z.mul_div_le. exact Hb.
  - apply IZR_lt. pose proof (Z.mul_succ_div_gt (toZ a) (toZ b) Hb). lia.
Qed.
Lemma leb_true : forall a b, leb a b = true -> V a <= V b.
Proof. intros a b H. rewrite leb_toZ in H. apply Z.leb_le in H. apply IZR_le. exact H. Qed.
Lemma leb_false : forall a b, leb a b = false -> V b <= V a.
Proof. intros a b H. rewrite leb_toZ in H. apply Z.leb_gt in H. apply IZR_le. lia. Qed.
Lemma V_max : forall a b, V (max a b) = Rmax (V a) (V b).
Proof.
  intros. unfold max. destruct (leb a b) eqn:E.
  - apply leb_true in E. rewrite Rmax_right; auto.
  - apply leb_false in E. rewrite Rmax_left; auto.
Qed.

(* ---- vectors ---- *)

Definition dotV (r : list T) (u : list R) : R := dot (map V r) u.

Fixpoint addv (a b : list T) : list T :=
  match a, b with
  | x :: a', y :: b' => add x y :: addv a' b'
  | [], _ => b
  | _, [] => a
  end.

Fixpoint axpy (c : T) (r q : list T) : list T :=
  match r, q with
  | x :: r', y :: q' => add (mul c x) y :: axpy c r' q'
  | [], _ => q
  | _, [] => map (mul c) r
  end.

Lemma dotV_nil0 : forall a, dotV a [] = 0.
Proof. destruct a; reflexivity. Qed.

Lemma dotV_nil : forall u, dotV [] u = 0.
Proof. destruct u; reflexivity. Qed.

Lemma dotV_addv : forall a b u, dotV (addv a b) u = dotV a u + dotV b u.
Proof.
  unfold dotV. induction a as [|x a IH]; destruct b as [|y b]; destruct u as [|z u]; simpl; try ring.
  rewrite IH, V_add. ring.
Qed.

Lemma dotV_map : forall c a u, dotV (map (mul c) a) u = V c * dotV a u.
Proof.
  unfold dotV. induction a as [|x a IH]; destruct u as [|z u]; simpl; try ring. rewrite IH, V_mul. ring.
Qed.

Lemma dotV_opp : forall a u, dotV (map opp a) u = - dotV a u.
Proof.
  unfold dotV. induction a as [|x a IH]; destruct u as [|z u]; simpl; try ring. rewrite IH, V_opp. ring.
Qed.

Lemma dotV_axpy : forall c a b u, dotV (axpy c a b) u = V c * dotV a u + dotV b u.
Proof.
  intros c. induction a as [|x a IH]; destruct b as [|y b]; intros u.
  - unfold dotV. simpl. ring.
  - unfold dotV. simpl. ring.
  - change (axpy c (x :: a) []) with (map (mul c) (x :: a)). rewrite dotV_map, dotV_nil. ring.
  - destruct u as [|z u]; [unfold dotV; simpl; ring|].
    specialize (IH b u). unfold dotV in *. simpl. rewrite IH, V_add, V_mul. ring.
Qed.

Fixpoint dotT (a b : list T) : T :=
  match a, b with
  | x :: a', y :: b' => add (mul x y) (dotT a' b')
  | _, _ => zero
  end.

Lemma V_dotT : forall a b, V (dotT a b) = dot (map V a) (map V b).
Proof. induction a; destruct b; simpl; try apply V_zero. rewrite V_add, V_mul, IHa. reflexivity. Qed.

(* a vector in the coordinates of a basis *)
Definition pull (cols : list (list T)) (r : list T) : list T := map (dotT r) cols.

Lemma dotV_pull : forall cols r z, dotV (pull cols r) z = dot (image (map (map V) cols) z) (map V r).
Proof.
  intros. unfold dotV, pull. rewrite dot_image, !map_map.
  f_equal. apply map_ext. intros c. apply V_dotT.
Qed.

(* ---- quadratic forms: rows of a matrix; missing entries are zero ---- *)

Fixpoint quad (F : list (list T)) (y x : list R) : R :=
  match F, y with
  | f :: F', c :: y' => c * dotV f x + quad F' y' x
  | _, _ => 0
  end.

Fixpoint outer (f g : list T) (F : list (list T)) : list (list T) :=
  match f, F with
  | c :: f', row :: F' => axpy c g row :: outer f' g F'
  | c :: f', [] => map (mul c) g :: outer f' g []
  | [], _ => F
  end.

Lemma quad_outer : forall f g F y x, quad (outer f g F) y x = dotV f y * dotV g x + quad F y x.
Proof.
  induction f as [|c f IH]; intros g F y x; [simpl; rewrite dotV_nil; ring|].
  destruct y as [|a y]; [rewrite dotV_nil0; destruct F; simpl; ring|].
  change (dotV (c :: f) (a :: y)) with (V c * a + dotV f y).
  destruct F as [|row F]; simpl; rewrite IH, ?dotV_axpy, ?dotV_map; simpl; ring.
Qed.

Fixpoint add_forms (A B : list (list T)) : list (list T) :=
  match A, B with
  | a :: A', b :: B' => addv a b :: add_forms A' B'
  | [], _ => B
  | _, [] => A
  end.

Lemma quad_add : forall A B y x, quad (add_forms A B) y x = quad A y x + quad B y x.
Proof.
  induction A as [|a A IH]; destruct B as [|b B]; destruct y as [|c y]; intros x; simpl; try ring.
  rewrite IH, dotV_addv. ring.
Qed.

(* the sum of the squares of the coordinates that a list has *)
Fixpoint squares (b : list T) (y : list R) : R :=
  match b, y with
  | _ :: b', c :: y' => c * c + squares b' y'
  | _, _ => 0
  end.

Fixpoint ridge (d : T) (ahead : list T) (b : list T) : list (list T) :=
  match b with
  | [] => []
  | _ :: b' => (ahead ++ [d]) :: ridge d (zero :: ahead) b'
  end.

Lemma dotV_zeros : forall k d z, dotV (repeat zero k ++ [d]) z = V d * nth k z 0.
Proof.
  induction k as [|k IH]; intros d [|c z]; unfold dotV in *; simpl; try rewrite V_zero; try ring.
  - rewrite IH. ring.
Qed.

Lemma quad_ridge : forall d b k y z, (forall j, nth j y 0 = nth (k + j) z 0) ->
  quad (ridge d (repeat zero k) b) y z = V d * squares b y.
Proof.
  intros d. induction b as [|c b IH]; intros k [|x y] z Hy; simpl; try ring.
  rewrite dotV_zeros, <- (Nat.add_0_r k) at 1. rewrite <- (Hy 0%nat). simpl.
  change (zero :: repeat zero k) with (repeat zero (S k)). rewrite (IH (S k) y z); [ring|].
  intros j. specialize (Hy (S j)). simpl in *. rewrite Hy. f_equal. lia.
Qed.

Definition scaled (w a : T) (b : list T) : list T := map (fun c => div (opp (mul a c)) w) b.

Lemma scaled_right : forall w a b x y, 0 < V w ->
  V w * (x * dotV (scaled w a b) y) <= - (V a * x * dotV b y) + V w * (INR (length b) * (x * x) + squares b y) / 2.
Proof.
  intros w a b x y Hw. revert y. induction b as [|c b IH]; intros [|z y].
  - unfold dotV. simpl. lra.
  - unfold dotV. simpl. lra.
  - rewrite (dotV_nil0 (scaled w a (c :: b))), (dotV_nil0 (c :: b)). simpl squares.
    assert (0 <= INR (length (c :: b)) * (x * x)) by (apply Rmult_le_pos; [apply pos_INR|apply Rle_0_sqr]).
    assert (0 <= V w * (INR (length (c :: b)) * (x * x) + 0)) by (apply Rmult_le_pos; lra). lra.
  - specialize (IH y). change (length (c :: b)) with (S (length b)). rewrite S_INR.
    change (dotV (scaled w a (c :: b)) (z :: y)) with (V (div (opp (mul a c)) w) * z + dotV (scaled w a b) y).
    change (dotV (c :: b) (z :: y)) with (V c * z + dotV b y). simpl squares.
    destruct (V_div (opp (mul a c)) w Hw) as [D1 D2]. rewrite V_opp, V_mul in D1, D2.
    set (q := V (div (opp (mul a c)) w)) in *.
    assert (E : V w * q * (x * z) <= - (V a * V c) * (x * z) + V w * (x * x + z * z) / 2).
    { set (e := - (V a * V c) - V w * q) in *. assert (He : 0 <= e <= V w) by (unfold e; lra).
      replace (V w * q) with (- (V a * V c) - e) by (unfold e; ring).
      pose proof (Rle_0_sqr (x + z)) as S1. pose proof (Rle_0_sqr (x - z)) as S2. unfold Rsqr in *.
      assert (T1 : 0 <= e * ((x + z) * (x + z))) by (apply Rmult_le_pos; lra).
      assert (T2 : 0 <= (V w - e) * (x * x + z * z)) by (apply Rmult_le_pos; [lra|]; pose proof (Rle_0_sqr x); pose proof (Rle_0_sqr z); unfold Rsqr in *; lra).
      lra. }
    lra.
Qed.

Lemma scaled_rows : forall w a b y z, 0 < V w ->
  V w * quad (map (fun c => scaled w c b) a) y z
  <= - (dotV a y * dotV b z) + V w * (INR (length b) * squares a y + INR (length a) * squares b z) / 2.
Proof.
  intros w a b y z Hw. assert (Sq : 0 <= squares b z).
  { clear. revert z. induction b; intros [|c z]; simpl; try lra. specialize (IHb z). pose proof (Rle_0_sqr c). unfold Rsqr in *. lra. }
  assert (Hs : 0 <= V w * squares b z) by (apply Rmult_le_pos; lra).
  revert y. induction a as [|c a IH]; intros [|x y].
  - unfold dotV. simpl. lra.
  - unfold dotV. simpl. lra.
  - rewrite dotV_nil0. simpl quad. simpl squares.
    assert (0 <= INR (length (c :: a)) * (V w * squares b z)) by (apply Rmult_le_pos; [apply pos_INR|exact Hs]). lra.
  - specialize (IH y). pose proof (scaled_right w c b x z Hw) as Hr.
    change (length (c :: a)) with (S (length a)). rewrite S_INR. simpl quad. simpl squares.
    change (dotV (c :: a) (x :: y)) with (V c * x + dotV a y). lra.
Qed.

(* a form is not negative: pivot by pivot, each rest rounded down *)
Definition head (row : list T) : T := match row with [] => zero | c :: _ => c end.

Fixpoint definite (fuel : nat) (F : list (list T)) : bool :=
  match F, fuel with
  | [], _ => true
  | (d :: others) :: rest, S fuel' =>
      if leb d zero then false
      else
        let b := addv others (map head rest) in
        let w := mul (ofZ 4) d in
        definite fuel' (add_forms (map (@tl T) rest)
          (add_forms (map (fun c => scaled w c b) b) (ridge (ofZ (- Z.of_nat (length b))) [] b)))
  | _, _ => false
  end.

Lemma quad_split : forall F a x y, quad F y (a :: x) = a * dotV (map head F) y + quad (map (@tl T) F) y x.
Proof.
  induction F as [|row F IH]; intros a x [|c y]; simpl; try (rewrite ?dotV_nil0; unfold dotV; simpl; ring).
  rewrite IH. destruct row as [|d row]; unfold dotV; simpl; rewrite ?V_zero; ring.
Qed.

Lemma definite_right : forall fuel F x, definite fuel F = true -> 0 <= quad F x x.
Proof.
  induction fuel as [|fuel IH]; intros [|[|d others] rest] x H; simpl in H; try discriminate; try (simpl; lra).
  destruct (leb d zero) eqn:E; [discriminate|]. destruct x as [|a y]; [simpl; lra|].
  assert (Hd : 0 < V d).
  { rewrite leb_toZ in E. apply Z.leb_gt in E. apply IZR_lt in E. fold (V zero) in E. fold (V d) in E. rewrite V_zero in E. exact E. }
  set (b := addv others (map head rest)) in *. set (w := mul (ofZ 4) d) in *.
  assert (Hw : V w = 4 * V d) by (unfold w; rewrite V_mul, V_ofZ; reflexivity).
  pose proof (IH _ y H) as P. rewrite !quad_add in P. clear IH H.
  rewrite (quad_ridge _ b 0 y y) in P by reflexivity. rewrite V_ofZ, opp_IZR, <- INR_IZR_INZ in P.
  assert (Hp : 0 < V w) by lra. pose proof (scaled_rows w b b y y Hp) as S.
  set (k := INR (length b)) in *. set (q := squares b y) in *.
  set (Q := quad (map (fun c => scaled w c b) b) y y) in *.
  simpl quad. change (dotV (d :: others) (a :: y)) with (V d * a + dotV others y).
  rewrite quad_split. set (G := quad (map (@tl T) rest) y y) in *.
  assert (B : dotV b y = dotV others y + dotV (map head rest) y) by (unfold b; apply dotV_addv).
  set (t := dotV b y) in *.
  assert (P' : 0 <= V w * (G + (Q + - k * q))) by (apply Rmult_le_pos; lra).
  apply Rmult_le_reg_l with (4 * V d); [lra|]. rewrite Rmult_0_r.
  pose proof (Rle_0_sqr (2 * V d * a + t)) as Hs. unfold Rsqr in Hs. rewrite Hw in *.
  replace (4 * V d * (a * (V d * a + dotV others y) + (a * dotV (map head rest) y + G)))
    with ((2 * V d * a + t) * (2 * V d * a + t) - t * t + 4 * V d * G) by (rewrite B; ring).
  lra.
Qed.

(* ---- boxes: m * box, for any m >= 0, so that no division is needed ---- *)

Definition box := list (T * T).

Fixpoint inside (m : R) (b : box) (u : list R) : Prop :=
  match b, u with
  | [], [] => True
  | (l, h) :: b', x :: u' => V l * m <= x <= V h * m /\ inside m b' u'
  | _, _ => False
  end.

Lemma inside_length : forall m b u, inside m b u -> length b = length u.
Proof.
  induction b as [|[l h] b IH]; destruct u as [|x u]; simpl; intros; try tauto.
  f_equal. apply IH. tauto.
Qed.

Lemma inside_nth : forall m d b u, length b = length u ->
  (forall j, (j < length u)%nat -> V (fst (nth j b d)) * m <= nth j u 0 <= V (snd (nth j b d)) * m) -> inside m b u.
Proof.
  induction b as [|[l h] b IH]; destruct u as [|x u]; simpl; intros Hl H; try discriminate; auto.
  split.
  - apply (H 0%nat). lia.
  - apply IH; [lia|]. intros j Hj. apply (H (S j)). lia.
Qed.

(* what the coordinate j of a smaller box says *)
Lemma inside_upd : forall m j b u l h l' h', nth_error b j = Some (l, h) -> inside m (upd j (l', h') b) u ->
  V l' * m <= nth j u 0 <= V h' * m /\
  (forall x, V l * m <= x <= V h * m -> inside m b (upd j x u)).
Proof.
  induction j as [|j IH]; intros [|[l0 h0] b] [|y u] l h l' h' Hn Hi; simpl in *; try discriminate; try tauto.
  - injection Hn as -> ->. split; tauto.
  - destruct (IH b u l h l' h' Hn (proj2 Hi)) as [H1 H2]. split; [exact H1|].
    intros x Hx. split; [tauto|]. apply H2. exact Hx.
Qed.

Lemma upd_same : forall j (u : list R), upd j (nth j u 0) u = u.
Proof. induction j; destruct u; simpl; auto. rewrite IHj. reflexivity. Qed.

(* halving covers *)
Lemma inside_cut : forall m j b u l h c, nth_error b j = Some (l, h) -> inside m b u ->
  inside m (upd j (l, c) b) u \/ inside m (upd j (c, h) b) u.
Proof.
  induction j as [|j IH]; intros [|[l0 h0] b] [|y u] l h c Hn Hi; simpl in *; try discriminate; try tauto.
  - injection Hn as -> ->. destruct (Rle_dec y (V c * m)); [left | right]; split; try tauto; lra.
  - destruct (IH b u l h c Hn (proj2 Hi)); [left | right]; tauto.
Qed.

Fixpoint top (q : list T) (b : box) : T :=
  match q, b with
  | x :: q', (l, h) :: b' => add (max (mul x l) (mul x h)) (top q' b')
  | _, _ => zero
  end.

Lemma top_above : forall m q b u, 0 <= m -> inside m b u -> dotV q u <= V (top q b) * m.
Proof.
  intros m q b u Hm. revert q u. induction b as [|[l h] b IH]; intros [|x q] [|y u] Hi; simpl in *; try tauto;
    unfold dotV; simpl; rewrite ?V_zero; try lra.
  rewrite V_add, V_max, !V_mul. specialize (IH q u (proj2 Hi)). unfold dotV in IH.
  pose proof (corner (V x) y (V l) (V h) m Hm (proj1 Hi)). lra.
Qed.

Fixpoint bounds (b : box) (r : list T) : T * T :=
  match r, b with
  | x :: r', (l, h) :: b' =>
      let '(lo, hi) := bounds b' r' in
      let p := mul x l in let q := mul x h in
      if leb p q then (add p lo, add q hi) else (add q lo, add p hi)
  | _, _ => (zero, zero)
  end.

Lemma bounds_right : forall m b r u lo hi, 0 <= m -> inside m b u -> bounds b r = (lo, hi) ->
  V lo * m <= dotV r u <= V hi * m.
Proof.
  intros m b. induction b as [|[l h] b IH]; intros [|x r] [|y u] lo hi Hm Hi Hb; simpl in *; try tauto;
    unfold dotV; simpl; try (injection Hb as <- <-; rewrite !V_zero; lra).
  destruct (bounds b r) as [lo' hi'] eqn:E.
  specialize (IH r u lo' hi' Hm (proj2 Hi) E). unfold dotV in IH.
  destruct Hi as [[H1 H2] _].
  destruct (leb (mul x l) (mul x h)) eqn:F; injection Hb as <- <-;
    [apply leb_true in F | apply leb_false in F]; rewrite !V_mul in F; rewrite !V_add, !V_mul;
    destruct (Rle_dec 0 (V x)).
  - assert (V x * (V l * m) <= V x * y) by (apply Rmult_le_compat_l; lra).
    assert (V x * y <= V x * (V h * m)) by (apply Rmult_le_compat_l; lra). nra.
  - assert (V x * V l * m <= V x * V h * m) by (apply Rmult_le_compat_r; lra).
    assert (- V x * (V l * m) <= - V x * y) by (apply Rmult_le_compat_l; lra).
    assert (- V x * y <= - V x * (V h * m)) by (apply Rmult_le_compat_l; lra). nra.
  - assert (V x * V h * m <= V x * V l * m) by (apply Rmult_le_compat_r; lra).
    assert (V x * (V l * m) <= V x * y) by (apply Rmult_le_compat_l; lra).
    assert (V x * y <= V x * (V h * m)) by (apply Rmult_le_compat_l; lra). nra.
  - assert (- V x * (V l * m) <= - V x * y) by (apply Rmult_le_compat_l; lra).
    assert (- V x * y <= - V x * (V h * m)) by (apply Rmult_le_compat_l; lra). nra.
Qed.

(* ---- rows ---- *)

Inductive row := Row (positive : bool) (r : list T) (lo hi : T).

Definition sign (w : bool) : R := if w then 1 else -1.

Definition good (b : box) (x : row) : Prop :=
  let '(Row _ r lo hi) := x in forall m u, 0 <= m -> inside m b u -> V lo * m <= dotV r u <= V hi * m.

Fixpoint total (rows : list row) (u : list R) : R :=
  match rows with
  | [] => 0
  | Row w r _ _ :: rest => sign w * relu (dotV r u) + total rest u
  end.

Definition state := (list row * list T)%type.
Definition value (s : state) (u : list R) : R := dotV (snd s) u + total (fst s) u.

(* a row whose sign is known goes into the linear part, or out *)
Definition put (w : bool) (r : list T) (lo hi : T) (s : state) : state :=
  let '(rows, linear) := s in
  if leb zero lo then (rows, addv linear (if w then r else map opp r))
  else if leb hi zero then (rows, linear)
  else (Row w r lo hi :: rows, linear).

Lemma put_right : forall b w r lo hi s, good b (Row w r lo hi) -> Forall (good b) (fst s) ->
  Forall (good b) (fst (put w r lo hi s)) /\
  forall m u, 0 <= m -> inside m b u ->
    value (put w r lo hi s) u = sign w * relu (dotV r u) + value s u.
Proof.
  intros b w r lo hi [rows linear] Hg Hs. unfold put, value. simpl in Hs.
  destruct (leb zero lo) eqn:E; [|destruct (leb hi zero) eqn:F]; simpl.
  - split; auto. intros m u Hm Hi. apply leb_true in E. rewrite V_zero in E.
    specialize (Hg m u Hm Hi). rewrite relu_pos by nra. rewrite dotV_addv.
    destruct w; simpl; [|rewrite dotV_opp]; ring.
  - split; auto. intros m u Hm Hi. apply leb_true in F. rewrite V_zero in F.
    specialize (Hg m u Hm Hi). rewrite relu_neg by nra. ring.
  - split; auto. intros. ring.
Qed.

Fixpoint height (rs : list (bool * list T)) (u : list R) : R :=
  match rs with
  | [] => 0
  | (w, r) :: rest => sign w * relu (dotV r u) + height rest u
  end.

Fixpoint start (b : box) (rs : list (bool * list T)) : state :=
  match rs with
  | [] => ([], [])
  | (w, r) :: rest => let '(lo, hi) := bounds b r in put w r lo hi (start b rest)
  end.

Lemma start_right : forall b rs, Forall (good b) (fst (start b rs)) /\
  forall m u, 0 <= m -> inside m b u -> value (start b rs) u = height rs u.
Proof.
  intros b. induction rs as [|[w r] rs [IH1 IH2]]; simpl.
  - split; auto. intros. unfold value. simpl. rewrite dotV_nil. ring.
  - destruct (bounds b r) as [lo hi] eqn:E.
    assert (Hg : good b (Row w r lo hi)) by (intros m u Hm Hi; eapply bounds_right; eauto).
    destruct (put_right b w r lo hi (start b rs) Hg IH1) as [P1 P2].
    split; auto. intros m u Hm Hi. rewrite (P2 m u Hm Hi), (IH2 m u Hm Hi). reflexivity.
Qed.

(* the half of a box: coordinate j shrinks by |d| at one end, at the lower one where d > 0 *)
Fixpoint down (j : nat) (d : T) (rows : list row) (linear : list T) : state :=
  match rows with
  | [] => ([], linear)
  | Row w r lo hi :: rest =>
      let s := down j d rest linear in
      let t := mul (nth j r zero) d in
      if leb zero t then put w r (add lo t) hi s else put w r lo (add hi t) s
  end.

Definition shrinks (b b' : box) (j : nat) (d : T) : Prop :=
  forall m u, 0 <= m -> inside m b' u ->
  (j < length u)%nat /\ inside m b u /\ inside m b (upd j (nth j u 0 - V d * m) u).

Lemma nth_map_V : forall j r, nth j (map V r) 0 = V (nth j r zero).
Proof. intros. rewrite <- V_zero. apply map_nth. Qed.

Lemma down_right : forall b b' j d rows linear, shrinks b b' j d -> Forall (good b) rows ->
  Forall (good b') (fst (down j d rows linear)) /\
  forall m u, 0 <= m -> inside m b' u -> value (down j d rows linear) u = value (rows, linear) u.
Proof.
  intros b b' j d rows linear Hb. induction rows as [|[w r lo hi] rows IH]; intros Hg; simpl.
  - split; auto.
  - inversion Hg as [|? ? Hg1 Hg2]; subst. destruct (IH Hg2) as [I1 I2].
    set (t := mul (nth j r zero) d).
    assert (Hmoved : forall m u, 0 <= m -> inside m b' u ->
      V lo * m <= dotV r u <= V hi * m /\ (V lo + V t) * m <= dotV r u <= (V hi + V t) * m).
    { intros m u Hm Hi. destruct (Hb m u Hm Hi) as [Hj [H1 H2]]. split; [apply (Hg1 m u Hm H1)|].
      pose proof (Hg1 m _ Hm H2) as H3. unfold dotV in *. rewrite dot_upd in H3 by exact Hj.
      unfold t. rewrite V_mul. rewrite nth_map_V in H3. lra. }
    destruct (leb zero t).
    + assert (G : good b' (Row w r (add lo t) hi)).
      { intros m u Hm Hi. rewrite V_add. destruct (Hmoved m u Hm Hi). lra. }
      destruct (put_right b' w r _ _ (down j d rows linear) G I1) as [P1 P2]. split; auto.
      intros m u Hm Hi. rewrite (P2 m u Hm Hi), (I2 m u Hm Hi). unfold value. simpl. ring.
    + assert (G : good b' (Row w r lo (add hi t))).
      { intros m u Hm Hi. rewrite V_add. destruct (Hmoved m u Hm Hi). lra. }
      destruct (put_right b' w r _ _ (down j d rows linear) G I1) as [P1 P2]. split; auto.
      intros m u Hm Hi. rewrite (P2 m u Hm Hi), (I2 m u Hm Hi). unfold value. simpl. ring.
Qed.

Lemma shrinks_lower : forall b j l h c, nth_error b j = Some (l, h) -> V c <= V h ->
  shrinks b (upd j (l, c) b) j (sub c h).
Proof.
  intros b j l h c Hn Hc m u Hm Hi. destruct (inside_upd m j b u l h l c Hn Hi) as [H1 H2].
  assert (V c * m <= V h * m) by (apply Rmult_le_compat_r; auto).
  split; [|split].
  - apply inside_length in Hi. rewrite <- Hi.
    assert (length (upd j (l, c) b) = length b).
    { clear. revert b. induction j; destruct b; simpl; auto. }
    rewrite H0. apply nth_error_Some. rewrite Hn. discriminate.
  - rewrite <- (upd_same j u). apply H2. lra.
  - apply H2. rewrite V_sub. lra.
Qed.

Lemma shrinks_upper : forall b j l h c, nth_error b j = Some (l, h) -> V l <= V c ->
  shrinks b (upd j (c, h) b) j (sub c l).
Proof.
  intros b j l h c Hn Hc m u Hm Hi. destruct (inside_upd m j b u l h c h Hn Hi) as [H1 H2].
  assert (V l * m <= V c * m) by (apply Rmult_le_compat_r; auto).
  split; [|split].
  - apply inside_length in Hi. rewrite <- Hi.
    assert (length (upd j (c, h) b) = length b).
    { clear. revert b. induction j; destruct b; simpl; auto. }
    rewrite H0. apply nth_error_Some. rewrite Hn. discriminate.
  - rewrite <- (upd_same j u). apply H2. lra.
  - apply H2. rewrite V_sub. lra.
Qed.

Fixpoint count {X : Type} (l : list X) : int :=
  match l with
  | [] => 0%uint63
  | _ :: l' => (count l' + 1)%uint63
  end.

(* ---- the certificate: an array of machine integers, read in preorder ---- *)

Section Certificate.
Variable cert : PArray.array int.

(* token i: three of 21 bits in a word; words are disguised, for Coq's table of shared terms is slow where their low bits
   are alike *)
Definition fetch (i : int) : int :=
  let k := (i / 3)%uint63 in
  ((((PArray.get cert k) lxor (k * 0x1e3779b97f4a7c15)) >> (21 * (i - 3 * k))) land 2097151)%uint63.

Variables one unit H : T. (* of slopes, of normals; H *)
Variable cols : list (list T). (* the basis *)

Definition norm (z : list R) : R := sqrt (dot (image (map (map V) cols) z) (image (map (map V) cols) z)).

Fixpoint slopes (i : int) (rows : list row) (q : list T) (b : T) : option (list T * T) :=
  match rows with
  | [] => Some (q, b)
  | Row w r lo hi :: rest =>
      let a := token (fetch i) in
      if (leb zero a && leb a one)%bool then
        if w then slopes (i + 1)%uint63 rest (axpy a r q) (add b (max (opp (mul a lo)) (mul (sub one a) hi)))
        else slopes (i + 1)%uint63 rest (axpy (opp a) r q) b
      else None
  end.

Lemma slopes_right : forall bx rows i q b q' b', slopes i rows q b = Some (q', b') -> Forall (good bx) rows ->
  forall m u, 0 <= m -> inside m bx u ->
  V one * total rows u + dotV q u + V b * m <= dotV q' u + V b' * m.
Proof.
  intros bx. induction rows as [|[w r lo hi] rows IH]; intros i q b q' b' E Hg m u Hm Hi; simpl in E.
  - injection E as <- <-. simpl. lra.
  - inversion Hg as [|? ? Hg1 Hg2]; subst. specialize (Hg1 m u Hm Hi).
    set (a := token (fetch i)) in *.
    destruct (leb zero a) eqn:E1; simpl in E; [|discriminate].
    destruct (leb a one) eqn:E2; simpl in E; [|discriminate].
    apply leb_true in E1. apply leb_true in E2. rewrite V_zero in E1.
    destruct w; specialize (IH _ _ _ _ _ E Hg2 m u Hm Hi); rewrite dotV_axpy in IH; simpl.
    + rewrite V_add, V_max, V_opp, !V_mul, V_sub in IH.
      pose proof (chord (V a) (V one) (dotV r u) (V lo) (V hi) m (conj E1 E2) Hm Hg1). lra.
    + rewrite V_opp in IH. pose proof (line (V a) (V one) (dotV r u) (conj E1 E2)). lra.
Qed.

Fixpoint normal (i : int) (b : box) : list T :=
  match b with
  | [] => []
  | _ :: b' => sub (token ((fetch i << 21) + fetch (i + 1))%uint63) unit :: normal (i + 2)%uint63 b'
  end.

Fixpoint square (p : list T) : T :=
  match p with
  | [] => zero
  | x :: p' => add (mul x x) (square p')
  end.

Lemma square_right : forall p, V (square p) = dot (map V p) (map V p).
Proof. induction p; simpl; [apply V_zero|]. rewrite V_add, V_mul, IHp. reflexivity. Qed.

Definition closed (b : box) (s : state) (i : int) (after : int) : bool :=
  let p := normal i b in
  if leb (square p) (mul unit unit) then
    match slopes after (fst s) (map (mul one) (snd s)) zero with
    | None => false
    | Some (q, c) =>
        leb (add (top (axpy (opp (mul one H)) (pull cols p) (map (mul unit) q)) b) (mul unit c)) zero
    end
  else false.

Lemma closed_right : forall b s i after, 0 < V one -> 0 < V unit -> 0 <= V H -> closed b s i after = true ->
  Forall (good b) (fst s) -> forall m u, 0 <= m -> inside m b u -> value s u <= V H * norm u.
Proof.
  intros b s i after H1 H2 H3 Hc Hg m u Hm Hi. unfold closed in Hc.
  set (p := normal i b) in *.
  destruct (leb (square p) (mul unit unit)) eqn:E1; [|discriminate].
  destruct (slopes after (fst s) (map (mul one) (snd s)) zero) as [[q c]|] eqn:E2; [|discriminate].
  apply leb_true in E1. apply leb_true in Hc. rewrite V_mul, square_right in E1.
  pose proof (slopes_right b _ _ _ _ _ _ E2 Hg m u Hm Hi) as Hs. rewrite dotV_map, V_zero in Hs.
  pose proof (normal_below (map V p) (image (map (map V) cols) u) (V unit) H2 E1) as Hp.
  rewrite dot_comm, <- dotV_pull in Hp. fold (norm u) in Hp.
  rewrite V_zero, V_add, V_mul in Hc.
  pose proof (top_above m (axpy (opp (mul one H)) (pull cols p) (map (mul unit) q)) b u Hm Hi) as Ht.
  rewrite dotV_axpy, dotV_map, V_opp, V_mul in Ht. unfold value.
  set (g := dotV (snd s) u + total (fst s) u).
  set (N := norm u) in *. set (pp := pull cols p) in *.
  set (tp := V (top (axpy (opp (mul one H)) pp (map (mul unit) q)) b)) in *.
  assert (Hs' : V one * g <= dotV q u + V c * m) by (unfold g; lra).
  assert (A1 : V unit * (V one * g) <= V unit * (dotV q u + V c * m)) by (apply Rmult_le_compat_l; lra).
  assert (A2 : (tp + V unit * V c) * m <= 0 * m) by (apply Rmult_le_compat_r; lra).
  assert (A3 : V one * V H * dotV pp u <= V one * V H * (V unit * N)).
  { apply Rmult_le_compat_l; [|lra]. apply Rmult_le_pos; lra. }
  apply Rmult_le_reg_l with (V unit * V one); [apply Rmult_lt_0_compat; lra|].
  lra.
Qed.

(* ---- quadratic leaves: a form in n = |u|, m and z that bounds 2 A H n (G(u) - H n), turned round ---- *)

Definition magnitude (i : int) : T :=
  let v := ((fetch i << 21) + fetch (i + 1))%uint63 in lift (v land 65535)%uint63 (v >> 16)%uint63.

Fixpoint vector (i : int) (l : list (list T)) : list T :=
  match l with
  | [] => []
  | _ :: l' => sub (token (fetch i)) (half one) :: vector (i + 1)%uint63 l'
  end.

Definition lies (c : T) (k : list T) : bool :=
  leb zero c && leb c one && leb (square k) (mul c c) && leb (square k) (mul (sub one c) (sub one c)).

Fixpoint bends (i : int) (rows : list row) (F : list (list T)) : option (int * list (list T)) :=
  match rows with
  | [] => Some (i, F)
  | Row w r _ _ :: rest =>
      if w then
        let a := magnitude i in
        let s := mul one H in
        if leb a zero then None
        else bends (i + 2)%uint63 rest
               (outer (zero :: zero :: r) (opp s :: zero :: map (mul (opp a)) r)
                 (outer [ofZ 1] [div (opp (mul s s)) (mul (ofZ 4) a)] F))
      else
        let c := token (fetch i) in
        let k := vector (i + 1)%uint63 cols in
        let h := mul (ofZ 2) H in
        if lies c k then
          bends (i + 1 + count cols)%uint63 rest
            (outer (zero :: zero :: r) (mul h c :: zero :: map (mul h) (pull cols k)) F)
        else None
  end.

Fixpoint pulls (i : int) (j : nat) (b : box) (F : list (list T)) : option (list (list T)) :=
  match b with
  | [] => Some F
  | (l, h) :: b' =>
      let d := magnitude i in
      if leb zero d then
        pulls (i + 2)%uint63 (S j) b' (outer (zero :: opp (mul d l) :: repeat zero j ++ [d])
                                         (zero :: opp h :: repeat zero j ++ [ofZ 1]) F)
      else None
  end.

Definition curved (b : box) (s : state) (i : int) : option int :=
  let v := magnitude i in
  let w := mul (ofZ 2) (mul one H) in
  let g := magnitude (i + 2 + 2 * count b)%uint63 in
  let c := half one in
  let k := vector (i + 4 + 2 * count b)%uint63 cols in
  let F := [] :: [] :: map (fun c => zero :: zero :: map (mul v) (pull cols c)) cols in
  let F1 := outer [zero; g] (opp c :: zero :: map opp (pull cols k)) F in
  if leb zero g && lies c k then
    match pulls (i + 2)%uint63 0 b (outer [ofZ 1] (sub (mul w H) v :: zero :: map (mul (opp w)) (snd s)) F1) with
    | None => None
    | Some F' =>
        match bends (i + 4 + 2 * count b + count cols)%uint63 (fst s) F' with
        | None => None
        | Some (i', F'') => if definite (length F'') F'' then Some i' else None
        end
    end
  else None.

Lemma dotV_two : forall a b q n m z, dotV (a :: b :: q) (n :: m :: z) = V a * n + (V b * m + dotV q z).
Proof. reflexivity. Qed.

Lemma dotV_one : forall a n x, dotV [a] (n :: x) = V a * n.
Proof. intros. unfold dotV. simpl. ring. Qed.

Lemma bends_right : 0 < V one -> 0 <= V H -> forall m z rows i F i' F', bends i rows F = Some (i', F') ->
  let x := norm z :: m :: z in
  quad F' x x + 2 * (V one * V H) * (norm z * total rows z) <= quad F x x.
Proof.
  intros H1 HH m z rows. induction rows as [|[w r lo hi] rows IH]; intros i F i' F' E x; cbn [bends] in E.
  - injection E as _ <-. simpl. lra.
  - set (n := norm z) in *. destruct w.
    + set (a := magnitude i) in *. set (s := mul one H) in *.
      destruct (leb a zero) eqn:Ea; [discriminate|].
      assert (Ha : 0 < V a).
      { rewrite leb_toZ in Ea. apply Z.leb_gt in Ea. apply IZR_lt in Ea. fold (V zero) in Ea. fold (V a) in Ea.
        rewrite V_zero in Ea. exact Ea. }
      specialize (IH _ _ _ _ E). cbv zeta in IH. fold n x in IH. rewrite !quad_outer in IH. unfold x in *.
      rewrite !dotV_two, !dotV_one, dotV_map, !V_zero, !V_opp, V_ofZ in IH.
      assert (Hw : 0 < V (mul (ofZ 4) a)) by (rewrite V_mul, V_ofZ; lra).
      destruct (V_div (opp (mul s s)) (mul (ofZ 4) a) Hw) as [D _]. rewrite V_opp, !V_mul, V_ofZ in D.
      set (e := V (div (opp (mul s s)) (mul (ofZ 4) a))) in *.
      assert (Hs : V s = V one * V H) by (unfold s; apply V_mul).
      assert (D' : V s * V s <= 4 * V a * - e) by lra.
      pose proof (bow (V a) (- e) (V s) n (dotV r z) Ha D') as Hb. rewrite Hs in *. simpl total. simpl sign. lra.
    + set (c := token (fetch i)) in *. set (k := vector (i + 1) cols) in *.
      destruct (lies c k) eqn:El; [|discriminate]. unfold lies in El. rewrite !andb_true_iff in El.
      destruct El as [[[L1 L2] L3] L4]. apply leb_true in L1, L2, L3, L4.
      rewrite V_zero in L1. rewrite square_right, V_mul in L3, L4. rewrite !V_sub in L4.
      specialize (IH _ _ _ _ E). cbv zeta in IH. fold n x in IH. rewrite !quad_outer in IH. unfold x in *.
      rewrite !dotV_two, dotV_map, !V_zero, !V_mul, !V_ofZ, dotV_pull in IH.
      pose proof (lever (V c) (V one) (map V k) (image (map (map V) cols) z) (dotV r z) (conj L1 L2) L3 L4) as Hl.
      fold (norm z) in Hl. fold n in Hl. rewrite (dot_comm (map V k)) in Hl.
      set (p := dot (image (map (map V) cols) z) (map V k)) in *.
      assert (Hl' : 2 * V H * (dotV r z * (V c * n + p)) <= 2 * V H * (V one * n * relu (dotV r z)))
        by (apply Rmult_le_compat_l; lra).
      simpl total. simpl sign. lra.
Qed.

Lemma pulls_right : forall n m z b i j F F', pulls i j b F = Some F' -> 
  (forall k l h, nth_error b k = Some (l, h) -> V l * m <= nth (j + k) z 0 <= V h * m) ->
  let x := n :: m :: z in quad F' x x <= quad F x x.
Proof.
  intros n m z. induction b as [|[l h] b IH]; intros i j F F' E Hb x; cbn [pulls] in E.
  - injection E as <-. lra.
  - set (d := magnitude i) in *. destruct (leb zero d) eqn:Ed; [|discriminate].
    apply leb_true in Ed. rewrite V_zero in Ed.
    assert (Hb' : forall k l h, nth_error b k = Some (l, h) -> V l * m <= nth (S j + k) z 0 <= V h * m).
    { intros k l' h' Hk. replace (S j + k)%nat with (j + S k)%nat by lia. apply Hb. exact Hk. }
    specialize (IH _ _ _ _ E Hb'). cbv zeta in IH. fold x in IH. rewrite quad_outer in IH. unfold x in *.
    rewrite !dotV_two, !dotV_zeros, !V_opp, !V_mul, V_zero, V_ofZ in IH.
    specialize (Hb 0%nat l h eq_refl). rewrite Nat.add_0_r in Hb. set (t := nth j z 0) in *.
    assert (0 <= V d * ((t - V l * m) * (V h * m - t))) by (apply Rmult_le_pos; [exact Ed|apply Rmult_le_pos; lra]).
    lra.
Qed.

Lemma inside_each : forall m b u, inside m b u -> forall k l h, nth_error b k = Some (l, h) ->
  V l * m <= nth (0 + k) u 0 <= V h * m.
Proof.
  intros m b. induction b as [|[l0 h0] b IH]; intros [|x u] Hi [|k] l h Hk; simpl in *; try discriminate; try tauto.
  - injection Hk as <- <-. tauto.
  - apply (IH u (proj2 Hi) k l h Hk).
Qed.

Lemma quad_gram : forall v n m z,
  quad ([] :: [] :: map (fun c => zero :: zero :: map (mul v) (pull cols c)) cols) (n :: m :: z) (n :: m :: z)
  = V v * (norm z * norm z).
Proof.
  intros v n m z. unfold norm. rewrite sqrt_sqrt by apply dot_self. simpl quad. rewrite !dotV_nil.
  set (u := image (map (map V) cols) z). unfold u at 1. rewrite dot_image.
  assert (E : forall cs y, quad (map (fun c => zero :: zero :: map (mul v) (pull cols c)) cs) y (n :: m :: z)
                           = V v * dot (map (dot u) (map (map V) cs)) y).
  { induction cs as [|c cs IH]; intros [|a y]; simpl; try ring.
    rewrite IH. change (dotV (zero :: zero :: map (mul v) (pull cols c)) (n :: m :: z))
      with (V zero * n + (V zero * m + dotV (map (mul v) (pull cols c)) z)).
    rewrite dotV_map, dotV_pull, V_zero. fold u. ring. }
  rewrite E. ring.
Qed.

(* the point is m times the box: m (c |u| + k.u) is not negative *)
Lemma lead_right : forall g c k n m z F, V zero <= V g -> lies c k = true -> 0 <= m -> n = norm z ->
  quad (outer [zero; g] (opp c :: zero :: map opp (pull cols k)) F) (n :: m :: z) (n :: m :: z)
  <= quad F (n :: m :: z) (n :: m :: z).
Proof.
  intros g c k n m z F Hg El Hm Hn. unfold lies in El. rewrite !andb_true_iff in El.
  destruct El as [[[L1 _] L3] _]. apply leb_true in L1, L3. rewrite V_zero in *. rewrite square_right, V_mul in L3.
  rewrite quad_outer, !dotV_two, dotV_nil, dotV_opp, dotV_pull, V_opp, V_zero.
  pose proof (length_below (map V k) (image (map (map V) cols) z) (V c) L1 L3) as L.
  fold (norm z) in L. rewrite <- Hn, dot_comm in L. set (p := dot (image (map (map V) cols) z) (map V k)) in *.
  pose proof (Rle_abs (- p)) as Hp. rewrite Rabs_Ropp in Hp.
  assert (0 <= V g * m * (V c * n + p)) by (repeat apply Rmult_le_pos; lra). lra.
Qed.

Lemma curved_right : forall b s i i', 0 < V one -> 0 < V H -> curved b s i = Some i' ->
  forall m z, 0 <= m -> inside m b z -> 0 < norm z -> value s z <= V H * norm z.
Proof.
  intros b s i i' H1 HH Hc m z Hm Hi Hn. unfold curved in Hc.
  set (v := magnitude i) in *. set (w := mul (ofZ 2) (mul one H)) in *.
  set (g := magnitude (i + 2 + 2 * count b)) in *. set (k := vector (i + 4 + 2 * count b) cols) in *.
  destruct (leb zero g) eqn:Eg; [cbn [andb] in Hc|discriminate].
  destruct (lies (half one) k) eqn:Ek; [|discriminate]. apply leb_true in Eg.
  destruct (pulls _ _ b _) as [F'|] eqn:E1 in Hc; [|discriminate].
  destruct (bends _ (fst s) F') as [[i0 F'']|] eqn:E2 in Hc; [|discriminate].
  destruct (definite (length F'') F'') eqn:E3; [|discriminate].
  pose proof (pulls_right (norm z) m z _ _ _ _ _ E1 (inside_each m b z Hi)) as P. cbv zeta in P.
  pose proof (bends_right H1 (Rlt_le _ _ HH) m z _ _ _ _ _ E2) as B. cbv zeta in B.
  pose proof (definite_right _ _ (norm z :: m :: z) E3) as D. rewrite quad_outer in P.
  pose proof (lead_right g (half one) k (norm z) m z
    ([] :: [] :: map (fun c => zero :: zero :: map (mul v) (pull cols c)) cols) Eg Ek Hm eq_refl) as L.
  rewrite quad_gram in L. rewrite dotV_one, dotV_two, dotV_map, V_sub, V_opp, V_zero, V_ofZ, V_mul in P.
  assert (Hw : V w = 2 * (V one * V H)) by (unfold w; rewrite !V_mul, V_ofZ; reflexivity). rewrite Hw in P.
  unfold value. set (n := norm z) in *.
  assert (K : 0 < V one * V H * n) by (repeat apply Rmult_lt_0_compat; assumption).
  apply Rmult_le_reg_l with (V one * V H * n); [exact K|]. lra.
Qed.

Fixpoint place (b : box) (t : int) : nat :=
  match b with
  | [] => 0
  | _ :: b' => if (t =? 1)%uint63 then 0 else S (place b' (t - 1)%uint63)
  end.

(* 0: a leaf, its normal, its slopes. D + 1: a quadratic leaf. j + 1: a cut along j, the lower half, the upper half *)
Fixpoint walk (fuel : nat) (b : box) (s : state) (i : int) : option int :=
  match fuel with
  | O => None
  | S fuel' =>
      let t := fetch i in
      if (t =? 0)%uint63 then
        let after := (i + 1 + 2 * count b)%uint63 in
        if closed b s (i + 1)%uint63 after then Some (after + count (fst s))%uint63 else None
      else if (t =? count b + 1)%uint63 then curved b s (i + 1)%uint63
      else
        let j := place b t in
        match nth_error b j with
        | None => None
        | Some (l, h) =>
            let c := half (add l h) in
            if (leb l c && leb c h)%bool then
              match walk fuel' (upd j (l, c) b) (down j (sub c h) (fst s) (snd s)) (i + 1)%uint63 with
              | None => None
              | Some i' => walk fuel' (upd j (c, h) b) (down j (sub c l) (fst s) (snd s)) i'
              end
            else None
        end
  end.

Lemma walk_right : 0 < V one -> 0 < V unit -> 0 < V H ->
  forall fuel b s i i', walk fuel b s i = Some i' -> Forall (good b) (fst s) ->
  forall m u, 0 <= m -> inside m b u -> 0 < norm u -> value s u <= V H * norm u.
Proof.
  intros H1 H2 H3. induction fuel as [|fuel IH]; intros b s i i' Hw Hg m u Hm Hi Hn0; simpl in Hw; [discriminate|].
  destruct (fetch i =? 0)%uint63; [|destruct (fetch i =? count b + 1)%uint63].
  - destruct (closed b s (i + 1) (i + 1 + 2 * count b))%uint63 eqn:E; [|discriminate].
    eapply closed_right; eauto. lra.
  - eapply curved_right; eauto.
  - set (j := place b (fetch i)) in *.
    destruct (nth_error b j) as [[l h]|] eqn:Hn; [|discriminate].
    set (c := half (add l h)) in *.
    destruct (leb l c) eqn:E1; simpl in Hw; [|discriminate].
    destruct (leb c h) eqn:E2; simpl in Hw; [|discriminate].
    apply leb_true in E1. apply leb_true in E2.
    destruct (walk fuel (upd j (l, c) b) (down j (sub c h) (fst s) (snd s)) (i + 1)%uint63) as [k|] eqn:W1;
      [|discriminate].
    destruct s as [rows linear]. cbn [fst snd] in *.
    destruct (down_right b _ j (sub c h) rows linear (shrinks_lower b j l h c Hn E2) Hg) as [L1 L2].
    destruct (down_right b _ j (sub c l) rows linear (shrinks_upper b j l h c Hn E1) Hg) as [U1 U2].
    destruct (inside_cut m j b u l h c Hn Hi) as [Hl|Hu].
    + rewrite <- (L2 m u Hm Hl). eapply IH; eauto.
    + rewrite <- (U2 m u Hm Hu). eapply IH; eauto.
Qed.

(* ---- all facets, both signs ---- *)

Definition face (dim : nat) (side : T) (corner : T) (a : nat) : box :=
  map (fun j => if Nat.eqb j a then (side, side) else (opp corner, corner)) (seq 0 dim).

Definition faces (dim : nat) (corner : T) : list box :=
  flat_map (fun a => [face dim corner corner a; face dim (opp corner) corner a]) (seq 0 dim).

Lemma faces_cover : forall dim c u, 0 < V c -> length u = S dim ->
  exists b m, In b (faces (S dim) c) /\ 0 <= m /\ inside m b u.
Proof.
  intros dim c u Hc Hl.
  destruct (largest u) as [a [Ha Hmax]]; [intros ->; discriminate|].
  set (x := nth a u 0) in *.
  assert (Hin : forall side, side = c \/ side = opp c -> In (face (S dim) side c a) (faces (S dim) c)).
  { intros side Hside. unfold faces. apply in_flat_map. exists a. split; [apply in_seq; lia|].
    destruct Hside as [-> | ->]; simpl; auto. }
  assert (Hm : 0 <= Rabs x / V c).
  { apply Rmult_le_pos; [apply Rabs_pos|]. left. apply Rinv_0_lt_compat. exact Hc. }
  assert (Hx : V c * (Rabs x / V c) = Rabs x) by (field; lra).
  assert (Hface : forall side, V side * (Rabs x / V c) = x -> inside (Rabs x / V c) (face (S dim) side c a) u).
  { intros side Hs. unfold face. apply inside_nth with (d := (zero, zero)).
    - rewrite map_length, seq_length. auto.
    - intros j Hj. set (f := fun j0 => if Nat.eqb j0 a then (side, side) else (opp c, c)).
      rewrite (nth_indep (map f (seq 0 (S dim))) (zero, zero) (f 0%nat)) by (rewrite map_length, seq_length; lia).
      rewrite (map_nth f), seq_nth by lia. unfold f. simpl Nat.add.
      destruct (Nat.eqb j a) eqn:E.
      + apply Nat.eqb_eq in E. subst j. simpl. fold x. rewrite Hs. lra.
      + simpl. rewrite V_opp. specialize (Hmax j Hj).
        assert (- V c * (Rabs x / V c) = - Rabs x) by (field; lra).
        rewrite H0, Hx. unfold Rabs in Hmax at 1. destruct (Rcase_abs (nth j u 0)); split; lra. }
  destruct (Rle_dec 0 x).
  - exists (face (S dim) c c a), (Rabs x / V c). split; [auto|]. split; [exact Hm|].
    apply Hface. rewrite Hx. apply Rabs_right. lra.
  - exists (face (S dim) (opp c) c a), (Rabs x / V c). split; [auto|]. split; [exact Hm|].
    apply Hface. rewrite V_opp. unfold Rabs in *. destruct (Rcase_abs x); [|lra]. field. lra.
Qed.

Fixpoint walks (fuel : nat) (rs : list (bool * list T)) (bs : list box) (i : int) : option int :=
  match bs with
  | [] => Some i
  | b :: rest =>
      match walk fuel b (start b rs) i with
      | None => None
      | Some i' => walks fuel rs rest i'
      end
  end.

Lemma walks_right : 0 < V one -> 0 < V unit -> 0 < V H ->
  forall fuel rs bs i i', walks fuel rs bs i = Some i' ->
  forall b m u, In b bs -> 0 <= m -> inside m b u -> 0 < norm u -> height rs u <= V H * norm u.
Proof.
  intros H1 H2 H3 fuel rs. induction bs as [|b0 bs IH]; intros i i' Hw b m u Hb Hm Hi Hn; [destruct Hb|].
  simpl in Hw. destruct (walk fuel b0 (start b0 rs) i) as [k|] eqn:W; [|discriminate].
  destruct Hb as [-> | Hb].
  - destruct (start_right b rs) as [S1 S2]. rewrite <- (S2 m u Hm Hi). eapply walk_right; eauto.
  - eapply IH; eauto.
Qed.

Definition flip (rs : list (bool * list T)) : list (bool * list T) := map (fun x => (negb (fst x), snd x)) rs.

Lemma height_flip : forall rs u, height (flip rs) u = - height rs u.
Proof. induction rs as [|[w r] rs IH]; intros u; simpl; [ring|]. rewrite IH. destruct w; simpl; ring. Qed.

Definition covered (fuel : nat) (dim : nat) (corner : T) (rs : list (bool * list T)) : bool :=
  match walks fuel rs (faces dim corner) 0%uint63 with
  | None => false
  | Some i =>
      match walks fuel (flip rs) (faces dim corner) i with
      | None => false
      | Some i' => ((i' + 2) / 3 =? PArray.length cert)%uint63
      end
  end.

Lemma covered_right : forall fuel dim corner rs, 0 < V one -> 0 < V unit -> 0 < V H -> 0 < V corner ->
  covered fuel (S dim) corner rs = true -> forall u, length u = S dim -> 0 < norm u ->
  height rs u <= V H * norm u /\ - height rs u <= V H * norm u.
Proof.
  intros fuel dim corner rs H1 H2 H3 H4 Hc u Hu Hn. unfold covered in Hc.
  destruct (walks fuel rs (faces (S dim) corner) 0%uint63) as [i|] eqn:E1; [|discriminate].
  destruct (walks fuel (flip rs) (faces (S dim) corner) i) as [i'|] eqn:E2; [|discriminate].
  destruct (faces_cover dim corner u H4 Hu) as [b [m [Hb [Hm Hi]]]].
  split; [|rewrite <- height_flip]; eapply walks_right; eauto.
Qed.

End Certificate.

(* ---- the bound ---- *)

Definition lifted (lam : Z) (x : list Z) : bool * list T :=
  ((0 <=? lam)%Z, map (fun c => ofZ (Z.abs lam * c)) x).

Definition rows_of (t : table) (lam : list Z) : list (bool * list T) :=
  map (fun lp => lifted (fst lp) (fst (snd lp) ++ [bias t])) (combine lam (points t)).

Definition pairing (t : table) (lam : list Z) : Z :=
  fold_right (fun lp s => (fst lp * snd (snd lp) + s)%Z) 0%Z (combine lam (points t)).

Definition weights (lam : list Z) : Z := fold_right Z.add 0%Z lam.

(* the sum of the multipliers is zero where the output bias is free; what it costs where it is penalised: (M / H)^2 *)
Definition balanced (s : shift) (M : Z) : bool := match s with Free => (M =? 0)%Z | _ => true end.
Definition paid (s : shift) (M : Z) : Z := match s with Penalized => M * M | _ => 0 end%Z.

(* numerator / denominator <= 2 S (y_unit / x_unit) / H - paid / H^2 *)
Definition claims (t : table) (S H Q num den : Z) : bool :=
  let '(a, b) := x_unit t in let '(c, d) := y_unit t in
  ((0 <? a) && (0 <? b) && (0 <? d) && (num * (H * H) * (a * d) <=? den * (2 * S * H * (c * b) - Q * (a * d))))%Z.

Definition same (A B : list (list Z)) : bool := if list_eq_dec (list_eq_dec Z.eq_dec) A B then true else false.

Definition pulled (cols : list (list T)) (rs : list (bool * list T)) : list (bool * list T) :=
  map (fun x => (fst x, pull cols (snd x))) rs.

Lemma height_pulled : forall cols z u rs, (forall p, dot (image (map (map V) cols) z) p = dot u p) ->
  height (pulled cols rs) z = height rs u.
Proof.
  intros cols z u rs Hu. induction rs as [|[w r] rs IH]; simpl; [reflexivity|].
  rewrite IH, dotV_pull, Hu. unfold dotV. rewrite dot_comm. reflexivity.
Qed.

Definition units (cols : list (list Z)) : list (list T) := map (map ofZ) cols.

Lemma V_units : forall cols, map (map V) (units cols) = map (map IZR) cols.
Proof.
  intros. unfold units. rewrite map_map. apply map_ext. intros c. rewrite map_map. apply map_ext. intros z. apply V_ofZ.
Qed.

(* |G(u)| <= H |u| for all u, shown by a cover. cols, inverse, scale: a basis of R^D in columns, and integers with
   cols * inverse = scale *)
Definition bounded (t : table) (lam : list Z) (H one unit corner : Z) (cols inverse : list (list Z)) (scale : Z)
  (fuel : nat) (cert : PArray.array int) : bool :=
  ((0 <? H) && (0 <? one) && (0 <? unit) && (0 <? corner) && (0 <? scale))%Z
  && Nat.eqb (length inverse) (S (dimension t))
  && same (product (combine cols inverse)) (diagonal scale (S (dimension t)))
  && covered cert (ofZ one) (ofZ unit) (ofZ H) (units cols) fuel (S (dimension t)) (ofZ corner)
       (pulled (units cols) (rows_of t lam)).

Definition sizes (t : table) (lam : list Z) : bool :=
  Nat.eqb (length lam) (length (points t)) && forallb (fun p => Nat.eqb (length (fst p)) (dimension t)) (points t).

Definition check (t : table) (s : shift) (num den : Z) (lam : list Z) (H one unit corner : Z)
  (cols inverse : list (list Z)) (scale : Z) (fuel : nat) (cert : PArray.array int) : bool :=
  let M := (bias t * weights lam)%Z in
  (0 <? den)%Z && sizes t lam && balanced s M && claims t (pairing t lam) H (paid s M) num den
  && bounded t lam H one unit corner cols inverse scale fuel cert.

(* sum over neurons of v G(w) *)
Fixpoint action (f : network) (rs : list (bool * list T)) : R :=
  match f with
  | [] => 0
  | (v, w) :: f' => v * height rs w + action f' rs
  end.

Lemma action_cons : forall f w r rs, action f ((w, r) :: rs) = action f [(w, r)] + action f rs.
Proof. induction f as [|[v u] f IH]; intros w r rs; simpl; [ring|]. rewrite IH. simpl. ring. Qed.

Lemma action_first : forall f x rs, action f (x :: rs) = action f [x] + action f rs.
Proof. intros f [w r] rs. apply action_cons. Qed.

Lemma action_nil : forall f, action f [] = 0.
Proof. induction f as [|[v u] f IH]; simpl; [ring|]. rewrite IH. ring. Qed.

Definition size (unit : Z * Z) : R := IZR (fst unit) / IZR (snd unit).

Lemma dot_real : forall e z w, dot w (map (real e) z) = size e * dot (map IZR z) w.
Proof.
  induction z as [|c z IH]; destruct w as [|x w]; simpl; try ring. rewrite IH. unfold real, size, Rdiv. ring.
Qed.

Lemma dotV_lifted : forall lam z w, dotV (snd (lifted lam z)) w = IZR (Z.abs lam) * dot (map IZR z) w.
Proof.
  unfold dotV, lifted. simpl. induction z as [|c z IH]; destruct w as [|x w]; simpl; try ring.
  rewrite IH, V_ofZ, mult_IZR. ring.
Qed.

Lemma action_row : forall e lam z f, 0 <= size e ->
  IZR lam * output f (map (real e) z) = size e * action f [lifted lam z].
Proof.
  intros e lam z f He. induction f as [|[v w] f IH]; simpl; [ring|].
  rewrite Rmult_plus_distr_l, IH, dot_real, (relu_scale (size e)) by lra.
  change (map (fun c => ofZ (Z.abs lam * c)) z) with (snd (lifted lam z)). rewrite dotV_lifted.
  assert (Ha : 0 <= IZR (Z.abs lam)) by (apply IZR_le, Z.abs_nonneg).
  rewrite (relu_scale (IZR (Z.abs lam))) by exact Ha.
  change (height [lifted lam z]) with (height [lifted lam z]).
  destruct (0 <=? lam)%Z eqn:E; simpl sign.
  - apply Z.leb_le in E. rewrite Z.abs_eq by lia. unfold lifted. simpl. ring.
  - apply Z.leb_gt in E. rewrite Z.abs_neq by lia. rewrite opp_IZR. unfold lifted. ring.
Qed.

(* the sum of the multipliers times what a network says *)
Lemma said : forall t f b lam, 0 <= size (x_unit t) -> length lam = length (points t) ->
  fold_right (fun lp sum => IZR (fst lp) * prediction t f b (fst (snd lp)) + sum) 0 (combine lam (points t))
  = size (x_unit t) * (action f (rows_of t lam) + IZR (bias t * weights lam) * b).
Proof.
  intros t f b lam Hx Hl. unfold rows_of, weights. revert lam Hl. generalize (points t) as ps.
  induction ps as [|[x y] ps IH]; intros [|l lam] Hl; simpl in Hl; try discriminate; simpl.
  - rewrite action_nil, Z.mul_0_r. ring.
  - injection Hl as Hl. rewrite (IH lam Hl), action_first, Z.mul_add_distr_l, plus_IZR, !mult_IZR. unfold prediction.
    rewrite Rmult_plus_distr_l, (action_row (x_unit t) l (x ++ [bias t]) f Hx).
    unfold real, size, Rdiv. simpl. ring.
Qed.

Lemma pairing_right : forall t f b lam, 0 <= size (x_unit t) -> length lam = length (points t) ->
  (forall x y, In (x, y) (points t) -> prediction t f b x = real (y_unit t) y) ->
  IZR (pairing t lam) * size (y_unit t)
  = size (x_unit t) * (action f (rows_of t lam) + IZR (bias t * weights lam) * b).
Proof.
  intros t f b lam Hx Hl Hf. rewrite <- (said t f b lam Hx Hl). unfold pairing. clear Hl.
  revert Hf lam. generalize (points t) as ps. intros ps Hf.
  induction ps as [|[x y] ps IH]; intros [|l lam]; simpl; try ring.
  rewrite plus_IZR, mult_IZR, Rmult_plus_distr_r, IH by (intros; apply Hf; right; assumption).
  rewrite (Hf x y) by (left; reflexivity). unfold real, size, Rdiv. ring.
Qed.

Lemma action_bound : forall D H rs f, 0 <= H ->
  (forall u, length u = D -> height rs u <= H * sqrt (dot u u) /\ - height rs u <= H * sqrt (dot u u)) ->
  Forall (fun neuron => length (snd neuron) = D) f -> 2 * action f rs <= H * norm2 f.
Proof.
  intros D H rs f HH Hc Hf. induction Hf as [|[v w] f Hw Hf IH]; simpl; [lra|].
  simpl in Hw. destruct (Hc w Hw) as [H1 H2]. pose proof (neuron v (height rs w) H w HH H1 H2). lra.
Qed.

Lemma height_zero : forall u, dot u u <= 0 -> forall rs, height rs u = 0.
Proof.
  intros u Hu. induction rs as [|[w r] rs IH]; simpl; [reflexivity|].
  unfold dotV. rewrite IH, (dot_zero u (map V r) Hu), relu_pos by lra. ring.
Qed.

Lemma bounded_right : forall t lam H one unit corner cols inverse scale fuel cert f,
  bounded t lam H one unit corner cols inverse scale fuel cert = true -> fits t f ->
  0 < IZR H /\ 2 * action f (rows_of t lam) <= IZR H * norm2 f.
Proof.
  intros t lam H one unit corner cols inverse scale fuel cert f Hc Hfit. unfold bounded in Hc.
  rewrite !andb_true_iff in Hc.
  destruct Hc as [[[[[[[H2 H3] H4] H5] Hscale] Hlen] Hsame] Hcov].
  apply Z.ltb_lt in Hscale. apply IZR_lt in Hscale. apply Nat.eqb_eq in Hlen.
  unfold same in Hsame. destruct (list_eq_dec (list_eq_dec Z.eq_dec) _ _) as [Hprod|]; [|discriminate].
  apply Z.ltb_lt in H2, H3, H4, H5. apply IZR_lt in H2, H3, H4, H5. split; [exact H2|].
  apply action_bound with (D := S (dimension t)); [lra| |exact Hfit].
  intros u Hu. destruct (Rle_dec (dot u u) 0) as [Hu0|Hu0].
  { rewrite (height_zero u Hu0). pose proof (sqrt_pos (dot u u)). assert (0 <= IZR H * sqrt (dot u u)) by (apply Rmult_le_pos; lra). lra. }
  rewrite <- (V_ofZ H). rewrite <- Hu in Hprod.
  set (z := map (fun w => dot (map IZR w) u / IZR scale) inverse).
  assert (Hd : IZR scale <> 0) by lra.
  pose proof (basis scale cols inverse u Hd Hprod) as Hb. fold z in Hb. rewrite <- V_units in Hb.
  assert (Hz : length z = S (dimension t)) by (unfold z; rewrite map_length; exact Hlen).
  assert (Hn : norm (units cols) z = sqrt (dot u u)).
  { unfold norm. rewrite Hb, dot_comm, Hb. reflexivity. }
  rewrite <- Hn, <- (height_pulled (units cols) z u (rows_of t lam) Hb).
  assert (Hp : 0 < norm (units cols) z) by (rewrite Hn; apply sqrt_lt_R0; lra).
  refine (covered_right cert _ _ _ _ fuel _ _ _ _ _ _ _ Hcov z Hz Hp); rewrite V_ofZ; lra.
Qed.

Lemma size_positive : forall e, (0 < fst e)%Z -> (0 < snd e)%Z -> 0 < size e.
Proof.
  intros e H1 H2. apply IZR_lt in H1, H2. unfold size, Rdiv. apply Rmult_lt_0_compat; [lra|].
  apply Rinv_0_lt_compat. lra.
Qed.

(* what the output bias adds: k M b <= k^2 paid / (4 l) + l (b^2 where it is penalised), l > 0 *)
Lemma shifted : forall s M b k l, 0 < l -> allowed s b -> balanced s M = true ->
  k * (IZR M * b) <= k * k * IZR (paid s M) / (4 * l) + l * (cost s [] b).
Proof.
  intros s M b k l Hl Ha Hm. unfold cost. destruct s; simpl in *.
  - rewrite Ha. unfold Rdiv. lra.
  - rewrite mult_IZR. apply Rmult_le_reg_l with (4 * l); [lra|].
    replace (4 * l * (k * k * (IZR M * IZR M) / (4 * l) + l * (0 + b * b)))
      with (k * k * (IZR M * IZR M) + 4 * l * l * (b * b)) by (field; lra).
    pose proof (Rle_0_sqr (k * IZR M - 2 * l * b)) as Hs. unfold Rsqr in Hs. nra.
  - apply Z.eqb_eq in Hm. subst M. unfold Rdiv. lra.
Qed.

Lemma cost_split : forall s f b, cost s f b = norm2 f + cost s [] b.
Proof. intros. unfold cost. simpl. ring. Qed.

Theorem check_right : forall t s num den lam H one unit corner cols inverse scale fuel cert,
  check t s num den lam H one unit corner cols inverse scale fuel cert = true -> lower_bound t s num den.
Proof.
  intros t s num den lam H one unit corner cols inverse scale fuel cert Hc f b Hfit Ha Hf. unfold check in Hc.
  rewrite !andb_true_iff in Hc. destruct Hc as [[[[H1 Hsize] Hzero] Hclaim] Hbound].
  apply Z.ltb_lt in H1. apply IZR_lt in H1.
  unfold sizes in Hsize. rewrite andb_true_iff in Hsize. destruct Hsize as [Hlen _]. apply Nat.eqb_eq in Hlen.
  destruct (bounded_right _ _ _ _ _ _ _ _ _ _ _ f Hbound Hfit) as [H2 Hb].
  unfold claims in Hclaim. destruct (x_unit t) as [xa xb] eqn:Ex. destruct (y_unit t) as [ya yb] eqn:Ey.
  rewrite !andb_true_iff in Hclaim. destruct Hclaim as [[[C1 C2] C3] C4].
  apply Z.ltb_lt in C1, C2, C3. apply Z.leb_le in C4.
  assert (Hx : 0 <= size (x_unit t)) by (rewrite Ex; left; apply size_positive; assumption).
  apply IZR_lt in C1, C2, C3. apply IZR_le in C4. rewrite !mult_IZR, minus_IZR, !mult_IZR in C4.
  rewrite <- Ey in Hf. pose proof (pairing_right t f b lam Hx Hlen Hf) as Hp. rewrite Ex, Ey in Hp. unfold size in Hp. simpl in Hp.
  pose proof (shifted s (bias t * weights lam) b 2 (IZR H) H2 Ha Hzero) as Hs. rewrite cost_split.
  set (S := pairing t lam) in *. set (N := norm2 f) in *. set (G := action f (rows_of t lam)) in *.
  set (M := (bias t * weights lam)%Z) in *. set (Q := paid s M) in *. set (B := cost s [] b) in *.
  assert (Hq : 2 * (IZR M * b) * IZR H <= IZR Q + IZR H * IZR H * B).
  { replace (IZR Q + IZR H * IZR H * B) with ((2 * 2 * IZR Q / (4 * IZR H) + IZR H * B) * IZR H) by (field; lra).
    apply Rmult_le_compat_r; [lra | exact Hs]. }
  assert (He : IZR S * (IZR ya * IZR xb) = IZR xa * IZR yb * (G + IZR M * b)).
  { replace (IZR S * (IZR ya * IZR xb)) with (IZR S * (IZR ya / IZR yb) * (IZR xb * IZR yb)) by (field; lra).
    rewrite Hp. field. lra. }
  assert (P : 0 < IZR xa * IZR yb) by (apply Rmult_lt_0_compat; lra).
  assert (K : 2 * IZR S * IZR H * (IZR ya * IZR xb) - IZR Q * (IZR xa * IZR yb)
              <= IZR H * IZR H * (IZR xa * IZR yb) * (N + B)).
  { replace (2 * IZR S * IZR H * (IZR ya * IZR xb)) with (2 * IZR H * (IZR S * (IZR ya * IZR xb))) by ring. rewrite He.
    replace (2 * IZR H * (IZR xa * IZR yb * (G + IZR M * b)))
      with ((IZR xa * IZR yb) * (IZR H * (2 * G) + 2 * (IZR M * b) * IZR H)) by ring.
    assert (IZR H * (2 * G) <= IZR H * (IZR H * N)) by (apply Rmult_le_compat_l; lra).
    assert ((IZR xa * IZR yb) * (IZR H * (2 * G) + 2 * (IZR M * b) * IZR H)
            <= (IZR xa * IZR yb) * (IZR H * (IZR H * N) + (IZR Q + IZR H * IZR H * B)))
      by (apply Rmult_le_compat_l; lra). lra. }
  apply Rmult_le_reg_l with (IZR den * (IZR H * IZR H * (IZR xa * IZR yb))).
  { repeat apply Rmult_lt_0_compat; lra. }
  replace (IZR den * (IZR H * IZR H * (IZR xa * IZR yb)) * (IZR num / IZR den))
    with (IZR num * (IZR H * IZR H) * (IZR xa * IZR yb)) by (field; lra).
  apply Rle_trans with (1 := C4).
  replace (IZR den * (IZR H * IZR H * (IZR xa * IZR yb)) * (N + B))
    with (IZR den * (IZR H * IZR H * (IZR xa * IZR yb) * (N + B))) by ring.
  apply Rmult_le_compat_l; [lra|]. exact K.
Qed.

End Checker.

(* ---- two arithmetics ---- *)

Module PlainZ <: ARITHMETIC.
  Definition T := Z.
  Definition toZ (z : Z) := z.
  Definition ofZ (z : Z) := z.
  Definition add := Z.add.
  Definition sub := Z.sub.
  Definition mul := Z.mul.
  Definition opp := Z.opp.
  Definition leb := Z.leb.
  Definition div := Z.div.
  Definition half := Z.div2.
  Definition token := Uint63.to_Z.
  Definition lift (a b : int) := Z.shiftl (Uint63.to_Z a) (Uint63.to_Z b).
  Lemma toZ_ofZ : forall z, toZ (ofZ z) = z. Proof. reflexivity. Qed.
  Lemma toZ_add : forall a b, toZ (add a b) = (toZ a + toZ b)%Z. Proof. reflexivity. Qed.
  Lemma toZ_sub : forall a b, toZ (sub a b) = (toZ a - toZ b)%Z. Proof. reflexivity. Qed.
  Lemma toZ_mul : forall a b, toZ (mul a b) = (toZ a * toZ b)%Z. Proof. reflexivity. Qed.
  Lemma toZ_opp : forall a, toZ (opp a) = (- toZ a)%Z. Proof. reflexivity. Qed.
  Lemma toZ_div : forall a b, toZ (div a b) = (toZ a / toZ b)%Z. Proof. reflexivity. Qed.
  Lemma leb_toZ : forall a b, leb a b = (toZ a <=? toZ b)%Z. Proof. reflexivity. Qed.
End PlainZ.

Module Words <: ARITHMETIC.
  Definition T := BigZ.t.
  Definition toZ := BigZ.to_Z.
  Definition ofZ := BigZ.of_Z.
  Definition add := BigZ.add.
  Definition sub := BigZ.sub.
  Definition mul := BigZ.mul.
  Definition opp := BigZ.opp.
  Definition leb := BigZ.leb.
  Definition div := BigZ.div.
  Definition half := BigZ.div2.
  Definition token (i : int) := BigZ.Pos (BigN.N0 i).
  Definition lift (a b : int) := BigZ.shiftl (token a) (token b).
  Lemma toZ_ofZ : forall z, toZ (ofZ z) = z. Proof. exact BigZ.spec_of_Z. Qed.
  Lemma toZ_add : forall a b, toZ (add a b) = (toZ a + toZ b)%Z. Proof. exact BigZ.spec_add. Qed.
  Lemma toZ_sub : forall a b, toZ (sub a b) = (toZ a - toZ b)%Z. Proof. exact BigZ.spec_sub. Qed.
  Lemma toZ_mul : forall a b, toZ (mul a b) = (toZ a * toZ b)%Z. Proof. exact BigZ.spec_mul. Qed.
  Lemma toZ_opp : forall a, toZ (opp a) = (- toZ a)%Z. Proof. exact BigZ.spec_opp. Qed.
  Lemma toZ_div : forall a b, toZ (div a b) = (toZ a / toZ b)%Z. Proof. exact BigZ.spec_div. Qed.
  Lemma leb_toZ : forall a b, leb a b = (toZ a <=? toZ b)%Z. Proof. exact BigZ.spec_leb. Qed.
End Words.

Module Plain := Checker PlainZ.
Module Fast := Checker Words.
