"""Closed forms of linear maps and of one and two rows, and what they bound."""

from dataclasses import replace
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import covopt
from covopt.data import Data
from covopt.depth import (
    Expansion,
    linear_cost,
    linear_expansion,
    linear_network,
    of_composition,
    of_sum,
    schatten_between,
)
from covopt.depth.acute import acute_value
from covopt.depth.level import obtuse_value
from covopt.depth.pairs import pair_bounds, recompute
from covopt.exact.singular import singular_values_between

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


def test_rank_that_rounding_makes_counts_in_neither_value_nor_lower_bound():
    A = np.outer([1.0, 2.0, 3.0], [0.1, 0.7, 0.3])
    assert linear_cost(A, 10) == pytest.approx(10 * np.linalg.norm(A) ** 0.2, rel=1e-12)
    low, high = schatten_between(A, 0.2)
    assert low <= np.linalg.norm(A) ** 0.2 <= high
    assert high > low + 1e-4  # an honest upper bound cannot know that the rank is one
    low, high = singular_values_between(np.array([[1.0, 1.0], [1.0, 0.0]]))  # s² are (3 ± √5)/2
    exact = np.sqrt((3 + np.array([1, -1]) * np.sqrt(5)) / 2)
    assert (low < exact + 1e-16).all() and (exact - 1e-16 < high).all() and (high - low < 1e-13).all()


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


def test_expansions_are_those_of_the_cost_and_rules_say_which_condition_failed():
    A = np.random.default_rng(3).standard_normal((3, 3))
    for depth in (100, 1000):
        assert abs(linear_cost(A, depth) - linear_expansion(A).at(depth)) < 50 / depth**2
    f, g = Expansion(2, 1.0, 4.0), Expansion(2, 0.5, 9.0)

    def composed(*given, first=f, positive=True):
        return of_composition(first, g, *given, inner_is_nonnegative=positive)

    assert composed(Expansion(2, 1.5, 25.0)).r2 == pytest.approx(25.0)
    assert of_sum(f, g, Expansion(4, 1.5, 0.0)).r2 == pytest.approx(13.0)
    for found, words in (
        (composed(positive=False), "g ≥ 0"),
        (composed(Expansion(1, 0, 0)), "f∘g"),
        (composed(Expansion(2, 1.0, 0)), "needed for R⁽²⁾; they are 1 and 1.5"),
        (composed(Expansion(2, 1.5, 0), first=Expansion(2, 1, -1)), "R⁽²⁾ ≥ 0"),
        (of_sum(f, g, Expansion(3, 1.5, 0.0)), "they are 3 and 2 + 2"),
        (of_sum(f, g, output_bias="free"), "needed"),
    ):
        assert words in found.failed[0]
    # diag(2, 3) ∘ diag(5, ½): commuting, so R⁽¹⁾ adds and R⁽²⁾ obeys the triangle inequality
    A, B = np.diag([2.0, 3.0]), np.diag([5.0, 0.5])
    whole = linear_expansion(A @ B)
    rule = of_composition(linear_expansion(A), linear_expansion(B), whole, inner_is_nonnegative=True)
    assert whole.r1 == pytest.approx(rule.r1) and whole.r2 <= rule.r2 + 1e-12


# ---------------------------------------------------------------- one and two rows


def test_the_acute_bound_is_the_least_over_two_numbers():
    rng = np.random.default_rng(0)
    for depth in (2, 3, 6):
        A = np.abs(rng.standard_normal((2, 2)))
        G, y = A @ A.T, rng.uniform(0.2, 2.0, 2)
        first, second = map(Fraction, y.tolist())
        gram = Fraction(G[0, 0]), Fraction(G[1, 1]), Fraction(G[0, 1])
        value = acute_value(gram, (first**2, second**2, -first * second), depth)
        inverse = np.linalg.inv(G)
        if depth == 2:
            assert value == pytest.approx(2 * (y * np.sqrt(np.diag(inverse))).sum(), rel=1e-6)
        for a, b in np.exp(rng.normal(0.0, 1.5, (200, 2))):
            root = np.diag(np.sqrt([a, b]))
            s = np.linalg.eigvalsh(root @ inverse @ root)
            there = (depth - 1) * (s ** (1 / (depth - 1))).sum() + y[0] ** 2 / a + y[1] ** 2 / b
            assert value <= there
        assert acute_value((gram[0], gram[1], -gram[2]), (first, first, -first), depth) == 0.0


def obtuse_rows(angle, Y):
    rows = np.array([[1.0, 0.0], [1.3 * np.cos(angle), 1.3 * np.sin(angle)]])
    return Data.validate(rows, Y, bias=0.0)


@pytest.mark.parametrize("depth", [2, 6])
def test_the_slope_off_the_diagonal_decides_to_nine_digits(depth):
    # two alike rows: the best M is a multiple of the identity, and the slope there vanishes at one −y₁·y₂
    cosine, size, p = 0.4, 3.0, 1.0 / (depth - 1)
    low, high = 1.0 / (1.0 + cosine), 1.0 / (1.0 - cosine)
    a = (2.0 * size / (low**p + high**p)) ** (1.0 / (1.0 + p))
    edge = a**2 * cosine / (1.0 - cosine**2) * a ** (p - 1.0) * (high**p - low**p) / (high - low)
    assert edge < size  # else no two targets are like that
    gram, square = (Fraction(1), Fraction(1), Fraction(cosine)), Fraction(size)
    inside, outside = (
        acute_value(gram, (square, square, -Fraction(edge * (1.0 + turn))), depth) for turn in (1e-7, -1e-7)
    )
    assert inside == pytest.approx((depth - 1) * a**p * (low**p + high**p) + 2.0 * size / a, rel=1e-8)
    assert outside == 0.0


def worth(bound, X, Y, bias=0.0, **change):
    """Return what is recomputed of a bound that is changed, or laid on another table."""
    return recompute(replace(bound, **change), np.asarray(X), np.asarray(Y), 3, bias, "none")


def test_a_bound_whose_conditions_fail_is_worth_nothing():
    X, Y = np.array([[1.0, 0.0], [-0.5, 2.0]]), np.array([[2.0], [-3.0]])
    apart = pair_bounds(X, Y, 3, 0.0, "none")[0]
    rates = np.abs(Y[:, 0]) / np.linalg.norm(X, axis=1)
    assert (apart.kind, apart.value) == (
        "apart",
        pytest.approx(3 * float((rates ** (2 / 3)).sum()), rel=1e-12),
    )
    assert worth(apart, X, np.abs(Y)) == worth(apart, X, Y, 1.0) == 0.0
    assert [b.kind for b in pair_bounds(X, Y, 3, 1.0, "free")] == ["lipschitz"]
    square = [[1.0, 0.2], [0.3, 1.0]], [[1.0, 2.0], [0.5, 1.0]]
    quadrant = next(b for b in pair_bounds(*map(np.array, square), 3, 0.0, "none") if b.kind == "quadrant")
    expected = linear_cost(np.linalg.solve(*map(np.array, square)).T, 3)
    assert quadrant.value == pytest.approx(expected, rel=1e-12) and worth(quadrant, X, Y) == 0.0
    for last, kind in (([-0.9, 0.5], "acute"), ([-0.3, 1.0], "quadrant")):
        data = obtuse_rows(1.0, [[1.0, 0.2], last])
        best = pair_bounds(data.X, data.Y, 3, 0.0, "none")[0]
        assert best.kind == kind and worth(best, data.X, np.abs(data.Y), kind="acute") == 0.0
        if kind == "quadrant":  # the slope off the diagonal is negative: the diagonal is not the best
            assert worth(best, data.X, data.Y, kind="acute") == 0.0


def test_the_obtuse_bound_agrees_with_one_output_scales_and_needs_its_conditions():
    # k = 1: L(R₂/2)^{2/L}, the shallow optimum is 3.0769…
    data = obtuse_rows(2.2, [1.0, 0.7])
    shallow = covopt.min_norm(data.X, data.Y, bias=0.0, tol=1e-9).objective
    for depth in (3, 8):
        obtuse = {b.kind: b for b in pair_bounds(data.X, data.Y, depth, 0.0, "none")}["obtuse"]
        assert obtuse.value == pytest.approx(depth * (shallow / 2) ** (2 / depth), rel=1e-7)
    for X, Y, change in (
        (np.abs(data.X), data.Y, {}), (data.X, data.Y * [[1], [-1]], {}), (data.X, data.Y, {"kind": "apart"}),
        (data.X, data.Y, {"rows": (0,)}),
    ):  # fmt: skip
        assert worth(obtuse, X, Y, **change) == 0.0
    one = obtuse_value((Fraction(1), Fraction(2), Fraction(-1)), (Fraction(3), Fraction(2), Fraction(1)), 4)
    for power in (-300, 0, 300):
        unit = Fraction(4) ** power
        scaled = obtuse_value((unit, 2 * unit, -unit), (3 * unit, 2 * unit, unit), 4)
        assert scaled == pytest.approx(one, rel=1e-11)
