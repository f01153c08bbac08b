"""Triangle-free support graphs: the CP-rank is a formula (FL22 Prop 13); for the factor see ``dominance``."""

from __future__ import annotations

import numpy as np

from covopt.completely_positive.matrix import SymmetricMatrix
from covopt.completely_positive.pattern import DEFAULT_TOL, is_triangle_free, support_pattern
from covopt.exact.elimination import modular_rank
from covopt.exact.rank import singular_values_down
from covopt.exact.rounding import gamma


def rank_bound(matrix: SymmetricMatrix, tol: float = DEFAULT_TOL) -> tuple[int, str]:
    """Bound the rank of A, and so its CP-rank, from below.

    Exact entries: the rank modulo a prime, which the rank cannot fall short of. Floats: the singular values of
    D^(-1/2) A D^(-1/2) that are proved to be above n·tol and what the quotients round, so that no matrix within
    tol·√(a_ii a_jj) entrywise has a smaller rank.

    Parameters
    ----------
    matrix : SymmetricMatrix
    tol : float

    Examples
    --------
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> rank_bound(read_matrix([[1, 1], [1, 1]]))[0]
    1
    """
    integers = matrix.integers()
    if integers is not None:
        return modular_rank(
            integers
        ), "rank of A, modulo a prime in integers (a factor BᵀB = A has at least rank A rows)"
    A = matrix.values
    alive = np.diag(A) > 0
    roots = np.sqrt(np.diag(A)[alive])
    if not len(roots):
        return 0, "rank of A"
    unit = A[np.ix_(alive, alive)] / np.outer(roots, roots)
    # two roots, their product and the quotient; a sum of squares
    rounded = gamma(8) * float(np.linalg.norm(unit)) * (1.0 + gamma(unit.size))
    rank = int((singular_values_down(unit) > len(unit) * tol * (1.0 + gamma(8)) + rounded).sum())
    return (
        rank,
        f"rank of every matrix within {tol:g} of A, relative to √(a_ii a_jj) (a factor has at least rank A rows)",
    )


def triangle_free_rank(
    matrix: SymmetricMatrix, tol: float = DEFAULT_TOL, *, rank_tol: float = DEFAULT_TOL
) -> tuple[int, str] | None:
    r"""Return the CP-rank of a matrix with a connected triangle-free support graph, if it is completely positive.

    .. math::

        \operatorname{rank_{cp}}(A) = |E| \text{ if the graph has a cycle},\qquad
        \operatorname{rank}(A) \text{ if it is a tree}

    A zero entry a_uv forbids rows that hold both u and v, so every row sits on one edge or one vertex and every edge
    needs a row of its own (FL22 Prop 13; Berman and Shaked-Monderer 2003 for arbitrary weights).

    Parameters
    ----------
    matrix : SymmetricMatrix
        With a connected support graph.
    tol : float
        Of the pattern.
    rank_tol : float
        Of the rank, which only a tree needs.

    Returns
    -------
    tuple of int and str, or None
        None where the graph has a triangle or an entry may or may not be zero.

    Examples
    --------
    >>> from covopt.completely_positive.graphs import cycle
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> triangle_free_rank(read_matrix(cycle(6)))
    (6, 'triangle-free support graph with a cycle: one row per edge (FL22 Prop 13)')
    """
    pattern = support_pattern(matrix.values, tol)
    if pattern.ambiguous or not is_triangle_free(pattern.edges):
        return None
    if len(pattern.edges) >= len(pattern.vertices):
        return len(pattern.edges), "triangle-free support graph with a cycle: one row per edge (FL22 Prop 13)"
    rank, _ = rank_bound(matrix, rank_tol)
    return max(
        rank, len(pattern.edges)
    ), "support graph is a tree: the CP-rank is the rank (Berman and Shaked-Monderer 2003)"
