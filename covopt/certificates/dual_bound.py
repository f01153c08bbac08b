"""The lower bound that a dual point proves, given a bound on its gauge: for every loss, and for interpolation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq

from covopt.certificates.conjugate import conjugate_above, into_domain, reach
from covopt.exact.rounding import EPS, UNIT, dot_bounds, down, lengths_up, moved_up, sum_bounds
from covopt.losses import Interpolation, Loss


@dataclass(frozen=True)
class Moved:
    """What it costs to move the exact sum s = Uᵀ1 to one row, U' = U − e_k sᵀ, which then has U'ᵀ1 = 0.

    Attributes
    ----------
    gauge : float
        At least ‖s‖ max σ(x̃_k·w)/ω(w): h(U') ≤ h(U) + that.
    value : float
        At least |⟨s, y_k⟩|: ⟨U', Y⟩ ≥ ⟨U, Y⟩ − that.
    """

    gauge: float
    value: float

    @classmethod
    def to_one_row(cls, reach: np.ndarray, targets: np.ndarray, point: np.ndarray) -> Moved:
        """Bound both for the row whose gauge costs least; ``reach`` is max over neurons of σ(x̃_i·w)/ω(w)."""
        sums = np.array([[max(abs(end) for end in sum_bounds(column)) for column in point.T]])
        size = float(lengths_up(sums)[0])
        if size == 0.0:
            return NOTHING
        with np.errstate(over="ignore"):
            gauges = np.nextafter(size * reach, np.inf)
            values = np.nextafter(size * lengths_up(targets), np.inf)
        k = int(gauges.argmin())
        return cls(float(gauges[k]), float(values[k]))


NOTHING = Moved(0.0, 0.0)


def dual_point(loss: Loss, slope: np.ndarray, *, free: bool, low: np.ndarray | None = None) -> np.ndarray:
    """Return a point near U = ``slope`` that the bound may be read from.

    It is in the domain of C*, and with a free output bias Uᵀ1 = 0: exactly, but for interpolation to rounding, with
    :class:`Moved` for the rest (no row of zeros becomes another one then).

    Parameters
    ----------
    loss : Loss
        Bound to its targets; all weights positive.
    slope : ndarray of shape (n, k)
    free : bool
    low : ndarray of shape (n, k), optional
        What the multipliers are beside their doubles: a point of interpolation stays where it is then.
    """
    if not isinstance(loss, Interpolation):
        return into_domain(loss, slope, balanced=free)
    if low is not None:
        return slope
    support = slope.any(axis=1)
    if not free or not any(math.fsum(column) for column in slope.T):
        return slope  # with the right sums already, which are not rounded again
    kept = np.zeros_like(slope)
    kept[support] = slope[support] - slope[support].mean(axis=0)
    # equal numbers on the support leave nothing: then the zeros have to move
    return kept if np.abs(kept).max() > 1e-12 * np.abs(slope).max() else slope - slope.mean(axis=0)


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
    found[keep] = dual_point(loss, -allowed * dual.reshape(found.shape)[keep], free=free) / -allowed
    return found.reshape(dual.shape)


def moving_up(
    dual: np.ndarray, factor: float, point: np.ndarray, keep: np.ndarray, reach: np.ndarray
) -> float:
    """Bound h(cΛ) − h(U) from above, U the point that a certificate is about: what a stated gauge of Λ has to add.

    Parameters
    ----------
    dual : ndarray of shape (N, k)
        Λ as it is given; where it is not zero on rows that do not count, there is no bound.
    factor : float
        c.
    point : ndarray of shape (n, k)
        U on the rows that count.
    keep : ndarray of int
    reach : ndarray of shape (n,)
        max over neurons of σ(x̃_i·w)/ω(w), an upper bound for each of them.
    """
    after, lengths = np.zeros_like(dual), np.full(len(dual), np.inf)
    after[keep], lengths[keep] = point, reach
    return moved_up(dual, factor, after, lengths)


def dual_bound(
    loss: Loss, point: np.ndarray, allowed: float, gauge: float, *, bias: float = 0.0, moved: Moved = NOTHING,
    low: np.ndarray | None = None,
) -> Fraction:  # fmt: skip
    r"""Return the largest dual value over the multiples tU with t·gauge ≤ allowed; every rounding makes it smaller.

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
    gauge : float
        An upper bound on h(U), with what moving the sum costs.
    bias : float
        β of a penalised output bias, 0 without one.
    moved : Moved
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
        return _of_linear(dot_bounds(parts, targets), allowed, gauge, bend, moved)
    return _of_convex(loss, point, allowed, gauge, bend)


def _of_linear(
    ends: tuple[float, float], allowed: float, gauge: float, bend: Fraction, moved: Moved
) -> Fraction:
    """C* is linear: ⟨U, Y⟩ is between two ends, and the best multiple is a rational number."""
    low, high = ends
    linear = Fraction(max(low, -high)) - Fraction(moved.value)
    if linear <= 0 or not 0.0 < gauge < np.inf:
        return Fraction(0)
    step = Fraction(allowed) / Fraction(gauge)
    if bend > 0:
        step = min(step, linear / (2 * bend))
    return step * linear - step * step * bend


def _of_convex(loss: Loss, point: np.ndarray, allowed: float, gauge: float, bend: Fraction) -> Fraction:
    """Find a good multiple by bisection; its value is bounded, so any will do."""
    longest = down(allowed / gauge) if gauge > 0 else 2.0
    if longest > 1.0:  # beyond 1 the domain may end
        longest = min(longest, reach(loss, point))

    def rise(t: float) -> float:
        return -float(np.vdot(point, loss.conjugate_gradient(t * point))) - 2.0 * t * float(bend)

    step = best_multiple(rise, longest)
    value = conjugate_above(loss, step * point)
    if not np.isfinite(value):
        return Fraction(0)
    # the weights sum to one up to rounding: the objective of the exact ones is as close
    share = 1 - Fraction(2 * len(point) + 16) * Fraction(UNIT)
    return (Fraction(-value) - Fraction(step) ** 2 * bend) * share


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
    least = EPS * longest
    return float(brentq(rise, least, longest, xtol=least, rtol=4.0 * EPS)) if rise(least) > 0 else least
