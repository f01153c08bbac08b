"""Numbers of 1e±300, and numbers that no double holds: an answer that verifies, or one sentence; no traceback."""

import warnings

import numpy as np
import pytest

import covopt
from covopt.errors import CovoptError

TWO, THREE = [[-0.328], [-0.29]], [[0.19, -1.03, 0.49], [0.003, 0.61, -1.25]]
ROW, OUT = [[-1.065336361138956, 0.8467208810719372, 0.4889395166405825]], [[-1.06664, -1.87535, 0.50347]]
NEXT_TO_ZERO = np.array([[-1.3890027853939406], [-0.4211929876824482]])
FIVE = [
    [-2.0762285154169222e-300, 1.4494704318608696e-300], [-1.4878250869384616e-300, 7.36663111359889e-301],
    [-1.2237878102252096e-300, 2.281760828078444e-301], [2.131004398953522e-301, 1.5636015433931586e-300],
    [1.8976637958711367e-300, -1.3427262496439487e-300],
]  # fmt: skip
FAR_APART = np.array(
    [
        [6.51634567e112, -9.12038445e-196, 1.740896e122],
        [-4.54392245e-117, 3.78651017e-093, -4.08906372e028],
        [-1.71654779e-040, -4.61176963e-144, -1.11970885e116],
    ]
)
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
    ("X", "Y", "options"),
    [
        *((TWO, np.array(THREE)[:, :k], {"lam": lam, "loss": loss})
          for k, lam, loss in ((3, 1e-300, "squared"), (3, 1e-110, "huber"), (1, 5e-324, "squared"))),
        (ROW, OUT, {"lam": 1e-300, "loss": "huber", "sample_weight": [1841.96]}),
        (ROW, [[0.19]], {"lam": 1e-300, "sample_weight": [1842.0]}),
    ],
)  # fmt: skip
def test_a_lambda_that_is_nothing_beside_the_largest_is_one_sentence(X, Y, options):
    said = answer(covopt.fit, X, Y, **options)
    assert said.startswith("lam") and (options["lam"] == 5e-324 or TOO_SMALL in said)


@pytest.mark.parametrize("power", [30, 60, 100, 160, 300])
@pytest.mark.parametrize("output_bias", ["penalized", "free", "none"])
def test_points_next_to_zero_beside_a_bias(power, output_bias):
    found = answer(covopt.min_norm, NEXT_TO_ZERO * 10.0**-power, [0.53, -1.24], output_bias=output_bias)
    assert isinstance(found, str) == (power >= 100)
    assert power < 100 or NO_ROOM in found


@pytest.mark.parametrize(
    ("ask", "table", "options"),
    [
        (covopt.fit, (TWO, THREE), {"lam": 1e-30}),
        (covopt.min_norm, (np.divide(FIVE[:2], 2e-300), [1.0, -1.0]), {}),
        (covopt.min_norm, (np.divide(FIVE[:2], 2e-210), [1.0, -1.0]), {}),
        (covopt.min_norm, ([[0.0], [1.0]], [0.0, 1.0]), {"time_limit_s": 10**400}),
        *((covopt.min_norm, ([[0.0], [1.0], [2.0]], [0.0, 1.0, 1.0]), {"bias": bias}) for bias in (1e-120, 1e-30)),
        # neurons that were not finite went to a tree of neighbours; a step was divided by a count of columns of zero
        (covopt.fit, (FAR_APART, [0, 1, 0]),
         {"loss": "logistic", "bias": 0.0, "lam": 5.0981494163404685e48, "tol": 1e-4}),
        (
            covopt.fit, ([[-5.03681439e-166, -2.99118788e-166], [6.82090781e-166, 1.9751652e-167]], [0, 1]),
            {"loss": "softmax-cross-entropy", "output_bias": "penalized", "lam": "0.1max", "tol": 1e-4},
        ),
    ],
)  # fmt: skip
def test_what_is_answered(ask, table, options):
    found = answer(ask, *table, **options)
    assert not isinstance(found, str)
    assert 0.0 <= found.lower_bound <= found.objective * (1.0 + 1e-9) < np.inf


def test_points_that_only_their_last_digits_tell_apart_are_refused():
    assert NO_ROOM in answer(covopt.min_norm, FIVE, [2.0, 0.0, 1.0, -2.0, 0.0], output_bias="penalized")


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
