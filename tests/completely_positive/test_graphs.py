"""Graphs, their matrices, and every way a matrix or a graph can be unusable."""

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from covopt.completely_positive import graphs
from covopt.completely_positive.matrix import read_csv, read_matrix
from covopt.completely_positive.pattern import is_triangle_free, support_pattern
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
    assert read_matrix([[1.0, 2.0], [2.0, 5.0]]).exact == ((1, 2), (2, 5))
    third = Fraction(1, 3)
    assert read_matrix([[1, third], [third, 1]]).integers() == [[3, 1], [1, 3]]
    assert read_matrix(np.array([[1, 2], [2, 5]])).exact is not None
    assert read_matrix([[1.5, 0.0], [0.0, 1.0]]).exact is None


def test_rounding_of_the_symmetry_is_forgiven():
    A = np.array([[1.5, 0.3], [0.3 + 1e-15, 1.0]])
    assert (read_matrix(A).values == read_matrix(A).values.T).all()


def test_pattern_names_ambiguous_entries():
    A = np.array([[1.0, 1e-6, 0.0], [1e-6, 1e-12, 1e-22], [0.0, 1e-22, 1.0]])
    pattern = support_pattern(A)
    assert pattern.edges == ((0, 1),)  # small only before scaling
    assert pattern.ambiguous == ((1, 2),)
    assert pattern.components() == [(0, 1, 2)]


def test_files(tmp_path):
    graph = graphs.petersen()
    nx.write_graph6(graph, tmp_path / "g.g6")
    nx.write_graphml(graph, tmp_path / "g.graphml")
    for name in ("g.g6", "g.graphml"):
        assert nx.is_isomorphic(graphs.read_graph(tmp_path / name), graph)
    (tmp_path / "two.g6").write_bytes(nx.to_graph6_bytes(graph, header=False) * 2)
    with pytest.raises(InputError, match="holds 2 graphs"):
        graphs.read_graph(tmp_path / "two.g6")
    (tmp_path / "bad.graphml").write_text("<nothing")
    with pytest.raises(InputError, match=r"is not a readable \.graphml file"):
        graphs.read_graph(tmp_path / "bad.graphml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2\n2,x\n", "line 2: 'x' is no number"),
        ("1,2\n2,1/0\n", "line 2: '1/0' is no number"),
        ("1,2,3\n2,1,0\n", "must hold a square matrix; received 2 rows of 3 entries"),
        ("", "received 0 rows of no entries"),
        ("1,2\n3,1\n", "A must be symmetric"),
        ("1,0\n0,nan\n", "line 2: 'nan' is no number"),
        ("1e99999999\n", "line 1: '1e99999999' is out of the range of double precision"),
        ("1,0\n0,1e-400\n", "line 2: '1e-400' is out of the range of double precision"),
    ],
)
def test_csv_files_that_are_refused(tmp_path, text, words):
    (tmp_path / "m.csv").write_text(text)
    with pytest.raises(InputError, match=words):
        read_csv(tmp_path / "m.csv")


def test_csv_keeps_decimals_and_fractions(tmp_path):
    (tmp_path / "m.csv").write_text("# a comment\n1; 0.1\n0.1; 2/3\n")
    assert read_csv(tmp_path / "m.csv").exact == ((1, Fraction(1, 10)), (Fraction(1, 10), Fraction(2, 3)))
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not a text file"):
        read_csv(tmp_path / "b.txt")


def test_csv_written_from_floats_is_read_as_floats(tmp_path):
    # rounding made such a matrix "not completely positive" while its decimals counted as exact
    B = np.random.default_rng(0).random((3, 5))
    np.savetxt(tmp_path / "m.csv", B.T @ B, delimiter=",")
    matrix = read_csv(tmp_path / "m.csv")
    assert matrix.exact is None
    assert abs(matrix.values - B.T @ B).max() < 1e-15
    np.savetxt(tmp_path / "m.csv", np.array([[2.0, 1.0], [1.0, 2.0]]), delimiter=",")
    assert read_csv(tmp_path / "m.csv").exact == ((2, 1), (1, 2))
    (tmp_path / "m.csv").write_text("1234567890123456789\n")
    assert read_csv(tmp_path / "m.csv").exact == ((1234567890123456789,),)
