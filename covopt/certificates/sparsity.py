"""The sparsest minimal-norm network: the ℓ0 problem on the tight set, as a mixed-integer program."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from covopt.arrangement.highs import linear_program
from covopt.certificates.tight import TightSet
from covopt.losses.base import as_columns
from covopt.problems.problem import Problem


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
