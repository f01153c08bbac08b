"""A valid bound on h(λ) for any dual point: exact over its support when that can be afforded, else relaxed."""

from __future__ import annotations

import numpy as np

from covopt.errors import BudgetError
from covopt.oracles.bounds import gauge_bound, restrict
from covopt.oracles.faces import DEFAULT_FACE_BUDGET, FaceOracle


def bound_gauge(
    rows: np.ndarray, dual: np.ndarray, *, budget: float = DEFAULT_FACE_BUDGET
) -> tuple[float, bool]:
    """Bound h(λ) = max over unit w of |⟨λ, σ(Z w)⟩| from above.

    Rows where λ vanishes do not enter h, so the arrangement of the support is enough.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N,)
    budget : float
        Largest number of faces for the exact oracle.

    Returns
    -------
    (float, bool)
        The bound, and whether every face of the support's arrangement was looked at.

    Examples
    --------
    >>> bound, exact = bound_gauge(np.eye(3), np.array([3.0, 4.0, 0.0]))
    >>> round(float(bound), 9), exact
    (5.0, True)
    """
    support = np.flatnonzero(dual)
    if len(support) == 0:
        return 0.0, True
    reduced, lost = rows, 0.0
    if len(support) < len(rows):
        reduced, basis = restrict(rows, support)
        outside = np.linalg.norm(rows[support] - reduced @ basis.T, axis=1)
        lost = float(np.abs(dual[support]) @ outside)
    try:
        oracle = FaceOracle(reduced, budget=budget)
    except BudgetError:
        return gauge_bound(rows, dual), False
    return oracle.price(dual[support], threshold=np.inf).upper_bound + lost, True
