"""Losses against differences, Fenchel and Young; one that covopt does not have, added as CONTRIBUTING.md says."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import xlogy

import covopt
from covopt.losses import LOSSES, Loss, loss_from_dict, make_loss
from covopt.losses.classification import encode_binary, encode_classes
from covopt.verification import verify_path
from tests.cases import cases, drawn

NAMES = tuple(LOSSES)


def bound(name, rng, n=7, *, weighted=True):
    loss = make_loss(name)
    targets = rng.standard_normal(n)
    if name == "squared":
        targets = rng.standard_normal((n, 2))
    elif name == "softmax-cross-entropy":
        targets = np.concatenate([[0, 1, 2], rng.integers(0, 3, n - 3)])
    elif loss.is_classification:
        targets = np.where(targets > 0, 1.0, -1.0)
    loss.encode_targets(targets, rng.uniform(0.1, 2.0, n) if weighted else None)
    return loss


def inside(loss, rng):
    """A random point of the domain of the conjugate."""
    return loss.project(rng.standard_normal(loss.targets.shape) * loss.weights)


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 10_000))
def test_fenchel_young(name, seed):
    rng = np.random.default_rng(seed)
    loss = bound(name, rng)
    U, F = inside(loss, rng), 3 * rng.standard_normal(loss.targets.shape)
    assert loss.contains(U)
    size = 1 + abs(loss.value(F))
    assert loss.value(F) + loss.conjugate(U) >= np.vdot(U, F) - 1e-12 * size
    # equality at the gradient
    G = loss.gradient(F)
    assert loss.contains(loss.project(G))
    assert abs(loss.value(F) + loss.conjugate(loss.project(G)) - np.vdot(G, F)) <= 1e-10 * size


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 10_000))
def test_gradients_and_hessians_by_finite_differences(name, seed):
    rng = np.random.default_rng(seed)
    loss = bound(name, rng)
    F = 2 * rng.standard_normal(loss.targets.shape)
    D = rng.standard_normal(F.shape)
    t = 1e-6
    slope = (loss.value(F + t * D) - loss.value(F - t * D)) / (2 * t)
    assert slope == pytest.approx(float(np.vdot(loss.gradient(F), D)), abs=1e-6)
    kinks = {"huber": np.abs(np.abs(F - loss.targets) - 1), "hinge": np.abs(1 - loss.targets * F)}
    kinks["squared-hinge"] = kinks["hinge"]
    if name in kinks and kinks[name].min() < 1e-3:
        return
    H = loss.hessian(F)
    applied = np.einsum("iab,ib->ia", H, D) if H.ndim == 3 else H * D
    change = (loss.gradient(F + t * D) - loss.gradient(F - t * D)) / (2 * t)
    np.testing.assert_allclose(applied, change, atol=1e-6)


@pytest.mark.parametrize("name", ["squared", "huber", "logistic", "softmax-cross-entropy"])
@given(seed=st.integers(0, 10_000))
def test_the_conjugate_gradient_inverts_the_gradient(name, seed):
    rng = np.random.default_rng(seed)
    loss = bound(name, rng)
    F = 2 * rng.standard_normal(loss.targets.shape)
    if name == "huber":
        F = loss.targets + rng.uniform(-0.9, 0.9, F.shape)
    back = loss.conjugate_gradient(loss.gradient(F))
    if name == "softmax-cross-entropy":
        F = F - F.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(back, F, atol=1e-8)
    t = 1e-7
    D = loss.gradient(F + 0.1 * rng.standard_normal(F.shape)) - loss.gradient(F)
    U = loss.gradient(F)
    change = (loss.conjugate_gradient(U + t * D) - loss.conjugate_gradient(U - t * D)) / (2 * t)
    applied = loss.conjugate_hessian(U) * D
    if name == "softmax-cross-entropy":
        applied = applied - applied.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(change, applied, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_domains(name):
    rng = np.random.default_rng(3)
    loss = bound(name, rng)
    U = 10 * rng.standard_normal(loss.targets.shape)
    moved = loss.project(U)
    assert np.isfinite(loss.conjugate(moved))
    if name == "squared":
        assert moved is U
    else:
        assert not loss.contains(U)
        assert loss.conjugate(U) == np.inf
    np.testing.assert_allclose(loss.project(moved), moved, atol=1e-14)
    box = loss.box()
    if box is not None:
        assert (box[0] <= moved).all()
        assert (moved <= box[1]).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_value_is_the_weighted_mean(name):
    rng = np.random.default_rng(4)
    loss = bound(name, rng, weighted=False)
    F = rng.standard_normal(loss.targets.shape)
    assert loss.value(F) == pytest.approx(loss.samples(F).mean())
    # an integer weight is a repeated sample
    doubled = make_loss(name)
    doubled.encode_targets(loss.targets, [3, 1, 1, 1, 1, 1, 0])
    repeated = make_loss(name)
    order = [0, 0, 0, 1, 2, 3, 4, 5]
    repeated.encode_targets(loss.targets[order])
    assert doubled.value(F) == pytest.approx(repeated.value(F[order]), rel=1e-13)


@pytest.mark.parametrize(
    ("labels", "codes", "classes"), cases("labels of classes, their codes and names", pd=pd)
)
def test_labels(labels, codes, classes):
    """Of two classes −1 and 1, of several their numbers."""
    if set(codes) <= {-1, 1}:
        found, kinds = encode_binary("logistic", labels)
        assert found.ravel().tolist() == codes
    else:
        found, kinds = encode_classes("softmax-cross-entropy", labels)
        assert found.argmax(axis=1).tolist() == codes
        assert (found.sum(axis=1) == 1).all()
    assert kinds == classes


@pytest.mark.parametrize("name", NAMES)
def test_files_keep_losses(name):
    loss = bound(name, np.random.default_rng(0))
    again = loss_from_dict(json.loads(json.dumps(loss.parameters())))
    assert type(again) is type(loss)
    assert again.classes == loss.classes
    assert again.parameters() == loss.parameters()


# ---- a loss that covopt does not have, added as CONTRIBUTING.md says: one class, one entry of LOSSES.
EDGE = 1.0 - 1e-12


class LogCosh(Loss):
    """log cosh(f − y): a parabola near y, its slope at most one. ℓ*(p) = ½((1+p)log(1+p) + (1−p)log(1−p)) + py."""

    name = "log-cosh"
    is_strictly_convex = is_steep = True

    def samples(self, F):
        size = np.abs(F - self.targets)
        return (size + np.log1p(np.exp(-2.0 * size)) - np.log(2.0)).sum(axis=1)

    def _slope(self, F):
        return np.tanh(F - self.targets)

    def hessian(self, F):
        return self.weights * (1.0 - np.tanh(F - self.targets) ** 2)

    def slopes(self):
        edge = np.ones(self.targets.shape)
        return -edge, edge

    def conjugate_terms(self, U):
        p = U / self.weights
        entropy = 0.5 * self.weights * (xlogy(1 + p, 1 + p) + xlogy(1 - p, 1 - p))
        linear = U * self.targets
        return float((entropy + linear).sum()), float(np.abs(entropy).sum() + np.abs(linear).sum())

    def conjugate_gradient(self, U):
        return self.targets + np.arctanh(np.clip(U / self.weights, -EDGE, EDGE))

    def conjugate_hessian(self, U):
        return 1.0 / (self.weights * (1.0 - np.clip(U / self.weights, -EDGE, EDGE) ** 2))


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setitem(LOSSES, LogCosh.name, LogCosh)


def table():
    rng, X = drawn(3, (12, 2))
    return X, np.abs(X[:, 0]) + 0.5 * rng.standard_normal(12)


def test_its_conjugate_is_one():
    test_fenchel_young.hypothesis.inner_test(LogCosh.name, 0)
    test_gradients_and_hessians_by_finite_differences.hypothesis.inner_test(LogCosh.name, 0)


@pytest.mark.parametrize("output_bias", ["none", "penalized", "free"])
def test_fit_certifies_and_verify_agrees(output_bias, tmp_path):
    X, y = table()
    solution = covopt.fit(X, y, lam=0.01, loss="log-cosh", output_bias=output_bias)
    assert solution.status is covopt.Status.CERTIFIED
    solution.save(tmp_path / "s.json")
    assert covopt.verify(covopt.load(tmp_path / "s.json"), X, y).ok
    residual = np.asarray(solution.network.predict(X)).ravel() - y
    assert solution.objective == pytest.approx(
        np.log(np.cosh(residual)).mean() + 0.01 * solution.network.squared_norm, rel=1e-12
    )


def test_one_sample_is_a_problem_of_one_number():
    solution = covopt.fit([[1.0]], [2.0], lam=0.1, loss="log-cosh", bias=0.0)
    known = minimize_scalar(
        lambda f: np.log(np.cosh(f - 2)) + 0.2 * f, bounds=(0, 2), method="bounded", options={"xatol": 1e-12}
    )
    assert solution.objective == pytest.approx(known.fun, rel=1e-9)


def test_path_and_lambda_max():
    X, y = table()
    points = covopt.path(X, y, loss="log-cosh", n_lams=4)
    assert verify_path(points).ok
    top = covopt.lambda_max(X, y, loss="log-cosh")
    assert len(covopt.fit(X, y, lam=1.01 * top, loss="log-cosh").network) == 0
    assert len(covopt.fit(X, y, lam=0.9 * top, loss="log-cosh").network) > 0


@pytest.mark.parametrize("price", [0.0, 1e-3, 10.0])
@pytest.mark.parametrize("name", ["logistic", "softmax-cross-entropy", "huber"])
def test_the_best_constant_takes_a_few_steps_to_the_last_digits(name, price, monkeypatch):
    """Newton's steps went on in the noise of values, 640 for a constant: λ_max of digits took 20 s."""
    loss = bound(name, np.random.default_rng(5), 40)
    asked: list[float] = []
    monkeypatch.setattr(loss, "value", lambda F: asked.append(type(loss).value(loss, F)) or asked[-1])
    B = loss.constant(price, loss.output_basis())
    assert len(asked) < 40
    basis = np.eye(loss.targets.shape[1]) if loss.output_basis() is None else loss.output_basis()
    slope = loss.gradient(np.tile(basis @ B, (40, 1))).sum(axis=0) @ basis + price * B
    assert np.abs(slope).max() < 1e-14
