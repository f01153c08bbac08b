"""Jacobian ranks in integers, tours through the targets, bottlenecks."""

from fractions import Fraction
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch

import covopt
from covopt.depth import (
    bottleneck_rank_up,
    bottleneck_structure,
    jacobian,
    jacobian_rank,
    rank_one_tour,
    ranks_at,
    right_sides,
    tangent_kernel_curvature,
    tangent_kernel_trace,
)
from covopt.depth.bottleneck import balance
from covopt.depth.ranks import linear_pieces
from covopt.experiments.tours import path_length_down
from covopt.network import DeepReLUNetwork
from tests.cases import drawn, normal


def random_network(rng, widths, bias=True, slope=0.0):
    weights = [rng.standard_normal((b, a)) for a, b in pairwise(widths)]
    biases = [0.5 * rng.standard_normal(n) if bias else None for n in widths[1:]]
    return DeepReLUNetwork(weights, biases, slope)


def corner_function():
    """f(x) = min(|x₀|, |x₁|)·(sign x₀, sign x₁): RK23 Example 1 as it must be, three layers of widths (4, 6)."""
    first = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    # |x₀| = a₀ + a₁, |x₁| = a₂ + a₃; min(p, q) = p − σ(p − q); f₀ = min(x₀⁺, |x₁|) − min(x₀⁻, |x₁|)
    second = np.array([
        [1, 0, 0, 0], [1, 0, -1, -1], [0, 1, 0, 0], [0, 1, -1, -1],  # x₀⁺, σ(x₀⁺ − |x₁|), x₀⁻, σ(x₀⁻ − |x₁|)
        [0, 0, 1, 0], [-1, -1, 1, 0], [0, 0, 0, 1], [-1, -1, 0, 1],
    ], dtype=float)  # fmt: skip
    last = np.array([[1, -1, -1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, -1, -1, 1]], dtype=float)
    return DeepReLUNetwork([first, second, last])


def test_rank_one_everywhere_does_not_factor_through_a_line():
    network = corner_function()
    X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    expected = np.abs(X).min(axis=1)[:, None] * np.sign(X)
    assert np.allclose(network.predict(X), expected)
    found = jacobian_rank(network, -1.0, 1.0)
    assert (found.rank, found.complete) == (1, True)
    assert bottleneck_rank_up(network) == 2  # and Rank_BN = 2 (RK23)
    # three lines in general position through the square: 7 regions
    lines = [np.array([[1.0, 0.1], [0.1, 1.0], [1.0, -1.0]]), np.ones((1, 3))]
    network = DeepReLUNetwork(lines, [np.array([0.1, -0.2, 0.2]), None])
    assert jacobian_rank(network, -1.0, 1.0).n_pieces == 7
    found = jacobian_rank(random_network(np.random.default_rng(1), (2, 8, 8, 2)), -1.0, 1.0, max_pieces=1)
    assert not found.complete and found.lower <= 2 == found.upper  # a cap gives a bracket


@pytest.mark.parametrize("widths", [(2, 6, 5, 2), (3, 5, 4, 3), (2, 8, 1, 8, 2)])
@pytest.mark.parametrize("slope", [0.0, 0.25])
def test_pieces_are_all_there_and_carry_the_network(widths, slope):
    rng = np.random.default_rng(sum(widths))
    network = random_network(rng, widths, slope=slope)
    d = widths[0]
    pieces = list(linear_pieces(network, [-1.0] * d, [1.0] * d))
    centres = np.array([[float(x) for x in piece.polytope.centre] for piece in pieces])
    for piece, x in zip(pieces, centres, strict=True):
        exact = np.array([[float(Fraction(v, piece.unit)) for v in row] for row in piece.map])
        assert np.allclose(exact @ np.append(x, 1.0), network.representations(x[None])[-1][0], atol=1e-9)
    # every random point's Jacobian is that of some piece
    known = {jacobian(network, x[None])[0].round(9).tobytes() for x in centres}
    sample = jacobian(network, rng.uniform(-1, 1, (400, d)))
    assert all(at.round(9).tobytes() in known for at in sample)
    rank = jacobian_rank(network, -1.0, 1.0)
    assert rank.n_pieces == len(pieces)
    assert rank.rank == max(int(np.linalg.matrix_rank(at)) for at in jacobian(network, centres))
    assert ranks_at(network, rank.point[None])[0] == rank.rank


# ---------------------------------------------------------------- bottlenecks
def test_the_bottleneck_bound_holds_for_every_k_and_network():
    rng = np.random.default_rng(5)
    for _ in range(60):
        d, k = rng.integers(1, 5, 2)
        widths = (int(d), *rng.integers(2, 6, int(rng.integers(1, 5))).tolist(), int(k))
        network = random_network(rng, widths)
        X = rng.standard_normal((3, int(d)))
        rights = right_sides(network, X)
        for count in range(1, min(d, k) + 1):
            if not np.isfinite(rights[:, count - 1]).any():
                continue
            found = bottleneck_structure(network, X, k=count)
            assert found.excess.sum() <= found.bound + 1e-9
            assert (found.tails <= found.tail_bounds + 1e-9).all()
    found = bottleneck_structure([np.eye(4)[:3]] + [np.eye(3)] * 8, np.ones((2, 4)))  # a perfect bottleneck
    assert found.k == 3 and found.bound == pytest.approx(0.0, abs=1e-12) and found.excess.max() <= 1e-18
    solution = covopt.min_norm([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5], tol=1e-9)
    assert np.abs(balance(solution.network)[0]).max() < 1e-9


def test_tangent_kernel_trace_is_the_squared_gradient():
    rng = np.random.default_rng(2)
    network = random_network(rng, (3, 4, 5, 2))
    module = network.to_torch()
    X = rng.standard_normal((3, 3))
    for x, expected in zip(X, tangent_kernel_trace(network, X).sum(axis=1), strict=True):
        total = 0.0
        for j in range(2):
            module.zero_grad()
            module(torch.tensor(x[None]))[0, j].backward()
            total += sum(float((p.grad**2).sum()) for p in module.parameters())
        assert total == pytest.approx(expected, rel=1e-10)


def test_curvature_of_the_tangent_kernel_is_above_its_bound():
    rng = np.random.default_rng(3)
    for _ in range(60):
        widths = (int(rng.integers(1, 4)), *rng.integers(2, 5, int(rng.integers(1, 4))).tolist(), 2)
        value, bound = tangent_kernel_curvature(random_network(rng, widths), rng.standard_normal(widths[0]))
        assert value >= bound * (1 - 1e-12)
    # BN23 Proposition 9 states 2L; a balanced chain of scalars has L
    value, bound = tangent_kernel_curvature([np.array([[1.5]])] * 4, [1.0])
    assert value == pytest.approx(bound) and value < 2 * bound


# ---------------------------------------------------------------- tours
@pytest.mark.parametrize("n", [2, 3, 6])
def test_the_shortest_path_is_that_of_all_orders(n):
    X, Y = normal(n, (n, 2), (n, 2))
    steps = np.linalg.norm(Y[:, None] - Y[None], axis=2)
    spans = np.linalg.norm(X[:, None] - X[None], axis=2)
    lengths = {p: sum(steps[a, b] for a, b in pairwise(p)) for p in permutations(range(n))}
    tour = rank_one_tour(X, Y)
    assert tour.length == pytest.approx(min(lengths.values()))
    assert tour.slope == pytest.approx(min(v / spans[p[0], p[-1]] for p, v in lengths.items()))
    assert lengths[tuple(tour.order.tolist())] == pytest.approx(tour.length)
    assert path_length_down(steps, tour.length) <= tour.length + 1e-12


def test_many_points_get_a_bracket_near_the_exact_one():
    rng, Y = drawn(0, (8, 2))
    exact = rank_one_tour(rng.standard_normal((8, 1)), Y)
    steps = np.linalg.norm(Y[:, None] - Y[None], axis=2)
    low = path_length_down(steps, exact.length)
    assert 0.85 * exact.length < low <= exact.length
    many = rank_one_tour(np.linspace(0, 1, 40)[:, None], rng.standard_normal((40, 2)))
    assert many.lower <= many.length < 1.35 * many.lower
    assert not many.exact
    assert many.slope == pytest.approx(many.lower)  # the inputs' diameter is one


def test_a_network_through_a_line_costs_at_least_the_tour():
    # f = h ∘ g through one dimension: the data themselves come from such a network
    rng = np.random.default_rng(4)
    for _ in range(20):
        network = random_network(rng, (2, 1, 4, 2))
        X = rng.uniform(-1, 1, (6, 2))
        Y = network.predict(X)
        if np.linalg.norm(Y - Y[0]) < 1e-6:
            continue
        weights_only = sum(float((w**2).sum()) for w in network.weights)
        assert rank_one_tour(X, Y).cost(3) <= weights_only * (1 + 1e-9)
