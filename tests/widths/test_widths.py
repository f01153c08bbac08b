"""Bounds on numbers of neurons: Rank_σ of pairs, and of tables."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import covopt
from covopt.completely_positive.graphs import complete_bipartite, graph_matrix
from covopt.network import ReLUNetwork
from covopt.widths.sigma_rank import read_pair


def pair_of(Z, bias=0.0):
    A = np.maximum(Z, 0)
    return Z @ Z.T, A @ A.T + bias**2


def assert_decomposes(found, K, K_sigma, bias=0.0):
    Z = found.decomposition
    assert Z.shape == (len(K), found.upper)
    A = np.maximum(Z, 0)
    scale = np.abs(K).max()
    np.testing.assert_allclose(Z @ Z.T, K, atol=1e-9 * scale)
    np.testing.assert_allclose(A @ A.T + bias**2, K_sigma, atol=1e-9 * max(scale, bias**2))
    assert found.lower <= found.upper
    assert found.residual <= 1e-9


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 3), st.sampled_from([0.0, 0.7]))
def test_brackets_hold_the_width_of_a_random_layer(seed, n, m, bias):
    Z = np.random.default_rng(seed).standard_normal((n, m))
    K, K_sigma = pair_of(Z, bias)
    found = covopt.sigma_rank(K, K_sigma, bias=bias)
    assert found.lower <= m
    assert found.upper is not None
    assert_decomposes(found, K, K_sigma, bias)


def bipartite(half):
    """EᵀE of K_{half,half}, whose CP-rank is half²."""
    return graph_matrix(complete_bipartite(half, half)) * 1.0


@pytest.mark.parametrize("half", [2, 3, 4])
def test_the_feature_learning_example_is_tight(half):
    B, neurons = bipartite(half), half * half
    bounds, other = (covopt.sparsity_bounds(np.eye(2 * half), Y, bias=0.0) for Y in (B, 0.9 * B + 0.2))
    assert (bounds.lower, bounds.upper) == (neurons, neurons)
    assert "CP-rank" not in " ".join(named(other))
    found = covopt.sigma_rank(B, B)
    assert (found.lower, found.upper) == (neurons, neurons)
    assert_decomposes(found, B, B)
    assert (found.decomposition >= 0).all()
    assert "nonnegative factor" in found.summary()


def test_a_bias_that_does_not_round_leaves_zeros_open():
    B = bipartite(2)
    exact = covopt.sigma_rank(B, B + 1.0, bias=1.0)
    assert (exact.lower, exact.upper) == (4, 4)
    rounded = covopt.sigma_rank(B, B + 0.7**2, bias=0.7, time_limit_s=8.0)
    assert rounded.lower <= 4
    assert_decomposes(rounded, B, B + 0.7**2, 0.7)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 8), st.booleans())
def test_pairs_of_layers_pass_every_condition(seed, n, m, integers):
    rng = np.random.default_rng(seed)
    Z = (
        rng.integers(-2, 3, (n, m)) * 1.0
        if integers
        else rng.standard_normal((n, m)) * 10.0 ** rng.integers(-5, 5)
    )
    if seed % 3 == 0:
        Z[rng.integers(n)] *= 1e-7
    K, K_sigma = pair_of(Z)
    read_pair(K, K_sigma, 0.0, 1e-9)
    K, K_sigma = pair_of(Z, bias=0.5)
    read_pair(K, K_sigma, 0.5, 1e-9)


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
