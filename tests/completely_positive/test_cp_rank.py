"""cp_rank: graphs and matrices as they are read, all small triangle-free graphs, floats at the edge."""

import sys
from dataclasses import replace
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

import covopt
from covopt.completely_positive import graphs
from covopt.completely_positive.certificate import CPStatus, verify_cp_rank
from covopt.completely_positive.exclusion import is_negative, negative_entry, separated
from covopt.completely_positive.factorisation import residual_of
from covopt.completely_positive.graphs import is_triangle_free
from covopt.completely_positive.lower import rank_bound
from covopt.completely_positive.matrix import SymmetricMatrix, read_csv, read_matrix
from covopt.completely_positive.rank import cp_rank
from covopt.errors import InputError
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
    monkeypatch.setattr("covopt.completely_positive.rank.numerical_factor", lambda *args, **options: None)
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
    monkeypatch.setattr("covopt.completely_positive.rank.numerical_factor", lambda *args, **options: None)
    certificate = covopt.cp_rank(M7, method=method)  # of CP-rank 14: rank 7, moment bounds 2.65 and 4.21
    assert certificate.lower == 7 and failed(certificate) == set()


def test_an_undecided_component_beside_a_decided_one():
    # the factor of the decided component is not kept, so its bound must not be claimed either
    A = np.zeros((8, 8))
    A[:7, :7], A[7, 7] = np.array(M7) + 0.25, 1.5
    found = covopt.cp_rank(A, time_limit_s=1e-4)
    assert (found.status, found.upper, found.factor) == (CPStatus.UNDECIDED, None, None)
    assert failed(found) == set()


# ---- floats at the edge: a bound that holds for every matrix within the tolerance holds there, too
TOL = 1e-9


def around(value, steps=200):
    """Doubles next to a number, on both sides."""
    return value + np.arange(-steps, steps + 1) * np.spacing(value)


def test_the_rank_of_every_matrix_within_the_tolerance():
    """[[1, a], [a, 1]] is within tol of a matrix of rank one, as soon as 1 − tol ≤ a + tol."""
    for entry in around(1.0 - 2.0 * TOL):
        found = rank_bound(SymmetricMatrix(np.array([[1.0, entry], [entry, 1.0]])), TOL)
        if 1 - Fraction(TOL) <= Fraction(float(entry)) + Fraction(TOL):
            assert found == 1
    apart = 1.0 - 2.0 * TOL - 1e-12
    assert rank_bound(SymmetricMatrix(np.array([[1.0, apart], [apart, 1.0]])), TOL) == 2


def test_a_negative_direction_of_every_matrix_within_the_tolerance():
    """With diagonal 2 the margin of v = (1, −1) is tol (√2 + √2)², a rational number."""
    v, margin = [Fraction(1), Fraction(-1)], 8 * Fraction(TOL)
    told = 0
    for entry in around(2.0 + 4.0 * TOL):
        matrix = SymmetricMatrix(np.array([[2.0, entry], [entry, 2.0]]))
        exact = 4 - 2 * Fraction(float(entry)) < -margin
        found = is_negative(matrix, v, TOL), separated(matrix, [[1, -1], [-1, 1]], TOL)
        assert exact or found == (False, False)
        told += found == (True, True)
    assert told > 150


def test_a_negative_entry_is_compared_without_rounding():
    for entry in around(np.sqrt(6.0) * TOL):
        found = negative_entry(SymmetricMatrix(np.array([[2.0, -entry], [-entry, 3.0]])), TOL)
        assert (found is not None) == (Fraction(float(entry)) ** 2 > 6 * Fraction(TOL) ** 2)


def test_a_factor_has_to_fit_the_tolerance_that_is_stated():
    B = np.random.default_rng(0).uniform(0.1, 1.0, (3, 3))
    found = cp_rank(B.T @ B, tol=1e-9, time_limit_s=5)
    assert all(check.ok for check in verify_cp_rank(found))
    rows = {"rows": (found.factor * (1 + 2e-13)).tolist()}
    reasons = tuple(replace(r, data=r.data | rows) if r.method == "factor" else r for r in found.reasons)
    checks = verify_cp_rank(replace(found, tol=1e-14, reasons=reasons))
    bent = [check.ok for check in checks if check.name == "factor"]
    assert bent and not any(bent)


def test_exact_entries_and_floats_are_the_same_matrix():
    found = cp_rank([[2, 1], [1, 2]])
    moved = np.nextafter(found.matrix.values, 3.0)
    bent = replace(found, matrix=SymmetricMatrix(moved, found.matrix.exact))
    assert verify_cp_rank(bent)[0].detail == "the exact entries differ from the floats"


# ---------------------- graphs, their matrices, and every way a matrix or a graph can be unusable.
@pytest.mark.parametrize(
    ("graph", "vertices", "edges"),
    [
        (graphs.complete_bipartite(3, 4), 7, 12),
        (graphs.cycle(6), 6, 6),
        (graphs.petersen(), 10, 15),
        (graphs.grotzsch(), 11, 20),
        (graphs.mycielski(5), 23, 71),
    ],
)
def test_named_graphs(graph, vertices, edges):
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (vertices, edges)
    assert is_triangle_free(list(graph.edges))
    A = graphs.graph_matrix(graph)
    assert (np.diag(A) == [degree for _, degree in graph.degree]).all()
    assert (A - np.diag(np.diag(A)) == nx.to_numpy_array(graph)).all()


def test_random_triangle_free_graphs():
    graph = graphs.random_triangle_free(30, random_state=1)
    assert is_triangle_free(list(graph.edges))
    again = graphs.random_triangle_free(30, random_state=1)
    assert set(graph.edges) == set(again.edges)
    # nothing can be added
    for u, v in nx.complement(graph).edges:
        assert set(graph[u]) & set(graph[v])
    assert graphs.random_triangle_free(30, n_edges=20, random_state=1).number_of_edges() == 20


def test_halves_may_differ_by_rounding_of_their_own_size():
    """What a scaling of rows and columns leaves as it is: the largest entry excuses nothing elsewhere."""
    for scale in (1.0, 2.0**-40, 2.0**40):
        d = np.array([1.0, scale])
        near, far = (np.array([[1.5, 0.5], [0.5 + gap, 1.5]]) * np.outer(d, d) for gap in (1e-13, 1e-9))
        assert (read_matrix(near).values == read_matrix(near).values.T).all()
        with pytest.raises(InputError, match="A must be symmetric"):
            read_matrix(far)
    with pytest.raises(InputError, match="A must be symmetric"):
        read_matrix(np.array([[1e15, 1e15 - 1], [1e15 - 2, 1e15]]))  # integers are exact, and these differ


def test_csv_written_from_floats_is_read_as_floats(tmp_path):
    # rounding made such a matrix "not completely positive" while its decimals counted as exact
    B = np.random.default_rng(0).random((3, 5))
    np.savetxt(tmp_path / "m.csv", B.T @ B, delimiter=",")
    matrix = read_csv(tmp_path / "m.csv")
    assert matrix.exact is None
    assert abs(matrix.values - B.T @ B).max() < 1e-15
    np.savetxt(tmp_path / "m.csv", np.array([[2.0, 1.0], [1.0, 2.0]]), delimiter=",")
    assert read_csv(tmp_path / "m.csv").exact.tolist() == [[2, 1], [1, 2]]
    for text, exact in (
        ("1234567890123456789\n", [[1234567890123456789]]),
        ("# a comment\n1; 0.1\n0.1; 2/3\n", [[1, Fraction(1, 10)], [Fraction(1, 10), Fraction(2, 3)]]),
    ):
        (tmp_path / "m.csv").write_text(text)
        assert read_csv(tmp_path / "m.csv").exact.tolist() == exact
