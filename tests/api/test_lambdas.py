"""λ as a share of λ_max: the same problem in any units, said in the summary, refused where it means nothing."""

import warnings

import numpy as np
import pytest

import covopt
from covopt.api.lambdas import largest_lambda
from covopt.api.task import Task
from covopt.datasets import make_smooth
from covopt.errors import NotCertifiedWarning
from covopt.limits import now

X, y = make_smooth(12)


@pytest.mark.parametrize("output_bias", ["none", "penalized"])
@pytest.mark.parametrize("shape", [(20, 3, 2), (30, 9, 1)])
def test_a_share_is_of_what_is_met_whatever_the_limit(shape, output_bias):
    n, d, k = shape
    rng = np.random.default_rng(0)
    points, targets = rng.standard_normal((n, d)), rng.standard_normal((n, k))

    def task():
        return Task(points, targets, "squared", 1.0, output_bias, None, "variation", "auto", 1e-4, None)

    met, (proved, slack) = task().largest(), largest_lambda(task(), proves=True)
    assert task().largest(1e3) == met and task().strength("0.5max", 1e3) == 0.5 * met
    assert proved / (1.0 + slack) <= met * (1.0 + 1e-3) and met <= proved * (1.0 + 1e-9)
    hurried = task().largest(1e-9)
    assert 0.0 < hurried <= met * (1.0 + 1e-9)


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
