"""What people see and hold: one line for each object, tables for notebooks, words, networks of lists."""

import logging

import numpy as np
import pandas as pd
import polars as pl
import pytest

import covopt
from covopt.api.solution_path import SolutionPath
from covopt.checks.speaking import logger, speaking
from covopt.datasets import make_random_plane
from covopt.errors import InputError

X, Y = make_random_plane(8)


@pytest.fixture(scope="module")
def solution():
    return covopt.min_norm(pd.DataFrame(X, columns=["a", "b<"]), Y)


def test_one_line_for_each_object(solution):
    line = repr(solution)
    assert line.startswith(f"Solution(certified, cost {solution.cost:.8g}, lower bound ")
    assert line.endswith("neurons, 8 points × 2 features)")
    fitted = covopt.fit(X, Y, lam=0.1)
    assert repr(fitted).startswith(f"Solution(certified, λ 0.1, objective {fitted.objective:.8g}, cost")
    network = solution.network
    expected = (
        f"ReLUNetwork({len(network)} neurons, 2 inputs → 1 output, bias 1, ‖W‖² {network.squared_norm:.8g})"
    )
    assert repr(network) == expected
    found = covopt.verify(solution)
    assert repr(found) == f"Verification(ok, {len(found.checks)} checks)"
    solution_wrong = covopt.Solution.from_dict(solution.to_dict())
    solution_wrong.dual = 2 * solution_wrong.dual
    assert repr(covopt.verify(solution_wrong)).startswith("Verification(FAILED: ")
    bounds = covopt.sparsity_bounds(X, Y)
    assert repr(bounds).startswith(f"SparsityBounds({bounds.lower} ≤ neurons ≤ {bounds.upper}, ")
    deep = covopt.DeepReLUNetwork([np.ones((3, 2)), np.ones((1, 3))])
    assert repr(deep) == "DeepReLUNetwork(2 → 3 → 1, bias 1, ‖W‖² 9)"
    assert all(len(repr(shown)) < 160 for shown in (solution, fitted, network, found, bounds, deep))


def test_tables_for_notebooks(solution):
    for shown in (solution, covopt.verify(solution), covopt.sparsity_bounds(X, Y)):
        html = shown._repr_html_()
        assert html.startswith("<table>")
        assert html.endswith("</table>")
    assert "a, b&lt; → y" in solution._repr_html_()


def test_a_path_is_a_list_and_a_table(tmp_path):
    points = covopt.path(X, Y, n_lams=3)
    assert isinstance(points, list)
    assert repr(points).startswith("SolutionPath(3 points, λ ")
    frame = points.to_frame()
    assert frame["lam"].tolist() == [p.lam for p in points]
    assert frame["lam"].tolist() == pytest.approx(covopt.lambda_max(X, Y) * np.array([1.0, 1e-3**0.5, 1e-3]))
    assert frame["neurons"].tolist() == [len(p.network) for p in points]
    assert set(frame["status"]) == {"certified"}
    assert points._repr_html_().count("<tr>") == 4
    assert repr(SolutionPath()) == "SolutionPath(no points)"
    points.save(tmp_path / "p.json")
    again = covopt.load(tmp_path / "p.json")
    assert isinstance(again, SolutionPath)
    assert again.to_frame().equals(frame)
    figure = again.plot()
    assert len(figure.axes) == 5 and "3 certified" in figure.get_suptitle()
    assert covopt.verify(points[0]).to_frame()["ok"].all()
    assert list(covopt.sparsity_bounds(X, Y).to_frame().columns) == [
        "kind",
        "value",
        "name",
        "source",
        "reason",
    ]


# ---------------------------------------------------------------------- networks


@pytest.mark.parametrize("library", [pd, pl])
def test_columns_are_found_by_name(solution, library):
    frame = library.DataFrame({"b<": X[:, 1], "more": X[:, 0], "a": X[:, 0]})
    np.testing.assert_allclose(solution.network.predict(frame), Y, atol=1e-9)
    with pytest.raises(InputError, match="X has no column called b<; it has a, c"):
        solution.network.predict(library.DataFrame({"a": X[:, 0], "c": X[:, 1]}))
    nameless = covopt.min_norm(X, Y).network
    np.testing.assert_allclose(
        nameless.predict(library.DataFrame({"p": X[:, 0], "q": X[:, 1]})), Y, atol=1e-9
    )
    network = covopt.ReLUNetwork([[1, 0], [-1, 0]], [1, 1], output_bias=[0.5])  # of lists
    assert network.predict([[-2.0], [0.5]]).tolist() == [2.5, 1.0] and network.output_weights.shape == (2, 1)
    assert covopt.ReLUNetwork(np.zeros((0, 3)), np.zeros((0, 2))).output_bias.tolist() == [0, 0]
    reduced = solution.network.reduce(X)
    assert reduced.feature_names == solution.network.feature_names == ("a", "b<")


# ---------------------------------------------------------------------- words
def test_verbose(capsys, caplog):
    covopt.min_norm(X, Y, verbose=1)
    said = capsys.readouterr().err
    assert said.startswith("covopt Solution(certified")
    assert said.count("\n") == 1
    covopt.fit(X, Y, lam=0.01, verbose=2)
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("covopt round 0: ")
    assert said[-1].startswith("covopt Solution(certified, λ 0.01")
    covopt.path(X, Y, n_lams=2, verbose=1)
    assert capsys.readouterr().err.count("covopt Solution(") == 2
    covopt.min_norm(X, Y)
    assert capsys.readouterr().err == ""
    with pytest.raises(RuntimeError), speaking(2):
        raise RuntimeError
    assert (logger.handlers, logger.level) == ([], logging.NOTSET)
    with caplog.at_level(logging.DEBUG, logger="covopt"):
        covopt.min_norm(X, Y)
    assert {record.levelname for record in caplog.records} == {"DEBUG", "INFO"}


def test_threads_are_those_of_the_machine(monkeypatch):
    import os

    from covopt.oracles.cascade import exact_oracle
    from covopt.parallel import available_threads

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3, 4}, raising=False)
    assert available_threads() == exact_oracle(np.eye(2), 0).n_threads == 5
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert available_threads() == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert available_threads() == 5
