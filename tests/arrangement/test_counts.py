"""Known numbers of cells, by counting and by listing."""

from math import comb, factorial

import numpy as np
import pytest
from sklearn.datasets import load_iris

from covopt.arrangement import count_cells, enumerate_cells
from tests.arrangement import families as fam

IRIS = np.rint(load_iris().data * 10).astype(int)


def generic(n, d):
    return 2 * sum(comb(n - 1, i) for i in range(d))


KNOWN = [
    *[(f"resonance {n}", fam.resonance(n), 0, c) for n, c in [(1, 2), (2, 6), (3, 32), (4, 370), (5, 11292)]],
    *[(f"threshold {n}", fam.threshold(n), 0, c) for n, c in [(1, 4), (2, 14), (3, 104), (4, 1882)]],
    *[(f"cross-polytope {n}", fam.cross_polytope(n), 0, 2 * 3**n - 2**n) for n in (1, 2, 3, 5)],
    *[(f"braid {n}", fam.braid(n), 0, factorial(n)) for n in (2, 3, 4, 6)],
    *[(f"type B {n}", fam.type_b(n), 0, 2**n * factorial(n)) for n in (1, 2, 3, 4)],
    *[(f"type D {n}", fam.type_d(n), 0, 2 ** (n - 1) * factorial(n)) for n in (2, 3, 4, 5)],
    *[(f"cycle {n}", fam.cycle_graph(n), 0, 2**n - 2) for n in (3, 4, 8)],
    *[(f"boolean {n}", fam.boolean(n), 0, 2**n) for n in (1, 2, 7)],
    ("iris 3-4, bias", IRIS[:, 2:], 1.0, 8164),
    ("iris 1-3", IRIS[:, :3], 0, 20130),
    ("generic 30, 3", np.random.default_rng(0).standard_normal((30, 3)), 0, generic(30, 3)),
    ("generic 15, 5", np.random.default_rng(1).standard_normal((15, 4)), 2.5, generic(15, 5)),
    ("integers in general position", np.vander(np.arange(1, 13), 4), 0, generic(12, 4)),
    ("moments with bias", np.arange(9)[:, None] ** [1, 2], 1.0, generic(9, 3)),
    ("grid", np.argwhere(np.ones((3, 3))), 1.0, None),
]


@pytest.mark.parametrize(("X", "bias", "count"), [k[1:] for k in KNOWN], ids=[k[0] for k in KNOWN])
def test_count_and_list_agree_with_the_known_number(X, bias, count):
    counted = count_cells(X, bias=bias)
    cells = enumerate_cells(X, bias=bias)
    assert len(cells) == cells.n_cells == counted
    assert count is None or counted == count
    assert len(np.unique(cells.packed, axis=0)) == counted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("X", "count"),
    [(IRIS, 1066478), (fam.threshold(5), 94572), (fam.braid(7), 5040), (fam.type_b(5), 3840)],
    ids=["iris", "threshold 5", "braid 7", "type B 5"],
)
def test_large_lists(X, count):
    cells = enumerate_cells(X)
    assert len(cells) == count_cells(X) == count
    assert len(np.unique(cells.packed, axis=0)) == count


@pytest.mark.slow
def test_large_counts():
    assert count_cells(fam.resonance(6)) == 1066044
    assert count_cells(fam.threshold(5)) == 94572
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
