"""What RK23 and BN23 print where it is wrong, and what holds instead: each printed form fails here."""

import numpy as np
import pytest

import covopt
from covopt.data import Data
from covopt.depth import bottleneck_structure, function_brackets, jacobian, linear_cost, rank_one_tour
from covopt.depth.bounds import tree_bounds
from covopt.errors import InputError
from covopt.network import DeepReLUNetwork


def test_example_1_with_its_cases_as_printed_jumps():
    # min and max change places: across an axis the output jumps by 2
    beside = np.array([[1.0, 1e-9], [1.0, -1e-9]])
    printed = np.abs(beside).max(axis=1)[:, None] * np.sign(beside)
    holds = np.abs(beside).min(axis=1)[:, None] * np.sign(beside)
    assert np.linalg.norm(printed[0] - printed[1]) > 1.9
    assert np.linalg.norm(holds[0] - holds[1]) < 1e-8


def test_two_constants_cost_less_apart_than_their_sum():
    # BN23 Theorem 3 (2) with a penalised output bias: the constant c costs c², by its output bias alone
    def constant(c):
        zero = [np.zeros((1, 1)), np.zeros((1, 1))]
        return DeepReLUNetwork([*zero, np.zeros((1, 1))], [np.zeros(1), np.zeros(1), np.array([c])])

    assert constant(0.25).predict([[3.0]]).item() == 0.25
    apart = 2.0 * constant(0.25).squared_norm
    data = Data.validate([[0.0]], [0.5], bias=1.0)
    together = max(bound.value for bound in tree_bounds(data, 3, "penalized", upper=0.25))
    assert together > 1.5 * apart  # every network of three layers, proved


def test_corollary_8_needs_centred_representations():
    # a layer of rank one is its own UVᵀ; with a bias what it puts out has rank two
    W = np.outer([0.6, 0.8], [1.0, 0.0])
    network = DeepReLUNetwork([W, np.eye(2)], [np.array([1.0, -0.5]), np.zeros(2)])
    X = np.random.default_rng(0).standard_normal((30, 2))
    found = bottleneck_structure(network, X, k=1)
    printed = np.linalg.svd(network.representations(X)[0] / np.sqrt(30.0), compute_uv=False)[1]
    assert found.excess[0] < 1e-20
    assert printed > 0.3 > found.tail_bounds[0]
    assert found.tails[0] <= found.tail_bounds[0] + 1e-12


def test_the_path_over_the_diameter_is_less_than_over_its_own_ends():
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal((6, 2)), rng.standard_normal((6, 2))
    tour = rank_one_tour(X, Y)
    diameter = np.linalg.norm(X[:, None] - X[None], axis=2).max()
    assert tour.slope > 1.01 * tour.length / diameter


def sheared(depth, eps):
    """BN23 Example 20 for an even depth: (x, y, z + σ(x − y)) on the positive octant."""
    half = depth // 2 - 1
    small = np.exp(-half * eps)
    grow = np.diag(np.exp([eps, eps, -2.0 * eps]))
    split = np.vstack([np.eye(3), [small, -small, 0.0]])
    join = np.column_stack([np.eye(3), [0.0, 0.0, small**2]])
    return DeepReLUNetwork([grow] * half + [split, join] + [np.linalg.inv(grow)] * half)


def test_example_20_costs_three_a_layer_and_its_representations_diverge():
    X = np.random.default_rng(0).uniform(0.0, 1.0, (50, 3))
    expected = X + np.maximum(X[:, :1] - X[:, 1:2], 0.0) * np.array([0.0, 0.0, 1.0])
    sizes = []
    for depth, most in ((10, 1.94), (100, 0.753), (1000, 0.206)):
        eps = np.geomspace(1e-4, 1.0, 400)
        small, grown = np.exp(-(depth - 2) * eps), 2 * np.cosh(2 * eps) + np.cosh(4 * eps)
        best = sheared(depth, eps[np.argmin((depth - 2) * grown + 6 + 2 * small + small**2)])
        assert np.allclose(best.predict(X), expected)
        # between: the Jacobian where x > y, whose singular values are not all one
        low = linear_cost([[1.0, 0, 0], [0, 1, 0], [1, -1, 1]], depth)
        assert 3 * depth < low < best.squared_norm < 3 * depth + 1.01 * most
        sizes.append(float(np.abs(best.representations(X)[depth // 2 - 2]).max()))
    assert sizes[0] < sizes[1] < sizes[2]
    # the last display of the paper lost the (L − 2)/2 before its brackets
    eps, depth = 0.05, 100
    excess = sheared(depth, eps).squared_norm - 3 * depth
    ends = 2 * np.exp(-(depth - 2) * eps) + np.exp(-2 * (depth - 2) * eps)
    brackets = 4 * np.cosh(2 * eps) + 2 * np.cosh(4 * eps) - 6
    assert excess == pytest.approx((depth - 2) / 2 * brackets + ends)
    assert excess > 20 * (brackets + ends)


def test_a_function_is_bracketed_depth_by_depth():
    rng = np.random.default_rng(3)
    for _ in range(20):
        network = DeepReLUNetwork([rng.standard_normal(s) for s in ((4, 2), (3, 4), (2, 3))])
        for depth, low, high in function_brackets(network, rng.standard_normal((5, 2)), (3, 4, 9)):
            assert 0.0 <= low <= high
            assert high == network.squared_norm + 3 * (depth - 3)
    with pytest.raises(InputError, match="below the network's own 3 layers"):
        function_brackets(network, [[1.0, 2.0]], (2,))


def test_the_bracket_of_a_function_asks_no_kink_and_pays_for_rounding():
    # f(x) = x + 1 around zero, by slopes of 10 and -9 of which the mask at zero leaves out one
    kinked = DeepReLUNetwork(
        [np.array([[10.0], [1.0], [-1.0]]), np.array([[1.0, -9.0, 9.0]])], [np.array([1.0, 0.0, 0.0]), None]
    )
    assert [low for _, low, _ in function_brackets(kinked, [[0.0]], (2, 9))] == [0.0, 0.0]
    for (_, low, _), depth in zip(function_brackets(kinked, [[0.0], [0.01]], (2, 9)), (2, 9), strict=True):
        assert depth - 1e-12 < low <= depth
    # 0.1 + 0.2 - 0.3 of doubles is half of what it is computed as
    tiny = [np.array([[0.1], [0.2], [0.3]]), np.array([[1.0, 1.0, -1.0]])]
    assert function_brackets(tiny, [[1.0]], (100,))[0][1] <= 100 * (2.0**-55) ** 0.02
    # a neuron that never moves is no kink, nor one that nobody hears
    silent = [np.array([[1.0], [0.0], [1.0]]), np.array([[1.0, 2.0, 0.0]])]
    assert function_brackets([*silent[:1], silent[1]], [[2.0]], (2,))[0][1] > 2 - 1e-12
    scaled = covopt.min_norm([[1000.0], [1010.0], [1030.0]], [0.0, 1.0, 0.0], standardise=True).network
    assert jacobian(scaled, [[1005.0]])[0, 0, 0] == pytest.approx(0.1, rel=1e-6)
