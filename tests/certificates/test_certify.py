"""The certificate: every bound it states is one, by brute force."""

from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import covopt
from covopt.certificates.certify import Certifier, residual_of
from covopt.certificates.conjugate import conjugate_above
from covopt.data import Data
from covopt.errors import Status
from covopt.losses import Interpolation, make_loss
from covopt.network import ReLUNetwork
from tests.bank.arrangement import Arrangement

KINDS = st.sampled_from(["none", "penalized", "free"])


def table(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, (6, 2)).astype(float) if seed % 2 else rng.standard_normal((6, 2))
    X = np.unique(X, axis=0)
    return X, rng.standard_normal(len(X))


@given(st.integers(0, 10_000), KINDS)
def test_the_bound_is_the_scaled_duals_value_by_brute_force(seed, kind):
    X, y = table(seed)
    data = Data.validate(X, y)
    dual = np.random.default_rng(seed + 1).standard_normal(len(y))
    if kind == "free":
        dual -= dual.mean()
    height = Arrangement(data.lifted).dual_norm(dual)
    steps = np.linspace(-1, 1, 20_001)[:, None] * dual / height
    penalty = steps.sum(axis=1) ** 2 if kind == "penalized" else 0.0
    best = float((2 * steps @ y - penalty).max())
    network = ReLUNetwork(np.zeros((0, 3)), np.zeros((0, 1)))
    found = Certifier(data, network, output_bias=kind).certify(dual)
    assert found.lower_bound == pytest.approx(best, rel=1e-4, abs=1e-6)
    assert found.lower_bound >= best * (1 - 1e-9) - 1e-12
    assert (found.cost, found.gap, found.residual) == (0.0, 1.0, 1.0)  # no network misses all there is


# ---------------------------------------------------------------------- what may be claimed
STOPPED = [Status.CERTIFIED, Status.GAP, Status.TIME_LIMIT, Status.HEURISTIC]


@pytest.mark.parametrize("stopped", STOPPED)
@pytest.mark.parametrize("loss", [None, "squared"])
@pytest.mark.parametrize("output_bias", ["none", "free"])
def test_the_certificate_decides_the_status_and_not_the_solver(stopped, loss, output_bias):
    (X, y), options = table(2), {"output_bias": output_bias, "random_state": 0}
    good = covopt.min_norm(X, y, **options) if loss is None else covopt.fit(X, y, lam=0.1, **options)

    def concluded(network, dual, tol):
        certifier = Certifier(good.data, network, output_bias=output_bias, loss=good.loss, lam=0.1)
        return certifier.conclude(dual, stopped=stopped, tol=tol)

    found = concluded(good.network, good.dual, 1e-6)
    assert found.status is Status.CERTIFIED
    assert found.certificate.lower_bound == pytest.approx(good.lower_bound, rel=1e-12)
    worse = replace(good.network, hidden_weights=good.network.hidden_weights * (1 + 1e-3))
    claimed = Status.GAP if stopped is Status.CERTIFIED else stopped
    assert concluded(worse, good.dual, 1e-9).status is claimed
    for factor in (0.5, 1.01):  # by the multiple of twice the size, or divided by what it exceeds one by
        found = concluded(good.network, factor * good.dual, 1e-6)
        assert found.status is Status.CERTIFIED and found.certificate.gauge <= 1 + 1e-8
        assert loss is None or found.certificate.gauge >= 1 - 1e-6
    np.testing.assert_allclose(found.dual, good.dual, rtol=1e-6, atol=1e-9)


def test_interpolation_is_a_loss_like_the_others():
    X, y = table(3)
    loss, data = Interpolation.of(y), Data.validate(X, y)
    good = covopt.min_norm(X, y, random_state=0)
    found = Certifier(data, good.network, output_bias="none", loss=loss, lam=7.0).certify(good.dual)
    assert found == Certifier(data, good.network, output_bias="none").certify(good.dual)
    assert (found.objective, found.loss_value) == (found.cost, 0.0)
    U = np.random.default_rng(0).standard_normal((len(y), 1))
    # Fenchel and Young, with equality: every U is a slope at the targets
    assert loss.value(y) + loss.conjugate(U) == pytest.approx(float(U[:, 0] @ y), abs=1e-12)
    np.testing.assert_array_equal(loss.conjugate_gradient(U)[:, 0], y)
    assert not loss.conjugate_hessian(U).any()
    assert loss.value(y * (1 + 1e-6)) == np.inf


def test_a_dual_that_settling_moves_is_divided_by_its_gauge_again():
    """Weights of thirteen orders: the multiple is moved, too: its dual norm was 1.00002, which verify refuses."""
    loss = make_loss("softmax-cross-entropy")
    weights = [454117.1546447802, 1.3300579137938418e-07, 0.0025395610037834836]
    weights += [4.93128246326223e-07, 0.087691588249721]
    targets = loss.encode_targets([1, 1, 0, 1, 0], weights)
    data = Data.validate([[-1.0], [-1.0], [0.0], [2.0], [-2.0]], targets, bias=1.0, interpolates=False)
    column = np.array([-2.70711177, -7.75481824e-13, 2.06066190, -3.53550969e-01, 1.00000085])
    network = ReLUNetwork(np.ones((1, 2)), np.zeros((1, 2)))
    certifier = Certifier(data, network, output_bias="free", loss=loss, lam=1e-12)
    found = certifier.conclude(np.column_stack([column, -column]), stopped=Status.GAP, tol=1e-6)
    assert 0.999 < found.certificate.gauge <= 1.0 + 1e-8
    assert found.certificate.lower_bound > 2.05e-10


def test_a_dual_whose_settling_lifts_it_above_norm_one_is_not_grown():
    loss, column = make_loss("softmax-cross-entropy"), np.array([4.739e9, -5.251e9, 4.739e9, -4.227e9])
    X, targets = [[-2.57e-11], [-7.04e-11], [-3.35e-11], [1.415e-10]], loss.encode_targets([0, 1, 0, 1])
    data = Data.validate(X, targets, bias=1.0, interpolates=False)
    network = ReLUNetwork(np.ones((1, 2)), np.ones((1, 2)))
    certifier = Certifier(data, network, output_bias="free", loss=loss, lam=1.25e-11)
    found = certifier.conclude(np.column_stack([column, -column]), stopped=Status.GAP, tol=1e-6)
    assert 0.999 < found.certificate.gauge <= 1.0 + 1e-8  # grown, it is 1.0000008


def test_the_residual_knows_what_the_output_bias_is_rounded_by():
    x, w, b, bias = 1e11, 0.1, -9999.999900000001, 1e6
    network = ReLUNetwork(np.array([[w, 0.0]]), np.ones((1, 1)), bias, np.array([b]), False)
    data = Data.validate([[x]], [1e-6], bias=bias)
    exact = Fraction(w) * Fraction(x) + Fraction(bias) * Fraction(b) - Fraction(1e-6)
    assert residual_of(data, network) == pytest.approx(abs(float(exact)) / 1e-6, rel=1e-12)
    rounded = Fraction(bias * b) - Fraction(bias) * Fraction(b)
    assert abs(rounded) > abs(exact) / 10**9


@pytest.mark.parametrize("output_bias", ["none", "penalized", "free"])
@pytest.mark.parametrize("turn", [1e-3, 1e-6])
def test_a_network_that_misses_its_points_at_the_right_norm_is_not_certified(output_bias, turn):
    X, y = table(4)
    data = Data.validate(X, y)
    optimum = covopt.min_norm(X, y, output_bias=output_bias, random_state=0)
    assert optimum.status is Status.CERTIFIED
    network = optimum.network
    hidden = network.hidden_weights.copy()
    a, b = hidden[0, 0], hidden[0, 1]  # a rotation keeps the norm
    hidden[0, :2] = np.cos(turn) * a - np.sin(turn) * b, np.sin(turn) * a + np.cos(turn) * b
    turned = replace(network, hidden_weights=hidden)
    assert optimum.certificate.interpolates
    certifier = Certifier(data, turned, output_bias=output_bias)
    found = certifier.certify(optimum.dual)
    assert found.gap <= 1e-6 and 0.01 * turn < found.residual == residual_of(data, turned)
    assert not found.interpolates
    assert found.status(Status.CERTIFIED, 1e-6) is Status.GAP
    assert found.status(Status.TIME_LIMIT, 1e-6) is Status.TIME_LIMIT
    ended = certifier.conclude(optimum.dual, stopped=Status.CERTIFIED, tol=1e-6)
    assert ended.status is Status.GAP


def entropy(q: Decimal) -> Decimal:
    return q * q.ln() if q > 0 else Decimal(0)


@pytest.mark.parametrize("loss", ["logistic", "softmax-cross-entropy"])
def test_it_is_above_in_forty_digits_for_every_dual_nearby(loss):
    rng = np.random.default_rng(11)
    labels = np.array([0, 1, 1, 0, 1])
    terms = make_loss(loss)
    terms.encode_targets(labels)
    u = 2.0**-53
    for _ in range(60):
        # chances of the own class from 1e-17 to 1 − 1e-16, all rows near the same edge
        q = np.clip(
            10.0 ** rng.uniform(-17, 0, 5) if rng.integers(2) else 1 - 2.0 ** -rng.integers(1, 53, 5), 0, 1
        )
        if loss == "logistic":
            U = (np.where(labels > 0, -1.0, 1.0) * q / 5)[:, None]
        else:
            U = np.where(np.eye(2)[labels] > 0, -1.0, 1.0) * q[:, None] / 5
        above = conjugate_above(terms, U, roundings=4)
        with localcontext() as context:
            context.prec = 60
            for moved in (Decimal(0), Decimal(4 * u), Decimal(-4 * u)):
                value = Decimal(0)
                for row, weight in zip(np.abs(U[:, 0]), terms.weights[:, 0], strict=True):
                    w = Decimal(float(weight))
                    p = min(Decimal(float(row)) * (1 + moved) / w, Decimal(1))
                    value += w * (entropy(p) + entropy(1 - p))
                assert value <= Decimal(above)
        assert above - float(value) <= 1e-12
