"""λ as a share of λ_max: the same problem in any units, said in the summary, refused where it means nothing."""

import warnings

import numpy as np
import pytest

import covopt
from covopt.api.lambdas import LargestLambda, largest_lambda, last_crossing, parse_lam
from covopt.api.task import Task
from covopt.datasets import make_smooth
from covopt.errors import NotCertifiedWarning
from covopt.limits import now

X, y = make_smooth(12)


def test_a_share_is_that_many_times_lambda_max():
    top = covopt.lambda_max(X, y)
    found = covopt.fit(X, y, lam="0.3max", tol=1e-4)
    assert found.lam == pytest.approx(0.3 * top, rel=1e-12)
    assert found.lambda_max == top
    assert f"λ = {found.lam:g} = 0.3 λ_max" in found.summary()
    assert "λ_max" not in covopt.fit(X, y, lam=0.3, tol=1e-2).summary()


@pytest.mark.parametrize("unit", [2.0**-20, 2.0**20])
def test_the_default_does_not_depend_on_the_units(unit):
    plain = covopt.fit(X, y, bias=0.0, tol=1e-6)
    scaled = covopt.fit(X * unit, y, bias=0.0, tol=1e-6)
    assert plain.lam == pytest.approx(0.03 * plain.lambda_max, rel=1e-12)
    assert scaled.lam == pytest.approx(plain.lam * unit, rel=1e-9)
    assert scaled.objective == pytest.approx(plain.objective, rel=1e-5)


def test_written_numbers():
    assert parse_lam(" 1e-2 * MAX ") == (0.01, True)
    assert parse_lam(np.float32(0.5)) == (0.5, False)


def test_a_share_of_nothing_is_as_good_as_any_lam():
    found = covopt.fit([[0.0], [1.0]], [2.0, 2.0], output_bias="free")
    assert (found.status, len(found.network), found.objective) == ("certified", 0, 0.0)


def test_a_loose_lambda_max_is_said(monkeypatch):
    task = Task(X, y, "squared", 1.0, "none", None, "variation", "auto", 1e-4, None)
    monkeypatch.setattr(task, "largest", lambda *_: LargestLambda(1.0, 0.25))
    with pytest.warns(NotCertifiedWarning, match=r"between 0\.8 and 1 only"):
        assert task.strength("0.5max") == pytest.approx(0.4)


def test_without_time_a_bound_takes_the_place_of_the_maximum():
    rng = np.random.default_rng(0)
    task = Task(
        rng.standard_normal((40, 4)), rng.standard_normal((40, 2)), "squared", 1.0, "none", None, "variation", "auto",
        1e-4, None,
    )  # fmt: skip
    exact, hurried = largest_lambda(task), largest_lambda(task, 1e-9)
    assert hurried.value >= exact.value / (1.0 + exact.slack)
    assert hurried.value / (1.0 + hurried.slack) <= exact.value


@pytest.mark.parametrize(("n", "limit"), [(400, 0.5), pytest.param(1797, 5.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("output_bias", [pytest.param("none", marks=pytest.mark.slow), "penalized"])
def test_the_largest_lambda_keeps_the_limit_of_a_wide_table(processor_clock, n, limit, output_bias):
    """1797 × 64 with ten classes took 99 s of a limit of 10: each search had the limit, and its fallback none."""
    rng = np.random.default_rng(0)
    points, labels = rng.standard_normal((n, 64)), rng.integers(0, 10, n)
    options = {"loss": "softmax-cross-entropy", "output_bias": output_bias}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)
        began = now()  # of the processor, and still while code is compiled
        found = covopt.fit(points, labels, time_limit_s=limit, **options)
    assert now() - began < limit + 4.0  # two seconds, and other work beside them
    assert 0.0 < found.lam < found.lambda_max


def test_the_last_of_several_roots_is_lambda_max():
    """Under a penalised bias the gauge falls below λ at 0.3 and is above it again from 0.9 to 448."""
    points, targets, bias = [[3000.0], [0.0]], np.array([0.8995, 0.9005]), 30.0
    top = covopt.lambda_max(points, targets, bias=bias, output_bias="penalized")
    # there the neuron along the first row: its slope at the best constant is λ
    far = np.hypot(3000.0, bias)
    slope = far * (targets[0] - bias**2 / (bias**2 + top) * targets.mean()) / 2.0
    assert top == pytest.approx(slope, rel=1e-3)
    assert len(covopt.fit(points, targets, lam=5.0, bias=bias, output_bias="penalized").network) == 1


def test_a_height_that_touches_lambda_twice():
    dips = np.array([0.5, 3.0, 3.1, 40.0])

    def height(lam):
        return 41.0 if lam >= 41.0 else float(lam * (1.0 + np.prod(np.sign(dips - lam)) * 0.1))

    low, high = last_crossing(height, linear=False)
    assert low <= 41.0 <= high <= low * (1.0 + 2e-4)
    low, high = last_crossing(height, lambda: 0.5, linear=False)  # heights may be a half too large
    assert 1.001 * low < high <= 1.5 * low
    assert low <= 41.0 <= high
    assert last_crossing(lambda lam: 0.0, linear=True) == (0.0, 0.0)


def test_every_function_takes_shares():
    top = covopt.lambda_max(X, y)
    assert covopt.ReLURegressor(lam="0.2max").fit(X, y).solution_.lam == pytest.approx(0.2 * top)
    along = covopt.path(X, y, lams=["0.3max", "max", 0.5 * top])
    assert [found.lam for found in along] == pytest.approx([top, 0.5 * top, 0.3 * top])
    atoms = covopt.frank_wolfe(X, y, lam="0.5max", max_iter=2)
    assert atoms.lam == pytest.approx(0.5 * len(y) * top)  # its loss is the sum over the points
    pytest.importorskip("torch")
    assert covopt.plateau(X, y, [1], lam="0.5max", seeds=1).lam == pytest.approx(0.5 * top)
