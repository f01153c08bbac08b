"""A rigorous lower bound on the CP-rank from any approximate dual point of the moment relaxation."""

from __future__ import annotations

import numpy as np

from covopt.completely_positive.moment_model import MomentModel
from covopt.exact.rounding import allowance, gamma


def rigorous_value(model: MomentModel, dual: np.ndarray) -> float:
    r"""Return a number that no factor of A undercuts, whatever ``dual`` is.

    .. math::

        p = c^\top y = -b^\top z + (c + G^\top z)^\top y + \langle z, b - Gy\rangle
        \ge -b^\top z - \sum_{|\alpha|\ge 2} r_\alpha^- \bar y_\alpha
        - p \sum_{|\alpha|\le 1} r_\alpha^- \bar y_\alpha

    Here y are the moments of a factor with p rows, so b − Gy lies in the cone; z is ``dual`` moved into the dual
    cone; r = c + Gᵀz is what the solver left of stationarity, r⁻ its negative part; ȳ bounds the moments: 0 ≤ x_i ≤
    √A_ii in every row and Σ x_i² = A_ii over the rows give Σ xᵅ ≤ Π √A_ii^{α_i} for |α| ≥ 2, and p times that below.
    Solving for p gives the bound. No bound on L(1) has to be known beforehand.

    Rounding: each semidefinite block is replaced by V max(w, 0) Vᵀ plus a multiple of the identity above the error of
    forming that product, hence positive semidefinite; sums of N products are off by γ(N + 8) times the sum of
    absolute values (fact 2 of :mod:`covopt.exact.rounding`), computed beside them, which also covers what entries of
    A, their products and roots were rounded by. It is twice the roundings, so that the sums of absolute values are
    inside too. Where A is known up to a tolerance, ``doubt`` times \|z\| is taken off too.

    Parameters
    ----------
    model : MomentModel
    dual : ndarray of shape (rows,)
        In the order of the rows of ``model``; of a semidefinite block the upper triangle, without factors √2.

    Returns
    -------
    float
        −inf where ``dual`` is useless.

    Examples
    --------
    >>> from covopt.completely_positive.moment_model import moment_model
    >>> model = moment_model(np.eye(1), 1, "plain")
    >>> rigorous_value(model, np.array([-1.0, -1.0, 0.0, 0.0, 0.0])) <= 1
    True
    """
    if dual.shape != model.b.shape or not np.isfinite(dual).all():
        return -np.inf
    z = np.array(dual, dtype=float)
    start = model.n_equal + model.n_signs
    z[model.n_equal : start] = np.maximum(z[model.n_equal : start], 0.0)
    for order in model.blocks:
        size = order * (order + 1) // 2
        z[start : start + size] = _into_cone(z[start : start + size], order)
        start += size
    G = model.G
    longest = int(np.diff(G.tocsc().indptr).max()) + 8
    residual = model.cost + G.T @ z
    error = gamma(2 * longest) * (np.abs(model.cost) + np.abs(G).T @ np.abs(z))
    missing = np.maximum(error - residual, 0.0) * model.bounds * (1.0 + gamma(8))
    low = model.degrees <= 1
    room = 1.0 + gamma(2 * (len(z) + len(missing) + 8))
    gain = -float(model.b @ z) - allowance(len(z) + 8, float(np.abs(model.b) @ np.abs(z)))
    gain -= float(np.abs(z[: model.n_equal]) @ model.doubt) * room
    gain -= float(missing[~low].sum()) * room
    share = 1.0 + float(missing[low].sum()) * room
    value = gain / share if gain > 0 else gain
    # the differences above, the quotient and the sum
    value -= gamma(8) * (abs(value) + float(np.abs(model.b) @ np.abs(z)) * gamma(len(z) + 8))
    return value if np.isfinite(value) else -np.inf


def _into_cone(entries: np.ndarray, order: int) -> np.ndarray:
    """Return the upper triangle of a semidefinite matrix near the given one, off-diagonal entries doubled."""
    columns = np.repeat(np.arange(order), np.arange(1, order + 1))
    rows = np.arange(len(entries)) - columns * (columns + 1) // 2
    Z = np.zeros((order, order))
    Z[rows, columns] = entries
    Z[columns, rows] = entries
    values, vectors = np.linalg.eigh(Z)
    kept = np.maximum(values, 0.0)
    product = (vectors * kept) @ vectors.T
    product = (product + product.T) / 2
    norms = np.einsum("ij,ij->j", vectors, vectors)
    product[np.diag_indices(order)] += allowance(order + 4, float(kept @ norms))
    return product[rows, columns] * np.where(rows == columns, 1.0, 2.0)
