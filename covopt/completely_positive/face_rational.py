"""Matrices of fractions: entries are read exactly, scaled to integers, multiplied without rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

from covopt.errors import InputError
from covopt.exact.elimination import integer_table


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
    integers, _ = integer_table(matrix)
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
