r"""From a factor in floats to a factor of the matrix itself: Newton's method with a proof that a solution is near.

A numerical factor B of an exact matrix A is a factor of another matrix. Fix which entries of it vanish, and let the
others move by E: BᵀB + L(E) + EᵀE = A with L(E) = BᵀE + EᵀB. With R = A − BᵀB, known exactly, a matrix T near a right
inverse of L, and E = T(Y), a solution is a fixed point of the continuous map

    Y  ↦  R + (I − LT) Y − T(Y)ᵀT(Y).

Where κ ≥ ‖I − LT‖, s ≥ ‖T‖² and 4s‖R‖ ≤ (1 − κ)², the ball ‖Y‖ ≤ ρ = 2‖R‖/(1 − κ) goes into itself, so Brouwer gives
a fixed point in it. Where √s·ρ is less than every entry that must stay positive, B + E ≥ 0 is an exact factor with as
many rows and the same zeros: the CP-rank of A is at most their number. Newton steps in floats make
‖R‖, which is computed exactly, small.

A matrix of rank r < n is A = CᵀA_II C for r of its rows, C rational, and every factor is B = XC: then X is what is
sought, its rows confined to the subspace where the chosen entries of XC vanish.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy.linalg import LinAlgError, qr, solve_triangular

from covopt.completely_positive.matrix import NEAR, Matrix
from covopt.exact.elimination import row_reduce
from covopt.exact.rounding import gamma

CUTS = (0.0, 1e-9, 1e-6, 1e-4, 1e-2)  # entries of the factor, against √a_jj, that are tried as zeros
STEPS = 6
MOST_UNKNOWNS = 6000
SLACK = 1.0 + 2.0**-27  # above γ(n) of norms of up to n = MOST_UNKNOWNS² entries


def completes(A: Matrix, B: np.ndarray) -> bool:
    """Whether some B' ≥ 0 with as many rows as B is a factor of A exactly; False where that is not proved.

    Parameters
    ----------
    A : sequence of sequence of Fraction
        Symmetric with a positive diagonal.
    B : ndarray of shape (m, n)
        Near a factor, nonnegative.

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
    powers = [
        (x.denominator.bit_length() - x.numerator.bit_length()) // 2 for x in (A[i][i] for i in range(n))
    ]
    scale = np.array([Fraction(2) ** power for power in powers])  # to a diagonal between 1/4 and 4
    A = np.array(A, dtype=object) * np.outer(scale, scale)
    B = np.ldexp(B, np.array(powers))
    rows, C = _span(A)
    patterns = {(cut >= B).tobytes(): cut >= B for cut in CUTS}
    return bool(np.isfinite(B).all()) and any(_is_near(A, B, rows, C, zeros) for zeros in patterns.values())


def _span(A: Matrix) -> tuple[list[int], np.ndarray]:
    """Return rows I, and C with A = CᵀA_II C: the reduced echelon form of a symmetric matrix has it in its rows."""
    values = np.array(A, dtype=float)
    roots = np.sqrt(np.diag(values))
    if np.linalg.eigvalsh(values / np.outer(roots, roots))[0] > NEAR:  # then X is sought on all rows
        return list(range(len(A))), np.array(
            [[Fraction(int(i == j)) for j in range(len(A))] for i in range(len(A))]
        )
    order = qr(values, mode="r", pivoting=True)[1]
    reduced, pivots = row_reduce([[row[j] for j in order] for row in A], len(A))
    return [int(order[k]) for k in pivots], np.array(reduced[: len(pivots)])[:, np.argsort(order)]


def _is_near(A: Matrix, B: np.ndarray, rows: list[int], C: np.ndarray, zeros: np.ndarray) -> bool:
    """Whether Newton's method, with these entries kept at zero, reaches a point that proves a factor to be near."""
    bases = _bases(C, zeros)
    if any(not len(basis) for basis in bases) or sum(map(len, bases)) > MOST_UNKNOWNS:
        return False
    pairs = _pairs(A, rows, bases)
    if not 0 < len(pairs) <= MOST_UNKNOWNS:
        return False
    # the last entry of each basis vector is its own, and one
    t = [row[rows][[int(np.flatnonzero(v)[-1]) for v in basis]] for row, basis in zip(B, bases, strict=True)]
    a, b = np.array(pairs).T
    goal = np.array([A[rows[i]][rows[j]] for i, j in pairs])
    ends = np.cumsum([len(basis) for basis in bases])[:-1]
    norms = [_norm(column) for column in C.T]
    N = [basis.astype(float) for basis in bases]
    for _ in range(STEPS):
        X = np.array([_fractions(x) @ basis for x, basis in zip(t, bases, strict=True)])
        R = goal - (X[:, a] * X[:, b]).sum(0)
        size = _norm(R)
        found = _inverse(X.astype(float), N, a, b) if size < 1e-2 else None
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
        moves = np.split(T @ R.astype(float), ends)
        t = [x + move for x, move in zip(t, moves, strict=True)]
    return False


def _fractions(values: np.ndarray) -> np.ndarray:
    return np.array([Fraction(float(x)) for x in values], dtype=object)


def _inverse(
    X: np.ndarray, N: list[np.ndarray], a: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, float, float] | None:
    """Return T, its unknowns in units of N, and upper bounds on ‖I − LT‖ and on the norm of Y ↦ E (Frobenius)."""
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
    # every entry of L carries a few roundings of its two terms, the product one per term
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
    """Return for every row of X a basis of the subspace where its zeros hold, fractions of shape (d, r)."""
    r, known = len(C), dict[bytes, np.ndarray]()
    for row in zeros:
        if row.tobytes() in known:
            continue
        # pivots from the left, so that each basis vector ends in its own free entry
        reduced, pivots = row_reduce(C[:, row].T.tolist(), r)
        basis = np.full((r - len(pivots), r), Fraction(0))
        for vector, free in zip(basis, (i for i in range(r) if i not in pivots), strict=True):
            vector[free] = Fraction(1)
            for line, pivot in zip(reduced, pivots, strict=False):
                vector[pivot] = -line[free]
        known[row.tobytes()] = basis
    return [known[row.tobytes()] for row in zeros]


def _pairs(A: Matrix, rows: list[int], bases: list[np.ndarray]) -> list[tuple[int, int]]:
    """Return entries of XᵀX that decide all of them, as X keeps its zeros; none where A_II cannot be reached."""
    r = len(rows)
    every = [(a, b) for a in range(r) for b in range(a, r)]
    if any(len(basis) == r for basis in bases):
        return every
    if r < len(A):  # which products of such rows there are would take an elimination of its own
        return []
    inside = [(basis != 0).any(0) for basis in bases]  # every basis vector is a unit vector
    met = np.sum([np.outer(kept, kept) for kept in inside], axis=0) > 0
    lost = any(A[rows[a]][rows[b]] and not met[a, b] for a, b in every)
    return [] if lost else [(a, b) for a, b in every if met[a, b]]
