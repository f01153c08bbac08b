"""λ as a share of λ_max: the same problem in any units, said in the summary, refused where it means nothing."""

import warnings

import numpy as np
import pytest

import covopt
from covopt.api.lambdas import LargestLambda, largest_lambda
from covopt.api.task import Task
from covopt.datasets import make_smooth
from covopt.errors import NotCertifiedWarning
from covopt.limits import now

X, y = make_smooth(12)


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


@pytest.mark.parametrize(("n", "limit"), [(400, 0.3), pytest.param(1797, 5.0, marks=pytest.mark.slow)])
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
