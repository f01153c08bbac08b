"""Which entries of a symmetric matrix are zeros, and which of them a float cannot decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
        parent = {v: v for v in self.vertices}

        def root(v: int) -> int:
            while parent[v] != v:
                parent[v] = parent[parent[v]]
                v = parent[v]
            return v

        for u, v in (*self.edges, *self.ambiguous):
            parent[root(u)] = root(v)
        groups: dict[int, list[int]] = {}
        for v in self.vertices:
            groups.setdefault(root(v), []).append(v)
        return sorted(tuple(group) for group in groups.values())


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
    vertices = [int(i) for i in np.flatnonzero(np.diag(A) > 0)]
    roots = np.sqrt(np.maximum(np.diag(A), 0.0))
    size = np.abs(A)
    small = size <= tol * np.outer(roots, roots)
    alive = set(vertices)
    edges: list[tuple[int, int]] = []
    ambiguous: list[tuple[int, int]] = []
    for i, j in np.argwhere(np.triu(size > 0, 1)).tolist():
        if i in alive and j in alive:
            (ambiguous if small[i, j] else edges).append((i, j))
    return Pattern(tuple(vertices), tuple(edges), tuple(ambiguous))


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
