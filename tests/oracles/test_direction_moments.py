"""Quadratic bounds on boxes: against samples, eigenvalues, the faces oracle, and exact arithmetic."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covopt.oracles.cones.moments import MomentSearch, quadratic_gauge
from covopt.oracles.cones.narrowing import FREE, OFF, ON
from covopt.oracles.cones.quadratic import OPTIONS, UNSET, bound_box
from covopt.oracles.cones.scalar import Scalar
from covopt.oracles.cones.sphere_form import on_sphere, proved_on_sphere
from covopt.oracles.support import BY_BOXES, VALID, bound_gauge
from tests.cases import normal
from tests.oracles.table import is_above, question


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(2, 6), st.integers(3, 40), st.booleans(), st.sampled_from([0.0, 0.1, 0.4]),
    st.sampled_from([0.0, np.inf]), st.sampled_from([0.0, 0.5, 0.9, 0.99]),
)  # fmt: skip
def test_a_box_is_bounded_whatever_the_multipliers(seed, r, n, warm, held, by_signs, level):
    """Samples of the cone where the signs hold never exceed the bound, from any moments and multipliers.

    With a level what is left out of the box does not exceed it, and what stays is bounded as before.
    """
    random = np.random.default_rng(seed)
    rows = random.standard_normal((n, r)) * random.choice([1e-3, 1.0], (n, 1))
    weights, linear = random.choice([-1.0, 1.0], n), random.standard_normal(r)
    sizes = np.abs(rows).sum(axis=0) + np.abs(linear)
    a, side = int(random.integers(r)), float(random.choice([-1.0, 1.0]))
    width = 2.0 ** -random.integers(0, 8, r).astype(float)
    centre = np.array([random.integers(-(2**7), 2**7 + 1) / 2**7 * (1 - w) for w in width])
    centre[a], width[a] = side, 0.0
    half = random.standard_normal((r, r))
    x, X = random.standard_normal(r), half @ half.T
    d, e = np.abs(random.standard_normal(r)) * warm, np.abs(random.standard_normal(1)) * warm
    shares = np.full((n, OPTIONS), 50 if warm else UNSET, np.uint8)
    fixed = random.choice(np.array([FREE, ON, OFF], np.uint8), n, p=[1.0 - held, 0.5 * held, 0.5 * held])
    turns = int(random.integers(1, 20))
    multipliers = (x, X, d, e, shares)
    box, rest = (centre.copy(), width.copy()), (turns, 2.0, 1.5, 0.0, by_signs, False)
    known = [given.copy() for given in multipliers]
    bound, axis, _ = bound_box(rows, weights, linear, sizes, a, side, *box, *known, fixed.copy(), *rest)
    points = centre + width * random.uniform(-1.0, 1.0, (2000, r))
    points[:500] = centre + width * random.choice([-1.0, 1.0], (500, r))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    products = points @ rows.T
    here = ((fixed != ON) | (products >= 0.0)).all(axis=1) & ((fixed != OFF) | (products <= 0.0)).all(axis=1)
    values = np.maximum(products, 0.0) @ weights + points @ linear
    assert values[here].max(initial=0.0) <= max(bound, 0.0)
    if axis >= r:
        assert by_signs == 0.0 and weights[axis - r] > 0 and fixed[axis - r] == FREE
        assert np.unique(np.sign(products[:, axis - r])).size > 1
    else:
        assert axis == -1 or width[axis] > 0
    assert axis >= 0 or (held and bound == 0.0)
    if level > 0.0:
        H, signs = level * bound, fixed.copy()
        known = [given.copy() for given in multipliers]
        rest = (turns, 2.0, 1.5, H, by_signs, True)
        less = bound_box(rows, weights, linear, sizes, a, side, *box, *known, signs, *rest)[0]
        assert values[here].max(initial=0.0) <= max(less, H, 0.0)
        inside = (np.abs(points / (points[:, a] * side)[:, None] - box[0]) <= box[1] + 1e-12).all(axis=1)
        stays = here & inside & ((signs != ON) | (products >= 0.0)).all(axis=1)
        stays &= ((signs != OFF) | (products <= 0.0)).all(axis=1)
        assert values[here & ~stays].max(initial=0.0) <= max(H, 0.0)


def test_many_dimensions_where_boxes_with_chords_do_not_end():
    """A smooth dual in twelve dimensions is bounded to a thousandth, alike for any number of threads."""
    random = np.random.default_rng(2)
    rows = np.column_stack([random.standard_normal((80, 11)), np.ones(80)])
    dual = rows @ random.standard_normal(12) + 0.3 * random.standard_normal(80)
    one = quadratic_gauge(rows, dual, rtol=1e-3, max_nodes=2000)
    two = quadratic_gauge(rows, dual, rtol=1e-3, max_nodes=2000, n_threads=2)
    assert one.closed and one.upper_bound == two.upper_bound and one.nodes == two.nodes
    found = bound_gauge(rows, dual)
    assert found.value <= one.upper_bound * (1 + 1e-9) and found.value >= abs(one.best_value)
    assert found.exact or found.method in (VALID, BY_BOXES)


def test_the_bound_falls_with_every_box():
    rows, dual = normal(0, (30, 9), 30)
    search = MomentSearch(Scalar(rows, dual))
    bounds = [search.run(1e-6, nodes) for nodes in (36, 100, 300, 900)]
    assert all(later <= earlier for earlier, later in pairwise(bounds))
    assert bounds[-1] < 0.97 * bounds[0] and search.scalar.best <= bounds[-1]
    # cut along axes alone, not along signs, the same bound takes nine thousand boxes
    found = quadratic_gauge(rows, dual, max_nodes=1000)
    assert found.closed and is_above(rows, dual, found.best_neuron, found.upper_bound)


def test_a_column_far_from_zero():
    """The boxes that matter are thin along one coordinate; the others have to be cut as well."""
    random = np.random.default_rng(0)
    rows = np.column_stack(
        [2005 + 9 * random.standard_normal(60), 20 * random.standard_normal((60, 2)), np.ones(60)]
    )
    dual = question(random, rows, "cancels", 1)
    found = quadratic_gauge(rows, dual, max_nodes=3000)
    assert found.upper_bound < 1.05 * abs(found.best_value)
    assert is_above(rows, dual, found.best_neuron, found.upper_bound)


def twin(M, b):
    """ν + ¼bᵀ(ν − M)⁻¹b at the best ν, by eigenvalues and bisection."""
    values, vectors = np.linalg.eigh(M)
    c = 0.5 * vectors.T @ b
    low, high = values[-1], values[-1] + np.abs(values).max() + np.linalg.norm(b)
    for _ in range(200):
        middle = 0.5 * (low + high)
        gaps = np.maximum(middle - values, 1e-300)
        low, high = (middle, high) if np.sum((c / gaps) ** 2) > 1.0 else (low, middle)
    return high + float(np.sum(c**2 / np.maximum(high - values, 1e-300)))


@pytest.mark.parametrize("r", [1, 2, 5, 11, 31])
@pytest.mark.parametrize("kind", ["normal", "negative", "no slope", "double", "thin"])
def test_the_largest_value_and_a_point_that_has_it(r, kind):
    random = np.random.default_rng(r)
    for size in (1e-8, 1e-3, 1.0, 100.0):
        M, b = random.standard_normal((r, r)), size * random.standard_normal(r)
        M = M + M.T
        if kind == "negative":
            M -= 10.0 * np.eye(r)
        elif kind == "no slope":
            b[:] = 0.0
        elif kind == "double":
            M = np.diag((np.arange(r) % 2).astype(float))
        elif kind == "thin":
            M *= 1e-12
        w, v, z = np.empty(r), np.empty(r), np.full(r, r**-0.5)
        scratch = np.empty((r, r)), np.empty(r)
        known = twin(M, b)
        for start in (-np.inf, known, 1e300):
            nu, mu = on_sphere(M, b, w, v, z, start, *scratch)
            scale = np.linalg.norm(M) + np.linalg.norm(b)
            assert abs(nu + mu - known) <= 1e-9 * scale
            assert abs(w @ w + v @ v - 1.0) <= 1e-6
            assert abs(w @ M @ w + v @ M @ v + b @ w - known) <= 1e-6 * scale
            shown = proved_on_sphere(M, b, nu, mu, np.empty((r + 1, r + 1)))
            assert known - 1e-12 * scale <= shown <= known + 1e-9 * scale
