"""Upper bounds on the CP-rank of an exact matrix, each with a proof that needs no tolerance.

A factor within a tolerance is a factor of another matrix, whose CP-rank may be smaller. What is claimed of exact
entries is therefore proved in one of these ways:

- product: BᵀB = A in rational arithmetic;
- weights: A = Σ w_k u_k u_kᵀ with rational w_k > 0 and u_k ≥ 0, so that the rows √w_k u_k are a factor;
- completion: an exact factor with as many rows is near (:mod:`covopt.completely_positive.completion`);
- dominance: some d > 0 has Md ≥ 0 for the comparison matrix M, which gives one row per edge
  (:mod:`covopt.completely_positive.dominance`);
- remainder: a completion of all but a rest below rounding, which is small enough for a theorem;
- theorem: n ≤ 4, or rank at most 2, where doubly nonnegative matrices are completely positive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.linalg import LinAlgError, solve

from covopt.completely_positive.completion import completes
from covopt.completely_positive.dominance import comparison_matrix
from covopt.completely_positive.matrix import SymmetricMatrix
from covopt.exact.elimination import bareiss, integer_table, negative_direction, row_reduce
from covopt.exact.rank import exact_rank

EXACT_SIZE = 40  # elimination in integers up to here
BELOW = Fraction(1, 10**12)  # share of a diagonal entry that floats may not see
DENOMINATORS = (12, 1000)  # that entries of rows, against the largest of their row, are recognised with
MOST_WEIGHTS = 60
PRODUCT = "BᵀB = A in rational arithmetic"
WEIGHTS = "A = Σ w_k u_k u_kᵀ with rational w_k > 0, u_k ≥ 0 parallel to its rows"
COMPLETION = (
    "an exact factor is near: Newton's method with a bound on its defect, residual in rational arithmetic"
)


def factor_proof(matrix: SymmetricMatrix, B: np.ndarray) -> str | None:
    """Say why the CP-rank of an exact matrix is at most the number of rows of B; None where that is not proved.

    Parameters
    ----------
    matrix : SymmetricMatrix
        With exact entries and a positive diagonal.
    B : ndarray of shape (m, n)
        Nonnegative, near a factor.

    Examples
    --------
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> factor_proof(read_matrix([[4, 2], [2, 1]]), np.array([[2.0, 1.0]]))
    'BᵀB = A in rational arithmetic'
    >>> factor_proof(read_matrix([[10**10 + 1, 10**10], [10**10, 10**10]]), np.array([[1e5, 1e5]])) is None
    True
    """
    if not (np.isfinite(B).all() and (B >= 0).all()):
        return None
    A = matrix.fractions()
    if _is_product(A, B):
        return PRODUCT
    if max(B.shape) <= MOST_WEIGHTS and _has_weights(A, B):
        return WEIGHTS
    if len(A) <= EXACT_SIZE and completes(A, B):
        return COMPLETION
    return None


@dataclass(frozen=True)
class Remainder:
    """A matrix split into one that looks like it in floats and a completely positive rest.

    Attributes
    ----------
    main : SymmetricMatrix
        Of smaller rank.
    rest : list of list of Fraction
        On ``vertices``.
    vertices : tuple of int
    rows : int
        Enough for a factor of the rest.
    """

    main: SymmetricMatrix
    rest: list[list[Fraction]]
    vertices: tuple[int, ...]
    rows: int


def small_remainder(matrix: SymmetricMatrix) -> Remainder | None:
    r"""Split off what is below rounding: the Schur complement of the rows that floats tell apart.

    .. math:: A = C^\top A_{II} C + S, \qquad S \ge 0 \text{ doubly nonnegative on at most 4 rows}

    No factor in floats knows the direction of an eigenvalue 1e-20, and yet A needs a row more than what is left
    without it.

    Parameters
    ----------
    matrix : SymmetricMatrix
        Exact, positive diagonal.

    Examples
    --------
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> small_remainder(read_matrix([[10**20, 10**20], [10**20, 10**20 + 1]])).rest
    [[Fraction(1, 1)]]
    >>> small_remainder(read_matrix([[2, 1], [1, 2]])) is None
    True
    """
    n = len(matrix)
    if n > EXACT_SIZE:
        return None
    A = matrix.fractions()
    left, unit = integer_table(A)
    given, last = [row[i] for i, row in enumerate(left)], 1
    open_ = list(range(n))
    while open_:
        pivot = max(open_, key=lambda i: Fraction(left[i][i], given[i]))
        above = left[pivot]
        lead = above[pivot]
        if Fraction(lead, last) < BELOW * given[pivot]:
            break
        open_.remove(pivot)
        for i in open_:
            factor = left[i][pivot]
            left[i] = [(lead * x - factor * y) // last for x, y in zip(left[i], above, strict=True)]
        last = lead
    kept = tuple(i for i in open_ if left[i][i] != 0)
    if not kept or len(kept) > 4 or any(left[i][j] for i in open_ for j in open_ if i not in kept):
        return None
    rest = [[Fraction(left[i][j], last * unit) for j in kept] for i in kept]
    if min(min(row) for row in rest) < 0 or negative_direction(rest) is not None:
        return None
    for a, i in enumerate(kept):
        for b, j in enumerate(kept):
            A[i][j] -= rest[a][b]
    values = np.array([[float(x) for x in row] for row in A])
    main = SymmetricMatrix(values, tuple(tuple(row) for row in A))
    rank = exact_rank(rest)
    return Remainder(main, rest, kept, rank if rank <= 2 else len(kept))


def _is_product(A: Sequence[Sequence[Fraction]], B: np.ndarray) -> bool:
    table, unit = integer_table(B.tolist())
    goal, scale = integer_table(A)
    rows = [[(j, x) for j, x in enumerate(row) if x] for row in table]
    diagonal = [0] * len(A)
    for row in rows:
        for j, x in row:
            diagonal[j] += x * x
    square = unit * unit
    if any(diagonal[j] * scale != goal[j][j] * square for j in range(len(A))):
        return False
    found: dict[tuple[int, int], int] = {}
    for row in rows:
        for place, (i, x) in enumerate(row):
            for j, y in row[place + 1 :]:
                found[i, j] = found.get((i, j), 0) + x * y
    return all(found.get((i, j), 0) * scale == goal[i][j] * square for j in range(len(A)) for i in range(j))


def _has_weights(A: Sequence[Sequence[Fraction]], B: np.ndarray) -> bool:
    n = len(A)
    tops = B.max(axis=1, initial=0.0)
    B = B[tops > 0] / tops[tops > 0, None]
    pairs = [(i, j) for i in range(n) for j in range(i, n)]
    if len(B) > len(pairs):
        return False
    for largest in DENOMINATORS:
        atoms = _recognised(B, largest)
        if atoms is None:
            continue
        table = [[u[i] * u[j] for u in atoms] + [A[i][j]] for i, j in pairs]
        reduced, pivots = row_reduce(table, len(atoms))
        if len(pivots) < len(atoms) or any(row[-1] for row in reduced[len(pivots) :]):
            continue
        if all(row[-1] >= 0 for row in reduced[: len(pivots)]):
            return True
    return False


def _recognised(B: np.ndarray, largest: int) -> list[list[Fraction]] | None:
    """Return fractions of small denominators next to the entries; None at the first that has none."""
    found: list[list[Fraction]] = []
    for row in B.tolist():
        found.append([])
        for x in row:
            near = Fraction(x).limit_denominator(largest)
            if abs(float(near) - x) > 1e-6:
                return None
            found[-1].append(near)
    return found


def dominance_vector(matrix: SymmetricMatrix) -> list[Fraction] | None:
    """Return d > 0 with Md ≥ 0 exactly, M the comparison matrix; None where there is none, or none was found.

    Up to 40 rows it is found where it exists: M is then an M-matrix, and d solves Md = 1, or Md = 0 where it is
    singular.

    Parameters
    ----------
    matrix : SymmetricMatrix
        Exact, entrywise nonnegative, with a connected support graph and a positive diagonal.

    Examples
    --------
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> dominance_vector(read_matrix([[1, 2], [2, 4]]))
    [Fraction(2, 1), Fraction(1, 1)]
    """
    n = len(matrix)
    if min(matrix.slacks()) >= 0:
        return [Fraction(1)] * n
    roots = np.sqrt(np.diag(matrix.values))
    unit = comparison_matrix(matrix.values / roots / roots[:, None])
    smallest = float(np.linalg.eigvalsh(unit)[0])
    if smallest < -1e-7:
        return None
    if smallest > 1e-7:
        try:
            d = solve(unit, np.ones(n), assume_a="pos") / roots
        except LinAlgError:
            d = np.zeros(n)
        for found in (_coarse(d), [Fraction(float(x)) for x in d]):
            if dominates(matrix, found):
                return found
    return _solved(matrix) if n <= EXACT_SIZE else None


def _coarse(d: np.ndarray) -> list[Fraction]:
    largest = float(d.max()) or 1.0
    return [Fraction(float(f"{x / largest:.3g}")) for x in d]


def _solved(matrix: SymmetricMatrix) -> list[Fraction] | None:
    integers = matrix.integers()
    assert integers is not None
    n = len(integers)
    M = [[x if i == j else -abs(x) for j, x in enumerate(row)] + [1] for i, row in enumerate(integers)]
    reduced, pivots, pivot = bareiss(M)
    if len(pivots) == n:
        found = [Fraction(row[n], pivot) for row in reduced]
    elif len(pivots) == n - 1:
        free = next(j for j in range(n) if j not in pivots)
        found = [Fraction(0)] * n
        found[free] = Fraction(1)
        for row, place in zip(reduced, pivots, strict=False):
            found[place] = Fraction(-row[free], pivot)
        least = min((x for x in found if x > 0), default=Fraction(1))
        found = [x / least for x in found]
    else:
        return None
    return found if dominates(matrix, found) else None


def dominates(matrix: SymmetricMatrix, d: Sequence[Fraction]) -> bool:
    """Whether d > 0 and a_ii d_i ≥ Σ_{j≠i} |a_ij| d_j in every row, in rational arithmetic.

    Examples
    --------
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> dominates(read_matrix([[2, 1], [1, 1]]), [Fraction(1), Fraction(1)])
    True
    """
    return min(matrix.slacks(d), default=0) >= 0 and min(d, default=1) > 0


def dominance_rows(matrix: SymmetricMatrix, d: Sequence[Fraction]) -> int | None:
    r"""Return how many rows do where d > 0 and Md ≥ 0: \|E\|, or for a tree n, and n − 1 where Md = 0.

    Parameters
    ----------
    matrix : SymmetricMatrix
        Exact, with a connected support graph.
    d : sequence of Fraction

    Returns
    -------
    int or None
        None where d proves nothing.

    Examples
    --------
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> dominance_rows(read_matrix([[1, 2], [2, 4]]), [Fraction(2), Fraction(1)])
    1
    >>> dominance_rows(read_matrix([[10**10 + 1, 10**10], [10**10, 10**10]]), [Fraction(1), Fraction(1)])
    2
    """
    if len(d) != len(matrix) or min(d) <= 0 or matrix.values.min() < 0:
        return None
    slacks = matrix.slacks(d)
    if min(slacks) < 0:
        return None
    edges = int(np.count_nonzero(np.triu(matrix.values, 1)))
    if edges >= len(matrix):
        return edges
    return len(matrix) - (not any(slacks) and len(matrix) > 1)


def is_doubly_nonnegative(matrix: SymmetricMatrix) -> bool:
    """Whether an exact matrix of at most 40 rows has entries and eigenvalues ≥ 0, in rational arithmetic.

    Examples
    --------
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> is_doubly_nonnegative(read_matrix([[1, 2], [2, 4]])), is_doubly_nonnegative(read_matrix([[1, 2], [2, 3]]))
    (True, False)
    """
    if matrix.exact is None or len(matrix) > EXACT_SIZE or matrix.values.min() < 0:
        return False
    return negative_direction(matrix.fractions()) is None
