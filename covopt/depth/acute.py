r"""Two rows at an acute angle whose targets have opposite signs, without biases: what they cost, exactly.

With Q = M⁻¹ of the last hidden layer but one, Q₁₂ ≤ 0, neurons (p, q) ≥ 0 of the last hidden layer reach
y₁ > 0 > y₂ at a cost of 2(|y₁|√Q₁₁ + |y₂|√Q₂₂): the multipliers ±√Q_ii are feasible, as their best point with both
entries active would need Q₁₂² > Q₁₁Q₂₂. That is the least of aQ₁₁ + bQ₂₂ + y₁²/a + y₂²/b, and aQ₁₁ + bQ₂₂ is what
diag(√a, √b) costs as outputs, which for x₁·x₂ ≥ 0 is known (:mod:`covopt.depth.pairs`):

.. math::
    R_L = \min_{a, b > 0} (L - 1)\,\|G^{-1/2}\mathrm{diag}(\sqrt a, \sqrt b)\|_{2/(L-1)}^{2/(L-1)}
    + y_1^2/a + y_2^2/b,

convex in (log a, log b): the singular values along the geodesic are log-majorised by the means of those at its ends.
So a point and its gradient bound the minimum over the box that the minimum must be in.

Several outputs with y₁·y₂ < 0: with M the covariance of the last hidden layer the cost is that of L − 1 linear layers
to M plus Tr YYᵀM⁻¹, convex along geodesics, over M ≥ 0 entrywise. At the best diagonal M, the minimum above with
‖y_i‖ for y_i, nothing is smaller when the slope in M₁₂ is not negative, as log(M_0^{-1/2}M M_0^{-1/2}) has no entry
below zero off the diagonal. Where it is negative the constraint is idle, and the linear cost of
:mod:`covopt.depth.pairs` is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.optimize import minimize

from covopt.depth.exactly import Three
from covopt.exact.rounding import below, down, root_down, root_up

_ROOM = 2.0**-40  # of each term: some thirty roundings, square roots and powers among them


def acute_value(gram: Three, moments: Three, depth: int) -> float:
    """Return the cost of two acute rows with opposite targets from below; zero where it is none.

    Parameters
    ----------
    gram : tuple of Fraction
        x₁·x₁, x₂·x₂, x₁·x₂ > 0.
    moments : tuple of Fraction
        y₁·y₁, y₂·y₂, y₁·y₂ < 0.
    depth : int
        L ≥ 2.

    Examples
    --------
    At L = 2 it is 2Σ|y_i|√(G⁻¹)_ii:

    >>> G = (Fraction(1), Fraction(2), Fraction(1))
    >>> 0.0 <= 2.0 * (2.0**0.5 + 1.0) - acute_value(G, (Fraction(1), Fraction(1), Fraction(-1)), 2) < 1e-6
    True
    """
    a, b, c = gram
    det = a * b - c * c
    if det <= 0 or c < 0 or moments[2] >= 0:
        return 0.0
    # R_L(tX, cY) = (c/t)^{2/L} R_L(X, Y): by powers of two to size one, exactly
    unit = Fraction(2) ** -round(_log2(max(a, b)) / 2)
    first, second = (square * unit**2 for square in moments[:2])
    a, b, det = a * unit**2, b * unit**2, det * unit**4
    turns = round(_log2(max(first, second)) / (2 * depth))
    shrink = Fraction(4) ** (depth * turns)
    first, second = first / shrink, second / shrink
    # G⁻¹ = [[b, −c], [−c, a]]/det; the squares of the singular values have trace ua + vb and product uv/det
    numbers = [_size(value) for value in (b / det, a / det, 1 / det, first, second)]
    if not all(1e-100 < value < 1e100 for value in numbers):
        return 0.0
    pull = None
    if moments[2] ** 2 < moments[0] * moments[1]:  # for opposite targets the slope is never negative
        pull = _Pull(a, b, c * unit**2, -moments[2] * unit**2 / shrink, depth)
    found = _minimum((numbers[0], numbers[1]), numbers[2], (numbers[3], numbers[4]), depth, pull)
    return below(Fraction(down(found)) * Fraction(4) ** turns) if found > 0.0 else 0.0


def _size(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _log2(value: Fraction) -> float:
    """Return the logarithm of a positive fraction, to one."""
    return float(value.numerator.bit_length() - value.denominator.bit_length())


def _terms(
    logs: np.ndarray, inverse: tuple[float, float], product: float, targets: tuple[float, float], depth: int
) -> tuple[float, np.ndarray]:
    """Return the function at (log a, log b), and its gradient."""
    scale = np.exp(logs)
    shares = np.array(inverse) * scale
    trace, det = float(shares.sum()), product * float(scale[0] * scale[1])
    root = math.sqrt(max(trace**2 - 4.0 * det, 0.0))
    large = 0.5 * (trace + root)
    small = det / large
    p = 1.0 / (depth - 1)
    ends = np.array(targets) / scale
    value = (depth - 1) * (large**p + small**p) + float(ends.sum())
    # d large = (large·d trace − d det)/root, and small = det/large; at a double root the two sides agree in the limit
    rise = shares
    if root > 1e-9 * trace:
        d_large = (large * rise - det) / root
        d_small = (det - small * rise) / root
    else:
        d_large = d_small = 0.5 * rise
    gradient = large ** (p - 1.0) * d_large + small ** (p - 1.0) * d_small - ends
    return value, gradient


def _minimum(
    inverse: tuple[float, float],
    product: float,
    targets: tuple[float, float],
    depth: int,
    pull: _Pull | None,
) -> float:
    start = np.log(np.sqrt(np.array(targets) / np.array(inverse)))
    answer = minimize(
        _terms, start, args=(inverse, product, targets, depth), jac=True, method="BFGS", tol=1e-13
    )
    value, gradient = _terms(answer.x, inverse, product, targets, depth)
    if not math.isfinite(value):
        return 0.0
    # where a is small y₁²/a alone is the value; where a is large the first term: its squares have a sum ≥ a(G⁻¹)₁₁,
    # and Σt^p ≥ (Σt)^p for p ≤ 1
    low = np.log(np.array(targets) / value)
    high = (depth - 1.0) * math.log(value / (depth - 1.0)) - np.log(np.array(inverse))
    reach = np.maximum(np.abs(answer.x - low), np.abs(high - answer.x)) + 1e-6
    if pull is not None:
        scale = np.exp(answer.x)
        if not pull.holds(*scale.tolist()):
            return 0.0
        reach = np.full(2, pull.reach(scale, value, targets))
    size = value * (1.0 + float(reach.sum()))
    return value - float((np.abs(gradient) * reach).sum()) - _ROOM * size


@dataclass(frozen=True)
class _Pull:
    """What moves M off the diagonal with several outputs: x₁·x₁, x₂·x₂, x₁·x₂ and −y₁·y₂."""

    first: Fraction
    second: Fraction
    shared: Fraction
    moment: Fraction
    depth: int

    def holds(self, a: float, b: float) -> bool:
        """Say whether the slope in M₁₂ at diag(a, b) is not negative, in fractions and roots that are bounded."""
        A, B, n = Fraction(a), Fraction(b), self.depth - 1
        gram = self.first * self.second - self.shared**2
        trace, det = (self.second * A + self.first * B) / gram, A * B / gram
        square = trace**2 - 4 * det
        large = (trace + Fraction(root_up(square, 2))) / 2
        small = det / large
        # (large^p − small^p)/(large − small), p = 1/n, from above: t^p is concave, so no more than the slope at small
        rise = Fraction(root_up(small, n)) / (n * small)
        root = Fraction(root_down(square, 2))
        if root > 0:
            rise = min(rise, (Fraction(root_up(large, n)) - Fraction(root_down(small, n))) / root)
        return self.moment / (A * B) >= self.shared / gram * rise

    def reach(self, scale: np.ndarray, value: float, targets: tuple[float, float]) -> float:
        """Return how far, in logarithms of eigenvalues, the best M can be."""
        # Tr G⁻¹M ≤ (value/(L − 1))^{L−1}, so M ⪯ that times G; and ‖y_i‖²(M⁻¹)_ii ≤ value
        sizes = np.array([float(self.first), float(self.second)])
        most = (value / (self.depth - 1)) ** (self.depth - 1) * float((sizes / scale).sum())
        least = value * float((scale / np.array(targets)).sum())
        return max(math.log(most), math.log(least), 0.0) + 1e-6
