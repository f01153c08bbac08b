"""Is the minimal-norm network unique? Answered on the tight set (theory: SP20 Thm 4.7 and eq. 21)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog, nnls

from covopt.certificates.enclosure import Enclosure
from covopt.certificates.tight import TightSet
from covopt.checks.wording import counted
from covopt.problems.problem import Problem

INDEPENDENT = 1e-8  # smallest singular value of the unit tight columns, relative to the largest
NEAR = 1e-7  # slack within which a neuron counts as tight where minimisers are looked for that differ
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


def analyse_uniqueness(
    problem: Problem, tight: TightSet, offset: np.ndarray, enclosed: Enclosure | str
) -> Uniqueness:
    """Decide uniqueness from the neurons that minimisers may use.

    Every minimiser is supported on the tight (cell, sign) pairs of an optimal dual, each at the cell's one maximiser.
    The computed dual is not that one: a neuron of mass m fixes its value there only to gap · cost / m, so a loose
    neuron may be tight for a minimiser that uses it with a small mass. The answer is True only where
    :func:`~covopt.certificates.enclosure.enclose` bounds that error: where all neurons that any minimiser may use are
    known, and their columns are independent by more than the error, which leaves one vector of masses.

    It is False where columns that are tight to rounding are dependent and masses can move visibly at equal outputs
    (and then at equal cost, as ⟨λ, a⟩ = ±1 on every column): linear programs look for that. Everything else is None.

    Parameters
    ----------
    problem : Problem
    tight : TightSet
    offset : ndarray of shape (k,)
        B of a minimiser; a penalised offset is itself unique.
    enclosed : Enclosure or str
        Or why there is none.
    """
    if not tight.isolated:
        return Uniqueness(
            None, "the tight neurons found may not be all: an arc of them, or too many supports", len(tight)
        )
    if isinstance(enclosed, Enclosure) and enclosed.independent:
        return Uniqueness(
            True,
            f"linearly independent: the {counted(len(enclosed.tight), 'column')} of all neurons that a minimiser may "
            f"use (known to {enclosed.error:.1e})",
            len(enclosed.tight),
        )
    near = tight.within(NEAR)
    spread = None if not len(near) or _independent(problem, near) else _largest_move(problem, near, offset)
    if spread is not None and spread > MOVES:
        return Uniqueness(
            False,
            f"the {len(near)} tight columns are linearly dependent, and masses can move by {spread:.1e} of the cost "
            "at equal outputs and equal cost",
            len(near),
        )
    why = (
        enclosed if isinstance(enclosed, str) else "the columns that a minimiser may use are nearly dependent"
    )
    return Uniqueness(None, f"the dual is not accurate enough to tell: {why}", len(near))


def _columns(problem: Problem, tight: TightSet) -> tuple[np.ndarray, int]:
    """Columns of the masses and of a free offset, and how many the latter has."""
    columns = tight.columns(problem)
    if problem.offset_cost > 0:
        return columns, 0
    k = problem.n_outputs
    return np.column_stack([columns, np.tile(np.eye(k), (len(problem.rows), 1))]), k


def _independent(problem: Problem, tight: TightSet) -> bool:
    columns, _ = _columns(problem, tight)
    if columns.shape[1] > columns.shape[0]:
        return False
    values = np.linalg.svd(columns / np.linalg.norm(columns, axis=0), compute_uv=False)
    return bool(values[-1] > INDEPENDENT * values[0])


def _largest_move(problem: Problem, tight: TightSet, offset: np.ndarray) -> float | None:
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
