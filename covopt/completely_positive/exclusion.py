"""Proofs that a matrix is not completely positive, each checked in exact arithmetic.

One of them is a copositive matrix S: xᵀSx ≥ 0 for all x ≥ 0. This module decides copositivity exactly, with a witness
x if S is not copositive and all zeros of the form if it is. Both follow from one enumeration of the 2ⁿ − 1 principal
submatrices S_σ, in integers.

- S is NOT copositive exactly when some S_σ is nonsingular with x = −S_σ⁻¹1 > 0. Take a smallest σ on which the form
  takes a negative value. Its minimum over the simplex of σ lies inside (smaller supports have none), so S_σx = m1
  with m < 0 < x. Were S_σ singular, moving x along the kernel would keep the value and reach the boundary. Conversely
  such an x has xᵀSx = −1ᵀx < 0.
- For a copositive S the MINIMAL zeros (x ≥ 0, xᵀSx = 0, smallest support) are the positive kernel vectors of the S_σ
  of corank one. Every zero is a sum of minimal zeros u, v, … with uᵀSv = 0 (Hildebrand 2014), because Su ≥ 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from covopt.completely_positive import Known, Reason, register
from covopt.completely_positive.dominance import comparison_matrix
from covopt.completely_positive.graphs import is_triangle_free
from covopt.completely_positive.matrix import EXACT_SIZE, SymmetricMatrix, read_matrix, support_pattern
from covopt.errors import BudgetError
from covopt.exact.elimination import bareiss, integer_array, negative_direction
from covopt.exact.rank import FOUND, NEAR
from covopt.files.schema import fractions
from covopt.limits import MOST_LISTED

CERTIFIED_ORDER = 12  # largest order in certificates: 2¹² submatrices take seconds, 2¹⁶ minutes


@dataclass(frozen=True)
class CopositiveScan:
    """Result of the enumeration of all principal submatrices.

    Attributes
    ----------
    witness : tuple of Fraction, or None
        x ≥ 0 with xᵀSx < 0 if S is not copositive, else None.
    zeros : tuple of tuple of int
        The minimal zeros as coprime integer vectors, if S is copositive.
    isolated : bool
        Whether S is copositive and every zero is a multiple of a minimal one.
    """

    witness: tuple[Fraction, ...] | None
    zeros: tuple[tuple[int, ...], ...]
    isolated: bool

    @property
    def copositive(self) -> bool:
        """Whether S is copositive."""
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
        If S is not square, symmetric and finite.
    BudgetError
        If n > 16: 2ⁿ submatrices are enumerated.

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
    if n > MOST_LISTED:
        raise BudgetError(
            f"the exact test of copositivity visits all principal submatrices and takes n ≤ {MOST_LISTED}; "
            f"received n = {n}. Test the blocks of S that a permutation splits it into, or a sum of a positive "
            "semidefinite and a nonnegative matrix, by other means."
        )
    matrix = integer_array(read.fractions())[0]
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
        If S is not square, symmetric and finite.
    BudgetError
        If n > 16.

    Examples
    --------
    The Horn matrix is copositive, yet no sum of a semidefinite and a nonnegative matrix.

    >>> horn = [[1, -1, 1, 1, -1], [-1, 1, -1, 1, 1], [1, -1, 1, -1, 1], [1, 1, -1, 1, -1], [-1, 1, 1, -1, 1]]
    >>> is_copositive_exact(horn)
    True
    """
    return scan_copositive(S).copositive


def negative_entry(matrix: SymmetricMatrix, tol: float = FOUND) -> Reason | None:
    """Return the most negative entry if it exceeds rounding: BᵀB with B ≥ 0 has no negative entry.

    Parameters
    ----------
    matrix : SymmetricMatrix
    tol : float
        Floats down to −tol·√(a_ii a_jj) count as zero; exact entries have to be nonnegative.

    Examples
    --------
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> negative_entry(read_matrix([[1, -1], [-1, 2]])).text
    'A[0, 1] is negative'
    """
    A = matrix.values
    i, j = (int(k) for k in np.unravel_index(int(A.argmin()), A.shape))
    if A[i, j] >= 0:
        return None
    if matrix.exact is None:
        entry, first, second = (Fraction(float(x)) for x in (A[i, j], max(A[i, i], 0.0), max(A[j, j], 0.0)))
        size = first * second or Fraction(float(np.abs(A).max())) ** 2
        if entry**2 <= Fraction(tol) ** 2 * size:
            return None
    return Reason("not_cp", None, "entry", tuple(range(len(A))), {"row": i, "column": j})


def negative_eigenvalue(matrix: SymmetricMatrix, tol: float = FOUND) -> Reason | None:
    """Return v with vᵀAv < 0: BᵀB is positive semidefinite.

    For exact entries v is exact. For floats vᵀAv < −tol·(Σ|v_i|√a_ii)², so that no matrix within the tolerance is
    positive semidefinite.

    Parameters
    ----------
    matrix : SymmetricMatrix
        Entrywise nonnegative.
    tol : float

    Examples
    --------
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> negative_eigenvalue(read_matrix([[1, 2], [2, 1]])).method
    'eigenvalue'
    """
    A = matrix.values
    diagonal = np.diag(A)
    for i, j in np.argwhere((A > 0) & (diagonal <= 0)[:, None] & ~np.eye(len(A), dtype=bool))[:1].tolist():
        vector = [Fraction(0)] * len(A)  # vᵀAv = −2 x a_ij + a_jj for a_ii = 0
        vector[i], vector[j] = 1 + Fraction(max(0.0, diagonal[j])) / Fraction(A[i, j]), Fraction(-1)
        return _direction("eigenvalue", vector)
    if matrix.graph is not None:
        return None
    return _negative(matrix, "eigenvalue", tol)


def indefinite_comparison(matrix: SymmetricMatrix, tol: float = FOUND) -> Reason | None:
    """Return v with vᵀMv < 0 for the comparison matrix M of a triangle-free A: then A is not completely positive.

    The rows of a factor have at most two positive entries; flipping the sign of one turns it into a factor of M.

    Parameters
    ----------
    matrix : SymmetricMatrix
        Entrywise nonnegative with a triangle-free support graph.
    tol : float

    Examples
    --------
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> shift = np.roll(np.eye(5, dtype=int), 1, axis=0)
    >>> A = 3 * np.eye(5, dtype=int) + 2 * (shift + shift.T)
    >>> indefinite_comparison(read_matrix(A)).method
    'comparison'
    """
    # every EᵀE is diagonally dominant; for a tree M is singular, which floating point cannot decide
    if matrix.exact is not None and min(matrix.slacks()) >= 0:
        return None
    return _negative(comparison_of(matrix), "comparison", tol)


def _negative(matrix: SymmetricMatrix, method: str, tol: float) -> Reason | None:
    """Return v with vᵀAv < 0 from a rounded eigenvector or from exact elimination; None if neither gives one."""
    n, alive = len(matrix), np.flatnonzero(np.diag(matrix.values) > 0)
    if not len(alive):
        return None
    roots = np.sqrt(np.diag(matrix.values)[alive])
    values, vectors = np.linalg.eigh(matrix.values[np.ix_(alive, alive)] / np.outer(roots, roots))
    if values[0] > NEAR:
        return None
    scaled = vectors[:, 0] / roots
    vector = [Fraction(0)] * n
    for place, entry in zip(alive, (scaled / np.abs(scaled).max()).tolist(), strict=True):
        vector[place] = Fraction(float(f"{entry:.9g}"))
    found = vector if is_negative(matrix, vector, tol) else None
    if found is None and matrix.exact is not None and n <= EXACT_SIZE:
        found = negative_direction(matrix.fractions())
    return None if found is None else _direction(method, found)


def comparison_of(matrix: SymmetricMatrix) -> SymmetricMatrix:
    """Return the comparison matrix, exact if the matrix is exact.

    Examples
    --------
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> comparison_of(read_matrix([[2, 1], [1, 2]])).exact[0, 1]
    Fraction(-1, 1)
    """
    exact = None if matrix.exact is None else comparison_matrix(matrix.exact)
    return SymmetricMatrix(comparison_matrix(matrix.values), exact)


def is_negative(matrix: SymmetricMatrix, vector: Sequence[Fraction], tol: float = FOUND) -> bool:
    """Return whether vᵀAv < 0 in exact arithmetic; for floats, for every matrix within the tolerance.

    Parameters
    ----------
    matrix : SymmetricMatrix
    vector : sequence of Fraction
    tol : float

    Examples
    --------
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> is_negative(read_matrix([[1, 2], [2, 1]]), [Fraction(1), Fraction(-1)])
    True
    """
    v = np.array(vector, dtype=object)
    return separated(matrix, np.outer(v, v), tol)


def separated(matrix: SymmetricMatrix, S: Any, tol: float = FOUND) -> bool:
    """Return whether ⟨A, S⟩ < 0 in exact arithmetic; for floats, for every matrix within the tolerance.

    Parameters
    ----------
    matrix : SymmetricMatrix
    S : sequence of sequences of int or Fraction
        Symmetric. Copositivity is not checked here.
    tol : float

    Examples
    --------
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> separated(read_matrix([[1, 2], [2, 1]]), [[1, -1], [-1, 1]])
    True
    """
    roots = np.sqrt(np.maximum(np.diag(matrix.values), 0.0))
    # rounded up, as the margin must cover the tolerance
    reach = SymmetricMatrix(np.where(roots > 0.0, np.nextafter(roots, np.inf), 0.0)[None]).fractions()[0]
    table = np.array(S, dtype=object)
    margin = 0 if matrix.exact is not None else Fraction(tol) * (np.abs(table) * np.outer(reach, reach)).sum()
    return bool((matrix.fractions() * table).sum() < -margin)


def _direction(method: str, vector: Sequence[Fraction]) -> Reason:
    return Reason(
        "not_cp", None, method, tuple(range(len(vector))), {"vector": [str(entry) for entry in vector]}
    )


@register("not_cp", "entry", lambda r: f"A[{r.number('row')}, {r.number('column')}] is negative")
def check_entry(part: SymmetricMatrix, reason: Reason, known: Known) -> tuple[bool, str]:
    """Check that the matrix has a negative entry."""
    found = negative_entry(part, known.tol)
    return found is not None, "no negative entry" if found is None else found.text


@register("not_cp", "eigenvalue", "vᵀAv < 0 for a rational v: a negative eigenvalue")
@register("not_cp", "comparison", "its graph has no triangle, and vᵀMv < 0 for its comparison matrix M")
def check_direction(part: SymmetricMatrix, reason: Reason, known: Known) -> tuple[bool, str]:
    """Recompute vᵀAv; or vᵀMv, and check that the graph has no triangles."""
    vector, of_comparison = fractions(reason.data["vector"]), reason.method == "comparison"
    if of_comparison and not is_triangle_free(support_pattern(part.values, 0.0).edges):
        return False, "the support graph has a triangle"
    table = comparison_of(part) if of_comparison else part
    ok = len(vector) == len(part) and is_negative(table, vector, known.tol)
    return ok, f"vᵀ{'M' if of_comparison else 'A'}v is {'' if ok else 'not '}negative in rational arithmetic"


@register("not_cp", "copositive", "⟨A, S⟩ < 0 for a copositive integer matrix S, checked in integers")
def check_copositive(part: SymmetricMatrix, reason: Reason, known: Known) -> tuple[bool, str]:
    """Decide copositivity of S again, and recompute ⟨A, S⟩."""
    if len(part) > CERTIFIED_ORDER:
        return False, f"{len(part)} rows; copositive matrices of at most {CERTIFIED_ORDER} are checked"
    S = [[int(entry) for entry in row] for row in reason.data["S"]]
    n = range(len(part))
    if [len(row) for row in S] != [len(part)] * len(part) or any(S[i][j] != S[j][i] for i in n for j in n):
        return False, "S is not symmetric, or has another size"
    below, proper = separated(part, S, known.tol), is_copositive_exact(S)
    return below and proper, f"⟨A, S⟩ < 0 in rational arithmetic: {below}; S copositive: {proper}"
