"""Programs on the masses of a tight set: is there one minimal-norm network (SP20 Thm 4.7, eq. 21), and the sparsest.

Both end in one program in the masses z ≥ 0 of the tight neurons with Σ z_j a_j = y: a linear one that moves them, and
a mixed-integer one that counts them.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
from scipy.optimize import linprog, nnls

from covopt.arrangement.highs import linear_program
from covopt.certificates.enclosure import Enclosure
from covopt.certificates.tight import NEAR, TightSet
from covopt.checks.wording import counted
from covopt.exact.rank import FOUND, numerical_rank
from covopt.losses.base import as_columns
from covopt.problems.problem import Problem

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
    (and then at equal cost, as ⟨λ, a⟩ = ±1 on every column): a linear program looks for that. All else is None.

    Parameters
    ----------
    problem : Problem
    tight : TightSet
    offset : ndarray of shape (k,)
        B of a minimiser; a penalised offset is itself unique.
    enclosed : Enclosure or str
        Or why there is none.
    """
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
    return numerical_rank(values, FOUND) == len(values)


def _largest_move(problem: Problem, tight: TightSet, offset: np.ndarray) -> float | None:
    """Return how much of the cost can move to columns outside of a basic solution, at equal outputs."""
    columns, free = _columns(problem, tight)
    m = columns.shape[1] - free
    targets = (problem.targets if free or not problem.has_offset else problem.targets - offset).ravel()
    # positions carry the dual's error, so the outputs are matched to a tolerance
    signed = np.column_stack([columns, -columns[:, m:]])
    try:
        basic, _ = nnls(signed, targets)
    except RuntimeError:  # no convergence
        return None
    slack = max(1e-9, 2 * float(np.abs(signed @ basic - targets).max()))
    answer = linprog(
        np.append(-1.0 * (basic[:m] == 0.0), np.zeros(free)),
        A_ub=np.concatenate([columns, -columns]),
        b_ub=np.concatenate([targets + slack, slack - targets]),
        bounds=[(0, None)] * m + [(None, None)] * free,
        method="highs",
    )
    return None if answer.status != 0 else -float(answer.fun) / (float(basic[:m].sum()) or 1.0)


@dataclass(frozen=True)
class SparseSupport:
    """Fewest tight columns that interpolate.

    Attributes
    ----------
    neurons : ndarray of shape (m, r)
    weights : ndarray of shape (m, k)
    offset : ndarray of shape (k,)
    lower_bound : int
        No minimiser has fewer neurons (the program's proven bound).
    proven : bool
        Whether the number of neurons equals that bound.
    message : str
    """

    neurons: np.ndarray
    weights: np.ndarray
    offset: np.ndarray
    lower_bound: int
    proven: bool
    message: str


def sparsest_support(
    problem: Problem,
    tight: TightSet,
    offset: np.ndarray,
    cost: float,
    *,
    excess: float = 0.0,
    time_limit_s: float = 60.0,
) -> SparseSupport | None:
    """Solve min ‖z‖₀ s.t. Σ z_j a_j = y over the tight columns, z_j of the column's sign.

    Every minimiser of the norm is such a z and conversely (⟨λ, a_j⟩ = ±1), so this is the fewest neurons of any
    minimal-norm network.

    Parameters
    ----------
    problem : Problem
    tight : TightSet
    offset : ndarray of shape (k,)
        B of the minimiser. It moves when it is free, and a penalised one within its error.
    cost : float
        Primal value of the minimiser: no mass exceeds it.
    excess : float
        How far the network's primal value may be above the optimum. A penalised offset is known up to
        √(2 excess/ρ), as the primal value is ρ-strongly convex in it.
    time_limit_s : float

    Returns
    -------
    SparseSupport or None
        None when the solver found no point in time.
    """
    columns = tight.columns(problem)
    n, m = columns.shape
    shifts = np.zeros((n, 0))
    if problem.has_offset:
        shifts = np.tile(np.eye(problem.n_outputs), (len(problem.rows), 1))
    free = shifts.shape[1]
    error = 0.0
    if free:
        error = float(np.sqrt(2.0 * excess / problem.offset_cost)) if problem.offset_cost > 0 else np.inf
    targets = (problem.targets - offset if free else problem.targets).ravel()
    extended = np.column_stack([columns, shifts if np.isinf(error) else shifts[:, :0]])
    weights, *_ = np.linalg.lstsq(extended, targets, rcond=1e-12)
    slack = max(1e-8, 2 * float(np.abs(extended @ weights - targets).max()))
    ceiling = 1.001 * cost
    # variables: masses, whether each is used, and how far the offset moves
    lower = np.concatenate([np.zeros(2 * m), np.full(free, -error)])
    upper = np.concatenate([np.full(m, ceiling), np.ones(m), np.full(free, error)])
    equal = np.column_stack([columns, np.zeros((n, m)), shifts])
    link = np.column_stack([np.eye(m), -ceiling * np.eye(m), np.zeros((m, free))])
    model = linear_program(
        np.concatenate([np.zeros(m), np.ones(m), np.zeros(free)]),
        np.concatenate([equal, link]),
        (
            np.concatenate([targets - slack, np.full(m, -np.inf)]),
            np.concatenate([targets + slack, np.zeros(m)]),
        ),
        (lower, upper),
        integral=range(m, 2 * m),
        time_limit=time_limit_s,
        mip_rel_gap=0.0,
    )
    model.run()
    info = model.getInfo()
    if info.primal_solution_status != int(highspy.SolutionStatus.kSolutionStatusFeasible):
        return None
    values = np.asarray(model.getSolution().col_value)
    used = values[m : 2 * m] > 0.5
    bound = int(np.ceil(info.mip_dual_bound - 1e-6))
    return SparseSupport(
        tight.neurons[used],
        as_columns((tight.outputs.T * values[:m]).T[used]),
        offset + values[2 * m :] if free else offset,
        bound,
        int(used.sum()) <= bound,
        f"HiGHS: {model.modelStatusToString(model.getModelStatus()).lower()}, "
        f"targets matched to {slack:.1e} of max |y|",
    )
