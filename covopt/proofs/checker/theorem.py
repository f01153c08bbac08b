r"""From a cover to a theorem.

**Transfer.** Let h = max over |w| ≤ 1 of |Σ_i λ_i max(x̃_i·w, 0)| and u = Vᵀw. Row i belongs to a piece y_k with a
factor φ_i. As max(·, 0) is 1-Lipschitz, |λ_i| max(x̃_i·w, 0) is max(φ_i y_k·u, 0) up to ‖|λ_i| x̃_i − φ_i V y_k‖.
With t = y_k·u and s_i = sign λ_i the rows of a piece add up to Σ_i s_i max(φ_i t, 0) = A_k max(t, 0) − B_k t, where
A_k = Σ_i s_i |φ_i| and B_k is the part of it with φ_i < 0. The cover has σ_k = −1, 0, 1 for A_k, g for −Σ_k B_k y_k:

    h ≤ ‖V‖ (H + ‖g + Σ_k B_k y_k‖ + Σ_k |A_k − σ_k| ‖y_k‖) + Σ_i ‖ |λ_i| x̃_i − φ_i V y_k(i) ‖,

‖V‖² at most the largest row sum of |VᵀV|. V, y, φ, g are any numbers: what they miss is paid for here, in fractions.

**Theorem.** For every network f = Σ_j v_j max(w_j·x̃, 0) + βb through the points, ⟨λ, Y⟩ is
Σ_j v_j Σ_i λ_i max(x̃_i·w_j, 0) + βb Σλ ≤ h Σ_j |v_j||w_j| + βb Σλ; with 2|v||w| ≤ |v|² + |w|² that is the bound of
:func:`~covopt.proofs.checker.dual.dual_value`. With a loss, C(F) ≥ ⟨U, F⟩ − C*(U), U = −2 lam t λ, comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from covopt.proofs.checker.arithmetic import ZERO, dot, fractions, norm_above, on_grid, sqrt_above
from covopt.proofs.checker.cover import Cover, check_cover
from covopt.proofs.checker.dual import LOSSES, dual_value, move_into_domain
from covopt.proofs.checker.faces import square_above
from covopt.proofs.checker.network import lift
from covopt.proofs.problem import Problem
from covopt.proofs.version_1 import FirstProof


class CheckedBound(NamedTuple):
    """The proved lower bound on ‖W‖² (on C(f) + lam ‖W‖²), the bound on h, and what of it pays for V, y, φ."""

    lower_bound: Fraction
    gauge: Fraction
    paid: Fraction
    cover: Cover


def check_proof(
    problem: Problem, dual: np.ndarray, proof: FirstProof, *, extra: int = 100_000
) -> CheckedBound:
    """Check a proof of version 1; nothing in it is believed. Boxes may be cut ``extra`` times beyond its tree. Raises
    ValueError when the proof is about another table or dual point, or malformed, or the dual point has no value.
    """
    if problem.Y.shape[1] != 1 or problem.loss not in LOSSES:
        raise ValueError("proofs are about one output, and about losses of one output")
    if proof.digest != problem.digest(dual):
        raise ValueError("the proof is about another table or another dual point: their digests differ")
    moved = move_into_domain(problem, dual)
    norm, inside, outside = _transfer(fractions(lift(problem)), moved, proof)
    live = proof.signs != 0
    (y, linear), grid = on_grid(proof.y[live], proof.linear)
    unit = Fraction(2) ** proof.exponent
    cover = check_cover(y, proof.signs[live], linear, Fraction(proof.H) / grid, proof.tree, extra=extra)
    cover = cover._replace(excess=cover.excess * grid)
    paid = (norm * inside + outside) * unit
    gauge = norm * (Fraction(proof.H) + cover.excess) * unit + paid
    return CheckedBound(dual_value(problem, moved, gauge), gauge, paid, cover)


def check_by_faces(problem: Problem, dual: np.ndarray) -> CheckedBound:
    """Return the bound of a dual point whose h is found over all faces: no proof is needed for rows of few numbers.

    Raises ValueError for rows of more than three numbers with the bias, where the dual point has no value, and where
    moving it into its domain leaves what is no sum of floats.
    """
    if problem.Y.shape[1] != 1 or problem.loss not in LOSSES:
        raise ValueError("proofs are about one output, and about losses of one output")
    moved = move_into_domain(problem, dual)
    if any(value.denominator & (value.denominator - 1) for value in moved):
        raise ValueError("the dual point that was moved into its domain is not one of sums of floats")
    gauge = sqrt_above(square_above(lift(problem), np.array([*moved, None], dtype=object)[:-1]))
    return CheckedBound(dual_value(problem, moved, gauge), gauge, ZERO, Cover(ZERO, 0, 0))


def _transfer(
    rows: Sequence[Sequence[Fraction]], dual: Sequence[Fraction], proof: FirstProof
) -> tuple[Fraction, Fraction, Fraction]:
    """Return ‖V‖, the terms in its bracket other than H, and the last sum; y, H and both are in units 2^exponent."""
    V, y, g, factor = (fractions(array) for array in (proof.V, proof.y, proof.linear, proof.factor))
    if len(rows) != len(factor) or any(len(row) != len(V) for row in rows):
        raise ValueError(f"the proof is about {len(factor)} rows of {len(V)} numbers, not about this table")
    unit, columns = Fraction(2) ** proof.exponent, list(zip(*V, strict=True)) if len(g) else []
    norm = sqrt_above(max((sum((abs(dot(a, b)) for b in columns), ZERO) for a in columns), default=ZERO))
    raised = [[dot(row, piece) for row in V] for piece in y]
    whole, back, outside = [ZERO] * len(y), [ZERO] * len(y), ZERO
    for row, multiplier, k, phi in zip(rows, dual, proof.piece.tolist(), factor, strict=True):
        missed = [abs(multiplier) * x / unit for x in row]
        if k >= 0 and multiplier:
            missed = [a - phi * b for a, b in zip(missed, raised[k], strict=True)]
            part = abs(phi) if multiplier > 0 else -abs(phi)
            whole[k] += part
            back[k] += part if phi < 0 else ZERO
        outside += norm_above(missed)
    inside = norm_above(a + dot(back, (piece[j] for piece in y)) for j, a in enumerate(g))
    for total, sign, piece in zip(whole, proof.signs.tolist(), y, strict=True):
        inside += abs(total - sign) * norm_above(piece)
    return norm, inside, outside
