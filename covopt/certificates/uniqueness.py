"""Is the minimal-norm network unique? Answered on the tight set (theory: SP20 Thm 4.7 and eq. 21)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog, nnls

from covopt.certificates.tight import TightSet
from covopt.checks.wording import counted
from covopt.problems.shallow import ShallowProblem

INDEPENDENT = 1e-8  # smallest singular value of the unit tight columns, relative to the largest
CLEARLY = 1e-5  # the same, where the dual's error (the root of its gap) cannot have made it
AMBIGUOUS = (1e-7, 1e-4)  # slacks between these are neither tight nor loose for certain
MOVES = 1e-4  # relative change of a mass that counts as another minimiser


@dataclass(frozen=True)
class Uniqueness:
    """Answer and reason.

    Attributes
    ----------
    unique : bool or None
        None means unknown.
    reason : str
    n_tight : int
        Number of tight (cell, sign) pairs.
    """

    unique: bool | None
    reason: str
    n_tight: int


def analyse_uniqueness(problem: ShallowProblem, tight: TightSet, offset: float | np.ndarray) -> Uniqueness:
    """Decide uniqueness from the tight set of an accurate dual.

    All minimisers are supported on the tight (cell, sign) pairs, each at the cell's one maximiser; with vector
    outputs on the maximisers of ‖Λᵀσ(Z w)‖, each with the output direction Λᵀσ(Z w). Linearly independent tight
    columns therefore leave one vector of masses; otherwise linear programs look for a second
    nonnegative one with the same outputs (and then the same cost, as ⟨λ, a⟩ = ±1 on every column).

    Parameters
    ----------
    problem : ShallowProblem
    tight : TightSet
        Collected with a slack of at least 1e-4.
    offset : float or ndarray of shape (k,)
        B of a minimiser; a penalised offset is itself unique.
    """
    if not tight.isolated:
        return Uniqueness(
            None, "the tight neurons found may not be all: an arc of them, or too many supports", len(tight)
        )
    near = tight.within(AMBIGUOUS[0])
    wide = tight.within(AMBIGUOUS[1])
    if len(wide) == 0:
        return Uniqueness(True, "the zero network is the only one of norm zero", 0)
    wide_rank, wide_size = _independence(problem, wide)
    if wide_rank and wide_size <= CLEARLY:
        spread = _largest_move(problem, wide, offset)
        if spread is None or spread > 1e-3 * MOVES:
            return Uniqueness(
                None,
                f"nearly dependent: the {counted(len(wide), 'tight column')} (smallest singular value "
                f"{wide_size:.1e} of the largest): the dual is not accurate enough to tell",
                len(wide),
            )
    if wide_rank:
        return Uniqueness(
            True,
            f"linearly independent: the {counted(len(wide), 'column')} of all (cell, sign) pairs within "
            f"{AMBIGUOUS[1]:g} of tight (smallest singular value {wide_size:.1e} of the largest)",
            len(wide),
        )
    near_rank, near_size = _independence(problem, near)
    if near_rank:
        between = len(wide) - len(near)
        return Uniqueness(
            None,
            f"linearly independent: the {counted(len(near), 'tight column')} (smallest singular value "
            f"{near_size:.1e}), but {between} more are within {AMBIGUOUS[1]:g} of tight: "
            "the dual is not accurate enough to exclude them",
            len(near),
        )
    spread = _largest_move(problem, near, offset)
    if spread is None:
        return Uniqueness(
            None, f"the {len(near)} tight columns are dependent and the linear program failed", len(near)
        )
    if spread > MOVES:
        return Uniqueness(
            False,
            f"the {len(near)} tight columns are linearly dependent, and masses can move by {spread:.1e} of the cost "
            "at equal outputs and equal cost",
            len(near),
        )
    if spread < 1e-3 * MOVES and len(near) == len(wide):
        return Uniqueness(
            True,
            f"the {len(near)} tight columns are linearly dependent, but no other nonnegative masses give the outputs",
            len(near),
        )
    return Uniqueness(
        None,
        f"the {len(near)} tight columns are linearly dependent; masses move by {spread:.1e} of the cost, too little "
        "to tell from rounding",
        len(near),
    )


def _columns(problem: ShallowProblem, tight: TightSet) -> tuple[np.ndarray, int]:
    """Columns of the masses and of a free offset, and how many the latter has."""
    columns = tight.columns(problem)
    if problem.offset_cost > 0:
        return columns, 0
    k = problem.targets.shape[1] if problem.is_vector else 1
    return np.column_stack([columns, np.tile(np.eye(k), (len(problem.rows), 1))]), k


def _independence(problem: ShallowProblem, tight: TightSet) -> tuple[bool, float]:
    columns, _ = _columns(problem, tight)
    if columns.shape[1] > columns.shape[0]:
        return False, 0.0
    if columns.shape[1] == 0:
        return True, 1.0
    values = np.linalg.svd(columns / np.linalg.norm(columns, axis=0), compute_uv=False)
    size = float(values[-1] / values[0])
    return size > INDEPENDENT, size


def _largest_move(problem: ShallowProblem, tight: TightSet, offset: float | np.ndarray) -> float | None:
    """How far the masses can move on the optimal face, relative to the cost, along a few random directions."""
    columns, free = _columns(problem, tight)
    m = columns.shape[1]
    targets = (problem.targets if free or not problem.has_offset else problem.targets - offset).ravel()
    # positions carry the dual's error, so the outputs are matched to a tolerance
    signed = np.column_stack([columns, -columns[:, m - free :]])
    try:
        fit, _ = nnls(signed, targets)
    except RuntimeError:  # no convergence
        return None
    slack = max(1e-9, 2 * float(np.abs(signed @ fit - targets).max()))
    rows = np.concatenate([columns, -columns])
    limits = np.concatenate([targets + slack, slack - targets])
    bounds = [(0, None)] * (m - free) + [(None, None)] * free
    rng = np.random.default_rng(0)
    widest, unit = 0.0, 0.0
    for _ in range(3):
        direction = rng.standard_normal((m,))
        direction[m - free :] = 0.0
        direction = direction / np.linalg.norm(direction)
        ends: list[np.ndarray] = []
        for sign in (1.0, -1.0):
            result = linprog(sign * direction, A_ub=rows, b_ub=limits, bounds=bounds, method="highs")
            if result.status != 0:
                return None
            ends.append(np.asarray(result.x))
            unit = max(unit, float(np.abs(result.x[: m - free]).sum()))
        widest = max(widest, float(np.abs(ends[0] - ends[1])[: m - free].max()) / (unit or 1.0))
    return widest
