r"""The lower bound that a dual point proves, given a bound on its dual norm, and the conjugate of a loss in it.

The dual of C(F) + λ‖W‖² is −C*(U) at U = −2λΛ, and −∞ outside of the domain of C*: a point outside by one unit in the
last place proves nothing. With a free output bias Uᵀ1 = 0 must hold as well, in exact arithmetic. :func:`into_domain`
returns doubles that satisfy both exactly: multiples of one power of two, so that sums are exact, inside the domain by
comparison; the remaining sum is moved to rows with room. :func:`conjugate_above` bounds C* at such a point or a
multiple of it from above.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq

from covopt.exact.rounding import TINY, UNIT, allowance, dot_bounds, down, lengths_up, total_up, up
from covopt.losses import Interpolation, Loss

Pair = tuple[np.ndarray, np.ndarray | None]  # two doubles for each number
FUNCTION = 64  # units in the last place that a logarithm and the operations around it may lose


def into_domain(loss: Loss, slope: np.ndarray, *, free: bool) -> np.ndarray:
    """Return a point near ``slope`` that is in the domain of C*, in exact arithmetic.

    Parameters
    ----------
    loss : Loss
        Bound to its targets; all weights positive.
    slope : ndarray of shape (N, k)
        U = −2λΛ.
    free : bool
        Whether every column has to sum to zero; with interpolation rows of zeros stay zero.

    Returns
    -------
    ndarray of shape (N, k)

    Examples
    --------
    >>> from covopt.losses import make_loss
    >>> loss = make_loss("hinge")
    >>> _ = loss.encode_targets([0, 1, 1])
    >>> inside = into_domain(loss, np.array([[1.0], [-0.3], [-1.0]]), free=True)
    >>> bool(loss.contains(inside)), float(inside.sum())
    (True, 0.0)
    """
    if loss.interpolates:
        return balanced(slope) if free else slope
    if loss.is_level:
        return _into_simplices(loss, slope, free)
    low, high = loss.domain_box()
    inside = np.clip(slope, low, high)
    if not free or not inside.any():
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
        if math.fsum(values):  # a sum of zero needs no rounding
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
    """Round towards zero to multiples of a power of two, so that sums of ``terms`` are exact; return both."""
    bits = sys.float_info.mant_dig - 1 - terms.bit_length()  # one bit for a move
    power = max(int(np.frexp(np.abs(values).max(initial=0.0))[1]) - bits, -1000)
    return np.ldexp(np.trunc(np.ldexp(values, -power)), power), math.ldexp(1.0, power)


def _into_simplices(loss: Loss, slope: np.ndarray, free: bool) -> np.ndarray:
    """Return a point near ``slope`` in the domain of the softmax: e_y + U/s is a probability vector in every row."""
    inside = loss.project(slope)
    own = loss.targets.argmax(axis=1)[:, None]
    k = slope.shape[1]
    gains, grid = _on_grid(np.maximum(inside, 0.0), k)
    np.put_along_axis(gains, own, 0.0, axis=1)
    lost, most = gains.sum(axis=1, keepdims=True), loss.weights[:, :1]
    share = np.where(lost > most, most / np.where(lost > 0.0, lost, 1.0) * (1.0 - 8.0 * UNIT), 1.0)
    found = np.floor(gains * share / grid) * grid
    found[found.sum(axis=1) > most[:, 0]] = 0.0  # the entry of the own class is at least minus its weight
    np.put_along_axis(found, own, -found.sum(axis=1, keepdims=True), axis=1)
    return _transported(loss, found, grid) if free else found


def _transported(loss: Loss, found: np.ndarray, grid: float) -> np.ndarray:
    """Move column sums to zero exactly, between columns of rows that have room; row sums do not change."""
    weights, moved = loss.weights[:, 0], True
    while moved and (sums := np.array([math.fsum(column) for column in found.T])).any():
        moved = False
        # sums far from zero were themselves rounded: they may end unequal
        while sums.max() > 0.0 > sums.min():
            source, sink = int(sums.argmax()), int(sums.argmin())
            room = np.where(loss.targets[:, source] > 0, weights + found[:, source], found[:, source])
            i = int(room.argmax())
            step = min(sums[source], -sums[sink], math.floor(room[i] / grid) * grid)
            if not step > 0.0:
                return np.zeros_like(found)
            found[i, source] -= step
            found[i, sink] += step
            sums[source] -= step
            sums[sink] += step
            moved = True
    return found if moved else np.zeros_like(found)


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
        Roundings, each of relative size u, that an entry of ``slope`` may have (a rounded multiple of a dual: 2).

    Returns
    -------
    float
    """
    value, size = loss.conjugate_terms(slope)
    moved = float(np.abs(slope).sum())
    if loss.is_level:
        moved += float(loss.weights[slope.any(axis=1)].sum())
    return up(value + up(allowance(slope.size + FUNCTION, size) + roundings * FUNCTION * UNIT * moved))


def moving_up(before: Pair, factor: float, after: Pair, keep: np.ndarray, reach: np.ndarray) -> float:
    """Bound h(cΛ) − h(U) from above: what is added to a bound on h(U) to bound the dual norm of Λ.

    Parameters
    ----------
    before : pair of ndarrays of shape (N, k)
        Λ as given; the second may be None. Infinite if Λ is not zero on rows that do not count.
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
            if here is not None:
                product, end = factor * here, np.zeros(here.shape)
                end[keep] = 0.0 if there is None else there
                part = np.abs(product - end)
                exact = abs(math.frexp(factor)[0]) == 0.5
                if not exact or np.abs(product[here != 0.0]).min(initial=1.0) < TINY:  # off by u, or 2⁻¹⁰⁷⁵
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
    r"""Return the largest dual value over the multiples tU with t·h ≤ allowed, rounded down.

    .. math::
        -C^*(tU) - t^2 \beta^2 \|U^\top 1\|^2 / (2 \cdot \text{allowed})

    Parameters
    ----------
    loss : Loss
        Bound to its targets; all weights positive.
    point : ndarray of shape (n, k)
        U, of :func:`into_domain`. Interpolation also tries −U, which has the same dual norm.
    allowed : float
        What h(U) may be: κλ where networks cost λκ Σ‖v_j‖ω(w_j).
    dual_norm : float
        An upper bound on h(U).
    bias : float
        β of a penalised output bias, 0 without one.
    low : ndarray of shape (n, k), optional
        Second doubles of the multipliers, for interpolation.
    """
    bend = Fraction(0)
    parts = point if low is None else np.concatenate([point, low])
    if bias > 0:
        sums = [max(abs(end) for end in dot_bounds(column, np.ones(len(column)))) for column in parts.T]
        bend = (
            Fraction(bias) ** 2 / (2 * Fraction(allowed)) * sum((Fraction(s) ** 2 for s in sums), Fraction(0))
        )
    if isinstance(loss, Interpolation):
        targets = loss.targets if low is None else np.concatenate([loss.targets, loss.targets])
        return _of_linear(dot_bounds(parts, targets), allowed, dual_norm, bend)
    return _of_convex(loss, point, allowed, dual_norm, bend)


def _of_linear(ends: tuple[float, float], allowed: float, dual_norm: float, bend: Fraction) -> Fraction:
    """Return the bound for a linear C*: ⟨U, Y⟩ is enclosed, and the best multiple is a rational number."""
    low, high = ends
    linear = Fraction(max(low, -high))
    if linear <= 0 or not 0.0 < dual_norm < np.inf:
        return Fraction(0)
    step = Fraction(allowed) / Fraction(dual_norm)
    if bend > 0:
        step = min(step, linear / (2 * bend))
    return step * linear - step * step * bend


def _of_convex(loss: Loss, point: np.ndarray, allowed: float, dual_norm: float, bend: Fraction) -> Fraction:
    """Return the bound for a convex C*: a good multiple is found in doubles, and its value is bounded."""
    step = loss.best_multiple(point, down(allowed / dual_norm) if dual_norm > 0 else 2.0, 2.0 * float(bend))
    value = conjugate_above(loss, step * point)
    if not np.isfinite(value):
        return Fraction(0)
    # the weights sum to one up to rounding, and so does the objective differ from that of exact weights
    share = 1 - Fraction(2 * len(point) + 16) * Fraction(UNIT)
    return (Fraction(-value) - Fraction(step) ** 2 * bend) * share
