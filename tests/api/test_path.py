import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import covopt
from covopt.certificates.certify import conclude
from covopt.cli import app
from covopt.errors import NotCertifiedWarning, PathStoppedWarning, SolutionFileError
from covopt.plotting.history import plot_path
from tests.solvers.test_regularised import targets_for


def table(name, n=12, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 2)), targets_for(name, n, rng)


def test_lambda_max_by_hand():
    # −∇C(0) = 2y/N on orthogonal rows: ½ ‖(2·3, 2·4)‖/2
    assert covopt.lambda_max(np.eye(2), [3.0, 4.0], bias=0.0) == pytest.approx(2.5)
    assert covopt.lambda_max(np.eye(2), [3.0, 4.0], bias=0.0, sample_weight=[1, 0]) == pytest.approx(3.0)
    assert covopt.lambda_max([[0.0], [1.0]], [2.0, 2.0], output_bias="free") == 0.0
    assert covopt.lambda_max([[0.0], [1.0]], [0.5, 0.5], output_bias="penalized") == 0.0
    assert covopt.lambda_max([[0.0], [1.0]], [0.0, 0.0]) == 0.0


def test_a_stopped_path_says_where():
    X, y = table("squared", 12)
    calls = []

    def stop(state):
        calls.append(state)
        return len(calls) == 8

    with pytest.warns(PathStoppedWarning, match=r"stopped at lam = .*; \d of 6 points are certified"):
        some = covopt.path(X, y, n_lams=6, callback=stop)
    assert 0 < len(some) < 6
    assert some[-1].status.code == "callback"
    assert all(s.status.code == "certified" for s in some[:-1])
    with (
        pytest.warns(NotCertifiedWarning, match="lambda_max is proved, not exact"),
        pytest.warns(PathStoppedWarning, match="time limit"),
    ):
        assert len(covopt.path(X, y, n_lams=6, time_limit_s=1e-9)) <= 1

    def interrupt(state):
        raise KeyboardInterrupt

    with pytest.warns(PathStoppedWarning, match="interrupted"):
        assert covopt.path(X, y, lams=[0.1, 0.01], callback=interrupt)[-1].status.code == "interrupted"


def test_an_interrupted_certificate_does_not_cost_the_path(monkeypatch):
    """Ctrl-C may come between the rounds of two points, where no solver is there to catch it."""
    X, y = table("squared", 12)
    calls = []

    def interrupted(*arguments, **problem):
        calls.append(arguments)
        if len(calls) in stop:
            raise KeyboardInterrupt
        return conclude(*arguments, **problem)

    monkeypatch.setattr("covopt.api.run.conclude", interrupted)
    for at, done in ((3, 2), (1, 0)):
        stop = [at]
        calls.clear()
        with pytest.warns(PathStoppedWarning, match=f"{done} of 5 points are certified"):
            found = covopt.path(X, y, n_lams=5)
        assert [s.status.code for s in found] == ["certified"] * done + ["interrupted"]
        assert covopt.verify(found[-1]).ok  # its bracket holds


def test_files_and_pictures(tmp_path):
    X, y = table("logistic", 8)
    solutions = covopt.path(X, y, loss="logistic", n_lams=3)
    lams = [s.lam for s in solutions]
    assert lams == pytest.approx(covopt.lambda_max(X, y, loss="logistic") * np.array([1.0, 1e-3**0.5, 1e-3]))
    solutions.save(tmp_path / "p.json")
    again = covopt.load(tmp_path / "p.json")
    assert [s.to_dict() for s in again] == [s.to_dict() for s in solutions]
    figure = plot_path(solutions)
    assert len(figure.axes) == 5
    assert "3 certified" in figure.get_suptitle()
    with pytest.raises(SolutionFileError, match="cannot read"):
        covopt.load(tmp_path / "none.json")


# ---------------------------------------------------------------------- verify of a path's file
@pytest.fixture
def saved(tmp_path):
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"a": rng.standard_normal(12), "b": rng.standard_normal(12)})
    table["y"] = np.where(table.a + rng.standard_normal(12) > 0, "yes", "no")
    table.to_csv(tmp_path / "t.csv", index=False)
    done = CliRunner().invoke(
        app, ["path", str(tmp_path / "t.csv"), "--target", "y", "--loss", "logistic", "--n-lams", "4", "--out",
              str(tmp_path / "p.json")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return tmp_path


def test_verify_reads_the_file_of_a_path_and_finds_the_point_that_was_changed(saved):
    def verify(*more):
        return CliRunner().invoke(app, ["verify", str(saved / "p.json"), *more])

    for more in ((), (str(saved / "t.csv"),)):
        done = verify(*more)
        assert done.exit_code == 0, done.output
        assert done.output.count("ok     λ = ") == 4
        assert "4 points, λ falling" in done.output
    other = pd.read_csv(saved / "t.csv")
    other.loc[3, "a"] += 1.0
    other.to_csv(saved / "other.csv", index=False)
    done = verify(str(saved / "other.csv"))
    assert (done.exit_code, done.output.count("FAILED λ = ")) == (4, 4)
    whole = json.loads((saved / "p.json").read_text())
    points = whole["solutions"]
    lower = {**points[2], "lower_bound": 1.5 * points[2]["lower_bound"]}
    for changed, code, words in (
        ([*points[:2], lower, points[3]], 4, "FAILED λ = "), (points[::-1], 4, "λ not falling"),
        ([], 1, "a path without points"), ({"a": 1}, 1, "a path without points"),
        ([*points[:2], 3, points[3]], 1, "point 2 of the path"), ([*points[:2], {}], 1, "point 2 of the path"),
    ):  # fmt: skip
        (saved / "p.json").write_text(json.dumps({**whole, "solutions": changed}))
        done = verify()
        assert done.exit_code == code, done.output
        assert done.output.count(words) == 1, done.output


@pytest.mark.parametrize("other", ["table", "bias", "weights", "potential", "interpolation"])
def test_verify_wants_one_problem(other):
    """Each point may be proved, and yet the path be put together from the solutions of several problems."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6, 2)), rng.standard_normal(6)
    points = covopt.path(X, y, lams=[0.1, 0.01])
    assert covopt.verify(points).ok
    strange = {
        "table": lambda: covopt.fit(X + 1.0, y, lam=1e-3),
        "bias": lambda: covopt.fit(X, y, lam=1e-3, bias=2.0),
        "weights": lambda: covopt.fit(X, y, lam=1e-3, sample_weight=np.arange(6.0)),
        "potential": lambda: covopt.fit(X, y, lam=1e-3, potential="label-noise"),
        "interpolation": lambda: covopt.min_norm(X, y),
    }[other]()
    found = covopt.verify([*points, strange])
    assert [c.name for c in found.checks if not c.ok] == ["problem"]
    assert "point 2 (counting from 0) has another table" in found.summary()
