"""Cells: known numbers of them; patterns that are realised and unique, however a table is given; what is exact."""

import warnings
from math import comb, factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import load_iris

from covopt.arrangement import count_cells, enumerate_cells, interior_point, iter_cells
from covopt.errors import InputError, PrecisionWarning
from tests.arrangement import families as fam
from tests.bank.arrangement import all_cells
from tests.cases import cases

# --------------------------------------------- known numbers of cells, by counting and by listing.
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


# ----------- the patterns themselves: realised, unique, independent of how the table is presented.
small_tables = st.integers(1, 8).flatmap(
    lambda n: st.integers(1, 4).flatmap(lambda d: arrays(np.int64, (n, d), elements=st.integers(-2, 2)))
)


def as_set(patterns):
    return set(map(bytes, np.asarray(patterns, dtype=np.uint8)))


@settings(max_examples=80, deadline=None)
@given(small_tables, st.sampled_from([0.0, 1.0]))
def test_count_list_and_brute_force_agree(X, bias):
    cells = enumerate_cells(X, bias=bias)
    found = as_set(cells.patterns)
    assert len(found) == len(cells) == count_cells(X, bias=bias)
    assert found == as_set(all_cells(np.column_stack([X, np.full(len(X), bias)])))
    live = (X != 0).any(axis=1) | (bias != 0)
    assert as_set(~cells.patterns & live) == found


@settings(max_examples=30, deadline=None)
@given(small_tables, st.integers(0, 2**32 - 1))
def test_presentation_does_not_matter(X, seed):
    rng = np.random.default_rng(seed)
    found = as_set(enumerate_cells(X).patterns)
    order = rng.permutation(len(X))
    assert as_set(enumerate_cells(X[order]).patterns[:, np.argsort(order)]) == found
    assert as_set(enumerate_cells(X * rng.integers(1, 50, size=(len(X), 1))).patterns) == found
    unimodular = np.tril(rng.integers(-2, 3, size=(X.shape[1],) * 2), -1) + np.eye(X.shape[1], dtype=int)
    assert as_set(enumerate_cells(X @ unimodular).patterns) == found
    # the same table in irrational coordinates has only floating-point zero tests
    turned = X @ np.linalg.qr(rng.standard_normal((X.shape[1],) * 2))[0]
    turned[~(X != 0).any(axis=1)] = 0.0
    assert as_set(enumerate_cells(turned).patterns) == found


@pytest.mark.parametrize(
    ("X", "bias"),
    [(fam.resonance(4), 0), (np.random.default_rng(3).standard_normal((20, 3)), 1.0)],
    ids=["resonance 4", "generic"],
)
def test_two_workers_and_streaming_give_the_same_cells(X, bias):
    cells = enumerate_cells(X, bias=bias)
    found = as_set(cells.packed)
    if cells.exact:  # of others a cluster has two in test_files.py
        assert as_set(enumerate_cells(X, bias=bias, n_jobs=2).packed) == found
    for chunk_size in (1, 7, 1000, 10**6):
        blocks = list(iter_cells(X, bias=bias, chunk_size=chunk_size))
        assert max(map(len, blocks)) <= chunk_size
        assert sum(map(len, blocks)) == len(cells)
        assert as_set(np.concatenate(blocks)) == found


def test_points_inside_cells():
    X = np.c_[fam.resonance(3), np.zeros((7, 1))].astype(float)
    for pattern in enumerate_cells(X).patterns:
        assert np.array_equal(X @ interior_point(X, pattern) > 0, pattern)


@pytest.mark.filterwarnings("ignore::covopt.errors.PrecisionWarning")
@pytest.mark.parametrize("nearly", [2e-11, 3e-12])
def test_nearly_degenerate_floats_warn_with_both_numbers(nearly):
    X = np.random.default_rng(0).standard_normal((8, 3))
    X[2] = X[0] + X[1] + nearly * X[3]
    with pytest.warns(PrecisionWarning, match=r"up to \S+ were counted as zero and from \S+ as nonzero"):
        enumerate_cells(X)
    with pytest.warns(PrecisionWarning, match="cells are in doubt"):
        count_cells(X)
    with pytest.warns(PrecisionWarning, match="cells are in doubt"):
        list(iter_cells(X))


@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_different_rows_that_are_taken_for_one_warn(bias):
    X = (1.0 + 1e-14 * np.arange(10.0))[:, None] if bias else np.array([[0.3, 0.7], [0.6, 1.4 + 1e-15]])
    for question in (count_cells, enumerate_cells):
        with pytest.warns(PrecisionWarning, match="rows that differ by rounding were taken for one"):
            question(X, bias=bias)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        count_cells(np.sqrt([[2.0, 3.0], [8.0, 12.0], [2.0, 3.0]]))  # multiples and copies are one


def test_integers_of_too_many_digits_are_counted_and_not_listed():
    big = 10**15
    X = np.array([[1, 0, 0], [0, 1, 0], [big, big, 1], [1, 1, 0], [0, 0, 1], [1, 2, 3]])
    few = [[1, 0, 0], [0, 1, 0], [7, 7, 1], [1, 1, 0], [0, 0, 1], [1, 2, 3]]
    assert count_cells(X) == count_cells(few) == len(enumerate_cells(few))
    for question in (enumerate_cells, lambda X: list(iter_cells(X, chunk_size=5))):
        with pytest.raises(InputError, match="columns with fewer digits"):
            question(X)


@pytest.mark.parametrize("n", [8, 9, 31, 32, 33, 64, 65])
@pytest.mark.parametrize("integer", [False, True], ids=["generic", "lattice"])
def test_patterns_do_not_depend_on_which_rows_are_repeated_or_turned(n, integer):
    """Short lines (9 to 64 rows) and long ones, bits in one word and in several, repeated and opposite rows."""
    rng = np.random.default_rng(n)
    X = rng.integers(-3, 4, (n, 3)).astype(float) if integer else rng.standard_normal((n, 3))
    X[0] = [1.0, 2.0, 3.0]
    copies = rng.integers(0, n, 40)
    turned = rng.choice([-2.0, 1.0], 40)
    alone = enumerate_cells(X)
    more = enumerate_cells(np.vstack([X, turned[:, None] * X[copies]]))
    assert len(alone) == len(more) == count_cells(X)
    patterns = {row.tobytes() for row in alone.patterns}
    assert {row[:n].tobytes() for row in more.patterns} == patterns
    repeated = more.patterns[:, n:]
    nonzero = X[copies].any(axis=1)
    assert np.array_equal(repeated, nonzero & (more.patterns[:, copies] ^ (turned < 0)))
    # another order of the rows is another flag, another set of short lines
    order = rng.permutation(n)
    again = enumerate_cells(X[order]).patterns[:, np.argsort(order)]
    assert {np.ascontiguousarray(row).tobytes() for row in again} == patterns


# ---------------------------------------------------------------------- what is exact
