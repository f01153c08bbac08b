"""Conditions at a local minimum, and what brackets say of the expansion in the depth."""

import numpy as np
import pytest

from covopt.depth import estimate_expansion
from covopt.depth.descent import adam, objective
from covopt.depth.layers import Layout, stationarity
from covopt.losses import make_loss
from covopt.network import DeepReLUNetwork


def test_a_balanced_chain_is_stationary_and_a_shaken_one_is_not():
    X = np.array([[1.0, 2.0], [-1.0, 0.5]])
    row = np.array([[1.0, 2.0]]) / np.sqrt(5.0)
    ones = np.array([[1.0]])
    assert stationarity(DeepReLUNetwork([row, ones, ones]), X[:1], "none") < 1e-12
    # off the direction of the only row that counts nothing holds the weights up
    assert stationarity(DeepReLUNetwork([np.array([[1.0, 0.0]]), ones, ones]), X[:1], "none") > 0.3


def test_multipliers_of_touching_samples_push_one_way():
    # v σ(w·x) with w along (1, 0.5), through a row (1, 0): shorter with w₂ = 0 unless a row at zero objects
    length = 1.25**0.25
    chain = DeepReLUNetwork([np.array([[1.0, 0.5]]) / length, np.array([[length]])])
    row = np.array([[1.0, 0.0]])
    assert stationarity(chain, row, "none") > 0.1
    assert (
        stationarity(chain, np.vstack([row, [1.0, -2.0]]), "none") < 1e-9
    )  # silent only as long as w₂ ≥ w₁/2
    assert stationarity(chain, np.vstack([row, [-1.0, 2.0]]), "none") > 0.1  # silent for smaller w₂, too
    big = DeepReLUNetwork([np.ones((400, 2)), np.ones((400, 400)), np.ones((1, 400))])
    assert stationarity(big, np.ones((50, 2)), "none") is None  # too large to be asked


def test_an_expansion_is_recovered_from_brackets():
    def cost(depth):
        return 2.0 * depth + 0.6 + 0.2 / depth

    exact = estimate_expansion([(L, cost(L), cost(L)) for L in (3, 4, 6)])
    for (low, high), truth in zip((exact.r0, exact.r1, exact.r2), (2.0, 0.6, 0.2), strict=True):
        assert low == pytest.approx(truth, abs=1e-4)
        assert high == pytest.approx(truth, abs=1e-4)
    assert exact.slack == 0.0
    wide = estimate_expansion([(L, 0.95 * cost(L), cost(L)) for L in (3, 4, 6)])
    assert wide.r0[0] < 2.0 < wide.r0[1]
    assert wide.r0[1] - wide.r0[0] > 0.1
    # a remainder that no expansion of three terms has
    bent = estimate_expansion([(L, cost(L) + (-1) ** L, cost(L) + (-1) ** L) for L in (3, 4, 5, 6)])
    assert bent.slack > 0.01


def test_adam_lowers_the_objective_from_random_weights():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((5, 2)), rng.standard_normal(5)
    loss = make_loss("squared")
    loss.encode_targets(y)
    layout = Layout((2, 6, 6, 1), 1.0, "none")
    theta = rng.standard_normal(layout.size)
    assert objective(layout, adam(layout, theta, X, loss, 1e-3), X, loss, 1e-3) < 0.1 * objective(
        layout, theta, X, loss, 1e-3
    )
