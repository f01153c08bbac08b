"""Exact linear algebra on small matrices: rank modulo a prime, and positive semidefiniteness with a witness."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

PRIME = 2_147_483_629  # below 2³¹, so that products fit in 64 bits


def modular_rank(matrix: Sequence[Sequence[int]]) -> int:
    """Return the rank modulo a large prime: never more than the rank of the integer matrix.

    Parameters
    ----------
    matrix : sequence of sequences of int

    Examples
    --------
    >>> modular_rank([[1, 2], [2, 4]]), modular_rank([[10**30, 1], [1, 1]])
    (1, 2)
    """
    table = np.array([[entry % PRIME for entry in row] for row in matrix], dtype=np.int64)
    rank = 0
    # sparse columns and sparse pivot rows first, and only rows that change: the matrix of a tree hardly fills in
    for column in np.argsort(np.count_nonzero(table, axis=0), kind="stable").tolist():
        found = rank + np.flatnonzero(table[rank:, column])
        if not len(found):
            continue
        pivot = int(found[np.count_nonzero(table[found], axis=1).argmin()])
        table[[rank, pivot]] = table[[pivot, rank]]
        inner = np.flatnonzero(table[rank])
        row = table[rank, inner] * pow(int(table[rank, column]), -1, PRIME) % PRIME
        below = rank + 1 + np.flatnonzero(table[rank + 1 :, column])
        if len(below):
            change = table[below, column][:, None] * row % PRIME
            table[np.ix_(below, inner)] = (table[np.ix_(below, inner)] - change) % PRIME
        rank += 1
        if rank == len(table):
            break
    return rank


def quadratic_form(matrix: Sequence[Sequence[Fraction]], vector: Sequence[Fraction | int]) -> Fraction:
    """Return vᵀMv without rounding.

    Examples
    --------
    >>> quadratic_form([[Fraction(1), Fraction(2)], [Fraction(2), Fraction(1)]], [1, -1])
    Fraction(-2, 1)
    """
    n = range(len(vector))
    return sum(
        (
            vector[i] * vector[j] * matrix[i][j]
            for i in n
            for j in n
            if vector[i] and vector[j] and matrix[i][j]
        ),
        Fraction(0),
    )


def negative_direction(matrix: Sequence[Sequence[Fraction]]) -> list[Fraction] | None:
    """Return v with vᵀMv < 0 exactly, or None where M is positive semidefinite (symmetric Gaussian elimination).

    Parameters
    ----------
    matrix : sequence of sequences of Fraction
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
    left = [list(row) for row in matrix]
    basis = [
        [Fraction(int(i == j)) for j in range(n)] for i in range(n)
    ]  # rows: the vectors behind each index
    open_ = list(range(n))
    while open_:
        negative = next((i for i in open_ if left[i][i] < 0), None)
        if negative is not None:
            return basis[negative]
        pivot = next((i for i in open_ if left[i][i] > 0), None)
        if pivot is None:
            pair = next(((i, j) for i in open_ for j in open_ if left[i][j] != 0), None)
            if pair is None:
                return None
            i, j = pair
            sign = -1 if left[i][j] > 0 else 1
            return [a + sign * b for a, b in zip(basis[i], basis[j], strict=True)]
        open_.remove(pivot)
        for i in open_:
            ratio = left[i][pivot] / left[pivot][pivot]
            if ratio:
                for j in open_:
                    left[i][j] -= ratio * left[pivot][j]
                basis[i] = [a - ratio * b for a, b in zip(basis[i], basis[pivot], strict=True)]
    return None
