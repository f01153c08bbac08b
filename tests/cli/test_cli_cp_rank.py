"""covopt cp-rank: three kinds of files, exit codes, the certificate it saves."""

import json

import networkx as nx
import pytest
from typer.testing import CliRunner

from covopt.cli import app
from covopt.completely_positive.checking import verify_cp_rank


def run(*arguments):
    return CliRunner().invoke(app, ["cp-rank", *map(str, arguments)])


@pytest.mark.parametrize("name", ["g.g6", "g.graphml"])
def test_graph_files(tmp_path, name):
    {"g.g6": nx.write_graph6, "g.graphml": nx.write_graphml}[name](nx.petersen_graph(), tmp_path / name)
    result = run(tmp_path / name, "--out", tmp_path / "c.json")
    assert result.exit_code == 0, result.output
    assert "CP-rank    15" in result.output
    assert all(check.ok for check in verify_cp_rank(tmp_path / "c.json"))


def test_matrix_file_as_json(tmp_path):
    (tmp_path / "m.csv").write_text("2,1/3,0.1\n1/3,1,0\n0.1,0,1\n")
    result = run(tmp_path / "m.csv", "--json")
    content = json.loads(result.stdout)
    assert result.exit_code == content["exit_code"] == 0
    assert (content["lower"], content["upper"], content["is_exact"]) == (3, 3, True)
    assert {reason["method"] for reason in content["reasons"]} == {"triangle-free", "factor"}


def test_a_line_of_names_is_skipped_and_a_second_one_is_not(tmp_path):
    (tmp_path / "m.csv").write_text("u,x1\n2,1\n1,2\n")
    assert "CP-rank    2" in run(tmp_path / "m.csv").output
    for text in ("1,x\nx,1\n", "u,v\nw,x\n1,0\n"):
        (tmp_path / "m.csv").write_text(text)
        done = run(tmp_path / "m.csv")
        assert done.exit_code == 1
        assert "is no number" in done.output


def test_not_completely_positive_is_an_answer(tmp_path):
    (tmp_path / "m.csv").write_text("1 2\n2 1\n")
    result = run(tmp_path / "m.csv")
    assert result.exit_code == 0
    assert "NOT_CP" in result.output


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("m.csv", "1,2\n3,4\n", "A must be symmetric"),
        ("m.csv", "1,a\na,1\n", "line 1: 'a' is no number"),
        ("m.xlsx", "", "must end in .csv, .tsv or .txt (a matrix) or .g6 or .graphml (a graph)"),
        ("g.g6", "\x01", "is not a readable .g6 file"),
    ],
)
def test_input_errors_take_one_line_and_code_1(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    result = run(tmp_path / name)
    assert result.exit_code == 1
    assert words in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_weights_on_edges_are_refused_and_ones_are_none(tmp_path):
    path = tmp_path / "w.graphml"
    graph = nx.Graph()
    graph.add_weighted_edges_from([("a", "b", 1.0), ("b", "c", 1.0)])
    nx.write_graphml(graph, path)
    assert "CP-rank    2" in run(path).output
    graph["b"]["c"]["weight"] = 2.5
    nx.write_graphml(graph, path)
    result = run(path)
    assert result.exit_code == 1
    assert (
        "the edge between 'b' and 'c' has the weight 2.5, and EᵀE has no place for weights" in result.output
    )
    assert len(result.output.strip().splitlines()) == 1


def test_missing_file_and_quiet(tmp_path):
    assert run(tmp_path / "none.csv").exit_code == 1
    (tmp_path / "m.csv").write_text("1\n")
    result = run(tmp_path / "m.csv", "--quiet")
    assert (result.exit_code, result.output) == (0, "")
