"""A valid bound on h(λ) for any dual point: exact over its support when that can be afforded, else relaxed."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from covopt.errors import BudgetError
from covopt.oracles.bounds import gauge_bound, restrict
from covopt.oracles.branch_and_bound import BranchAndBoundOracle
from covopt.oracles.choose import exact_oracle
from covopt.oracles.faces import DEFAULT_FACE_BUDGET, FaceOracle

STARTS = 128
KEPT_ROWS = 500  # oracles of larger tables are not kept: their presorting takes much memory


def tree_limit(n_rows: int, rank: int, n_outputs: int) -> int:
    """Nodes of the branch and bound where faces are too many: some seconds of work.

    A number of nodes and no clock, so that every machine gives the same answer. A node of the compiled tree for one
    output costs about (N + r)² operations, one of the tree for several an eigenvalue problem or more.

    Parameters
    ----------
    n_rows, rank : int
    n_outputs : int
        0 for scalar duals.

    Examples
    --------
    >>> tree_limit(40, 21, 0), tree_limit(12, 8, 3), tree_limit(60, 7, 3)
    (13437, 150, 4)
    """
    size = float(n_rows + rank)
    work = 5e7 / size**2 if n_outputs == 0 else 1.5e6 / size**3
    low, high = (1000, 50_000) if n_outputs == 0 else (3, 150)
    return int(min(max(work, low), high))


def bound_gauge(
    rows: np.ndarray, dual: np.ndarray, *, budget: float = DEFAULT_FACE_BUDGET
) -> tuple[float, bool]:
    """Bound h(λ) = max over unit w of |⟨λ, σ(Z w)⟩|, or h(Λ) = max ‖Λᵀσ(Z w)‖, from above.

    Rows where Λ vanishes do not enter h, so the arrangement of the support is enough.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N,) or (N, k)
    budget : float
        Largest number of faces for the exact oracle; beyond it a branch and bound of limited size is tried.

    Returns
    -------
    (float, bool)
        The bound, and whether it is the maximum itself, to rounding.

    Examples
    --------
    >>> bound, exact = bound_gauge(np.eye(3), np.array([3.0, 4.0, 0.0]))
    >>> round(float(bound), 9), exact
    (5.0, True)
    """
    n_outputs = 0 if dual.ndim == 1 else dual.shape[1]
    magnitude = np.linalg.norm(dual.reshape(len(dual), -1), axis=1)
    support = np.flatnonzero(magnitude)
    if len(support) == 0:
        return 0.0, True
    reduced, lost = rows, 0.0
    if len(support) < len(rows) or len(rows) < rows.shape[1]:
        reduced, basis = restrict(rows, support)
        outside = np.linalg.norm(rows[support] - reduced @ basis.T, axis=1)
        lost = float(magnitude[support] @ outside)
    try:
        oracle = _oracle(reduced, n_outputs, budget)
    except BudgetError:
        limit = tree_limit(len(reduced), reduced.shape[1], n_outputs)
        tree = BranchAndBoundOracle(reduced, node_limit=limit, random_state=0, n_starts=STARTS)
        found = tree.price(dual[support], max_neurons=1)
        if found.exact:
            return found.upper_bound + lost, True
        return min(found.upper_bound + lost, gauge_bound(rows, dual)), False
    if isinstance(oracle, FaceOracle):
        return oracle.bound(dual[support]) + lost, True
    pricing = oracle.price(dual[support], threshold=np.inf)
    return pricing.upper_bound + lost, pricing.exact


def _oracle(rows: np.ndarray, n_outputs: int, budget: float) -> Any:
    """Exact oracle; the last one stays, since the points of a path and its checks ask about the same rows."""
    if len(rows) > KEPT_ROWS:
        return exact_oracle(rows, n_outputs, budget=budget)
    rows = np.ascontiguousarray(rows, dtype=float)
    return _kept_oracle(rows.tobytes(), rows.shape, n_outputs, budget)


@lru_cache(maxsize=1)
def _kept_oracle(content: bytes, shape: tuple[int, int], n_outputs: int, budget: float) -> Any:
    return exact_oracle(np.frombuffer(content).reshape(shape), n_outputs, budget=budget)
