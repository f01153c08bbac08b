"""Known numbers of cells, by counting and by listing."""

from math import comb, factorial

import numpy as np
import pytest
from sklearn.datasets import load_iris

from covopt.arrangement import count_cells, enumerate_cells
from tests.arrangement import families as fam
from tests.cases import cases

IRIS = np.rint(load_iris().data * 10).astype(int)


def generic(n, d):
    return 2 * sum(comb(n - 1, i) for i in range(d))


KNOWN = cases(
    "arrangements of known numbers of cells", IRIS=IRIS, factorial=factorial, fam=fam, generic=generic
)


@pytest.mark.parametrize(
    ("X", "bias", "count"),
    [pytest.param(*case, id=name, marks=[pytest.mark.slow] * ("large" in name)) for name, *case in KNOWN],
)
def test_count_and_list_agree_with_the_known_number(X, bias, count):
    counted = count_cells(X, bias=bias)
    cells = enumerate_cells(X, bias=bias)
    assert len(cells) == cells.n_cells == counted
    assert count is None or counted == count
    assert len(np.unique(cells.packed, axis=0)) == counted


@pytest.mark.slow
def test_large_counts():
    assert count_cells(fam.resonance(6)) == 1066044
    assert count_cells(fam.braid(9)) == factorial(9)


def test_decimals_are_exact():
    assert enumerate_cells(load_iris().data[:, :3]).exact
    assert count_cells(load_iris().data[:, :3]) == 20130
    assert enumerate_cells(IRIS[:, :3] / 8).exact
    thirds = enumerate_cells(IRIS[:, :3] / 3)
    assert not thirds.exact
    assert len(thirds) == count_cells(IRIS[:, :3] / 3) == 20130


def test_iris_in_single_precision():
    assert count_cells(load_iris().data[:, :3].astype(np.float32)) == 20130


def test_only_zero_rows():
    cells = enumerate_cells(np.zeros((3, 2)))
    assert count_cells(np.zeros((3, 2))) == len(cells) == 1
    assert not cells.patterns.any()
    assert cells.rank == 0


def test_no_columns():
    assert count_cells(np.empty((2, 0))) == 1
    assert count_cells(np.empty((2, 0)), bias=1.0) == 2
