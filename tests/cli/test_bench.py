"""The cross-peer benchmark: what its objective measures, what its solvers return, and a run of it."""

import importlib
import importlib.util
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import covopt
from covopt import cli
from tests.cases import drawn
from tests.commands import refused, run

FOLDER = Path(__file__).parents[2] / "benchmarks" / "peers"
INSTANCE = "simulated[n_samples=15,targets=numbers]"


def forget_helpers():
    """Unload the helpers of the benchmark, whose name is anybody's."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "benchmark_utils"]:
        del sys.modules[name]


def load(file):
    spec = importlib.util.spec_from_file_location(f"bench_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def parts(monkeypatch):
    """Load the files of the benchmark, without a run."""
    monkeypatch.syspath_prepend(str(FOLDER))
    forget_helpers()

    def part(name):
        return importlib.import_module(name) if name.startswith("benchmark_utils") else load(FOLDER / name)

    yield part
    forget_helpers()


def make_objective(parts, X, y, **parameters):
    Objective = parts("objective.py").Objective
    objective = Objective.get_instance(**{"loss": "squared", "reg": 0.1, "output_bias": "none", **parameters})
    objective.set_data(X=X, y=y)
    return objective


def arrays(network):
    return network.hidden_weights, network.output_weights[:, 0], 0.0


X4 = np.array([[-1.0], [0.0], [1.0], [2.0]])
Y4 = np.array([1.0, -1.0, 0.5, 2.0])


# ------------------------------------------------------------------ objective
def test_value_and_gap_of_networks_by_hand(parts):
    objective = make_objective(parts, X4, Y4)
    found = objective.evaluate_result([(np.array([[1.0, 0.5]]), np.array([2.0]), 0.0)], "")
    fitted = 2.0 * np.maximum(X4[:, 0] + 0.5, 0.0)
    expected = np.mean((fitted - Y4) ** 2) + objective.lam * (1.0 + 0.25 + 4.0)
    assert found["value"] == pytest.approx(expected, rel=1e-14) and found["n_neurons"] == 1
    assert found["gap"] == pytest.approx((expected - objective.lower_bound) / expected, rel=1e-12)
    constant = (np.zeros((0, 2)), np.zeros(0), 0.5)
    objective = make_objective(parts, X4, Y4, output_bias="penalized")
    value = objective.evaluate_result([constant], "")["value"]
    assert value == pytest.approx(np.mean((0.5 - Y4) ** 2) + 0.25 * objective.lam)
    with pytest.raises(ValueError, match=r"output bias \(0\.5\), and the problem allows none"):
        make_objective(parts, X4, Y4).evaluate_result([constant], "")
    above = make_objective(parts, X4, Y4, reg=1.001)  # where neurons vanish
    assert above.evaluate_result(**above.get_one_result())["gap"] <= 1e-8


@pytest.mark.parametrize("loss", ["squared", "interpolation"])
def test_a_value_below_the_bound_is_an_error(parts, loss):
    objective = make_objective(parts, X4, Y4, loss=loss)
    objective.lower_bound *= 2.0
    found = covopt.min_norm(X4, Y4) if loss == "interpolation" else covopt.fit(X4, Y4, lam=objective.lam)
    with pytest.raises(RuntimeError, match="below the certified bound"):
        objective.evaluate_result([arrays(found.network)], "")


def test_the_best_of_several_interpolants_counts_and_imbalance_costs_nothing(parts):
    objective = make_objective(parts, X4, Y4, loss="interpolation")
    network = covopt.min_norm(X4, Y4, tol=1e-9).network
    hidden, output, _ = arrays(network)
    worse = (np.vstack([hidden, hidden[:1], hidden[:1]]), np.concatenate([output, [1.0, -1.0]]), 0.0)
    assert objective.evaluate_result([worse], "")["gap"] > 0.01
    found = objective.evaluate_result([worse, (3.0 * hidden, output / 3.0, 0.0)], "")
    assert 0 <= found["gap"] + 1e-12 <= 1e-8
    assert found["value"] == pytest.approx(network.squared_norm, rel=1e-9)
    silent, broken = ((np.array([[w, -5.0]]), np.array([1.0]), 0.0) for w in (1.0, np.nan))
    for networks in ([], [silent], [broken]):  # none can be repaired
        found = objective.evaluate_result(networks, "")
        assert (found["value"], found["gap"]) == (np.inf, 1.0)


@pytest.mark.parametrize("method", ["by_output_weights", "by_all_weights", "by_more_neurons"])
def test_repairs_meet_the_points_and_stay_close(parts, method):
    tools = parts("benchmark_utils.repair")
    for size in (1e-4, 1e-7):
        rng, X, y = drawn(1, (10, 2), 10)
        lifted, unit = np.column_stack([X, np.ones(10)]), np.abs(y).max()
        hidden = rng.standard_normal((30, 3))
        output = np.linalg.lstsq(np.maximum(lifted @ hidden.T, 0.0), y, rcond=None)[0]
        start = tools.balance(hidden, output * (1.0 + size * rng.standard_normal(30)), 0.0)
        assert np.abs(tools.missing(lifted, y, *start)).max() > 1e-9 * unit
        found = tools.balance(*getattr(tools, method)(lifted, y, *start))
        assert np.abs(tools.missing(lifted, y, *found)).max() <= 1e-12 * unit
        change = sum((w**2).sum() for w in found[:2]) / sum((w**2).sum() for w in start[:2]) - 1.0
        assert abs(change) <= 30 * size


# ------------------------------------------------------------------ solvers and data
TRAINED = {"width": 4, "seeds": 2, "device": None}
THROUGH, OPTIMIZERS = {"loss": "interpolation"}, ("gd", "sgd", "adam", "lbfgs")
SOLVERS = [  # the file, its parameters, the problem, what it is given, and how close it comes
    *(
        (file, parameters, dict(loss=loss, output_bias=kind), 1e-8, 1e-6)
        for file, parameters in (("covopt_itself", {}), ("cvxpy_all_cells", {"backend": "CLARABEL"}))
        for loss, kind in (("squared", "none"), ("logistic", "penalized"), ("interpolation", "penalized"))
    ),
    *(("training_batch", {"optimizer": name, **TRAINED}, THROUGH, 150, 0.67) for name in OPTIMIZERS),
    ("training_batch", {"optimizer": "adam", **TRAINED}, {"output_bias": "penalized"}, 150, 0.67),
]  # fmt: skip


@pytest.mark.parametrize(("file", "parameters", "terms", "given", "most"), SOLVERS)
def test_every_solver_comes_close_and_never_below(parts, file, parameters, terms, given, most):
    objective = make_objective(parts, X4, np.sign(Y4) if terms.get("loss") == "logistic" else Y4, **terms)
    solver = parts(f"solvers/{file}.py").Solver.get_instance(**parameters)
    solver.set_objective(**objective.get_objective())
    solver.run(given)
    found = solver.get_result()
    assert -1e-9 <= objective.evaluate_result(**found)["gap"] <= most
    if file == "training_batch":
        assert len(found["networks"]) == (2 if parameters["optimizer"] == "lbfgs" else 3)


# ------------------------------------------------------------------ the whole run
def test_benchopt_runs_the_folder_and_measures(tmp_path, monkeypatch):
    import benchopt

    monkeypatch.setenv("BENCHOPT_CACHE", str(tmp_path / "cache"))
    forget_helpers()
    file = benchopt.run_benchmark(
        str(FOLDER), solver_names=["covopt"], dataset_names=[INSTANCE], plot_result=False,
        show_progress=False, timeout=60, max_runs=1000, output_file=str(tmp_path / "results.parquet"),
    )  # fmt: skip
    forget_helpers()
    frame = pd.read_parquet(file)
    assert len(set(frame["objective_name"])) == 2  # squared loss, interpolation
    assert frame.groupby(["dataset_name", "objective_name"])["objective_lower_bound"].nunique().eq(1).all()
    assert (frame["objective_gap"] >= -1e-9).all()
    assert frame.groupby("objective_name")["objective_gap"].min().max() <= 1e-6


def test_the_command_hands_on_to_benchopt_and_is_there_in_a_checkout_only(tmp_path, monkeypatch):
    asked, ended = [], SimpleNamespace(returncode=3)
    monkeypatch.setattr(cli.subprocess, "run", lambda words, check: asked.append(words) or ended)
    assert run("bench", "--solver", "covopt", "--timeout", "5").exit_code == 3
    assert asked[0][2:] == ["benchopt", "run", str(FOLDER), "--solver", "covopt", "--timeout", "5"]
    said = refused("bench", "--benchmark", tmp_path)
    assert "is no benchmark: run covopt bench in a checkout" in said
    assert "bench" in run("--help").output
    elsewhere = tmp_path / "covopt/cli/__init__.py"
    elsewhere.parent.mkdir(parents=True)
    shutil.copy(cli.__file__, elsewhere)
    listed = CliRunner().invoke(load(elsewhere).app, ["--help"]).output
    assert "cp-rank" in listed and "bench" not in listed
