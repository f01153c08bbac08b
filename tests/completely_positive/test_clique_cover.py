"""The clique-cover number against an integer program, closed forms and a second reading of the same pattern."""

from itertools import combinations

import networkx as nx
import numpy as np
from scipy.optimize import LinearConstraint, milp

from covopt.completely_positive import lower
from covopt.completely_positive.lower import clique_cover_bound, edge_clique_cover


def cover_number(graph: nx.Graph) -> int:
    """Fewest cliques that cover all edges (maximal ones suffice), an integer program, and lone vertices."""
    cliques, isolated = list(nx.find_cliques(graph)), sum(degree == 0 for _, degree in graph.degree)
    if isolated == len(graph):
        return isolated
    table = np.array(
        [[u in clique and v in clique for clique in cliques] for u, v in graph.edges], dtype=float
    )
    answer = milp(np.ones(len(cliques)), constraints=LinearConstraint(table, lb=1), integrality=1)
    return round(answer.fun) + isolated


def test_small_and_random_graphs_against_the_integer_program():
    """All graphs on up to six vertices, and three on twelve: of two a packing with weights tells the number."""
    random = [nx.gnp_random_graph(12, 0.6, seed=seed) for seed in (0, 5, 6)]
    for graph in (*nx.graph_atlas_g()[1:209], *random):
        least, cover = edge_clique_cover(graph.nodes, graph.edges)
        assert least == len(cover) == cover_number(graph)
        for clique in cover:
            assert all(graph.has_edge(u, v) for u, v in combinations(clique, 2))
        covered = {tuple(sorted(p)) for c in cover for p in combinations(c, 2)}
        assert covered >= {tuple(sorted(e)) for e in graph.edges}


def test_larger_graphs_and_too_many_cliques(monkeypatch):
    for graph, value in ((nx.complete_bipartite_graph(5, 7), 35), (nx.petersen_graph(), 15)):
        least, cover = edge_clique_cover(graph.nodes, graph.edges)
        assert least == len(cover) == value
    graph = nx.complement(nx.cycle_graph(9))  # packings fall short of the cover
    least, cover = edge_clique_cover(graph.nodes, graph.edges)
    assert (least, len(cover)) == (6, 7)
    monkeypatch.setattr(lower, "CLIQUE_BUDGET", 3)
    graph = nx.cycle_graph(8)
    least, cover = edge_clique_cover(graph.nodes, graph.edges)
    assert (cover, least) == ((), 8)  # a scattered set


def test_ambiguous_entries_may_be_used_and_isolated_vertices_count():
    A = 2.0 * np.eye(4)
    for i, j in [(0, 1), (1, 2), (2, 3), (3, 0)]:
        A[i, j] = A[j, i] = 1.0
    assert clique_cover_bound(A) == 4
    A[0, 2] = A[2, 0] = 1e-13
    assert clique_cover_bound(A) == 2  # two triangles would do if the small entry is not a zero
    assert clique_cover_bound(np.diag([1.0, 0.0, 3.0])) == 2
