"""Cheap lower bounds: closed forms, validity against the optimum, conditions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import covopt
from covopt.certificates.a_priori import a_priori_bounds
from covopt.data import Data
from tests.bank.problems import CLOSED_FORMS
from tests.cases import drawn, normal, unit


def bounds_of(case):
    return a_priori_bounds(case.X, case.Y, bias=case.bias, output_bias=case.output_bias)


def named(bounds):
    return {bound.name: bound.value for bound in bounds}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("case", CLOSED_FORMS, ids=lambda case: case.name)
def test_never_above_known_costs(case):
    values = [bound.value for bound in bounds_of(case)]
    assert values == sorted(values, reverse=True)
    assert all(0.0 <= value <= case.known * (1 + 1e-14) for value in values)


def test_vector_targets_and_a_free_offset():
    rng, X, Y = drawn(0, (9, 2), (9, 3))
    data = Data.validate(X, Y)
    free, none = (named(a_priori_bounds(X, Y, output_bias=kind)) for kind in ("free", "none"))
    assert "one point" not in free
    assert free["two points"] == none["two points"]
    moved = named(a_priori_bounds(X, Y + 7.0, output_bias="free"))
    for name, value in free.items():  # a dual norm is found by steps, which rounding leads astray
        assert moved[name] == pytest.approx(value, rel=1e-6)
    # a network through the points, as an upper bound: one neuron per row and output of a large random layer
    neurons = unit(rng.standard_normal((400, 3)))
    atoms = np.maximum(data.lifted @ neurons.T, 0)
    cost = 2 * np.linalg.norm(np.linalg.pinv(atoms) @ Y, axis=1).sum()
    assert max(none.values()) <= cost


def test_many_rows_are_read_in_chunks():
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(1200, 2))
    y = np.sin(3 * X[:, 0])
    X[1100], y[1100] = X[3] + [1e-3, 0.0], y[3] + 0.5
    bound = next(b for b in a_priori_bounds(X, y) if b.name == "two points")
    assert bound.value == pytest.approx(1000.0, rel=1e-9)
    assert "rows 3 and 1100" in bound.source


@pytest.mark.parametrize("size", [1e-300, 1e160])
def test_units_without_room_for_squares(size):
    X, y = normal(0, (8, 2), 8)
    plain = named(a_priori_bounds(X, y))
    assert min(plain.values()) > 0
    for name, value in named(a_priori_bounds(X, y * size)).items():
        assert value == pytest.approx(plain[name] * size, rel=1e-9)
    assert all(np.isfinite(b.value) for b in a_priori_bounds(X * 1e-300, y * 1e300, bias=1e-300))
    steep = named(a_priori_bounds(X * size, y))["two points"]
    assert steep == pytest.approx(plain["two points"] / size, rel=1e-9)


def test_targets_far_from_zero_prove_no_more_than_is_true():
    """With a free output bias Y and Y + 2⁴⁰ cost the same; products of a centred dual with 2⁴⁰ cancel."""
    rng = np.random.default_rng(3)
    for _ in range(3):
        X = rng.integers(-8, 9, (6, 1)) + np.linspace(0, 0.5, 6)[:, None]
        y = rng.integers(-8, 9, 6) / 8.0
        cost = covopt.min_norm(X, y, output_bias="free").cost
        for bound in a_priori_bounds(X, y + 2.0**40, output_bias="free"):
            assert bound.value <= cost * (1 + 1e-9), bound


def test_the_nuclear_norm_of_one_line_is_attained_to_rounding():
    """Rows along one line, all active together: R = 2 ‖y‖ / ‖X̃‖ is the cost of one neuron, and no bound is above."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows = np.abs(rng.standard_normal((9, 1))) + 0.1
        y = float(rng.standard_normal()) * rows[:, 0]
        square = sum(Fraction(float(v)) ** 2 for v in y) / sum(Fraction(float(v)) ** 2 for v in rows[:, 0])
        for bound in a_priori_bounds(rows, y, bias=0.0):
            if bound.name == "nuclear norm":  # exact for any data, tight here
                assert Fraction(bound.value) ** 2 <= 4 * square
                assert bound.value >= 2 * float(square) ** 0.5 * (1 - 1e-12)


def test_lengths_whose_squares_are_no_doubles_bound_no_more_than_they_should():
    """One point said 1.8e308 of a row of 2.5e-162; it costs 2/2.5e-162. Differences of 1e-162 are off by a tenth."""
    tiny = 2.5e-162
    for bound in a_priori_bounds([[tiny, 0.0], [0.0, 1.0]], [1.0, 0.0], bias=0.0):
        assert bound.value <= 2.0 / tiny
    for step in (tiny, 2.3e-162, 4.1e-162):  # one neuron (1, 0) passes through all of these
        for bound in a_priori_bounds([[0.0, 0.0], [step, 0.0], [0.0, 1.0]], [0.0, 1.0, 0.0]):
            assert bound.value <= 2.0 / step
