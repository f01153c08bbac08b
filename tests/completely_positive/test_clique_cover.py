"""The clique-cover number against brute force, closed forms and a second reading of the same pattern."""

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import LinearConstraint, milp

from covopt.completely_positive import lower
from covopt.completely_positive.lower import clique_cover_bound, edge_clique_cover


def brute_force(graph: nx.Graph) -> int:
    """Smallest number of cliques (not only maximal ones matter: maximal suffice) that cover all edges."""
    cliques = [frozenset(c) for c in nx.find_cliques(graph)]
    edges = [frozenset(e) for e in graph.edges]
    isolated = sum(1 for v in graph if graph.degree(v) == 0)
    useful = [c for c in cliques if len(c) > 1]
    for size in range(len(useful) + 1):
        for chosen in combinations(useful, size):
            if all(any(edge <= clique for clique in chosen) for edge in edges):
                return size + isolated
    raise AssertionError("unreachable")


def test_every_graph_on_up_to_six_vertices():
    for graph in nx.graph_atlas_g()[1:209]:
        least, cover = edge_clique_cover(graph.nodes, graph.edges)
        assert least == len(cover) == brute_force(graph)
        for clique in cover:
            assert all(graph.has_edge(u, v) for u, v in combinations(clique, 2))
        covered = {tuple(sorted(p)) for c in cover for p in combinations(c, 2)}
        assert covered >= {tuple(sorted(e)) for e in graph.edges}


@pytest.mark.parametrize("seed", [0, 5, 6])  # of the last two a packing with weights tells the number
def test_random_graphs_of_twelve_vertices_against_the_integer_program(seed):
    graph = nx.gnp_random_graph(12, 0.6, seed=seed)
    cliques, edges = list(nx.find_cliques(graph)), list(graph.edges)
    table = np.array([[u in c and v in c for c in map(set, cliques)] for u, v in edges], dtype=float)
    answer = milp(np.ones(len(cliques)), constraints=LinearConstraint(table, lb=1), integrality=1)
    least, cover = edge_clique_cover(graph.nodes, graph.edges)
    isolated = sum(1 for v in graph if graph.degree(v) == 0)
    assert least == len(cover) == round(answer.fun) + isolated


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
