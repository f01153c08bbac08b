"""Theorems with known answers, what the exact functions round to, and closed forms of the maximum over all faces."""

import math
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import covopt
from covopt.exact.elimination import integer_array, negative_direction
from covopt.proofs.checker.dual import (
    check_by_faces,
    check_network,
    dual_value,
    fractions,
    lift,
    repair_above,
)
from covopt.proofs.checker.faces import square_above
from tests.bank.problems import Problem
from tests.cases import normal
from tests.oracles.table import objects
from tests.proofs.simple import by_faces, make_problem, proved


# ---------------------------------------------------------------------------------------------- losses
def least(loss, targets, price):
    """The least of the mean loss of constants f + price · |f|, as the bank writes it out."""
    ones = np.ones((len(targets), 1))
    bank = Problem("", 0.0 * ones, np.array(targets), 0.0, loss=loss)
    options = {"bounds": (-3.0, 3.0), "options": {"xatol": 1e-12}}
    return minimize_scalar(lambda f: bank.value(f * ones) + price * abs(f), **options).fun


@pytest.mark.parametrize("loss", ["squared", "huber", "hinge", "squared-hinge"])
@pytest.mark.parametrize("dual", [0.3, 1.0, 5.0, -1.0])
@pytest.mark.parametrize("row", [1.0, 0.1])
def test_one_sample_with_a_loss(loss, dual, row):
    """Any dual point gives a bound, those outside of the domain too; the best multiplier attains the optimum."""
    options = {"bias": 0.0, "loss": loss, "lam": 0.1}
    problem, price = make_problem([[row]], [1.0], **options), 0.2 / row
    truth = least(loss, [1.0], price)
    two = make_problem([[row], [3.0]], [1.0, -1.0], **options, sample_weight=np.array([2.0, 0.0]))
    if loss == "huber":  # δ² times that of y/δ
        assert by_faces(replace(problem, delta=0.5), [dual]) <= 0.25 * least(loss, [2.0], 2 * price) + 1e-12
    for bound in (proved(problem, [dual]), by_faces(problem, [dual]), by_faces(two, [dual, dual])):
        assert 0 <= bound <= truth + 1e-12
        assert dual != 1.0 or float(bound) == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("loss", ["hinge", "huber", "squared-hinge"])
def test_a_free_output_bias_stays_inside_the_domain(loss):
    """Two classes on one point: the best network is a constant, and no clipping may lift the bound above it."""
    problem = make_problem([[1.0], [1.0], [1.0]], [1.0, 1.0, -1.0], output_bias="free", loss=loss, lam=0.5)
    truth = least(loss, [1.0, 1.0, -1.0], 0.0)
    for seed in range(5):
        dual = np.random.default_rng(seed).standard_normal(3)
        assert max(proved(problem, dual), by_faces(problem, dual)) <= truth + 1e-12


# ---------------------------------------------------------------------------------------------- network
def test_the_residual_and_its_repair_are_exact():
    problem = make_problem([[0.0], [1.0], [3.0]], [0.0, 1.0, 3.0])
    found = check_network(problem, np.array([[1.0, 0.0]]), np.array([[1.0]]), np.zeros(1))
    assert (found.cost, found.residual, found.repair) == (2, 0, 0)
    found = check_network(problem, np.array([[1.0, 0.0]]), np.array([[1.5]]), np.zeros(1))
    assert found.residual == Fraction(3, 2)
    # f - y = (0, 1/2, 3/2) is half of max(x, 0) on the points: no more than twice its length
    assert 1 <= found.repair < 8
    without = replace(problem, bias=0.0)
    assert check_network(without, np.array([[1.5]]), np.array([[1.0]]), np.zeros(1)).repair is None


@pytest.mark.parametrize(
    ("loss", "y", "value"),
    [
        ("squared", 1, 6.625**2),
        ("huber", 1, 0.5 * 6.375),
        ("hinge", -1, 8.625),
        ("squared-hinge", -1, 8.625**2),
    ],
)
def test_what_a_network_costs_and_misses_by_hand(loss, y, value):
    """f(1) = 3 (2·1 + ½·1) + ½·¼."""
    problem = make_problem([[1.0]], [y], bias=0.5, output_bias="penalized", loss=loss, lam=1.0, delta=0.5)
    found = check_network(problem, np.array([[2.0, 1.0]]), np.array([[3.0]]), np.array([0.25]))
    assert (found.cost, found.residual, found.loss) == (14.0625, 7.625 - y, value)


def test_the_repair_bounds_an_optimal_network():
    # of the first no direction tells all points apart; the second costs what its one neuron does
    near = np.array([[1.0, 0.0], [1.0, 1e-300], [1.0 + 2.0**-52, 0.0]])
    assert repair_above(make_problem(near, np.arange(3.0)), fractions(np.arange(3.0)[:, None])) is None
    for X, r in ((np.array([[10.0], [11.0]]), np.array([[0.0], [1.0]])), normal(1, (9, 2), (9, 1))):
        problem = make_problem(X, r)
        assert covopt.min_norm(X, r).lower_bound <= repair_above(problem, fractions(r))
    twice = replace(problem, X=np.vstack([X, X]), Y=np.vstack([r, r]))
    assert repair_above(twice, fractions(twice.Y)) == repair_above(problem, fractions(r))
    assert repair_above(twice, fractions(np.vstack([r, 2 * r]))) is None


# ---------------------------------------------------------------------------------------------- arithmetic
def test_floats_become_integers_of_one_unit():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 2)) * 10.0 ** rng.integers(-200, 200, (3, 2))
    whole, unit = integer_array(a)
    assert [int(n) * unit for n in whole.ravel()] == [Fraction(v) for v in a.ravel()]


def test_the_checker_imports_no_solver_and_is_short():
    code = "import sys, covopt.proofs; print([m for m in sys.modules if m.startswith(('covopt', 'numba', 'scipy'))])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    beside = "covopt", "covopt.exact", "covopt.exact.elimination", "covopt.exact.rounding"
    assert all(name.startswith(("covopt.proofs", "covopt.errors", "covopt.files")) or name in beside
               for name in eval(loaded))  # fmt: skip
    folder = Path(covopt.__file__).parent / "proofs" / "checker"
    files = [file for file in folder.glob("*.py") if file.name != "covopt_check.py"]
    assert sum(len(file.read_text().splitlines()) for file in files) < 900


def test_a_penalised_output_bias_is_paid_in_the_value_of_a_dual():
    """At x = 0 with β = 1 the constant b alone meets y = 1 at cost 1: no multiple of λ = 1 may be worth more."""
    problem = make_problem([[0.0]], [1.0], output_bias="penalized")
    for dual_norm in (Fraction(1, 4), Fraction(1), Fraction(4)):
        assert dual_value(problem, [Fraction(1)], dual_norm) <= 1
    assert dual_value(problem, [Fraction(1)], Fraction(1)) == 1
    # min (b − 1)² + b²/2
    assert by_faces(replace(problem, loss="squared", lam=0.5), [1.0]) == Fraction(1, 3)


# ---------------------------------------------------------------------------------------------- faces
def test_the_bound_by_all_faces_divides_by_no_less_than_h():
    for X, y, dual in zip(normal(1, (8, 5, 2)), *normal(2, (8, 5), (8, 5)), strict=True):
        problem = make_problem(X, y)
        found, linear = check_by_faces(problem, dual).lower_bound, objects(dual) @ objects(y)
        assert found**2 * square_above(lift(problem), dual) <= (2 * linear) ** 2


def dual_norm(rows: np.ndarray, dual: np.ndarray) -> float:
    return math.sqrt(square_above(np.asarray(rows, dtype=float), np.asarray(dual, dtype=float)))


def test_a_turn_by_whole_numbers_and_the_order_of_rows_change_nothing():
    rng = np.random.default_rng(1)
    rows, dual = rng.integers(-9, 10, (7, 3)).astype(float), rng.integers(-9, 10, 7).astype(float)
    turn = np.array([[3.0, 4.0, 0.0], [-4.0, 3.0, 0.0], [0.0, 0.0, 5.0]])
    one, order = square_above(rows, dual), rng.permutation(7)
    assert square_above((rows @ turn)[order], dual[order]) == 25 * one
    assert square_above(np.ldexp(rows, 400), np.ldexp(-dual, -700)) == one / 4**300


@pytest.mark.parametrize("r", [2, 3])
def test_largest_eigenvalues_are_rounded_up(r):
    """Where all rows are active h² is one of a matrix of integers, and no rational number."""
    for seed in range(6):
        dual = np.random.default_rng(seed).integers(1, 9, (r, r))
        found, gram = square_above(np.eye(r), dual * 1.0), dual @ dual.T
        assert negative_direction(found * np.eye(r, dtype=int) - gram) is None
        assert float(found) == pytest.approx(np.linalg.norm(dual, 2) ** 2, rel=1e-12)


@pytest.mark.parametrize("d", [1, 2])
def test_one_circle_is_as_good_as_all_faces(d):
    rng = np.random.default_rng(d)
    rows, dual = rng.standard_normal((7, d)), rng.integers(-2, 3, (7, 2)).astype(float)
    padded = np.pad(rows, ((0, 0), (0, 3 - d)))
    assert dual_norm(rows, dual) == pytest.approx(dual_norm(padded, dual), rel=1e-11)
