r"""A certified upper bound on the gauge of a dual point with several outputs, by pairs of boxes.

The rows are used as they are given, X̃ of shape (N, D). For Λ let V be the right singular vectors of diag(‖λ_i‖) X̃, in
floating point, and Z = X̃V, rounded. For ‖w‖ ≤ 1 and u = Vᵀw, σ is 1-Lipschitz and x̃_i·w = z_i·u + (x̃_i − V z_i)·w, so

.. math::
    h(Λ) = \max_{‖w‖ \le 1} ‖Λ^⊤σ(\tilde X w)‖
         \le ‖V‖_2 \max_{‖u‖ \le 1} ‖Λ^⊤σ(Z u)‖ + \sum_i ‖λ_i‖ ‖\tilde x_i − V z_i‖ .

No rank is decided and no angle sorted: a direction that V drops, a rounded row, rows that nearly depend on each other
are all paid for in the last sum. The maximum over u is bounded by :mod:`.vector_search`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covopt.exact.rounding import lengths_up, operator_norm_up, total_up, transfer_up, up
from covopt.oracles.cones.vector_search import search_pairs
from covopt.oracles.local_search import climb_outputs

EPS = np.finfo(float).eps
LADDER = (2.0, 1.3, 1.1, 1.01, 1.0001)  # multiples of the best value found, before 1 + rtol
N_STARTS = 64
N_POINTS = 8
MAX_NODES = 2_000_000


@dataclass(frozen=True)
class PairBound:
    """What :func:`vector_box_gauge` found.

    Attributes
    ----------
    upper_bound : float
        h(Λ) does not exceed it.
    neuron : ndarray of shape (D,)
        The best unit direction seen, in the space of the rows as given.
    value : float
        ‖Λᵀσ(X̃w)‖ there, as computed.
    nodes : int
        Pairs of boxes that were looked at.
    closed : bool
        Whether ``upper_bound`` is the best value to the relative tolerance, the allowances added.
    """

    upper_bound: float
    neuron: np.ndarray
    value: float
    nodes: int
    closed: bool


def vector_box_gauge(
    rows: np.ndarray,
    dual: np.ndarray,
    *,
    rtol: float = 1e-9,
    max_nodes: int = MAX_NODES,
    random_state: int = 0,
) -> PairBound:
    """Bound h(Λ) = max over unit w of ‖Λᵀσ(X̃w)‖ from above, whatever the scales and dependences of the rows.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        X̃, finite.
    dual : ndarray of shape (N, k)
        Λ, finite.
    rtol : float
        The search ends when the bound is within this of the best value, relatively.
    max_nodes : int
        Pairs of boxes in all; then the best bound that was proved is returned.
    random_state : int
        Of the starts of the local search, which decides nothing but the time.

    Returns
    -------
    PairBound

    Examples
    --------
    >>> import numpy as np
    >>> found = vector_box_gauge(np.eye(2), np.array([[3.0, 0.0], [0.0, 4.0]]))
    >>> round(found.upper_bound, 7), found.closed
    (4.0, True)
    """
    rows, dual = np.asarray(rows, dtype=float), np.asarray(dual, dtype=float)
    alive = rows.any(axis=1) & dual.any(axis=1)
    dimension = rows.shape[1]
    if not alive.any():
        return PairBound(0.0, np.eye(1, dimension)[0], 0.0, 0, True)
    # powers of two: exact, and nothing overflows when it is squared. Each product of a row and its dual counts.
    row_power = np.frexp(np.abs(rows[alive]).max(axis=1))[1]
    units = np.ldexp(rows[alive], -row_power[:, None])
    dual_power = np.frexp(np.abs(dual[alive]).max(axis=1))[1] + row_power
    top = int(dual_power.max())
    with np.errstate(under="ignore"):
        weights = np.ldexp(dual[alive], (row_power - top)[:, None])
    vanished = ~weights.any(axis=1)
    lost = float(vanished.sum()) * dual.shape[1] * dimension * 2.0**-1000
    units, weights = units[~vanished], np.ascontiguousarray(weights[~vanished])
    found = _bound_scaled(units, weights, rtol, max_nodes, random_state)
    with np.errstate(over="ignore"):
        raised = np.ldexp(found.upper_bound + lost, top)
        return PairBound(
            float(np.nextafter(raised, np.inf)),
            found.neuron,
            float(np.ldexp(found.value, top)),
            found.nodes,
            found.closed,
        )


def _bound_scaled(
    rows: np.ndarray, dual: np.ndarray, rtol: float, max_nodes: int, random_state: int
) -> PairBound:
    """:func:`vector_box_gauge` for rows of size one and duals of size at most one."""
    sizes = lengths_up(dual)
    basis = np.linalg.svd(sizes[:, None] * rows, full_matrices=False)[2].T
    basis, reduced = _shortened(rows, sizes, basis)
    n, r = reduced.shape
    k = dual.shape[1]
    total = total_up(sizes, lengths_up(reduced))
    stretch = operator_norm_up(basis)
    unpaid = transfer_up(rows, sizes, basis, reduced)
    neuron, value = _best_neuron(reduced, dual, random_state)
    proved, nodes, closed = total, 0, False
    steps = (
        [*LADDER, 1.0 + rtol]
        if rtol < LADDER[-1] - 1.0
        else [s for s in LADDER if s - 1.0 > rtol] + [1.0 + rtol]
    )
    while steps and nodes < max_nodes:
        goal = value * steps[0]
        if value == 0.0 or goal >= proved:
            steps.pop(0)
            continue
        bound, used, better = _decide(reduced, dual, goal, max_nodes - nodes)
        nodes += used
        if better is not None and better[1] > value * (1.0 + 1e-15):
            neuron, value = better
            continue
        if bound is None:
            break
        proved = min(proved, bound + 4.0 * (n + 2 * k * r + 32) * EPS * np.sqrt(k * r) * (total + goal))
        steps.pop(0)
    closed = not steps
    upper = up(up(proved * stretch) + unpaid)
    lifted = basis @ neuron
    lifted /= np.linalg.norm(lifted)
    here = float(np.linalg.norm(np.maximum(rows @ lifted, 0.0) @ dual))
    return PairBound(max(upper, here), lifted, here, nodes, closed)


def _shortened(rows: np.ndarray, sizes: np.ndarray, basis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drop trailing directions that cost less than rounding does anyway; return the basis and the rows in it."""
    reduced = rows @ basis
    cost = sizes @ np.abs(reduced)
    kept = len(cost)
    while kept > 1 and cost[kept - 1] <= 4 * EPS * float(cost.sum()):
        kept -= 1
    basis = np.ascontiguousarray(basis[:, :kept])
    return basis, np.ascontiguousarray(reduced[:, :kept])


def _best_neuron(rows: np.ndarray, dual: np.ndarray, random_state: int) -> tuple[np.ndarray, float]:
    generator = np.random.default_rng(random_state)
    r = rows.shape[1]
    starts = np.concatenate([rows, -rows, generator.standard_normal((N_STARTS, r)), np.eye(r), -np.eye(r)])
    lengths = np.linalg.norm(starts, axis=1)
    starts = starts[lengths > 0] / lengths[lengths > 0, None]
    values = np.linalg.norm(np.maximum(starts @ rows.T, 0.0) @ dual, axis=1)
    starts = starts[np.argsort(-values, kind="stable")[:N_STARTS]]
    return _climbed(rows, dual, starts)


def _climbed(rows: np.ndarray, dual: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, float]:
    found, _ = climb_outputs(rows, dual, np.ascontiguousarray(starts))
    found = np.concatenate([starts, found])
    values = np.linalg.norm(np.maximum(found @ rows.T, 0.0) @ dual, axis=1) / np.linalg.norm(found, axis=1)
    best = int(values.argmax())
    return found[best] / np.linalg.norm(found[best]), float(values[best])


def _decide(
    rows: np.ndarray, dual: np.ndarray, goal: float, max_nodes: int
) -> tuple[float | None, int, tuple[np.ndarray, float] | None]:
    """Try to prove h ≤ goal: the bound (None if nodes ran out), nodes, and a better neuron if one turned up."""
    k, r = dual.shape[1], rows.shape[1]
    nodes, raised = 0, 0.0
    points = np.zeros((N_POINTS, r))
    for out_axis in range(k):
        for axis in range(r):
            for out_side in (1.0, -1.0):
                for side in (1.0, -1.0):
                    chart = np.array([out_axis, out_side, axis, side])
                    used, n_points, more, finished = search_pairs(
                        rows, dual, goal, chart, max_nodes - nodes, points
                    )
                    nodes += used
                    raised = max(raised, more)
                    if n_points:
                        starts = points[:n_points] / np.linalg.norm(points[:n_points], axis=1, keepdims=True)
                        return None, nodes, _climbed(rows, dual, starts)
                    if not finished:
                        return None, nodes, None
    return goal + raised, nodes, None
