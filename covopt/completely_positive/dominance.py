r"""Factors with at most one row per edge, from the comparison matrix M = 2 diag(A) − A.

If M is positive semidefinite some positive d makes DAD diagonally dominant (M is a possibly singular M-matrix), and
A is a sum of edges. Kaykobad (1987) counts \|E\| rows and one for every strictly dominant vertex. Here what is left
over is carried by edges, one owned by each vertex of a spanning tree with one more edge, so that a connected graph
that is no tree needs \|E\| rows and a tree needs rank A of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from covopt.completely_positive.pattern import DEFAULT_TOL, support_pattern

SHIFT = 1e-13  # keeps a singular comparison matrix solvable; its error in the factor is of the same size
FLOOR = 1e-12  # relative floor of what an edge carries, against rounding below zero


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


def dominance_factor(A: np.ndarray, tol: float = DEFAULT_TOL) -> np.ndarray | None:
    r"""Factor a matrix with a connected support graph and a positive semidefinite comparison matrix.

    .. math:: A = B^\top B,\quad B \ge 0,\quad \text{each row of } B \text{ on one edge or one vertex}

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Entrywise nonnegative, positive diagonal, connected support graph.
    tol : float
        Smallest eigenvalue of the scaled comparison matrix that still counts as 0.

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
    loop, parent, order = _unicyclic(n, edges, unit)
    owner = {tuple(sorted((v, parent[v]))): v for v in order if parent[v] >= 0}
    rows = np.zeros((len(edges), n))
    left = np.ones(n)  # what the owned edge of each vertex has to carry
    for row, (i, j) in enumerate(edges):
        if (i, j) not in owner:
            rows[row, i] = np.sqrt(unit[i, j] * scale[j] / scale[i])
            rows[row, j] = np.sqrt(unit[i, j] * scale[i] / scale[j])
            left[[i, j]] -= rows[row, [i, j]] ** 2
    on_loop = set(loop)
    for v in order:  # leaves first
        if v not in on_loop and parent[v] >= 0:
            left[v] = max(left[v], FLOOR * unit[v, parent[v]])
            left[parent[v]] -= unit[v, parent[v]] ** 2 / left[v]
    if loop:
        with np.errstate(all="ignore"):
            _close(loop, unit, left)
        if not np.isfinite(left).all():  # entries too far apart for the Möbius map in double precision
            return None
    for row, edge in enumerate(edges):
        if edge in owner:
            v = owner[edge]
            other = edge[0] + edge[1] - v
            rows[row, v] = np.sqrt(left[v])
            rows[row, other] = unit[v, other] / rows[row, v]
    rows = _polished(rows, edges, range(n) if loop else order[:-1])
    if not loop:
        rest = 1.0 - float((rows[:, order[-1]] ** 2).sum())
        if rest > tol:
            rows = np.vstack([rows, np.sqrt(rest) * np.eye(n)[order[-1]]])
    return rows * roots


def _polished(rows: np.ndarray, edges: list[tuple[int, int]], wanted: Iterable[int]) -> np.ndarray:
    """Newton steps on the tilts of the rows, each of which keeps its product, until the ``wanted`` diagonal is 1."""
    wanted = np.array(list(wanted), dtype=int)
    ends = np.array(edges, dtype=int).reshape(-1, 2)
    place = np.arange(len(ends))

    def error_of(table: np.ndarray) -> np.ndarray:
        return 1.0 - (table**2).sum(0)[wanted]

    error = error_of(rows)
    for _ in range(12):
        if np.abs(error).max(initial=0.0) <= 4.0 * np.finfo(float).eps:
            break
        slope = np.zeros((rows.shape[1], len(ends)))
        slope[ends[:, 0], place] = 2.0 * rows[place, ends[:, 0]] ** 2
        slope[ends[:, 1], place] = -2.0 * rows[place, ends[:, 1]] ** 2
        slope = slope[wanted]
        normal = slope @ slope.T
        normal[np.diag_indices_from(normal)] *= 1.0 + 1e-13
        tilt = slope.T @ np.linalg.lstsq(normal, error, rcond=1e-14)[0]
        tilt *= min(1.0, 0.5 / max(np.abs(tilt).max(), 1e-300))
        moved = rows.copy()
        moved[place, ends[:, 0]] *= np.exp(tilt)
        moved[place, ends[:, 1]] *= np.exp(-tilt)
        after = error_of(moved)
        if not np.abs(after).max() < np.abs(error).max():
            break
        rows, error = moved, after
    return rows


def _unicyclic(
    n: int, edges: list[tuple[int, int]], unit: np.ndarray
) -> tuple[list[int], list[int], list[int]]:
    """Return (loop, parent, order): a spanning tree with one more edge, so that every vertex owns an edge.

    ``parent[v]`` is the other end of the edge that v owns; along the loop it is the next vertex, and in a tree the
    root has none (−1). ``order`` visits children before parents.
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
    start = [0]
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


def _close(loop: list[int], unit: np.ndarray, left: np.ndarray) -> None:
    """Solve left_k − a²_{k−1,k} / x_{k−1} = x_k around the loop, in place: the fixed point of a Möbius map.

    The larger fixed point is the attracting one; at a double root its error enters the residual squared.
    """
    product = np.eye(2)
    length = len(loop)
    for k in range(1, length + 1):
        v, before = loop[k % length], loop[k - 1]
        product = np.array([[left[v], -(unit[v, before] ** 2)], [1.0, 0.0]]) @ product
        product /= np.abs(product).max()
    (a, b), (c, d) = product
    half = (a - d) / 2.0
    spread = np.sqrt(max(0.0, half * half + b * c))
    x = (half + spread) / c if half >= 0 else -b / (half - spread)
    for k in range(length):
        v, after = loop[k], loop[(k + 1) % length]
        if k:
            x = left[v] - unit[v, loop[k - 1]] ** 2 / x
        left[v] = x = max(x, FLOOR * unit[v, after])
