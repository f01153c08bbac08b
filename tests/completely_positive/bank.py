"""Matrices with known CP-ranks, and matrices without a factor: what every test of invariants runs over.

Published ones: Bomze, Schachinger, Ullrich 2014 (M7 to M11) and 2015 (twelve).
"""

from fractions import Fraction

import networkx as nx
import numpy as np

from covopt.completely_positive import graphs
from covopt.completely_positive.certificate import CPRankCertificate, verify_cp_rank
from tests.cases import cases


def circulant(last_is_diagonal: list[int]) -> list[list[int]]:
    row = [last_is_diagonal[-1], *last_is_diagonal[:-1]]
    n = len(row)
    return [[row[(j - i) % n] for j in range(n)] for i in range(n)]


M7 = circulant([531, 81, 150, 150, 81, 531, 926])
M7_TILDE = circulant([108, 27, 4, 4, 27, 108, 163])
S7 = circulant([-153, 127, -27, -27, 127, -153, 162])
M8 = cases("M8")
M9 = cases("M9")
M11 = cases("M11")


def quadratic_form(M, v):
    return sum(x * y * M[i][j] for i, x in enumerate(v) for j, y in enumerate(v))


def twelve() -> list[list[int]]:
    """Three groups of four; the first vertex of each is special."""

    def entry(i: int, j: int) -> int:
        special = (i % 4 == 0) + (j % 4 == 0)
        if i == j:
            return 91 if special else 42
        return 0 if i // 4 == j // 4 else (6, 24, 19)[special]

    return [[entry(i, j) for j in range(12)] for i in range(12)]


HORN = [
    [1, -1, 1, 1, -1], [-1, 1, -1, 1, 1], [1, -1, 1, -1, 1], [1, 1, -1, 1, -1], [-1, 1, 1, -1, 1]
]  # fmt: skip
HOFFMAN_PEREIRA = circulant([-1, 1, 0, 0, 1, -1, 1])

# doubly nonnegative, not completely positive: Salce–Zanardo 1993, Nie 2014 (ex. 6.2), Barioli 1998
NOT_CP = {
    "salce-zanardo": [[1, 1, 0, 0, 1], [1, 2, 1, 0, 0], [0, 1, 2, 1, 0], [0, 0, 1, 2, 1], [1, 0, 0, 1, 3]],
    "nie": [[1, 1, 0, 0, 1], [1, 2, 1, 0, 0], [0, 1, 2, 1, 0], [0, 0, 1, 2, 1], [1, 0, 0, 1, 6]],
    "barioli": [
        [7, 1, 2, 2, 1, 1], [1, 12, 1, 3, 3, 5], [2, 1, 2, 3, 0, 0], [2, 3, 3, 5, 0, 0], [1, 3, 0, 0, 2, 4],
        [1, 5, 0, 0, 4, 10],
    ],
}  # fmt: skip


BIG = 10**10
RANDOM = graphs.random_triangle_free(20, random_state=0)
LARGE = np.random.default_rng(0).integers(0, 30000, (3, 6))
FAR_APART = [
    [0.04747285433003234, 7.707478120029964e-07, 0.1337464648707018],
    [7.707478120029964e-07, 0.6619720158755953, 2.1714471694830324e-06],
    [0.1337464648707018, 2.1714471694830324e-06, 0.37680727476488535],
]
PAIR = np.random.default_rng(1).random((2, 5))
LINE = np.random.default_rng(0).random((1, 6))


def ring(n: int, diagonal: float, neighbour: float) -> np.ndarray:
    shift = np.roll(np.eye(n), 1, axis=0)
    return diagonal * np.eye(n) + neighbour * (shift + shift.T)


def path(n: int, slack: int = 0) -> np.ndarray:
    """EᵀE of a path: singular, one part in 10¹⁰ from it with slack one."""
    A = BIG * (2 * np.eye(n, dtype=int) + np.eye(n, k=1, dtype=int) + np.eye(n, k=-1, dtype=int))
    A[0, 0], A[-1, -1] = BIG + slack, BIG
    return A


def blocks(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    n = len(first)
    A = np.zeros((n + len(second),) * 2)
    A[:n, :n], A[n:, n:] = first, second
    return A


def gram(B) -> list[list[int]]:
    B = np.array(B, dtype=object)
    return (B.T @ B).tolist()


def whole(A) -> list[list[int]]:
    return [[int(x) for x in row] for row in A]


def weighted_tree(slack: int) -> np.ndarray:
    weights = np.random.default_rng(0).integers(1, 5, (6, 7))
    W = graphs.incidence(nx.random_labeled_tree(7, seed=slack)) * weights
    return W.T @ W + np.diag([0, 0, 0, slack, 0, 0, 0])


def lost_row() -> list[list[int]]:
    """The second row of the first block is lost in floats: its bound has no factor, that of the others has."""
    A = np.zeros((6, 6), dtype=object)
    A[:2, :2] = [[BIG**4 + 1, BIG**4], [BIG**4, BIG**4]]
    A[2:5, 2:5] = gram([[1, 2, 3], [2, 1, 1], [1, 1, 4]])
    A[5, 5] = 7
    return A.tolist()


KNOWN = dict(cases(
    "matrices of known CP-rank", BIG=BIG, FAR_APART=FAR_APART, Fraction=Fraction, LARGE=LARGE, LINE=LINE, M7=M7,
    PAIR=PAIR, RANDOM=RANDOM, gram=gram, graphs=graphs, lost_row=lost_row, nx=nx, path=path, ring=ring,
    weighted_tree=weighted_tree, whole=whole,
))  # fmt: skip
EXCLUDED = dict(
    cases("matrices without a factor, and the reason", NOT_CP=NOT_CP, blocks=blocks, ring=ring, whole=whole)
)


def failed(certificate) -> set[str]:
    """Return the claims of a certificate, or of what its file holds, that are not confirmed."""
    if isinstance(certificate, dict):
        certificate = CPRankCertificate.from_dict(certificate)
    return {check.name for check in verify_cp_rank(certificate) if not check.ok}
