"""Lower bounds on the CP-rank: clique covers against an integer program, moments against published values."""

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, milp

from covopt.completely_positive import lower
from covopt.completely_positive.graphs import graph_matrix
from covopt.completely_positive.lower import clique_cover_bound, edge_clique_cover
from covopt.completely_positive.moment_model import moment_model
from covopt.completely_positive.moments import check_moment_bound, moment_bound, rigorous_value
from covopt.errors import SolverError
from tests.completely_positive.bank import M7, M7_TILDE, NOT_CP


def cover_number(graph: nx.Graph) -> int:
    """Fewest cliques that cover all edges (maximal ones suffice), an integer program, and lone vertices."""
    cliques, isolated = list(nx.find_cliques(graph)), sum(degree == 0 for _, degree in graph.degree)
    if isolated == len(graph):
        return isolated
    table = np.array([[u in clique and v in clique for clique in cliques] for u, v in graph.edges]) * 1.0
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
    monkeypatch.setattr(lower, "MOST_ROWS", 3)
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


# ---- moment bounds: published values, rigour for any dual point, invariances, the checker, errors.
@pytest.mark.parametrize(
    ("A", "level", "method", "published"),
    [
        (M7, 1, "plain", 2.64),
        (M7_TILDE, 1, "plain", 2.58),
        pytest.param(M7, 2, "plain", 4.21, marks=pytest.mark.slow),
        pytest.param(M7_TILDE, 2, "plain", 4.66, marks=pytest.mark.slow),
    ],
)
def test_published_values(A, level, method, published):
    bound = moment_bound(A, level=level, method=method)
    assert abs(bound.value - published) < 0.01
    assert bound.value <= bound.solver_value + 1e-7
    assert bound.integer == int(published) + 1


@pytest.mark.slow
@pytest.mark.parametrize("A", [M7, M7_TILDE])
def test_the_strong_bound_gives_ten(A):
    bound = moment_bound(A, level=2)
    assert 9.3 < bound.value < 12  # every such bound stays below τ_cp, and that is at most 12 here
    assert bound.integer == 10
    assert check_moment_bound(A, bound.data, 10)[0]


@pytest.mark.parametrize(
    ("graph", "edges"), [(nx.complete_bipartite_graph(4, 4), 16), (nx.mycielski_graph(4), 20)]
)
def test_one_row_per_edge_without_triangles(graph, edges):
    bound = moment_bound(graph_matrix(graph))
    assert bound.integer == edges
    assert edges - 1e-3 < bound.value <= edges
    ok, text = check_moment_bound(graph_matrix(graph), bound.data, edges)
    assert ok
    assert "recomputed" in text
    assert not check_moment_bound(graph_matrix(graph), bound.data, edges + 1)[0]


def test_levels_and_methods_are_ordered():
    A = graph_matrix(nx.complete_graph(4)) + np.diag([0, 1, 0, 2])
    plain = moment_bound(A, level=1, method="plain").value
    second = moment_bound(A, level=2, method="plain").value
    strong = moment_bound(A, level=2, method="strong").value
    assert plain <= second + 1e-6
    assert second <= strong + 1e-6
    assert strong <= 6 + 4  # the edges and, for the diagonal, at most one more row each


@given(st.integers(0, 10**6), st.sampled_from(["plain", "strong"]), st.floats(-8, 1))
def test_any_dual_point_gives_a_valid_bound(seed, method, size):
    """The number of rows of a factor is never undercut, however wrong the dual point is."""
    rng = np.random.default_rng(seed)
    B = rng.integers(0, 3, (int(rng.integers(1, 5)), 3))
    B = B[:, B.any(0)]
    if not B.size:
        return
    A = B.T @ B
    rows = int(B.any(1).sum())
    bound = moment_bound(A, level=2, method=method)
    assert bound.value <= rows
    model = moment_model((A / 4.0).astype(float), 2, method)
    noise = rng.standard_normal(len(model.b)) * 10.0**size
    dual = np.array(bound.data["dual"])
    assert rigorous_value(model, dual + noise) <= rows
    assert rigorous_value(model, dual * rng.uniform(0.5, 2.0, len(dual))) <= rows
    assert rigorous_value(model, -dual) <= rows


def test_a_short_time_limit_still_gives_a_valid_bound():
    try:
        bound = moment_bound(M7, level=2, method="plain", time_limit_s=1e-3)
    except SolverError as error:
        assert "stopped without a point" in str(error)
    else:
        assert bound.value <= 4.22


def test_mutated_certificates():
    A = graph_matrix(nx.cycle_graph(5))
    bound = moment_bound(A)
    for claimed in (6, 50):
        assert not check_moment_bound(A, bound.data, claimed)[0]
    flipped = {**bound.data, "dual": [-x for x in bound.data["dual"]]}
    assert not check_moment_bound(A, flipped, 5)[0]
    assert not check_moment_bound(A, {**bound.data, "dual": bound.data["dual"][1:]}, 5)[0]
    assert not check_moment_bound(2 * np.eye(5), bound.data, 6)[0]
    assert not check_moment_bound(A, {**bound.data, "dual": [float("nan")] * len(bound.data["dual"])}, 5)[0]
    A = np.zeros((4, 4))
    assert moment_bound(A).integer == 0 and check_moment_bound(A, moment_bound(A).data, 0)[0]
    A[1, 1] = 3
    assert moment_bound(A).integer == 1


def test_not_completely_positive():
    # a factor of n(n + 1)/2 rows would do by Carathéodory, so this number is a proof that there is none
    bound = moment_bound(NOT_CP["barioli"], level=2, method="plain")
    assert bound.value > 6 * 7 / 2
    assert check_moment_bound(NOT_CP["barioli"], bound.data, 22)[0]


@pytest.mark.parametrize("seed", range(3))
def test_a_matrix_known_to_a_tolerance_has_the_bound_of_every_matrix_within_it(seed):
    rng = np.random.default_rng(seed)
    B = rng.random((4, 4)) * (rng.random((4, 4)) < 0.7) + np.eye(4)
    A = B.T @ B
    exact = moment_bound(A)
    before = exact.value
    for tol in (1e-9, 1e-6, 1e-3):
        loose = moment_bound(A, tol=tol)
        assert loose.value <= before + 1e-9
        assert loose.value > exact.value - 1e3 * tol - 1e-6
        before = loose.value
        noise = rng.uniform(-tol, tol, A.shape) * np.sqrt(np.outer(np.diag(A), np.diag(A)))
        near = A + np.where(A > 0, (noise + noise.T) / 2, 0.0)
        # a dual point of the tolerant bound proves it for A, and the bound holds for the matrices near
        claimed = int(loose.integer)
        assert check_moment_bound(A, loose.data, claimed, tol=tol)[0]
        assert loose.value <= moment_bound(near).value + 1e-4
