"""Which entries of a symmetric matrix are zeros, and which of them a float cannot decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

DEFAULT_TOL = 1e-9


@dataclass(frozen=True)
class Pattern:
    """Support graph of a matrix.

    Attributes
    ----------
    vertices : tuple of int
        Rows with a positive diagonal entry.
    edges : tuple of pairs of int
        u < v with an entry that is no zero under any reading.
    ambiguous : tuple of pairs of int
        u < v with an entry that is not zero but small enough to be rounding.
    """

    vertices: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
    ambiguous: tuple[tuple[int, int], ...]

    def components(self) -> list[tuple[int, ...]]:
        """Return the connected components, the ambiguous pairs counted as edges; sorted by their first vertex."""
        size = max(self.vertices, default=-1) + 1
        ends = np.array([*self.edges, *self.ambiguous], dtype=int).reshape(-1, 2)
        graph = coo_array((np.ones(len(ends)), ends.T), shape=(size, size))
        labels = connected_components(graph, directed=False)[1]
        groups: dict[int, list[int]] = {}
        for v in self.vertices:
            groups.setdefault(int(labels[v]), []).append(v)
        return [tuple(group) for group in groups.values()]


def support_pattern(A: np.ndarray, tol: float = DEFAULT_TOL) -> Pattern:
    """Read the support graph off a symmetric matrix.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        With a nonnegative diagonal; off-diagonal entries count by their absolute value.
    tol : float
        An entry a_ij ≠ 0 with |a_ij| ≤ tol·√(a_ii a_jj) is ambiguous.

    Returns
    -------
    Pattern

    Examples
    --------
    >>> support_pattern(np.array([[1.0, 1e-12, 0.5], [1e-12, 1.0, 0.0], [0.5, 0.0, 1.0]]))
    Pattern(vertices=(0, 1, 2), edges=((0, 2),), ambiguous=((0, 1),))
    """
    A = np.asarray(A, dtype=float)
    alive, roots = A.diagonal() > 0, np.sqrt(np.maximum(A.diagonal(), 0.0))
    first, second = np.nonzero(np.triu(A, 1))
    seen = alive[first] & alive[second]
    first, second = first[seen], second[seen]
    small = np.abs(A[first, second]) <= tol * (roots[first] * roots[second])
    pairs = np.column_stack([first, second])
    edges, ambiguous = (tuple(map(tuple, part.tolist())) for part in (pairs[~small], pairs[small]))
    return Pattern(tuple(np.flatnonzero(alive).tolist()), edges, ambiguous)


def is_triangle_free(edges: Sequence[tuple[int, int]]) -> bool:
    """Whether no three of the pairs form a triangle.

    Examples
    --------
    >>> is_triangle_free([(0, 1), (1, 2), (2, 3), (0, 3)]), is_triangle_free([(0, 1), (1, 2), (0, 2)])
    (True, False)
    """
    near: dict[int, set[int]] = {}
    for u, v in edges:
        near.setdefault(u, set()).add(v)
        near.setdefault(v, set()).add(u)
    return not any(near[u] & near[v] for u, v in edges)
