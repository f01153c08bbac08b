r"""Two rows at an obtuse angle whose targets have y₁·y₂ ≥ 0, without biases: what they cost, exactly.

With M = Σ aaᵀ over the neurons a = σ(Xw) of the first layer, the layers above may be taken linear
(:mod:`covopt.depth.pairs`): M ≥ 0 entrywise. Let Λ ⪰ 0 satisfy aᵀΛa ≤ ‖w‖² for every w. Then ‖W_1‖² ≥ Tr ΛM, and
Tr ΛM plus what L − 1 linear layers cost on M is at least what L linear layers cost on rows of Gram matrix Λ⁻¹:

.. math:: R_L \ge L\,\|\Lambda^{1/2} Y\|_{2/L}^{2/L},

with equality at the best Λ, as both sides are the two ends of one convex problem. For x₁·x₂ < 0 a neuron sees
one row, at a cost of a_i²/G_ii, or both, at aᵀG⁻¹a, so the condition on Λ reads: G_iiΛ_ii ≤ 1, and G⁻¹ − Λ is
copositive. Both are checked in fractions. The value is concave in Λ and at the maximum one G_iiΛ_ii at least is one,
so the search is over an interval, twice. Opposite rows are never seen together: the first condition is all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

from scipy.optimize import minimize_scalar

from covopt.depth.exactly import Three
from covopt.exact.rounding import below, down, root_down

_SHRINK = 1 - Fraction(1, 2**40)  # of the entry off the diagonal: what was found in doubles is let inside


def two_roots_cost(trace: Fraction, product: Fraction, depth: int) -> float:
    r"""Return L(s₁^{2/L} + s₂^{2/L}) from below, where s₁² + s₂² and s₁²s₂² are given.

    Parameters
    ----------
    trace, product : Fraction
        Of the squares; ``product`` at most a quarter of ``trace`` squared.
    depth : int

    Examples
    --------
    >>> round(two_roots_cost(Fraction(5), Fraction(4), 2), 12)
    6.0
    """
    if trace <= 0:
        return 0.0
    # the squares are the roots of t² − trace·t + product. At a fixed product t^p + (product/t)^p grows with t from
    # √product ≤ trace/2 on, so the larger root is rounded down
    root = max(0.0, down(math.sqrt(below(1 - 4 * product / trace**2))))
    large = trace * (1 + Fraction(root)) / 2
    roots = root_down(large, depth), root_down(product / large, depth)
    return below(depth * sum(map(Fraction, roots), Fraction(0)))


def obtuse_value(gram: Three, moments: Three, depth: int) -> float:
    """Return the cost of two obtuse rows from below; zero where it is none.

    Parameters
    ----------
    gram : tuple of Fraction
        x₁·x₁, x₂·x₂, x₁·x₂ < 0.
    moments : tuple of Fraction
        y₁·y₁, y₂·y₂, y₁·y₂ ≥ 0.
    depth : int
        L ≥ 2.

    Examples
    --------
    X = (1, −1), Y = (1, 1) costs L·4^{1/L}:

    >>> one = Fraction(1)
    >>> 0.0 <= 4 * 2**0.5 - obtuse_value((one, one, -one), (one, one, one), 4) < 1e-10
    True
    """
    a, b, c = gram
    if min(a, b) <= 0 or c >= 0 or moments[2] < 0 or a * b < c * c or max(moments[:2]) <= 0:
        return 0.0
    sizes = [moments[0] / a, moments[1] / b]
    unit = max(sizes)
    p, q = (float(size / unit) for size in sizes)
    cosine = math.sqrt(min(1.0, float(c * c / (a * b))))
    fit = float(moments[2] ** 2 / (moments[0] * moments[1])) if min(moments[:2]) > 0 else 0.0
    best = 0.0
    for first, second, off in _candidates(p, q, math.sqrt(p * q * fit), p * q * (1.0 - fit), cosine, depth):
        shared = _over_root(off, a * b)
        multipliers = Fraction(first) / a, Fraction(second) / b, shared
        if _holds(gram, multipliers):
            best = max(best, _linear_cost(multipliers, moments, depth))
    return best


def _over_root(off: float, square: Fraction) -> Fraction:
    """Return nearly off/√square, no more for a positive ``off``, whatever the sizes."""
    power = (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    root = math.sqrt(float(square / Fraction(4) ** power))
    return Fraction(off) / Fraction(root) / Fraction(2) ** power * _SHRINK


def _holds(gram: Three, multipliers: Three) -> bool:
    """Say whether Λ ⪰ 0 and aᵀΛa ≤ ‖w‖² for every neuron."""
    a, b, c = gram
    first, second, shared = multipliers
    if first * a > 1 or second * b > 1 or first < 0 or second < 0 or first * second < shared**2:
        return False
    det = a * b - c * c
    if det == 0:  # no neuron sees both rows
        return True
    rest = -c / det - shared
    return rest >= 0 or rest**2 <= (b / det - first) * (a / det - second)


def _linear_cost(multipliers: Three, moments: Three, depth: int) -> float:
    first, second, shared = multipliers
    p, q, r = moments
    trace = first * p + second * q + 2 * shared * r
    return two_roots_cost(trace, (first * second - shared**2) * (p * q - r * r), depth)


def _candidates(
    p: float, q: float, r: float, spread: float, cosine: float, depth: int
) -> Iterator[tuple[float, float, float]]:
    """Yield (G₁₁Λ₁₁, G₂₂Λ₂₂, √(G₁₁G₂₂)Λ₁₂): at the most of both, then with one of the two below it."""
    sine = max(0.0, 1.0 - cosine**2)

    def most(first: float, second: float) -> float:
        size = math.sqrt(first * second)
        if sine == 0.0:
            return size
        room = (1.0 / sine - first) * (1.0 / sine - second)
        return min(size, cosine / sine + math.sqrt(max(room, 0.0)))

    def height(first: float, second: float, off: float) -> float:
        trace, product = first * p + second * q + 2.0 * off * r, (first * second - off**2) * spread
        large = 0.5 * (trace + math.sqrt(max(trace**2 - 4.0 * product, 0.0)))
        return large ** (1.0 / depth) + max(product / large, 0.0) ** (1.0 / depth) if large > 0 else 0.0

    def best(first: float, second: float) -> tuple[float, float]:
        """Return the height and the best entry off the diagonal."""
        end = most(first, second)
        inside = _top(lambda off: height(first, second, off), end) if spread > 0 else end
        return max((height(first, second, off), off) for off in (0.0, inside, end))

    off = best(1.0, 1.0)[1]
    yield 1.0, 1.0, off
    if off < most(1.0, 1.0) * (1.0 - 1e-6) or off >= 1.0:
        return
    for place in (0, 1):

        def at(share: float, place: int = place) -> tuple[float, float]:
            return (share, 1.0) if place == 0 else (1.0, share)

        def reach(share: float, at: Callable[[float], tuple[float, float]] = at) -> float:
            return best(*at(share))[0]

        share = _top(reach, 1.0)
        yield *at(share), best(*at(share))[1]


def _top(function: Callable[[float], float], end: float) -> float:
    """Return where a concave function is largest on [0, end]."""
    if end <= 0.0:
        return 0.0
    answer = minimize_scalar(
        lambda t: -function(t), bounds=(0.0, end), method="bounded", options={"xatol": 1e-12}
    )
    return float(answer.x)
