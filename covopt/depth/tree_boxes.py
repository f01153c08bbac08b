"""The least of the tree bound over the sizes c of the layers, certified by branch and bound over boxes of log c."""

from __future__ import annotations

import heapq
import math
from itertools import product
from typing import Any

import numpy as np

from covopt.exact.rounding import down, up
from covopt.limits import checkpoint

LEAST_SHARE = 1e-7  # of the upper bound: smaller c are charged nothing


def least_over_boxes(terms: list[Any], dim: int, cutoff: float, tol: float, max_boxes: int) -> float:
    """Bound min over c ≥ 0 of Σc + max over terms, by branch and bound over log c."""
    least = LEAST_SHARE * cutoff
    start = (np.full(dim, math.log(least)), np.full(dim, math.log(cutoff)))
    corners = np.array(list(product((0.0, 1.0), repeat=dim))).T

    def below(low: np.ndarray, high: np.ndarray) -> tuple[float, float]:
        """Return a bound on the box, and a value in it."""
        x = low[:, None] + (high - low)[:, None] * corners
        c = np.exp(x)
        middle = np.exp(0.5 * (low + high))
        best, value = 0.0, 0.0
        for term in terms:
            tops = term.recursion.gauge(np.column_stack([c, middle]))
            bottom = term.over(tops[-1:])
            value = max(value, float(middle.sum() + bottom[0]))
            best = max(best, _box_bound(term, x, tops[:-1], low, high))
        return best, value

    bound, value = below(*start)
    heap: list[tuple[float, int, Any]] = [(bound, 0, start)]
    best_value, count = min(cutoff, value), 1
    while heap and count < max_boxes:
        checkpoint()
        bound, _, (low, high) = heap[0]
        if bound >= best_value * (1.0 - tol):
            break
        heapq.heappop(heap)
        axis = int(np.argmax((high - low) * (1.0 + np.exp(0.5 * (low + high)))))
        middle = 0.5 * (low[axis] + high[axis])
        for side in (0, 1):
            lower, upper = low.copy(), high.copy()
            (upper if side == 0 else lower)[axis] = middle
            found, value = below(lower, upper)
            best_value = min(best_value, value)
            count += 1
            heapq.heappush(heap, (max(bound, found), count, (lower, upper)))
    # c below the least is charged nothing; Σc above the cutoff is above it
    total = heap[0][0] if heap else cutoff
    return max(0.0, down(min(cutoff, total) - up(2.0 * dim * least)))


def _box_bound(term: Any, x: np.ndarray, tops: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """Σe^x + 2⟨λ, y⟩e^{−log h} − penalty/h² on a box, log h ≤ s·x + r by its corners."""
    if not (tops > 0.0).all():
        return float(np.exp(low).sum()) if term.inner <= 0 else math.inf
    s, r = affine_majorant(np.log(tops), x, low, high)
    loss = 0.0
    if term.penalty > 0.0:
        loss = up(term.penalty / down(float(tops.min()) * (1.0 - 1e-12)) ** 2)
    # min over the box of Σe^{x_i} + E with E = 2⟨λ,y⟩e^{−s·x−r}: convex; any point gives a lower bound by its tangent
    at = minimise(s, math.log(2.0 * term.inner) - r, low, high)
    rest = math.exp(math.log(2.0 * term.inner) - r - float(s @ at))
    slope = np.exp(at) - s * rest
    tangent = float(np.where(slope > 0, slope * (low - at), slope * (high - at)).sum())
    value = float(np.exp(at).sum()) + rest + tangent
    size = float(np.exp(at).sum()) + rest + abs(tangent) + loss
    found = max(0.0, value - loss - 2.0**-44 * size)
    if term.penalty > 0.0:  # a smaller multiple of λ, the same on the whole box, pays less for its sum
        fixed = down(float(np.exp(low).sum()) * (1.0 - 2.0**-44) + float(term.over(tops.max()[None])[0]))
        found = max(found, fixed)
    return found


def affine_majorant(
    logs: np.ndarray, x: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return s ≥ 0 and r with s·x + r above a convex function of x on a box, given its values at the corners x."""
    dim = len(low)
    # the mean rise along each axis is the slope of the majorant
    grid = logs.reshape((2,) * dim)
    rises = [float((grid.take(1, axis=i) - grid.take(0, axis=i)).mean()) for i in range(dim)]
    s = np.maximum(np.array(rises) / (high - low), 0.0)
    return s, float((logs - s @ x).max()) + 1e-13 * (1.0 + float(np.abs(logs).max()))


def minimise(s: np.ndarray, log_gain: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return nearly the minimiser of Σe^x + e^{log_gain − s·x} over a box: bisection on the last term's size."""
    floor, ceiling = log_gain - float(s @ high), log_gain - float(s @ low)
    with np.errstate(divide="ignore"):
        logs = np.log(s)
    for _ in range(60):
        guess = 0.5 * (floor + ceiling)
        x = np.clip(logs + guess, low, high)
        if log_gain - float(s @ x) > guess:
            floor = guess
        else:
            ceiling = guess
    return np.clip(logs + 0.5 * (floor + ceiling), low, high)
