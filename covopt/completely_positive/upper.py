r"""Upper bounds on the CP-rank of an exact matrix, each with a proof that needs no tolerance.

A factor within a tolerance is a factor of another matrix, whose CP-rank may be smaller. For exact entries an upper
bound is therefore proved in one of these ways:

- product: BᵀB = A in rational arithmetic;
- weights: A = Σ w_k u_k u_kᵀ with rational w_k > 0 and u_k ≥ 0, so that the rows √w_k u_k are a factor;
- completion: an exact factor with as many rows exists nearby (see below);
- dominance: Md ≥ 0 for some d > 0 and the comparison matrix M, which gives one row per edge
  (:mod:`covopt.completely_positive.dominance`);
- theorem: n ≤ 4, or rank at most 2, where doubly nonnegative matrices are completely positive.

**Completion** is Newton's method with a proof that a solution exists nearby. Let B be a numerical factor of an exact
matrix A. Fix the entries that vanish, and let the others change by E: BᵀB + L(E) + EᵀE = A with
L(E) = BᵀE + EᵀB. With R = A − BᵀB, known exactly, an approximate right inverse T of L, and E = T(Y), a solution is a
fixed point of the continuous map

    Y  ↦  R + (I − LT) Y − T(Y)ᵀT(Y).

If κ ≥ ‖I − LT‖, s ≥ ‖T‖² and 4s‖R‖ ≤ (1 − κ)², the ball ‖Y‖ ≤ ρ = 2‖R‖/(1 − κ) is mapped into itself, and by Brouwer
it contains a fixed point. If √s·ρ is less than every entry that must stay positive, B + E ≥ 0 is an exact factor with
the same number of rows and the same zeros, so that number bounds the CP-rank of A. Newton steps in floating point
make ‖R‖, which is computed exactly, small.

A matrix of rank r < n is A = CᵀA_II C for r of its rows, C rational, and every factor is B = XC. The unknown is then
X, with its rows restricted to the subspace in which the chosen entries of XC vanish.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy.linalg import LinAlgError, qr, solve_triangular

from covopt.completely_positive import Known, Reason, register
from covopt.completely_positive.dominance import dominance_rows
from covopt.completely_positive.factorisation import combination, residual_of
from covopt.completely_positive.matrix import EXACT_SIZE, Matrix, SymmetricMatrix, recognised
from covopt.exact.elimination import integer_array, negative_direction, row_reduce
from covopt.exact.rank import FOUND, NEAR, exact_rank
from covopt.exact.rounding import gamma
from covopt.files.schema import fractions, numbers
from covopt.limits import HALF

PROOFS = {
    "product": "BᵀB = A in rational arithmetic",
    "weights": "A = Σ w_k u_k u_kᵀ with rational w_k > 0, u_k ≥ 0 parallel to its rows",
    "completion": "an exact factor is near: Newton's method with a bound on its defect, in rational arithmetic",
    "dominance": "Md ≥ 0 for a rational d > 0 and the comparison matrix M: one row per edge",
}
MOST_UNKNOWNS = 6000  # with 16 000 a proof takes 40 s and a gigabyte
SLACK = 1.0 + gamma(2 * MOST_UNKNOWNS**2)  # relative rounding error of norms of so many entries


def completes(A: Matrix, B: np.ndarray) -> bool:
    """Return whether A is proved to have an exact factor B' ≥ 0 with as many rows as B.

    Parameters
    ----------
    A : sequence of sequence of Fraction
        Symmetric with a positive diagonal; of more than 40 rows nothing is proved.
    B : ndarray of shape (m, n)
        Nonnegative and nearly a factor.

    References
    ----------
    Rump, Verification methods, Acta Numerica 19 (2010), doi:10.1017/S096249291000005X.

    Examples
    --------
    √2 is no float, and so no float factor of [[2]] is exact.

    >>> completes([[Fraction(2)]], np.array([[1.4142135]]))
    True
    >>> completes([[Fraction(2), Fraction(1)], [Fraction(1), Fraction(1)]], np.array([[1.4142135, 0.7071]]))
    False
    """
    n = len(A)
    if n > EXACT_SIZE or not np.isfinite(B).all():
        return False
    powers = [
        (x.denominator.bit_length() - x.numerator.bit_length()) // 2 for x in (A[i][i] for i in range(n))
    ]
    scale = np.array([Fraction(2) ** power for power in powers])  # scales the diagonal into [1/4, 4]
    A = np.array(A, dtype=object) * np.outer(scale, scale)
    B = np.ldexp(B, np.array(powers))
    rows, C = _span(A)
    # entries up to these multiples of √a_jj are tried as zeros; what a file states rests on the same ones
    patterns = {(cut >= B).tobytes(): cut >= B for cut in (0.0, FOUND, NEAR, 1e-4, 1e-2)}
    return any(_is_near(A, B, rows, C, zeros) for zeros in patterns.values())


def _span(A: Matrix) -> tuple[list[int], np.ndarray]:
    """Return rows I, and C with A = CᵀA_II C: C is the reduced row echelon form of the symmetric matrix A."""
    values = np.array(A, dtype=float)
    roots = np.sqrt(np.diag(values))
    if np.linalg.eigvalsh(values / np.outer(roots, roots))[0] > NEAR:  # full rank: all rows, C = I
        return list(range(len(A))), np.array(
            [[Fraction(int(i == j)) for j in range(len(A))] for i in range(len(A))]
        )
    order = qr(values, mode="r", pivoting=True)[1]
    reduced, pivots = row_reduce([[row[j] for j in order] for row in A], len(A))
    return [int(order[k]) for k in pivots], np.array(reduced[: len(pivots)])[:, np.argsort(order)]


def _is_near(A: Matrix, B: np.ndarray, rows: list[int], C: np.ndarray, zeros: np.ndarray) -> bool:
    """Return whether Newton's method, with these entries fixed to zero, reaches a point that proves completion."""
    bases = _bases(C, zeros)
    if any(not len(basis) for basis in bases) or sum(map(len, bases)) > MOST_UNKNOWNS:
        return False
    pairs = _pairs(A, rows, bases)
    if not 0 < len(pairs) <= MOST_UNKNOWNS:
        return False
    # each basis vector ends in a 1 where all others are zero
    t = [row[rows][[int(np.flatnonzero(v)[-1]) for v in basis]] for row, basis in zip(B, bases, strict=True)]
    a, b = np.array(pairs).T
    goal = np.array([A[rows[i]][rows[j]] for i, j in pairs])
    ends = np.cumsum([len(basis) for basis in bases])[:-1]
    norms = [_norm(column) for column in C.T]
    N = [basis.astype(float) for basis in bases]
    last = np.inf
    while True:
        X = np.array([_fractions(x) @ basis for x, basis in zip(t, bases, strict=True)])
        R = goal - (X[:, a] * X[:, b]).sum(0)
        size = _norm(R)
        found = _inverse(X.astype(float), N, a, b) if size < min(1e-2, HALF * last) else None
        if found is None:
            return False
        T, defect, spread = found
        if 4.0 * spread**2 * size * SLACK <= (1.0 - defect) ** 2:
            reach = spread * 2.0 * size / (1.0 - defect) * SLACK
            room = [Fraction(reach * norm * SLACK) for norm in norms]
            if all(
                (column[~kept] > least).all()
                for column, kept, least in zip((X @ C).T, zeros.T, room, strict=True)
            ):
                return True
        moves, last = np.split(T @ R.astype(float), ends), size
        t = [x + move for x, move in zip(t, moves, strict=True)]


def _fractions(values: np.ndarray) -> np.ndarray:
    return np.array([Fraction(float(x)) for x in values], dtype=object)


def _inverse(
    X: np.ndarray, N: list[np.ndarray], a: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, float, float] | None:
    """Return T in the coordinates of the bases N, and upper bounds on ‖I − LT‖ and the Frobenius norm of Y ↦ E."""
    parts = [(part[:, a] * x[b], part[:, b] * x[a]) for x, part in zip(X, N, strict=True)]
    L = np.hstack([(first + second).T for first, second in parts])
    sizes = np.hstack([(np.abs(first) + np.abs(second)).T for first, second in parts])
    if L.shape[1] < L.shape[0]:
        return None
    try:
        Q, S = qr(L.T, mode="economic")
        T = Q @ solve_triangular(S, np.eye(len(S)), trans="T")
    except (LinAlgError, ValueError):
        return None
    # each entry of L has a few roundings in its two terms, the product one per term
    allowed = gamma(2 * (L.shape[1] + 8)) * float(np.linalg.norm(sizes @ np.abs(T)))
    defect = (float(np.linalg.norm(np.eye(len(L)) - L @ T)) + allowed) * SLACK
    total = 0.0
    for part, here in zip(N, np.split(T, np.cumsum([len(part) for part in N])[:-1]), strict=True):
        moved = np.abs(part.T @ here) + gamma(2 * (len(part) + 8)) * (np.abs(part).T @ np.abs(here))
        total += float((moved**2).sum())
    spread = float(np.sqrt(total)) * SLACK
    return (T, defect, spread) if defect < 0.5 and np.isfinite(spread) else None


def _norm(values: np.ndarray) -> float:
    """Return an upper bound on the Euclidean norm of fractions."""
    numbers = np.abs(values.astype(float))
    largest = numbers.max(initial=0.0)
    if largest == 0.0:
        return 1e-300 if any(values) else 0.0
    return float(largest * np.linalg.norm(numbers / largest)) * SLACK + 1e-300


def _bases(C: np.ndarray, zeros: np.ndarray) -> list[np.ndarray]:
    """Return for every row of X a basis, shape (d, r), of the subspace in which its fixed entries vanish."""
    r, known = len(C), dict[bytes, np.ndarray]()
    for row in zeros:
        if row.tobytes() in known:
            continue
        # leftmost pivots, so that each basis vector ends in its own free entry
        reduced, pivots = row_reduce(C[:, row].T.tolist(), r)
        basis = np.full((r - len(pivots), r), Fraction(0))
        for vector, free in zip(basis, (i for i in range(r) if i not in pivots), strict=True):
            vector[free] = Fraction(1)
            for line, pivot in zip(reduced, pivots, strict=False):
                vector[pivot] = -line[free]
        known[row.tobytes()] = basis
    return [known[row.tobytes()] for row in zeros]


def _pairs(A: Matrix, rows: list[int], bases: list[np.ndarray]) -> list[tuple[int, int]]:
    """Return entries of XᵀX that determine all others, given the zeros of X; empty if A_II may not be attainable."""
    r = len(rows)
    every = [(a, b) for a in range(r) for b in range(a, r)]
    if any(len(basis) == r for basis in bases):
        return every
    if r < len(A):  # the attainable products would need another elimination
        return []
    inside = [(basis != 0).any(0) for basis in bases]  # every basis vector is a unit vector
    met = np.sum([np.outer(kept, kept) for kept in inside], axis=0) > 0
    lost = any(A[rows[a]][rows[b]] and not met[a, b] for a, b in every)
    return [] if lost else [(a, b) for a, b in every if met[a, b]]


def factor_proof(matrix: SymmetricMatrix, B: np.ndarray) -> str | None:
    """Return which of ``PROOFS`` bounds the CP-rank of an exact matrix by the number of rows of B; None if none does.

    Parameters
    ----------
    matrix : SymmetricMatrix
        With exact entries and a positive diagonal.
    B : ndarray of shape (m, n)
        Nonnegative and nearly a factor.

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
    A, (rows, unit) = matrix.fractions(), integer_array(B)
    if (rows.T @ rows * unit**2 == A).all():
        return "product"
    if max(B.shape) <= EXACT_SIZE and _has_weights(A, B):
        return "weights"
    if completes(A, B):
        return "completion"
    return None


def _has_weights(A: np.ndarray, B: np.ndarray) -> bool:
    """Return whether the rows scaled to small denominators have a unique combination equal to A, with weights ≥ 0."""
    U = B[B.any(1)] / B[B.any(1)].max(axis=1, keepdims=True)
    atoms = np.array([[recognised(x) for x in row] for row in U.tolist()])
    if np.abs(atoms.astype(float) - U).max(initial=0.0) > NEAR:
        return False
    found = combination(A, atoms)
    return found is not None and not found[1] and min(found[0]) >= 0


def is_doubly_nonnegative(matrix: SymmetricMatrix) -> bool:
    """Return whether an exact matrix of at most 40 rows has entries and eigenvalues ≥ 0, in rational arithmetic.

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
    """Return the least upper bound by theorems for all completely positive matrices of that size or rank.

    Parameters
    ----------
    matrix : SymmetricMatrix
        Its rank is used only if it is known exactly.

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
    """Return whether doubly nonnegative implies completely positive: n ≤ 4, or rank at most 2."""
    return (len(matrix) <= 4 or theorem_cap(matrix) <= 2) and is_doubly_nonnegative(matrix)


def is_factor(matrix: SymmetricMatrix, factor: np.ndarray, tol: float) -> bool:
    """Return whether B ≥ 0 and BᵀB is the matrix up to the tolerance plus the rounding error of the comparison.

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
    """Check the proof that A has a factor with so few rows; the stored rows are multiplied out in any case."""
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
    """Check the numerical factor by multiplication."""
    B = numbers("rows", reason.data["factor"]).reshape(-1, len(part))
    found = len(B) if is_factor(part, B, known.tol) else None
    return found, "rows of a factor of a matrix within the tolerance"


@register(
    "upper", "theorem",
    "every completely positive matrix of that size (Maxfield and Minc 1962; Shaked-Monderer, Berman, Bomze, Jarre, "
    "Schachinger 2013, 2015) or rank (Barioli and Berman 2003)",
)  # fmt: skip
def check_theorem(part: SymmetricMatrix, reason: Reason, known: Known) -> tuple[int | None, str]:
    """Recompute the bound; another reason must prove that the matrix is completely positive."""
    if not known.completely_positive and not has_small_cap(part):
        return None, "a cap holds for completely positive matrices, and nothing shows that this is one"
    return theorem_cap(part), "recomputed"
