"""Certificates that were wrong once, against rational arithmetic; what a solve prints its verification proves."""

from fractions import Fraction
from unittest.mock import Mock

import numpy as np
import pytest

import covopt
from benchmarks.adversary.exactly import fractions
from covopt.certificates import dual_norms
from covopt.certificates.certify import Certifier
from covopt.certificates.conjugate import dual_bound, into_domain
from covopt.data import Data
from covopt.errors import BudgetError
from covopt.losses import LOSSES, Interpolation, make_loss
from covopt.network import ReLUNetwork
from covopt.oracles import certified
from covopt.oracles.certified import certified_dual_norm
from tests.oracles.table import is_above


def value_in_fractions(data, dual, kind, dual_norm):
    """max over 0 ≤ t ≤ 1/gauge of 2t⟨Λ, Y⟩ − t²β²‖Λᵀ1‖², for one output, Λ or −Λ; nothing rounded."""
    rows, targets = fractions(dual), fractions(data.Y[:, 0])
    linear, step, bend = abs(rows @ targets), 1 / Fraction(dual_norm), Fraction(0)
    if kind == "penalized":
        bend = Fraction(data.bias) ** 2 * sum(rows) ** 2
        step = min(step, linear / bend) if bend else step
    return 2 * step * linear - step**2 * bend


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("off", [1e-12, 1e-13, 1e-14, 1e-15])
def test_a_direction_that_is_dropped_is_paid_for(off, outputs):
    """Two rows that differ by less than rounding, with multipliers ∓1/off: h ≥ 1 along what tells them apart."""
    rng = np.random.default_rng(0)
    rows, dual = np.c_[rng.standard_normal((12, 4)), np.zeros(12)], 1e-3 * rng.standard_normal(12)
    rows[1], dual[:2] = [*rows[0, :4], off], [-1.0 / off, 1.0 / off]
    if outputs == 2:
        dual = dual[:, None] * [0.6, 0.8]
    assert is_above(rows, dual, np.eye(5)[4], certified_dual_norm(rows, dual).value)


def test_an_output_that_is_dropped_is_paid_for():
    """Beside multipliers that nearly cancel, those of another output are rounding: and a neuron of it is the best."""
    rng = np.random.default_rng(0)
    rows = np.c_[rng.standard_normal((12, 4)), np.zeros(12)]
    rows[1], own = [*rows[0, :4], 1e-17], 30.0 * rng.standard_normal(12)
    dual = own[:, None] * [-0.8, 0.6]
    dual[:2] = 1e17 * np.array([[-0.6, -0.8], [0.6, 0.8]])
    best = 2 + np.abs(own[2:]).argmax()
    assert is_above(rows, dual, rows[best], certified_dual_norm(rows, dual).value)


# -------------------------------------------------------------------- a dual outside of its domain
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_a_dual_outside_of_the_domain_is_moved_into_it(name, free):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        loss = make_loss(name)
        classes = 3 if "max" in name else 2
        y = rng.standard_normal(7) if name in ("squared", "huber") else np.arange(7) % classes
        targets = loss.encode_targets(y, rng.uniform(0.1, 2.0, 7))
        found = into_domain(loss, 10.0 * rng.standard_normal((7, targets.shape[1])), free=free)
        assert loss.contains(found)
        assert not free or not any(sum(map(Fraction, column)) for column in found.T.tolist())


def test_sums_of_many_rows_that_doubles_round_become_zero_exactly():
    loss = make_loss("softmax-cross-entropy")
    for seed in range(20):
        rng = np.random.default_rng(seed)
        loss.encode_targets([0, 1, 2, *rng.integers(0, 3, 300).tolist()])
        slope = rng.standard_normal((303, 3)) * rng.uniform(0, 3, 3) + 2 * rng.standard_normal(3)
        found = into_domain(loss, slope, free=True)
        assert found.any() and loss.contains(found)
        assert not any(sum(map(Fraction, column)) for column in found.T.tolist())


def test_a_stated_gauge_is_that_of_the_dual_as_it_is_given():
    data = Data.validate([[0.0], [1.0], [3.0]], [0.0, 1.0, 0.0])
    network, dual = ReLUNetwork(np.zeros((0, 2)), np.zeros((0, 1)), 1.0), np.array([1.0, 2.0, 1.0])
    found = Certifier(data, network, output_bias="free").certify(dual)  # moved to sum zero
    assert is_above(data.lifted, dual, np.ones(2), found.gauge)


def test_the_second_doubles_count_in_the_sum_that_a_penalised_bias_pays():
    targets, point, low = np.array([[1.0], [-1.0]]), np.array([[1.0], [-1.0]]), np.array([[0.25], [0.0]])
    found = dual_bound(Interpolation.of(targets), point, 1.0, 1.0, bias=4.0, low=low)
    assert found <= Fraction(9, 4) - Fraction(1, 2)


# --------------------------------------------------------------- a penalised bias and tiny targets
@pytest.mark.parametrize("power", [-3, -60, -190])
@pytest.mark.parametrize("kind", ["penalized", "free", "none"])
def test_the_bound_is_not_above_the_exact_value_of_the_dual(power, kind):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 7))
        X, y = rng.standard_normal((n, 1)), rng.standard_normal(n) * 10.0**power
        beta = 10.0 ** rng.uniform(-2, 2)
        data = Data.validate(X, y, bias=beta)
        dual = rng.standard_normal(n)
        if seed % 2:
            dual -= dual.mean()
        network = ReLUNetwork(np.zeros((0, 2)), np.zeros((0, 1)), beta)
        certifier = Certifier(data, network, output_bias=kind)
        found = certifier.certify(dual)
        # a free bias is a constraint on the sum: moved to it, the value changes by rounding only
        moved = dual - dual.mean() if kind == "free" else dual
        dual_norm = certifier.certify(moved).gauge
        value = value_in_fractions(data, moved, kind, dual_norm)
        assert Fraction(found.lower_bound) <= value * (1 + Fraction(kind == "free", 10**12))


@pytest.mark.parametrize("power", [-30, -66, -87])
def test_tiny_targets_with_a_penalised_bias_are_certified(power):
    X = [[4.3454264251094084e-05], [6.103898702682481e-05], [-1.801242702773192e-05], [4.520580115813914e-05]]
    y = np.array([5.14, -1.57, 11.4, -12.1]) * 10.0**power
    solution = covopt.min_norm(X, y, output_bias="penalized")
    assert covopt.verify(solution).ok
    assert solution.status is covopt.Status.CERTIFIED


# ----------------------------------------------------------------- label noise far from the origin
@pytest.mark.parametrize("shift", [0.0, 2.0**22, 2.0**40])
@pytest.mark.parametrize("seed", range(2))
def test_the_printed_potential_does_not_see_where_the_points_are(shift, seed):
    rng = np.random.default_rng(seed)
    X, y = np.unique(rng.integers(-40, 40, (6, 1 + seed % 2)) / 64.0, axis=0), rng.standard_normal(6)
    y = y[: len(X)]
    truth = covopt.min_norm(X, y, potential="label-noise")
    assert truth.status is covopt.Status.CERTIFIED
    moved = covopt.min_norm(X + shift, y, potential="label-noise")
    assert moved.lower_bound <= truth.cost * (1 + 1e-9)
    assert moved.lower_bound >= truth.lower_bound * (1 - 1e-6)
    if shift < 2.0**30:  # beyond, no hidden weights in doubles meet the points
        assert moved.cost == pytest.approx(truth.cost, rel=1e-6)


@pytest.mark.parametrize("potential", ["label-noise", "label-noise-exact"])
def test_label_noise_on_points_that_rounding_keeps_apart(potential):
    rng = np.random.default_rng(1)
    for spread in (1e-13, 1e-9):
        X = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]) + spread * rng.standard_normal((4, 2))
        y = np.array([0.0, 1.0, 0.0, 1.0])
        solution = covopt.min_norm(X, y, potential=potential)
        checked = covopt.verify(solution)
        assert checked.ok, checked.summary()
        # the cheapest network in one direction has a cost whatever the others hold
        line = covopt.min_norm(X @ [[0.2], [0.4]], y, potential="label-noise")
        if potential == "label-noise":
            assert solution.lower_bound <= line.cost * (1 + 1e-6)


# ---- what a solve prints its verification proves: a maximum to the last bit, an open bound or a better one.
@pytest.fixture
def open_bounds(monkeypatch):
    """A handful of boxes, nodes and pairs, and no faces: every bound is a valid one, none is the maximum."""

    monkeypatch.setattr(certified, "box_limit", lambda *_: 3)
    monkeypatch.setattr(certified, "oracle_for", Mock(side_effect=BudgetError("no faces")))
    monkeypatch.setattr(certified, "suits_integers", lambda *_: False)
    monkeypatch.setattr(certified, "sign_limit", lambda *_: 3)
    monkeypatch.setattr(certified, "quadratic_limit", lambda *_: 3)
    monkeypatch.setattr(certified, "fan_limit", lambda *_: 3)
    monkeypatch.setattr(dual_norms.LabelNoiseDualNorm, "_oracle", lambda *_: None)


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
        first = certified.certified_dual_norm(rows, dual)
        units, weights, *_ = certified.to_size_one(rows, dual)
        kept = certified.oracle_for(units, 2)
        for _ in range(3):
            kept.price(weights + 0.1 * rng.standard_normal(weights.shape))
        assert certified.certified_dual_norm(rows, dual) == first
