"""Closed forms of linear maps and of one and two rows; what RK23 and BN23 print where it is wrong, and what holds."""

from fractions import Fraction
from functools import reduce
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import covopt
from covopt.depth import (
    bottleneck_structure,
    function_brackets,
    jacobian,
    linear_cost,
    linear_network,
    rank_one_tour,
)
from covopt.depth import two_rows as formulas
from covopt.depth.pairs import PairBound, recompute
from covopt.depth.two_rows import two_rows_cost
from covopt.errors import InputError
from covopt.exact.definite import singular_values_between
from covopt.network import DeepReLUNetwork
from tests.cases import normal
from tests.depth.bank.tables import TABLES, known, two_rows

seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.integers(1, 5), st.integers(1, 5), st.integers(-200, 200))
@settings(max_examples=40, deadline=None)
def test_singular_values_lie_in_their_enclosure(seed, m, n, power):
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.standard_normal((size, size)))[0] for size in (m, n))
    values = np.sort(10.0 ** rng.uniform(-20, 3, min(m, n)))[::-1]
    matrix = np.ldexp((left[:, : len(values)] * values) @ right[: len(values)], power)
    low, high = singular_values_between(matrix)
    # the table was rounded itself: by a few ulp of its size
    room = 32 * np.finfo(float).eps * np.linalg.norm(matrix)
    assert (low <= np.ldexp(values, power) + room).all()
    assert (high >= np.ldexp(values, power) - room).all()
    assert (high - low <= 1e-13 * high[0] * (m + n)).all()


def test_the_linear_network_attains_the_linear_cost_and_no_factorisation_is_smaller():
    rng = np.random.default_rng(0)
    for depth in (1, 2, 3, 7):
        A = rng.standard_normal((3, 5))
        layers = linear_network(A, depth)
        assert np.allclose(reduce(lambda product, layer: layer @ product, layers), A, atol=1e-12)
        norm = sum(float((w**2).sum()) for w in layers)
        assert norm == pytest.approx(float((A**2).sum()) if depth == 1 else linear_cost(A, depth), rel=1e-12)
    for _ in range(50):
        layers = [rng.standard_normal((4, 3)), rng.standard_normal((4, 4)), rng.standard_normal((2, 4))]
        norm = sum(float((w**2).sum()) for w in layers)
        assert linear_cost(layers[2] @ layers[1] @ layers[0], 3) <= norm * (1 + 1e-12)


# ---------------------------------------------------------------- one and two rows


@pytest.mark.parametrize("depth", [2, 6])
def test_the_slope_off_the_diagonal_decides(depth):
    # two alike rows: the best M is a multiple of the identity, and the slope there vanishes at one −y₁·y₂
    cosine, size, p = 0.4, 3.0, 1.0 / (depth - 1)
    low, high = 1.0 / (1.0 + cosine), 1.0 / (1.0 - cosine)
    a = (2.0 * size / (low**p + high**p)) ** (1.0 / (1.0 + p))
    edge = a**2 * cosine / (1.0 - cosine**2) * a ** (p - 1.0) * (high**p - low**p) / (high - low)
    assert edge < size  # else no two targets are like that
    diagonal = (depth - 1) * a**p * (low**p + high**p) + 2.0 * size / a
    gram, square = (Fraction(1), Fraction(1), Fraction(cosine)), Fraction(size)
    for turn in (0.1, 1e-7, -1e-7, -0.1):  # further out, and further in, where a linear map is the best
        moment = edge * (1.0 + turn)
        value = two_rows_cost(gram, (square, square, -Fraction(moment)), depth)
        linear = [(size - sign * moment) / (1.0 + sign * cosine) for sign in (1.0, -1.0)]
        expected = diagonal if turn > 0 else depth * sum(s ** (1.0 / depth) for s in linear)
        assert value == pytest.approx(expected, rel=1e-9) and value <= diagonal * (1.0 + 1e-12)


ALONE = [given for given in TABLES if given.bias == 0.0 and len(given.X) == 2 and given.lam is None]


def known_of_two_rows():
    """Yield X, Y, the depth and what the best network costs."""
    for table in ALONE:
        yield table.X, table.Y, table.depth, known(table.name)
    X, Y = two_rows(1.7), np.array([[1.0], [0.7]])  # k = 1: L(R₂/2)^{2/L}
    shallow = covopt.min_norm(X, Y, bias=0.0, tol=1e-9).objective
    yield X, Y, 3, 3.0 * (shallow / 2) ** (2 / 3) * (1.0 + 1e-8)


def test_no_multipliers_make_two_rows_cost_more_than_they_do(monkeypatch):
    honest = formulas.multipliers
    for X, Y, depth, least in known_of_two_rows():
        for place, turn in product(range(4), (0.0, -1e-3, 1e-3, 1.0)):

            def moved(gram, moments, depth, place=place, turn=turn):
                size = (1 / gram[0], 1 / gram[1], 1 / max(gram[:2]), max(moments[:2]))[place]
                for found in honest(gram, moments, depth):
                    yield tuple(m + Fraction(turn) * size * (k == place) for k, m in enumerate(found))

            monkeypatch.setattr(formulas, "multipliers", moved)
            for kind in ("rows", "quadrant"):  # the second in files of older versions, for some angles
                value = recompute(PairBound(1.0, kind, (0, 1)), X, Y, depth, 0.0, "none")
                assert value <= least and (turn != 0.0 or value >= 0.999999 * float(least))


# ---- what RK23 and BN23 print where it is wrong, and what holds instead: each printed form fails here.


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
    X, Y = normal(1, (6, 2), (6, 2))
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
