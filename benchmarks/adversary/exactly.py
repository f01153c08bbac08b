"""Integers for floats: every float is a whole multiple of a power of two, so tables and duals become integers.

Whatever is compared here is compared without rounding. Directions of neurons are integer vectors of any length; the
length enters by its square, or by an integer that is at least as large.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np

ROOT_BITS = 64  # lengths of neurons are rounded up in this many bits


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
    """Return an integer vector along w, to 80 bits below its largest entry (any vector will do as a neuron)."""
    size = float(np.abs(w).max())
    return np.array([int(Fraction(float(entry)) / Fraction(size) * 2**80) for entry in w], dtype=object)


def halve(vectors: np.ndarray) -> np.ndarray:
    """Divide integer vectors (m, D) by the largest power of two that all entries of a row have."""
    shortened = vectors.copy()
    for row in shortened:
        bits = 0
        for entry in row:
            bits |= int(entry)
        if bits:
            low = (bits & -bits).bit_length() - 1
            for j in range(len(row)):
                row[j] >>= low
    return shortened


def positive(heights: np.ndarray) -> np.ndarray:
    """σ of an object array."""
    return np.where(heights > 0, heights, 0)


def squares(vectors: np.ndarray) -> np.ndarray:
    """Squared lengths of integer vectors (m, D)."""
    return (vectors * vectors).sum(axis=1)


def root_above(square: int) -> Fraction:
    """Return a number that is at least √square, larger by 2^-64 of it at most.

    >>> float(root_above(2)) >= 2**0.5
    True
    """
    if square <= 0:
        return Fraction(0)
    lift = max(0, 2 * ROOT_BITS - square.bit_length())
    lift += lift & 1
    return Fraction(isqrt(square << lift) + 1, 1 << (lift // 2))


def lifted(X: np.ndarray, bias: float) -> np.ndarray:
    """Rows (x, β); x where the bias is 0."""
    X = np.asarray(X, dtype=float)
    return X if bias == 0 else np.column_stack([X, np.full(len(X), float(bias))])


def fractions(array: Any) -> list[Any]:
    """Nested lists of fractions."""
    array = np.asarray(array, dtype=float)
    if array.ndim == 1:
        return [Fraction(entry) for entry in array.tolist()]
    return [fractions(part) for part in array]


def outputs(X: np.ndarray, network: Any) -> list[list[Fraction]]:
    """f(x_i) of a network in rational arithmetic, N lists of k fractions."""
    rows = fractions(lifted(X, network.bias))
    hidden, weights = fractions(network.hidden_weights), fractions(network.output_weights)
    shift = [Fraction(float(network.bias)) * b for b in fractions(network.output_bias)]
    answers = []
    for row in rows:
        values = list(shift)
        for neuron, out in zip(hidden, weights, strict=True):
            height = sum((w * x for w, x in zip(neuron, row, strict=True)), Fraction(0))
            if height > 0:
                values = [v + height * o for v, o in zip(values, out, strict=True)]
        answers.append(values)
    return answers


def squared_norm(network: Any, output_bias: str) -> Fraction:
    """‖W‖² of a network in rational arithmetic; the output bias counts where it is penalized."""
    parts = [network.hidden_weights, network.output_weights]
    if output_bias == "penalized":
        parts.append(network.output_bias)
    return sum((Fraction(entry) ** 2 for part in parts for entry in np.ravel(part).tolist()), Fraction(0))
