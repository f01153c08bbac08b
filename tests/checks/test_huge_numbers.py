"""Numbers that no double holds, wherever a user may give one: a sentence, no OverflowError."""

import numpy as np
import pytest

import covopt
from covopt.errors import InputError

X, Y = [[0.0], [1.0]], [0.0, 1.0]


def test_a_huge_time_limit_is_none():
    assert covopt.min_norm(X, Y, time_limit_s=10**400).status == "certified"


@pytest.mark.parametrize("bias", [1e-120, 1e-30])
def test_a_tiny_bias_has_a_certificate_that_is_valid(bias):
    found = covopt.min_norm([[0.0], [1.0], [2.0]], [0.0, 1.0, 1.0], bias=bias)
    assert covopt.verify(found).ok
    assert found.lower_bound <= found.cost * (1 + 1e-9)
    assert np.isfinite(found.cost)


TINY_ROWS = [
    [-2.0762285154169222e-300, 1.4494704318608696e-300],
    [-1.4878250869384616e-300, 7.36663111359889e-301],
]


@pytest.mark.parametrize("output_bias", ["none", "penalized", "free"])
@pytest.mark.parametrize("X", [[[-1.3890027853939406e-160], [-4.211929876824482e-161]], TINY_ROWS])
def test_points_that_only_their_last_digits_tell_apart_are_refused(X, output_bias):
    with pytest.raises(InputError, match=r"the points differ by .* no room for what tells them apart"):
        covopt.min_norm(X, [0.5294756143554882, -1.2350144914629033], output_bias=output_bias)
    tiny = np.abs(X).max()
    assert covopt.min_norm(np.divide(X, tiny), [1.0, -1.0], output_bias=output_bias).status == "certified"
    assert covopt.min_norm(1e-90 * np.divide(X, tiny), [1.0, -1.0]).status == "certified"


@pytest.mark.parametrize("n_outputs", [1, 2, 3])
@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("lam", [5e-324, 1e-300, 1e-110])
def test_a_lambda_that_is_nothing_beside_the_largest_is_refused(loss, n_outputs, lam):
    Y = np.array([[0.19, -1.03, 0.49], [0.003, 0.61, -1.25]])[:, :n_outputs]
    with pytest.raises(InputError, match=r"^lam"):
        covopt.fit([[-0.328], [-0.29]], Y, lam=lam, loss=loss)
    with pytest.raises(InputError, match=r"^lam"):
        covopt.fit([[-1.0, 0.8, 0.5]], Y[:1], lam=lam, loss=loss, sample_weight=[1842.0])


FAR_APART = np.array(
    [
        [6.51634567e112, -9.12038445e-196, 1.740896e122],
        [-4.54392245e-117, 3.78651017e-093, -4.08906372e028],
        [-1.71654779e-040, -4.61176963e-144, -1.11970885e116],
    ]
)


@pytest.mark.parametrize(
    ("X", "labels", "options"),
    [
        (FAR_APART, [0, 1, 0], {"loss": "logistic", "bias": 0.0, "lam": 5.0981494163404685e48}),
        (
            [[-5.03681439e-166, -2.99118788e-166], [6.82090781e-166, 1.9751652e-167]], [0, 1],
            {"loss": "softmax-cross-entropy", "output_bias": "penalized", "lam": "0.1max"},
        ),
    ],
    ids=["squares without room", "no columns next to the largest lambda"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:(overflow|invalid|divide):RuntimeWarning")
def test_tables_over_all_sizes_end_with_a_bracket(X, labels, options):
    """Neurons that were not finite went to a tree of neighbours, and a step divided by a count of columns of zero."""
    found = covopt.fit(X, labels, tol=1e-4, **options)
    assert 0.0 <= found.lower_bound <= found.objective * (1 + 1e-12)
    assert covopt.verify(found).ok
