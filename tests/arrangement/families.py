"""Arrangements with known numbers of cells; rows are normals, as integers."""

from itertools import combinations, product

import numpy as np


def _differences(n, *signs):
    eye = np.eye(n, dtype=np.int64)
    return [eye[i] + sign * eye[j] for i, j in combinations(range(n), 2) for sign in signs]


def boolean(n):
    """The coordinate hyperplanes: 2ⁿ cells."""
    return np.eye(n, dtype=np.int64)


def braid(n):
    """w_i = w_j: n! cells, the orderings of n numbers."""
    return np.array(_differences(n, -1))


def type_b(n):
    """w_i = 0 and w_i = ±w_j: 2ⁿ n! cells, signed orderings."""
    return np.array([*np.eye(n, dtype=np.int64), *_differences(n, -1, 1)])


def type_d(n):
    """w_i = ±w_j: 2ⁿ⁻¹ n! cells."""
    return np.array(_differences(n, -1, 1))


def cycle_graph(n):
    """w_i = w_{i+1} around a cycle: 2ⁿ − 2 cells, acyclic orientations."""
    eye = np.eye(n, dtype=np.int64)
    return eye - np.roll(eye, 1, axis=1)


def cross_polytope(n):
    """The rows (1, ±e_i): 2·3ⁿ − 2ⁿ cells."""
    eye = np.eye(n, dtype=np.int64)
    return np.insert(np.vstack([eye, -eye]), 0, 1, axis=1)


def resonance(n):
    """The nonzero 0/1 vectors."""
    return np.array(list(product((0, 1), repeat=n)))[1:]


def threshold(n):
    """The rows (1, c), c in {0, 1}ⁿ: the cells are the linear threshold functions of n bits."""
    return np.insert(np.array(list(product((0, 1), repeat=n))), 0, 1, axis=1)
