r"""A certified upper bound on the gauge of a dual point with several outputs, by a fan of output directions.

.. math::
    h(Λ) = \max_{\|w\| \le 1} \|Λ^⊤σ(Zw)\| = \max_{\|v\| = 1} h_+(Λv), \qquad h_+(λ) = \max_{\|w\| \le 1} λ·σ(Zw).

h₊ is sublinear. On the cone of v₁, …, v_k it is therefore at most linear: where p·v_j ≥ h(Λv_j) for all j,
h₊(Λv) ≤ p·v ≤ ‖p‖ for the unit vectors v of the cone. The least norm of such a p is the bound of a cone; the worst
cone is cut in two through an edge, and each new direction asks the scalar oracle once. Cones cover the outputs up to
v → −v, under which h does not change.

The v_j have integer entries, and sums of them are exact: the cover has no seams. p·v_j ≥ h_j is checked with its
rounding, the rounding of Λv is paid for.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from scipy.optimize import nnls

from covopt.exact.rounding import lengths_up, total_up, up
from covopt.oracles.cones.gauge import GaugeBound, box_gauge
from covopt.oracles.cones.moments import quadratic_gauge

EPS = 2.0**-52
MOST_CHORDS = 8  # dimensions
FEWEST_BOXES = 100  # of a direction: fewer are no better than no search, and of large tables take minutes
MOST_OUTPUTS = 8  # beyond, the orthants are not cut
LARGEST = 2.0**48  # entries of a direction: then sums of two are exact, and powers of two before them


@dataclass(frozen=True)
class FanBound:
    """What :func:`fan_gauge` found.

    Attributes
    ----------
    upper_bound : float
        h(Λ) does not exceed it, where the scalar bounds are right.
    neuron : ndarray of shape (r,)
        The best unit direction that a scalar bound has met.
    value : float
        ‖Λᵀσ(Zw)‖ there, as computed.
    calls : int
        Output directions that were asked about.
    """

    upper_bound: float
    neuron: np.ndarray
    value: float
    calls: int


@dataclass(frozen=True)
class _Cone:
    directions: np.ndarray  # (k, k), one a row
    heights: np.ndarray  # (k,)
    bound: float
    edge: tuple[int, int]


def fan_gauge(
    rows: np.ndarray,
    dual: np.ndarray,
    ask: Callable[[np.ndarray], tuple[float, np.ndarray]],
    *,
    rtol: float = 1e-6,
    max_calls: int = 100,
) -> FanBound:
    """Bound h(Λ) = max over unit w of ‖Λᵀσ(Zw)‖ from above.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N, k)
    ask : callable
        Takes λ of shape (N,); returns an upper bound on max |λ·σ(Zw)| over ‖w‖ ≤ 1 and a direction w.
    rtol : float
        Distance of the bound to the best value met that is good enough, relative.
    max_calls : int
        Output directions, at least one for each output.

    Examples
    --------
    >>> from covopt.oracles.cones import box_gauge
    >>> rows = np.eye(3)
    >>> dual = np.array([[3.0, 0.0], [0.0, 4.0], [1.0, 1.0]])
    >>> def ask(one):
    ...     found = box_gauge(rows, one)
    ...     return found.upper_bound, found.best_neuron
    >>> found = fan_gauge(rows, dual, ask, rtol=1e-4)
    >>> bool(found.value <= found.upper_bound <= found.value * 1.0001), round(found.value, 4)
    (True, 4.1401)
    """
    return _Fan(rows, dual, ask).run(rtol, max_calls)


def fan_of_boxes(rows: np.ndarray, dual: np.ndarray, *, max_nodes: int, max_calls: int, rtol: float) -> float:
    """Bound h(Λ) by a fan whose scalar bounds come from boxes; infinity where there are next to none.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N, k)
    max_nodes : int
        Boxes for each output direction: of chords in up to eight dimensions, of quadratics beyond.
    max_calls : int
        Output directions.
    rtol : float

    Examples
    --------
    >>> value = fan_of_boxes(np.eye(9), np.eye(9)[:, :2], max_nodes=1000, max_calls=20, rtol=1e-3)
    >>> 1.0 <= value < 1.002
    True
    """
    if max_nodes < FEWEST_BOXES:
        return np.inf

    def ask(one: np.ndarray) -> tuple[float, np.ndarray]:
        bound: Callable[..., GaugeBound] = box_gauge if rows.shape[1] <= MOST_CHORDS else quadratic_gauge
        found = bound(rows, one, rtol=0.1 * rtol, max_nodes=max_nodes)
        return found.upper_bound, found.best_neuron

    return fan_gauge(rows, dual, ask, rtol=rtol, max_calls=max_calls).upper_bound


class _Fan:
    """Open cones, the worst one first."""

    def __init__(
        self, rows: np.ndarray, dual: np.ndarray, ask: Callable[[np.ndarray], tuple[float, np.ndarray]]
    ):
        self.rows, self.dual, self.ask = rows, dual, ask
        self.lengths = lengths_up(rows)
        self.known: dict[bytes, float] = {}
        self.neuron, self.value = np.eye(1, rows.shape[1])[0], 0.0
        self.open: list[tuple[float, int, _Cone]] = []
        self.made, self.closed = 0, 0.0

    def run(self, rtol: float, max_calls: int) -> FanBound:
        """Cut the worst cone until the bound is attained or the calls are spent."""
        k = self.dual.shape[1]
        axes = np.array([self._height(axis) for axis in np.eye(k)])
        if k == 1 or k > MOST_OUTPUTS:
            return FanBound(float(lengths_up(axes[None])[0]), self.neuron, self.value, len(self.known))
        for signs in product((1.0, -1.0), repeat=k - 1):
            self._add(np.diag([1.0, *signs]))
        while self.open and len(self.known) < max_calls:
            cone = self.open[0][2]
            if cone.bound <= self.value * (1.0 + rtol):
                break
            heapq.heappop(self.open)
            a, b = cone.edge
            first, second = _even(cone.directions[a], cone.directions[b])
            for replaced in (a, b):
                directions = cone.directions.copy()
                directions[replaced] = first + second
                self._add(directions, cone.bound)
        bound = max([self.closed, *(cone.bound for _, _, cone in self.open)])
        return FanBound(max(bound, self.value), self.neuron, self.value, len(self.known))

    def _height(self, direction: np.ndarray) -> float:
        """Upper bound on h(Λv), rounding of Λv included."""
        key = direction.tobytes()
        if key not in self.known:
            one = self.dual @ direction
            lost = (len(direction) + 2) * EPS * (np.abs(self.dual) @ np.abs(direction))
            height, neuron = self.ask(np.ascontiguousarray(one))
            self.known[key] = up(height + total_up(lost, self.lengths))
            value = float(np.linalg.norm(np.maximum(self.rows @ neuron, 0.0) @ self.dual))
            if value > self.value:
                self.neuron, self.value = neuron, value
        return self.known[key]

    def _add(self, directions: np.ndarray, above: float = np.inf) -> None:
        heights = np.array([self._height(direction) for direction in directions])
        bound, shares = _least_norm(directions, heights)
        edge = _edge(directions, shares)
        cone = _Cone(directions, heights, min(bound, above), edge)
        if np.abs(_even(directions[edge[0]], directions[edge[1]])).max() > LARGEST:
            self.closed = max(self.closed, cone.bound)
            return
        self.made += 1
        heapq.heappush(self.open, (-cone.bound, self.made, cone))


def _even(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lengthen the shorter of two directions by a power of two, to about the other's length."""
    power = round(float(np.log2(np.linalg.norm(first) / np.linalg.norm(second))))
    return (first, np.ldexp(second, power)) if power > 0 else (np.ldexp(first, -power), second)


def _least_norm(directions: np.ndarray, heights: np.ndarray) -> tuple[float, np.ndarray]:
    """Bound the least ‖p‖ with p·v_j ≥ h_j from above; also how much each direction has to do with it."""
    lengths = np.linalg.norm(directions, axis=1)
    units, wanted = directions / lengths[:, None], heights / lengths
    top = float(wanted.max())
    if top <= 0.0:
        return 0.0, np.ones(len(heights))
    k = len(heights)
    # Lawson and Hanson's way from least distances to nonnegative least squares
    system = np.vstack([units.T, wanted / top])
    shares, _ = nnls(system, np.eye(k + 1)[k])
    rest = np.eye(k + 1)[k] - system @ shares
    p = -rest[:k] / rest[k] * top if rest[k] > EPS else np.zeros(k)
    p = p if np.isfinite(p).all() and p.any() else np.linalg.solve(units, wanted)
    reached = directions @ p - (k + 2) * EPS * (np.abs(directions) @ np.abs(p))
    if (reached <= 0.0).any():
        p = np.linalg.lstsq(units, np.full(k, top), rcond=None)[0]
        reached = directions @ p - (k + 2) * EPS * (np.abs(directions) @ np.abs(p))
        if (reached <= 0.0).any():
            return np.inf, np.ones(k)
    factor = up(float((heights / reached).max()))
    return up(up(max(factor, 0.0) * (1.0 + 2 * EPS)) * float(lengths_up(p[None])[0])), shares


def _edge(directions: np.ndarray, shares: np.ndarray) -> tuple[int, int]:
    """Return the ends of the edge to cut: long, between directions that hold the bound."""
    units = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    floor = 0.1 * float(shares.max(initial=0.0)) or 1.0
    weights = shares + floor

    def size(pair: tuple[int, int]) -> float:
        a, b = pair
        return float(weights[a] * weights[b] * (1.0 - units[a] @ units[b]))

    return max(combinations(range(len(units)), 2), key=size)
