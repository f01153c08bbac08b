"""Graphs, their matrices, and every way a matrix or a graph can be unusable."""

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from covopt.completely_positive import graphs
from covopt.completely_positive.graphs import is_triangle_free
from covopt.completely_positive.matrix import read_csv, read_matrix, support_pattern
from covopt.errors import InputError


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


def test_what_stays_exact():
    assert read_matrix([[1.0, 2.0], [2.0, 5.0]]).exact.tolist() == [[1, 2], [2, 5]]
    third = Fraction(1, 3)
    assert read_matrix([[1, third], [third, 1]]).exact.tolist() == [[1, third], [third, 1]]
    assert read_matrix(np.array([[1, 2], [2, 5]])).exact is not None
    assert read_matrix([[1.5, 0.0], [0.0, 1.0]]).exact is None
    values = read_matrix(
        np.array([[1.5, 0.3], [0.3 + 1e-15, 1.0]])
    ).values  # rounding of the symmetry is forgiven
    assert (values == values.T).all()


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


def test_pattern_names_ambiguous_entries():
    A = np.array([[1.0, 1e-6, 0.0], [1e-6, 1e-12, 1e-22], [0.0, 1e-22, 1.0]])
    pattern = support_pattern(A)
    assert pattern.edges == ((0, 1),)  # small only before scaling
    assert pattern.ambiguous == ((1, 2),)
    assert pattern.components() == [(0, 1, 2)]


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
