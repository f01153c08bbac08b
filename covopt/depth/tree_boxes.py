"""The least of the tree bound over the sizes c of the layers, certified by branch and bound over boxes of log c."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from covopt.exact.rounding import down, up
from covopt.limits import checkpoint

LEAST_SHARE = 1e-7  # of the upper bound: smaller c are charged nothing


def least_over_boxes(terms: list[Any], dim: int, cutoff: float, tol: float, max_boxes: int) -> float:
    """Bound min over c ≥ 0 of Σc + max over terms, by branch and bound over log c."""
    least = LEAST_SHARE * cutoff
    corners = corners_of(dim)

    def below(low: np.ndarray, high: np.ndarray) -> tuple[float, float]:
        """Return a bound on the box, and a value in it."""
        x = low[:, None] + (high - low)[:, None] * corners
        middle = np.exp(0.5 * (low + high))
        best, value = 0.0, 0.0
        for term in terms:
            tops = term.recursion.gauge(np.column_stack([np.exp(x), middle]))
            bottom = term.over(tops[-1:])
            value = max(value, float(middle.sum() + bottom[0]))
            best = max(best, _box_bound(term, x, tops[:-1], low, high))
        return best, value

    start = np.full(dim, math.log(least)), np.full(dim, math.log(cutoff))
    total = branch_and_bound(below, *start, cutoff, tol=tol, most=max_boxes)
    # c below the least is charged nothing; Σc above the cutoff is above it
    return max(0.0, down(min(cutoff, total) - up(2.0 * dim * least)))


def corners_of(dim: int) -> np.ndarray:
    """Return the corners of the unit cube, a column for each."""
    return np.array(list(product((0.0, 1.0), repeat=dim))).T


def branch_and_bound(
    box: Callable[[np.ndarray, np.ndarray], tuple[float, float]],
    low: np.ndarray,
    high: np.ndarray,
    best: float,
    *,
    tol: float,
    most: int,
) -> float:
    """Halve boxes of log c, the one with the least bound first, and return the least bound in the end.

    Parameters
    ----------
    box : callable
        Returns a bound on a box, and a value in it.
    low, high : ndarray of shape (dim,)
    best : float
        Nothing above it is looked for.
    tol : float
        Relative, between the least bound and the least value.
    most : int
        Boxes.
    """
    bound, value = box(low, high)
    heap: list[tuple[float, int, Any]] = [(bound, 0, (low, high))]
    best, count = min(best, value), 1
    while count < most and heap[0][0] < best * (1.0 - tol):
        checkpoint()
        bound, _, (low, high) = heapq.heappop(heap)
        axis = int(np.argmax((high - low) * (1.0 + np.exp(0.5 * (low + high)))))
        middle = 0.5 * (low[axis] + high[axis])
        for side in (0, 1):
            lower, upper = low.copy(), high.copy()
            (upper if side == 0 else lower)[axis] = middle
            found, value = box(lower, upper)
            best, count = min(best, value), count + 1
            heapq.heappush(heap, (max(bound, found), count, (lower, upper)))
    return heap[0][0]


def _box_bound(term: Any, x: np.ndarray, tops: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """Σe^x + 2⟨λ, y⟩e^{−log h} − penalty/h² on a box, log h ≤ s·x + r by its corners."""
    if not (tops > 0.0).all():
        return float(np.exp(low).sum()) if term.inner <= 0 else math.inf
    s, r = affine_majorant(np.log(tops), x, low, high)
    loss = 0.0
    if term.penalty > 0.0:
        loss = up(term.penalty / down(float(tops.min()) * (1.0 - 1e-12)) ** 2)
    value, size = least_on_box(s, math.log(2.0 * term.inner) - r, low, high)
    found = max(0.0, value - loss - 2.0**-44 * (size + loss))
    if term.penalty > 0.0:  # a smaller multiple of λ, the same on the whole box, pays less for its sum
        fixed = down(float(np.exp(low).sum()) * (1.0 - 2.0**-44) + float(term.over(tops.max()[None])[0]))
        found = max(found, fixed)
    return found


def least_on_box(s: np.ndarray, log_gain: float, low: np.ndarray, high: np.ndarray) -> tuple[float, float]:
    """Bound Σe^x + e^{log_gain − s·x} on a box from below, to rounding of the size that is returned with it.

    The function is convex, so any point gives a lower bound by its tangent.
    """
    at = minimise(s, log_gain, low, high)
    rest = math.exp(log_gain - float(s @ at))
    slope = np.exp(at) - s * rest
    tangent = float(np.where(slope > 0, slope * (low - at), slope * (high - at)).sum())
    value = float(np.exp(at).sum()) + rest
    return value + tangent, value + abs(tangent)


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
