"""Numbers of 1e±300, and numbers that no double holds: an answer that verifies, or one sentence; no traceback."""

import warnings

import numpy as np
import pytest

import covopt
from covopt.errors import CovoptError
from tests.cases import cases

TABLES = dict(cases("tables of extreme numbers"))
NO_ROOM, TOO_SMALL = "double precision has no room for what tells them apart", "less than 1e-100 of λ_max"


def rounds(state):
    return state.round >= 20


def answer(ask, *table, **options):
    """Return what came: a solution, which verifies, or a sentence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = ask(*table, callback=rounds, **options)
        except CovoptError as said:
            assert len(str(said).splitlines()) == 1
            return str(said)
        assert covopt.verify(found).ok
        if found.certificate.interpolates:  # a network that misses its points has no cost to be compared with
            assert found.lower_bound <= found.objective * (1.0 + 1e-12)
    return found


@pytest.mark.parametrize(
    ("X", "Y", "options"), cases("fits with a λ that is nothing beside the largest", **TABLES)
)
def test_a_lambda_that_is_nothing_beside_the_largest_is_one_sentence(X, Y, options):
    said = answer(covopt.fit, X, Y, **options)
    assert said.startswith("lam") and (options["lam"] == 5e-324 or TOO_SMALL in said)


@pytest.mark.parametrize("power", [30, 60, 100, 160, 300])
@pytest.mark.parametrize("output_bias", ["penalized", "free", "none"])
def test_points_next_to_zero_beside_a_bias(power, output_bias):
    found = answer(
        covopt.min_norm, TABLES["NEXT_TO_ZERO"] * 10.0**-power, [0.53, -1.24], output_bias=output_bias
    )
    assert isinstance(found, str) == (power >= 100)
    assert power < 100 or NO_ROOM in found


@pytest.mark.parametrize(
    ("ask", "table", "options"), cases("extreme questions with an answer", covopt=covopt, **TABLES)
)
def test_what_is_answered(ask, table, options):
    found = answer(ask, *table, **options)
    assert not isinstance(found, str)
    assert 0.0 <= found.lower_bound <= found.objective * (1.0 + 1e-9) < np.inf


def test_points_that_only_their_last_digits_tell_apart_are_refused():
    assert NO_ROOM in answer(
        covopt.min_norm, TABLES["FIVE"], [2.0, 0.0, 1.0, -2.0, 0.0], output_bias="penalized"
    )


@pytest.mark.parametrize(
    "seed", [s if s < 4 or s == 62 else pytest.param(s, marks=pytest.mark.slow) for s in (62, *range(60))]
)
def test_tables_of_all_sizes(seed):
    """Numbers of 1e-300 to 1e150 side by side, one λ next to λ_max."""
    rng = np.random.default_rng(seed)
    n, d, k = int(rng.integers(1, 6)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    low, high = sorted(rng.uniform(-300, 150, 2))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(low, high, (n, d) if seed % 2 else (1, d))
    Y = rng.standard_normal((n, k)) * 10.0 ** rng.uniform(-300, 150, (1, k) if seed % 3 else (n, k))
    options = {"bias": (0.0, 1.0, 1e-150)[seed % 3]}
    output_bias = ("none", "free", "penalized")[seed // 3 % 3]
    if options["bias"] == 0.0:
        output_bias = "none"
    options |= {"output_bias": output_bias, "tol": 1e-4}
    Y = Y if k > 1 else Y[:, 0]
    answer(covopt.min_norm, X, Y, **options)
    for lam in ("0.1max", "0.999999999max"):
        answer(covopt.fit, X, Y, lam=lam, **options)
