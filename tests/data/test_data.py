import time

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covopt.data import Data
from covopt.errors import InputError
from covopt.exact.parallel_rows import group_rays


def refused(X, Y, **options):
    with pytest.raises(InputError) as caught:
        Data.validate(X, Y, **options)
    return str(caught.value)


def has(message, *parts):
    for part in parts:
        assert part in message, (part, message)


@pytest.mark.parametrize(
    "make", [np.array, list, pd.DataFrame, lambda v: pl.DataFrame(v, schema=["0", "1"], orient="row")]
)
def test_every_container_gives_the_same_table(make):
    data = Data.validate(make([[1, 2], [3, 4], [5, 7]]), [1, 2, 3])
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 7]]
    assert data.Y.tolist() == [[1], [2], [3]]
    assert data.X.dtype == data.Y.dtype == np.float64
    assert (data.n_samples, data.n_features, data.n_outputs, data.rank) == (3, 2, 1, 3)


@pytest.mark.parametrize("library", [pd, pl])
def test_names_come_from_frames(library):
    data = Data.validate(library.DataFrame({"a": [1, 2], "b": [0.5, 1]}), library.Series([1, 2], name="t")
                         if library is pd else pl.Series("t", [1, 2]))  # fmt: skip
    assert data.feature_names == ("a", "b")
    assert data.target_names == ("t",)


def test_names_by_default_and_given():
    data = Data.validate([[1, 2], [3, 4]], [[1, 2], [3, 4]], feature_names=["u", "v"])
    assert data.feature_names == ("u", "v")
    assert data.target_names == ("y0", "y1")
    has(refused([[1, 2]], [1], feature_names=["u"]), "feature_names", "2", "['u']")


def test_arrays_are_copied():
    X = np.eye(3)
    data = Data.validate(X, [1, 2, 3])
    X[0, 0] = 7
    assert data.X[0, 0] == 1


def test_nan_names_row_and_column():
    table = pd.DataFrame({"bmi": [1.0, 2.0, 3.0, 4.0], "s5": [1.0, 2.0, 5.0, np.nan]})
    has(refused(table, [1, 2, 3, 4]), "X row 3 (counting from 0)", "column 1 ('s5')", "NaN", "impute")
    has(refused([[1.0], [np.inf]], [1, 2]), "X row 1", "column 0", "infinity")
    has(refused([[1.0], [2.0]], [-np.inf, np.nan]), "Y row 0", "-infinity", "2 such entries in 2 rows")
    has(refused(pl.DataFrame({"a": [1, None]}), [1, 2]), "row 1", "'a'", "NaN")
    has(refused(pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}), [1, 2]), "row 1", "'a'", "NaN")
    has(refused([[None, 1.0]], [1]), "row 0", "column 0", "NaN")
    has(refused(np.ma.masked_array([[1.0, 2.0]], [[False, True]]), [1]), "row 0", "column 1")


def test_text_and_objects():
    has(
        refused([[1, 2], [3, "x"]], [1, 2]),
        "X row 1 (counting from 0), column 1",
        "'x' (str)",
        "leave it out",
    )
    has(refused(pd.DataFrame({"a": [1, 2], "b": ["1", "u"]}), [1, 2]), "row 0", "column 1 ('b')", "'1' (str)")
    has(refused(pl.DataFrame({"a": ["u"]}), [1]), "row 0", "('a')", "'u'")
    has(refused(pd.DataFrame({"t": pd.to_datetime(["2020-01-01"])}), [1]), "('t')", "dates", "days since")
    has(refused(np.array([["2020-01-01"]], dtype="datetime64[D]"), [1]), "real numbers", "datetime64")
    has(refused([[1j]], [1]), "X is complex", "imaginary")
    has(refused("table", [1]), "X must be a table", "received str")
    has(refused([[1, 2], [3]], [1, 2]), "X is not a rectangular", "row 1", "1 entry", "row 0", "2 entries")
    has(refused(pl.DataFrame({"a": [1]}).lazy(), [1]), "LazyFrame", "collect()")
    repeated = pd.DataFrame([[1, 2]], columns=["a", "a"])
    has(refused(repeated, [1]), "more than one column called 'a'")


def test_sparse_matrices():
    from scipy.sparse import csr_matrix

    has(refused(csr_matrix(np.eye(2)), [1, 2]), "sparse", "toarray()")


def test_shapes():
    has(refused([1, 2, 3], [1, 2, 3]), "two dimensions", "(3,)", "reshape(-1, 1)")
    table = pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, 0.0], "y": [2.0, 3.0]})
    for y in (table["y"], table["y"].to_numpy()):
        has(refused(y, table[["a", "b"]]), "the order is X, Y: are they swapped?")
    has(refused(np.zeros((2, 2, 2)), [1, 2]), "(2, 2, 2)")
    has(refused([[1], [2]], [1, 2, 3]), "X has 2 rows but Y has 3")
    has(refused(np.zeros((0, 2)), []), "no rows", "(0, 2)")
    has(refused(np.zeros((1, 0)), [1], bias=0), "no columns", "bias is 0")
    has(refused([[1], [2]], np.zeros((2, 0))), "Y has no columns")
    has(refused([[1], [2]], np.zeros((2, 1, 1))), "Y must have shape", "(2, 1, 1)")
    assert Data.validate(np.zeros((1, 0)), [1]).rank == 1


@pytest.mark.parametrize("bias", [-1, np.nan, np.inf, "1", None, True])
def test_bias(bias):
    has(refused([[1]], [1], bias=bias), "bias must be", repr(bias))


def test_same_point_with_different_targets():
    X = [[1, 1], [3, 4], [0, 0], [3, 4]]
    message = refused(X, [1, 1, 2, 5.5])
    has(message, "rows 1 and 3 (counting from 0)", "(3, 4)", "1 and 5.5", "by 4.5")
    has(message, 'duplicates="mean"', "--duplicates mean")
    has(refused([*X, [1, 1]], [1, 1, 2, 5.5, 1.1]), "rows 1 and 3", "2 points are contradicted", "largest")
    message = refused(X, np.column_stack([np.ones(4), [1, 1, 2, 5]]), target_names=["u", "v"])
    has(message, "'v'", "1 and 5")
    assert Data.validate(X, [1, 2, 3, 2]).independent_rows.tolist() == [0, 1, 2]


def test_minus_zero_is_zero():
    has(refused([[0.0], [-0.0], [1.0]], [1, 2, 3]), "rows 0 and 1")


def test_constant_inputs():
    has(
        refused([[2, 2]] * 3, [1, 3, 2]),
        "X is constant",
        "all 3 rows",
        "(2, 2)",
        "from 1 to 3",
        "feature that varies",
    )
    assert Data.validate([[2, 2]] * 3, [4, 4, 4]).independent_rows.tolist() == [0]


def test_mean_of_duplicates():
    data = Data.validate([[1], [2], [1], [1]], [1, 5, 2, 6], duplicates="mean")
    assert data.X.tolist() == [[1], [2]]
    assert data.Y.tolist() == [[3], [5]]
    has(data.notes[0], "2 of 4 rows", "1 repeated point", "largest change", "3,", "row 0")
    assert Data.validate([[1], [2]], [1, 2], duplicates="mean").notes == ()
    has(
        refused([[1]], [1], duplicates="men"), "duplicates", "'error', 'mean'", "'men'", "did you mean 'mean'"
    )
    huge = Data.validate([[1], [1]], [1.7e308, 1.5e308], duplicates="mean")
    assert huge.Y[0, 0] == pytest.approx(1.6e308)


def test_zero_rows_without_bias():
    has(refused(np.zeros((2, 2)), [1, 1], bias=0), "X is all zero", "bias is 0", "f = 0", "is 1")
    has(refused([[1, 2], [0, 0]], [1, 4], bias=0), "row 1 (counting from 0)", "all zero", "is 4", "--bias 1")
    data = Data.validate([[1, 2], [0, 0]], [1, 0], bias=0)
    assert data.independent_rows.tolist() == [0]
    empty = Data.validate(np.zeros((2, 2)), [0, 0], bias=0)
    assert empty.rank == 0
    assert empty.basis.shape == (2, 0)


def test_rays_without_bias():
    message = refused([[1, 2], [5, 5], [2, 4]], [1, 0, 3], bias=0)
    has(message, "rows 0 and 2 (counting from 0)", "ray through the origin", "row 0 is c = 0.5 times row 2")
    has(message, "f(c x) = c f(x)", "should be 1.5", "received 1", "--bias 1")
    data = Data.validate([[1, 2], [5, 5], [2, 4], [-1, -2]], [1, 0, 2, 9], bias=0)
    assert data.independent_rows.tolist() == [1, 2, 3]
    assert Data.validate([[1, 2], [5, 5], [2, 4]], [1, 0, 3]).n_samples == 3


def test_rows_of_messages_are_the_users_after_merging():
    message = refused([[7, 7.5], [7, 7.5], [1, 2], [2, 4]], [1, 2, 1, 3], bias=0, duplicates="mean")
    has(message, "rows 2 and 3")


@pytest.mark.parametrize("scale", [1e300, 1e-300, 1e-160, 1.0])
def test_rays_at_every_scale(scale):
    X = np.array([[1.0, 3.0], [2.0, 6.0], [1.0, 3.0000001]]) * scale / 8
    has(refused(X, [1.0, 5.0, 1.0], bias=0), "c = 0.5", "should be 2.5")
    assert Data.validate(X, [1.0, 2.0, 1.0], bias=0).independent_rows.tolist() == [1, 2]
    data = Data.validate(X * [1, 0], [1e300, 2e300, 1e300], bias=0)
    assert data.rank == 1


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 6), st.integers(0, 10_000), st.floats(1e-6, 1e6))
def test_multiples_are_found_whatever_the_rounding(d, seed, factor):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20, d)) * 10.0 ** rng.integers(-5, 6, d)
    longest, c = group_rays(np.vstack([X, X * factor]))
    assert (longest[:20] == longest[20:]).all()
    rows = np.vstack([X, X * factor])
    assert np.allclose(c[:, None] * rows[longest], rows, rtol=1e-13, atol=0)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(0, 10_000), st.sampled_from([0.0, 0.5, 1.0]))
def test_rank_and_basis_do_not_depend_on_units(r, seed, bias):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((25, r)) @ rng.standard_normal((r, 5))
    units = 10.0 ** rng.integers(-60, 61, 5)
    data, scaled = (Data.validate(x, np.zeros(25), bias=bias) for x in (X, X * units))
    assert data.rank == scaled.rank == r + (bias > 0)
    assert np.allclose(scaled.basis.T @ scaled.basis, np.eye(scaled.rank), atol=1e-14)
    lifted = data.lifted
    assert np.allclose(lifted @ data.basis @ data.basis.T, lifted, atol=1e-12)


def test_full_rank_leaves_the_coordinates_alone():
    data = Data.validate(np.random.default_rng(0).standard_normal((9, 3)), np.arange(9))
    assert (data.basis == np.eye(4)).all()
    assert data.lifted[:, -1].tolist() == [1.0] * 9


@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_a_hundred_thousand_rows(bias):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((100_000, 10)), rng.standard_normal(100_000)
    start = time.perf_counter()
    data = Data.validate(X, y, bias=bias)
    assert len(data.independent_rows) == 100_000
    assert time.perf_counter() - start < 20  # about a second; machines are shared
