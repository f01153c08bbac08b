"""Copositive matrices in exact arithmetic: the decision, a witness against it, and all zeros of the form.

S is copositive where xᵀSx ≥ 0 for all x ≥ 0. Both questions are answered by one walk over the 2ⁿ − 1 principal
submatrices S_σ, with integers only.

- S is NOT copositive exactly when some S_σ is nonsingular with x = −S_σ⁻¹1 > 0. Take a smallest σ on which the form
  takes a negative value. Its minimum over the simplex of σ lies inside (smaller supports have none), so S_σx = m1
  with m < 0 < x. Were S_σ singular, moving x along the kernel would keep the value and reach the boundary. Conversely
  such an x has xᵀSx = −1ᵀx < 0.
- For a copositive S the MINIMAL zeros (x ≥ 0, xᵀSx = 0, smallest support) are the positive kernel vectors of the S_σ
  of corank one. Every zero is a sum of minimal zeros u, v, … with uᵀSv = 0 (Hildebrand 2014), because Su ≥ 0.

"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from covopt.completely_positive.matrix import read_matrix
from covopt.errors import BudgetError
from covopt.exact.elimination import bareiss, integer_table

MAX_ORDER = 16
CERTIFIED_ORDER = 12  # of certificates: 2¹² submatrices take seconds, 2¹⁶ minutes


@dataclass(frozen=True)
class CopositiveScan:
    """What the walk over all principal submatrices found.

    Attributes
    ----------
    witness : tuple of Fraction, or None
        x ≥ 0 with xᵀSx < 0 where S is not copositive.
    zeros : tuple of tuple of int
        The minimal zeros as coprime integer vectors, where S is copositive.
    isolated : bool
        Whether S is copositive and every zero is a multiple of a minimal one.
    """

    witness: tuple[Fraction, ...] | None
    zeros: tuple[tuple[int, ...], ...]
    isolated: bool

    @property
    def copositive(self) -> bool:
        """Whether there is no witness against it."""
        return self.witness is None


def scan_copositive(S: Any) -> CopositiveScan:
    r"""Decide exactly whether S is copositive; give a witness, or all minimal zeros.

    .. math::

        x^\top S x \ge 0 \quad \text{for all } x \ge 0 \ ?

    Parameters
    ----------
    S : array_like of shape (n, n)
        Symmetric, n ≤ 16; floats are taken as the rationals they store.

    Returns
    -------
    CopositiveScan

    Raises
    ------
    InputError
        Not square, not symmetric, or not finite.
    BudgetError
        n > 16: the walk visits 2ⁿ submatrices.

    References
    ----------
    Hadeler, On copositive matrices, Linear Algebra Appl. 49 (1983).
    Hildebrand, Minimal zeros of copositive matrices, Linear Algebra Appl. 459 (2014).

    Examples
    --------
    >>> scan_copositive([[1, -1], [-1, 1]])
    CopositiveScan(witness=None, zeros=((1, 1),), isolated=True)
    >>> scan_copositive([[1, -2], [-2, 1]]).witness
    (Fraction(1, 1), Fraction(1, 1))
    """
    read = read_matrix(S)
    n = len(read)
    if n > MAX_ORDER:
        raise BudgetError(
            f"the exact test of copositivity visits all principal submatrices and takes n ≤ {MAX_ORDER}; "
            f"received n = {n}. Test the blocks of S that a permutation splits it into, or a sum of a positive "
            "semidefinite and a nonnegative matrix, by other means."
        )
    matrix = np.array(integer_table(read.fractions())[0], dtype=object)
    zeros: list[list[int]] = []
    for support in (list(chosen) for size in range(1, n + 1) for chosen in combinations(range(n), size)):
        k = len(support)
        reduced, pivots, pivot = bareiss([[*row, -1] for row in matrix[np.ix_(support, support)].tolist()])
        if len(pivots) == k and all(row[k] * pivot > 0 for row in reduced):
            low = min(row[k] / Fraction(pivot) for row in reduced)
            witness = np.full(n, Fraction(0))
            witness[support] = [row[k] / (pivot * low) for row in reduced]
            return CopositiveScan(tuple(witness), (), False)
        if len(pivots) == k - 1:
            free = next(c for c in range(k) if c not in pivots)
            # pivot · x_c = −row[free] · x_free in every pivot column c
            kernel = np.full(k, abs(pivot), dtype=object)
            kernel[pivots] = [-row[free] * (1 if pivot > 0 else -1) for row in reduced[: k - 1]]
            if min(kernel) > 0:
                zero = np.zeros(n, dtype=object)
                zero[support] = kernel // math.gcd(*kernel)
                zeros.append(zero.tolist())
    U = np.array(zeros, dtype=object).reshape(-1, n)
    isolated = bool(((U @ matrix @ U.T)[np.triu_indices(len(U), 1)] > 0).all())
    return CopositiveScan(None, tuple(map(tuple, zeros)), isolated)


def is_copositive_exact(S: Any) -> bool:
    """Decide exactly whether xᵀSx ≥ 0 for all x ≥ 0 (n ≤ 16).

    Parameters
    ----------
    S : array_like of shape (n, n)

    Returns
    -------
    bool

    Raises
    ------
    InputError
        Not square, not symmetric, or not finite.
    BudgetError
        n > 16.

    Examples
    --------
    The Horn matrix is copositive, yet no sum of a semidefinite and a nonnegative matrix.

    >>> horn = [[1, -1, 1, 1, -1], [-1, 1, -1, 1, 1], [1, -1, 1, -1, 1], [1, 1, -1, 1, -1], [-1, 1, 1, -1, 1]]
    >>> is_copositive_exact(horn)
    True
    """
    return scan_copositive(S).copositive
