import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import covopt
from covopt.network import ReLUNetwork

RNG = np.random.default_rng(0)


def named(bounds):
    return {b.name: b for b in bounds.bounds}


@pytest.mark.parametrize(("k", "q"), [(1, 1), (3, 3), (3, 2), (12, 6)])
def test_many_outputs(k, q):
    rng = np.random.default_rng(k + q)
    Y = rng.integers(-9, 10, (6, q)) @ rng.integers(-9, 10, (q, k)) * 1.0
    assert np.linalg.matrix_rank(Y) == q
    bounds = covopt.sparsity_bounds(RNG.standard_normal((6, 2)), Y)
    assert bounds.lower == q
    assert named(bounds)["Nq − q(q−1)/2"].value == 6 * q - q * (q - 1) // 2
    assert bounds.upper <= 21


@pytest.mark.parametrize("n", [4, 6, 8])
def test_feature_learning_example_is_tight(n):
    half = n // 2
    B = np.block([[half * np.eye(half), np.ones((half, half))], [np.ones((half, half)), half * np.eye(half)]])
    bounds = covopt.sparsity_bounds(np.eye(n), B, bias=0.0)
    assert (bounds.lower, bounds.upper) == (n * n // 4, n * n // 4)
    assert "CP-rank" not in " ".join(named(covopt.sparsity_bounds(np.eye(n), 0.9 * B + 0.2, bias=0.0)))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 2), st.integers(1, 4), st.integers(1, 8))
def test_lower_bounds_hold_for_random_networks(seed, m, d, k, n):
    rng = np.random.default_rng(seed)
    X = np.unique(rng.integers(-5, 6, (n, d)), axis=0) * 1.0
    net = ReLUNetwork(rng.integers(-3, 4, (m, d + 1)) * 1.0, rng.integers(-2, 3, (m, k)) * 1.0)
    Y = net.predict(X)
    assert covopt.sparsity_bounds(X, Y).lower <= m
    shifted = covopt.sparsity_bounds(X, Y + 3.0, output_bias="penalized")
    assert shifted.lower <= m


def test_upper_bounds_hold_for_solved_problems():
    X = np.linspace(-1, 1, 7)[:, None]
    y = np.abs(X[:, 0]) + RNG.standard_normal(7) * 0.1
    bounds = covopt.sparsity_bounds(X, y)
    solution = covopt.min_norm(X, y)
    assert bounds.lower <= len(solution.network) <= bounds.upper


def test_decimals_on_a_line_need_no_more_neurons_than_a_certified_network_has():
    x = np.linspace(0.0, 1.0, 12)
    solution = covopt.min_norm(x[:, None], 3.0 * x)
    assert solution.status.code == "certified"
    assert covopt.sparsity_bounds(x[:, None], 3.0 * x).lower <= len(solution.network) == 1
