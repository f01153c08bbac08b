"""SGD against exact: what the benchmark in benchmarks/interpolation measures, repairs and returns."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import covopt

FOLDER = Path(__file__).parents[2] / "benchmarks" / "interpolation"
X4 = np.array([[-1.0], [0.0], [1.0], [2.0]])
Y4 = np.array([1.0, -1.0, 0.5, 2.0])


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
        if name.startswith("benchmark_utils"):
            return importlib.import_module(name)
        spec = importlib.util.spec_from_file_location(f"interpolation_{Path(name).stem}", FOLDER / name)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load
    forget_helpers()


def make_objective(parts, X=X4, y=Y4):
    objective = parts("objective.py").Objective.get_instance()
    objective.set_data(X=X, y=y)
    return objective


def arrays(network):
    return network.hidden_weights, network.output_weights[:, 0]


# ------------------------------------------------------------------ objective
def test_the_certified_minimiser_has_no_gap_and_its_cost_is_its_norm(parts):
    objective = make_objective(parts)
    solution = covopt.min_norm(X4, Y4, tol=1e-9)
    found = objective.evaluate_result([arrays(solution.network)], "")
    assert found["value"] == pytest.approx(solution.network.squared_norm, rel=1e-12)
    assert 0 <= found["gap"] + 1e-12 <= 1e-8
    assert found["residual"] <= 1e-9


def test_the_best_of_several_networks_counts_and_imbalance_costs_nothing(parts):
    objective = make_objective(parts)
    hidden, output = arrays(covopt.min_norm(X4, Y4, tol=1e-9).network)
    worse = (np.vstack([hidden, hidden[:1], hidden[:1]]), np.concatenate([output, [1.0, -1.0]]))
    one = objective.evaluate_result([worse], "")
    both = objective.evaluate_result([worse, (3.0 * hidden, output / 3.0)], "")
    assert one["gap"] > 0.01
    assert both["gap"] <= 1e-8


def test_a_network_that_cannot_be_repaired_costs_infinitely_much(parts):
    objective = make_objective(parts)
    silent = (np.array([[1.0, -5.0]]), np.array([1.0]))
    broken = (np.array([[np.nan, 1.0]]), np.array([1.0]))
    for networks in ([], [silent], [broken]):
        found = objective.evaluate_result(networks, "")
        assert found["value"] == np.inf
        assert found["gap"] == 999.0


def test_a_cost_below_the_certified_bound_is_an_error(parts):
    objective = make_objective(parts)
    objective.dual = 2.0 * objective.dual
    with pytest.raises(RuntimeError, match="below the certified bound"):
        objective.evaluate_result([arrays(covopt.min_norm(X4, Y4).network)], "")


# ------------------------------------------------------------------ repair
@pytest.mark.parametrize("method", ["by_output_weights", "by_all_weights", "by_more_neurons"])
@pytest.mark.parametrize("size", [1e-4, 1e-7])
def test_repairs_meet_the_points_and_stay_close(parts, method, size):
    tools = parts("benchmark_utils.repair")
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((10, 2)), rng.standard_normal(10)
    lifted = np.column_stack([X, np.ones(10)])
    hidden = rng.standard_normal((30, 3))
    output = np.linalg.lstsq(np.maximum(lifted @ hidden.T, 0.0), y, rcond=None)[0]
    start = tools.balance(hidden, output * (1.0 + size * rng.standard_normal(30)))
    assert tools.residual(lifted, y, *start) > 1e-9
    found = tools.balance(*getattr(tools, method)(lifted, y, *start))
    assert tools.residual(lifted, y, *found) <= 1e-12
    change = tools.squared_norm(*found) / tools.squared_norm(*start) - 1.0
    assert abs(change) <= 30 * size


def test_the_cheapest_repair_is_returned_balanced(parts):
    tools = parts("benchmark_utils.repair")
    lifted = np.column_stack([X4, np.ones(4)])
    optimum = covopt.min_norm(X4, Y4, tol=1e-9)
    hidden, output = arrays(optimum.network)
    found = tools.repair(lifted, Y4, 2.0 * hidden, 0.5 * 0.9999 * output)
    assert found is not None
    assert np.allclose(np.linalg.norm(found[0], axis=1), np.abs(found[1]), rtol=1e-12)
    assert tools.squared_norm(*found) == pytest.approx(optimum.cost, rel=2e-4)
    assert tools.squared_norm(*found) >= optimum.lower_bound * (1 - 1e-9)


# ------------------------------------------------------------------ solvers
def test_exact_solvers_agree(parts):
    objective = make_objective(parts)
    for file, parameters in (("covopt_min_norm", {}), ("all_cells", {"backend": "CLARABEL"})):
        solver = parts(f"solvers/{file}.py").Solver.get_instance(**parameters)
        solver.set_objective(**objective.get_objective())
        solver.run(1e30)
        assert objective.evaluate_result(**solver.get_result())["value"] == np.inf
        solver.run(1e-7)
        assert objective.evaluate_result(**solver.get_result())["gap"] <= 1e-6


@pytest.mark.parametrize("optimizer", ["gd", "sgd", "adam", "lbfgs"])
def test_training_comes_close_and_never_below(parts, optimizer):
    pytest.importorskip("torch")
    objective = make_objective(parts)
    Solver = parts("solvers/covopt_training.py").Solver
    solver = Solver.get_instance(optimizer=optimizer, width=4, seeds=2, device=None)
    solver.set_objective(**objective.get_objective())
    solver.run(150)
    found = solver.get_result()
    assert len(found["networks"]) == (2 if optimizer == "lbfgs" else 3)
    assert -1e-9 <= objective.evaluate_result(**found)["gap"] <= 2.0
