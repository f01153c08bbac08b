"""A loss that covopt does not have, added as CONTRIBUTING.md says: one class, one entry of LOSSES."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import xlogy

import covopt
from covopt.losses import LOSSES, Loss
from covopt.verification import verify_path
from tests.losses import test_losses

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
    rng = np.random.default_rng(3)
    X = rng.standard_normal((12, 2))
    return X, np.abs(X[:, 0]) + 0.5 * rng.standard_normal(12)


def test_its_conjugate_is_one():
    test_losses.test_fenchel_young.hypothesis.inner_test(LogCosh.name, 0)
    test_losses.test_gradients_and_hessians_by_finite_differences.hypothesis.inner_test(LogCosh.name, 0)


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
