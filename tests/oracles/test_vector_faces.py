from itertools import product

import numpy as np
import pytest
from brute import distinct_lines
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import special_ortho_group

from benchmarks.adversary import dual_norms, tables
from covopt.errors import BudgetError, UnclearRanksError
from covopt.oracles import vector_faces
from covopt.oracles.faces import FaceOracle
from covopt.oracles.vector.face_kernel import visit
from covopt.oracles.vector.face_lattice import build_lattice, count_lattice, pack, sum_maps, unpack
from covopt.oracles.vector_faces import VectorFaceOracle, count_vector_faces


def lipschitz(rows, dual):
    return float(np.linalg.norm(dual, axis=1) @ np.linalg.norm(rows, axis=1))


def gauge(rows, dual, neurons):
    return np.linalg.norm(np.maximum(neurons @ rows.T, 0.0) @ dual, axis=-1)


def random_climb(rows, dual, seed=0, n_points=3000, n_steps=200):
    """The best value of a random local search: never above h."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((n_points, rows.shape[1]))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points = points[np.argsort(-gauge(rows, dual, points))[:30]]
    values, step = gauge(rows, dual, points), np.full(30, 0.3)
    for _ in range(n_steps):
        tried = points + step[:, None] * rng.standard_normal(points.shape)
        tried /= np.linalg.norm(tried, axis=1, keepdims=True)
        reached = gauge(rows, dual, tried)
        better = reached > values
        points[better], values[better] = tried[better], reached[better]
        step *= np.where(better, 1.4, 0.85)
    return values.max()


def is_peak(rows, dual, w, seed=0, radius=1e-5):
    rng = np.random.default_rng(seed)
    near = w + radius * rng.uniform(0, 1, (2000, 1)) * rng.standard_normal((2000, len(w)))
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    return gauge(rows, dual, near).max() <= gauge(rows, dual, w) + 1e-13 * lipschitz(rows, dual)


def check(rows, dual, threshold=0.0):
    """What has to hold for any input; returns the answer."""
    answer = VectorFaceOracle(rows).price(dual, threshold=threshold)
    scale = lipschitz(rows, dual)
    assert np.allclose(np.linalg.norm(answer.neurons, axis=1), 1.0, rtol=0, atol=1e-12)
    assert np.allclose(answer.values, gauge(rows, dual, answer.neurons), rtol=0, atol=1e-13 * scale)
    assert (np.diff(answer.values) <= 0).all()
    assert answer.exact
    assert (
        answer.values[0] <= answer.upper_bound <= answer.values[0] + 1e-10 * answer.values[0] + 1e-13 * scale
    )
    # a search only comes from below, but it comes close
    climbed = random_climb(rows, dual)
    assert answer.upper_bound - 0.05 * answer.values[0] <= climbed <= answer.upper_bound
    return answer


@pytest.mark.parametrize(
    ("n", "r", "k"),
    [(7, 1, 2), (9, 2, 3), (10, 3, 2), (25, 3, 1), (9, 4, 6), (7, 5, 2), (8, 6, 3), (9, 8, 2)],
)
@pytest.mark.parametrize("seed", range(2))
def test_random_rows(n, r, k, seed):
    rng = np.random.default_rng(seed)
    rows, dual = rng.standard_normal((n, r)), rng.standard_normal((n, k))
    answer = check(rows, dual)
    assert all(is_peak(rows, dual, w) for w in answer.neurons)
    assert answer.upper_bound <= answer.values[0] * (1 + 1e-12)


def test_a_dense_angular_grid_in_the_plane():
    rng = np.random.default_rng(3)
    rows, dual = rng.standard_normal((15, 2)), rng.standard_normal((15, 4))
    angle = np.linspace(0, 2 * np.pi, 200_001)[:-1]
    values = gauge(rows, dual, np.column_stack([np.cos(angle), np.sin(angle)]))
    answer = check(rows, dual)
    assert values.max() == pytest.approx(answer.values[0], rel=1e-8)
    peaks = ((values > np.roll(values, 1)) & (values > np.roll(values, -1))).sum()
    assert len(answer.values) == peaks


@pytest.mark.parametrize(("n", "r"), [(6, 1), (12, 2), (14, 3)])
def test_one_output_is_the_scalar_oracle(n, r):
    rng = np.random.default_rng(n)
    rows, dual = rng.standard_normal((n, r)), rng.standard_normal(n)
    scalar = FaceOracle(rows).price(dual, complete=True)
    vector = VectorFaceOracle(rows).price(dual[:, None])
    assert vector.values[0] == pytest.approx(abs(scalar.values[0]), rel=1e-12)
    assert vector.upper_bound == pytest.approx(scalar.upper_bound, rel=1e-9)
    # the scalar oracle leaves rays unfiltered where it costs nothing
    assert all(np.abs(np.abs(scalar.values) - value).min() < 1e-9 for value in vector.values)
    if r > 2:
        assert len(vector.values) == (np.abs(scalar.values) > 1e-9).sum()


@pytest.mark.parametrize("r", [2, 3, 4])
def test_special_positions(r):
    grid = np.array([c for c in product((-1.0, 0.0, 1.0), repeat=r) if any(c)])
    rng = np.random.default_rng(r)
    check(grid, rng.integers(-2, 3, (len(grid), 2)).astype(float))  # every line twice
    lifted = np.array([(*c, 1.0) for c in product((0.0, 1.0, 2.0), repeat=r - 1)])
    check(lifted, rng.integers(-2, 3, (len(lifted), 3)).astype(float))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 5),
    st.lists(st.lists(st.integers(-1, 1), min_size=5, max_size=5), min_size=5, max_size=8),
    st.lists(st.lists(st.integers(-2, 2), min_size=2, max_size=2), min_size=8, max_size=8),
)
def test_integer_rows_and_duals(r, rows, dual):
    rows = distinct_lines(np.array(rows, dtype=float)[:, :r])
    dual = np.array(dual[: len(rows)], dtype=float)
    assume(len(rows) and np.linalg.matrix_rank(rows) == r and dual.any())
    check(rows, dual)


def test_ties_of_top_eigenvalues():
    for n in (2, 3, 5):
        answer = check(np.eye(n), np.eye(n))
        assert answer.values[0] == pytest.approx(1.0, abs=1e-14)
    # ‖(w₊, (−w)₊)‖ is constant: every point is a maximiser
    rows = np.concatenate([np.eye(3), -np.eye(3)])
    assert check(rows, np.eye(6)).values[0] == pytest.approx(1.0, abs=1e-14)


def test_ties_are_settled_without_trusting_an_eigenvector():
    # nearly equal eigenvalues in a cell whose top eigenvector is meaningless
    rng = np.random.default_rng(0)
    for size in (1e-16, 1e-15, 1e-14, 1e-13, 1e-12, 1e-9):
        for r in (2, 3, 4):
            rows = special_ortho_group.rvs(r, random_state=rng)
            check(rows, np.eye(r) + size * rng.standard_normal((r, r)))


def test_rank_one_repeated_and_zero_duals():
    rng = np.random.default_rng(1)
    rows, column = rng.standard_normal((9, 3)), rng.standard_normal(9)
    best = np.abs(FaceOracle(rows).price(column).values[0])
    twice = check(rows, np.stack([column, column], axis=1))
    assert twice.values[0] == pytest.approx(np.sqrt(2.0) * best, rel=1e-12)
    turned = check(rows, np.outer(column, [0.6, 0.0, -0.8]))
    assert turned.values[0] == pytest.approx(best, rel=1e-12)
    nothing = VectorFaceOracle(rows).price(np.zeros((9, 2)))
    assert nothing.values[0] == 0.0 == nothing.upper_bound
    few = np.zeros((9, 2))
    few[4] = 3.0, 4.0
    assert check(rows, few).values[0] == pytest.approx(5.0 * np.linalg.norm(rows[4]), rel=1e-12)


def test_opposite_and_repeated_rows_and_rows_of_very_different_length():
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((6, 3))
    rows = np.concatenate([rows, -0.5 * rows[:4], 3.0 * rows[2:]])
    check(rows, rng.standard_normal((len(rows), 2)))
    rows *= 10.0 ** rng.uniform(-5, 5, (len(rows), 1))
    check(rows, rng.standard_normal((len(rows), 2)))


@pytest.mark.parametrize("noise", [1e-14, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-6])
def test_rows_nearly_in_special_position(noise):
    rng = np.random.default_rng(1)
    for r in (3, 4, 5):
        rows = rng.integers(-1, 2, (9, r)) + noise * rng.standard_normal((9, r))
        dual = rng.standard_normal((9, 2))
        answer = VectorFaceOracle(rows).price(dual)
        assert answer.values[0] <= answer.upper_bound <= answer.values[0] + 1e-7 * lipschitz(rows, dual)
        assert random_climb(rows, dual) <= answer.upper_bound


@pytest.mark.parametrize("shift", [1e2, 1e4, 1e6])
def test_points_far_from_the_origin(shift):
    rng = np.random.default_rng(0)
    rows = np.column_stack([shift + rng.standard_normal((12, 3)), np.ones(12)]) / shift
    dual = rng.standard_normal((12, 2))
    dual -= rows @ np.linalg.lstsq(rows, dual, rcond=None)[0]
    answer = VectorFaceOracle(rows).price(dual)
    assert answer.values[0] <= answer.upper_bound <= answer.values[0] + 1e-12 * lipschitz(rows, dual)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(2, 3))
def test_invariances(seed, r, k):
    rng = np.random.default_rng(seed)
    rows, dual = rng.standard_normal((8, r)), rng.standard_normal((8, k))
    answer = VectorFaceOracle(rows).price(dual)
    turn, mix = special_ortho_group.rvs(r, random_state=rng), special_ortho_group.rvs(k, random_state=rng)
    order = rng.permutation(8)
    other = VectorFaceOracle(4.0 * (rows @ turn)[order]).price(0.5 * (dual @ mix)[order])
    assert other.upper_bound == pytest.approx(2.0 * answer.upper_bound, rel=1e-12)
    assert len(other.values) == len(answer.values)
    assert np.allclose(other.values, 2.0 * answer.values, rtol=1e-10)
    assert np.allclose(other.neurons[0], answer.neurons[0] @ turn, atol=1e-7)


def test_threshold_and_max_neurons_never_lose_the_best():
    rng = np.random.default_rng(5)
    rows, dual = rng.standard_normal((20, 3)), rng.standard_normal((20, 2))
    oracle = VectorFaceOracle(rows)
    everything = oracle.price(dual)
    for threshold in (0.5 * everything.values[0], everything.values[0], 10 * everything.values[0], np.inf):
        part = VectorFaceOracle(rows).price(dual, threshold=threshold)
        expected = max(1, int((everything.values >= threshold).sum()))
        assert abs(len(part.values) - expected) <= (threshold == everything.values[0])
        assert part.values[0] == pytest.approx(everything.values[0], rel=1e-12)
        assert part.upper_bound == pytest.approx(everything.upper_bound, rel=1e-12)
    assert len(oracle.price(dual, max_neurons=2).values) == 2
    assert np.array_equal(oracle.price(dual, complete=True).values, oracle.price(dual).values)


@pytest.mark.parametrize(
    ("rows", "n_cells"),
    [
        ([c for c in product((0.0, 1.0), repeat=3) if any(c)], 32),
        ([c for c in product((0.0, 1.0), repeat=4) if any(c)], 370),
        ([(1.0, *c) for c in product((0.0, 1.0), repeat=3)], 104),
        ([(1.0, *c) for c in product((0.0, 1.0), repeat=4)], 1882),
        ([(1.0, *(s * e)) for e in np.eye(3) for s in (1, -1)], 2 * 3**3 - 2**3),
    ],
)
def test_known_numbers_of_cells(rows, n_cells):
    lattice = build_lattice(np.array(rows))
    assert len(lattice.cells) == n_cells
    assert lattice.slack.max() < 1e-14


def test_counts_in_general_position():
    rng = np.random.default_rng(0)
    for n, r in [(3, 1), (7, 2), (11, 3), (9, 4), (8, 6)]:
        lattice = build_lattice(rng.standard_normal((n if r > 1 else 1, r)))
        assert sum(len(level.flat) for level in lattice.levels) == count_lattice(n if r > 1 else 1, r)
        assert len(lattice.levels) == r
    assert count_vector_faces(6, 3) > count_lattice(6, 3) == 122
    assert count_lattice(5, 5) == 3**5 - 1
    assert count_lattice(3000, 1500) == count_vector_faces(3000, 1500) == np.inf


def test_faces_are_what_they_claim():
    rng = np.random.default_rng(4)
    rows = np.concatenate([rng.integers(-1, 2, (6, 4)).astype(float), np.eye(4)])
    rows = distinct_lines(rows)
    lattice = build_lattice(rows)
    for level, above in zip(lattice.levels[:-1], lattice.levels[1:], strict=True):
        vanishing = unpack(level.members, len(rows))
        height = np.abs(np.einsum("nr,frd->fnd", rows, level.bases)).max(axis=2)
        assert (height[vanishing] < 1e-13).all()
        assert (height[~vanishing] > 1e-3).all()
        # a face's parent has the same cell and lies in a flat with fewer rows
        assert np.array_equal(level.cell, above.cell[level.parent])
        outer = unpack(above.members, len(rows))[above.flat[level.parent]]
        assert (outer <= vanishing[level.flat]).all()


def test_packing_round_trip():
    flags = np.random.default_rng(0).random((5, 131)) < 0.5
    assert pack(flags).shape == (5, 3)
    assert np.array_equal(unpack(pack(flags), 131), flags)


@pytest.mark.parametrize(("n", "r", "k"), [(8, 2, 1), (9, 3, 2), (8, 4, 3), (8, 4, 6), (7, 5, 2)])
def test_kernels_against_numpy(n, r, k):
    rng = np.random.default_rng(n * r + k)
    rows, dual = rng.standard_normal((n, r)), rng.standard_normal((n, k))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    lattice = build_lattice(rows)
    steps = (dual[:, :, None] * rows[:, None, :]).reshape(n, k * r)
    linear = rng.standard_normal(k * r)
    maps = sum_maps(lattice.cells, steps, linear)
    assert np.allclose(maps, linear + unpack(lattice.cells, n) @ steps, rtol=0, atol=1e-13)
    maps = maps.reshape(-1, k, r)
    for level in lattice.levels:
        m, d = len(level.flat), level.bases.shape[2]
        tops = np.full(m, np.inf)
        face, neuron = np.empty(m, dtype=np.int64), np.empty((m, r))
        first, second, error, outside, margin = (np.empty(m) for _ in range(5))
        slips = np.full(len(level.bases), 4e-15)
        count = visit(
            np.arange(m), level.flat, level.cell, lattice.cells, maps, level.bases, level.members,
            slips, rows, tops, 0.0, 1e-15, 1.0, 1e-14,
            face, neuron, first, second, error, outside, margin,
        )  # fmt: skip
        images = maps[level.cell] @ level.bases[level.flat]
        singular, right = np.linalg.svd(images)[1:]
        assert np.allclose(tops, singular[:, 0] ** 2, rtol=1e-12)
        signs = 2.0 * unpack(lattice.cells[level.cell], n) - 1.0
        signed = signs * (np.einsum("frd,fd->fr", level.bases[level.flat], right[:, 0]) @ rows.T)
        signed[unpack(level.members[level.flat], n)] = np.nan
        most = np.fmax(np.nanmin(signed, axis=1), -np.nanmax(signed, axis=1))
        expected = np.flatnonzero(most >= 0.0) if d > 1 else np.arange(m)
        assert np.array_equal(face[:count], expected)
        if d > 1:
            assert np.allclose(margin[:count], most[expected], rtol=0, atol=1e-10)
            assert not outside[:count].any()
        if min(k, d) > 1:
            assert np.allclose(second[:count], singular[expected, 1] ** 2, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("noise", [0.0, 1e-14, 1e-12])
def test_grids_and_nearly_special_rows_hold(noise):
    rng = np.random.default_rng(0)
    grid = np.array([(1.0, x, y) for x in range(5) for y in range(5)])
    rows, dual = grid + noise * rng.standard_normal(grid.shape), rng.integers(-2, 3, (25, 2)).astype(float)
    answer = VectorFaceOracle(rows).price(dual, threshold=np.inf)
    assert random_climb(rows, dual) <= answer.upper_bound <= answer.values[0] + 1e-6 * lipschitz(rows, dual)


def test_the_last_faces_serve_rows_in_the_same_directions_only(monkeypatch):
    rng, built = np.random.default_rng(3), []
    monkeypatch.setattr(vector_faces, "build_lattice", lambda rows: built.append(1) or build_lattice(rows))
    rows, dual = rng.standard_normal((9, 4)), rng.standard_normal((9, 2))
    first, again = VectorFaceOracle(rows), VectorFaceOracle(rows / 3.0)
    assert len(built) == 1 and again.proved
    assert again.price(3.0 * dual).upper_bound == pytest.approx(first.price(dual).upper_bound, rel=1e-12)
    for other in (rows + 1e-9, rows[::-1]):
        before = len(built)
        VectorFaceOracle(other)
        assert len(built) == before + 1


def test_a_dual_that_cancels_leaves_the_zero_function():
    oracle = VectorFaceOracle(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]))
    for threshold in (0.0, np.inf):
        answer = oracle.price(np.array([[2.0, 0.0], [-1.0, 0.0], [0.0, 0.0]]), threshold=threshold)
        assert answer.values.tolist() == [0.0]
        assert answer.upper_bound < 1e-12


def test_many_rows():
    rng = np.random.default_rng(0)
    rows, dual = rng.standard_normal((150, 3)), rng.standard_normal((150, 3))
    oracle = VectorFaceOracle(rows)
    answer = oracle.price(dual)
    assert all(is_peak(rows, dual, w) for w in answer.neurons)
    assert random_climb(rows, dual) <= answer.upper_bound <= answer.values[0] * (1 + 1e-12)
    column = oracle.price(dual[:, :1])
    scalar = FaceOracle(rows).price(dual[:, 0], complete=True)
    assert column.values[0] == pytest.approx(abs(scalar.values[0]), rel=1e-12)
    assert len(column.values) == len(scalar.values)


def test_ranks_that_rounding_hides_are_no_traceback():
    # ten to twelve rows of few directions, moved a little: no tolerance tells parts that vanish from others
    rng = np.random.default_rng(151)
    rows = dual_norms.narrow(rng, 12)
    with pytest.raises(UnclearRanksError):
        build_lattice(rows)
    with pytest.raises(BudgetError, match="ranks"):
        VectorFaceOracle(rows)
    rng = np.random.default_rng(83)
    rows = tables.near_rays(rng, 10, 4)[0] + 10.0 ** rng.uniform(-12, -5) * rng.standard_normal((10, 4))
    with pytest.raises(BudgetError, match="ranks"):
        VectorFaceOracle(rows)
