"""cp_rank against closed forms, all small triangle-free graphs, published matrices, and changes of units."""

import sys

import numpy as np
import pytest

import covopt
from covopt.completely_positive import graphs
from covopt.completely_positive.certificate import CPStatus
from covopt.completely_positive.factorisation import residual_of
from tests.completely_positive.bank import M7, failed


@pytest.mark.parametrize("n", [*range(1, 7), pytest.param(7, marks=pytest.mark.slow)])
def test_every_triangle_free_graph_on_up_to_seven_vertices(n):
    for graph in graphs.triangle_free_graphs(n):
        found = covopt.cp_rank(graph)
        assert found.is_exact
        assert found.lower == found.upper == graph.number_of_edges()
        assert len(found.factor) == graph.number_of_edges()
        assert found.residual < 1e-12
        assert found.factor.min(initial=0.0) >= 0.0
        assert failed(found) == set()


@pytest.mark.parametrize("tol", [1e-7, 1e-6])
def test_every_tolerance_that_is_taken_can_be_verified(tol):
    rng = np.random.default_rng(1)
    B = rng.random((2, 5))
    noise = rng.uniform(-0.3, 0.3, (5, 5)) * tol
    A = B.T @ B
    A += (noise + noise.T) / 2 * np.sqrt(np.outer(np.diag(A), np.diag(A)))
    found = covopt.cp_rank(A, tol=tol)
    assert found.residual > 1e-8
    assert found.lower == found.upper == 2
    assert failed(found) == set()


def test_without_cvxpy_the_rest_is_tried_and_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    monkeypatch.setattr("covopt.completely_positive.bounding.numerical_factor", lambda *args, **options: None)
    found = covopt.cp_rank(M7, time_limit_s=0.5)
    assert (found.status, found.lower >= 7) == (CPStatus.UNDECIDED, True)
    assert any("need cvxpy (pip install '.[conic]' in the checkout)" in note for note in found.notes)
    assert failed(found) == set()
    text = covopt.cp_rank(graphs.petersen()).summary()
    assert "CP-rank    15" in text and "FL22 Prop 13" in text and "EXACT" in text


def test_large_matrices_and_small_entries_of_the_diagonal():
    found = covopt.cp_rank(graphs.complete_bipartite(50, 50))
    A = graphs.graph_matrix(found.matrix.graph)
    assert found.lower == found.upper == 2500 and np.abs(found.factor.T @ found.factor - A).max() < 1e-10
    rng = np.random.default_rng(0)
    B = rng.random((40, 15)) * (rng.random((40, 15)) < 0.3)
    found = covopt.cp_rank(B.T @ B, time_limit_s=1e-3)
    assert found.lower >= np.linalg.matrix_rank(B) and found.status is not CPStatus.NOT_CP
    assert residual_of(np.diag([1.0, 1e-12]), np.diag([1.0, 0.0])) == 1.0


@pytest.mark.parametrize(
    "method", ["rank", "clique-cover", "moment-1", pytest.param("moment-2", marks=pytest.mark.slow)]
)
def test_one_bound_alone(method, monkeypatch):
    monkeypatch.setattr("covopt.completely_positive.bounding.numerical_factor", lambda *args, **options: None)
    certificate = covopt.cp_rank(M7, method=method)  # of CP-rank 14: rank 7, moment bounds 2.65 and 4.21
    assert certificate.lower == 7 and failed(certificate) == set()


def test_an_undecided_component_beside_a_decided_one():
    # the factor of the decided component is not kept, so its bound must not be claimed either
    A = np.zeros((8, 8))
    A[:7, :7], A[7, 7] = np.array(M7) + 0.25, 1.5
    found = covopt.cp_rank(A, time_limit_s=1e-4)
    assert (found.status, found.upper, found.factor) == (CPStatus.UNDECIDED, None, None)
    assert failed(found) == set()
