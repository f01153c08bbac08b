"""Tables as integers, and elimination without rounding: in integers with exact divisions, and symmetric.

The plain rank of a table is in :mod:`covopt.exact.rank`; elimination of many small matrices modulo several primes,
compiled, in :mod:`covopt.arrangement.tableau`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from covopt.exact.rounding import UNIT

_MAX_DECIMALS = 9
_BITS = 20


def integer_row(row: Iterable[Any]) -> tuple[list[int], int]:
    """Return a row of doubles or fractions times the least common denominator, and that.

    Examples
    --------
    >>> integer_row([0.5, Fraction(1, 3), 2])
    ([3, 2, 12], 6)
    """
    row = list(row)
    try:
        ratios = [x.as_integer_ratio() for x in row]
    except AttributeError:  # NumPy's integers have none
        ratios = [(int(x.numerator), int(x.denominator)) for x in map(Fraction, row)]
    scale = math.lcm(*{denominator for _, denominator in ratios})
    return [numerator * (scale // denominator) for numerator, denominator in ratios], scale


def integer_array(values: Any) -> tuple[np.ndarray, Fraction]:
    """Return an array of doubles or fractions as one of integers without a common factor, and their unit.

    Examples
    --------
    >>> integer_array(np.array([0.5, 1.5]))
    (array([1, 3], dtype=object), Fraction(1, 2))
    """
    whole, scale = integer_row(np.ravel(values).tolist())
    common = math.gcd(*whole) or 1
    found = np.array([*(n // common for n in whole), None], dtype=object)[:-1]
    return found.reshape(np.shape(values)), Fraction(common, scale)


def as_integers(X: Any) -> np.ndarray | None:
    """Return the table with every column scaled to integers, or None if the entries are not that exact.

    A column is scaled to integers by a power of ten if each entry is the number of its type
    nearest to a decimal with at most nine digits after the point, and otherwise by a power of two if that
    makes every entry an integer of at most 20 bits. Scaling columns does not change the cells.

    Parameters
    ----------
    X : ndarray of shape (N, D)
        Finite numbers, of an integer or floating type.

    Returns
    -------
    ndarray of shape (N, D), int64, or None

    Examples
    --------
    >>> as_integers(np.array([[0.1, 3.0], [0.25, 4.0]]))
    array([[10,  3],
           [25,  4]])
    >>> as_integers(np.array([[1 / 3], [np.pi]])) is None
    True
    """
    if X.dtype.kind in "biu":
        # compared as floats: the magnitude of the smallest int64 is not an int64
        if np.abs(X.astype(np.float64)).max(initial=0.0) >= np.iinfo(np.int64).max:
            return None
        return X.astype(np.int64)
    columns = []
    for column in X.T:
        integers = _integer_column(column)
        if integers is None:
            return None
        columns.append(integers)
    return np.array(columns, dtype=np.int64).reshape(X.shape[::-1]).T


def _integer_column(column: np.ndarray) -> np.ndarray | None:
    values = column.astype(np.float64)
    largest, some = float(np.abs(values).max(initial=0.0)), float(values[0])
    for decimals in range(_MAX_DECIMALS + 1):
        scale = 10.0**decimals
        if largest * scale * UNIT >= 1.0:
            break
        # test one entry first, so that a column of real numbers costs no pass per number of decimals
        if column.dtype.type(round(some * scale) / scale) != column[0]:
            continue
        scaled = np.round(values * scale)
        if np.array_equal((scaled / scale).astype(column.dtype), column):
            return scaled.astype(np.int64)
    if largest == 0.0:
        return None
    # a short binary fraction is intended; 53 (or 24) random bits are a rounded real number
    power = _BITS - math.frexp(largest)[1]
    if abs(power) > 900:
        return None
    scaled = np.ldexp(values, power)
    if np.array_equal(scaled, np.round(scaled)):
        integers = scaled.astype(np.int64)
        return integers // np.gcd.reduce(integers)
    return None


def negative_direction(matrix: Sequence[Sequence[Any]] | np.ndarray) -> list[Fraction] | None:
    """Return v with vᵀMv < 0 exactly, or None where M is positive semidefinite (symmetric Gaussian elimination).

    Parameters
    ----------
    matrix : sequence of sequences of Fraction or int
        Symmetric.

    Examples
    --------
    >>> one = Fraction(1)
    >>> negative_direction([[one, one], [one, one]]) is None
    True
    >>> negative_direction([[one, 2 * one], [2 * one, one]])
    [Fraction(-2, 1), Fraction(1, 1)]
    """
    n = len(matrix)
    left = integer_array(matrix)[0].tolist()
    # row i: the vector v for which index i of what is left stands; all entries are divided by the last pivot, a minor
    # (Bareiss 1968), exactly
    basis = [[int(i == j) for j in range(n)] for i in range(n)]
    open_, last = list(range(n)), 1
    while open_:
        negative = next((i for i in open_ if left[i][i] < 0), None)
        if negative is not None:
            return [Fraction(x, last) for x in basis[negative]]
        pivot = next((i for i in open_ if left[i][i] > 0), None)
        if pivot is None:
            pair = next(((i, j) for i in open_ for j in open_ if left[i][j] != 0), None)
            if pair is None:
                return None
            i, j = pair
            sign = -1 if left[i][j] > 0 else 1
            return [Fraction(a + sign * b, last) for a, b in zip(basis[i], basis[j], strict=True)]
        open_.remove(pivot)
        above, behind = left[pivot], basis[pivot]
        lead = above[pivot]
        for i in open_:
            factor = left[i][pivot]
            left[i] = [(lead * x - factor * y) // last for x, y in zip(left[i], above, strict=True)]
            basis[i] = [(lead * x - factor * y) // last for x, y in zip(basis[i], behind, strict=True)]
        last = lead
    return None


def bareiss(
    matrix: Sequence[Sequence[int]], columns: int | None = None
) -> tuple[list[list[int]], list[int], int]:
    """Eliminate an integer matrix by Gauss–Jordan steps whose divisions are exact (Bareiss 1968).

    Parameters
    ----------
    matrix : sequence of rows of integers
    columns : int, optional
        Pivots are sought in the first so many columns, by default in as many as there are rows; what follows is
        carried along.

    Returns
    -------
    rows : list of list of int
        Row k holds ``pivot`` in column ``pivots[k]`` and zeros in the other pivot columns.
    pivots : list of int
    pivot : int
        The common pivot; ± the determinant of a square matrix of full rank.

    Examples
    --------
    >>> bareiss([[2, 1, 1], [1, 2, 1]])
    ([[3, 0, 1], [0, 3, 1]], [0, 1], 3)
    """
    work, pivots, previous = [list(row) for row in matrix], list[int](), 1
    for column in range(len(work) if columns is None else columns):
        rank = len(pivots)
        best = next((i for i in range(rank, len(work)) if work[i][column]), None)
        if best is None:
            if rank == len(work):
                break
            continue
        work[rank], work[best] = work[best], work[rank]
        above = work[rank]
        lead = above[column]
        for i, row in enumerate(work):
            factor = row[column]
            if i != rank:
                work[i] = [(lead * x - factor * y) // previous for x, y in zip(row, above, strict=True)]
        pivots.append(column)
        previous = lead
    return work, pivots, previous


def row_reduce(rows: Sequence[Sequence[Any]], columns: int) -> tuple[list[list[Fraction]], list[int]]:
    """Return the reduced row echelon form over the rationals and its pivot columns.

    Parameters
    ----------
    rows : sequence of rows
        Right-hand sides may follow in further columns.
    columns : int
        Pivots are sought in the first so many columns.

    Returns
    -------
    (list of list of Fraction, list of int)
        One row per pivot, then multiples of what is left of the other rows: zeros in the first ``columns``.

    Examples
    --------
    >>> row_reduce([[1, 2, 5], [2, 4, 10]], 2)
    ([[Fraction(1, 1), Fraction(2, 1), Fraction(5, 1)], [Fraction(0, 1), Fraction(0, 1), Fraction(0, 1)]], [0])
    """
    work, pivots, pivot = bareiss([integer_row(row)[0] for row in rows], columns)
    return [[Fraction(x, pivot) for x in row] for row in work], pivots


def _is_prime(n: int) -> bool:
    # Miller and Rabin's test with these bases is a proof below 3.3e24
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    if any(n % base == 0 for base in bases):
        return n in bases
    twos = ((n - 1) & (1 - n)).bit_length() - 1
    powers = ([pow(base, (n - 1) >> k, n) for k in range(twos, 0, -1)] for base in bases)
    return all(each[0] == 1 or n - 1 in each for each in powers)


def primes_below(start: int, count: int) -> list[int]:
    """Return the ``count`` largest primes below ``start``.

    Examples
    --------
    >>> primes_below(100, 3)
    [97, 89, 83]
    """
    found: list[int] = []
    n = start - 1
    while len(found) < count:
        if _is_prime(n):
            found.append(n)
        n -= 1
    return found


def primes_for(rows: np.ndarray, rank: int) -> np.ndarray:
    """Return 31-bit primes whose product exceeds every minor of order ``rank`` of the integer rows.

    A minor that vanishes modulo all of them is zero, by Hadamard's bound.
    """
    norms = np.sort(np.sqrt((rows.astype(np.float64) ** 2).sum(axis=1)))[::-1][:rank]
    bits = float(np.log2(np.maximum(norms, 1.0)).sum()) + 1.0
    return np.array(primes_below(2**31, max(1, math.ceil(bits / 30.99))), dtype=np.int64)
