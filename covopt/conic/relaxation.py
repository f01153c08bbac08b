r"""A dual point from the doubly nonnegative relaxation of the interpolation problem, written out for cvxpy.

A unit direction w has on rows of length one the activations

    p = σ(Z w) ≥ 0,      q = p − Z w = σ(−Z w) ≥ 0,      p∘q = 0,      p + q ≤ t = ‖w‖.

Products of these lines l(u), u = (t, w, p), are not negative, and p_i q_i = 0. So h(Λ) ≤ 1 where

.. math::
    a\|v\|^2 + b\,t^2 + c\,\|w\|^2 - v^\top \Lambda^\top p - \textstyle\sum_{i<j} N_{ij}\, l_i l_j \succeq 0,
    \qquad a + b + c \le 1, \quad N \ge 0 \text{ but for the pairs } p_i q_i,

as a quadratic form in (v, u): at every neuron ‖v‖ = t = ‖w‖ = 1. With one output v = ±t, which makes two forms. The
largest dual value of such Λ bounds the cost of networks from below (theory: FL22 §3.2, the cone S; eliminating q is
the facial reduction). The backend is not believed: whoever asks divides Λ by a certified bound on h(Λ).
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from covopt.checks.optional import required
from covopt.conic.backends import run_backend, value_of
from covopt.problems.problem import Problem

MOST_ROWS = 40  # that carry dual: some ten seconds
TOLERANCE = 1e-8


def relaxed_dual(
    problem: Problem, *, weights: np.ndarray | None = None, time_limit_s: float | None = None
) -> np.ndarray:
    r"""Solve max ⟨Λ, Y⟩ − ‖Λᵀ1‖²/(2ρ) over the relaxation of {Λ : h(Λ) ≤ 1}.

    Parameters
    ----------
    problem : Problem
    weights : ndarray of shape (N,), optional
        What the rows count, where there are more than :data:`MOST_ROWS`; only those that count most carry dual. By
        default the sizes of the targets.
    time_limit_s : float, optional
        For the backend.

    Returns
    -------
    ndarray of shape (N, k)
        Any dual point: its bound is its dual value divided by a certified bound on its dual norm.

    Raises
    ------
    MissingPackageError
        Without cvxpy.
    SolverError
        The backend stopped without a point.

    Examples
    --------
    >>> problem = Problem.through(np.eye(2), np.array([3.0, 4.0]))
    >>> dual = relaxed_dual(problem)
    >>> round(problem.scale_dual(dual, np.linalg.norm(dual))[1], 5)
    5.0
    """
    cp = required("cvxpy", "the solver 'relaxation'", "conic")
    targets = problem.targets
    counts = np.linalg.norm(targets, axis=1) if weights is None else weights
    kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_ROWS])
    lengths = np.linalg.norm(problem.rows[kept], axis=1)
    scaled = targets[kept] / lengths[:, None]
    size = np.abs(scaled).max() or 1.0
    dual = cp.Variable(scaled.shape)
    value = cp.sum(cp.multiply(dual, scaled / size))
    constraints = _constraints(problem.rows[kept] / lengths[:, None], dual)
    if problem.has_offset:
        total = (1.0 / lengths) @ dual
        if problem.offset_cost > 0:
            value = value - cp.sum_squares(total) / (2.0 * problem.offset_cost * size)
        else:
            constraints.append(total == 0)
    program = cp.Problem(cp.Maximize(value), constraints)
    run_backend(program, "CLARABEL", tol=TOLERANCE, time_limit_s=time_limit_s)
    found = np.zeros(targets.shape)
    found[kept] = value_of(dual) / lengths[:, None]
    return problem.project_dual(found)


def _constraints(units: np.ndarray, dual) -> list:
    """Write the forms above for unit rows (n, r) and a variable Λ (n, k)."""
    cp = required("cvxpy", "the solver 'relaxation'", "conic")
    (n, rank), outputs = units.shape, dual.shape[1]
    heads = outputs if outputs > 1 else 0
    axes = np.eye(heads + 1 + rank + n)
    t, w, p = np.split(axes[heads:], [1, 1 + rank])
    q = p - units @ w
    lines = np.concatenate([p, q, t - p - q])
    # products of two of the last lines are sums of others
    first, second = (index[np.triu_indices(3 * n, 1)[0] < 2 * n] for index in np.triu_indices(3 * n, 1))
    one_sided = np.flatnonzero((first >= n) | (second != first + n))
    products = lines[first][:, :, None] * lines[second][:, None, :]
    columns = sparse.csc_array((0.5 * (products + products.transpose(0, 2, 1))).reshape(len(first), -1).T)
    constraints = []
    for v in [axes[:heads]] if heads else [t, -t]:
        sizes, multipliers = cp.Variable(3), cp.Variable(len(first))
        form = sizes[0] * (v.T @ v) + sizes[1] * (t.T @ t) + sizes[2] * (w.T @ w)
        mixed = v.T @ dual.T @ p
        taken = cp.reshape(columns @ multipliers, axes.shape, order="C")
        constraints += [
            form - 0.5 * (mixed + mixed.T) - taken >> 0, multipliers[one_sided] >= 0, cp.sum(sizes) <= 1
        ]  # fmt: skip
    return constraints
