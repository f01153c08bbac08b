r"""The conjugate of a loss in a certificate: a point that is in its domain, and a value that is not too small.

The dual of C(F) + λ‖W‖² is −C*(U) at U = −2λΛ, and −∞ outside of the domain of C*: a point that misses it by one unit
in the last place proves nothing. With a free output bias Uᵀ1 = 0 is needed as well, in exact arithmetic.
:func:`into_domain` finds doubles that satisfy both exactly: they are multiples of one power of two (so their sums are
exact), inside the domain by comparison, and what their sum still differs from zero by is moved to rows with room.
:func:`conjugate_above` bounds C* at such a point or a multiple of it from above.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from covopt.exact.rounding import UNIT, allowance, up
from covopt.losses import Loss

ALTERNATIONS = 30
GRID_BITS = 50  # of the largest entry: a few of them add up exactly
FUNCTION = 64  # units in the last place that a logarithm and the operations around it may lose


def into_domain(loss: Loss, slope: np.ndarray, *, balanced: bool) -> np.ndarray:
    """Return a point of the domain of C* near ``slope``; in exact arithmetic it is one.

    Parameters
    ----------
    loss : Loss
        Bound to its targets; all weights positive.
    slope : ndarray of shape (N, k)
        U = −2λΛ.
    balanced : bool
        Whether every column has to sum to zero.

    Returns
    -------
    ndarray of shape (N, k)

    Examples
    --------
    >>> from covopt.losses import make_loss
    >>> loss = make_loss("hinge")
    >>> _ = loss.encode_targets([0, 1, 1])
    >>> inside = into_domain(loss, np.array([[1.0], [-0.3], [-1.0]]), balanced=True)
    >>> bool(loss.contains(inside)), float(inside.sum())
    (True, 0.0)
    """
    box = loss.domain_box()
    if box is None:
        return _into_simplices(loss, slope, balanced)
    low, high = box
    inside = np.clip(slope, low, high)
    if not balanced or not inside.any():
        return inside
    for column in range(slope.shape[1]):
        inside[:, column] = _balanced(slope[:, column], low[:, column], high[:, column])
    return inside


def balanced(dual: np.ndarray) -> np.ndarray:
    """Move a dual so that its columns sum to zero exactly, keeping zero rows where that is possible.

    Parameters
    ----------
    dual : ndarray of shape (N,) or (N, k)

    Returns
    -------
    ndarray of the same shape
        Multiples of one power of two for each column.

    Examples
    --------
    >>> from fractions import Fraction
    >>> moved = balanced(np.array([0.1, 0.2, 0.0, -0.3]))
    >>> sum(map(Fraction, moved.tolist())), moved[2], bool(np.abs(moved - [0.1, 0.2, 0.0, -0.3]).max() < 1e-15)
    (Fraction(0, 1), np.float64(0.0), True)
    """
    found = dual.reshape(len(dual), -1).copy()
    support = np.flatnonzero(found.any(axis=1))
    for column in found.T:
        values = column[support]
        if values.any():
            free = np.full(len(values), np.inf)
            column[support] = _balanced(values, -free, free)
    return found.reshape(dual.shape)


def _balanced(slope: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Shift a column so that it sums to zero within its bounds, which have zero between them; exactly."""
    size = float(np.abs(slope).max())
    shift = brentq(lambda t: float(np.clip(slope - t, low, high).sum()), -size, size, xtol=math.ulp(size))
    values, grid = _on_grid(np.clip(slope - shift, low, high))
    rest = math.fsum(values)
    room = np.minimum(values - low, size) if rest > 0 else np.minimum(high - values, size)
    for i in np.argsort(-room, kind="stable"):
        if rest == 0.0:
            return values
        step = min(abs(rest), math.floor(room[i] / grid) * grid)
        moved = values[i] - math.copysign(step, rest)
        if step > 0.0 and low[i] <= moved <= high[i]:
            values[i], rest = moved, rest - math.copysign(step, rest)
    return values if rest == 0.0 else np.zeros_like(values)


def _on_grid(values: np.ndarray, terms: int = 1) -> tuple[np.ndarray, float]:
    """Round towards zero to multiples of a power of two, so that sums of ``terms`` are exact; return that, too."""
    bits = GRID_BITS - terms.bit_length()
    power = max(int(np.frexp(np.abs(values).max(initial=0.0))[1]) - bits, -1000)
    return np.ldexp(np.trunc(np.ldexp(values, -power)), power), math.ldexp(1.0, power)


def _into_simplices(loss: Loss, slope: np.ndarray, balanced: bool) -> np.ndarray:
    """Of the softmax: e_y + U/s is a vector of chances in every row."""
    inside = loss.project(slope)
    if balanced:
        for _ in range(ALTERNATIONS):
            sums = inside.sum(axis=0)
            if np.abs(sums).max() <= 8 * UNIT * len(inside) * float(np.abs(inside).max()):
                break
            room = loss.room(inside).min(axis=1, keepdims=True)
            share = room / room.sum() if room.sum() > 0 else np.full_like(room, 1.0 / len(room))
            inside = loss.project(inside - share * sums)
    own = loss.targets.argmax(axis=1)[:, None]
    k = slope.shape[1]
    gains, grid = _on_grid(np.maximum(inside, 0.0), k)
    np.put_along_axis(gains, own, 0.0, axis=1)
    for _ in range(ALTERNATIONS):  # what the own class loses may not exceed its weight
        over = gains.sum(axis=1) > loss.weights[:, 0]
        if not over.any():
            break
        gains[over] *= 1.0 - 4.0 * UNIT
        gains = np.floor(gains / grid) * grid
    gains[gains.sum(axis=1) > loss.weights[:, 0]] = 0.0
    found = gains
    np.put_along_axis(found, own, -gains.sum(axis=1, keepdims=True), axis=1)
    return _transported(loss, found, grid) if balanced else found


def _transported(loss: Loss, found: np.ndarray, grid: float) -> np.ndarray:
    """Move what the columns sum to from column to column within rows that have room: exactly zero, rows as before."""
    sums = np.array([math.fsum(column) for column in found.T])
    weights = loss.weights[:, 0]
    while sums.any():
        source, sink = int(sums.argmax()), int(sums.argmin())
        if not sums[source] > 0.0 > sums[sink]:
            return np.zeros_like(found)
        room = np.where(loss.targets[:, source] > 0, weights + found[:, source], found[:, source])
        i = int(room.argmax())
        step = min(sums[source], -sums[sink], math.floor(room[i] / grid) * grid)
        if not step > 0.0:
            return np.zeros_like(found)
        found[i, source] -= step
        found[i, sink] += step
        sums[source] -= step
        sums[sink] += step
    return found


def reach(loss: Loss, slope: np.ndarray) -> float:
    """Return a t ≥ 1 such that tU is in the domain when U is; a little less than the largest."""
    box = loss.domain_box()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if box is None:
            own = np.where(loss.targets > 0, slope, 0.0).min(axis=1)
            ratio = np.where(own < 0, loss.weights[:, 0] / -own, np.inf)
        else:
            ratio = np.where(slope > 0, box[1] / slope, np.where(slope < 0, box[0] / slope, np.inf))
    # the quotient and the product tU are rounded
    return max(1.0, float(ratio.min(initial=np.inf)) * (1.0 - 8.0 * UNIT))


def conjugate_above(loss: Loss, slope: np.ndarray, *, roundings: int = 2) -> float:
    r"""Bound C*(U) from above, for every U in the domain whose entries are within a few units u of ``slope``'s.

    The terms are products and entropies; each is computed with a relative error of a few units, but for 1 − p in
    (1 − p) log(1 − p), which is off by u p and moves the entropy by u p (1 + \|log(1 − p)\|) ≤ 64 u p, and for
    q = 1 + U/s of the softmax, off by u.

    Parameters
    ----------
    loss : Loss
    slope : ndarray of shape (N, k)
    roundings : int
        Relative errors of a unit that an entry of ``slope`` may have gone through (a rounded multiple of a dual: 2).

    Returns
    -------
    float
    """
    value, size = loss.conjugate_terms(slope)
    moved = float(np.abs(slope).sum())
    if loss.domain_box() is None:
        moved += float(loss.weights[slope.any(axis=1)].sum())
    return up(value + up(allowance(slope.size + FUNCTION, size) + roundings * FUNCTION * UNIT * moved))
