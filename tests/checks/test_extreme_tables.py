"""Tables of 1e±300: an answer that verifies, or one sentence; never a traceback."""

import warnings

import numpy as np
import pytest

import covopt
from covopt.errors import CovoptError

TWO, THREE = [[-0.328], [-0.29]], [[0.19, -1.03, 0.49], [0.003, 0.61, -1.25]]
ROW, OUT = [[-1.065336361138956, 0.8467208810719372, 0.4889395166405825]], [[-1.06664, -1.87535, 0.50347]]
FIVE = [
    [-2.0762285154169222e-300, 1.4494704318608696e-300], [-1.4878250869384616e-300, 7.36663111359889e-301],
    [-1.2237878102252096e-300, 2.281760828078444e-301], [2.131004398953522e-301, 1.5636015433931586e-300],
    [1.8976637958711367e-300, -1.3427262496439487e-300],
]  # fmt: skip


def answer(ask):
    """Return what came: a solution, which verifies, or a sentence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = ask()
        except CovoptError as said:
            assert len(str(said).splitlines()) == 1
            return str(said)
        assert covopt.verify(found).ok
        if found.certificate.interpolates:  # a network that misses its points has no cost to be compared with
            assert found.lower_bound <= found.objective * (1.0 + 1e-12)
    return found


def rounds(state):
    return state.round >= 20


@pytest.mark.parametrize("lam", [1e-300, 1e-100])
def test_next_to_no_lambda_with_several_outputs_is_one_sentence(lam):
    assert "less than 1e-100 of λ_max" in answer(lambda: covopt.fit(TWO, THREE, lam=lam, callback=rounds))


def test_a_small_lambda_with_several_outputs_is_answered():
    assert not isinstance(answer(lambda: covopt.fit(TWO, THREE, lam=1e-30, callback=rounds)), str)


def test_huber_with_one_row_and_three_outputs():
    said = answer(
        lambda: covopt.fit(ROW, OUT, lam=1e-300, loss="huber", sample_weight=[1841.96], callback=rounds)
    )
    assert "less than 1e-100 of λ_max" in said


@pytest.mark.parametrize("power", [30, 60, 100, 150, 160, 300])
@pytest.mark.parametrize("output_bias", ["penalized", "free", "none"])
def test_points_next_to_zero_beside_a_bias(power, output_bias):
    X = np.array([[-1.3890027853939406], [-0.4211929876824482]]) * 10.0**-power
    found = answer(lambda: covopt.min_norm(X, [0.53, -1.24], output_bias=output_bias, callback=rounds))
    assert isinstance(found, str) == (power >= 100)
    if power >= 100:
        assert "double precision has no room for what tells them apart" in found


def test_five_points_next_to_zero():
    said = answer(lambda: covopt.min_norm(FIVE, [2.0, 0.0, 1.0, -2.0, 0.0], output_bias="penalized"))
    assert "double precision has no room" in said


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
    options = {"bias": (0.0, 1.0, 1e-150)[seed % 3], "callback": rounds}
    output_bias = ("none", "free", "penalized")[seed // 3 % 3]
    if options["bias"] == 0.0:
        output_bias = "none"
    options |= {"output_bias": output_bias, "tol": 1e-4}
    answer(lambda: covopt.min_norm(X, Y if k > 1 else Y[:, 0], **options))
    for lam in ("0.1max", "0.999999999max"):
        answer(lambda: covopt.fit(X, Y if k > 1 else Y[:, 0], lam=lam, **options))  # noqa: B023
