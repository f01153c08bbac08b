"""The exact oracle against brute force over all faces, and the compiled walk against a plain one."""

import numpy as np
import pytest

from covopt.errors import BudgetError
from covopt.exact.parallel_rows import merge_lines
from covopt.oracles.base import Oracle
from covopt.oracles.faces import FaceOracle, count_faces
from covopt.oracles.scalar.plane import price_plane
from covopt.oracles.scalar.sphere import SphereSweep, circle_frames

EPS = np.finfo(float).eps


def activations(rows, dual, neurons):
    return np.maximum(neurons @ rows.T, 0.0) @ dual


def faces_by_projection(rows: np.ndarray, dual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Candidates of every face in up to three dimensions, evaluated: no shortcut, no sign test.

    Vertices are cross products; the gradient of every cell that shows up around a vertex is projected on
    every span. Each value belongs to a point of the sphere, so none exceeds h, and one attains it.
    """
    n, rank = rows.shape
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    if rank == 1:
        vertices = np.array([[1.0], [-1.0]])
    elif rank == 2:
        vertices = np.column_stack([-units[:, 1], units[:, 0]])
    else:
        i, j = np.triu_indices(n, 1)
        vertices = np.cross(units[i], units[j])
        lengths = np.linalg.norm(vertices, axis=1)
        vertices = vertices[lengths > 0] / lengths[lengths > 0, None]
    vertices = np.concatenate([vertices, -vertices])
    rng = np.random.default_rng(0)
    nearby = [
        vertices + scale * rng.standard_normal(vertices.shape)
        for scale in (1e-1, 1e-3, 1e-6, 1e-9, 1e-12)
        for _ in range(6)
    ]
    seen = np.concatenate([*nearby, rng.standard_normal((2000, rank))]) @ units.T > 0
    codes = np.unique(seen @ (1 << np.arange(n)))  # as numbers: unique rows are found much more slowly
    patterns = codes[:, None] >> np.arange(n) & 1 > 0
    gradients = (patterns * dual) @ rows
    groups = [vertices, gradients, *(gradients - np.outer(gradients @ u, u) for u in units if rank > 1)]
    neurons = np.concatenate(groups)
    lengths = np.linalg.norm(neurons, axis=1)
    neurons = neurons[lengths > 0] / lengths[lengths > 0, None]
    neurons = np.concatenate([neurons, -neurons])
    return neurons, activations(rows, dual, neurons)


def plain_walk(rows: np.ndarray, mu: np.ndarray, linear: np.ndarray) -> float:
    """The sphere's maximum, circle by circle, as :mod:`covopt.oracles.scalar.sphere` tells it, without its tricks.

    Every arc's pattern is read off at its middle instead of carried along; every cell beside it is
    tested on all rows.
    """
    best = 0.0
    norms = np.linalg.norm(rows, axis=1)
    first, second = circle_frames(rows / norms[:, None])
    for i in range(len(rows)):
        frame = np.array([first[i], second[i]])
        flat = np.delete(rows, i, axis=0) @ frame.T
        angle = np.arctan2(-flat[:, 0], flat[:, 1])
        angle = np.sort(np.concatenate([angle, angle + np.pi]) % (2 * np.pi))
        for low, high in zip(angle, [*angle[1:], angle[0] + 2 * np.pi], strict=True):
            ends = np.array([[np.cos(low), np.sin(low)], [np.cos(high), np.sin(high)]]) @ frame
            middle = np.array([np.cos((low + high) / 2), np.sin((low + high) / 2)]) @ frame
            active = rows @ middle > 0
            active[i] = False
            gradient = linear + (mu * active) @ rows
            values = np.abs(ends @ gradient)
            best = max(best, *values)
            along = frame.T @ (frame @ gradient)
            for sign in (1.0, -1.0):
                # inside the arc: between its ends, which are less than half a circle apart
                left = np.cross(ends[0], sign * along) @ np.cross(first[i], second[i])
                right = np.cross(sign * along, ends[1]) @ np.cross(first[i], second[i])
                if left >= 0 and right >= 0:
                    best = max(best, np.linalg.norm(along))
            if high - low < 1e-12:
                continue
            for own in (0.0, 1.0):
                inner = gradient + own * mu[i] * rows[i]
                for sign in (1.0, -1.0):
                    signs = np.where(active, 1.0, -1.0)
                    signs[i] = 1.0 if own else -1.0
                    if (signs * (rows @ inner) * sign >= -1e-13 * norms * np.linalg.norm(inner)).all():
                        best = max(best, np.linalg.norm(inner))
    return float(best)


def generic(rng, rank, n):
    return rng.standard_normal((n, rank))


def grid(rng, rank, n):
    rows = rng.integers(-2, 3, (n, rank)).astype(float)
    return np.unique(rows[rows.any(axis=1)], axis=0)


def grid_with_bias(rng, rank, n):
    return np.unique(np.column_stack([rng.integers(0, 4, (n, rank - 1)), np.ones(n)]), axis=0)


def antiparallel(rng, rank, n):
    rows = rng.standard_normal((n, rank))
    return np.concatenate([rows, -rows * rng.uniform(0.1, 3, (n, 1))])


def years_and_incomes(rng, rank, n):
    columns = [rng.integers(1990, 2024, n), np.round(rng.lognormal(10, 1, n))][: rank - 1]
    return np.column_stack([*columns, np.ones(n)]).astype(float)


def cancelling_duals(rng, rows):
    """X̃ᵀλ = 0, as noise has it at the optimum: w and −w are worth the same."""
    rank = rows.shape[1]
    if len(rows) <= rank:
        return rng.standard_normal(len(rows))
    return np.linalg.svd(rows)[0][:, rank:] @ rng.standard_normal(len(rows) - rank)


@pytest.mark.parametrize("make_rows", [generic, grid, grid_with_bias, antiparallel, years_and_incomes])
def test_the_compiled_walk_is_the_plain_one(make_rows):
    for seed in range(4):
        rng = np.random.default_rng(100 + seed)
        rows, _, _ = merge_lines(make_rows(rng, 3, 8))
        scaled = rows / np.abs(rows).max(axis=0).clip(1e-300)
        if len(rows) < 3 or np.linalg.matrix_rank(scaled) < 3:
            continue
        rows = rows / np.linalg.norm(rows, axis=1).max()
        mu, linear = rng.standard_normal(len(rows)), rng.standard_normal(3)
        sweep = SphereSweep(rows)
        _, values, bound = sweep.price(mu, linear, 0.0, n_threads=1)
        expected = plain_walk(rows, mu, linear)
        assert bound == pytest.approx(expected, rel=1e-9)
        assert sweep.price(mu, linear, np.inf, n_threads=1)[2] == pytest.approx(expected, rel=1e-9)
        assert np.abs(values).max() == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
@pytest.mark.thinned(3)
@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-4])
def test_screening_of_narrow_bundles_leaves_no_face_out(spread):
    """Circles that cross at small angles: a row's height over its slope is large there."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        rows = np.repeat(rng.standard_normal((6, 3)), 5, axis=0) + spread * rng.standard_normal((30, 3))
        mu, linear = rng.standard_normal(30), rng.standard_normal(3)
        mu[::7] = 0.0
        _, values, bound = SphereSweep(rows).price(mu, linear, 0.0, n_threads=1)
        expected = plain_walk(rows, mu, linear)
        assert bound == pytest.approx(expected, rel=1e-9)
        assert np.abs(values).max() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("linear", [np.zeros(2), np.array([0.3, -2.0])])
def test_the_plane_is_a_fine_scan_of_the_circle(linear):
    angle = np.linspace(0, 2 * np.pi, 200_001)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rows, mu = rng.standard_normal((6, 2)), rng.standard_normal(6)
        scan = np.abs(circle @ linear + np.maximum(circle @ rows.T, 0) @ mu).max()
        _, values, bound = price_plane(rows, mu, linear, 0.0)
        slope = np.linalg.norm(linear) + np.abs(mu) @ np.linalg.norm(rows, axis=1)
        assert scan <= bound <= scan + 2 * np.pi / 200_000 * slope
        assert np.abs(values).max() == pytest.approx(bound, rel=1e-12)


def sphere_maxima(rows, dual):
    """Candidates of all faces around which |F| does not ascend, in any of many directions."""
    candidates, values = faces_by_projection(rows, dual)
    candidates = np.unique(np.round(candidates[np.abs(values) > 1e-6], 11), axis=0)
    angle = np.linspace(0, 2 * np.pi, 2000, endpoint=False)
    peaks = []
    for w in candidates:
        height = abs(activations(rows, dual, w[None])[0])
        across = np.linalg.svd(w[None])[2][1:]
        around = w + 1e-5 * np.column_stack([np.cos(angle), np.sin(angle)]) @ across
        around /= np.linalg.norm(around, axis=1, keepdims=True)
        if np.abs(activations(rows, dual, around)).max() <= height * (1 + 1e-13):
            peaks.append(w)
    return np.array(peaks)


@pytest.mark.parametrize("make_rows", [generic, grid_with_bias, antiparallel])
def test_complete_returns_every_local_maximum_of_the_sphere(make_rows):
    rng = np.random.default_rng(1)
    rows = make_rows(rng, 3, 6)
    dual = rng.standard_normal(len(rows))
    found = FaceOracle(rows).price(dual, threshold=0.0, complete=True)
    peaks = sphere_maxima(rows, dual)
    assert len(peaks) >= 2
    for w in peaks:
        assert np.abs(found.neurons - w).max(axis=1).min() < 1e-8


def test_a_maximum_on_an_arc_that_falls_on_its_end():
    rows = np.array([[-1.0, 0, 1], [-1, 1, 1], [0, -1, 1], [0, 0, 1], [1, 1, 1]]) / np.sqrt(3)
    # the peak (1, 1, 0)/√2 of the circle w₃ = 0 lies on the circle of row 1 as well
    dual = np.array([1.82114761, -1.1331169, 0.62834214, -2.54111771, 1.22474487])
    found = FaceOracle(rows).price(dual, complete=True)
    expected = np.array([1.0, 1.0, 0.0]) / np.sqrt(2)
    assert np.abs(found.neurons - expected).max(axis=1).min() < 1e-9


def test_complete_is_not_cut_at_a_few_per_circle():
    rng = np.random.default_rng(5)
    rows = np.column_stack([rng.standard_normal((60, 2)), np.ones(60)])
    dual = cancelling_duals(rng, rows)
    oracle = FaceOracle(rows)
    few, every = oracle.price(dual), oracle.price(dual, complete=True)
    assert len(every.neurons) >= len(few.neurons)
    for w in few.neurons:
        assert np.abs(every.neurons - w).max(axis=1).min() < 1e-9
    # cancelling duals: F(w) = F(−w), so peaks come in pairs
    for w in every.neurons[np.abs(every.values) > 0.5 * abs(every.values[0])]:
        assert np.abs(every.neurons + w).max(axis=1).min() < 1e-7


@pytest.mark.parametrize("make_rows", [generic, years_and_incomes])
def test_one_thread_and_two_agree_to_the_bit(make_rows):
    rng = np.random.default_rng(0)
    rows = make_rows(rng, 3, 260)  # large enough for threads
    dual = rng.standard_normal(260)
    one = FaceOracle(rows, n_threads=1).price(dual)
    two = FaceOracle(rows, n_threads=2).price(dual)
    np.testing.assert_array_equal(one.neurons, two.neurons)
    np.testing.assert_array_equal(one.values, two.values)
    assert one.upper_bound == two.upper_bound


def test_rows_a_few_ulps_apart_keep_the_bound_valid():
    # merged into one line, their multipliers cancel; the rows do not
    for ulps in (1, 2, 3, 8, 64):
        rows = np.array([[1.0, 1.0], [1.0 + ulps * EPS, 1.0]])
        dual = np.array([-1.0, 1.0]) / EPS
        neuron = np.array([1.0, -1.0]) / np.sqrt(2)  # silent on the first row
        assert FaceOracle(rows).price(dual).upper_bound >= activations(rows, dual, neuron[None])[0] > 0


def test_budget_is_refused_before_anything_is_computed():
    rows = np.random.default_rng(0).standard_normal((50, 3))
    faces = count_faces(50, 3)
    assert faces >= 2 * 49 * 50  # the arcs alone
    with pytest.raises(BudgetError, match="50 rows in dimension 3"):
        FaceOracle(rows, budget=faces - 1)
    oracle: Oracle = FaceOracle(rows, budget=faces)
    assert oracle.price(np.ones(50)).exact


@pytest.mark.parametrize("n_columns", [3])
@pytest.mark.parametrize("n_lines", [1, 2])
def test_fewer_lines_than_columns_are_looked_at_in_their_span(n_columns, n_lines):
    rng = np.random.default_rng(10 * n_columns + n_lines)
    lines = rng.standard_normal((n_lines, n_columns))
    rows = np.concatenate([lines, 2.0 * lines, -0.5 * lines, lines[:1], 3.0 * lines])
    span = np.linalg.qr(lines.T)[0]
    small = FaceOracle(rows @ span) if n_lines > 1 else None
    oracle = FaceOracle(rows)
    for _ in range(5):
        dual = rng.standard_normal(len(rows))
        found = oracle.price(dual)
        np.testing.assert_allclose(np.linalg.norm(found.neurons, axis=1), 1.0, rtol=1e-12)
        w = rng.standard_normal((2000, n_columns))
        w /= np.linalg.norm(w, axis=1, keepdims=True)
        assert np.abs(np.maximum(w @ rows.T, 0.0) @ dual).max() <= found.upper_bound
        assert found.upper_bound == pytest.approx(np.abs(found.values).max(), rel=1e-9)
        assert oracle.bound(dual) == pytest.approx(found.upper_bound, rel=1e-9)
        if small is not None:
            assert found.upper_bound == pytest.approx(small.price(dual).upper_bound, rel=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_arcs_of_half_a_circle_are_not_empty(seed):
    """All crossings of a circle in one point, to rounding: the two arcs between are as long as an arc can be."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 6))
    rows = rng.standard_normal((n, 3))
    rows[:, 1] *= 10.0 ** rng.uniform(-19, -14)
    if seed % 2:
        rows[0] = [0.0, 1.0, 0.0]
    dual = rng.standard_normal(n)
    w = rng.standard_normal((4000, 3))
    w[:2000, 1] = 0.0  # the short column counts for nothing: the plane of the others
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    assert np.abs(np.maximum(w @ rows.T, 0.0) @ dual).max() <= FaceOracle(rows).price(dual).upper_bound
