"""The certificate: every bound it states is one, by brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import covopt
from covopt.certificates.duality import certify, residual_of
from covopt.data import Data
from covopt.network import ReLUNetwork
from tests.bank.closed_forms import CASES, ProblemCase, all_cells, gauge

KINDS = st.sampled_from(["none", "penalized", "free"])


def table(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, (6, 2)).astype(float) if seed % 2 else rng.standard_normal((6, 2))
    X = np.unique(X, axis=0)
    return X, rng.standard_normal(len(X))


@given(st.integers(0, 10_000), KINDS)
def test_any_dual_gives_a_valid_bound(seed, kind):
    X, y = table(seed)
    data = Data.validate(X, y)
    optimum = covopt.min_norm(X, y, output_bias=kind, tol=1e-7, random_state=0)
    rng = np.random.default_rng(seed)
    for dual in (
        rng.standard_normal(len(y)), optimum.dual + 0.1 * rng.standard_normal(len(y)), 1e6 * optimum.dual,
        1e-9 * optimum.dual, -optimum.dual, np.eye(len(y))[0],
    ):  # fmt: skip
        found = certify(data, optimum.network, dual, output_bias=kind)
        assert 0 <= found.lower_bound <= optimum.cost * (1 + 1e-9)
        assert 0 <= found.gap <= 1


@given(st.integers(0, 10_000), KINDS)
def test_the_bound_is_the_scaled_duals_value_by_brute_force(seed, kind):
    X, y = table(seed)
    data = Data.validate(X, y)
    dual = np.random.default_rng(seed + 1).standard_normal(len(y))
    if kind == "free":
        dual -= dual.mean()
    case = ProblemCase("brute", X, y, 1.0, None, kind)
    height = gauge(case.lifted, dual, all_cells(case.lifted))
    steps = np.linspace(-1, 1, 20_001)[:, None] * dual / height
    penalty = steps.sum(axis=1) ** 2 if kind == "penalized" else 0.0
    best = float((2 * steps @ y - penalty).max())
    network = ReLUNetwork(np.zeros((0, 3)), np.zeros((0, 1)))
    found = certify(data, network, dual, output_bias=kind)
    assert found.lower_bound == pytest.approx(best, rel=1e-4, abs=1e-6)
    assert found.lower_bound >= best * (1 - 1e-9) - 1e-12


def test_the_cost_is_that_of_the_network_as_it_is():
    X, y = table(0)
    network = ReLUNetwork(np.ones((2, 3)), np.array([[3.0], [1.0]]), 1.0, np.array([2.0]), True)
    found = certify(Data.validate(X, y), network, np.ones(len(y)), output_bias="penalized")
    assert found.cost == 6 + 10 + 4
    free = ReLUNetwork(np.ones((2, 3)), np.array([[3.0], [1.0]]), 1.0, np.array([2.0]), False)
    assert certify(Data.validate(X, y), free, np.ones(len(y)), output_bias="free").cost == 16


def test_a_network_that_misses_the_points_does_not_interpolate():
    X, y = table(2)
    data = Data.validate(X, y)
    good = covopt.min_norm(X, y, random_state=0)
    worse = ReLUNetwork(good.network.hidden_weights * (1 + 1e-6), good.network.output_weights)
    assert certify(data, good.network, good.dual, output_bias="none").interpolates
    found = certify(data, worse, good.dual, output_bias="none")
    assert not found.interpolates
    assert found.residual == pytest.approx(residual_of(data, worse))
    empty = ReLUNetwork(np.zeros((0, 3)), np.zeros((0, 1)))
    found = certify(data, empty, good.dual, output_bias="none")
    assert (found.cost, found.gap, found.residual) == (0.0, 1.0, 1.0)


def test_a_network_with_nan_is_never_accepted():
    X, y = table(2)
    broken = ReLUNetwork(np.full((1, 3), np.nan), np.ones((1, 1)))
    found = certify(Data.validate(X, y), broken, np.ones(len(y)), output_bias="none")
    assert not found.interpolates
    assert not found.gap <= 1e-6


def test_zero_targets_have_the_zero_network():
    case = next(case for case in CASES if case.name == "zero-targets")
    data = Data.validate(case.X, case.y)
    empty = ReLUNetwork(np.zeros((0, 2)), np.zeros((0, 1)))
    found = certify(data, empty, np.zeros(3), output_bias="none")
    assert (found.cost, found.lower_bound, found.gap, found.residual) == (0.0, 0.0, 0.0, 0.0)
    one = ReLUNetwork(np.ones((1, 2)), np.ones((1, 1)))
    assert certify(data, one, np.zeros(3), output_bias="none").gap == 1.0


@pytest.mark.parametrize("ulps", [1, 2, 4, 8])
def test_rows_a_few_ulps_apart_do_not_raise_the_bound(ulps):
    eps = ulps * 2.0**-52
    data = Data.validate([[1.0], [1.0 + eps]], [0.0, 1.0])
    network = ReLUNetwork(np.array([[1.0, -1.0]]), np.array([[1.0 / eps]]))  # no product is rounded
    found = certify(data, network, np.array([-1.0, 1.0]) / eps, output_bias="none")
    assert found.residual == 0.0
    assert found.lower_bound <= 2 * np.sqrt(2) / eps * (1 + 1e-9)  # its norm when it is balanced
