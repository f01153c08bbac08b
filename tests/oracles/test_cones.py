"""The oracle by boxes: its bounds against exact arithmetic, the faces oracle, and themselves."""

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covopt.exact.parallel_rows import merge_lines
from covopt.oracles.ascent import make_room
from covopt.oracles.cones import box_gauge, scalar
from covopt.oracles.cones.leaf import affine_bound, relax, tighten, touch
from covopt.oracles.cones.scalar import NEGLIGIBLE, Scalar, merge
from covopt.oracles.cones.search import search
from covopt.oracles.coordinates import to_size_one
from tests.cases import normal
from tests.oracles.table import AWKWARD, CLEAR, face_oracle, objects, question


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
    kept = sizes > NEGLIGIBLE * sizes.max()
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
    found = box_gauge(rows, dual, max_nodes=budget)
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
            box_gauge(*each, max_nodes=budget, n_threads=k) for k, each in ((1, (rows, dual)), (2, other))
        )
        assert np.ldexp(one.upper_bound, of_rows + of_dual) == two.upper_bound
        assert np.ldexp(one.best_value, of_rows + of_dual) == two.best_value
        assert one.nodes == two.nodes


def test_values_far_below_the_rows_are_met_to_rounding():
    # rows of size 1e6, a gauge of size 1: kinks must be met to 1e-12, boxes that rounding blurs be left alone
    points = [[-0.1970229623361811, 0.7399110786525998], [-2.0411761408649456, -0.6315607466908089]]
    points += [[-0.6030525528173114, -0.06956958967234413]]
    rows = np.c_[points, np.full(3, 659284.0166278677)]
    dual = np.array([1.1674480943522596, 0.04566519010189851, -1.2131132844541581])
    found = box_gauge(rows, dual, max_nodes=20_000)
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


def test_many_dimensions_leave_the_norms_and_no_rows_nothing():
    found = box_gauge(np.eye(120), np.ones(120), max_nodes=1000)
    assert found.nodes == 0 and found.upper_bound == pytest.approx(120.0)
    assert box_gauge(np.zeros((0, 3)), np.zeros(0)).upper_bound == 0.0
