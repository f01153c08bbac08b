"""The public pricing function: find the neurons that violate a dual point most, for any table."""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.checks.validation import check_bias, check_count, check_tol
from covopt.data.tabular import check_finite, to_matrix
from covopt.errors import BudgetError, InputError
from covopt.exact.rounding import allowance, lengths_up, total_up
from covopt.oracles.base import Pricing, ranked
from covopt.oracles.boxes.scalar import narrow, to_size_one
from covopt.oracles.boxes.search import box_dual_norm, box_limit
from covopt.oracles.cascade import exact_oracle
from covopt.oracles.certified import certified_dual_norm
from covopt.oracles.local_search import STARTS, LocalSearchOracle
from covopt.parallel import one_blas_thread


def price(
    X: Any,
    dual: Any,
    *,
    bias: float = 0.0,
    tol: float = 1e-9,
    max_nodes: int = 1_000_000,
    n_threads: int = 1,
) -> Pricing:
    r"""Find the neurons that violate a dual point most, and bound how much any neuron can.

    .. math::

        h(\Lambda) = \max_{\|w\|_2 \le 1} \Bigl\|\sum_i \Lambda_i\, \sigma(w \cdot (x_i, \beta))\Bigr\|_2

    h is the dual norm. Every lower bound on the norm of a network comes from a dual point Λ divided by an upper bound
    on h(Λ); column generation adds neurons w where the norm exceeds one. Any rows are allowed: far from the origin,
    in units that differ by many orders of magnitude, repeated or nearly so.

    Parameters
    ----------
    X : array_like, pandas or polars frame, of shape (N, d)
    dual : array_like of shape (N,) or (N, k)
        Λ, one number or one vector for each row of X.
    bias : float
        β ≥ 0, the constant that is appended to every row; 0 for none.
    tol : float
        The bound is called exact if it is this close to the best neuron, relatively.
    max_nodes : int
        Most boxes of directions before a weaker bound is used; 10⁶ take one or two seconds.
    n_threads : int
        Threads of the oracle by faces; they do not change the answer.

    Returns
    -------
    Pricing
        ``neurons`` of shape (m, D) of unit length in the lifted space (x, β), best first, the local maxima that were
        found; ``values``, signed for a dual of shape (N,); ``upper_bound``, a bound on h(Λ) in exact arithmetic for
        the numbers given; ``exact``, whether the best neuron attains it to ``tol``.

    Raises
    ------
    InputError
        When an argument is invalid; the message says which and what to do.

    Examples
    --------
    >>> import covopt
    >>> answer = covopt.price([[3.0, 0.0], [0.0, 4.0]], [1.0, 1.0])
    >>> answer.neurons[0].round(9), float(answer.values[0].round(9)), answer.exact
    (array([0.6, 0.8]), 5.0, True)
    >>> 5.0 <= answer.upper_bound < 5.000000001
    True
    """
    beta = check_bias(bias)
    tol = check_tol(tol)
    nodes, threads = check_count("max_nodes", max_nodes), check_count("n_threads", n_threads)
    rows, point = _checked(X, dual, beta)
    lifted = rows if beta == 0 else np.column_stack([rows, np.full(len(rows), beta)])
    scaled = to_size_one(lifted, point)
    if scaled is None:
        return Pricing(np.eye(1, lifted.shape[1]), np.zeros(1), 0.0, True)
    with one_blas_thread():
        bound = certified_dual_norm(lifted, point, effort=nodes / box_limit(lifted.shape[1])).value
        units, weights, power, _ = scaled
        neurons, values = _ranked(units, weights, _candidates(units, weights, threads))
        with np.errstate(over="ignore"):
            if point.ndim == 1 and np.ldexp(abs(values[0]), power) * (1.0 + tol) < bound:
                met = box_dual_norm(units, weights[:, 0], rtol=tol, max_nodes=nodes).best_neuron
                neurons, values = _ranked(units, weights, np.concatenate([neurons, met[None]]))
            values = np.ldexp(values, power)
    best = float(np.abs(values[0]))
    upper = max(bound, best)
    # where terms cancel, rounding the neuron alone may change its value by more than the tolerance
    size = total_up(lengths_up(units), lengths_up(weights))
    with np.errstate(over="ignore"):
        error = float(np.ldexp(allowance(sum(units.shape), size), power))
    exact = upper <= best * (1.0 + tol) and error <= tol * best
    return Pricing(neurons, values if point.ndim == 1 else np.abs(values), upper, bool(exact))


def _checked(X: Any, dual: Any, beta: float) -> tuple[np.ndarray, np.ndarray]:
    rows, names = to_matrix("X", X)
    point, _ = to_matrix("dual", dual)
    if rows.ndim != 2:
        raise InputError(f"X must have two dimensions, (samples, features); received shape {rows.shape}.")
    if point.ndim not in (1, 2) or len(point) != len(rows):
        raise InputError(
            f"dual must have shape ({len(rows)},) or ({len(rows)}, k), one multiplier for each row of X; received "
            f"shape {point.shape}."
        )
    if len(rows) == 0 or (rows.shape[1] == 0 and beta == 0) or (point.ndim == 2 and point.shape[1] == 0):
        raise InputError(
            f"X and dual must not be empty; received shapes {rows.shape} and {point.shape}: give a row, a feature or "
            "a positive bias, and an output."
        )
    check_finite("X", rows, names)
    check_finite("dual", point.reshape(len(point), -1), None)
    return rows + 0.0, point + 0.0


def _candidates(units: np.ndarray, weights: np.ndarray, n_threads: int) -> np.ndarray:
    """Return candidate directions: the maxima of faces, or those of a local search."""
    basis, reduced = narrow(units, np.linalg.norm(weights, axis=1))
    live = reduced.any(axis=1)
    reduced, asked = np.ascontiguousarray(reduced[live]), np.ascontiguousarray(weights[live])
    outputs = asked.shape[1]
    try:
        oracle: Any = exact_oracle(reduced, 0 if outputs == 1 else outputs, n_threads=n_threads)
    except (BudgetError, ArithmeticError, InputError):
        oracle = LocalSearchOracle(reduced, n_starts=STARTS, random_state=0, n_threads=n_threads)
    found = oracle.price(asked[:, 0] if outputs == 1 else asked).neurons @ basis.T
    return np.concatenate([np.eye(1, units.shape[1]), found])


def _ranked(units: np.ndarray, weights: np.ndarray, neurons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scale neurons to length one, sort them by value, best first, and keep each direction once."""
    with np.errstate(invalid="ignore", divide="ignore"):
        neurons = neurons / np.linalg.norm(neurons, axis=1, keepdims=True)
    neurons = neurons[np.isfinite(neurons).all(axis=1)]
    sums = np.maximum(neurons @ units.T, 0.0) @ weights
    values = sums[:, 0] if weights.shape[1] == 1 else np.linalg.norm(sums, axis=1)
    return ranked(neurons, values)
