r"""Factors with at most one row per edge, from the comparison matrix M = 2 diag(A) − A.

If M is positive semidefinite some positive d makes DAD diagonally dominant (M is a possibly singular M-matrix), and
A is a sum of edges. Kaykobad (1987) counts \|E\| rows and one for every strictly dominant vertex. Here what is left
over is carried by edges, one owned by each vertex of a spanning tree with one more edge, so that a connected graph
that is no tree needs \|E\| rows and a tree needs rank A of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from covopt.completely_positive.pattern import DEFAULT_TOL, support_pattern

SHIFT = 1e-13  # keeps a singular comparison matrix solvable; its error in the factor is of the same size


@dataclass(frozen=True)
class Comparison:
    """The smallest eigenvalue of the scaled comparison matrix, and its vector in the units of A.

    Attributes
    ----------
    value : float
        Of D^(-1/2) M D^(-1/2) with D = diag A.
    vector : ndarray of shape (n,)
        v with vᵀMv = value · vᵀDv.
    """

    value: float
    vector: np.ndarray


def comparison_matrix(A: np.ndarray) -> np.ndarray:
    """Return M: the diagonal of A, and minus the absolute value of everything else.

    Examples
    --------
    >>> comparison_matrix(np.array([[2.0, 1.0], [1.0, 3.0]]))
    array([[ 2., -1.],
           [-1.,  3.]])
    """
    return 2.0 * np.diag(np.diag(A)) - np.abs(A)


def smallest_comparison(A: np.ndarray) -> Comparison:
    """Return the smallest eigenvalue of the comparison matrix, scaled to a unit diagonal.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Entrywise nonnegative with a positive diagonal.

    Examples
    --------
    >>> round(smallest_comparison(np.array([[4.0, 1.0], [1.0, 1.0]])).value, 12)
    0.5
    """
    roots = np.sqrt(np.diag(A))
    values, vectors = eigh(comparison_matrix(A / np.outer(roots, roots)), subset_by_index=[0, 0])
    return Comparison(float(values[0]), np.abs(vectors[:, 0]) / roots)


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
    smallest = smallest_comparison(unit).value
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
    near: list[list[int]] = [[] for _ in range(n)]
    group = list(range(n))

    def root(v: int) -> int:
        while group[v] != v:
            group[v] = group[group[v]]
            v = group[v]
        return v

    spare = None
    for i, j in sorted(edges, key=lambda edge: -unit[edge]):
        a, b = root(i), root(j)
        if a == b:
            spare = spare or (i, j)
            continue
        group[a] = b
        near[i].append(j)
        near[j].append(i)
    start = [top]
    if spare is not None:
        start = _path(near, *spare)
    parent = [-1] * n
    for k, v in enumerate(start if spare is not None else []):
        parent[v] = start[(k + 1) % len(start)]
    order, seen = list(start), set(start)
    for v in order:
        for u in near[v]:
            if u not in seen:
                seen.add(u)
                parent[u] = v
                order.append(u)
    return (start if spare is not None else []), parent, order[::-1]


def _path(near: list[list[int]], start: int, end: int) -> list[int]:
    """Return the path between two vertices of a tree."""
    before = {start: start}
    queue = [start]
    for v in queue:
        for u in near[v]:
            if u not in before:
                before[u] = v
                queue.append(u)
    path = [end]
    while path[-1] != start:
        path.append(before[path[-1]])
    return path


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
