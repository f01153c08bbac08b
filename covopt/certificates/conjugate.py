r"""The lower bound that a dual point proves, given a bound on its dual norm, and the conjugate of a loss in it.

The dual of C(F) + λ‖W‖² is −C*(U) at U = −2λΛ, and −∞ outside of the domain of C*: a point that misses it by one unit
in the last place proves nothing. With a free output bias Uᵀ1 = 0 is needed as well, in exact arithmetic.
:func:`into_domain` finds doubles that satisfy both exactly: they are multiples of one power of two (so their sums are
exact), inside the domain by comparison, and what their sum still differs from zero by is moved to rows with room.
:func:`conjugate_above` bounds C* at such a point or a multiple of it from above.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq

from covopt.exact.rounding import (
    TINY,
    UNIT,
    allowance,
    dot_bounds,
    down,
    lengths_up,
    sum_bounds,
    total_up,
    up,
)  # fmt: skip
from covopt.losses import Interpolation, Loss

GRID_BITS = 50  # of the largest entry: a few of them add up exactly
Pair = tuple[np.ndarray, np.ndarray | None]  # two doubles for each number
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
    if loss.is_level:
        return _into_simplices(loss, slope, balanced)
    low, high = loss.domain_box()
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
        if math.fsum(values):  # zero is not rounded again
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
    own = loss.targets.argmax(axis=1)[:, None]
    k = slope.shape[1]
    gains, grid = _on_grid(np.maximum(inside, 0.0), k)
    np.put_along_axis(gains, own, 0.0, axis=1)
    lost, most = gains.sum(axis=1, keepdims=True), loss.weights[:, :1]
    share = np.where(lost > most, most / np.where(lost > 0.0, lost, 1.0) * (1.0 - 8.0 * UNIT), 1.0)
    found = np.floor(gains * share / grid) * grid
    found[found.sum(axis=1) > most[:, 0]] = 0.0  # what the own class loses does not exceed its weight
    np.put_along_axis(found, own, -found.sum(axis=1, keepdims=True), axis=1)
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
    if loss.is_level:
        moved += float(loss.weights[slope.any(axis=1)].sum())
    return up(value + up(allowance(slope.size + FUNCTION, size) + roundings * FUNCTION * UNIT * moved))


def dual_point(
    loss: Loss, slope: np.ndarray, *, free: bool, low: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return a point near U = ``slope`` (+ ``low``) that the bound may be read from.

    It is in the domain of C*, and with a free output bias Uᵀ1 = 0, exactly; with interpolation no row of zeros
    becomes another one then.

    Parameters
    ----------
    loss : Loss
        Bound to its targets; all weights positive.
    slope : ndarray of shape (n, k)
    free : bool
    low : ndarray of shape (n, k), optional
        What the multipliers are beside their doubles, for interpolation.
    """
    if not isinstance(loss, Interpolation):
        return into_domain(loss, slope, balanced=free), None
    if not free:
        return slope, low
    found = balanced(slope)
    return found, None if low is None else balanced(low + (slope - found))


def settled_dual(loss: Loss, dual: np.ndarray, keep: np.ndarray, allowed: float, *, free: bool) -> np.ndarray:
    """Move a dual to where its certificate moves it, so that the point that is stored is the one that is certified.

    Parameters
    ----------
    loss : Loss
        Of the rows that count, as for :func:`dual_point`.
    dual : ndarray of shape (N,) or (N, k)
        Λ.
    keep : ndarray of int
        The rows that count.
    allowed : float
        κλ: U = −κλΛ.
    free : bool

    Examples
    --------
    >>> from covopt.losses import make_loss
    >>> loss = make_loss("hinge")
    >>> _ = loss.encode_targets([0, 1])
    >>> settled_dual(loss, np.array([-3.0, 0.5]), np.arange(2), 1.0, free=False)  # C* is finite up to a half
    array([-0.5,  0.5])
    """
    found = np.zeros((len(dual), dual.size // max(len(dual), 1)))
    found[keep] = dual_point(loss, -allowed * dual.reshape(found.shape)[keep], free=free)[0] / -allowed
    return found.reshape(dual.shape)


def moving_up(before: Pair, factor: float, after: Pair, keep: np.ndarray, reach: np.ndarray) -> float:
    """Bound h(cΛ) − h(U) from above, U the point that a bound is about: what a stated dual norm of Λ has to add.

    Parameters
    ----------
    before : pair of ndarrays of shape (N, k)
        Λ as it is given, the second may be None; where it is not zero on rows that do not count, there is no bound.
    factor : float
        c.
    after : pair of ndarrays of shape (n, k)
        U on the rows that count.
    keep : ndarray of int
    reach : ndarray of shape (n,)
        max over neurons of σ(x̃_i·w)/ω(w), an upper bound for each of them.

    Examples
    --------
    >>> before, after, rows = np.array([[1.0], [2.0]]), np.array([[-5.0]]), np.array([0])
    >>> moving_up((before, None), -4.0, (after, None), rows, np.array([3.0]))
    inf
    >>> 9.0 <= moving_up((before[1:], None), -4.0, (after, None), rows, np.array([3.0])) < 9.1
    True
    """
    lengths, change = np.full(len(before[0]), np.inf), np.zeros(before[0].shape)
    lengths[keep] = reach
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for here, there in zip(before, after, strict=True):
            if here is not None and there is not None:
                product, end = factor * here, np.zeros(here.shape)
                end[keep] = there
                part = np.abs(product - end)
                exact = abs(math.frexp(factor)[0]) == 0.5
                if not (
                    exact and np.abs(product[here != 0.0]).min(initial=1.0) >= TINY
                ):  # off by u, or 2⁻¹⁰⁷⁵
                    part = np.where(here != 0.0, part + (2.0 * UNIT * np.abs(product) + 2.0**-1074), part)
                change += np.where(part > 0.0, part * (1.0 + 4.0 * UNIT) + 2.0**-1074, 0.0)
    live = change.any(axis=1)
    if not np.isfinite(change).all() or np.isinf(lengths[live]).any():
        return math.inf
    return total_up(lengths_up(change[live] * (1.0 + 4.0 * UNIT)), lengths[live])


def dual_bound(
    loss: Loss, point: np.ndarray, allowed: float, dual_norm: float, *, bias: float = 0.0,
    low: np.ndarray | None = None,
) -> Fraction:  # fmt: skip
    r"""Return the largest dual value over the multiples tU with t·h ≤ allowed; every rounding makes it smaller.

    .. math::
        -C^*(tU) - t^2 \beta^2 \|U^\top 1\|^2 / (2 \cdot \text{allowed})

    Parameters
    ----------
    loss : Loss
        Bound to its targets; all weights positive.
    point : ndarray of shape (n, k)
        U, of :func:`dual_point`. Interpolation takes −U where it is better: it is as good.
    allowed : float
        What h(U) may be: κλ where networks cost λκ Σ‖v_j‖ω(w_j).
    dual_norm : float
        An upper bound on h(U).
    bias : float
        β of a penalised output bias, 0 without one.
    low : ndarray of shape (n, k), optional
        What the multipliers are beside their doubles, for interpolation.
    """
    bend = Fraction(0)
    parts = point if low is None else np.concatenate([point, low])
    if bias > 0:
        sums = [max(abs(end) for end in sum_bounds(column)) for column in parts.T]
        bend = (
            Fraction(bias) ** 2 / (2 * Fraction(allowed)) * sum((Fraction(s) ** 2 for s in sums), Fraction(0))
        )
    if isinstance(loss, Interpolation):
        targets = loss.targets if low is None else np.concatenate([loss.targets, loss.targets])
        return _of_linear(dot_bounds(parts, targets), allowed, dual_norm, bend)
    return _of_convex(loss, point, allowed, dual_norm, bend)


def _of_linear(ends: tuple[float, float], allowed: float, dual_norm: float, bend: Fraction) -> Fraction:
    """C* is linear: ⟨U, Y⟩ is between two ends, and the best multiple is a rational number."""
    low, high = ends
    linear = Fraction(max(low, -high))
    if linear <= 0 or not 0.0 < dual_norm < np.inf:
        return Fraction(0)
    step = Fraction(allowed) / Fraction(dual_norm)
    if bend > 0:
        step = min(step, linear / (2 * bend))
    return step * linear - step * step * bend


def _of_convex(loss: Loss, point: np.ndarray, allowed: float, dual_norm: float, bend: Fraction) -> Fraction:
    """Find a good multiple by bisection; its value is bounded, so any will do."""
    step = loss.best_multiple(point, down(allowed / dual_norm) if dual_norm > 0 else 2.0, 2.0 * float(bend))
    value = conjugate_above(loss, step * point)
    if not np.isfinite(value):
        return Fraction(0)
    # the weights sum to one up to rounding: the objective of the exact ones is as close
    share = 1 - Fraction(2 * len(point) + 16) * Fraction(UNIT)
    return (Fraction(-value) - Fraction(step) ** 2 * bend) * share
