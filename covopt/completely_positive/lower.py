"""Lower bounds on the CP-rank: the rank, and bounds from the support graph (FL22 Prop 13; edge-clique covers)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations_with_replacement, islice
from typing import Any

import numpy as np
from scipy.optimize import LinearConstraint, linprog, milp
from scipy.sparse import csr_array

from covopt.checks import required
from covopt.completely_positive import Known, Reason, register
from covopt.completely_positive.graphs import MOST_ROWS, is_triangle_free
from covopt.completely_positive.matrix import SymmetricMatrix, support_pattern
from covopt.exact.definite import singular_values_between
from covopt.exact.rank import FOUND, exact_rank
from covopt.exact.rounding import gamma


def rank_bound(matrix: SymmetricMatrix, tol: float = FOUND) -> int:
    """Return a lower bound on the rank of A, and so on its CP-rank.

    For exact entries it is the rank. For floats it is the number of singular values of D^(-1/2) A D^(-1/2) that are
    proved to exceed n·tol plus the rounding errors of the quotients, so that no matrix within tol·√(a_ii a_jj)
    entrywise has a smaller rank.

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
    if matrix.exact is not None:
        return exact_rank(matrix.exact)
    A = matrix.values
    alive = np.diag(A) > 0
    roots = np.sqrt(np.diag(A)[alive])
    if not len(roots):
        return 0
    unit = A[np.ix_(alive, alive)] / np.outer(roots, roots)
    # two roots, their product and the quotient; a sum of squares
    rounded = gamma(8) * float(np.linalg.norm(unit)) * (1.0 + gamma(unit.size))
    return int((singular_values_between(unit)[0] > len(unit) * tol * (1.0 + gamma(8)) + rounded).sum())


def triangle_free_rank(matrix: SymmetricMatrix, tol: float = FOUND) -> int | None:
    r"""Return the CP-rank of a matrix with a connected triangle-free support graph, if it is completely positive.

    .. math::

        \operatorname{rank_{cp}}(A) = |E| \text{ if the graph has a cycle},\qquad
        \operatorname{rank}(A) \text{ if it is a tree}

    If a_uv = 0, no row is positive on both u and v. So the support of every row is an edge or a vertex, and every
    edge needs a row (FL22 Prop 13; Berman and Shaked-Monderer 2003 for arbitrary weights).

    Parameters
    ----------
    matrix : SymmetricMatrix
        With a connected support graph.
    tol : float
        Tolerance of the rank, which is needed for trees only.

    Returns
    -------
    int or None
        None if the graph has a triangle.

    Examples
    --------
    >>> from covopt.completely_positive.graphs import cycle
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> triangle_free_rank(read_matrix(cycle(6)))
    6
    """
    pattern = support_pattern(matrix.values, 0.0)
    if not is_triangle_free(pattern.edges):
        return None
    if len(pattern.edges) >= len(pattern.vertices):
        return len(pattern.edges)
    return max(rank_bound(matrix, tol), len(pattern.edges))


@register(
    "lower", "rank", "rank of A, or of every matrix within the tolerance (a factor has at least rank A rows)"
)
def check_rank(part: SymmetricMatrix, reason: Reason, known: Known) -> tuple[int, str]:
    """Recompute the rank."""
    return rank_bound(part, known.tol), "recomputed"


@register(
    "lower", "triangle-free",
    "triangle-free support graph: one row per edge where it has a cycle (FL22 Prop 13), the rank where it is a tree "
    "(Berman and Shaked-Monderer 2003)",
)  # fmt: skip
def check_triangle_free(part: SymmetricMatrix, reason: Reason, known: Known) -> tuple[int | None, str]:
    """Recompute the triangle-free formula."""
    found = triangle_free_rank(part, known.tol)
    return found, "the support graph has a triangle" if found is None else "recomputed"


# largest sets × elements: beyond, the program takes minutes; a time limit would make checks irreproducible
MILP_SIZE = 20_000


def clique_cover_bound(A: np.ndarray, tol: float = FOUND) -> int:
    r"""Return the least number of cliques that cover the support graph, a lower bound on the CP-rank.

    .. math::

        \operatorname{rank_{cp}}(A) \ge \min\{k : C_1\cup\dots\cup C_k \text{ covers } G(A),\ C_i \text{ cliques}\}

    where every vertex with A_ii > 0 must be covered, too. Entries that may be zeros (see
    :func:`~covopt.completely_positive.matrix.support_pattern`) need not be covered but may be used by the cliques, so
    the bound holds whether they are zeros or not.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Symmetric, with a nonnegative diagonal; only the pattern is used.
    tol : float
        Entries with \|a_ij\| ≤ tol·√(a_ii a_jj) may be zeros.

    Returns
    -------
    int

    References
    ----------
    Berman and Shaked-Monderer, Completely Positive Matrices (2003).

    Examples
    --------
    >>> clique_cover_bound(np.array([[2, 1, 0], [1, 2, 1], [0, 1, 1]]))
    2
    """
    pattern = support_pattern(A, tol)
    return edge_clique_cover(pattern.vertices, pattern.edges, optional=pattern.ambiguous)[0]


@register(
    "lower", "clique-cover",
    "edge-clique cover of the support graph, isolated vertices included (no cancellation in BᵀB: the support of a "
    "row of B is a clique of the support graph)",
)  # fmt: skip
def check_clique_cover(part: SymmetricMatrix, reason: Reason, known: Known) -> tuple[int, str]:
    """Recompute the clique-cover bound."""
    return clique_cover_bound(part.values, 0.0), "recomputed"


def edge_clique_cover(
    vertices: Iterable[int],
    edges: Iterable[tuple[int, int]],
    *,
    optional: Iterable[tuple[int, int]] = (),
) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """Cover the edges and the isolated vertices by few cliques.

    This is set covering over the maximal cliques. A mixed-integer program (HiGHS) proposes a cover, and a packing,
    scaled to integers, gives a lower bound. They agree on all but one of the 1252 graphs of up to seven vertices.

    Parameters
    ----------
    vertices : iterable of int
    edges : iterable of pairs of int
    optional : iterable of pairs of int
        Pairs that a clique may use although they need no cover.

    Returns
    -------
    lower : int
        Lower bound on the number of cliques, proved by an integer packing.
    cover : tuple of tuple of int
        Cliques that cover every edge and every vertex; empty if there are too many maximal cliques.

    Examples
    --------
    >>> edge_clique_cover(range(4), [(0, 1), (1, 2), (0, 2), (2, 3)])
    (2, ((0, 1, 2), (2, 3)))
    """
    nx = required("networkx", "cp_rank", "graphs")
    wanted = [(min(edge), max(edge)) for edge in edges]
    touched = {v for edge in wanted for v in edge}
    elements = [*wanted, *((v, v) for v in vertices if v not in touched)]
    graph = nx.Graph()
    graph.add_nodes_from(vertices)
    graph.add_edges_from([*wanted, *optional])
    lower = _scattered(graph, elements)
    cliques = [tuple(sorted(c)) for c in islice(nx.find_cliques(graph), MOST_ROWS + 1)]
    if len(cliques) > MOST_ROWS:
        return lower, ()
    index = {element: position for position, element in enumerate(elements)}
    rows, columns = np.array([
        (index[pair], k) for k, clique in enumerate(cliques)
        for pair in combinations_with_replacement(clique, 2) if pair in index
    ], dtype=int).reshape(-1, 2).T  # fmt: skip
    table = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(elements), len(cliques)))
    if lower < len(cliques) and len(elements) * len(cliques) <= MILP_SIZE:
        answer = milp(np.ones(len(cliques)), constraints=LinearConstraint(table, lb=1.0), integrality=1)
        if answer.x is not None and (table @ (answer.x > 0.5) > 0).all():
            cliques = [cliques[k] for k in np.flatnonzero(answer.x > 0.5)]
    if lower < len(cliques):
        lower = max(lower, _packing(table))
    return lower, tuple(sorted(cliques))


def _scattered(graph: Any, elements: list[tuple[int, int]]) -> int:
    """Return the size of a greedy set of elements, no two in one clique: a lower bound on every cover."""
    place = {v: k for k, v in enumerate(graph)}
    near = np.eye(len(place), dtype=bool)
    pairs = np.array([(place[u], place[v]) for u, v in graph.edges], dtype=int).reshape(-1, 2)
    near[pairs[:, 0], pairs[:, 1]] = near[pairs[:, 1], pairs[:, 0]] = True
    ends = np.array([(place[u], place[v]) for u, v in elements], dtype=int).reshape(-1, 2)
    beside = near[ends[:, 0]] & near[ends[:, 1]]
    left, count = np.ones(len(ends), dtype=bool), 0
    for element in np.argsort(beside.sum(1), kind="stable"):
        if left[element]:
            count += 1
            left &= ~beside[element][ends].all(1)
    return count


def _packing(table: csr_array) -> int:
    """Return the lower bound of a packing: the total weight of the elements if no set has weight above one."""
    n_rows, n_sets = table.shape
    dual = linprog(-np.ones(n_rows), A_ub=table.T.tocsr(), b_ub=np.ones(n_sets), bounds=(0, None))
    weights = np.zeros(n_rows, dtype=int) if dual.x is None else np.maximum(0, 1e9 * dual.x).astype(int)
    load = int((table.T.astype(int) @ weights).max())
    return -(-int(weights.sum()) // load) if load else 1
