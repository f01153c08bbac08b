"""One of anything is in the singular wherever people read it; checks of options, and what passes."""

from decimal import Decimal

import pytest

import covopt
from covopt.checks import validation, wording
from tests.cases import cases, claims


@pytest.mark.parametrize(("arguments", "text"), cases("nouns that are counted"))
def test_counted(arguments, text):
    assert wording.counted(*arguments) == text


@pytest.mark.parametrize(
    ("claim", "holds"),
    claims("what holds of options and names", **vars(validation), listed=wording.listed, Decimal=Decimal),
)
def test_what_holds(claim, holds):
    assert holds, claim


def test_summaries_of_one_point():
    solution = covopt.min_norm([[1.0]], [2.0])
    certificate = covopt.cp_rank([[1]])
    checks = [check.detail for check in covopt.verify(solution).checks]
    shown = "\n".join(
        [solution.summary(), certificate.summary(), *checks, covopt.frank_wolfe([[1.0]], [2.0]).summary()]
    )
    assert all(part in shown for part in ("1 point, 1 feature", "1 neuron on 2 inputs", "1 nonnegative row,"))
    assert not any(
        f" 1 {noun}s" in shown for noun in ("point", "feature", "neuron", "row", "round", "iteration")
    )
