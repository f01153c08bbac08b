import dataclasses

import numpy as np
import pytest

import covopt
from covopt.certificates.tight import TightSet
from covopt.certificates.uniqueness import analyse_uniqueness
from covopt.problems.shallow import ShallowProblem
from tests.bank.closed_forms import CASES

RING = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])


def unit(*neurons):
    found = np.array(neurons, dtype=float)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def analyse(rows, targets, neurons, values=None, offset_cost=np.inf, offset=0.0):
    problem = ShallowProblem(np.asarray(rows, float), np.asarray(targets, float), offset_cost)
    values = np.ones(len(neurons)) if values is None else np.array(values)
    tight = TightSet(unit(*neurons), values, np.sign(values))
    return analyse_uniqueness(problem, tight, offset)


def test_independent_columns_are_unique():
    found = analyse(np.eye(2), [1.0, 1.0], [[1, 0], [0, 1]])
    assert found.unique is True
    assert found.n_tight == 2
    assert "independent" in found.reason


def test_dependent_columns_with_room_are_not_unique():
    # four quadrants' atoms over the four directions: one relation, all masses positive
    neurons = [[1, 1], [1, -1], [-1, 1], [-1, -1]]
    targets = np.maximum(RING @ unit(*neurons).T, 0) @ np.ones(4)
    found = analyse(RING, targets, neurons)
    assert found.unique is False
    assert "masses can move" in found.reason


def test_dependent_columns_without_room_are_unique():
    # only one quadrant has mass: its neighbours could enter only with the opposite one falling below zero
    neurons = [[1, 1], [1, -1], [-1, 1], [-1, -1]]
    targets = np.maximum(RING @ unit([1, 1]).T, 0)[:, 0]
    found = analyse(RING, targets, neurons)
    assert found.unique is True
    assert "no other nonnegative masses" in found.reason


def test_between_tight_and_loose_nobody_knows():
    neurons = [[1, 1], [1, -1], [-1, 1], [-1, -1]]
    targets = np.maximum(RING @ unit(*neurons[:3]).T, 0) @ np.ones(3)
    found = analyse(RING, targets, neurons, values=[1, 1, 1, 1 - 1e-5])
    assert found.unique is None
    assert "not accurate enough" in found.reason


def test_nearly_dependent_columns_are_not_called_unique():
    # 3e-7 apart: less than the error of a dual with a gap of 1e-9
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    neurons = unit([1.0, 1.0], [1.0, 1.0 + 3e-7])
    targets = np.maximum(rows @ neurons.T, 0) @ np.ones(2)
    assert analyse(rows, targets, neurons).unique is not True


def test_the_constant_counts_with_a_free_offset():
    rows = np.array([[-1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    neurons = [[1, 1], [-1, 1]]  # σ(1 + x) + σ(1 − x) = 2 on the points
    targets = [1.0, 1.5, 2.0]
    assert analyse(rows, targets, neurons, values=[1, -1], offset_cost=np.inf).unique is True
    assert analyse(rows, targets, neurons, values=[1, -1], offset_cost=0.0).unique is False


def test_an_empty_tight_set_is_the_zero_network():
    found = analyse_uniqueness(
        ShallowProblem(np.eye(2), np.zeros(2)), TightSet(np.zeros((0, 2)), np.zeros(0), np.zeros(0)), 0.0
    )
    assert found.unique is True


@pytest.mark.parametrize("kind", ["none", "penalized", "free"])
def test_noise_in_the_plane_has_many_minimisers_and_the_answer_holds(kind):
    # X̃ᵀλ ≈ 0 at the optimum: w and −w are both tight, σ(t) − σ(−t) = t links the columns
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 2)), rng.standard_normal(30)
    solution = covopt.min_norm(X, y, output_bias=kind, tol=1e-9, random_state=0)
    assert solution.is_unique is False, solution.uniqueness.reason
    assert len(solution.tight_set()) > 30
    other = covopt.min_norm(-X[::-1], y[::-1], output_bias=kind, tol=1e-9, random_state=1)
    assert other.is_unique is False


@pytest.mark.parametrize("case", [c for c in CASES if c.unique is True], ids=lambda case: case.name)
def test_a_unique_minimiser_is_found_from_every_seed(case):
    points = np.reshape(case.X, (len(case.y), -1))
    probe = np.random.default_rng(0).standard_normal((5, points.shape[1])) @ np.linalg.pinv(points) @ points
    outputs = [
        covopt.min_norm(
            case.X, case.y, bias=case.bias, output_bias=case.output_bias, tol=1e-10, random_state=seed
        ).network.predict(probe)
        for seed in (0, 1)
    ]
    size = np.abs(case.y).max() or 1.0
    np.testing.assert_allclose(outputs[0], outputs[1], atol=3e-3 * size)


def test_no_network_is_not_the_only_one():
    solution = covopt.min_norm([[0.0], [1.0]], [0.0, 1.0])
    nothing = covopt.ReLUNetwork(np.zeros((0, 2)), np.zeros((0, 1)))
    stopped = dataclasses.replace(solution, network=nothing)
    assert stopped.is_unique is None
    assert "does not pass through the points" in stopped.uniqueness.reason
    assert not stopped.sparsest().proven
    assert covopt.min_norm([[0.0], [1.0]], [0.0, 0.0]).is_unique
