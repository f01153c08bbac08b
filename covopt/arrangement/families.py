"""Named arrangements with known numbers of cells; rows are normals, as integers.

========================  =========================  ==================================
family                    rows                       cells
========================  =========================  ==================================
``boolean(n)``            e_i                        2ⁿ
``braid(n)``              e_i − e_j                  n!
``type_b(n)``             e_i, e_i ± e_j             2ⁿ n!
``type_d(n)``             e_i ± e_j                  2ⁿ⁻¹ n!
``cycle_graph(n)``        e_i − e_{i+1 mod n}        2ⁿ − 2
``cross_polytope(n)``     (1, ±e_i)                  2·3ⁿ − 2ⁿ
``resonance(n)``          nonzero 0/1 vectors        2, 6, 32, 370, 11292, 1066044, …
``threshold(n)``          (1, c), c in {0, 1}ⁿ       4, 14, 104, 1882, 94572, …
========================  =========================  ==================================
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np

from covopt.checks.validation import check_count


def _differences(n: int, signs: tuple[int, ...]) -> list[np.ndarray]:
    eye = np.eye(n, dtype=np.int64)
    return [eye[i] + sign * eye[j] for i, j in combinations(range(n), 2) for sign in signs]


def boolean(n: int) -> np.ndarray:
    """Return the coordinate hyperplanes of ℝⁿ: 2ⁿ cells.

    Examples
    --------
    >>> boolean(2)
    array([[1, 0],
           [0, 1]])
    """
    return np.eye(check_count("n", n, 1), dtype=np.int64)


def braid(n: int) -> np.ndarray:
    """Return w_i = w_j for i < j in ℝⁿ, of rank n − 1: n! cells (the orderings of n numbers).

    Examples
    --------
    >>> braid(3)
    array([[ 1, -1,  0],
           [ 1,  0, -1],
           [ 0,  1, -1]])
    """
    return np.array(_differences(check_count("n", n, 2), (-1,)))


def type_b(n: int) -> np.ndarray:
    """Return w_i = 0 and w_i = ±w_j: 2ⁿ n! cells (signed orderings).

    Examples
    --------
    >>> len(type_b(3))
    9
    """
    n = check_count("n", n, 1)
    return np.array([*np.eye(n, dtype=np.int64), *_differences(n, (-1, 1))])


def type_d(n: int) -> np.ndarray:
    """Return w_i = ±w_j for i < j: 2ⁿ⁻¹ n! cells.

    Examples
    --------
    >>> len(type_d(4))
    12
    """
    return np.array(_differences(check_count("n", n, 2), (-1, 1)))


def cycle_graph(n: int) -> np.ndarray:
    """Return w_i = w_{i+1} around a cycle of n vertices: 2ⁿ − 2 cells (acyclic orientations).

    Examples
    --------
    >>> cycle_graph(3)
    array([[ 1, -1,  0],
           [ 0,  1, -1],
           [-1,  0,  1]])
    """
    n = check_count("n", n, 3)
    eye = np.eye(n, dtype=np.int64)
    return eye - np.roll(eye, 1, axis=1)


def cross_polytope(n: int) -> np.ndarray:
    """Return the rows (1, ±e_i), the lifted vertices of the cross-polytope: 2·3ⁿ − 2ⁿ cells.

    Examples
    --------
    >>> cross_polytope(1)
    array([[ 1,  1],
           [ 1, -1]])
    """
    eye = np.eye(check_count("n", n, 1), dtype=np.int64)
    points = np.vstack([eye, -eye])
    return np.hstack([np.ones((len(points), 1), dtype=np.int64), points])


def resonance(n: int) -> np.ndarray:
    """Return the nonzero 0/1 vectors of ℝⁿ: 2, 6, 32, 370, 11292, 1066044, … cells.

    Examples
    --------
    >>> resonance(2)
    array([[0, 1],
           [1, 0],
           [1, 1]])
    """
    return np.array(list(product((0, 1), repeat=check_count("n", n, 1))), dtype=np.int64)[1:]


def threshold(n: int) -> np.ndarray:
    """Return (1, c) for c in {0, 1}ⁿ: the cells are the linear threshold functions of n bits.

    Their number is 4, 14, 104, 1882, 94572, … for n = 1, 2, 3, 4, 5.

    Examples
    --------
    >>> threshold(1)
    array([[1, 0],
           [1, 1]])
    """
    points = np.array(list(product((0, 1), repeat=check_count("n", n, 1))), dtype=np.int64)
    return np.hstack([np.ones((len(points), 1), dtype=np.int64), points])
