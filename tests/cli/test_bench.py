"""The cross-peer benchmark: what its objective measures, what its solvers return, and ``covopt bench``."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import covopt
from covopt.cli import app
from covopt.cli import bench as cli_bench
from covopt.errors import InputError, SolverUnavailableError
from covopt.plotting.bench import plot_bench, solver_labels

FOLDER = Path(__file__).parents[2] / cli_bench.FOLDER
INSTANCE = "simulated[n_samples=15,targets=numbers]"
runner = CliRunner()


def evaluation(solver="covopt", time=1.0, gap=1e-3, **changes):
    row = {
        "dataset_name": "simulated[n_samples=15]",
        "objective_name": "weight-decay[loss=squared,reg=0.01]",
        "solver_name": solver,
        "stop_val": 1.0,
        "time": time,
        "objective_gap": gap,
        "objective_value": 1.0 + gap,
        "objective_lower_bound": 1.0,
        "objective_reference_gap": 1e-8,
        "objective_n_neurons": 3,
        "objective_n_samples": 15,
        "objective_n_features": 2,
        "objective_note": "",
        "p_obj_loss": "squared",
        "p_obj_reg": 0.01,
    }
    return {**row, **changes}


@pytest.fixture
def parts(monkeypatch):
    """Load the files of the benchmark, without a run."""
    pytest.importorskip("benchopt")
    monkeypatch.syspath_prepend(str(FOLDER))
    cli_bench.forget_helpers()

    def load(name):
        spec = importlib.util.spec_from_file_location(f"bench_{Path(name).stem}", FOLDER / name)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load
    cli_bench.forget_helpers()


def make_objective(parts, X, y, **parameters):
    Objective = parts("objective.py").Objective
    objective = Objective.get_instance(**{"loss": "squared", "reg": 0.1, "output_bias": "none", **parameters})
    objective.set_data(X=X, y=y)
    return objective


X4 = np.array([[-1.0], [0.0], [1.0], [2.0]])
Y4 = np.array([1.0, -1.0, 0.5, 2.0])


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


# ------------------------------------------------------------------ covopt bench
def test_bench_runs_measures_and_draws(tmp_path):
    pytest.importorskip("benchopt")
    out, plot = tmp_path / "results.parquet", tmp_path / "gap.png"
    arguments = ["bench", "--dataset", INSTANCE, "--timeout", "60", "--json"]
    chosen = ["--solver", "covopt", "--solver", "cvxpy-all-cells[backend=CLARABEL]"]
    run = runner.invoke(app, [*arguments, *chosen, "--out", str(out), "--plot", str(plot)])
    assert run.exit_code == 0, run.output
    content = json.loads(run.stdout)
    rows = {row["solver"].partition("[")[0]: row for row in content["results"]}
    assert set(rows) == {"covopt", "cvxpy-all-cells"}
    assert rows["covopt"]["gap"] <= 1e-6
    assert rows["cvxpy-all-cells"]["value"] == pytest.approx(rows["covopt"]["value"], rel=1e-6)
    assert rows["covopt"]["time_s"]["1e-06"] > 0
    frame = pd.read_parquet(out)
    assert frame.groupby(["dataset_name", "objective_name"])["objective_lower_bound"].nunique().eq(1).all()
    assert (frame["objective_gap"] >= -1e-11).all()
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert not (FOLDER / "outputs").exists()
    assert not (FOLDER / "__cache__").exists()


def test_bench_stops_training_at_the_time_limit():
    pytest.importorskip("benchopt")
    arguments = [
        "bench",
        "--dataset",
        INSTANCE,
        "--solver",
        "torch[optimizer=adam]",
        "--timeout",
        "1",
        "--json",
    ]
    run = runner.invoke(app, arguments)
    assert run.exit_code == 0, run.output
    (row,) = json.loads(run.stdout)["results"]
    assert 1e-6 < row["gap"] < 1
    assert row["time_s"]["1e-06"] is None


def test_bench_names_what_it_does_not_know():
    pytest.importorskip("benchopt")
    run = runner.invoke(app, ["bench", "--solver", "nobody", "--quiet"])
    assert run.exit_code == 1
    assert "nobody" in run.stderr
    assert run.stderr.startswith("error: ")


def test_bench_without_benchopt(monkeypatch):
    monkeypatch.setitem(sys.modules, "benchopt", None)
    with pytest.raises(SolverUnavailableError, match=r"pip install 'covopt-nn\[bench\]'"):
        cli_bench.run_bench(FOLDER, datasets=[], solvers=[], objectives=[], timeout=1.0, quiet=True)
    assert runner.invoke(app, ["bench"]).exit_code == 1


def test_an_interrupted_bench_keeps_what_has_finished(monkeypatch, tmp_path):
    benchopt = pytest.importorskip("benchopt")

    def interrupted(folder, *, collect, output_file, **options):
        if not collect:
            raise SystemExit(1)
        pd.DataFrame([evaluation()]).to_parquet(output_file)
        return output_file

    monkeypatch.setattr(benchopt, "run_benchmark", interrupted)
    out = tmp_path / "some.parquet"
    run = runner.invoke(app, ["bench", "--out", str(out)])
    assert run.exit_code == 3
    assert len(pd.read_parquet(out)) == 1


def test_an_interrupted_bench_with_nothing_finished(monkeypatch):
    benchopt = pytest.importorskip("benchopt")

    def interrupted(folder, *, collect, **options):
        raise RuntimeError if collect else KeyboardInterrupt

    monkeypatch.setattr(benchopt, "run_benchmark", interrupted)
    run = runner.invoke(app, ["bench"])
    assert run.exit_code == 3
    assert "interrupted before there was anything to save" in run.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--timeout", "0"], "--timeout must be a positive number of seconds"),
        (["--out", "results.csv"], "results are written as .parquet"),
        (["--plot", "gap.txt"], "change the extension"),
        (["--benchmark", "."], "is no benchmark"),
    ],
)
def test_bench_refuses_arguments(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = runner.invoke(app, ["bench", *arguments])
    assert run.exit_code == 1
    assert message in run.stderr


def test_the_benchmark_is_looked_for_around_us_and_around_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli_bench.find_benchmark(None) == FOLDER
    monkeypatch.setattr(cli_bench, "__file__", str(tmp_path / "lib" / "cli" / "bench.py"))
    with pytest.raises(InputError, match="comes with covopt's repository"):
        cli_bench.find_benchmark(None)


# ------------------------------------------------------------------ summary and figure
def test_summary_takes_the_least_time_to_each_gap():
    frame = pd.DataFrame(
        [
            evaluation(time=5.0, gap=5e-3, objective_note="slow"),
            evaluation(time=2.0, gap=1e-5),
            evaluation(time=3.0, gap=2e-7),
            evaluation("torch", time=1.0, gap=0.5),
        ]
    )
    ours, torch = cli_bench.summarise(frame)
    assert ours["time_s"] == {"0.01": 2.0, "0.0001": 2.0, "1e-06": 3.0}
    assert (ours["gap"], ours["notes"]) == (2e-7, ["slow"])
    assert set(torch["time_s"].values()) == {None}
    table = cli_bench.lines([ours, torch])
    assert table[0].startswith("simulated[n_samples=15]")
    assert table[2].split() == ["covopt", "2", "2", "3", "2.0e-07", "3"]
    assert table[-1].split() == ["torch", "-", "-", "-", "5.0e-01", "3"]


def test_figure_is_log_log_and_tells_solvers_apart_without_colour():
    names = ["covopt", *(f"torch[optimizer={name}]" for name in ("adam", "sgd", "lbfgs")), "adelie", "pyscnn"]
    rows = [
        evaluation(name, time=t, gap=g) for name in names for t, g in ((1.0, 1e-2), (2.0, 5e-2), (3.0, 0.0))
    ]
    rows.append(evaluation(stop_val=3e38, time=1e-9, gap=0.5))
    rows += [evaluation(name, objective_name="weight-decay[loss=logistic]") for name in names]
    figure = plot_bench(pd.DataFrame(rows), levels=(1e-2,))
    first, second = figure.axes
    curves = [line for line in first.get_lines() if line.get_label() in solver_labels(names).values()]
    assert len(curves) == len(names)
    assert len({(line.get_linestyle(), line.get_marker()) for line in curves}) == len(names)
    assert (first.get_xscale(), first.get_yscale()) == ("log", "log")
    assert first.get_xlabel() == "time (s)"
    for line in curves:
        assert list(line.get_xdata()) == [1.0, 2.0, 3.0]
        assert np.all(np.diff(line.get_ydata()) <= 0)
        assert np.all(line.get_ydata() > 0)
    assert second.get_title() != ""
    assert figure.legends[0].get_texts()[0].get_text() == "covopt"
