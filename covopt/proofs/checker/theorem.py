"""From the maximum over all faces to a theorem.

For every network f = Σ_j v_j max(w_j·x̃, 0) + βb through the points, ⟨λ, Y⟩ is
Σ_j v_j Σ_i λ_i max(x̃_i·w_j, 0) + βb Σλ ≤ h Σ_j |v_j||w_j| + βb Σλ; with 2|v||w| ≤ |v|² + |w|² that is the bound of
:func:`~covopt.proofs.checker.dual.dual_value`. With a loss, C(F) ≥ ⟨U, F⟩ − C*(U), U = −2 lam t λ, comes first.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from covopt.proofs.checker.arithmetic import sqrt_above
from covopt.proofs.checker.dual import LOSSES, dual_value, move_into_domain
from covopt.proofs.checker.faces import square_above
from covopt.proofs.checker.network import lift
from covopt.proofs.problem import Problem


class CheckedBound(NamedTuple):
    """The proved lower bound on ‖W‖² (on C(f) + lam ‖W‖²), and by how many boxes: none where faces prove it."""

    lower_bound: Fraction
    boxes: int


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
    return CheckedBound(dual_value(problem, moved, gauge), 0)
