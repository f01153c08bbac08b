"""The label-noise oracle against projections on the image of every sign pattern, and random neurons."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from covopt.oracles.label_noise import LabelNoiseOracle
from covopt.potentials import LabelNoise

BOTH = (LabelNoise(), LabelNoise(exact=True))


def rays_of(rows):
    """Return both directions of every line where r − 1 independent rows vanish."""
    rank = rows.shape[1]
    found = []
    for subset in combinations(range(len(rows)), rank - 1):
        _, size, right = np.linalg.svd(rows[list(subset)].reshape(-1, rank))
        if rank == 1 or size[-1] > 1e-9:
            found += [right[-1], -right[-1]]
    return np.array(found)


def gauge_by_patterns(rows, dual, potential):
    """Project λ on the image of the closed cone of every sign pattern, by its extreme rays and NNLS."""
    n, best = len(rows), 0.0
    rays = rays_of(rows)
    heights = rays @ rows.T
    heights[np.abs(heights) < 1e-12] = 0.0  # NNLS would blow them up
    for pattern in product((0, 1), repeat=n):
        active = np.array(pattern, dtype=bool)
        inside = (heights[:, active] >= 0).all(axis=1) & (heights[:, ~active] <= 0).all(axis=1)
        if not active.any() or not inside.any():
            continue
        image = heights[inside][:, active].T / np.sqrt(n)
        if not image.any():
            continue
        factor = 1.0
        if potential.exact:
            factor = np.sqrt(np.square(np.linalg.norm(rows[active], axis=1)).sum() / n)
        for sign in (1.0, -1.0):
            shares, _ = nnls(image, sign * dual[active] * np.sqrt(n))
            best = max(best, float(np.linalg.norm(image @ shares)) / factor)
    return best


def degenerate(seed):
    """Integer points: collinear ones, opposite ones without bias, zero rows, repeated rows."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 3))
    bias = bool(rng.integers(0, 2)) or d == 1
    while True:
        rows = rng.integers(-2, 3, size=(int(rng.integers(3, 8)), d)).astype(float)
        rows = np.column_stack([rows, np.ones(len(rows))]) if bias else rows
        if np.linalg.matrix_rank(rows) == rows.shape[1]:
            return rows, rng.integers(-3, 4, size=len(rows)).astype(float)


@pytest.mark.parametrize("potential", BOTH, ids=lambda p: p.name)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_exact_on_degenerate_rows(potential, seed):
    rows, dual = degenerate(seed)
    answer = LabelNoiseOracle(rows, potential).price(dual)
    truth = gauge_by_patterns(rows, dual, potential)
    assert answer.upper_bound >= truth * (1 - 1e-12)
    assert answer.upper_bound == pytest.approx(truth, rel=1e-9, abs=1e-12)
    assert abs(answer.values[0]) == pytest.approx(truth, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("potential", BOTH, ids=lambda p: p.name)
@pytest.mark.parametrize(("n", "rank"), [(6, 1), (9, 2), (8, 3), (7, 4)])
def test_exact_on_random_rows(potential, n, rank):
    rng = np.random.default_rng(n * rank)
    rows = rng.standard_normal((n, rank))
    for _ in range(3):
        dual = rng.standard_normal(n)
        answer = LabelNoiseOracle(rows, potential).price(dual)
        truth = gauge_by_patterns(rows, dual, potential)
        assert truth * (1 - 1e-12) <= answer.upper_bound <= truth * (1 + 1e-9)


@pytest.mark.parametrize("potential", BOTH, ids=lambda p: p.name)
def test_values_are_those_of_the_definition_and_nothing_exceeds_the_bound(potential):
    rng = np.random.default_rng(5)
    rows = np.column_stack([rng.standard_normal((20, 2)), np.ones(20)])
    dual = rng.standard_normal(20)
    oracle = LabelNoiseOracle(rows, potential)
    answer = oracle.price(dual)
    np.testing.assert_allclose(potential.weigh(rows, answer.neurons), 1.0, rtol=1e-12)
    np.testing.assert_allclose(
        np.maximum(answer.neurons @ rows.T, 0) @ dual, answer.values, rtol=1e-9, atol=1e-12
    )
    neurons = rng.standard_normal((20000, 3))
    weight = potential.weigh(rows, neurons)
    seen = weight > 1e-9
    value = np.abs(np.maximum(neurons[seen] @ rows.T, 0) @ dual) / weight[seen]
    assert value.max() <= answer.upper_bound
    again = oracle.price(dual, threshold=np.inf)  # with what the first call left behind
    assert len(again.values) == 1
    assert again.upper_bound == pytest.approx(answer.upper_bound, rel=1e-12)
    assert abs(again.values[0]) == pytest.approx(answer.upper_bound, rel=1e-9)


@pytest.mark.parametrize("potential", BOTH, ids=lambda p: p.name)
def test_reported_neurons_are_local_maxima(potential):
    rng = np.random.default_rng(8)
    rows = np.column_stack([rng.standard_normal((12, 2)), np.ones(12)])
    dual = rng.standard_normal(12)
    answer = LabelNoiseOracle(rows, potential).price(dual)
    assert len(answer.values) > 1
    for neuron, value in zip(answer.neurons, answer.values, strict=True):
        near = neuron + 1e-5 * np.linalg.norm(neuron) * rng.standard_normal((2000, 3))
        reached = (np.maximum(near @ rows.T, 0) @ dual) / potential.weigh(rows, near)
        assert (np.sign(value) * reached).max() <= abs(value) * (1 + 1e-7)


def test_rows_left_out_of_the_dual_count_in_the_cost():
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, 2.0]])
    dual = np.array([3.0, 4.0])
    kept = LabelNoiseOracle(rows, LabelNoise(), kept=np.array([0, 1])).price(dual)
    full = LabelNoiseOracle(rows, LabelNoise()).price(np.array([3.0, 4.0, 0.0, 0.0]))
    assert kept.upper_bound == pytest.approx(full.upper_bound, rel=1e-12)
    # the positive quadrant: ω² = (w₁² + 5w₂²)/4, so h² = 4(9 + 16/5)
    assert kept.upper_bound == pytest.approx(np.sqrt(4 * (9 + 16 / 5)), rel=1e-12)


def test_repeated_rows_are_weights():
    rng = np.random.default_rng(3)
    rows, dual = rng.standard_normal((6, 2)), rng.standard_normal(6)
    weights = np.array([1, 2, 1, 3, 1, 1]) / 9
    repeated = np.repeat(rows, [1, 2, 1, 3, 1, 1], axis=0)
    kept = np.cumsum([0, 1, 2, 1, 3, 1])
    for potential in BOTH:
        first = LabelNoiseOracle(rows, potential, sample_weight=weights).price(dual)
        second = LabelNoiseOracle(repeated, potential, kept=kept).price(dual)
        assert first.upper_bound == pytest.approx(second.upper_bound, rel=1e-9)


def test_the_zero_dual_has_gauge_zero():
    assert LabelNoiseOracle(np.eye(2), LabelNoise()).price(np.zeros(2)).upper_bound == 0.0
