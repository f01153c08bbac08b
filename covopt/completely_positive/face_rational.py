"""Linear algebra over the rationals: entries are read exactly, integers are eliminated without fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

from covopt.errors import InputError


def exact_matrix(A: Any, name: str = "A") -> list[list[Fraction]]:
    """Read a symmetric matrix without rounding: every float is the rational number that it stores.

    Parameters
    ----------
    A : array_like of shape (n, n)
        Integers, floats or Fractions.
    name : str
        For the messages.

    Returns
    -------
    list of list of Fraction

    Raises
    ------
    InputError
        Not square, not a number, not finite, or not exactly symmetric.

    Examples
    --------
    >>> exact_matrix([[2, 0.5], [0.5, 1]])
    [[Fraction(2, 1), Fraction(1, 2)], [Fraction(1, 2), Fraction(1, 1)]]
    """
    rows = A.tolist() if hasattr(A, "tolist") else A
    if not isinstance(rows, Sequence) or not rows or not all(isinstance(r, Sequence) for r in rows):
        raise InputError(
            f"{name} must be a square matrix with at least one row; received {type(A).__name__}."
        )
    n = len(rows)
    exact: list[list[Fraction]] = []
    for i, row in enumerate(rows):
        if len(row) != n:
            raise InputError(f"{name} must be square; row {i} has {len(row)} entries and there are {n} rows.")
        exact.append([])
        for j, value in enumerate(row):
            if not isinstance(value, Rational) and not (isinstance(value, Real) and math.isfinite(value)):
                raise InputError(f"{name}[{i}, {j}] must be a finite real number; received {value!r}.")
            exact[i].append(
                Fraction(int(value.numerator), int(value.denominator))  # NumPy's integers would overflow
                if isinstance(value, Rational)
                else Fraction(float(value))
            )
            if j < i and exact[i][j] != exact[j][i]:
                raise InputError(
                    f"{name} must be symmetric; {name}[{i}, {j}] = {value!r} but {name}[{j}, {i}] = "
                    f"{rows[j][i]!r}; pass ({name} + {name}.T) / 2 if that is rounding."
                )
    return exact


def as_integers(matrix: Sequence[Sequence[Fraction]]) -> list[list[int]]:
    """Scale a rational matrix by a positive number to coprime integers.

    Examples
    --------
    >>> as_integers([[Fraction(1, 2), Fraction(1, 3)]])
    [[3, 2]]
    """
    scale = math.lcm(*(x.denominator for row in matrix for x in row))
    integers = [[int(x * scale) for x in row] for row in matrix]
    common = math.gcd(*(x for row in integers for x in row)) or 1
    return [[x // common for x in row] for row in integers]


def inner(first: Sequence[Sequence[Any]], second: Sequence[Sequence[Any]]) -> Fraction:
    """Return ⟨A, B⟩ = Σ_ij A_ij B_ij exactly.

    Examples
    --------
    >>> inner([[1, 2]], [[3, Fraction(1, 2)]])
    Fraction(4, 1)
    """
    return sum(
        (Fraction(a) * b for row, other in zip(first, second, strict=True) for a, b in zip(row, other, strict=True)),
        Fraction(0),
    )  # fmt: skip


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
        One row per pivot, then the rows that vanish in the first ``columns``.

    Examples
    --------
    >>> row_reduce([[1, 2, 5], [2, 4, 10]], 2)
    ([[Fraction(1, 1), Fraction(2, 1), Fraction(5, 1)], [Fraction(0, 1), Fraction(0, 1), Fraction(0, 1)]], [0])
    """
    work = [[Fraction(x) for x in row] for row in rows]
    pivots: list[int] = []
    for column in range(columns):
        rank = len(pivots)
        best = next((i for i in range(rank, len(work)) if work[i][column] != 0), None)
        if best is None:
            continue
        work[rank], work[best] = work[best], work[rank]
        lead = work[rank][column]
        work[rank] = pivot_row = [x / lead if x else x for x in work[rank]]
        for i, row in enumerate(work):
            factor = row[column]
            if i != rank and factor:
                work[i] = [x - factor * p if p else x for x, p in zip(row, pivot_row, strict=True)]
        pivots.append(column)
    return work, pivots


def bareiss(matrix: Sequence[Sequence[int]]) -> tuple[list[list[int]], list[int], int]:
    """Eliminate an integer matrix by Gauss–Jordan steps whose divisions are exact (Bareiss 1968).

    Parameters
    ----------
    matrix : sequence of n rows of n + e integers
        The last e columns are carried along; pivots are sought in the first n.

    Returns
    -------
    rows : list of list of int
        Row k holds ``pivot`` in column ``pivots[k]`` and zeros in the other pivot columns.
    pivots : list of int
    pivot : int
        The common pivot; ± the determinant where all n pivots were found.

    Examples
    --------
    >>> bareiss([[2, 1, 1], [1, 2, 1]])
    ([[3, 0, 1], [0, 3, 1]], [0, 1], 3)
    """
    work = [list(row) for row in matrix]
    n = len(work)
    pivots: list[int] = []
    previous = 1
    for column in range(n):
        rank = len(pivots)
        best = next((i for i in range(rank, n) if work[i][column]), None)
        if best is None:
            continue
        work[rank], work[best] = work[best], work[rank]
        pivot_row = work[rank]
        lead = pivot_row[column]
        for i in range(n):
            if i != rank:
                factor = work[i][column]
                work[i] = [
                    (lead * x - factor * p) // previous for x, p in zip(work[i], pivot_row, strict=True)
                ]
        pivots.append(column)
        previous = lead
    return work, pivots, previous
