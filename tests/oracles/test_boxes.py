"""Boxes with chords and with quadratics: against samples, eigenvalues, exact arithmetic and the faces."""

from fractions import Fraction
from itertools import pairwise
from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covopt.exact.rank import merge_lines
from covopt.oracles.ascent import make_room
from covopt.oracles.boxes import scalar
from covopt.oracles.boxes.leaf import affine_bound, relax, tighten, touch
from covopt.oracles.boxes.quadratic import OPTIONS, UNSET, bound_box
from covopt.oracles.boxes.quadratic_search import MomentSearch, quadratic_dual_norm
from covopt.oracles.boxes.scalar import NOISE, Scalar, merge, to_size_one
from covopt.oracles.boxes.search import box_dual_norm, search
from covopt.oracles.boxes.sphere_form import Sign, on_sphere, proved_on_sphere
from covopt.oracles.certified import BY_BOXES, VALID, certified_dual_norm
from tests.cases import normal
from tests.oracles.table import AWKWARD, CLEAR, face_oracle, is_above, objects, question


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_the_bound_of_a_leaf_lies_above_samples(seed):
    """Of a box that the search can meet, whatever θ is, before and after it is improved."""
    random = np.random.default_rng(seed)
    r, H = int(random.integers(2, 5)), float(random.uniform(0.2, 4.0))
    rows, weights = random.standard_normal((9, r)), random.choice([-1.0, 1.0], 9)
    a, u0, s = int(random.integers(r)), np.zeros(r), np.ones(r)
    for j in random.integers(r, size=int(random.integers(0, 3 * r))):
        s[j] /= 2
        u0[j] += random.choice([-1, 1]) * s[j]
    u0[a], s[a] = random.choice([-1.0, 1.0]), 0.0
    centre, radius = rows @ u0, np.abs(rows) @ s
    index = np.flatnonzero(np.abs(centre) < radius).astype(np.int32)  # as a stack holds them
    active = centre >= radius
    sides, g = (centre[index], radius[index]), weights[active] @ rows[active]
    theta, q, u = random.uniform(0, 1, len(index)), np.zeros(r), np.zeros(r)
    samples = u0 + s * random.uniform(-1, 1, (400, r))
    samples[:60] = u0 + s * random.choice([-1.0, 1.0], (60, r))
    true = np.maximum(samples @ rows.T, 0) @ weights - H * np.linalg.norm(samples, axis=1)
    for _ in range(3):
        f = relax(rows, weights, index, *sides, theta, g, u0, q)
        norm = touch(q, u0, s, H, u)
        assert affine_bound(f, q, u0, s, H, u, norm) >= true.max() - 1e-12
        tighten(rows, weights, index, theta, f, q, u0, a, H, make_room(9, r))
        assert (theta >= 0).all() and (theta <= 1).all()


@pytest.mark.parametrize("kind", [*CLEAR, *AWKWARD, "too big"])
@pytest.mark.parametrize("of_dual", ["cancels", "spread"])
def test_the_transfer_pays_for_what_it_changes(kind, of_dual):
    """In fractions: what V and y miss of the rows, rows that are left out, and lines that are merged."""
    rng = np.random.default_rng(7)
    rows = (CLEAR | AWKWARD)["huge" if kind == "too big" else kind](rng, 12, 3)
    dual = question(rng, rows, of_dual, 1) * (1e-300 if kind == "huge" else 1.0)
    made = Scalar(rows, dual)
    units, weights, power, _ = to_size_one(rows, dual)
    sizes, V, norm = np.abs(weights[:, 0]), objects(made.V), Fraction(made.norm)
    assert power == made.exponent and np.abs(V.T @ V).sum(axis=1).max() <= norm**2
    kept = len(sizes) * sizes > NOISE * sizes.sum()
    lines, own, ratio = merge_lines(units[kept])
    near, f, s = lines @ made.V, ratio * sizes[kept], np.sign(weights[kept, 0])
    y, signs, linear, _ = merge(near, own, f, s)
    assert np.array_equal(y[signs != 0], made.y) and np.array_equal(linear, made.linear)
    c, factor, s = objects(near), objects(ratio) * objects(sizes[kept]), s.astype(int)
    given = objects(units) * objects(sizes)[:, None]
    paid = np.abs(given[~kept]).sum() + sum(map(length, given[kept] - (factor[:, None] * c[own]) @ V.T))
    total, opposite = np.zeros(len(c), dtype=object), np.zeros(len(c), dtype=object)
    np.add.at(total, own, s * np.abs(factor))
    np.add.at(opposite, own, s * np.where(factor < 0, -factor, 0))
    off = [length(row) for row in total[:, None] * c - objects(signs)[:, None] * objects(y)]
    paid += norm * (sum(off) + length(objects(linear) + opposite @ c))
    assert paid * (1 - Fraction(1, 10**12)) <= Fraction(made.residual)
    assert made.residual <= 1e-14 * float(np.linalg.norm(units, axis=1) @ np.abs(weights[:, 0]))


def test_what_a_transfer_misses_is_paid(monkeypatch):
    """Merging rows costs more on every table above: without it the bound would hold by accident."""
    rows, dual = np.eye(3), np.ones(3)
    before = Scalar(rows, dual).residual
    monkeypatch.setattr(scalar, "transfer_up", lambda *_: 1.0)
    assert Scalar(rows, dual).residual >= 1.0 > before


def length(vector):
    """√Σv² to a hundred bits."""
    return Fraction(isqrt(int(sum(v * v for v in vector) * 4**200)), 2**200)


def test_parallel_rows_are_found_whatever_rounding_does():
    for seed in range(60):
        random = np.random.default_rng(seed)
        ways = random.integers(-1, 2, (9, 4)).astype(float)
        ways[~ways.any(axis=1)] = 1.0
        ways *= np.array([way[np.flatnonzero(way)[0]] for way in ways])[:, None]
        rows = np.r_[ways, ways] * random.choice([-3.0, 0.1, 1.0, 1 / 3], (18, 1))
        made = Scalar(rows, random.standard_normal(18))
        assert len(made.y) == len(np.unique(ways, axis=0))


@pytest.mark.parametrize("budget", [1, 50, 3000, 10**6])
def test_every_budget_gives_a_bound_that_another_search_shows(budget):
    rows, dual = normal(5, (30, 4), 30)
    h = face_oracle(rows).price(dual).upper_bound
    found = box_dual_norm(rows, dual, max_nodes=budget)
    assert found.upper_bound >= h * (1 - 1e-12)
    assert found.nodes <= budget + 7 * 16
    if budget == 10**6:
        assert found.closed and found.upper_bound <= h * (1 + 2e-9)
    made = Scalar(rows, dual)
    again = search(made, found.upper_bound * 2.0**-made.exponent, max_nodes=10**6)
    assert again.finished and not len(again.points)


@pytest.mark.parametrize(("of_rows", "of_dual"), [(-300, 210), (40, -300)])
def test_threads_and_powers_of_two_change_nothing_but_the_scale(of_rows, of_dual):
    rows, dual = normal(6, (30, 4), 30)
    other = np.ldexp(rows, of_rows), np.ldexp(dual, of_dual)
    for budget in (2000, 10**6):
        one, two = (
            box_dual_norm(*each, max_nodes=budget, n_threads=k) for k, each in ((1, (rows, dual)), (2, other))
        )
        assert np.ldexp(one.upper_bound, of_rows + of_dual) == two.upper_bound
        assert np.ldexp(one.best_value, of_rows + of_dual) == two.best_value
        assert one.nodes == two.nodes


def test_values_far_below_the_rows_are_met_to_rounding():
    # rows of size 1e6, a dual norm of size 1: kinks must be met to 1e-12, boxes that rounding blurs be left alone
    points = [[-0.1970229623361811, 0.7399110786525998], [-2.0411761408649456, -0.6315607466908089]]
    points += [[-0.6030525528173114, -0.06956958967234413]]
    rows = np.c_[points, np.full(3, 659284.0166278677)]
    dual = np.array([1.1674480943522596, 0.04566519010189851, -1.2131132844541581])
    found = box_dual_norm(rows, dual, max_nodes=20_000)
    assert found.nodes < 2000
    assert abs(found.best_value) <= found.upper_bound <= abs(found.best_value) * (1 + 1e-7)


def test_a_search_that_stops_has_a_point_and_a_valid_bound():
    random = np.random.default_rng(5)
    rows, signs = random.standard_normal((40, 5)), np.where(random.random(40) < 0.5, 1.0, -1.0)
    made = Scalar(rows, signs)
    h = search(made, 1e-3, growth=1.0, max_nodes=10**6).upper_bound
    for threshold in (0.3 * h, 0.9 * h):
        all_of_it = search(made, threshold, max_nodes=10**6)
        first = search(made, threshold, max_nodes=10**6, stops=True)
        assert len(first.points) and first.nodes <= all_of_it.nodes
        assert (np.abs(made(first.points)) >= threshold * (1 - 1e-12)).all()
        assert first.upper_bound >= h * (1 - 1e-12)
    nothing = search(made, h * (1 + 1e-9), max_nodes=10**6, stops=True)
    assert not len(nothing.points) and nothing.finished and nothing.upper_bound == h * (1 + 1e-9)


# ---- quadratic bounds on boxes: against samples, eigenvalues, the faces oracle, and exact arithmetic.
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
    signs = np.array([Sign.FREE, Sign.ON, Sign.OFF], np.uint8)
    fixed = random.choice(signs, n, p=[1.0 - held, 0.5 * held, 0.5 * held])
    turns = int(random.integers(1, 20))
    multipliers = (x, X, d, e, shares)
    box, rest = (centre.copy(), width.copy()), (turns, 2.0, 0.0, by_signs, False)
    known = [given.copy() for given in multipliers]
    bound, axis, _ = bound_box(rows, weights, linear, sizes, a, side, *box, *known, fixed.copy(), *rest)
    points = centre + width * random.uniform(-1.0, 1.0, (2000, r))
    points[:500] = centre + width * random.choice([-1.0, 1.0], (500, r))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    products = points @ rows.T
    here = ((fixed != Sign.ON) | (products >= 0.0)).all(axis=1)
    here &= ((fixed != Sign.OFF) | (products <= 0.0)).all(axis=1)
    values = np.maximum(products, 0.0) @ weights + points @ linear
    assert values[here].max(initial=0.0) <= max(bound, 0.0)
    if axis >= r:
        assert by_signs == 0.0 and weights[axis - r] > 0 and fixed[axis - r] == Sign.FREE
        assert np.unique(np.sign(products[:, axis - r])).size > 1
    else:
        assert axis == -1 or width[axis] > 0
    assert axis >= 0 or (held and bound == 0.0)
    if level > 0.0:
        H, signs = level * bound, fixed.copy()
        known = [given.copy() for given in multipliers]
        rest = (turns, 2.0, H, by_signs, True)
        less = bound_box(rows, weights, linear, sizes, a, side, *box, *known, signs, *rest)[0]
        assert values[here].max(initial=0.0) <= max(less, H, 0.0)
        inside = (np.abs(points / (points[:, a] * side)[:, None] - box[0]) <= box[1] + 1e-12).all(axis=1)
        stays = here & inside & ((signs != Sign.ON) | (products >= 0.0)).all(axis=1)
        stays &= ((signs != Sign.OFF) | (products <= 0.0)).all(axis=1)
        assert values[here & ~stays].max(initial=0.0) <= max(H, 0.0)


def test_many_dimensions_where_boxes_with_chords_do_not_end():
    """A smooth dual in twelve dimensions is bounded to a thousandth, alike for any number of threads."""
    random = np.random.default_rng(2)
    rows = np.column_stack([random.standard_normal((80, 11)), np.ones(80)])
    dual = rows @ random.standard_normal(12) + 0.3 * random.standard_normal(80)
    one = quadratic_dual_norm(rows, dual, rtol=1e-3, max_nodes=2000)
    two = quadratic_dual_norm(rows, dual, rtol=1e-3, max_nodes=2000, n_threads=2)
    assert one.closed and one.upper_bound == two.upper_bound and one.nodes == two.nodes
    found = certified_dual_norm(rows, dual)
    assert found.value <= one.upper_bound * (1 + 1e-9) and found.value >= abs(one.best_value)
    assert found.exact or found.method in (VALID, BY_BOXES)


def test_the_bound_falls_with_every_box():
    rows, dual = normal(0, (30, 9), 30)
    search = MomentSearch(Scalar(rows, dual))
    bounds = [search.run(1e-6, nodes) for nodes in (36, 100, 300, 900)]
    assert all(later <= earlier for earlier, later in pairwise(bounds))
    assert bounds[-1] < 0.97 * bounds[0] and search.scalar.best <= bounds[-1]
    # cut along axes alone, not along signs, the same bound takes nine thousand boxes
    found = quadratic_dual_norm(rows, dual, max_nodes=1000)
    assert found.closed and is_above(rows, dual, found.best_neuron, found.upper_bound)


def test_a_column_far_from_zero():
    """The boxes that matter are thin along one coordinate; the others have to be cut as well."""
    random = np.random.default_rng(0)
    rows = np.column_stack(
        [2005 + 9 * random.standard_normal(60), 20 * random.standard_normal((60, 2)), np.ones(60)]
    )
    dual = question(random, rows, "cancels", 1)
    found = quadratic_dual_norm(rows, dual, max_nodes=3000)
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
