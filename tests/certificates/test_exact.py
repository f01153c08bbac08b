"""Rational arithmetic against closed forms and against floats."""

from fractions import Fraction

import numpy as np
import pytest

import covopt
from covopt.certificates.exact import exact_values
from covopt.data import Data
from covopt.network import ReLUNetwork


@pytest.mark.parametrize("output_bias", ["none", "penalized", "free"])
def test_agrees_with_floats_and_verifies(output_bias):
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((15, 2)), rng.standard_normal(15)
    solution = covopt.min_norm(X, y, output_bias=output_bias)
    values = exact_values(solution.data, solution.network, solution.dual, output_bias=output_bias, gauge=1.0)
    assert float(values.cost) == pytest.approx(solution.cost, rel=1e-14)
    assert float(values.lower_bound) == pytest.approx(solution.lower_bound, rel=1e-11)
    assert float(values.residual) < 1e-9
    verification = covopt.verify(solution, exact=True)
    assert verification.ok
    names = {check.name for check in verification.checks}
    assert {"exact interpolation", "exact norm", "exact dual value"} <= names
    assert ("exact dual sum" in names) == (output_bias == "free")


def test_penalised_bound_stops_at_the_best_multiple():
    data = Data.validate([[3.0]], [2.0], bias=4.0)
    network = ReLUNetwork.from_neurons(np.zeros((0, 2)), np.zeros(0), bias=4.0, offset=2.0)
    values = exact_values(data, network, np.array([1.0]), output_bias="penalized", gauge=5.0)
    assert (values.residual, values.cost, values.lower_bound) == (0, Fraction(1, 4), Fraction(1, 4))


def test_worthless_duals_bound_by_zero():
    data = Data.validate([[1.0]], [2.0])
    network = ReLUNetwork.from_neurons(np.zeros((0, 2)), np.zeros(0), bias=1.0)
    values = exact_values(data, network, np.array([-1.0]), output_bias="none", gauge=1.0)
    assert (values.lower_bound, values.residual) == (0, 1)


def test_a_residual_that_floats_round_away_is_seen():
    data = Data.validate([[1.0]], [1.0], bias=0.0)
    off = np.nextafter(1.0, 2.0)
    network = ReLUNetwork(np.array([[off]]), np.array([[1.0]]), bias=0.0)
    values = exact_values(data, network, np.array([1.0]), output_bias="none", gauge=1.0)
    assert values.residual == Fraction(off) - 1 > 0


def test_a_moved_weight_fails(tmp_path):
    solution = covopt.min_norm([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5])
    solution.network.output_weights[0, 0] *= 1 + 1e-8
    failed = {check.name for check in covopt.verify(solution, exact=True).checks if not check.ok}
    assert "exact interpolation" in failed
    assert "exact norm" in failed
