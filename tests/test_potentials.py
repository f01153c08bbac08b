import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import covopt
from covopt.potentials import LabelNoise
from tests.cases import drawn, normal

NAMES = ("label-noise", "label-noise-exact")


# ---------------------------------------------------------------------- the weights themselves
def test_the_printed_weight_is_eq_13_and_the_exact_one_minimises_eq_12():
    rows, neurons = normal(0, (9, 3), (20, 3))
    heights = np.maximum(neurons @ rows.T, 0)
    printed = LabelNoise().weigh(rows, neurons)
    np.testing.assert_allclose(printed, np.sqrt((heights**2).mean(axis=1)), rtol=1e-13)
    exact = LabelNoise(exact=True).weigh(rows, neurons)
    scales = np.exp(np.linspace(-8, 8, 20001))[:, None]
    size = ((heights > 0) * np.square(rows).sum(axis=1)).mean(axis=1)
    contribution = scales**2 * (heights**2).mean(axis=1) + size / scales**2  # of (tw, 1/t)
    np.testing.assert_allclose(2 * exact, contribution.min(axis=0), rtol=1e-6)


@pytest.mark.parametrize("exact", [False, True])
def test_the_printed_weight_is_convex_and_the_exact_one_where_the_active_rows_agree(exact):
    rng, rows = drawn(4, (6, 3))
    potential = LabelNoise(exact)
    a, b = rng.standard_normal((4000, 3)), rng.standard_normal((4000, 3))
    middle, ends = potential.weigh(rows, a + b), potential.weigh(rows, a) + potential.weigh(rows, b)
    same = ((a @ rows.T > 0) == (b @ rows.T > 0)).all(axis=1)
    assert same.sum() > 50
    assert (middle <= ends * (1 + 1e-12))[same].all()
    assert (middle <= ends * (1 + 1e-12)).all() != exact


# ---------------------------------------------------------------------- invariances
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_printed_potential_is_invariant_under_affine_maps(seed):
    rng, X, y = drawn(seed, (6, 2), 6)
    turned = X @ (rng.standard_normal((2, 2)) + 2 * np.eye(2)) + 10 * rng.standard_normal(2)
    bias = float(rng.choice([0.5, 1.0, 3.0]))
    first = covopt.min_norm(X, y, potential="label-noise").cost
    second = covopt.min_norm(turned, y, potential="label-noise", bias=bias).cost
    assert second == pytest.approx(first, rel=2e-6)


# ------------------------------------------------------------------- certificates, files, messages
@pytest.fixture(scope="module", params=NAMES)
def solved(request):
    rng = np.random.default_rng(7)
    return covopt.min_norm(rng.standard_normal((8, 2)), rng.standard_normal(8), potential=request.param)


def test_undetermined_parameters_are_said(solved):
    free = solved.undetermined
    assert len(free) == len(solved.network)
    moved = solved.network.hidden_weights.copy()
    rows = solved.data.lifted
    for j in np.flatnonzero(free):
        active = rows @ moved[j] > 1e-9 * np.linalg.norm(moved[j])
        assert np.linalg.matrix_rank(rows[active]) < rows.shape[1]
    assert "undetermined" in solved.summary()
    assert (f"{(free > 0).sum()} of {len(free)} neurons" in solved.summary()) == bool(free.any())
