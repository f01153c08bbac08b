"""What a solve prints its verification proves: a maximum to the last bit, an open bound or a better one."""

from unittest.mock import Mock

import numpy as np
import pytest

import covopt
from covopt.certificates import gauges
from covopt.errors import BudgetError
from covopt.losses import LOSSES
from covopt.oracles import support


@pytest.fixture
def open_bounds(monkeypatch):
    """A handful of boxes, nodes and pairs, and no faces: every bound is a valid one, none is the maximum."""

    monkeypatch.setattr(support, "BOXES", 3)
    monkeypatch.setattr(support, "oracle_for", Mock(side_effect=BudgetError("no faces")))
    monkeypatch.setattr(support, "MOST_ARCS", 0)
    monkeypatch.setattr(support, "sign_nodes", lambda *_: 3)
    monkeypatch.setattr(support, "quadratic_limit", lambda *_: 3)
    monkeypatch.setattr(support, "fan_limit", lambda *_: 3)
    monkeypatch.setattr(gauges.LabelNoiseGauge, "_oracle", lambda *_: None)


def table(seed, n=7, d=2, k=1):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((n, k)) if k > 1 else rng.standard_normal(n)


KINDS = ("none", "penalized", "free")


def recomputes(solution):
    checked = covopt.verify(solution)
    assert checked.ok, str(checked)
    stated, found = solution.certificate, checked.certificate
    if stated.exact:
        assert (stated.gauge, stated.lower_bound, True) == (found.gauge, found.lower_bound, found.exact)
    assert found.gauge <= stated.gauge * (1 + 1e-9) and found.lower_bound >= stated.lower_bound * (1 - 1e-9)
    return stated


@pytest.mark.thinned(3)
@pytest.mark.parametrize("output_bias", KINDS)
@pytest.mark.parametrize("k", [1, 2])
def test_open_bounds_of_interpolations(open_bounds, output_bias, k):
    X, Y = table(k, n=5, k=k)
    assert not recomputes(covopt.min_norm(X, Y, output_bias=output_bias)).exact
    assert not recomputes(covopt.frank_wolfe(X, Y, output_bias=output_bias, max_iter=2)).exact
    if k > 1:
        assert not recomputes(covopt.frank_wolfe(X, Y, lam=0.1, max_iter=2)).exact


@pytest.mark.parametrize("output_bias", ["none", "free"])
def test_open_bounds_of_label_noise(open_bounds, output_bias):
    X, y = table(3)
    assert not recomputes(covopt.min_norm(X, y, potential="label-noise", output_bias=output_bias)).exact
    assert not recomputes(covopt.fit(X, y, lam=0.01, potential="label-noise", output_bias=output_bias)).exact


@pytest.mark.thinned(5)
@pytest.mark.parametrize("output_bias", KINDS)
@pytest.mark.parametrize("loss", LOSSES)
def test_open_bounds_of_fits_and_paths(open_bounds, loss, output_bias):
    X, y = table(4)
    if loss not in ("squared", "huber"):
        y = np.arange(7) % (3 if loss.startswith("softmax") else 2)
    options = {"loss": loss, "output_bias": output_bias, "sample_weight": np.array([0.0, 1, 1, 2, 1, 1, 1])}
    solution = covopt.fit(X, y, lam=0.02, **options)
    # a node or two can be enough for the signs
    assert not recomputes(solution).exact or not solution.dual.any() or loss == "squared-hinge"
    if loss == "squared":
        for each in covopt.path(X, y, n_lams=2, **options):
            recomputes(each)


@pytest.mark.parametrize("orthogonal", [False, True])
def test_an_oracle_that_is_kept_answers_as_a_new_one(orthogonal):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows = np.eye(6) if orthogonal else np.column_stack([rng.standard_normal((6, 2)), np.ones(6)])
        dual = rng.standard_normal((6, 2))
        first = support.bound_gauge(rows, dual)
        units, weights, *_ = support.to_size_one(rows, dual)
        kept = support.oracle_for(units, 2)
        for _ in range(3):
            kept.price(weights + 0.1 * rng.standard_normal(weights.shape))
        assert support.bound_gauge(rows, dual) == first
