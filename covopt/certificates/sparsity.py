"""The sparsest minimal-norm network: the ℓ0 problem on the tight set, as a mixed-integer program."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

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
    # variables: masses (m), used (m), and a free offset
    equal = np.column_stack([columns, np.zeros((n, m)), np.ones((n, 1)) if free else np.zeros((n, 0))])
    link = np.column_stack([np.eye(m), -ceiling * np.eye(m), np.zeros((m, int(free)))])
    limit = np.inf if free else 0.0
    result = milp(
        np.concatenate([np.zeros(m), np.ones(m), np.zeros(int(free))]),
        constraints=[
            LinearConstraint(equal, targets - slack, targets + slack),
            LinearConstraint(link, -np.inf, 0.0),
        ],
        integrality=np.concatenate([np.zeros(m), np.ones(m), np.zeros(int(free))]),
        bounds=Bounds(
            np.concatenate([np.zeros(2 * m), np.full(int(free), -limit)]),
            np.concatenate([np.full(m, ceiling), np.ones(m), np.full(int(free), limit)]),
        ),
        options={"time_limit": time_limit_s, "mip_rel_gap": 0.0},
    )
    if result.x is None:
        return None
    used = result.x[m : 2 * m] > 0.5
    bound = int(np.ceil(result.mip_dual_bound - 1e-6))
    count = int(used.sum())
    return SparseSupport(
        tight.neurons[used],
        (sign * result.x[:m])[used],
        float(result.x[2 * m]) if free else offset,
        bound,
        count <= bound,
        str(result.message),
    )
