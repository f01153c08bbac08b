import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import covopt
from covopt.certificates.enclosure import Enclosure, enclose
from covopt.certificates.tight import TightSet
from covopt.certificates.uniqueness import analyse_uniqueness
from covopt.oracles.faces import FaceOracle
from covopt.problems.problem import Problem
from covopt.problems.reduction import reduce_data

RING = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])


def unit(*neurons):
    found = np.array(neurons, dtype=float)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def analyse(rows, targets, neurons, values=None, offset_cost=np.inf, offset=0.0):
    problem = Problem.through(np.asarray(rows, float), np.asarray(targets, float), offset_cost)
    values = np.ones(len(neurons)) if values is None else np.array(values)
    tight = TightSet(unit(*neurons), values, np.sign(values))
    return analyse_uniqueness(problem, tight, np.array([offset]), "nothing is known of the dual")


def test_dependent_columns_with_room_are_not_unique():
    # four quadrants' atoms over the four directions: one relation, all masses positive
    neurons = [[1, 1], [1, -1], [-1, 1], [-1, -1]]
    targets = np.maximum(RING @ unit(*neurons).T, 0) @ np.ones(4)
    found = analyse(RING, targets, neurons)
    assert found.unique is False
    assert "masses can move" in found.reason


@pytest.mark.parametrize("values", [[1, 1, 1, 1], [1, 1, 1, 1 - 1e-5]])
def test_without_a_bound_on_the_dual_nothing_is_unique(values):
    neurons = [[1, 1], [1, -1], [-1, 1], [-1, -1]]
    targets = np.maximum(RING @ unit([1, 1]).T, 0)[:, 0]  # no room: the three others would add to zeros
    assert analyse(RING, targets, neurons, values).unique is None
    independent = analyse(np.eye(2), [1.0, 1.0], [[1, 0], [0, 1]])
    assert independent.unique is None
    assert "not accurate enough" in independent.reason


def test_the_constant_counts_with_a_free_offset():
    rows = np.array([[-1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    neurons = [[1, 1], [-1, 1]]  # σ(1 + x) + σ(1 − x) = 2 on the points
    targets = [1.0, 1.5, 2.0]
    assert analyse(rows, targets, neurons, values=[1, -1], offset_cost=0.0).unique is False


# ---------------------------------------------------------------------- segments of minimisers that hide
def cube(d):
    """Rows ±e_i and the activations of (±1, …, ±1), which (1, …, 1)/√d is a dual for: entries 0 and 1."""
    rows = np.concatenate([np.eye(d), -np.eye(d)])
    corners = np.array(list(itertools.product((1.0, -1.0), repeat=d)))
    return rows, np.maximum(rows @ corners.T, 0.0)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.thinned(3)
@pytest.mark.parametrize("power", (22, 24, 4, 10, 14, 16, 18, 20, 27, 30, 34, 40, 48))
def test_a_segment_of_minimisers_is_not_one(power):
    # masses (1 + t, 1 − t, e + t, e − t), |t| ≤ e, on (±1, ±1)/√2 all give y at the cost of the dual (1, 1, 1, 1)/√2
    e = 2.0**-power
    solution = covopt.min_norm(RING, [1 + e, 2.0, 1 + e, 2 * e], bias=0.0, tol=1e-9)
    assert solution.is_unique is not True, solution.uniqueness.reason
    found = solution.sparsest()
    assert not found.proven or found.n_neurons == 3


@given(
    masses=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 40)), min_size=8, max_size=8),
    sizes=st.lists(st.integers(-3, 3), min_size=6, max_size=6),
)
@settings(max_examples=3)
def test_kernels_with_small_masses_are_not_unique(masses, sizes):
    # eight activations of rank four, all with mass: whatever the masses are, they can move
    rows, activations = cube(3)
    targets = activations @ np.array(
        [m * 2.0 ** -(5 * (e // 10) ** 2 - e % 10 if e > 9 else 0) for m, e in masses]
    )
    scale = 2.0 ** np.array(sizes, dtype=float)
    solution = covopt.min_norm(rows * scale[:, None], targets * scale, bias=0.0, tol=1e-9)
    assert solution.is_unique is not True, solution.uniqueness.reason


def test_the_error_of_the_dual_is_what_counts():
    """The same network and tight set, with duals that are known well and badly."""
    rows, targets = np.array([[1.0, 0.5], [0.25, 1.0], [-1.0, 1.0]]), np.array([1.0, -1.0, 0.5])
    solution = covopt.min_norm(rows, targets, bias=0.0, tol=1e-11)
    assert solution.is_unique is True
    problem, reduction = reduce_data(solution.data, "none")
    network = reduction.apply_network(*solution.network.to_neurons())
    given = (rows, targets)

    def ask(dual, network):
        return enclose(problem, FaceOracle(problem.rows), dual, network, given)

    dual = reduction.apply_dual(solution.dual)
    assert ask(dual, network).independent
    assert isinstance(ask(dual * (1 - 1e-3), network), Enclosure), "a multiple is scaled"
    worse = dual + 1e-4 * np.abs(dual).max() * np.array([[1.0], [-1.0], [1.0]])
    assert isinstance(ask(worse, network), str)
    light = (network[0], network[1] * 1e-3, network[2])  # the masses do not belong to the targets
    assert isinstance(ask(dual, light), str)


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


def test_no_network_is_not_the_only_one():
    solution = covopt.min_norm([[0.0], [1.0]], [0.0, 1.0])
    nothing = covopt.ReLUNetwork(np.zeros((0, 2)), np.zeros((0, 1)))
    stopped = dataclasses.replace(solution, network=nothing)
    assert stopped.is_unique is None
    assert "does not pass through the points" in stopped.uniqueness.reason
    assert not stopped.sparsest().proven
    assert covopt.min_norm([[0.0], [1.0]], [0.0, 0.0]).is_unique
