"""Moment bounds: published values, rigour for any dual point, invariances, the checker, errors."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covopt.completely_positive.graphs import graph_matrix
from covopt.completely_positive.moment_model import moment_model
from covopt.completely_positive.moments import check_moment_bound, moment_bound, rigorous_value
from covopt.errors import SolverError
from tests.completely_positive.bank import M7, M7_TILDE, NOT_CP


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
    ("graph", "edges"),
    [
        (nx.complete_bipartite_graph(4, 4), 16),
        (nx.mycielski_graph(4), 20),
    ],
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
