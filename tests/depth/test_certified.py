"""Tables whose bracket closes: by which bound, at which cost, and verified."""

import pytest

import covopt
from tests.depth.bank.tables import two_rows

ACUTE, OBTUSE = two_rows(1.0), two_rows(2.2)
POINTS = [[1.0, 0.0], [0.7, 1.1]]
SIGNS = [0.7, -1.0]
# table, bias, output bias, L, what the title of the best bound has, the cost where a line says it
CASES = [
    ([[1.0], [-1.0]], [1.0, 1.0], 0.0, "none", 3, "", 3 * 4 ** (1 / 3)),
    ([[1.0], [-1.0]], [1.0, 1.0], 0.0, "none", 6, "", 6 * 4 ** (1 / 6)),
    ([[3.0, 4.0]], [10.0], 0.0, "none", 3, "", 3 * 2 ** (2 / 3)),
    ([[3.0, 4.0]], [10.0], 0.0, "none", 4, "", 4 * 2 ** (2 / 4)),
    ([[1.0, 0.0], [-0.6, 0.8]], [8.0, -27.0], 0.0, "none", 3, "", 3 * (4.0 + 9.0)),
    ([[1.0, 0.2], [0.5, 1.0]], [1.0, -2.0], 0.0, "none", 3, "acute", None),
    ([[1.0, 0.2], [0.5, 1.0]], [1.0, -2.0], 0.0, "none", 5, "acute", None),
    (OBTUSE, [[1.0, 0.2], [0.7, 1.1]], 0.0, "none", 3, "obtuse", None),
    # the entry off the diagonal meets what one row allows
    (OBTUSE, [[1.0, 0.2], [0.03, 0.02]], 0.0, "none", 3, "obtuse", None),
    (OBTUSE, [[1.0, 0.2], [-0.9, 0.5]], 0.0, "none", 3, "", None),
    (ACUTE, [[1.0, 0.2], [-0.9, 0.5]], 0.0, "none", 3, "acute", None),
    (ACUTE, [[1.0, 0.2], [-0.3, 1.0]], 0.0, "none", 3, "", None),
    (POINTS, [1.0, 1.0], 1.0, "none", 3, "one target", None),
    ([[1.0, 0.0], [-1.7, 0.4]], [[1.5, 2.0], [1.5, 2.0]], 1.0, "none", 3, "one target", None),
    ([[1.0, 0.0], [0.3, 0.9]], [1.7, 1.7], 1.0, "penalized", 3, "one target", None),
    ([[1.0, 2.0]], [1.5], 1.0, "none", 3, "one target", None),
    (POINTS, SIGNS, 1.0, "none", 3, "shortest paths", None),
    pytest.param(POINTS, SIGNS, 1.0, "penalized", 3, "shortest paths", None, marks=pytest.mark.slow),
    pytest.param(
        POINTS, [[1.0, 0.2], [-0.3, 0.8]], 1.0, "none", 3, "shortest paths", None, marks=pytest.mark.slow
    ),
    ([[1.0], [-1.7]], SIGNS, 1.0, "none", 3, "shortest paths", None),
    pytest.param(POINTS, SIGNS, 1.0, "none", 4, "shortest paths", None, marks=pytest.mark.slow),
    pytest.param(POINTS, SIGNS, 1.0, "none", 5, "shortest paths", None, marks=pytest.mark.slow),
]


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("points", "targets", "bias", "output_bias", "depth", "title", "cost"), CASES)
def test_the_bracket_closes(points, targets, bias, output_bias, depth, title, cost):
    found = covopt.representation_cost(
        points, targets, depth=depth, bias=bias, output_bias=output_bias, time_limit_s=None
    )
    assert found.status == "certified"
    assert title in found.bounds[0].title
    assert covopt.verify(found).ok
    if cost is not None:
        assert found.cost == pytest.approx(cost, rel=1e-7)
        assert found.lower_bound == pytest.approx(cost, rel=1e-7)
