"""Matrices with known CP-ranks, and matrices without a factor: what every test of invariants runs over."""

from fractions import Fraction

import networkx as nx
import numpy as np
from known_matrices import M7, NOT_CP

from covopt.completely_positive import graphs

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


KNOWN = {
    "K44": (graphs.complete_bipartite(4, 4), 16),
    "petersen": (graphs.petersen(), 15),
    "groetzsch": (graphs.grotzsch(), 20),
    "triangle-free": (RANDOM, RANDOM.size()),
    "two graphs": (nx.disjoint_union(graphs.cycle(5), graphs.complete_bipartite(2, 3)), 11),
    "octahedron": (nx.octahedral_graph(), 6),
    "K5": (nx.complete_graph(5), 5),
    "wheel": (nx.wheel_graph(6), 6),
    "diamond": (nx.diamond_graph(), 4),
    "ones": (np.ones((6, 6), dtype=int), 1),
    "identity": (np.eye(4), 4),
    "zero": (np.zeros((3, 3)), 0),
    "number": ([[5]], 1),
    "fractions": ([[Fraction(1, 2), Fraction(1, 3)], [Fraction(1, 3), Fraction(2, 9)]], 1),
    "blocks": (np.kron(np.eye(3, dtype=int), np.ones((2, 2), dtype=int)), 3),
    "tree": (weighted_tree(0), 6),
    "tree with slack": (weighted_tree(1), 7),
    "singular ring": (whole(ring(6, 2, 1)), 6),
    "big": ([[10**14, 1], [1, 10**14]], 2),
    "one part from rank one": ([[BIG + 1, BIG], [BIG, BIG]], 2),
    "completed": (gram(np.random.default_rng(0).integers(1, 100, (7, 5))), 5),
    "completed in its span": (gram(np.random.default_rng(2).integers(1, 1000, (2, 6))), 2),
    "lost row": (lost_row(), 6),
    "floats": (np.cov(np.random.default_rng(0).random((6, 5)).T) + 0.5, 5),
    "floats of rank two": (PAIR.T @ PAIR, 2),
    "face": (M7, 14),
    "rounding below zero": ([[1.5, -1e-17, 0.5], [-1e-17, 1.0, 0.25], [0.5, 0.25, 2.0]], 3),
    "diagonal below zero": ([[-1e-18, 0.0], [0.0, 1.5]], 1),
    "entries of very different size": (FAR_APART, 2),  # the map around the loop of the support graph overflows
    "numpy's integers in lists": ([list(row) for row in LARGE.T @ LARGE], 3),
}  # fmt: skip

EXCLUDED = {
    "negative entry": ([[1, -1], [-1, 2]], "entry"),
    "negative diagonal": ([[-1.5]], "entry"),
    "indefinite": ([[1, 2], [2, 1]], "eigenvalue"),
    "indefinite floats": ([[1.0, 1.5], [1.5, 1.0]], "eigenvalue"),
    "hollow": ([[0, 1], [1, 1]], "eigenvalue"),
    "hollow floats": ([[0.0, 0.5], [0.5, 0.0]], "eigenvalue"),
    "hollow beside a rounding": ([[-1e-18, 0.5], [0.5, 1.0]], "eigenvalue"),
    "one part of 1e12": ([[10**12, 10**12 + 1], [10**12 + 1, 10**12 + 1]], "eigenvalue"),
    "ring": (ring(5, 1.7, 1.0), "comparison"),  # positive definite: 1.7 > 2 cos(π/5)
    "ring of integers": (whole(ring(7, 19, 10)), "comparison"),
    "pentagon": (
        1000 * np.array(NOT_CP["nie"]) + 3,
        "copositive",
    ),  # without a zero, so that no pattern speaks
    "pentagon of floats": ((1000 * np.array(NOT_CP["nie"]) + 3) * np.pi, "copositive"),
}
