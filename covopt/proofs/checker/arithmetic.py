"""What a proof is about, floats as exact integers, and the few functions that are rounded, each to a stated side."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

ZERO = Fraction(0)


def fractions(values: Any) -> Any:
    """Return nested lists or an array of floats as nested lists of fractions."""
    values = values.tolist() if isinstance(values, np.ndarray) else values
    return [fractions(value) for value in values] if isinstance(values, list) else Fraction(values)


def on_grid(*arrays: Any) -> tuple[list[np.ndarray], Fraction]:
    """Write floats or fractions as integers n of one unit: value = n · unit."""
    cells = [[value.as_integer_ratio() for value in np.ravel(array).tolist()] for array in arrays]
    bottom = math.lcm(*(d for part in cells for _, d in part))
    whole = [[n * (bottom // d) for n, d in part] for part in cells]
    common = math.gcd(*(n for part in whole for n in part)) or 1
    found = [np.array([*(n // common for n in part), None], dtype=object)[:-1] for part in whole]
    return [part.reshape(np.shape(array)) for part, array in zip(found, arrays, strict=True)], Fraction(
        common, bottom
    )


def dot(first: Iterable[Any], second: Iterable[Any]) -> Any:
    """Σ a b."""
    return sum((a * b for a, b in zip(first, second, strict=True)), ZERO)


def sqrt_above(square: Fraction) -> Fraction:
    """Return a rational root with root² ≥ square, larger than the true root by less than 2^-60 of it."""
    top, bottom = square.numerator, square.denominator
    shift = max(0, 64 - (top.bit_length() - bottom.bit_length()) // 2)
    inside = -(-(top << 2 * shift) // bottom)
    root = math.isqrt(inside)
    return Fraction(root + (root * root < inside), 1 << shift)


def norm_above(vector: Iterable[Fraction]) -> Fraction:
    """Return an upper bound on the Euclidean norm."""
    return sqrt_above(sum((x * x for x in vector), ZERO))


def float_below(value: Fraction) -> float:
    """Return the largest float that is not above the value."""
    try:
        nearest = float(value)
    except OverflowError:
        return -math.inf if value < 0 else sys.float_info.max
    return math.nextafter(nearest, -math.inf) if nearest > value else nearest


@dataclass(frozen=True, eq=False)
class Problem:
    """A table and the question asked about it: minimise ‖W‖² through the points, or C(f) + lam ‖W‖² with a loss.

    Attributes
    ----------
    X, Y : ndarray of shape (N, d), (N, k)
        Y is ±1 for a loss of two classes.
    bias : float
    output_bias : {"none", "penalized", "free"}
    loss : str or None
        A name of :mod:`covopt.losses`; None for interpolation.
    lam, delta : float
        Strength, and the parameter of the huber loss.
    sample_weight : ndarray of shape (N,) or None
        C is the mean with these weights.
    """

    X: np.ndarray
    Y: np.ndarray
    bias: float
    output_bias: str = "none"
    loss: str | None = None
    lam: float = 0.0
    delta: float = 1.0
    sample_weight: np.ndarray | None = None

    def digest(self, dual: np.ndarray) -> str:
        """Return a SHA-256 of the table, what is asked about it, and a dual point.

        Examples
        --------
        >>> line = Problem(np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]]), 1.0)
        >>> line.digest(np.array([-1.0, 1.0])) == line.digest(np.array([-1.0, 1.0]))
        True
        """
        digest = hashlib.sha256()
        asked = (float(self.bias), self.output_bias, self.loss, float(self.lam), float(self.delta))
        digest.update(repr(asked).encode())
        for array in (self.X, self.Y, dual, self.sample_weight):
            if array is not None:
                numbers = np.ascontiguousarray(array, dtype="<f8") + 0.0
                digest.update(repr(numbers.shape).encode() + numbers.tobytes())
        return digest.hexdigest()
