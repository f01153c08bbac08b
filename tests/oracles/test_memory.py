"""What would take more memory than there may be is refused before it takes any, in a sentence."""

import numpy as np
import pytest

import covopt
from covopt.checks.memory import memory_left, memory_limited
from covopt.errors import BudgetError, InputError, MemoryLimitWarning
from covopt.oracles.choose import exact_oracle


@pytest.mark.parametrize(
    ("n", "r", "outputs", "said"),
    [
        (300, 3, 0, r"needs about 0.0027 GiB of memory; the limit is 0.001 GiB"),
        (300, 3, 2, r"needs about 0.0042 GiB"),
        (16, 5, 2, r"needs about 0.013 GiB"),
    ],
)
def test_exact_pricing_keeps_to_the_limit(n, r, outputs, said):
    rows = np.random.default_rng(0).standard_normal((n, r))
    with memory_limited(0.001), pytest.warns(MemoryLimitWarning, match=said), pytest.raises(BudgetError):
        exact_oracle(rows, outputs)


def test_the_bound_that_takes_its_place_is_valid():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((190, 2)), rng.standard_normal(190)
    known = covopt.min_norm(X, Y, tol=1e-3)
    with memory_limited(0.001), pytest.warns(MemoryLimitWarning, match="whose bounds are valid"):
        found = covopt.min_norm(X, Y, time_limit_s=0.5)
    assert found.gap > known.gap
    assert found.lower_bound <= known.cost
    assert known.lower_bound <= found.cost


def test_limits_are_numbers():
    with memory_limited(1.0):
        with memory_limited(0.5):
            assert memory_left() == 1 << 29
        assert memory_left() == 1 << 30
    with (
        pytest.raises(InputError, match="memory_limit must be a positive number of GiB"),
        memory_limited(-1.0),
    ):
        pass
