"""The minimisers around a certified one: the last digits, whether there is one, and the sparsest."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import covopt
from covopt.certificates import enclosure
from covopt.certificates.enclosure import Enclosure, analyse_uniqueness, enclose
from covopt.certificates.minimisers import sparsest_support
from covopt.certificates.tight import TightSet, sharpen
from covopt.datasets import make_random_plane, make_smooth
from covopt.oracles.cascade import exact_oracle
from covopt.oracles.faces import FaceOracle
from covopt.problems.problem import Problem
from covopt.problems.reduction import reduce_data
from tests.cases import normal, unit

RING = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
QUADRANTS = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]) / np.sqrt(2)
LINE = np.array([[-1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
KINKS = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)  # σ(1 + x) + σ(1 − x) = 2 on the points


ON_RING = np.maximum(RING @ QUADRANTS.T, 0)
ONE_CORNER = np.maximum(RING @ unit(np.array([[1.0, 1.0]])).T, 0)[:, 0]
ANALYSED = {  # rows, targets, neurons, values, what an offset costs, and the answer: unique or not, and why
    "four atoms of four points have one relation": (
        RING, ON_RING @ np.ones(4), QUADRANTS, [1, 1, 1, 1], np.inf, False, "masses can move"),
    "there is no room: the three others would add to zeros": (
        RING, ONE_CORNER, QUADRANTS, [1, 1, 1, 1], np.inf, None, "not accurate enough"),
    "nor nearly": (RING, ONE_CORNER, QUADRANTS, [1, 1, 1, 1 - 1e-5], np.inf, None, ""),
    "without a bound on the dual nothing is unique": (
        np.eye(2), [1, 1], np.eye(2), [1, 1], np.inf, None, "not accurate enough"),
    "the constant counts with a free offset": (LINE, [1, 1.5, 2], KINKS, [1, -1], 0.0, False, "masses can move"),
}  # fmt: skip


@pytest.mark.parametrize("name", ANALYSED)
def test_whether_masses_can_move(name):
    rows, targets, neurons, values, cost, unique, why = ANALYSED[name]
    problem, values = Problem.through(rows, np.array(targets, float), cost), np.array(values, float)
    tight = TightSet(neurons, values, np.sign(values))
    found = analyse_uniqueness(problem, tight, np.zeros(1), "nothing is known of the dual")
    assert found.unique is unique and why in found.reason


# ---------------------------------------------------------------- segments of minimisers that hide
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
    assert not found.proven or found.n_neurons == 3 or e < 1e-9  # what a network may miss


@given(
    masses=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 40)), min_size=8, max_size=8),
    sizes=st.lists(st.integers(-3, 3), min_size=6, max_size=6),
)
@settings(max_examples=3)
def test_kernels_with_small_masses_are_not_unique(masses, sizes):
    # eight activations of rank four, all with mass: whatever the masses are, they can move
    rows, activations = cube(3)
    small = [m * 2.0 ** -(5 * (e // 10) ** 2 - e % 10 if e > 9 else 0) for m, e in masses]
    targets = activations @ np.array(small)
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


FAN = np.array([[np.cos(a), np.sin(a), 0.0] for a in np.pi * np.arange(65) / 65] + [[0.0, 0.0, 1.0]])
OPEN = {  # rows, targets, whether the oracle sees all maxima, and why minimisers are not enclosed
    "an oracle that may miss maxima": (RING[:3], [1.0, -1.0, 0.5], False, "may not be all"),
    "65 hyperplanes through the neuron": (FAN, [0.0] * 65 + [1.0], True, "not the strict maximum"),
    "a row that is nearly zero at the neuron": (
        np.array([[1.0, 0.0], [1e-5, 1.0]]), [1.0, 1e-5], True, "of the next cell"),
}  # fmt: skip


@pytest.mark.parametrize("name", OPEN)
def test_minimisers_that_are_not_enclosed(name):
    rows, targets, sees_all, why = OPEN[name]
    solution = covopt.min_norm(rows, targets, bias=0.0, tol=1e-11)
    problem, reduction = reduce_data(solution.data, "none")
    oracle = FaceOracle(problem.rows)
    oracle.sees_all = sees_all
    network = reduction.apply_network(*solution.network.to_neurons())
    found = enclose(problem, oracle, reduction.apply_dual(solution.dual), network, (rows, np.array(targets)))
    assert isinstance(found, str) and why in found


@pytest.mark.parametrize("kind", ["none", "penalized", "free"])
def test_noise_in_the_plane_has_many_minimisers_and_the_answer_holds(kind):
    # X̃ᵀλ ≈ 0 at the optimum: w and −w are both tight, σ(t) − σ(−t) = t links the columns
    X, y = normal(0, (30, 2), 30)
    solution = covopt.min_norm(X, y, output_bias=kind, tol=1e-9, random_state=0)
    assert solution.is_unique is False, solution.uniqueness.reason
    assert len(solution.tight_set()) > 30
    other = covopt.min_norm(-X[::-1], y[::-1], output_bias=kind, tol=1e-9, random_state=1)
    assert other.is_unique is False


# ---------------------------------------------------------------------- the fewest neurons
BENT = np.array([[1.0, 1.0], [0.0, 1.0]]) / np.sqrt([[2], [1]])  # x + 1 and 1 on the line
OFF = [-1e-4, 1.0 - 1e-4, 2.0 - 1e-4]  # which x + 1 misses by an offset of 1e-4
SPARSEST = {  # targets, values, what an offset costs, its value, how far it may move, and the answer: neurons, offset
    "two opposite quadrants have the outputs of the other two": (
        RING, QUADRANTS, ON_RING @ np.full(4, 0.5), (1, 1, 1, 1), np.inf, 0.0, 0.0, 2, 0.0),
    "masses keep the sign of their column": (
        RING, QUADRANTS, ON_RING @ [1, 0, 0, -1], (1, 1, 1, -1), np.inf, 0.0, 0.0, 2, 0.0),
    "there are none": (
        RING, QUADRANTS, ON_RING @ [1, 0, 0, -1], (1, 1, 1, 1), np.inf, 0.0, 0.0, None, 0.0),
    "a free offset takes a neuron away": (LINE, KINKS, [4, 5, 6], (1, -1), 0.0, 0.0, 0.0, 1, None),
    "a free offset needs no neuron": (LINE, np.zeros((0, 2)), [4, 4, 4], (), 0.0, 0.0, 0.0, 0, None),
    "a penalised one stays where it is": (LINE, KINKS, [4, 5, 6], (1, -1), 1.0, 4.0, 0.0, 1, 4.0),
    "held at 0 it needs the second neuron": (LINE, BENT, OFF, (1, -1), 1.0, 0.0, 0.0, 2, 0.0),
    "it moves within its error": (LINE, BENT, OFF, (1, -1), 1.0, 0.0, 1e-8, 1, -1e-4),
}  # fmt: skip


@pytest.mark.parametrize("name", SPARSEST)
def test_the_fewest_neurons(name):
    rows, neurons, targets, values, cost, offset, excess, most, moved = SPARSEST[name]
    problem, values = Problem.through(rows, np.array(targets, float), cost), np.array(values, float)
    tight = TightSet(neurons, values, np.sign(values))
    found = sparsest_support(problem, tight, np.array([offset]), 10.0, excess=excess)
    if most is None:
        assert found is None
        return
    neurons, weights, shift = found.network
    assert (len(neurons), found.lower_bound) == (most, most)
    assert moved is None or shift == pytest.approx(moved, abs=2e-8)
    assert {np.sign(v) for v in weights[:, 0]} <= set(np.sign(values))
    fitted = problem.fitted(neurons, weights, shift)[:, 0]
    np.testing.assert_allclose(fitted, targets, atol=1e-6)


# ---------------------------------------------------------------------- the last digits
def reduced(solution):
    problem, reduction = reduce_data(solution.data, solution.output_bias)
    offset = solution.data.bias * solution.network.output_bias / reduction.target_scale
    return problem, exact_oracle(problem.rows, 0), reduction.apply_dual(solution.dual), offset


@pytest.mark.parametrize("output_bias", ["none", "penalized", "free"])
@pytest.mark.parametrize("make", [make_smooth, make_random_plane])
def test_the_tightest_tolerance_ends_with_the_last_digits_and_fewer_neurons(make, output_bias):
    X, y = make(30, random_state=4)
    coarse, fine = (covopt.min_norm(X, y, output_bias=output_bias, tol=tol) for tol in (1e-6, 1e-9))
    assert fine.gap <= 1e-10 and fine.certificate.residual <= 1e-11
    assert fine.lower_bound * (1 - 1e-12) <= coarse.cost
    assert len(fine.network) <= len(coarse.network)
    atoms = np.maximum(fine.data.lifted @ fine.network.hidden_weights.T, 0.0)
    assert np.linalg.matrix_rank(atoms / np.linalg.norm(atoms, axis=0), tol=1e-9) == len(fine.network)
    assert covopt.verify(fine).ok


def test_an_inaccurate_dual_is_refused():
    X, y = make_smooth(30, random_state=2)
    problem, oracle, dual, offset = reduced(covopt.min_norm(X, y, tol=1e-9))
    assert sharpen(problem, oracle, 0.9 * dual, offset) is None
    noise = np.random.default_rng(0).standard_normal(dual.shape)
    spoiled = dual + 1e-3 * np.abs(dual).max() * noise
    spoiled /= oracle.price(spoiled[:, 0]).upper_bound
    found = sharpen(problem, oracle, spoiled, offset)
    assert found is None or problem.dual_value(found[0]) >= problem.dual_value(dual) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("x", "y", "output_bias", "neurons"),
    [((-1, 0), (0, 1), "none", 1), ((-1, 0, 1), (0, 0, 1), "free", 1), ((0, 1, 2), (1, 2, 0), "none", 2)],
)
def test_a_dual_at_a_vertex_of_the_optimal_ones_shows_that_the_network_is_unique(x, y, output_bias, neurons):
    """Neurons that are tight at the vertex alone must become loose when the dual moves inside."""
    solution = covopt.min_norm(np.array(x, dtype=float)[:, None], y, output_bias=output_bias)
    assert solution.is_unique, solution.uniqueness.reason
    assert len(solution.network) == neurons


def test_a_neuron_without_mass_is_no_minimiser_of_a_dual_that_is_not_determined(monkeypatch):
    # stays at a vertex
    monkeypatch.setattr(enclosure, "_inside", lambda problem, given, oracle, dual, known: dual)
    found = covopt.min_norm([[-1.0], [0.0]], [0.0, 1.0]).uniqueness
    assert found.unique is None and "carries no mass, and the dual is not determined" in found.reason
