import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import covopt
from covopt.exact.rank import rank_at_least
from covopt.network import ReLUNetwork
from covopt.widths.bounds import bend_bound, rank_at_most

RNG = np.random.default_rng(0)


def named(bounds):
    return {b.name: b for b in bounds.bounds}


def test_one_output():
    X, y = RNG.standard_normal((9, 3)), RNG.standard_normal(9)
    bounds = covopt.sparsity_bounds(X, y)
    assert (bounds.lower, bounds.upper) == (1, 9)
    found = named(bounds)
    assert found["N(N+1)"].value == 90
    assert found["N(N+1)/2"].value == 45
    assert found["r(r+1)/2 + N(N+1)/2"].value == 10 + 45
    assert "4N" not in found and "2·cells" not in found
    assert all(b.source and b.reason and b.kind in ("upper", "lower") for b in bounds.bounds)


@pytest.mark.parametrize(("k", "q"), [(1, 1), (3, 3), (3, 2), (12, 6)])
def test_many_outputs(k, q):
    rng = np.random.default_rng(k + q)
    Y = rng.integers(-9, 10, (6, q)) @ rng.integers(-9, 10, (q, k)) * 1.0
    assert np.linalg.matrix_rank(Y) == q
    bounds = covopt.sparsity_bounds(RNG.standard_normal((6, 2)), Y)
    assert bounds.lower == q
    assert named(bounds)["Nq − q(q−1)/2"].value == 6 * q - q * (q - 1) // 2
    assert bounds.upper <= 21


def test_line_with_vector_outputs_takes_two_per_cell():
    X, Y = np.arange(30.0)[:, None], RNG.standard_normal((30, 10))
    found = named(covopt.sparsity_bounds(X, Y))
    assert found["2·cells"].value == 2 * (2 * 30 - 1)
    assert named(covopt.sparsity_bounds(X, Y[:, 0]))["4N"].value == 120
    assert named(covopt.sparsity_bounds(X, Y[:, 0]))["2·cells"].value == 118
    assert "4N" not in named(covopt.sparsity_bounds(X + 1, Y[:, 0] * 0 + (X[:, 0] + 1), bias=0.0))


def test_output_bias():
    X = RNG.standard_normal((7, 2))
    Y = np.column_stack([np.ones(7), X[:, 0]])
    none = covopt.sparsity_bounds(X, Y)
    assert none.lower == 2
    penalized = covopt.sparsity_bounds(X, Y, output_bias="penalized")
    assert penalized.lower == 1
    assert penalized.upper == 13
    free = covopt.sparsity_bounds(X, Y, output_bias="free")
    assert (free.lower, free.upper) == (1, 6)
    constant = covopt.sparsity_bounds(X, np.ones(7), output_bias="free")
    assert (constant.lower, constant.upper) == (0, 0)


def test_zero_targets_need_nothing():
    bounds = covopt.sparsity_bounds(RNG.standard_normal((4, 2)), np.zeros((4, 2)))
    assert (bounds.lower, bounds.upper) == (0, 0)


def test_repeated_points_and_rays_count_once():
    X = np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 1.0]])
    assert covopt.sparsity_bounds(X, [1.0, 1.0, 2.0]).upper == 2
    rays = np.array([[1.0, 2.0], [2.0, 4.0], [0.0, 0.0], [0.0, 1.0]])
    assert covopt.sparsity_bounds(rays, [1.0, 2.0, 0.0, 5.0], bias=0.0).upper == 2


@pytest.mark.parametrize("n", [4, 6, 8])
def test_feature_learning_example_is_tight(n):
    half = n // 2
    B = np.block([[half * np.eye(half), np.ones((half, half))], [np.ones((half, half)), half * np.eye(half)]])
    bounds = covopt.sparsity_bounds(np.eye(n), B, bias=0.0)
    assert (bounds.lower, bounds.upper) == (n * n // 4, n * n // 4)
    assert "CP-rank" not in " ".join(named(covopt.sparsity_bounds(np.eye(n), 0.9 * B + 0.2, bias=0.0)))


def test_summary_names_every_bound():
    bounds = covopt.sparsity_bounds([[0.0], [1.0], [3.0]], [0.0, 1.0, 0.0])
    text = bounds.summary()
    assert text.startswith("1 ≤ neurons of the sparsest network of smallest norm ≤ 3")
    assert len(text.splitlines()) == 1 + len(bounds.bounds)


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


def test_rank_both_ways():
    tiny = np.array([[1.0, 1.0], [1.0, 1.0 + 2**-52]])
    assert rank_at_most(tiny) == 2
    assert rank_at_least(tiny) == 1, "rounding could have made it"
    assert rank_at_most(np.outer(np.arange(5.0), np.arange(3.0))) == 1
    assert rank_at_most(np.zeros((3, 2))) == 0
    big = RNG.standard_normal((2000, 3))
    assert rank_at_most(np.column_stack([big, big])) == 6, "too long to decide: min(N, k)"


def test_bends_beyond_what_a_network_may_miss():
    x = np.array([0.0, 1.0, 2.0, 3.0])
    assert bend_bound(x, (0.1 * x)[:, None]) == 0
    assert bend_bound(x, (1e-8 * (x == 1) + x)[:, None]) == 1
    assert bend_bound(x, (1e-10 * (x == 1) + x)[:, None]) == 0
    assert bend_bound(x, (0.25 * x)[:, None]) == 0
    assert bend_bound(x, np.array([[0.0], [0.0], [1.0], [1.0]])) == 1


def test_decimals_on_a_line_need_no_more_neurons_than_a_certified_network_has():
    x = np.linspace(0.0, 1.0, 12)
    solution = covopt.min_norm(x[:, None], 3.0 * x)
    assert solution.status.code == "certified"
    assert covopt.sparsity_bounds(x[:, None], 3.0 * x).lower <= len(solution.network) == 1


def test_points_that_rounding_cannot_tell_apart_are_points():
    found = covopt.sparsity_bounds((1.0 + 1e-14 * np.arange(10.0))[:, None], [0.0, 1.0] * 5)
    assert found.lower == 4
    assert all(bound.value >= 4 for bound in found.bounds if bound.kind == "upper")
