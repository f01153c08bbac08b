r"""A certified upper bound on the dual norm of a dual point with several outputs, by a fan of output directions.

.. math::
    h(Λ) = \max_{\|w\| \le 1} \|Λ^⊤σ(Zw)\| = \max_{\|v\| = 1} h_+(Λv), \qquad h_+(λ) = \max_{\|w\| \le 1} λ·σ(Zw).

h₊ is sublinear. On the cone of v₁, …, v_k it is therefore at most linear: where p·v_j ≥ h(Λv_j) for all j,
h₊(Λv) ≤ p·v ≤ ‖p‖ for the unit vectors v of the cone. The least norm of such a p is the bound of a cone. The worst
cone is bisected at an edge, and each new direction calls the scalar oracle once. Cones cover the outputs up to
v → −v, under which h does not change.

The v_j have integer entries whose sums are exact, so the cones cover the outputs without gaps. p·v_j ≥ h_j is checked
with its rounding, and the rounding of Λv is added.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from scipy.optimize import nnls

from covopt.exact.rank import LINE
from covopt.exact.rounding import EPS, lengths_up, total_up, up
from covopt.oracles.base import MOST_DIMENSIONS


@dataclass(frozen=True)
class _Cone:
    directions: np.ndarray  # (k, k), one per row
    heights: np.ndarray  # (k,)
    bound: float
    edge: tuple[int, int]


def fan_dual_norm(
    rows: np.ndarray,
    dual: np.ndarray,
    ask: Callable[[np.ndarray], float],
    *,
    best: float,
    rtol: float = 1e-6,
    goal: float = 0.0,
    max_calls: int = 100,
    goes_on: Callable[[], bool] = lambda: True,
) -> float:
    """Bound h(Λ) = max over unit w of ‖Λᵀσ(Zw)‖ from above, provided that the scalar bounds are valid.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N, k)
    ask : callable
        Takes λ of shape (N,); returns an upper bound on max |λ·σ(Zw)| over ‖w‖ ≤ 1.
    best : float
        The best known value, that of a neuron.
    rtol : float
        Stop when the bound is within this relative distance of ``best``.
    goal : float
        Stop when the bound is at most this.
    max_calls : int
        Most output directions; at least one for each output.
    goes_on : callable
        Whether another direction may be bounded.

    Examples
    --------
    >>> from covopt.oracles.boxes.search import box_dual_norm
    >>> rows = np.eye(3)
    >>> dual = np.array([[3.0, 0.0], [0.0, 4.0], [1.0, 1.0]])
    >>> found = fan_dual_norm(rows, dual, lambda one: box_dual_norm(rows, one).upper_bound, best=4.1401, rtol=1e-4)
    >>> bool(4.1401 <= found <= 4.1401 * 1.0001)
    True
    """
    return _Fan(rows, dual, ask).run(max(best * (1.0 + rtol), goal), rtol, max_calls, goes_on)


class _Fan:
    """Open cones, the worst one first."""

    def __init__(self, rows: np.ndarray, dual: np.ndarray, ask: Callable[[np.ndarray], float]):
        self.dual, self.ask = dual, ask
        self.lengths = lengths_up(rows)
        self.known: dict[bytes, float] = {}
        self.open: list[tuple[float, int, _Cone]] = []
        self.made, self.closed = 0, 0.0
        self.highest = 0.0  # largest bound along one direction: no cut can lower it

    def run(self, level: float, rtol: float, max_calls: int, goes_on: Callable[[], bool]) -> float:
        """Cut the worst cone until the bound is at a level, near ``highest``, or the work is used up."""
        k = self.dual.shape[1]
        axes = np.array([self._height(axis) for axis in np.eye(k)])
        if k == 1 or k > MOST_DIMENSIONS:
            return float(lengths_up(axes[None])[0])
        for signs in product((1.0, -1.0), repeat=k - 1):
            self._add(np.diag([1.0, *signs]))
        while self.open and len(self.known) < max_calls and goes_on():
            cone = self.open[0][2]
            if cone.bound <= max(level, self.closed, self.highest * (1.0 + rtol)):
                break
            heapq.heappop(self.open)
            a, b = cone.edge
            first, second = _even(cone.directions[a], cone.directions[b])
            for replaced in (a, b):
                directions = cone.directions.copy()
                directions[replaced] = first + second
                self._add(directions, cone.bound)
        return max([self.closed, *(cone.bound for _, _, cone in self.open)])

    def _height(self, direction: np.ndarray) -> float:
        """Return an upper bound on h(Λv), with the rounding of Λv."""
        key = direction.tobytes()
        if key not in self.known:
            one = self.dual @ direction
            lost = (len(direction) + 2) * EPS * (np.abs(self.dual) @ np.abs(direction))
            self.known[key] = up(self.ask(np.ascontiguousarray(one)) + total_up(lost, self.lengths))
            self.highest = max(self.highest, self.known[key] / float(np.linalg.norm(direction)))
        return self.known[key]

    def _add(self, directions: np.ndarray, above: float = np.inf) -> None:
        heights = np.array([self._height(direction) for direction in directions])
        bound, shares = _least_norm(directions, heights)
        edge = _edge(directions, shares)
        cone = _Cone(directions, heights, min(bound, above), edge)
        if LINE * np.abs(_even(directions[edge[0]], directions[edge[1]])).max() > 1.0:
            # sums of larger ones need not be exact
            self.closed = max(self.closed, cone.bound)
            return
        self.made += 1
        heapq.heappush(self.open, (-cone.bound, self.made, cone))


def _even(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scale the shorter of two directions by a power of two, to about the other's length."""
    power = round(float(np.log2(np.linalg.norm(first) / np.linalg.norm(second))))
    return (first, np.ldexp(second, power)) if power > 0 else (np.ldexp(first, -power), second)


def _least_norm(directions: np.ndarray, heights: np.ndarray) -> tuple[float, np.ndarray]:
    """Bound the least ‖p‖ with p·v_j ≥ h_j from above; also return the multiplier of each direction."""
    lengths = np.linalg.norm(directions, axis=1)
    units, wanted = directions / lengths[:, None], heights / lengths
    top = float(wanted.max())
    if top <= 0.0:
        return 0.0, np.ones(len(heights))
    k = len(heights)
    # least distance problem as nonnegative least squares (Lawson and Hanson)
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
    """Return the ends of the edge to cut: a long edge between directions with large multipliers."""
    units = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    floor = 0.1 * float(shares.max(initial=0.0)) or 1.0
    weights = shares + floor

    def size(pair: tuple[int, int]) -> float:
        a, b = pair
        return float(weights[a] * weights[b] * (1.0 - units[a] @ units[b]))

    return max(combinations(range(len(units)), 2), key=size)
