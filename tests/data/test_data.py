import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covopt.data import Data
from covopt.errors import InputError
from covopt.exact.parallel_rows import group_rays
from tests.cases import claims


@pytest.mark.parametrize(
    "make", [np.array, list, pd.DataFrame, lambda v: pl.DataFrame(v, schema=["0", "1"], orient="row")]
)
def test_every_container_gives_the_same_table(make):
    data = Data.validate(make([[1, 2], [3, 4], [5, 7]]), [1, 2, 3])
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 7]]
    assert data.Y.tolist() == [[1], [2], [3]]
    assert data.X.dtype == data.Y.dtype == np.float64
    assert (data.n_samples, data.n_features, data.n_outputs, data.rank) == (3, 2, 1, 3)


@pytest.mark.parametrize("scale", [1e300, 1e-300, 1e-160, 1.0])
def test_rays_at_every_scale(scale):
    X = np.array([[1.0, 3.0], [2.0, 6.0], [1.0, 3.0000001]]) * scale / 8
    with pytest.raises(InputError, match=r"c = 0\.5(.|\n)*should be 2\.5"):
        Data.validate(X, [1.0, 5.0, 1.0], bias=0)
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


RNG = np.random.default_rng
V = Data.validate


@pytest.mark.parametrize(("claim", "holds"), claims("what holds of tables", V=V, RNG=RNG, pd=pd, pl=pl))
def test_what_holds(claim, holds):
    assert holds, claim


def test_a_copy_is_made_and_many_rows_are_grouped():
    X = np.eye(3)
    data = V(X, [1, 2, 3])
    X[0, 0] = 7
    assert data.X[0, 0] == 1
    many = RNG(0).standard_normal((30_000, 3))
    for bias in (0.0, 1.0):  # grouped, not compared with one another: seconds at most
        assert len(V(many, many[:, 0], bias=bias).independent_rows) == 30_000
