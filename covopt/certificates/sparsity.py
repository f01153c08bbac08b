"""The sparsest minimal-norm network: the ℓ0 problem on the tight set, as a mixed-integer program."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
from scipy import sparse

from covopt.certificates.tight import TightSet
from covopt.problems.shallow import ShallowProblem


@dataclass(frozen=True)
class SparseSupport:
    """Fewest tight columns that interpolate.

    Attributes
    ----------
    neurons : ndarray of shape (m, r)
    weights : ndarray of shape (m,)
    offset : float
    lower_bound : int
        No minimiser has fewer neurons (the program's proven bound).
    proven : bool
        Whether the number of neurons equals that bound.
    message : str
    """

    neurons: np.ndarray
    weights: np.ndarray
    offset: float
    lower_bound: int
    proven: bool
    message: str


def sparsest_support(
    problem: ShallowProblem, tight: TightSet, offset: float, cost: float, *, time_limit_s: float = 60.0
) -> SparseSupport | None:
    """Solve min ‖z‖₀ s.t. Σ z_j a_j = y over the tight columns, z_j of the column's sign.

    Every minimiser of the norm is such a z and conversely (⟨λ, a_j⟩ = ±1), so this is the fewest neurons of any
    minimal-norm network.

    Parameters
    ----------
    problem : ShallowProblem
    tight : TightSet
    offset : float
        B of the minimiser; moves only when it is free.
    cost : float
        Primal value of the minimiser: no mass exceeds it.
    time_limit_s : float

    Returns
    -------
    SparseSupport or None
        None when the solver found no point in time.
    """
    sign = np.sign(tight.values)
    columns = problem.atoms(tight.neurons) * sign
    n, m = columns.shape
    free = problem.offset_cost == 0
    targets = problem.targets if free or not problem.has_offset else problem.targets - offset
    weights, *_ = np.linalg.lstsq(
        np.column_stack([columns, np.ones(n)]) if free else columns, targets, rcond=1e-12
    )
    fitted = (np.column_stack([columns, np.ones(n)]) if free else columns) @ weights
    slack = max(1e-8, 2 * float(np.abs(fitted - targets).max()))
    ceiling = 1.001 * cost
    # variables: masses, whether each is used, and a free offset
    lower = np.concatenate([np.zeros(2 * m), np.full(int(free), -np.inf)])
    upper = np.concatenate([np.full(m, ceiling), np.ones(m), np.full(int(free), np.inf)])
    equal = np.column_stack([columns, np.zeros((n, m)), np.ones((n, int(free)))])
    link = np.column_stack([np.eye(m), -ceiling * np.eye(m), np.zeros((m, int(free)))])
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    model.setOptionValue("time_limit", time_limit_s)
    model.setOptionValue("mip_rel_gap", 0.0)
    model.passModel(
        _model(
            objective=np.concatenate([np.zeros(m), np.ones(m), np.zeros(int(free))]),
            bounds=(lower, upper),
            matrix=sparse.csr_array(np.concatenate([equal, link])),
            sides=(
                np.concatenate([targets - slack, np.full(m, -np.inf)]),
                np.concatenate([targets + slack, np.zeros(m)]),
            ),
            integral=range(m, 2 * m),
        )
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
        (sign * values[:m])[used],
        float(values[2 * m]) if free else offset,
        bound,
        int(used.sum()) <= bound,
        f"HiGHS: {model.modelStatusToString(model.getModelStatus()).lower()}, "
        f"targets matched to {slack:.1e} of max |y|",
    )


def _model(objective, bounds, matrix, sides, integral) -> highspy.HighsLp:
    """Assemble a mixed-integer program with rows between ``sides``."""
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = matrix.shape
    lp.col_cost_ = objective
    lp.col_lower_, lp.col_upper_ = bounds
    lp.row_lower_, lp.row_upper_ = sides
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = matrix.indptr
    lp.a_matrix_.index_ = matrix.indices
    lp.a_matrix_.value_ = matrix.data
    kinds = [highspy.HighsVarType.kContinuous] * len(objective)
    for j in integral:
        kinds[j] = highspy.HighsVarType.kInteger
    lp.integrality_ = kinds
    return lp
