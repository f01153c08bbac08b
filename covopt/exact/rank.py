r"""How many directions a matrix has: the one rule for doubles, a bound that is safe, and the rank in fractions.

A matrix of doubles stands for one that differs from it by what its entries were rounded by. No singular value moves
further than the norm of that difference (Weyl), so one that is smaller may as well be zero, and dividing by it would
turn rounding into digits. What counts as zero is a share of the largest singular value that says what the entries are
made of:

- :func:`of_given`, max(N, D)·ε: entries as they were given, up to powers of two. What the factorisation errs by.
- :data:`COMPUTED`, 1e-12: entries that are sums of products, or come from other factorisations.
- :data:`ATOMS`, 1e-11: columns of activations or of squares, computed from computed neurons, whose dependence
  Carathéodory's step spends.
- :data:`FOUND`, 1e-9: rows that are there because they nearly vanish at a neuron, which an iteration has found.

A decision is no proof. Where a bound rests on one, what was dropped is paid for
(:func:`covopt.exact.rounding.transfer_up`), or the rank is bounded (:func:`rank_at_least`) or exact
(:func:`exact_rank`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from covopt.exact.definite import singular_values_between
from covopt.exact.elimination import integer_row
from covopt.exact.rounding import EPS, gamma

COMPUTED = 1e-12
ATOMS = 1e-11
FOUND = 1e-9


def of_given(shape: tuple[int, ...]) -> float:
    """Return the share of the largest singular value that counts as zero where the entries are as given.

    Examples
    --------
    >>> of_given((4, 2)) == 4 * 2.0**-52
    True
    """
    return max(shape) * EPS


def numerical_rank(singular: np.ndarray, share: float) -> int:
    """Count the singular values above a share of the largest.

    Parameters
    ----------
    singular : ndarray of shape (r,)
        Or other sizes that tell dependent directions, the diagonal of a pivoted triangle say.
    share : float

    Examples
    --------
    >>> numerical_rank(np.array([3.0, 1.0, 1e-14]), COMPUTED), numerical_rank(np.zeros(2), COMPUTED)
    (2, 0)
    """
    return int((singular > share * singular.max(initial=0.0)).sum())


def row_span(rows: np.ndarray, share: float | None = None) -> np.ndarray:
    """Return orthonormal rows that span the rows of a matrix, shape (r, D); by default entries are as given.

    Examples
    --------
    >>> row_span(np.array([[3.0, 4.0], [6.0, 8.0]])).shape
    (1, 2)
    """
    _, singular, right = np.linalg.svd(rows, full_matrices=False)
    return right[: numerical_rank(singular, of_given(rows.shape) if share is None else share)]


def null_space(rows: np.ndarray, share: float) -> np.ndarray:
    """Return orthonormal columns orthogonal to the rows of a matrix, shape (D, D − r).

    Examples
    --------
    >>> np.abs(null_space(np.array([[0.0, 2.0]]), COMPUTED)).ravel().tolist()
    [1.0, 0.0]
    """
    _, singular, right = np.linalg.svd(rows)
    return right[numerical_rank(singular, share) :].T


def rank_at_least(matrix: np.ndarray, *, beside_constants: bool = False) -> int:
    """Return a number that the rank cannot fall short of: singular values beyond rounding.

    Columns are brought to size one by powers of two. Beside the constants it is the rank of PA, P what takes means
    off; the computed means are off by γ(N) and the differences by u, so no singular value of PA differs from that of
    the computed matrix by more than (γ(N) + 2u)·2√(Nk) (Weyl).

    Parameters
    ----------
    matrix : ndarray of shape (N, k)
    beside_constants : bool
        Of the columns modulo the constants: the least rank of Y − 1bᵀ.

    Examples
    --------
    >>> ones = np.array([[1.0], [1.0]])
    >>> rank_at_least(ones), rank_at_least(ones, beside_constants=True)
    (1, 0)
    """
    scale = np.abs(matrix).max(axis=0, initial=0.0)
    units = np.ldexp(matrix[:, scale > 0], -np.frexp(scale[scale > 0])[1])
    off = 0.0
    if beside_constants and units.size:
        units = units - units.mean(axis=0)
        off = 2.0 * gamma(2 * len(units) + 8) * float(np.sqrt(units.size))
    return int((singular_values_between(units)[0] > off).sum())


def exact_rank(matrix: np.ndarray | Sequence[Sequence[Any]]) -> int:
    """Return the rank of a table of doubles or fractions, by elimination in integers.

    Examples
    --------
    >>> from fractions import Fraction
    >>> exact_rank(np.array([[0.1, 0.2], [0.2, 0.4]])), exact_rank([[Fraction(1, 3), 1], [1, Fraction(3)]])
    (1, 1)
    >>> exact_rank(np.array([[0.1, 0.3], [0.3, 0.9]]))
    2
    """
    echelon: list[tuple[int, list[int]]] = []
    for row in matrix.tolist() if isinstance(matrix, np.ndarray) else matrix:
        rest = integer_row(row)[0]
        for column, above in echelon:
            if rest[column]:
                lead, factor = above[column], rest[column]
                rest = [lead * x - factor * y for x, y in zip(rest, above, strict=True)]
                common = math.gcd(*rest) or 1
                rest = [x // common for x in rest]
        first = next((column for column, entry in enumerate(rest) if entry), None)
        if first is not None:
            echelon.append((first, rest))
            if len(echelon) == len(rest):
                break
    return len(echelon)
