r"""The maximum of the dual function in the plane, in integers: h(Λ) = max over ‖w‖ ≤ 1 of ‖Λᵀσ(Zw)‖ for rows in ℝ².

The rays orthogonal to the rows cut the plane into arcs, and on each of them Λᵀσ(Zw) = Gᵀw with one matrix G. Doubles
are integers times a power of two, so G, the order of the rays and every comparison are exact here: rows far from the
origin, whose rays agree to ten digits and whose sums cancel as many, cost nothing. Only the last square root and
division are rounded, upwards.

On an arc of at most a quarter turn ‖Gᵀw‖² is a sine wave of twice the angle: it is largest inside where it rises at
the first ray and falls at the last, and there it is the larger eigenvalue of GGᵀ; else at one of the rays.
"""

from __future__ import annotations

import math
from functools import cmp_to_key
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from covopt.exact.rounding import dot_bounds, lengths_up, up

MOST_ENTRIES = 100_000  # of the dual: some seconds
FINER = 64  # bits by which numbers are refined before a root is taken in integers


class Ray(NamedTuple):
    """A direction in integers; crossing it counterclockwise changes G by ``sign`` times the product of ``row``."""

    u: int
    v: int
    row: int
    sign: int


def arc_gauge(rows: np.ndarray, dual: np.ndarray) -> float:
    """Return h(Λ) to one rounding upwards.

    Parameters
    ----------
    rows : ndarray of shape (N, 2)
    dual : ndarray of shape (N,) or (N, k)
        Doubles, or fractions whose denominators are powers of two.

    Returns
    -------
    float
        Not below h(Λ) for the numbers given.

    Examples
    --------
    >>> arc_gauge(np.eye(2), np.array([3.0, 4.0]))
    5.000000000000001
    >>> far = np.array([[1e9, 1.0], [1e9 + 1.0, 1.0]])
    >>> float(arc_gauge(far, np.array([1e9, -1e9])) / 1e9).__round__(9)
    1.0
    """
    outputs = dual.reshape(len(dual), -1)
    kept = rows.any(axis=1) & (outputs != 0).any(axis=1)
    rows, outputs = rows[kept], outputs[kept]
    if len(rows) == 0:
        return 0.0
    directions = [_integers(row)[0] for row in rows]
    products, power = _products(rows, outputs)
    rays = _sorted_rays(directions)
    k = outputs.shape[1]
    g = [0] * (2 * k)
    for (x, y), product in zip(directions, products, strict=True):
        if x > 0 or (x == 0 and y < 0):  # active just below the first ray, (1, 0)
            g = [a + b for a, b in zip(g, product, strict=True)]
    best = 0.0
    for ray, after in pairwise([*rays, rays[0]]):
        if ray.sign:
            g = [a + ray.sign * b for a, b in zip(g, products[ray.row], strict=True)]
        xx = sum(a * a for a in g[:k])
        xy = sum(a * b for a, b in zip(g[:k], g[k:], strict=True))
        yy = sum(b * b for b in g[k:])
        u, v = ray.u, ray.v
        best = max(best, _ratio_up(u * u * xx + 2 * u * v * xy + v * v * yy, u * u + v * v, power))
        if _slope(xx, xy, yy, u, v) > 0 > _slope(xx, xy, yy, after.u, after.v):
            best = max(best, _ratio_up(_top_eigenvalue(xx, xy, yy), 1 << (2 * FINER + 1), power))
    return up(math.sqrt(best)) if best else 0.0


def line_gauge(heights: np.ndarray, dual: np.ndarray) -> float:
    """Return h(Λ) for rows of one number, upwards, by a look at both directions.

    Parameters
    ----------
    heights : ndarray of shape (N,)
    dual : ndarray of shape (N, k)

    Examples
    --------
    >>> line_gauge(np.array([2.0, -1.0]), np.array([[3.0], [8.0]])) >= 8.0
    True
    """
    best = 0.0
    for side in (1.0, -1.0):
        active = np.maximum(side * heights, 0.0)
        ends = [dot_bounds(active, column) for column in dual.T]
        largest = np.array([[max(abs(low), abs(high)) for low, high in ends]])
        best = max(best, float(lengths_up(largest)[0]) if len(ends) > 1 else float(largest[0, 0]))
    return best


def _slope(xx: int, xy: int, yy: int, u: int, v: int) -> int:
    """Half the derivative of ‖Gᵀw‖² counterclockwise at (u, v)."""
    return (u * u - v * v) * xy + u * v * (yy - xx)


def _top_eigenvalue(xx: int, xy: int, yy: int) -> int:
    """Bound 2^(2 FINER + 1) times the larger eigenvalue from above."""
    root = math.isqrt(((xx - yy) ** 2 + 4 * xy * xy) << (4 * FINER)) + 1
    return ((xx + yy) << (2 * FINER)) + root


def _ratio_up(numerator: int, denominator: int, power: int) -> float:
    """Quotient of integers, which Python rounds once, times 4^−power, upwards."""
    if not numerator:
        return 0.0
    if power < 0:
        return up((numerator << -2 * power) / denominator)
    return up(numerator / (denominator << 2 * power))


def _integers(values: np.ndarray) -> tuple[list[int], int]:
    """Numbers times one power of two, without common factors of two, and that power."""
    pairs = [value.as_integer_ratio() for value in values.tolist()]
    power = max(denominator.bit_length() for _, denominator in pairs) - 1
    whole = [numerator << (power + 1 - denominator.bit_length()) for numerator, denominator in pairs]
    shift = min((n & -n).bit_length() - 1 for n in whole if n)
    return [n >> shift for n in whole], power - shift


def _products(rows: np.ndarray, outputs: np.ndarray) -> tuple[list[list[int]], int]:
    """All z_i Λ_iᵀ as 2k integers each, times one power of two."""
    found, powers = [], []
    for row, column in zip(rows, outputs, strict=True):
        (x, y), first = _integers(row)
        weights, second = _integers(column)
        found.append([x * w for w in weights] + [y * w for w in weights])
        powers.append(first + second)
    top = max(powers)
    return [[p << (top - power) for p in product] for product, power in zip(found, powers, strict=True)], top


def _sorted_rays(directions: list[list[int]]) -> list[Ray]:
    """All rays and the four axes, counterclockwise from (1, 0)."""
    rays = [Ray(1, 0, 0, 0), Ray(0, 1, 0, 0), Ray(-1, 0, 0, 0), Ray(0, -1, 0, 0)]
    for i, (x, y) in enumerate(directions):
        rays += [Ray(y, -x, i, 1), Ray(-y, x, i, -1)]
    # doubles order most of them; the integers have the last word
    rays.sort(key=lambda ray: math.atan2(*_as_floats(ray.v, ray.u)) % (2 * math.pi))
    rays.sort(key=cmp_to_key(_compare))
    return rays


def _as_floats(v: int, u: int) -> tuple[float, float]:
    extra = max(abs(v).bit_length(), abs(u).bit_length()) - 1000
    return (float(v), float(u)) if extra <= 0 else (float(v >> extra), float(u >> extra))


def _compare(first: Ray, second: Ray) -> int:
    """Order by angle in [0, 2π)."""
    lower = (first.v < 0 or (first.v == 0 and first.u < 0)) - (
        second.v < 0 or (second.v == 0 and second.u < 0)
    )
    if lower:
        return lower
    turn = first.u * second.v - first.v * second.u
    return (turn < 0) - (turn > 0)
