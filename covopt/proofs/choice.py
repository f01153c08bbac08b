"""Slopes and normals for the leaves of a cover, and the multiple of a dual, chosen in floating point.

Nothing here is trusted. The checker accepts any a in [0, 1] and any |p| ≤ 1 (:mod:`covopt.proofs.closing`);
what is chosen here only decides how many boxes it needs. On a box let f be the linear functions that are not negative
on it (its facets). For chords a on the rows with w = +1 the best a on the others, and the best p, come from

    minimise |q + Σ μ_f f|  over a_i in [0, 1] and μ_f ≥ 0,

by convex duality: the box is closed if and only if the minimum is at most H, with p parallel to that vector. It is
found coordinate by coordinate, for many boxes at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

SMALLEST = 2.0**-100
CELLS = 150_000  # rows times boxes at a time
SWEEPS, ROUNDS = 2, 12  # sweeps between leaps, and how often
BISECTIONS = 100
MANTISSA = 53  # slopes in finer units need no second choice
FEW = 80  # multipliers; boxes with more of them are large, and better cut than studied


@np.errstate(all="ignore")  # advice from numbers out of range is bad advice, no error
def advise(
    real: np.ndarray, count: np.ndarray, row: np.ndarray, weight: np.ndarray, lo: np.ndarray, hi: np.ndarray,
    linear: np.ndarray, low: np.ndarray, high: np.ndarray, width: np.ndarray, one: int,
    basis: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:  # fmt: skip
    """Return a for every undecided row, p for every box, a coordinate to cut it along, and a value of G.

    Parameters
    ----------
    real : ndarray of shape (n, r)
        The rows; H is one.
    count : ndarray of shape (boxes,)
        How many of the entries of the next four arrays belong to each box.
    row, weight, lo, hi : ndarray of shape (entries,)
        Undecided rows: their places, σ s_i, and between which numbers they are on the box.
    linear, low, high, width : ndarray of shape (boxes, r)
        Of each box: the sum of the rows that are decided, its corners and widths.
    one : int
        Slopes are to be multiples of its inverse.
    basis : ndarray of shape (r, r), optional
        Its rows are the vectors that the coordinates belong to, where these are not orthonormal; p is not in them.

    Returns
    -------
    slopes : ndarray of shape (entries,)
    normals : ndarray of shape (boxes, r)
    axes : ndarray of shape (boxes,) of int
        −1 for a box that is too small to be cut.
    value : float
        The largest σG(u)/(H|u|) at a centre: above 1 the statement is false.
    """
    start = np.cumsum(count) - count
    slopes, normals, axes = np.zeros(len(row)), np.zeros(low.shape), np.zeros(len(count), dtype=np.int64)
    order, begin, best = np.argsort(count, kind="stable"), 0, 0.0
    while begin < len(order):
        end = begin + 1
        while end < len(order) and (end + 1 - begin) * (count[order[end]] + 4) <= CELLS:
            end += 1
        which, begin = order[begin:end], end
        entry = start[which] + np.arange(count[which[-1]])[:, None]
        there = entry < (start + count)[which]
        entry = np.where(there, entry, 0)
        weights = np.where(there, weight[entry], 0)
        bottom, top = np.where(there, lo[entry], -1.0), np.where(there, hi[entry], 1.0)
        signed = np.ascontiguousarray(
            (real[row[entry]] * weights[..., None]).transpose(0, 2, 1)
        )  # (rows, r, boxes)
        line, least, most, wide = (part[which].T for part in (linear, low, high, width))
        a, normal = _descend(signed, weights, bottom, top, line, least, most, wide, one, basis)
        wanted = np.where(wide > SMALLEST, wide * (np.abs(signed).sum(axis=0) + wide), -1.0)
        axes[which] = np.where(wanted.max(axis=0) > 0, wanted.argmax(axis=0), -1)
        centre = 0.5 * (least + most)
        heights = (signed * centre).sum(axis=1)
        heights = np.where(weights > 0, np.maximum(heights, 0.0), np.minimum(heights, 0.0)).sum(axis=0)
        point = centre if basis is None else basis.T @ centre
        values = ((line * centre).sum(axis=0) + heights) / np.sqrt((point**2).sum(axis=0))
        best = max(best, float(np.where(np.isfinite(values), values, 0.0).max()))
        slopes[entry[there]] = np.clip(np.nan_to_num(a), 0.0, 1.0)[there]
        normals[which] = np.clip(np.nan_to_num(normal), -1.0, 1.0).T
    return slopes, normals, axes, best


def _descend(
    signed: np.ndarray, weight: np.ndarray, lo: np.ndarray, hi: np.ndarray, linear: np.ndarray, low: np.ndarray,
    high: np.ndarray, width: np.ndarray, one: int, basis: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return a and p for boxes side by side; H is one.

    Slopes are rounded before the rest is chosen: what that costs is then of second order.
    """
    dimension, number = low.shape
    place = np.arange(number)
    fixed = width.argmin(axis=0)
    side = low[fixed, place]
    a = np.rint(hi / (hi - lo) * one) / one
    q = linear + (a[:, None] * signed).sum(axis=0)
    q[fixed, place] += side * np.where(weight > 0, np.maximum(-a * lo, (1.0 - a) * hi), 0.0).sum(axis=0)
    facets = np.zeros((2 * dimension, dimension, number))
    for j in range(dimension):
        for k, sign, corner in ((2 * j, 1.0, low[j]), (2 * j + 1, -1.0, high[j])):
            facets[k, j] += sign
            facets[k, fixed, place] -= sign * corner * side

    concave = np.flatnonzero((weight < 0).any(axis=1))
    is_concave, m = weight[concave] < 0, len(concave)
    step = np.concatenate([signed[concave], facets])
    value = np.concatenate([np.where(is_concave, a[concave], 0.0), np.zeros((2 * dimension, number))])
    top = np.concatenate([is_concave.astype(float), np.full((2 * dimension, number), np.inf)])
    if basis is not None:
        back = np.linalg.inv(basis)
        step, q = np.einsum("ij,kjn->kin", back, step), back @ q
    square = (step**2).sum(axis=1)
    inverse = np.where((top > 0) & (square > 0), 1.0 / np.where(square > 0, square, 1.0), 0.0)

    def rounds(first: int) -> None:
        todo = place
        for round_ in range(ROUNDS if len(step) <= FEW else 1):
            todo = todo[(q[:, todo] ** 2).sum(axis=0) > 1.0 - 1e-14]
            if not len(todo):
                break
            s, v, t, i = (part[first:][..., todo] for part in (step, value, top, inverse))
            z = q[:, todo]
            if round_ or first:
                _leap(s, v, t, z)
            for _ in range(SWEEPS):
                for k in range(len(s)):
                    new = np.clip(v[k] - (z * s[k]).sum(axis=0) * i[k], 0.0, t[k])
                    z += (new - v[k]) * s[k]
                    v[k] = new
            value[first:, todo], q[:, todo] = v, z

    rounds(0)
    short = np.rint(value[:m] * one) / one
    q += ((short - value[:m])[:, None] * step[:m]).sum(axis=0)
    a[concave] = np.where(is_concave, short, a[concave])
    if m and one < 1 << MANTISSA:
        rounds(m)

    length = np.sqrt((q**2).sum(axis=0))
    centre = 0.5 * (low + high)
    centre = centre if basis is None else basis.T @ centre
    centre = centre / np.sqrt((centre**2).sum(axis=0))
    # where |q| < 1 there is room for a little of the centre in p, and that pays for the rounding of a and p
    normal = (q / np.maximum(length, 1.0) + np.maximum(0.0, 1.0 - length) * centre) * (1.0 - 1e-15)
    return a, normal


def _leap(step: np.ndarray, value: np.ndarray, top: np.ndarray, q: np.ndarray) -> None:
    """Minimise over the multipliers that are strictly between their ends, as far as these allow; in place.

    Facets of a small box are almost opposite, and coordinates alone creep.
    """
    free = (value > 0.0) & (value < top)
    kept = np.where(free[:, None], step, 0.0).transpose(2, 0, 1)  # (boxes, multipliers, r)
    gram = kept @ kept.transpose(0, 2, 1)
    size = np.einsum("bkk->b", gram)
    gram[:, np.arange(len(value)), np.arange(len(value))] += np.where(free.T, 1e-13 * size[:, None], 1.0)
    right = (kept @ q.T[:, :, None])[:, :, 0]
    try:
        move = -np.linalg.solve(gram, right[:, :, None])[:, :, 0].T
    except np.linalg.LinAlgError:
        return
    move = np.where(free & np.isfinite(move), move, 0.0)
    reach = np.where(move > 0, (top - value) / move, np.where(move < 0, -value / move, np.inf))
    move *= np.minimum(1.0, reach.min(axis=0))
    value += move
    np.clip(value, 0.0, top, out=value)
    q += (move[:, None] * step).sum(axis=0)


def conjugate_slope(quarters: int | None, s: float, y: float, u: float) -> float:
    """Return the derivative at u of uy + u²/s · quarters/4, what a sample adds to C*; None for the logistic loss."""
    if quarters is not None:
        return y + 0.5 * u / s * quarters
    share = min(max(-u * y / s, 1e-300), 1.0 - 1e-16)
    return -y * (math.log(share) - math.log1p(-share))


def best_multiple(rise: Callable[[float], float], longest: float) -> float:
    """Return the t up to ``longest`` at which a concave function of it is largest, nearly: any t gives a bound.

    Parameters
    ----------
    rise : callable
        Its derivative.
    longest : float
        1/gauge, or where the domain of the conjugate ends.

    Examples
    --------
    >>> round(best_multiple(lambda t: 1.0 - t, 3.0), 9), best_multiple(lambda t: 1.0 - t, 0.5)
    (1.0, 0.5)
    """
    if not rise(longest) < 0:
        return longest
    low, high = 0.0, longest
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rise(middle) > 0 else (low, middle)
    return high
