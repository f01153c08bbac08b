"""Doubles as fractions: products of rows without rounding."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from operator import mul
from typing import Any

Three = tuple[Fraction, Fraction, Fraction]


def exactly(values: Any) -> list[Fraction]:
    """Return doubles as fractions."""
    return [Fraction(value) for value in values.tolist()]


def dot(first: Sequence[Fraction], second: Sequence[Fraction]) -> Fraction:
    """Return Σ a_i b_i.

    Examples
    --------
    >>> dot([Fraction(1), Fraction(1, 2)], [Fraction(2), Fraction(4)])
    Fraction(4, 1)
    """
    return sum(map(mul, first, second), Fraction(0))


def products(first: Sequence[Fraction], second: Sequence[Fraction]) -> Three:
    """Return x·x, z·z and x·z of two rows."""
    return dot(first, first), dot(second, second), dot(first, second)
