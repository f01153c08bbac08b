"""Tables whose bracket closes: by which bound, at which cost, and verified."""

import pytest

import covopt
from tests.cases import cases
from tests.depth.bank.tables import two_rows

ACUTE, OBTUSE = two_rows(1.0), two_rows(2.2)
POINTS = [[1.0, 0.0], [0.7, 1.1]]
SIGNS = [0.7, -1.0]
# table, bias, output bias, L, what the title of the best bound has, the cost where a line says it
CASES = cases("brackets of deep networks that close", ACUTE=ACUTE, OBTUSE=OBTUSE, POINTS=POINTS, SIGNS=SIGNS)


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
