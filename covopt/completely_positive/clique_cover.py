"""Edge-clique covers: the combinatorial lower bound on the CP-rank, exact where the search ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, islice

import numpy as np

from covopt.checks.optional import required
from covopt.completely_positive.pattern import DEFAULT_TOL, support_pattern

CLIQUE_BUDGET = 5_000
NODE_BUDGET = 50_000
MILP_SIZE = (
    20_000  # sets times elements: larger programs take minutes; never a time limit, so that checks repeat
)
WORK_BUDGET = 1_000_000  # sets times elements times nodes, so that large searches stop in seconds too
SOURCE = "no cancellation in BᵀB: the support of a row of B is a clique of the support graph"


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


def clique_cover_bound(A: np.ndarray, tol: float = DEFAULT_TOL) -> tuple[int, str]:
    r"""Bound the CP-rank from below by the fewest cliques that cover the support graph.

    .. math::

        \operatorname{rank_{cp}}(A) \ge \min\{k : C_1\cup\dots\cup C_k \text{ covers } G(A),\ C_i \text{ cliques}\}

    with every vertex of positive A_ii covered too. Entries that may be zeros (see
    :func:`~covopt.completely_positive.pattern.support_pattern`) need no cover but may be used by the cliques, so the
    bound holds under every reading of them.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Symmetric, with a nonnegative diagonal; only the pattern is looked at.
    tol : float
        Entries with \|a_ij\| ≤ tol·√(a_ii a_jj) may be zeros.

    Returns
    -------
    tuple of int and str
        The bound, and where it comes from.

    References
    ----------
    Berman and Shaked-Monderer, Completely Positive Matrices (2003).

    Examples
    --------
    >>> clique_cover_bound(np.array([[2, 1, 0], [1, 2, 1], [0, 1, 1]]))[0]
    2
    """
    pattern = support_pattern(A, tol)
    found = edge_clique_cover(pattern.vertices, pattern.edges, optional=pattern.ambiguous)
    how = "edge-clique cover number" if found.exact else "lower bound on the edge-clique cover number"
    return found.lower, f"{how} of the support graph, isolated vertices included ({SOURCE})"


def edge_clique_cover(
    vertices: Iterable[int],
    edges: Iterable[tuple[int, int]],
    *,
    optional: Iterable[tuple[int, int]] = (),
    node_budget: int = NODE_BUDGET,
) -> CliqueCover:
    """Cover the edges, and the vertices without one, by the fewest cliques.

    Set covering over the maximal cliques: forced cliques and dominated elements go first, a mixed-integer program
    (HiGHS) proposes a cover, and a branch and bound in integers proves that none is smaller. Where that takes more
    than ``node_budget`` nodes, the best integer packing bound is returned and ``exact`` is False.

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
        return CliqueCover(_scattered(graph, elements), (), False)
    index = {element: position for position, element in enumerate(elements)}
    masks = [_mask(clique, index) for clique in cliques]
    lower, chosen, exact = _set_cover(masks, len(elements), node_budget)
    return CliqueCover(lower, tuple(sorted(cliques[j] for j in chosen)), exact)


def _mask(clique: tuple[int, ...], index: dict[tuple[int, ...], int]) -> int:
    mask = 0
    for element in (*combinations(clique, 2), *((v,) for v in clique)):
        if element in index:
            mask |= 1 << index[element]
    return mask


def _scattered(graph, elements: list[tuple[int, ...]]) -> int:
    """Greedy set of elements no two of which fit into one clique: a bound that needs no list of cliques."""
    taken: list[set[int]] = []
    for element in sorted(elements, key=lambda e: sum(graph.degree(v) for v in e)):
        mine = set(element)
        if all(any(u != v and not graph.has_edge(u, v) for u in mine for v in other) for other in taken):
            taken.append(mine)
    return len(taken)


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def _set_cover(masks: list[int], n_elements: int, node_budget: int) -> tuple[int, list[int], bool]:
    """Return (lower bound, chosen sets, whether they agree) for covering all elements."""
    holders: list[list[int]] = [[] for _ in range(n_elements)]
    for j, mask in enumerate(masks):
        for element in _bits(mask):
            holders[element].append(j)
    forced = sorted({held[0] for held in holders if len(held) == 1})
    covered = 0
    for j in forced:
        covered |= masks[j]
    left = [e for e in range(n_elements) if not covered >> e & 1]
    if not left:
        return len(forced), forced, True
    rows = _undominated({e: frozenset(holders[e]) for e in left})
    columns = sorted({j for e in rows for j in holders[e]})
    place = {e: i for i, e in enumerate(rows)}
    small: dict[int, int] = {}
    for j in columns:
        reduced = sum(1 << place[e] for e in _bits(masks[j] & ~covered) if e in place)
        small.setdefault(reduced, j)
    keep = list(small)
    if len(keep) <= 2000:  # a set inside another one is never needed; comparing all pairs is quadratic
        keep = [m for m in keep if not any(m != other and m & ~other == 0 for other in small)]
    cover, packing = _relaxed(keep, len(rows))
    if packing < len(cover):
        search = _Search(keep, len(rows), min(node_budget, WORK_BUDGET // (len(keep) + len(rows))))
        cover, finished = search.run(cover, packing)
        packing = len(cover) if finished else packing
    chosen = forced + [small[keep[i]] for i in cover]
    return len(forced) + packing, chosen, packing == len(cover)


def _undominated(holders: dict[int, frozenset[int]]) -> list[int]:
    """Elements whose covering covers the others: e goes where every set that holds some f also holds e."""
    kept: list[int] = []
    for element in sorted(holders, key=lambda e: (len(holders[e]), e)):
        if not any(holders[other] <= holders[element] for other in kept):
            kept.append(element)
    return kept


def _relaxed(masks: list[int], n_rows: int) -> tuple[list[int], int]:
    """Return a cover from the mixed-integer program and the packing bound from its relaxation, in integers."""
    from scipy.optimize import Bounds, LinearConstraint, linprog, milp
    from scipy.sparse import csr_array

    places = [_bits(mask) for mask in masks]
    entries = [(row, j) for j, held in enumerate(places) for row in held]
    rows, columns = np.array(entries).T
    table = csr_array((np.ones(len(rows)), (rows, columns)), shape=(n_rows, len(masks)))
    cover: list[int] = []
    if len(masks) * n_rows <= MILP_SIZE:
        answer = milp(
            np.ones(len(masks)),
            constraints=LinearConstraint(table, lb=1.0),
            integrality=1,
            bounds=Bounds(0, 1),
        )
        cover = [] if answer.x is None else [int(j) for j in np.flatnonzero(answer.x > 0.5)]
    cover = _repaired(cover, masks, n_rows)
    dual = linprog(-np.ones(n_rows), A_ub=table.T.tocsr(), b_ub=np.ones(len(masks)), bounds=(0, None))
    weights = [] if dual.x is None else [max(0, int(1e9 * w)) for w in dual.x]
    load = max((sum(weights[row] for row in held) for held in places), default=0) if weights else 0
    # weights/load is a packing: no set holds more than 1, so a cover needs at least the total
    return cover, -(-sum(weights) // load) if load else 1


def _repaired(cover: list[int], masks: list[int], n_rows: int) -> list[int]:
    """Add sets greedily until everything is covered: the program's answer is only a hint."""
    everything, covered = (1 << n_rows) - 1, 0
    for j in cover:
        covered |= masks[j]
    while covered != everything:
        best = max(range(len(masks)), key=lambda j: (masks[j] & ~covered).bit_count())
        cover = [*cover, best]
        covered |= masks[best]
    return cover


class _Search:
    """Depth-first branch and bound on the element with the fewest sets, in Python's integers."""

    def __init__(self, masks: list[int], n_rows: int, node_budget: int):
        self._masks, self._n_rows, self._budget = masks, n_rows, node_budget
        self._holders = [[j for j, m in enumerate(masks) if m >> row & 1] for row in range(n_rows)]
        self._near = [0] * n_rows
        for row, held in enumerate(self._holders):
            for j in held:
                self._near[row] |= masks[j]
        self._order = sorted(range(n_rows), key=lambda row: self._near[row].bit_count())
        self._rare = sorted(range(n_rows), key=lambda row: len(self._holders[row]))

    def run(self, cover: list[int], lower: int) -> tuple[list[int], bool]:
        """Return the best cover and whether the search ended."""
        self._best, self._nodes, self._lower = list(cover), 0, lower
        self._walk([], (1 << self._n_rows) - 1)
        return self._best, self._nodes <= self._budget

    def _walk(self, chosen: list[int], left: int) -> None:
        self._nodes += 1
        if self._nodes > self._budget or len(self._best) <= self._lower:
            return
        if not left:
            self._best = list(chosen)
            return
        room = len(self._best) - 1 - len(chosen)
        if self._spread(left) > room:
            return
        nearby = islice((row for row in self._rare if left >> row & 1), 8)
        pivot = min(nearby, key=lambda row: len(self._useful(row, left)))
        for j in self._useful(pivot, left):
            self._walk([*chosen, j], left & ~self._masks[j])

    def _useful(self, row: int, left: int) -> list[int]:
        """Return the sets that hold ``row``, largest first, those inside another one on what is left dropped."""
        held = sorted(self._holders[row], key=lambda j: -(self._masks[j] & left).bit_count())
        kept: list[int] = []
        for j in held:
            mine = self._masks[j] & left
            if not any(mine & ~self._masks[other] == 0 for other in kept):
                kept.append(j)
        return kept

    def _spread(self, left: int) -> int:
        """Greedy packing: rows no two of which share a set."""
        count = 0
        for row in self._order:
            if left >> row & 1:
                count += 1
                left &= ~self._near[row]
        return count
