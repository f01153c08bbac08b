"""Matrices with known CP-ranks, and matrices without a factor: what every test of invariants runs over."""

from fractions import Fraction

import networkx as nx
import numpy as np
from known_matrices import M7, NOT_CP

from covopt.completely_positive import graphs
from tests.cases import cases

BIG = 10**10
RANDOM = graphs.random_triangle_free(20, random_state=0)
LARGE = np.random.default_rng(0).integers(0, 30000, (3, 6))
FAR_APART = [
    [0.04747285433003234, 7.707478120029964e-07, 0.1337464648707018],
    [7.707478120029964e-07, 0.6619720158755953, 2.1714471694830324e-06],
    [0.1337464648707018, 2.1714471694830324e-06, 0.37680727476488535],
]
PAIR = np.random.default_rng(1).random((2, 5))


def ring(n: int, diagonal: float, neighbour: float) -> np.ndarray:
    shift = np.roll(np.eye(n), 1, axis=0)
    return diagonal * np.eye(n) + neighbour * (shift + shift.T)


def gram(B) -> list[list[int]]:
    B = np.array(B, dtype=object)
    return (B.T @ B).tolist()


def whole(A) -> list[list[int]]:
    return [[int(x) for x in row] for row in A]


def weighted_tree(slack: int) -> np.ndarray:
    W = graphs.incidence(nx.random_labeled_tree(7, seed=slack)) * np.random.default_rng(0).integers(
        1, 5, (6, 7)
    )
    return W.T @ W + np.diag([0, 0, 0, slack, 0, 0, 0])


def lost_row() -> list[list[int]]:
    """The second row of the first block is lost in floats: its bound has no factor, that of the others has."""
    A = np.zeros((6, 6), dtype=object)
    A[:2, :2] = [[BIG**4 + 1, BIG**4], [BIG**4, BIG**4]]
    A[2:5, 2:5] = gram([[1, 2, 3], [2, 1, 1], [1, 1, 4]])
    A[5, 5] = 7
    return A.tolist()


KNOWN = dict(cases(
    "matrices of known CP-rank", BIG=BIG, FAR_APART=FAR_APART, Fraction=Fraction, LARGE=LARGE, M7=M7, PAIR=PAIR,
    RANDOM=RANDOM, gram=gram, graphs=graphs, lost_row=lost_row, nx=nx, ring=ring, weighted_tree=weighted_tree,
    whole=whole,
))  # fmt: skip
EXCLUDED = dict(cases("matrices without a factor, and the reason", NOT_CP=NOT_CP, ring=ring, whole=whole))
