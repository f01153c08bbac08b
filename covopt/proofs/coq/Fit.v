(* The checker of fits: the same cover, and Fenchel and Young's inequality for the loss. *)
From Coq Require Import Uint63.
From Coq Require PArray.
From Coq Require Import Reals ZArith List Lra Lia Psatz Bool.
From Covopt Require Import Statement Losses Cover Reflect.
Import ListNotations.
Local Open Scope R_scope.

(* ---- loss(f, y) / n + c f >= c y - quarters n c^2 / 4, for the c that are allowed ---- *)

Definition quarters (kind : loss) : Z := match kind with Squared | SquaredHinge => 1 | Huber _ => 2 | Hinge => 0 end.

Definition inside_domain (kind : loss) (n c y : R) : Prop :=
  match kind with
  | Squared => True
  | Huber delta => Rabs (n * c) <= real delta 1
  | Hinge => y * y = 1 /\ 0 <= c * y /\ n * (c * y) <= 1
  | SquaredHinge => y * y = 1 /\ 0 <= c * y
  end.

Lemma young : forall kind n c f y, 0 < n -> inside_domain kind n c y ->
  c * (y - f) - IZR (quarters kind) * (n * (c * c)) / 4 <= loss_at kind f y / n.
Proof.
  intros kind n c f y Hn Hd. apply Rmult_le_reg_l with n; [lra|].
  replace (n * (loss_at kind f y / n)) with (loss_at kind f y) by (field; lra).
  set (a := n * c) in *. replace (n * (c * (y - f) - IZR (quarters kind) * (n * (c * c)) / 4))
    with (a * (y - f) - IZR (quarters kind) * (a * a) / 4) by (unfold a; field).
  destruct kind as [|delta| |]; simpl in *.
  - pose proof (Rle_0_sqr (f - y + a / 2)) as Hs. unfold Rsqr in Hs. lra.
  - fold a in Hd. set (D := real delta 1) in *. destruct (Rle_dec (Rabs (f - y)) D) as [Hf|Hf].
    + pose proof (Rle_0_sqr (f - y + a)) as Hs. unfold Rsqr in Hs. lra.
    + apply Rnot_le_lt in Hf. assert (H1 : a * (y - f) <= Rabs a * Rabs (f - y)).
      { rewrite <- Rabs_mult. replace (a * (y - f)) with (- (a * (f - y))) by ring.
        pose proof (Rle_abs (- (a * (f - y)))) as Hr. rewrite Rabs_Ropp in Hr. exact Hr. }
      assert (H2 : 0 <= (D - Rabs a) * (Rabs (f - y) - D)) by (apply Rmult_le_pos; lra).
      assert (H3 : a * a = Rabs a * Rabs a) by (rewrite <- Rabs_mult, Rabs_right; [ring|apply Rle_ge, Rle_0_sqr]).
      pose proof (Rle_0_sqr (D - Rabs a)) as Hs. unfold Rsqr in Hs. lra.
  - destruct Hd as [Hy [H1 H2]]. pose proof (Rmax_l 0 (1 - y * f)). pose proof (Rmax_r 0 (1 - y * f)).
    replace (a * (y - f)) with ((n * (c * y)) * (1 - y * f)) by (unfold a; transitivity (n * c * (y - (y * y) * f)); [ring|rewrite Hy; ring]).
    assert (0 <= n * (c * y)) by (apply Rmult_le_pos; lra). nra.
  - destruct Hd as [Hy H1]. pose proof (Rmax_l 0 (1 - y * f)). pose proof (Rmax_r 0 (1 - y * f)).
    set (m := Rmax 0 (1 - y * f)) in *. set (e := n * (c * y)).
    replace (a * (y - f)) with (e * (1 - y * f)) by (unfold a, e; transitivity (n * c * (y - (y * y) * f)); [ring|rewrite Hy; ring]).
    replace (a * a) with (e * e) by (unfold a, e; transitivity ((n * c) * (n * c) * (y * y)); [ring|rewrite Hy; ring]).
    assert (0 <= e) by (apply Rmult_le_pos; lra).
    assert (e * (1 - y * f) <= e * m) by (apply Rmult_le_compat_l; lra).
    pose proof (Rle_0_sqr (m - e / 2)) as Hs. unfold Rsqr in Hs. lra.
Qed.

Module Fits (A : ARITHMETIC).
Module Core := Checker A.
Import Core.

Definition squares (lam : list Z) : Z := fold_right (fun l sum => (l * l + sum)%Z) 0%Z lam.

(* kappa l = (kn / kd) l is allowed for a target y (c / d), n = number of points *)
Definition allows (kind : loss) (n kn kd c d l y : Z) : bool :=
  match kind with
  | Squared => true
  | Huber delta => ((0 <? snd delta) && (n * (kn * Z.abs l) * snd delta <=? fst delta * kd))%Z
  | Hinge => ((c * y * (c * y) =? d * d) && (0 <=? l * (c * y)) && (n * (kn * (l * (c * y))) <=? kd * d))%Z
  | SquaredHinge => ((c * y * (c * y) =? d * d) && (0 <=? l * (c * y)))%Z
  end.

(* kappa = 2 decay / (x_unit H) = kn / kd;
   num / den <= kappa y_unit S - quarters n kappa^2 sum of l^2 / 4 - decay paid / H^2 *)
Definition fit_claims (t : table) (kind : loss) (decay : Z * Z) (lam : list Z) (H Q num den : Z) : bool :=
  let '(a, b) := x_unit t in let '(c, d) := y_unit t in let '(l, m) := decay in
  let n := Z.of_nat (length (points t)) in
  let kn := (2 * l * b)%Z in let kd := (m * a * H)%Z in
  ((0 <? a) && (0 <? b) && (0 <? d) && (0 <? l) && (0 <? m))%Z
  && forallb (fun lp => allows kind n kn kd c d (fst lp) (snd (snd lp))) (combine lam (points t))
  && (num * (4 * (kd * kd) * d * m * (H * H))
      <=? den * (4 * kn * kd * c * pairing t lam * m * (H * H)
                 - quarters kind * n * (kn * kn) * squares lam * d * m * (H * H) - 4 * l * Q * (kd * kd) * d))%Z.

Definition check_fit (t : table) (s : shift) (kind : loss) (decay : Z * Z) (num den : Z) (lam : list Z)
  (H one unit corner : Z) (cols inverse : list (list Z)) (scale : Z) (fuel : nat) (cert : PArray.array int) : bool :=
  let M := (bias t * weights lam)%Z in
  (0 <? den)%Z && (0 <? Z.of_nat (length (points t)))%Z && sizes t lam && balanced s M
  && fit_claims t kind decay lam H (paid s M) num den
  && bounded t lam H one unit corner cols inverse scale fuel cert.

Lemma allows_right : forall kind n kn kd c d l y, (0 < n)%Z -> (0 < kn)%Z -> (0 < kd)%Z -> (0 < d)%Z ->
  allows kind n kn kd c d l y = true ->
  inside_domain kind (IZR n) (IZR kn / IZR kd * IZR l) (real (c, d) y).
Proof.
  intros kind n kn kd c d l y Hn Hkn Hkd Hd H.
  apply IZR_lt in Hn, Hkn, Hkd, Hd.
  assert (Hy : forall z, (c * z * (c * z) =? d * d)%Z = true -> real (c, d) z * real (c, d) z = 1).
  { intros z Hz. apply Z.eqb_eq in Hz. apply (f_equal IZR) in Hz. rewrite !mult_IZR in Hz. unfold real. simpl.
    apply Rmult_eq_reg_r with (IZR d * IZR d); [|apply Rgt_not_eq, Rmult_lt_0_compat; lra].
    transitivity (IZR c * IZR z * (IZR c * IZR z)); [field; lra|]. rewrite Hz. ring. }
  assert (Hp : (0 <=? l * (c * y))%Z = true -> 0 <= IZR kn / IZR kd * IZR l * real (c, d) y).
  { intros Hz. apply Z.leb_le in Hz. apply IZR_le in Hz. rewrite !mult_IZR in Hz. unfold real. simpl.
    replace (IZR kn / IZR kd * IZR l * (IZR y * IZR c / IZR d))
      with ((IZR kn * (IZR l * (IZR c * IZR y))) * / (IZR kd * IZR d)) by (field; lra).
    apply Rmult_le_pos; [apply Rmult_le_pos; lra|]. left. apply Rinv_0_lt_compat. apply Rmult_lt_0_compat; lra. }
  destruct kind as [|[dn dd]| |]; simpl in *.
  - exact I.
  - rewrite andb_true_iff in H. destruct H as [H1 H2]. apply Z.ltb_lt in H1. apply Z.leb_le in H2.
    apply IZR_lt in H1. apply IZR_le in H2. rewrite !mult_IZR, abs_IZR in H2. unfold real. simpl.
    replace (IZR n * (IZR kn / IZR kd * IZR l)) with ((IZR n * IZR kn / IZR kd) * IZR l) by (field; lra).
    assert (0 <= IZR n * IZR kn / IZR kd).
    { unfold Rdiv. apply Rmult_le_pos; [apply Rmult_le_pos; lra|left; apply Rinv_0_lt_compat; lra]. }
    rewrite Rabs_mult, (Rabs_right (IZR n * IZR kn / IZR kd)) by lra.
    apply Rmult_le_reg_l with (IZR kd * IZR dd); [apply Rmult_lt_0_compat; lra|].
    replace (IZR kd * IZR dd * (IZR n * IZR kn / IZR kd * Rabs (IZR l)))
      with (IZR n * (IZR kn * Rabs (IZR l)) * IZR dd) by (field; lra).
    replace (IZR kd * IZR dd * (1 * IZR dn / IZR dd)) with (IZR dn * IZR kd) by (field; lra). exact H2.
  - rewrite !andb_true_iff in H. destruct H as [[H1 H2] H3]. split; [apply Hy; exact H1|split; [apply Hp; exact H2|]].
    apply Z.leb_le in H3. apply IZR_le in H3. rewrite !mult_IZR in H3. unfold real. simpl.
    apply Rmult_le_reg_l with (IZR kd * IZR d); [apply Rmult_lt_0_compat; lra|].
    replace (IZR kd * IZR d * (IZR n * (IZR kn / IZR kd * IZR l * (IZR y * IZR c / IZR d))))
      with (IZR n * (IZR kn * (IZR l * (IZR c * IZR y)))) by (field; lra). lra.
  - rewrite !andb_true_iff in H. destruct H as [H1 H2]. split; [apply Hy; exact H1|apply Hp; exact H2].
Qed.

(* the mean loss is at least kappa (sum of l y - sum of l F) - quarters n kappa^2 sum of l^2 / 4 *)
Lemma losses_below : forall t f b kind n k, 0 < n -> forall ps lam, length lam = length ps ->
  Forall (fun lp => inside_domain kind n (k * IZR (fst lp)) (real (y_unit t) (snd (snd lp)))) (combine lam ps) ->
  k * (size (y_unit t) * IZR (fold_right (fun lp sum => (fst lp * snd (snd lp) + sum)%Z) 0%Z (combine lam ps)))
  - k * fold_right (fun lp sum => IZR (fst lp) * prediction t f b (fst (snd lp)) + sum) 0 (combine lam ps)
  - IZR (quarters kind) * (n * (k * k * IZR (squares lam))) / 4
  <= losses kind t f b ps / n.
Proof.
  intros t f b kind n k Hn. unfold losses, squares. induction ps as [|[x y] ps IH]; intros [|l lam] Hl Ha; simpl in Hl; try discriminate.
  - simpl. unfold Rdiv. lra.
  - injection Hl as Hl. simpl in Ha. inversion Ha as [|? ? Ha1 Ha2]; subst. specialize (IH lam Hl Ha2). simpl in *.
    pose proof (young kind n (k * IZR l) (prediction t f b x) (real (y_unit t) y) Hn Ha1) as Hy.
    rewrite !plus_IZR, !mult_IZR.
    assert (E : real (y_unit t) y = size (y_unit t) * IZR y) by (unfold real, size, Rdiv; ring).
    rewrite E in Hy at 1. unfold Rdiv in *. rewrite !Rmult_plus_distr_l, !Rmult_plus_distr_r in *. lra.
Qed.

Theorem fit_right : forall t s kind decay num den lam H one unit corner cols inverse scale fuel cert,
  check_fit t s kind decay num den lam H one unit corner cols inverse scale fuel cert = true ->
  fit_bound t s kind decay num den.
Proof.
  intros t s kind decay num den lam H one unit corner cols inverse scale fuel cert Hc f b Hfit Ha. unfold check_fit in Hc.
  rewrite !andb_true_iff in Hc. destruct Hc as [[[[[H1 H0] Hsize] Hzero] Hclaim] Hbound].
  apply Z.ltb_lt in H1, H0. apply IZR_lt in H1.
  unfold sizes in Hsize. rewrite andb_true_iff in Hsize. destruct Hsize as [Hlen _]. apply Nat.eqb_eq in Hlen.
  destruct (bounded_right _ _ _ _ _ _ _ _ _ _ _ f Hbound Hfit) as [H2 Hb].
  set (x := x_unit t) in *. set (y := y_unit t) in *.
  assert (Hclaims : fit_claims t kind decay lam H (paid s (bias t * weights lam)) num den = true) by exact Hclaim.
  clear Hclaim. unfold fit_claims in Hclaims. fold x y in Hclaims.
  destruct x as [xa xb] eqn:Ex. destruct y as [ya yb] eqn:Ey. destruct decay as [dl dm].
  rewrite !andb_true_iff in Hclaims. destruct Hclaims as [[[[[[C1 C2] C3] C4] C5] Hall] C8].
  apply Z.ltb_lt in C1, C2, C3, C4, C5. apply Z.leb_le in C8.
  assert (Hn : (0 < H)%Z) by (apply lt_IZR; lra).
  set (kn := (2 * dl * xb)%Z) in *. set (kd := (dm * xa * H)%Z) in *. set (n := Z.of_nat (length (points t))) in *.
  assert (Hkn : (0 < kn)%Z) by (unfold kn; lia).
  assert (Hkd : (0 < kd)%Z) by (unfold kd; repeat apply Z.mul_pos_pos; lia).
  assert (Hx : x_unit t = (xa, xb)) by exact Ex. assert (Hy : y_unit t = (ya, yb)) by exact Ey.
  assert (Hdom : Forall (fun lp => inside_domain kind (IZR n) (IZR kn / IZR kd * IZR (fst lp))
                                     (real (y_unit t) (snd (snd lp)))) (combine lam (points t))).
  { apply Forall_forall. intros [l [z v]] Hin. rewrite forallb_forall in Hall. specialize (Hall _ Hin). simpl in *.
    rewrite Hy. apply allows_right; assumption. }
  assert (Hxs : 0 <= size (x_unit t)) by (rewrite Hx; left; apply size_positive; assumption).
  assert (HN : IZR n = INR (length (points t))) by (unfold n; symmetry; apply INR_IZR_INZ).
  assert (Hnr : 0 < IZR n) by (apply IZR_lt; exact H0).
  pose proof (losses_below t f b kind (IZR n) (IZR kn / IZR kd) Hnr (points t) lam Hlen Hdom) as He.
  rewrite (said t f b lam Hxs Hlen) in He.
  change (fold_right (fun lp sum => (fst lp * snd (snd lp) + sum)%Z) 0%Z (combine lam (points t))) with (pairing t lam) in He.
  rewrite HN in He at 2. rewrite <- HN in He.
  apply IZR_lt in C1, C2, C3, C4, C5, Hkn, Hkd. apply IZR_le in C8.
  assert (L : 0 < IZR dl / IZR dm) by (unfold Rdiv; apply Rmult_lt_0_compat; [lra|apply Rinv_0_lt_compat; lra]).
  set (D := IZR dl / IZR dm) in *. set (k := IZR kn / IZR kd) in *.
  pose proof (shifted s (bias t * weights lam) b (k * size (x_unit t)) D L Ha Hzero) as Hs.
  rewrite cost_split.
  set (S := pairing t lam) in *. set (N := norm2 f) in *. set (G := action f (rows_of t lam)) in *.
  set (M := (bias t * weights lam)%Z) in *. set (Q := paid s M) in *. set (B := cost s [] b) in *.
  set (W := squares lam) in *. set (E := losses kind t f b (points t)) in *.
  assert (Kx : k * size (x_unit t) * IZR H = 2 * D).
  { rewrite Hx. unfold k, size, D, kn, kd. rewrite !mult_IZR. simpl. field. repeat split; lra. }
  assert (Kq : k * size (x_unit t) * (k * size (x_unit t)) * IZR Q / (4 * D) = D * IZR Q / (IZR H * IZR H)).
  { assert (Kr : k * size (x_unit t) = 2 * D / IZR H) by (rewrite <- Kx; field; lra). rewrite Kr. field. lra. }
  rewrite Kq in Hs.
  assert (Kg : k * size (x_unit t) * G <= D * N).
  { assert (Kr : k * size (x_unit t) = 2 * D / IZR H) by (rewrite <- Kx; field; lra). rewrite Kr.
    apply Rmult_le_reg_l with (IZR H); [lra|].
    replace (IZR H * (2 * D / IZR H * G)) with (D * (2 * G)) by (field; lra).
    replace (IZR H * (D * N)) with (D * (IZR H * N)) by ring. apply Rmult_le_compat_l; lra. }
  assert (P : IZR num / IZR den <= k * (size (y_unit t) * IZR S) - IZR (quarters kind) * (IZR n * (k * k * IZR W)) / 4
                                    - D * IZR Q / (IZR H * IZR H)).
  { rewrite Hy. unfold size. simpl. rewrite !mult_IZR, !minus_IZR, !mult_IZR in C8.
    apply Rmult_le_reg_l with (IZR den * (4 * (IZR kd * IZR kd) * IZR yb * IZR dm * (IZR H * IZR H))).
    - repeat apply Rmult_lt_0_compat; lra.
    - replace (IZR den * (4 * (IZR kd * IZR kd) * IZR yb * IZR dm * (IZR H * IZR H)) * (IZR num / IZR den))
        with (IZR num * (4 * (IZR kd * IZR kd) * IZR yb * IZR dm * (IZR H * IZR H))) by (field; lra).
      apply Rle_trans with (1 := C8). apply Req_le. unfold k, D. field. repeat split; lra. }
  fold n. rewrite <- HN. replace (real (dl, dm) 1) with D by (unfold real, D, Rdiv; simpl; ring).
  replace (k * (size (x_unit t) * (G + IZR M * b))) with (k * size (x_unit t) * G + k * size (x_unit t) * (IZR M * b)) in He by ring.
  lra.
Qed.

End Fits.

Module Plain := Fits PlainZ.
Module Fast := Fits Words.
