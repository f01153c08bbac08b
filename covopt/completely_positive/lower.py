"""Lower bounds on the CP-rank by the rank, and by the formula for triangle-free support graphs (FL22 Prop 13)."""

from __future__ import annotations

import numpy as np

from covopt.completely_positive.matrix import SymmetricMatrix
from covopt.completely_positive.pattern import DEFAULT_TOL, is_triangle_free, support_pattern
from covopt.completely_positive.reading import Known, Reason, register
from covopt.exact.elimination import modular_rank
from covopt.exact.rounding import gamma
from covopt.exact.singular import singular_values_between


def rank_bound(matrix: SymmetricMatrix, tol: float = DEFAULT_TOL) -> int:
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
    >>> rank_bound(read_matrix([[1, 1], [1, 1]]))
    1
    """
    integers = matrix.integers()
    if integers is not None:
        return modular_rank(integers)
    A = matrix.values
    alive = np.diag(A) > 0
    roots = np.sqrt(np.diag(A)[alive])
    if not len(roots):
        return 0
    unit = A[np.ix_(alive, alive)] / np.outer(roots, roots)
    # two roots, their product and the quotient; a sum of squares
    rounded = gamma(8) * float(np.linalg.norm(unit)) * (1.0 + gamma(unit.size))
    return int((singular_values_between(unit)[0] > len(unit) * tol * (1.0 + gamma(8)) + rounded).sum())


def triangle_free_rank(
    matrix: SymmetricMatrix, tol: float = DEFAULT_TOL, *, rank_tol: float = DEFAULT_TOL
) -> int | None:
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
    int or None
        None where the graph has a triangle or an entry may or may not be zero.

    Examples
    --------
    >>> from covopt.completely_positive.graphs import cycle
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> triangle_free_rank(read_matrix(cycle(6)))
    6
    """
    pattern = support_pattern(matrix.values, tol)
    if pattern.ambiguous or not is_triangle_free(pattern.edges):
        return None
    if len(pattern.edges) >= len(pattern.vertices):
        return len(pattern.edges)
    return max(rank_bound(matrix, rank_tol), len(pattern.edges))


@register(
    "lower", "rank", "rank of A, or of every matrix within the tolerance (a factor has at least rank A rows)"
)
def check_rank(part: SymmetricMatrix, reason: Reason, known: Known) -> tuple[bool, str]:
    """Recompute it."""
    found = rank_bound(part, known.tol)
    return reason.value is not None and reason.value <= found, f"recomputed {found}"


@register(
    "lower", "triangle-free",
    "triangle-free support graph: one row per edge where it has a cycle (FL22 Prop 13), the rank where it is a tree "
    "(Berman and Shaked-Monderer 2003)",
)  # fmt: skip
def check_triangle_free(part: SymmetricMatrix, reason: Reason, known: Known) -> tuple[bool, str]:
    """Recompute it."""
    found = triangle_free_rank(part, 0.0, rank_tol=known.tol)
    if found is None or reason.value is None:
        return False, "the support graph has a triangle"
    return reason.value <= found, f"recomputed {found}"
