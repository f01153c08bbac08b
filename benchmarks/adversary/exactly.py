"""Integers for floats: every float is an integer times a power of two, so tables and dual points become integers.

All comparisons here are exact. Directions of neurons are integer vectors of any length; the length enters by its
square, or by an integer upper bound.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd, isqrt
from typing import Any

import numpy as np

from tests.depth.bank.exact import ExactNetwork, fractions

ROOT_BITS = 64  # lengths of neurons are rounded up to this many bits


def whole(array: np.ndarray) -> tuple[np.ndarray, int]:
    """Return integers n (object array) and e with array = n · 2^-e exactly.

    >>> whole(np.array([0.75, -2.0]))
    (array([3, -8], dtype=object), 2)
    """
    flat = np.asarray(array, dtype=float).ravel()
    pairs = [float(entry).as_integer_ratio() for entry in flat]
    shift = max((q.bit_length() - 1 for _, q in pairs), default=0)
    entries = np.empty(len(pairs), dtype=object)
    for i, (p, q) in enumerate(pairs):
        entries[i] = p << (shift - (q.bit_length() - 1))
    return entries.reshape(np.shape(array)), shift


def direction(w: np.ndarray) -> np.ndarray:
    """Return an integer vector along w, rounded 80 bits below its largest entry (any vector is a valid neuron)."""
    size = float(np.abs(w).max())
    return np.array([int(Fraction(float(entry)) / Fraction(size) * 2**80) for entry in w], dtype=object)


def shortest(vectors: np.ndarray) -> np.ndarray:
    """Divide each row of integer vectors (m, D) by the greatest common divisor of its entries."""
    return vectors // np.array([gcd(*map(int, row)) or 1 for row in vectors], dtype=object)[:, None]


def positive(heights: np.ndarray) -> np.ndarray:
    """Return σ of an object array."""
    return np.where(heights > 0, heights, 0)


def squares(vectors: np.ndarray) -> np.ndarray:
    """Return the squared lengths of integer vectors (m, D)."""
    return (vectors * vectors).sum(axis=1)


def root_above(square: int) -> Fraction:
    """Return an upper bound on √square with a relative error of at most 2^-64.

    >>> float(root_above(2)) >= 2**0.5
    True
    """
    if square <= 0:
        return Fraction(0)
    lift = max(0, 2 * ROOT_BITS - square.bit_length())
    lift += lift & 1
    return Fraction(isqrt(square << lift) + 1, 1 << (lift // 2))


def lifted(X: np.ndarray, bias: float) -> np.ndarray:
    """Return the rows (x, β), or x if the bias is 0."""
    X = np.asarray(X, dtype=float)
    return X if bias == 0 else np.column_stack([X, np.full(len(X), float(bias))])


def exact(network: Any, output_bias: str = "penalized") -> ExactNetwork:
    """Return a network of two layers in fractions, which computes its outputs and cost exactly."""
    top = network.output_weights.T
    if network.bias > 0 and output_bias != "none":
        top = np.column_stack([top, network.output_bias])
    return ExactNetwork([fractions(network.hidden_weights), fractions(top)], network.bias, output_bias)


def outputs(X: np.ndarray, network: Any) -> np.ndarray:
    """Return f(x_i) of a network in rational arithmetic, (N, k) fractions."""
    return exact(network).forward(fractions(X))[1][-1]
