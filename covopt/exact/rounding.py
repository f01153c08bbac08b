r"""Bounds on rounding errors, in one place: certificates compute every bound with these functions.

Doubles are rational numbers, and every function here returns a bound on the EXACT value of its expression for the
given doubles. With u = 2⁻⁵³ and γ(n) = nu/(1 − nu) all of them rest on five facts (Higham, Accuracy and
Stability of Numerical Algorithms, ch. 2–4; Ogita, Rump and Oishi 2005):

1. One operation (+, −, ·, /, √) errs by at most u relative to its result, or by 2⁻¹⁰⁷⁵ where that underflows; so
   ``up(x)`` and ``down(x)``, the neighbours of a result, enclose the exact one.
2. A sum of n products, in whatever order it is formed, errs by at most γ(n) Σ|a_i b_i|: :func:`allowance`. Sums of
   numbers that are not negative err by a factor 1 ± γ(n).
3. a·b = p + e exactly, p = fl(ab) and e by Veltkamp's and Dekker's splitting, where nothing over- or underflows;
   ``math.fsum`` rounds the exact sum once. Both give :func:`dot_bounds`: one rounding, however many terms cancel.
4. A sum of n products with its errors carried along (Dot2) errs by u|result| + γ(n)² Σ|a_i b_i|.
5. Multiplying by a power of two is exact, or loses 2⁻¹⁰⁷⁵ on underflow. All operands are brought to size one first,
   so that nothing overflows, and ``TINY`` (2⁻¹⁰⁰⁰ of that size) a term is added for underflow.

Bounds for matrices, their eigenvalues and quadratics are in :mod:`covopt.exact.definite`.

**Transfer.** Certificates bound h(Λ) = max over ‖w‖ ≤ 1 of ‖Σ_i Λ_i σ(x_i·w)‖ on other rows y_i than the user's:
fewer coordinates, x_i ≈ V y_i. Since σ is 1-Lipschitz and x_i·w = y_i·Vᵀw + (x_i − V y_i)·w,

.. math::
    h_x(\Lambda) \le \|V\|_2\, h_y(\Lambda) + \sum_i \|\Lambda_i\| \|x_i - V y_i\|,

for ANY V and y: the last sum (:func:`transfer_up`) accounts for dropped directions, rounded coordinates and merged
rows, which need not be small. The same holds for the outputs, Λ_i ≈ U M_i, with
‖U‖₂ and Σ_i ‖Λ_i − U M_i‖ ‖x_i‖.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np

EPS = sys.float_info.epsilon
UNIT = EPS / 2  # u
ROUNDING = 64 * EPS  # error of sums over rows, relative to their terms
TINY = 2.0**-1000
SLIP = 2.0**-40  # relative error of thousands of roundings at most
_SPLIT = 2.0**27 + 1.0


def up(value: float) -> float:
    """Return the next double above: at least the exact result of the operation that gave ``value``."""
    return math.nextafter(value, math.inf)


def down(value: float) -> float:
    """Return the next double below: at most the exact result of the operation that gave ``value``."""
    return math.nextafter(value, -math.inf)


def below(value: Fraction) -> float:
    """Return a double that is not above a rational number, zero for negative ones.

    Examples
    --------
    >>> below(Fraction(1, 3)) <= Fraction(1, 3), below(Fraction(-1))
    (True, 0.0)
    """
    if value <= 0:
        return 0.0
    try:
        nearest = float(value)
    except OverflowError:
        return down(math.inf)
    return nearest if Fraction(nearest) <= value else down(nearest)


def above(value: Fraction) -> float:
    """Return a double that is not below a rational number, zero for negative ones.

    Examples
    --------
    >>> above(Fraction(1, 3)) >= Fraction(1, 3), above(Fraction(2)), above(Fraction(10**400))
    (True, 2.0, inf)
    """
    found = below(value)
    return found if found >= value or value <= 0 else up(found)


def root_down(value: Fraction, n: int) -> float:
    """Bound the n-th root of a rational number from below, to a few units; zero for negative ones.

    Its n-th power is compared with ``value`` in fractions, since pow itself errs: 1/n is rounded, and for roots of
    1e-300 that alone is 50 units.

    Examples
    --------
    >>> root_down(Fraction(8), 3), 0.0099 < root_down(Fraction(1, 10**400), 200) <= 0.01
    (2.0, True)
    """
    if value <= 0:
        return 0.0
    power = (value.numerator.bit_length() - value.denominator.bit_length()) // n
    scaled = value / Fraction(2) ** (n * power)
    guess = up(up(below(scaled) ** (1.0 / n)))
    while Fraction(guess) ** n > scaled:
        guess = down(guess)
    return max(0.0, _ldexp(guess, power, down))


def root_up(value: Fraction, n: int) -> float:
    """Bound the n-th root of a rational number from above, to a few units; zero for negative ones, ∞ beyond doubles.

    Examples
    --------
    >>> root_up(Fraction(8), 3), Fraction(root_up(Fraction(2), 2)) ** 2 > 2
    (2.0, True)
    """
    found = root_down(value, n)
    while found < math.inf and Fraction(found) ** n < value:
        found = up(found)
    return found


def gamma(n: int) -> float:
    """Bound nu/(1 − nu) from above, the relative error of n roundings.

    Examples
    --------
    >>> gamma(1) > 2.0**-53
    True
    """
    return up(up(n * UNIT) / down(1.0 - up(n * UNIT)))


def allowance(n: int, size: float) -> float:
    """Bound the error of a sum of n products from above.

    Parameters
    ----------
    n : int
        Terms of the sum, and further roundings that each of them went through.
    size : float
        Σ|a_i b_i| as computed.

    Returns
    -------
    float
        γ(2n + 8)·size: twice the roundings, so that the error of ``size`` itself is inside.

    Examples
    --------
    >>> 0 < allowance(10, 1.0) < 1e-14
    True
    """
    return up(gamma(2 * n + 8) * size)


def exponents(values: np.ndarray) -> np.ndarray:
    """Return for each row the e with max|row| in [2^(e−1), 2^e), zero for rows of zeros.

    Examples
    --------
    >>> exponents(np.array([[3.0, -4.0], [0.25, 0.0], [0.0, 0.0]]))
    array([ 3, -1,  0], dtype=int32)
    """
    return np.frexp(np.abs(values).max(axis=1, initial=0.0))[1]


def two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return p = fl(ab) and e with p + e = ab exactly (for sizes between 2⁻⁴⁵⁰ and 2⁴⁵⁰).

    Examples
    --------
    >>> p, e = two_product(np.array(1.0 + 2.0**-52), np.array(1.0 - 2.0**-52))
    >>> float(p), float(e) == -(2.0**-104)
    (1.0, True)
    """
    product = a * b
    wide = _SPLIT * a
    a_high = wide - (wide - a)
    wide = _SPLIT * b
    b_high = wide - (wide - b)
    a_low, b_low = a - a_high, b - b_high
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, error


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return s = fl(a + b) and e with s + e = a + b exactly."""
    total = a + b
    shift = total - a
    return total, (a - (total - shift)) + (b - shift)


def dot_bounds(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Enclose Σ a_i b_i over all entries of two arrays of one shape, to one rounding.

    Examples
    --------
    >>> low, high = dot_bounds(np.array([1e20, 1.0, -1e20]), np.array([1.0, 3.0, 1.0]))
    >>> low < 3.0 < high, high - low < 1e-14
    (True, True)
    >>> dot_bounds(np.zeros(2), np.ones(2))
    (0.0, 0.0)
    """
    a, b = np.ravel(first), np.ravel(second)
    if not np.any(a) or not np.any(b):
        return 0.0, 0.0
    a_size, b_size = int(exponents(a[None])[0]), int(exponents(b[None])[0])
    product, error = two_product(np.ldexp(a, -a_size), np.ldexp(b, -b_size))
    total = math.fsum(product.tolist() + error.tolist())
    lost = 4.0 * len(a) * TINY
    return _ldexp(down(down(total) - lost), a_size + b_size, down), _ldexp(
        up(up(total) + lost), a_size + b_size, up
    )


def _ldexp(value: float, power: int, outward) -> float:
    """Multiply by a power of two; where that is not exact, move outward."""
    try:
        moved = math.ldexp(value, power)
    except OverflowError:
        return outward(math.copysign(math.inf, value))
    return moved if math.ldexp(moved, -power) == value else outward(moved)


def scaled_up(value: float, power: int) -> float:
    """Multiply by a power of two, upwards where that is not exact."""
    return _ldexp(value, power, up)


def lengths_up(vectors: np.ndarray) -> np.ndarray:
    """Bound the norm of every row from above.

    Parameters
    ----------
    vectors : ndarray of shape (n, d)

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> float(lengths_up(np.array([[3.0, 4.0]]))[0]) - 5.0 < 1e-13
    True
    """
    power = exponents(vectors)
    scaled = np.ldexp(vectors, -power[:, None])
    length = np.sqrt((scaled * scaled).sum(axis=1)) * (1.0 + 4.0 * (vectors.shape[1] + 4) * UNIT)
    found = np.ldexp(length, power)
    return np.where(length > 0.0, np.nextafter(found, np.inf), 0.0)


def total_up(weights: np.ndarray, lengths: np.ndarray) -> float:
    """Bound Σ w_i l_i from above, for numbers that are not negative."""
    if not np.any(weights) or not np.any(lengths):
        return 0.0
    return dot_bounds(weights, lengths)[1]


def operator_norm_up(matrix: np.ndarray) -> float:
    """Bound the largest singular value from above, sharply where the columns are nearly orthonormal.

    ‖V‖² is the spectral radius of VᵀV, at most its largest absolute row sum.

    Examples
    --------
    >>> operator_norm_up(np.eye(3)[:, :2]), operator_norm_up(np.array([[0.6], [0.8]])) < 1 + 1e-14
    (1.0, True)
    """
    rows, columns = matrix.shape
    if columns == 0 or np.array_equal(matrix, np.eye(rows, columns)):
        return 1.0
    size = np.abs(matrix)
    gram = np.abs(matrix.T @ matrix) + gamma(rows + 2) * (size.T @ size)
    return up(math.sqrt(up(float(gram.sum(axis=1).max()) * (1.0 + 4.0 * (columns + 2) * UNIT))))


def misses_up(vectors: np.ndarray, basis: np.ndarray, coordinates: np.ndarray) -> np.ndarray:
    """Bound ‖x_i − V y_i‖ from above for every row (fact 4: to second order in u).

    Parameters
    ----------
    vectors : ndarray of shape (n, d)
        x_i.
    basis : ndarray of shape (d, r)
        V.
    coordinates : ndarray of shape (n, r)
        y_i.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> misses_up(np.array([[3.0, 4.0]]), np.array([[0.0], [1.0]]), np.array([[4.0]])).round(12)
    array([3.])
    >>> misses_up(np.array([[3.0, 4.0]]), np.eye(2), np.array([[3.0, 4.0]]))
    array([0.])
    """
    if np.array_equal(basis, np.eye(len(basis))) and np.array_equal(vectors, coordinates):
        return np.zeros(len(vectors))
    rank = basis.shape[1]
    power = np.maximum(exponents(vectors), exponents(coordinates) if rank else exponents(vectors))
    rest, lost = np.ldexp(vectors, -power[:, None]), np.zeros(vectors.shape)
    reduced = np.ldexp(coordinates, -power[:, None])
    size = np.abs(rest) + np.abs(reduced) @ np.abs(basis).T
    for column in range(rank):
        product, error = two_product(reduced[:, column, None], basis[None, :, column])
        rest, slip = two_sum(rest, -product)
        lost = lost + (slip - error)
    found = np.abs(rest + lost) * (1.0 + 4.0 * UNIT) + 8.0 * (rank + 2) ** 2 * UNIT**2 * size + TINY
    return np.nextafter(np.ldexp(lengths_up(found), power), np.inf)


def transfer_up(vectors: np.ndarray, sizes: np.ndarray, basis: np.ndarray, coordinates: np.ndarray) -> float:
    """Bound Σ_i s_i ‖x_i − V y_i‖ from above: the last sum of the transfer at the head of this module.

    Parameters
    ----------
    vectors : ndarray of shape (n, d)
    sizes : ndarray of shape (n,)
        s_i ≥ 0, an upper bound on ‖Λ_i‖.
    basis : ndarray of shape (d, r)
    coordinates : ndarray of shape (n, r)

    Examples
    --------
    >>> row, basis = np.array([[3.0, 4.0]]), np.array([[0.0], [1.0]])
    >>> 6.0 <= transfer_up(row, np.array([2.0]), basis, np.array([[4.0]])) < 6.0 + 1e-12
    True
    """
    return total_up(sizes, misses_up(vectors, basis, coordinates))


def relative_gap(upper: float, lower: float) -> float:
    """Return |upper − lower| / max(upper, lower), zero when both vanish, infinite without an upper bound.

    An upper bound below the lower one belongs to a network that misses the points, if only within tolerance: the gap
    is then the distance of the two.

    Examples
    --------
    >>> relative_gap(4.0, 3.0), relative_gap(3.0, 4.0), relative_gap(0.0, 0.0), relative_gap(float("inf"), 1.0)
    (0.25, 0.25, 0.0, inf)
    """
    if math.isnan(upper) or math.isnan(lower):
        return math.nan
    if math.isinf(upper):
        return math.inf
    size = max(upper, lower)
    return abs(upper - lower) / size if size > 0 else 0.0
