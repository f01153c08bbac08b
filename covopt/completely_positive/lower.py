"""Lower bounds on the CP-rank: the rank, and from the support graph (FL22 Prop 13; edge-clique covers)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, islice

import numpy as np

from covopt.checks.optional import required
from covopt.completely_positive.graphs import is_triangle_free
from covopt.completely_positive.matrix import DEFAULT_TOL, SymmetricMatrix, support_pattern
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


CLIQUE_BUDGET = 5_000
NODE_BUDGET = 50_000
MILP_SIZE = (
    20_000  # sets times elements: larger programs take minutes; never a time limit, so that checks repeat
)
WORK_BUDGET = 1_000_000  # sets times elements times nodes, so that large searches stop in seconds too


@dataclass(frozen=True)
class CliqueCover:
    """What :func:`edge_clique_cover` found.

    Attributes
    ----------
    lower : int
        No cover has fewer cliques: proved by exhaustive search, or by a packing in integers.
    cover : tuple of tuple of int
        Cliques that cover every edge and every vertex; empty where there were too many maximal cliques.
    exact : bool
        Whether ``lower`` is the size of ``cover``.
    """

    lower: int
    cover: tuple[tuple[int, ...], ...]
    exact: bool


def clique_cover_bound(A: np.ndarray, tol: float = DEFAULT_TOL) -> int:
    r"""Bound the CP-rank from below by the fewest cliques that cover the support graph.

    .. math::

        \operatorname{rank_{cp}}(A) \ge \min\{k : C_1\cup\dots\cup C_k \text{ covers } G(A),\ C_i \text{ cliques}\}

    with every vertex of positive A_ii covered too. Entries that may be zeros (see
    :func:`~covopt.completely_positive.matrix.support_pattern`) need no cover but may be used by the cliques, so the
    bound holds under every reading of them.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Symmetric, with a nonnegative diagonal; only the pattern is looked at.
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
    return edge_clique_cover(pattern.vertices, pattern.edges, optional=pattern.ambiguous).lower


@register(
    "lower", "clique-cover",
    "edge-clique cover of the support graph, isolated vertices included (no cancellation in BᵀB: the support of a "
    "row of B is a clique of the support graph)",
)  # fmt: skip
def check_clique_cover(part: SymmetricMatrix, reason: Reason, known: Known) -> tuple[bool, str]:
    """Recompute it."""
    found = clique_cover_bound(part.values, 0.0)
    return reason.value is not None and reason.value <= found, f"recomputed {found}"


def edge_clique_cover(
    vertices: Iterable[int],
    edges: Iterable[tuple[int, int]],
    *,
    optional: Iterable[tuple[int, int]] = (),
    node_budget: int = NODE_BUDGET,
) -> CliqueCover:
    """Cover the edges, and the vertices without one, by the fewest cliques.

    Set covering over the maximal cliques: a mixed-integer program (HiGHS) proposes a cover, and a packing or a branch
    and bound, both in integers, prove that none is smaller. Where that takes more than ``node_budget`` nodes, the
    packing bound is returned and ``exact`` is False.

    Parameters
    ----------
    vertices : iterable of int
    edges : iterable of pairs of int
    optional : iterable of pairs of int
        Pairs that a clique may use although they need no cover.
    node_budget : int

    Returns
    -------
    CliqueCover

    Examples
    --------
    >>> edge_clique_cover(range(4), [(0, 1), (1, 2), (0, 2), (2, 3)])
    CliqueCover(lower=2, cover=((0, 1, 2), (2, 3)), exact=True)
    """
    nx = required("networkx", "cp_rank", "graphs")
    wanted = [tuple(sorted(edge)) for edge in edges]
    touched = {v for edge in wanted for v in edge}
    elements: list[tuple[int, ...]] = [*wanted, *((v,) for v in vertices if v not in touched)]
    graph = nx.Graph()
    graph.add_nodes_from(vertices)
    graph.add_edges_from(wanted)
    graph.add_edges_from(optional)
    cliques = [tuple(sorted(c)) for c in islice(nx.find_cliques(graph), CLIQUE_BUDGET + 1)]
    if len(cliques) > CLIQUE_BUDGET:
        near = [
            sum(1 << k for k, other in enumerate(elements)
                if all(u == v or graph.has_edge(u, v) for u in element for v in other))
            for element in elements
        ]  # fmt: skip
        return CliqueCover(_scattered(near, (1 << len(elements)) - 1), (), False)
    index = {element: position for position, element in enumerate(elements)}
    masks = [
        sum(1 << index[e] for e in (*combinations(clique, 2), *((v,) for v in clique)) if e in index)
        for clique in cliques
    ]
    lower, chosen = _set_cover(masks, len(elements), node_budget)
    return CliqueCover(lower, tuple(sorted(cliques[j] for j in chosen)), lower == len(chosen))


def _bits(mask: int) -> list[int]:
    return [place for place, bit in enumerate(reversed(f"{mask:b}")) if bit == "1"]


def _scattered(near: list[int], left: int) -> int:
    """Count elements no two of which share a set, greedily: every cover needs as many."""
    count = 0
    for element in sorted(_bits(left), key=lambda e: near[e].bit_count()):
        if left >> element & 1:
            count += 1
            left &= ~near[element]
    return count


def _set_cover(masks: list[int], n_elements: int, node_budget: int) -> tuple[int, list[int]]:
    """Return a lower bound and chosen sets for covering all elements."""
    near = [0] * n_elements  # the elements that share a set with each element
    for mask in masks:
        for element in _bits(mask):
            near[element] |= mask
    everything = (1 << n_elements) - 1
    cover, packing = _completed([], masks, everything), _scattered(near, everything)
    if packing < len(cover):
        cover, packing = _programs(masks, n_elements)
    if packing < len(cover):
        budget = min(node_budget, WORK_BUDGET // (len(masks) + n_elements))
        cover, finished = _branch_and_bound(masks, near, cover, packing, budget)
        packing = len(cover) if finished else packing
    return packing, cover


def _programs(masks: list[int], n_rows: int) -> tuple[list[int], int]:
    """Return a cover from the mixed-integer program and the packing bound from its relaxation, in integers."""
    from scipy.optimize import LinearConstraint, linprog, milp
    from scipy.sparse import csr_array

    places = [_bits(mask) for mask in masks]
    where = np.concatenate(places), np.repeat(np.arange(len(masks)), [len(held) for held in places])
    table = csr_array((np.ones(len(where[0])), where), shape=(n_rows, len(masks)))
    cover: list[int] = []
    if n_rows * len(masks) <= MILP_SIZE:
        answer = milp(np.ones(len(masks)), constraints=LinearConstraint(table, lb=1.0), integrality=1)
        cover = [] if answer.x is None else [int(j) for j in np.flatnonzero(answer.x > 0.5)]
    dual = linprog(-np.ones(n_rows), A_ub=table.T.tocsr(), b_ub=np.ones(len(masks)), bounds=(0, None))
    weights = [0] * n_rows if dual.x is None else [max(0, int(1e9 * w)) for w in dual.x]
    load = max(sum(weights[row] for row in held) for held in places)
    # weights/load is a packing: no set holds more than 1, so a cover needs at least the total
    return _completed(cover, masks, (1 << n_rows) - 1), -(-sum(weights) // load) if load else 1


def _completed(cover: list[int], masks: list[int], everything: int) -> list[int]:
    """Add sets greedily until everything is covered: the program's answer is only a hint."""
    left = everything
    for j in cover:
        left &= ~masks[j]
    while left:
        cover = [*cover, max(range(len(masks)), key=lambda j: (masks[j] & left).bit_count())]
        left &= ~masks[cover[-1]]
    return cover


def _branch_and_bound(
    masks: list[int], near: list[int], best: list[int], lower: int, budget: int
) -> tuple[list[int], bool]:
    """Return the best cover and whether the search ended: depth first, on the element that fewest sets hold."""
    holders = [[j for j, m in enumerate(masks) if m >> row & 1] for row in range(len(near))]
    rare = sorted(range(len(near)), key=lambda row: len(holders[row]))
    open_: list[tuple[list[int], int]] = [([], (1 << len(near)) - 1)]
    for _ in range(budget):
        if not open_ or len(best) <= lower:
            return best, True
        chosen, left = open_.pop()
        if not left:
            best = min(best, chosen, key=len)
        elif len(chosen) + _scattered(near, left) < len(best):
            row = next(row for row in rare if left >> row & 1)
            after = sorted(((left & ~masks[j], j) for j in holders[row]), key=lambda e: -e[0].bit_count())
            open_ += [([*chosen, j], rest) for rest, j in after]
    return best, not open_ or len(best) <= lower
