"""Vector outputs end to end: closed forms, a second solver, the conditions of optimality, mutated certificates."""

import dataclasses
import json
import re

import numpy as np
import pytest

import covopt
from covopt.errors import InputError

RNG = np.random.default_rng(11)


def bipartite(n):
    """B_N of FL22 Prop 14: EᵀE for the incidence matrix E of the complete bipartite graph K_{N/2,N/2}."""
    half = n // 2
    ones = np.ones((half, half))
    return np.block([[half * np.eye(half), ones], [ones, half * np.eye(half)]])


def certified(X, Y, **options):
    solution = covopt.min_norm(X, Y, **options)
    assert solution.status is covopt.Status.CERTIFIED, solution.summary()
    report = covopt.verify(solution)
    assert report.ok, report.summary()
    assert solution.lower_bound <= solution.cost * (1 + 1e-12)
    return solution


def covariance(solution):
    """K₁ = Z Zᵀ of the balanced network."""
    heights = solution.network.lift(solution.data.X) @ solution.network.hidden_weights.T
    return heights @ heights.T


@pytest.mark.parametrize("n", [4, 6, 8, pytest.param(10, marks=pytest.mark.slow)])
def test_bipartite_matrices_cost_n_squared(n):
    solution = certified(np.eye(n), bipartite(n), bias=0)
    assert solution.cost == pytest.approx(n**2, rel=2e-6)
    assert solution.lower_bound <= n**2 * (1 + 1e-9)
    # FL22 Prop 14: at every minimiser K₁ = (YYᵀ)^{1/2}; a gap of 1e-6 leaves it a thousandth of its size
    assert np.abs(covariance(solution) - bipartite(n)).max() < 1e-2 * n


def test_one_hot_targets():
    labels = np.array([0, 0, 0, 1, 1, 2])
    solution = certified(np.eye(6), np.eye(3)[labels], bias=0)
    assert solution.cost == pytest.approx(2 * (np.sqrt(3) + np.sqrt(2) + 1), rel=2e-6)


def test_two_neurons_in_one_open_cell():
    Y = np.array([[2.0, 1.0], [1.0, 2.0]])
    solution = certified(np.eye(2), Y, bias=0)
    assert solution.cost == pytest.approx(8.0, rel=2e-6)  # 2 Tr Y, Y = (YYᵀ)^{1/2} completely positive
    assert len(solution.network) >= 2
    np.testing.assert_allclose(covariance(solution), Y, atol=1e-2)


def test_where_the_doubly_nonnegative_bound_is_not_tight():
    i = np.arange(5)
    Y = np.cos(4 * np.pi * (i[:, None] - i[None, :]) / 5) ** 2
    solution = certified(np.eye(5), Y, bias=0)
    assert solution.lower_bound <= 10.067982 + 1e-6
    assert solution.cost == pytest.approx(10.067982, abs=2e-5)


def test_targets_of_rank_one_are_one_output():
    X, y = RNG.standard_normal((12, 2)), RNG.standard_normal(12)
    one = certified(X, y)
    both = certified(X, np.outer(y, [3.0, -4.0]))
    assert both.cost == pytest.approx(5 * one.cost, rel=2e-6)
    assert both.dual.shape == (12, 2)
    assert certified(X, y[:, None]).cost == pytest.approx(one.cost, rel=1e-12)


def test_many_outputs_and_opposite_points():
    rng = np.random.default_rng(8)
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -2.0], [1.0, 1.0]])
    solution = certified(X, rng.standard_normal((5, 6)), bias=0)
    assert solution.network.output_weights.shape[1] == 6
    compass = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [1.0, 1.0], [-1.0, -1.0]])
    targets = np.zeros((6, 2))
    targets[4, 1] = 1.0  # the odd part of the second output is not linear
    with pytest.raises(InputError, match="are opposite points, and bias is 0"):
        covopt.min_norm(compass, targets, bias=0)


@pytest.mark.parametrize("output_bias", ["none", "penalized", "free"])
def test_a_saved_file_verifies_and_a_mutated_one_does_not(tmp_path, output_bias):
    rng = np.random.default_rng(5)
    X, Y = rng.standard_normal((7, 2)), rng.standard_normal((7, 2))
    solution = certified(X, Y, output_bias=output_bias)
    solution.save(tmp_path / "s.json")
    again = covopt.load(tmp_path / "s.json")
    np.testing.assert_array_equal(again.dual, solution.dual)
    np.testing.assert_array_equal(again.network.output_weights, solution.network.output_weights)
    assert covopt.verify(tmp_path / "s.json", X, Y, exact=True).ok
    assert not covopt.verify(tmp_path / "s.json", X, Y[:, ::-1]).ok

    def refused(change):
        content = json.loads((tmp_path / "s.json").read_text())
        change(content)
        (tmp_path / "bad.json").write_text(json.dumps(content))
        assert not covopt.verify(tmp_path / "bad.json").ok

    def scale(rows, factor):
        rows[:] = [[factor * entry for entry in row] for row in rows]

    refused(lambda c: scale(c["dual"], 1.01))
    refused(lambda c: scale(c["network"]["output_weights"], 0.99))
    refused(lambda c: c["dual"][0].__setitem__(1, c["dual"][0][1] + 0.05))
    refused(lambda c: c["network"]["output_bias"].__setitem__(1, 0.3))
    refused(lambda c: c.__setitem__("lower_bound", c["cost"] * 1.001))
    refused(lambda c: c["problem"]["Y"][2].__setitem__(0, 7.0))


def test_a_dual_of_the_wrong_shape_is_a_damaged_file(tmp_path):
    solution = certified(np.eye(2), np.array([[2.0, 1.0], [1.0, 2.0]]), bias=0)
    content = solution.to_dict()
    content["dual"] = [1.0, 2.0]
    with pytest.raises(covopt.errors.SolutionFileError, match="lengths of the arrays do not fit"):
        covopt.Solution.from_dict(content)


def test_uniqueness_and_the_sparsest_network():
    labels = np.array([0, 0, 1, 1, 1])
    solution = certified(np.eye(5), np.eye(2)[labels], bias=0, tol=1e-9)
    tight = solution.tight_set()
    assert tight.outputs.shape == (len(tight), 2)
    np.testing.assert_allclose(np.linalg.norm(tight.outputs, axis=1), 1.0)
    sparsest = solution.sparsest()
    assert sparsest.n_neurons <= len(solution.network)
    assert sparsest.lower_bound <= 2
    wide = certified(RNG.standard_normal((8, 1)), RNG.standard_normal((8, 2)), tol=1e-8)
    assert wide.is_unique in (True, False, None)
    assert len(wide.network) <= 16  # N·k


def test_a_reference_solver_of_one_output_says_so():
    with pytest.raises(InputError, match=re.escape("handles one output")):
        covopt.min_norm(np.eye(3), np.eye(3), bias=0, solver="conic:CLARABEL")


def test_time_limit_and_callback_return_a_bracket():
    X, Y = RNG.standard_normal((25, 2)), RNG.standard_normal((25, 3))
    stopped = covopt.min_norm(X, Y, callback=lambda state: state.round == 2)
    assert stopped.status is covopt.Status.CALLBACK
    assert 0 < stopped.lower_bound < stopped.cost < np.inf
    assert covopt.verify(stopped).ok
    late = covopt.min_norm(X, Y, time_limit_s=1e-9)
    assert late.status is covopt.Status.TIME_LIMIT
    assert covopt.verify(late).ok
    changed = dataclasses.replace(late, status=covopt.Status.CERTIFIED)
    assert not covopt.verify(changed).ok
