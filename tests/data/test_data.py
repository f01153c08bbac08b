import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from covopt.data import Data
from covopt.exact.parallel_rows import group_rays


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
