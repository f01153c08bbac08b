r"""Factors with at most one row per edge, from the comparison matrix M = 2 diag(A) − A.

If M is positive semidefinite some positive d makes DAD diagonally dominant (M is a possibly singular M-matrix), and
A is a sum of edges. Kaykobad (1987) counts \|E\| rows and one for every strictly dominant vertex. Here what is left
over is carried by edges, one owned by each vertex of a spanning tree with one more edge, so that a connected graph
that is no tree needs \|E\| rows and a tree needs rank A of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigvalsh, solve
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from covopt.completely_positive.matrix import DEFAULT_TOL, SymmetricMatrix, support_pattern
from covopt.exact.elimination import row_reduce

EXACT_SIZE = 40  # elimination in integers up to here
SHIFT = 1e-13  # keeps a singular comparison matrix solvable; its error in the factor is of the same size


def comparison_matrix(A: np.ndarray) -> np.ndarray:
    """Return M: the diagonal of A, and minus the absolute value of everything else.

    Examples
    --------
    >>> comparison_matrix(np.array([[2.0, 1.0], [1.0, 3.0]]))
    array([[ 2., -1.],
           [-1.,  3.]])
    """
    return 2.0 * np.diag(np.diag(A)) - np.abs(A)


def smallest_comparison(A: np.ndarray) -> float:
    """Return the smallest eigenvalue of the comparison matrix, scaled to a unit diagonal.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Entrywise nonnegative with a positive diagonal.

    Examples
    --------
    >>> round(smallest_comparison(np.array([[4.0, 1.0], [1.0, 1.0]])), 12)
    0.5
    """
    roots = np.sqrt(np.diag(A))
    return float(eigvalsh(comparison_matrix(A / np.outer(roots, roots)), subset_by_index=[0, 0])[0])


def dominance_factor(
    A: np.ndarray, tol: float = DEFAULT_TOL, *, drop: float | None = None
) -> np.ndarray | None:
    r"""Factor a matrix with a connected support graph and a positive semidefinite comparison matrix.

    .. math:: A = B^\top B,\quad B \ge 0,\quad \text{each row of } B \text{ on one edge or one vertex}

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Entrywise nonnegative, positive diagonal, connected support graph.
    tol : float
        Smallest eigenvalue of the scaled comparison matrix that still counts as 0.
    drop : float, optional
        What may be left of a tree's last diagonal entry, relative, without a row of its own; by default ``tol``.

    Returns
    -------
    ndarray of shape (m, n) or None
        m = \|E\| where the graph has a cycle; n (or n − 1 where A is singular) for a tree. None where the comparison
        matrix has a negative eigenvalue, or where entries of very different size defeat double precision.

    References
    ----------
    Kaykobad, On nonnegative factorization of matrices (1987).

    Examples
    --------
    >>> A = np.array([[2.0, 1.0, 0.0, 1.0], [1.0, 2.0, 1.0, 0.0], [0.0, 1.0, 2.0, 1.0], [1.0, 0.0, 1.0, 3.0]])
    >>> B = dominance_factor(A)
    >>> B.shape, bool(abs(B.T @ B - A).max() < 1e-14), bool(B.min() >= 0)
    ((4, 4), True, True)
    """
    roots = np.sqrt(np.diag(A))
    unit = A / np.outer(roots, roots)
    np.fill_diagonal(unit, 1.0)
    n = len(unit)
    if n == 1:
        return roots[:, None].copy()
    smallest = smallest_comparison(unit)
    if smallest < -tol:
        return None
    shift = max(0.0, SHIFT - smallest)
    scale = cho_solve(cho_factor(comparison_matrix(unit) + shift * np.eye(n)), np.ones(n))
    edges = list(support_pattern(unit, 0.0).edges)
    loop, parent, order = _unicyclic(n, edges, unit, int(scale.argmax()))
    owner = {tuple(sorted((v, parent[v]))): v for v in order if parent[v] >= 0}
    share = unit * scale / scale[:, None]  # what edge ij takes of vertex i: share_ij · share_ji = a_ij²
    np.fill_diagonal(share, 0.0)
    # Slacks, not what is left of the diagonal: they stay nonnegative and nothing below is ever subtracted.
    slack = np.maximum(0.0, 1.0 - share.sum(1))
    on_loop = set(loop)
    for v in order:  # leaves first
        if v not in on_loop and parent[v] >= 0:
            slack[parent[v]] += _passed_on(share, slack[v], v, parent[v])
    if loop:
        with np.errstate(all="ignore"):  # entries too far apart for double precision: seen below
            _close(loop, share, slack)
    rows = np.zeros((len(edges), n))
    for row, (i, j) in enumerate(edges):
        v = owner.get((i, j), i)
        other = i + j - v
        rows[row, v] = np.sqrt(share[v, other] + (slack[v] if (i, j) in owner else 0.0))
        rows[row, other] = unit[i, j] / rows[row, v]
    if not np.isfinite(rows).all():
        return None
    if not loop:
        rest = 1.0 - float((rows[:, order[-1]] ** 2).sum())
        if rest > (tol if drop is None else drop):
            rows = np.vstack([rows, np.sqrt(rest) * np.eye(n)[order[-1]]])
    return rows * roots


def _unicyclic(
    n: int, edges: list[tuple[int, int]], unit: np.ndarray, top: int
) -> tuple[list[int], list[int], list[int]]:
    """Return (loop, parent, order): a spanning tree with one more edge, so that every vertex owns an edge.

    ``parent[v]`` is the other end of the edge that v owns; along the loop it is the next vertex, and in a tree the
    root, ``top``, has none (−1). ``order`` visits children before parents.
    """
    ranks = np.zeros((n, n))
    for rank, edge in enumerate(sorted(edges, key=lambda edge: -unit[edge]), 1):
        ranks[edge] = rank
    tree = minimum_spanning_tree(ranks).toarray() > 0
    spare = np.argwhere((ranks > 0) & ~(tree | tree.T)).tolist()
    if spare:
        first, top = min(spare, key=lambda edge: ranks[tuple(edge)])
    order, before = breadth_first_order(tree, top, directed=False)
    parent = [max(-1, v) for v in before.tolist()]
    loop = []
    if spare:
        loop, parent[top] = [first], first
        while loop[-1] != top:
            loop.append(parent[loop[-1]])
    return loop, parent, order[::-1].tolist()


def _passed_on(share: np.ndarray, slack: float, v: int, after: int) -> float:
    """Return what the other end gains when v's edge takes v's slack along."""
    return float(share[after, v] * (slack / (share[v, after] + slack)))


def _close(loop: list[int], share: np.ndarray, slack: np.ndarray) -> None:
    """Pass slacks on around the loop until they agree, in place: the positive fixed point of a Möbius map.

    Its matrices are nonnegative, so that the products lose no digits.
    """
    product = np.eye(2)
    length = len(loop)
    for k in range(1, length + 1):
        v, before = loop[k % length], loop[k - 1]
        own, taken = share[before, v], share[v, before]
        product = np.array([[slack[v] + taken, slack[v] * own], [1.0, own]]) @ product
        product /= product.max()
    (a, b), (c, d) = product
    half = (a - d) / 2.0
    spread = np.sqrt(half * half + b * c)
    # a loop without slack has the double root 0
    total = (half + spread) / c if half > 0 else b / (spread - half) if b > 0 else 0.0
    for k in range(1, length):
        slack[loop[k]] += _passed_on(share, total if k == 1 else slack[loop[k - 1]], loop[k - 1], loop[k])
    slack[loop[0]] = total


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
    smallest = smallest_comparison(matrix.values)
    if smallest < -1e-7:
        return None
    if smallest > 1e-7:
        try:
            unit = comparison_matrix(matrix.values / roots / roots[:, None])
            d = solve(unit, np.ones(n), assume_a="pos") / roots
        except LinAlgError:
            d = np.zeros(n)
        found = [Fraction(float(x)) for x in d]
        if dominates(matrix, found):
            return found
    return _solved(matrix) if n <= EXACT_SIZE else None


def _solved(matrix: SymmetricMatrix) -> list[Fraction] | None:
    """Solve Md = 1, or Md = 0 where M has a kernel of dimension one."""
    n = len(matrix)
    rows = [
        [x if i == j else -abs(x) for j, x in enumerate(row)] + [1]
        for i, row in enumerate(matrix.fractions())
    ]
    reduced, pivots = row_reduce(rows, n)
    if len(pivots) < n - 1:
        return None
    free = next((j for j in range(n) if j not in pivots), n)
    found = [Fraction(1)] * (n + 1)
    for row, place in zip(reduced, pivots, strict=False):
        found[place] = row[n] if free == n else -row[free]
    return found[:n] if dominates(matrix, found[:n]) else None


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
