"""Merging within closed cells, faces and their spans, and the finish."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import covopt
from covopt.problems.problem import Problem
from covopt.solvers.merging import merge_in_cells, polish
from covopt.solvers.postprocess import finish_network, sparsified
from covopt.solvers.quick import quick_network

SEEDS = st.integers(0, 10_000)


def random_network(seed, n=8, rank=3, m=20, grid=False):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-2, 3, (n, rank)).astype(float) if grid else rng.standard_normal((n, rank))
    rows = np.unique(rows[rows.any(axis=1)], axis=0)
    neurons = rng.standard_normal((m, rank))
    # some on hyperplanes of rows, as optimal ones are
    for j in range(m // 2):
        row = rows[rng.integers(len(rows))]
        neurons[j] -= row * (neurons[j] @ row) / (row @ row)
    neurons /= np.linalg.norm(neurons, axis=1, keepdims=True)
    return rows, neurons, rng.standard_normal(m)


def separated(rows, first, second):
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    a, b = units @ first / np.linalg.norm(first), units @ second / np.linalg.norm(second)
    return bool(((a > 1e-10) & (b < -1e-10) | (a < -1e-10) & (b > 1e-10)).any())


@given(SEEDS, st.booleans())
def test_merged_neurons_keep_outputs_in_faces_with_their_signs_and_spans(seed, grid):
    rows, neurons, weights = random_network(seed, grid=grid)
    faces = merge_in_cells(rows, neurons, weights)
    before = np.maximum(rows @ neurons.T, 0) @ weights
    np.testing.assert_allclose(faces.fitted(rows)[:, 0], before, atol=1e-9)
    assert faces.masses.sum() <= np.abs(weights).sum() * (1 + 1e-12)
    assert len(faces) <= len(weights)
    heights = faces.vectors @ rows.T
    assert (heights[faces.active] > -1e-9).all()
    assert (np.abs(heights[~faces.touched]) < 1e-9).all()
    assert (heights[faces.touched & ~faces.active] < 1e-9).all()
    basis, owner = faces.spans(rows)
    assert (np.diff(owner) >= 0).all()
    for j in range(len(faces)):
        own, silent = basis[owner == j], rows[~faces.touched[j]]
        assert len(own) == 3 - (np.linalg.matrix_rank(silent, tol=1e-8) if len(silent) else 0)
        np.testing.assert_allclose(own @ own.T, np.eye(len(own)), atol=1e-9)
        assert np.abs(silent @ own.T).max(initial=0.0) < 1e-6
        assert np.linalg.norm(own @ faces.vectors[j]) == pytest.approx(faces.masses[j], rel=1e-8)


@given(SEEDS, st.booleans())
def test_merged_neurons_of_one_sign_are_separated(seed, grid):
    rows, neurons, weights = random_network(seed, grid=grid)
    faces = merge_in_cells(rows, neurons, weights)
    once = faces.vectors / faces.masses[:, None], faces.outputs[:, 0] * faces.masses
    again = merge_in_cells(rows, *once)
    # greedy groups may leave two that a second pass merges; then none is left
    last = merge_in_cells(rows, again.vectors / again.masses[:, None], again.outputs[:, 0] * again.masses)
    for j in range(len(last)):
        for k in range(j):
            if last.outputs[j] == last.outputs[k]:
                assert separated(rows, last.vectors[j], last.vectors[k])


@given(SEEDS, st.booleans())
def test_polish_interpolates_and_stays_in_the_faces(seed, moves_offset):
    rows, neurons, weights = random_network(seed, m=30)
    faces = merge_in_cells(rows, neurons, weights)
    rng = np.random.default_rng(seed)
    targets = faces.fitted(rows) + 0.3 * moves_offset
    moved, offset, residual = polish(
        rows, targets + 1e-6 * rng.standard_normal(targets.shape), faces, np.full(1, 0.3 * moves_offset),
        moves_offset=moves_offset,
    )  # fmt: skip
    assert residual <= 1e-12 * max(1.0, np.abs(targets).max())
    assert np.abs(moved.vectors - faces.vectors).max() < 1e-2
    heights = moved.vectors @ rows.T
    assert (np.abs(heights[~faces.touched]) < 1e-9).all()
    assert moves_offset or offset == 0


@pytest.mark.parametrize(
    ("offset_cost", "m", "seeds"), [(np.inf, 40, 8), (0.0, 40, 8), (2.0, 40, 8), (np.inf, 900, 1)]
)
def test_the_finish_interpolates_with_few_neurons_at_no_higher_cost(offset_cost, m, seeds):
    """A solve that is interrupted leaves thousands of columns; the heaviest may be all that are seen."""
    for seed in range(seeds):
        rows, neurons, weights = random_network(seed, n=9, m=m)
        if m > 40:
            weights *= 10.0 ** np.random.default_rng(7).uniform(-6.0, 0.0, m)
        offset = 0.0 if np.isinf(offset_cost) else 0.4
        targets = np.maximum(rows @ neurons.T, 0) @ weights + offset
        size = np.abs(targets).max()
        problem = Problem.through(rows, targets / size, offset_cost)
        scaled = weights[:, None] / size, np.array([offset / size])
        before = problem.network_value(*scaled)
        units, masses, moved = finish_network(problem, neurons, *scaled)
        assert problem.missed(units, masses, moved) <= 1e-11
        assert problem.network_value(masses, moved) <= before * (1 + 1e-9)
        assert len(masses) <= len(rows)
        np.testing.assert_allclose(np.linalg.norm(units, axis=1), 1.0, atol=1e-12)


def test_the_finish_repairs_a_network_that_misses_the_points():
    rows, neurons, weights = random_network(1, n=9, m=30)
    targets = np.maximum(rows @ neurons.T, 0) @ weights
    targets /= (size := np.abs(targets).max())
    wrong = weights / size * (1 - 1e-8 * np.arange(30) / 30)  # cheaper, and 1e-8 off
    problem = Problem.through(rows, targets)
    units, masses, offset = finish_network(problem, neurons, wrong[:, None], np.zeros(1))
    assert problem.missed(units, masses, offset) <= 1e-11


def test_the_finish_drops_idle_neurons_beside_an_offset():
    rows = np.array([[-1.0, 1.0], [0.0, 1.0], [1.0, 1.0]]) / np.sqrt(2)
    problem = Problem.through(rows, np.ones(3), 0.0)
    neurons = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    idle = np.array([[1e-12], [-1e-13], [1e-12]])
    units, masses, offset = finish_network(problem, neurons, idle, np.ones(1))
    assert len(units) == len(masses) == 0
    assert offset == pytest.approx(1.0, abs=1e-12)
    assert len(finish_network(problem, np.zeros((0, 2)), np.zeros((0, 1)), np.ones(1))[0]) == 0


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_idle_neurons_and_points_on_a_line_are_no_division_by_zero():
    rng = np.random.default_rng(0)
    problem = Problem.through(rng.standard_normal((6, 3)), rng.uniform(-1.0, 1.0, (6, 2)))
    neurons, weights = rng.standard_normal((20, 3)), rng.standard_normal((20, 2))
    neurons /= np.linalg.norm(neurons, axis=1, keepdims=True)
    weights[4] = 0.0
    kept, masses, _ = sparsified(problem, neurons, weights, np.zeros(2))
    assert 0 < len(kept) <= 12 and masses.any(axis=1).all()
    assert not len(sparsified(problem, neurons, 0.0 * weights, np.zeros(2))[0])
    # has one target a row
    classes = covopt.fit(neurons[:6], np.arange(6) % 2, lam=1e-3, loss="softmax-cross-entropy")
    assert classes.status is covopt.Status.CERTIFIED
    line = quick_network(Problem.through(np.array([[2.0], [-1.0]]), np.ones(2)), 1.0)
    assert not np.isfinite(line.upper_bound)
