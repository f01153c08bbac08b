"""One of anything is in the singular wherever people read it."""

import pytest

import covopt
from covopt.checks.wording import counted, listed
from tests.cases import cases


@pytest.mark.parametrize(("arguments", "text"), cases("nouns that are counted"))
def test_counted(arguments, text):
    assert counted(*arguments) == text


def test_summaries_of_one_point():
    solution = covopt.min_norm([[1.0]], [2.0])
    certificate = covopt.cp_rank([[1]])
    checks = [check.detail for check in covopt.verify(solution).checks]
    shown = "\n".join(
        [solution.summary(), certificate.summary(), *checks, covopt.frank_wolfe([[1.0]], [2.0]).summary()]
    )
    assert "1 point, 1 feature" in shown
    assert "1 neuron on 2 inputs" in shown
    assert "1 nonnegative row," in shown
    assert not any(
        f" 1 {noun}s" in shown for noun in ("point", "feature", "neuron", "row", "round", "iteration")
    )


def test_ten_columns_are_all_named():
    names = [f"column{j}" for j in range(10)]
    assert listed(names) == ", ".join(names)
    assert listed(names * 3).endswith("…, column9 (30 in all)")
