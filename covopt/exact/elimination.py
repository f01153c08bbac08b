"""Elimination without rounding: in fractions, in integers with exact divisions, and symmetric.

The plain rank of a table is in :mod:`covopt.exact.rank`; elimination of many small matrices modulo several primes,
compiled, in :mod:`covopt.arrangement.exact`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np


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


def integer_table(rows: Sequence[Sequence[Any]] | np.ndarray) -> tuple[list[list[int]], int]:
    """Return a table of doubles or fractions times the least common denominator, and that.

    Examples
    --------
    >>> integer_table([[0.5, 1], [Fraction(1, 3), 2]])
    ([[3, 6], [2, 12]], 6)
    """
    table = [integer_row(row) for row in rows]
    scale = math.lcm(*{own for _, own in table})
    return [[x * (scale // own) for x in row] for row, own in table], scale


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
    left, _ = integer_table(matrix)
    # rows: the vectors behind each index; all that is open is divided by the last pivot, a minor (Bareiss 1968)
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
        One row per pivot, then multiples of what is left of the others, which vanishes in the first ``columns``.

    Examples
    --------
    >>> row_reduce([[1, 2, 5], [2, 4, 10]], 2)
    ([[Fraction(1, 1), Fraction(2, 1), Fraction(5, 1)], [Fraction(0, 1), Fraction(0, 1), Fraction(0, 1)]], [0])
    """
    work, pivots, pivot = bareiss([integer_row(row)[0] for row in rows], columns)
    return [[Fraction(x, pivot) for x in row] for row in work], pivots
