"""Upper bounds on the CP-rank of an exact matrix, each with a proof that needs no tolerance.

A factor within a tolerance is a factor of another matrix, whose CP-rank may be smaller. What is claimed of exact
entries is therefore proved in one of these ways:

- product: BᵀB = A in rational arithmetic;
- weights: A = Σ w_k u_k u_kᵀ with rational w_k > 0 and u_k ≥ 0, so that the rows √w_k u_k are a factor;
- completion: an exact factor with as many rows is near (:mod:`covopt.completely_positive.completion`);
- dominance: some d > 0 has Md ≥ 0 for the comparison matrix M, which gives one row per edge
  (:mod:`covopt.completely_positive.dominance`);
- theorem: n ≤ 4, or rank at most 2, where doubly nonnegative matrices are completely positive.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from covopt.completely_positive.completion import completes
from covopt.completely_positive.dominance import dominance_rows
from covopt.completely_positive.factorisation import residual_of
from covopt.completely_positive.matrix import EXACT_SIZE, SymmetricMatrix
from covopt.completely_positive.reasons import Known, Reason, register
from covopt.exact.elimination import integer_table, negative_direction, row_reduce
from covopt.exact.rank import exact_rank
from covopt.exact.rounding import gamma
from covopt.files.schema import fractions, numbers

LARGEST_DENOMINATOR = 1000  # that entries of rows, against the largest of their row, are recognised with
MOST_WEIGHTS = 60
PROOFS = {
    "product": "BᵀB = A in rational arithmetic",
    "weights": "A = Σ w_k u_k u_kᵀ with rational w_k > 0, u_k ≥ 0 parallel to its rows",
    "completion": "an exact factor is near: Newton's method with a bound on its defect, in rational arithmetic",
    "dominance": "Md ≥ 0 for a rational d > 0 and the comparison matrix M: one row per edge",
}


def factor_proof(matrix: SymmetricMatrix, B: np.ndarray) -> str | None:
    """Say which of ``PROOFS`` bounds the CP-rank of an exact matrix by the rows of B; None where none does.

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
    'product'
    >>> factor_proof(read_matrix([[10**10 + 1, 10**10], [10**10, 10**10]]), np.array([[1e5, 1e5]])) is None
    True
    """
    if not (np.isfinite(B).all() and (B >= 0).all()):
        return None
    A, table = matrix.fractions(), integer_table(B.tolist())
    rows = np.array(table[0], dtype=object).reshape(B.shape)
    if (rows.T @ rows == A * table[1] ** 2).all():
        return "product"
    if max(B.shape) <= MOST_WEIGHTS and _has_weights(A, B):
        return "weights"
    if len(A) <= EXACT_SIZE and completes(A, B):
        return "completion"
    return None


def _has_weights(A: np.ndarray, B: np.ndarray) -> bool:
    """Whether the rows are multiples of rows with small denominators whose only combination to A has no sign."""
    i, j = np.triu_indices(len(A))
    U = B[B.any(1)] / B[B.any(1)].max(axis=1, keepdims=True)
    atoms = np.array(
        [[Fraction(x).limit_denominator(LARGEST_DENOMINATOR) for x in row] for row in U.tolist()]
    )
    if len(U) > len(i) or np.abs(atoms.astype(float) - U).max(initial=0.0) > 1e-6:
        return False
    reduced, pivots = row_reduce(np.vstack([atoms[:, i] * atoms[:, j], A[i, j]]).T.tolist(), len(U))
    left, weights = reduced[len(pivots) :], reduced[: len(pivots)]
    return len(pivots) == len(U) and not any(r[-1] for r in left) and all(r[-1] >= 0 for r in weights)


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


def theorem_cap(matrix: SymmetricMatrix) -> int:
    """Return the smallest cap by a theorem that holds for every completely positive matrix of that size or rank.

    Parameters
    ----------
    matrix : SymmetricMatrix
        The rank counts only where it is known exactly.

    References
    ----------
    Maxfield and Minc (1962) for n ≤ 4; Shaked-Monderer, Berman, Bomze, Jarre and Schachinger for n = 5 (2013) and for
    n(n+1)/2 − 4 (2015); Barioli and Berman (2003) for r(r+1)/2 − 1.

    Examples
    --------
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> theorem_cap(read_matrix([[2, 1], [1, 2]]))
    2
    """
    n = len(matrix)
    cap = n if n <= 4 else 6 if n == 5 else n * (n + 1) // 2 - 4
    if matrix.exact is not None and n <= EXACT_SIZE:
        rank = exact_rank(matrix.fractions())
        cap = min(cap, rank * (rank + 1) // 2 - 1 if rank >= 2 else rank)
    return cap


def has_small_cap(matrix: SymmetricMatrix) -> bool:
    """Whether being doubly nonnegative is enough: n ≤ 4, or rank at most 2."""
    return (len(matrix) <= 4 or theorem_cap(matrix) <= 2) and is_doubly_nonnegative(matrix)


def is_factor(matrix: SymmetricMatrix, factor: np.ndarray, tol: float) -> bool:
    """Whether B is nonnegative and BᵀB is the matrix up to the tolerance, and what BᵀB and the quotients round.

    Parameters
    ----------
    matrix : SymmetricMatrix
    factor : ndarray of shape (m, n)
    tol : float
    """
    if not np.isfinite(factor).all() or (factor < 0).any():
        return False
    return residual_of(matrix.values, factor) <= tol + gamma(2 * len(factor) + 16)


def _factor_text(reason: Reason) -> str:
    proof = reason.data.get("proof")
    return f"an explicit factor{'; ' + PROOFS[proof] if isinstance(proof, str) and proof in PROOFS else ''}"


@register("upper", "factor", _factor_text)
def check_factor(part: SymmetricMatrix, reason: Reason, known: Known) -> tuple[int | None, str]:
    """Prove again that A itself has a factor with so few rows; every check multiplies the rows of its reason out."""
    factor = reason.rows
    if part.exact is not None and "dominance" in reason.data:
        return dominance_rows(part, fractions(reason.data["dominance"])), PROOFS["dominance"]
    if factor is not None and part.exact is None:
        return len(factor), "within the tolerance"
    proof = None if factor is None else factor_proof(part, factor)
    if factor is None or proof is None:
        return None, "that A itself has a factor with so few rows is not proved"
    return len(factor), PROOFS[proof]


@register(
    "approximate", "factor",
    lambda r: f"APPROXIMATE: a factor of {r.value} rows of a matrix nearby; no factor of A itself with so few rows "
    "is proved to exist",
)  # fmt: skip
def check_approximate(part: SymmetricMatrix, reason: Reason, known: Known) -> tuple[int | None, str]:
    """Multiply it out again."""
    B = numbers("rows", reason.data["factor"]).reshape(-1, len(part))
    found = len(B) if is_factor(part, B, known.tol) else None
    return found, "rows of a factor of a matrix within the tolerance"


@register(
    "upper", "theorem",
    "every completely positive matrix of that size (Maxfield and Minc 1962; Shaked-Monderer, Berman, Bomze, Jarre, "
    "Schachinger 2013, 2015) or rank (Barioli and Berman 2003)",
)  # fmt: skip
def check_theorem(part: SymmetricMatrix, reason: Reason, known: Known) -> tuple[int | None, str]:
    """Recompute the cap; it holds for completely positive matrices, which something else has to show."""
    if not known.completely_positive and not has_small_cap(part):
        return None, "a cap holds for completely positive matrices, and nothing shows that this is one"
    return theorem_cap(part), "recomputed"
