from itertools import combinations

import numpy as np
import pytest
from brute import distinct_lines, dual_function, gauge_by_cells
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import special_ortho_group

from covopt.oracles.faces import FaceOracle
from covopt.oracles.local_search import climb
from covopt.oracles.scalar.flats import FlatSweep, arc_visits, unrank


def random_problem(seed, n, r):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, r)), rng.standard_normal(n), rng.standard_normal(r)


def check(rows, mu, linear):
    neurons, values, bound = FlatSweep(rows).price(mu, linear, 0.0)
    truth = gauge_by_cells(rows, mu, linear)
    lipschitz = np.linalg.norm(linear) + np.abs(mu) @ np.linalg.norm(rows, axis=1)
    assert np.allclose(np.linalg.norm(neurons, axis=1), 1.0, atol=1e-12)
    assert np.allclose(values, dual_function(rows, mu, linear, neurons), rtol=0, atol=1e-13 * lipschitz)
    assert abs(abs(values[0]) - truth) <= 1e-12 * lipschitz
    assert truth <= bound * (1 + 1e-15) <= truth + 1e-11 * lipschitz
    return neurons, values


@pytest.mark.parametrize(("n", "r"), [(4, 4), (6, 4), (8, 4), (5, 5), (8, 5), (8, 6), (8, 7), (9, 8)])
@pytest.mark.parametrize("seed", range(4))
def test_random_rows_against_all_cells(n, r, seed):
    check(*random_problem(seed, n, r))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(4, 6),
    st.lists(st.lists(st.integers(-1, 1), min_size=6, max_size=6), min_size=5, max_size=8),
    st.lists(st.integers(-2, 2), min_size=8, max_size=8),
    st.lists(st.integers(-2, 2), min_size=6, max_size=6),
)
def test_degenerate_integer_rows_against_all_cells(r, rows, mu, linear):
    rows = distinct_lines(np.array(rows, dtype=float)[:, :r])
    assume(len(rows) and np.linalg.matrix_rank(rows) == r)
    check(rows, np.array(mu[: len(rows)], dtype=float), np.array(linear[:r], dtype=float))


def test_lifted_grid():
    grid = np.array([[x, y, z, 1.0] for x in (0, 1) for y in (0, 1) for z in (0, 1)])
    check(grid, np.array([3.0, -1, -2, 1, -1, 2, 1, -2]), np.zeros(4))


def test_collinear_points():
    line = np.array([[t, 2.0 * t, 0.0, 1.0] for t in (-1, 0, 1, 3)])
    rows = np.concatenate([line, [[0.0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 2, 1]]])
    check(rows, np.array([1.0, -2, 2, -1, 1, -1, 0.5]), np.zeros(4))


@pytest.mark.parametrize("shift", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("d", [3, 4])
def test_points_far_from_the_origin(d, shift):
    rng = np.random.default_rng(0)
    rows = np.column_stack([shift + rng.standard_normal((14, d)), np.ones(14)]) / shift
    mu = rng.standard_normal(14)
    mu -= rows @ np.linalg.lstsq(rows, mu, rcond=None)[0]
    _, values, bound = FlatSweep(rows).price(mu, np.zeros(d + 1), 0.0)
    lipschitz = np.abs(mu) @ np.linalg.norm(rows, axis=1)
    assert abs(values[0]) <= bound <= abs(values[0]) + 4e-12 * lipschitz


@pytest.mark.parametrize("noise", [1e-11, 1e-10, 1e-9, 1e-8, 1e-6])
def test_rows_nearly_in_special_position(noise):
    rng = np.random.default_rng(1)
    for r in (4, 5, 6):
        rows = rng.integers(-1, 2, (9, r)) + noise * rng.standard_normal((9, r))
        for mu in (rng.standard_normal(9), np.ones(9)):
            _, values, bound = FlatSweep(rows).price(mu, np.zeros(r), 0.0)
            lipschitz = np.abs(mu) @ np.linalg.norm(rows, axis=1)
            assert abs(values[0]) <= bound <= abs(values[0]) + 1e-11 * lipschitz


def local_maxima_by_faces(rows, mu, linear):
    """Project the gradient of every face on its flat; keep the points with the face's signs and no ascent."""
    n, r = rows.shape
    found = []
    for size in range(r):
        for zero in combinations(range(n), size):
            normals = rows[list(zero)]
            basis = np.linalg.svd(normals, full_matrices=True)[2][size:] if size else np.eye(r)
            others = [i for i in range(n) if i not in zero]
            for code in range(1 << len(others)):
                s = np.array([code >> p & 1 for p in range(len(others))], dtype=float)
                g = linear + (mu[others] * s) @ rows[others]
                w = basis.T @ (basis @ g)
                for sign in (1.0, -1.0):
                    if (sign * (2 * s - 1) * (rows[others] @ w) <= 0).any() or (
                        sign * mu[list(zero)] > 0
                    ).any():
                        continue
                    shares = np.linalg.lstsq(normals.T, w - g, rcond=None)[0] if size else np.zeros(0)
                    shares = shares / mu[list(zero)]
                    if (shares >= 0).all() and (shares <= 1).all():
                        found.append(np.append(sign * w / np.linalg.norm(w), sign * np.linalg.norm(w)))
    return np.array(found)


@pytest.mark.parametrize("seed", range(3))
def test_every_local_maximum_is_reported_once(seed):
    rows, mu, linear = random_problem(seed, 7, 4)
    expected = local_maxima_by_faces(rows, mu, linear)
    neurons, values, _ = FlatSweep(rows).price(mu, linear, 0.0)
    found = np.column_stack([neurons, values])
    assert found.shape == expected.shape
    distance = np.abs(found[:, None] - expected[None]).max(axis=2)
    assert (distance.min(axis=0) < 1e-9).all() and (distance.min(axis=1) < 1e-9).all()


def test_threshold_and_max_neurons():
    rows, mu, linear = random_problem(3, 9, 4)
    sweep = FlatSweep(rows)
    _, values, bound = sweep.price(mu, linear, 0.0)
    threshold = 0.5 * (abs(values[1]) + abs(values[2]))
    for wanted in ((threshold, None), (0.0, 2)):
        _, some, again = sweep.price(mu, linear, *wanted)
        assert np.allclose(some, values[:2])
        assert again == pytest.approx(bound, rel=1e-14)
    _, best, _ = sweep.price(mu, linear, 10 * bound)
    assert best == pytest.approx(values[:1])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(4, 6))
def test_invariances(seed, r):
    rng = np.random.default_rng(seed)
    rows, mu, linear = random_problem(seed, r + 4, r)
    _, values, _ = FlatSweep(rows).price(mu, linear, 0.0)
    turn = special_ortho_group.rvs(r, random_state=rng)
    order = rng.permutation(len(rows))
    scale = np.exp(rng.uniform(-5, 5, len(rows)))
    # a row may also look the other way: σ(t) = σ(−t) + t
    flip = rng.random(len(rows)) < 0.5
    turned = np.where(flip, -scale, scale)[:, None] * rows
    shifted = linear + (mu * flip) @ rows
    moved = (turned @ turn)[order]
    _, others, _ = FlatSweep(moved).price((mu / scale)[order], shifted @ turn, 0.0)
    assert np.allclose(np.sort(others), np.sort(values), atol=1e-9)


def test_threads_agree():
    rows, mu, linear = random_problem(0, 30, 4)
    one = FlatSweep(rows).price(mu, linear, 0.0, n_threads=1)
    two = FlatSweep(rows).price(mu, linear, 0.0, n_threads=2)
    assert np.allclose(one[1], two[1]) and one[2] == pytest.approx(two[2], rel=1e-13)


def test_crossings_that_are_not_kept_are_sorted_again(monkeypatch):
    rows, mu, linear = random_problem(1, 12, 4)
    kept = FlatSweep(rows)
    first = kept.price(mu, linear, 0.0)
    monkeypatch.setattr("covopt.oracles.scalar.flats.MOST_KEPT", 0)
    monkeypatch.setattr("covopt.oracles.scalar.flats.FACES_PER_CHUNK", 200)
    for sweep in (kept, FlatSweep(rows)):
        sweep.price(-mu, linear, 0.0)
        again = sweep.price(mu, linear, 0.0)
        assert np.allclose(again[0], first[0], atol=1e-12) and np.allclose(again[1], first[1], rtol=1e-13)
        assert again[2] == pytest.approx(first[2], rel=1e-14)


def test_zero_function():
    _, values, bound = FlatSweep(np.eye(5)).price(np.zeros(5), np.zeros(5), 0.0)
    assert values.tolist() == [0.0] and bound == 0.0


def test_orthant_closed_form():
    mu = np.array([3.0, -4.0, 1.0, -2.0, 2.0, -0.5])
    _, values, _ = FlatSweep(np.eye(6)).price(mu, np.zeros(6), 0.0)
    norms = np.linalg.norm(np.maximum(mu, 0)), np.linalg.norm(np.minimum(mu, 0))
    assert np.allclose([values.min(), values.max()], [-norms[1], norms[0]])


def test_counts():
    assert arc_visits(4, 4) == 24
    subsets = list(combinations(range(7), 3))
    assert all(tuple(unrank(p, 7, 3)) == subset for p, subset in enumerate(subsets))


@pytest.mark.parametrize("seed", range(4))
def test_large_grids_do_not_depend_on_the_frame(seed):
    rng = np.random.default_rng(seed)
    grid = np.array([[x, y, z, 1.0] for x in (0, 1, 2) for y in (0, 1, 2) for z in (0, 1, 2)])
    dual = rng.integers(-3, 4, 27).astype(float)
    dual -= grid @ np.linalg.lstsq(grid, dual, rcond=None)[0]  # F even: every maximum has an antipode
    _, values, bound = FlatSweep(grid).price(dual, np.zeros(4), 0.0)
    order = rng.permutation(27)
    turned = (grid @ special_ortho_group.rvs(4, random_state=rng))[order]
    _, others, _ = FlatSweep(turned).price(dual[order], np.zeros(4), 0.0)
    starts = rng.standard_normal((200, 4))
    starts /= np.linalg.norm(starts, axis=1, keepdims=True)
    heights = [climb(grid, sign * dual, np.zeros(4), starts)[1].max() for sign in (1, -1)]
    assert abs(values[0]) == pytest.approx(abs(others[0]), rel=1e-12)
    assert max(heights) == pytest.approx(abs(values[0]), rel=1e-11) and max(heights) <= bound


@pytest.mark.parametrize("r", [4, 5])
def test_rows_of_one_narrow_cluster_are_not_lost(r):
    """All circles are left out there, which once made the bound too low by factors of 1e11."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = np.ones(r) + 10.0 ** rng.uniform(-14, -10) * rng.standard_normal((r + 2, r))
        if seed % 2:
            rows[: r - 2] = -rows[0] + 10.0 ** rng.uniform(-14, -10) * rng.standard_normal((r - 2, r))
        dual = rng.standard_normal(r + 2)
        w = rng.standard_normal((500, r))
        w = (
            np.concatenate([w, rows, -rows])
            / np.linalg.norm(np.concatenate([w, rows, -rows]), axis=1)[:, None]
        )
        reached = np.abs(np.maximum(w @ rows.T, 0.0) @ dual).max()
        oracle = FaceOracle(rows)
        lipschitz = np.abs(dual) @ np.linalg.norm(rows, axis=1)
        assert reached <= oracle.bound(dual) * (1 + 1e-12)
        answer = oracle.price(dual)
        assert answer.values[0] == pytest.approx(np.maximum(answer.neurons[0] @ rows.T, 0.0) @ dual)
        assert answer.upper_bound <= abs(answer.values[0]) + 1e-9 * lipschitz
