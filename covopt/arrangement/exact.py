"""Exact tests on integer rows: linear dependence modulo enough primes to decide it with certainty."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from covopt.exact.rounding import UNIT

MAX_INTEGER = 2**62
_MAX_DECIMALS = 9
_BITS = 20


def _is_prime(n: int) -> bool:
    # Miller-Rabin with these bases is a proof below 3.3e24
    if n % 2 == 0:
        return n == 2
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd //= 2
        twos += 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        if base % n == 0:
            continue
        x = pow(base, odd, n)
        if x in (1, n - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


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
        if np.abs(X.astype(np.float64)).max(initial=0.0) >= MAX_INTEGER:
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


def primes_for(rows: np.ndarray, rank: int) -> np.ndarray:
    """Return 31-bit primes whose product exceeds every minor of order ``rank`` of the integer rows.

    A minor that vanishes modulo all of them is zero, by Hadamard's bound.
    """
    norms = np.sort(np.sqrt((rows.astype(np.float64) ** 2).sum(axis=1)))[::-1][:rank]
    bits = float(np.log2(np.maximum(norms, 1.0)).sum()) + 1.0
    return np.array(primes_below(2**31, max(1, math.ceil(bits / 30.99))), dtype=np.int64)


@njit(cache=True)
def eliminate_mod(matrix, p):
    """Reduce ``matrix`` (entries in [0, p), p < 2³¹) to echelon form in place; return its pivot columns."""
    n_rows, n_columns = matrix.shape
    pivots = np.empty(min(n_rows, n_columns), dtype=np.int64)
    rank = 0
    for c in range(n_columns):
        if rank == n_rows:
            break
        found = -1
        for i in range(rank, n_rows):
            if matrix[i, c] != 0:
                found = i
                break
        if found < 0:
            continue
        if found != rank:
            for k in range(n_columns):
                held = matrix[found, k]
                matrix[found, k] = matrix[rank, k]
                matrix[rank, k] = held
        pivot = matrix[rank, c]
        for i in range(rank + 1, n_rows):
            factor = matrix[i, c]
            if factor != 0:
                for k in range(c, n_columns):
                    matrix[i, k] = (matrix[i, k] * pivot - factor * matrix[rank, k]) % p
        pivots[rank] = c
        rank += 1
    return pivots[:rank]


@njit(cache=True)
def dependent(residues, primes, ids, q, work):
    """Return whether rows ``ids[:q]`` are linearly dependent; ``residues`` is (primes, rows, columns)."""
    r = residues.shape[2]
    if q > r:
        return True
    for t in range(primes.size):
        for i in range(q):
            for c in range(r):
                work[i, c] = residues[t, ids[i], c]
        if eliminate_mod(work[:q], primes[t]).size == q:
            return False
    return True
