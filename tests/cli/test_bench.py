"""The cross-peer benchmark: what its objective measures, what its solvers return, and a run of both folders."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import covopt
from covopt.cli import commands

FOLDER = Path(__file__).parents[2] / "benchmarks" / "weight_decay"
INSTANCE = "simulated[n_samples=15,targets=numbers]"


def forget_helpers():
    """Unload the modules of a benchmark: another one has others by the same names."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "benchmark_utils"]:
        del sys.modules[name]


@pytest.fixture
def parts(monkeypatch):
    """Load the files of the benchmark, without a run."""
    pytest.importorskip("benchopt")
    monkeypatch.syspath_prepend(str(FOLDER))
    forget_helpers()

    def load(name):
        spec = importlib.util.spec_from_file_location(f"bench_{Path(name).stem}", FOLDER / name)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load
    forget_helpers()


def make_objective(parts, X, y, **parameters):
    Objective = parts("objective.py").Objective
    objective = Objective.get_instance(**{"loss": "squared", "reg": 0.1, "output_bias": "none", **parameters})
    objective.set_data(X=X, y=y)
    return objective


X4 = np.array([[-1.0], [0.0], [1.0], [2.0]])
Y4 = np.array([1.0, -1.0, 0.5, 2.0])


def test_bench_is_listed_in_a_checkout_only(tmp_path):
    assert "bench" in CliRunner().invoke(commands.app, ["--help"]).output
    shutil.copytree(
        Path(covopt.__file__).parent, tmp_path / "covopt", ignore=shutil.ignore_patterns("__pycache__")
    )
    command = [sys.executable, "-m", "covopt", "--help"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    said = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
    ).stdout
    assert "cp-rank" in said
    assert "bench" not in said


# ------------------------------------------------------------------ objective
def test_value_and_gap_of_a_network_by_hand(parts):
    objective = make_objective(parts, X4, Y4)
    found = objective.evaluate_result(np.array([[1.0, 0.5]]), np.array([2.0]), 0.0, "")
    fitted = 2.0 * np.maximum(X4[:, 0] + 0.5, 0.0)
    expected = np.mean((fitted - Y4) ** 2) + objective.lam * (1.0 + 0.25 + 4.0)
    assert found["value"] == pytest.approx(expected, rel=1e-14)
    assert found["gap"] == pytest.approx((expected - objective.lower_bound) / expected, rel=1e-12)
    assert (found["n_neurons"], found["squared_norm"]) == (1, 5.25)


def test_the_optimum_has_no_gap_and_lambda_max_is_where_neurons_vanish(parts):
    objective = make_objective(parts, X4, Y4, reg=0.3)
    network = covopt.fit(X4, Y4, lam=objective.lam, tol=1e-8).network
    found = objective.evaluate_result(network.hidden_weights, network.output_weights[:, 0], 0.0, "")
    assert found["n_neurons"] > 0
    assert found["gap"] <= 2e-8
    above = make_objective(parts, X4, Y4, reg=1.001)
    assert above.evaluate_result(**above.get_one_result())["gap"] <= 1e-8


def test_penalised_output_bias_counts_and_is_refused_where_there_is_none(parts):
    objective = make_objective(parts, X4, Y4, output_bias="penalized")
    found = objective.evaluate_result(np.zeros((0, 2)), np.zeros(0), 0.5, "")
    assert found["value"] == pytest.approx(np.mean((0.5 - Y4) ** 2) + 0.25 * objective.lam)
    with pytest.raises(ValueError, match=r"output bias \(0\.5\), and the problem allows none"):
        make_objective(parts, X4, Y4).evaluate_result(np.zeros((0, 2)), np.zeros(0), 0.5, "")


def test_a_value_below_the_bound_is_an_error(parts):
    objective = make_objective(parts, X4, Y4)
    objective.lower_bound *= 2.0
    network = covopt.fit(X4, Y4, lam=objective.lam).network
    with pytest.raises(RuntimeError, match="below the certified bound"):
        objective.evaluate_result(network.hidden_weights, network.output_weights[:, 0], 0.0, "")


# ------------------------------------------------------------------ solvers and data
@pytest.mark.parametrize("output_bias", ["none", "penalized"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_all_cells_and_covopt_agree(parts, loss, output_bias):
    y = Y4 if loss == "squared" else np.sign(Y4)
    objective = make_objective(parts, X4, y, loss=loss, output_bias=output_bias)
    for file, parameters in (("covopt_fit", {}), ("cvxpy_all_cells", {"backend": "CLARABEL"})):
        solver = parts(f"solvers/{file}.py").Solver.get_instance(**parameters)
        solver.set_objective(**objective.get_objective())
        solver.run(1e-8)
        assert objective.evaluate_result(**solver.get_result())["gap"] <= 1e-6, file


# ------------------------------------------------------------------ the whole run
@pytest.mark.parametrize(
    ("folder", "instance", "gap"),
    [("weight_decay", INSTANCE, 1e-6), ("interpolation", "simulated[n_samples=6,targets=noise]", 1e-3)],
)
def test_benchopt_runs_the_folder_and_measures(tmp_path, monkeypatch, folder, instance, gap):
    benchopt = pytest.importorskip("benchopt")
    monkeypatch.setenv("BENCHOPT_CACHE", str(tmp_path / "cache"))
    forget_helpers()
    file = benchopt.run_benchmark(
        str(FOLDER.parent / folder), solver_names=["covopt"], dataset_names=[instance], plot_result=False,
        show_progress=False, timeout=60, max_runs=1000, output_file=str(tmp_path / "results.parquet"),
    )  # fmt: skip
    forget_helpers()
    frame = pd.read_parquet(file)
    assert frame.groupby(["dataset_name", "objective_name"])["objective_lower_bound"].nunique().eq(1).all()
    assert -1e-11 <= frame["objective_gap"].min() <= gap


def test_the_command_hands_on_to_benchopt_and_names_a_folder_that_is_none(tmp_path, monkeypatch):
    pytest.importorskip("benchopt")
    asked = []
    monkeypatch.setattr(
        commands.subprocess, "run", lambda words, check: asked.append(words) or SimpleNamespace(returncode=3)
    )
    assert CliRunner().invoke(commands.app, ["bench", "--solver", "covopt", "--timeout", "5"]).exit_code == 3
    assert asked[0][2:] == ["benchopt", "run", str(FOLDER), "--solver", "covopt", "--timeout", "5"]
    refused = CliRunner().invoke(commands.app, ["bench", "--benchmark", str(tmp_path)])
    assert refused.exit_code == 1 and "is no benchmark: run covopt bench in a checkout" in refused.stderr
