"""The gauge with several outputs by pairs of boxes: valid whatever the table, sharp where the faces are exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from covopt.oracles.cones.vector_gauge import vector_box_gauge
from covopt.oracles.cones.vector_kernel import bound_pair
from covopt.oracles.cones.vector_search import classify
from covopt.oracles.vector_faces import VectorFaceOracle


def exact_value_squared(rows: np.ndarray, dual: np.ndarray, neuron: np.ndarray) -> tuple[Fraction, Fraction]:
    """‖Λᵀσ(X̃w)‖² and ‖w‖² in rational arithmetic."""
    w = [Fraction(float(a)) for a in neuron]
    total = [Fraction(0)] * dual.shape[1]
    for row, weights in zip(rows.tolist(), dual.tolist(), strict=True):
        height = sum((Fraction(a) * b for a, b in zip(row, w, strict=True)), Fraction(0))
        if height > 0:
            total = [s + Fraction(c) * height for s, c in zip(total, weights, strict=True)]
    return sum((a * a for a in total), Fraction(0)), sum((a * a for a in w), Fraction(0))


def bound_and_excess(rows, dual, bound, chart, v0, tau, w0, eta, generator):
    """The kernel's number for a pair, and the largest vᵀa(w) − H‖v‖‖w‖ among samples of the pair, in NumPy."""
    (n, r), k = rows.shape, dual.shape[1]
    undecided, theta, kind = np.arange(n), np.full(n, 0.5), np.zeros(n, dtype=np.int64)
    c, rho, m, half = (np.zeros(n) for _ in range(4))
    decided = np.zeros((k, r))
    count = classify(rows, dual, v0, tau, w0, eta, decided, undecided, n, kind, c, rho, m, half, theta)
    value = bound_pair(
        rows, dual, bound, chart, v0, tau, w0, eta, decided, undecided, count, kind, c, rho, m, half, theta,
        np.zeros((k, r)), np.zeros((k, r)), np.zeros(k), np.zeros(r), np.zeros(k), np.zeros(k), np.zeros(r),
        np.zeros((k, k)),
    )  # fmt: skip
    signs = generator.uniform(-1, 1, (400, k + r))
    signs[:200] = np.sign(signs[:200])  # corners, too
    v, w = v0 + signs[:, :k] * tau, w0 + signs[:, k:] * eta
    heights = np.einsum("sk,sk->s", v, np.maximum(w @ rows.T, 0.0) @ dual)
    return value, float((heights - bound * np.linalg.norm(v, axis=1) * np.linalg.norm(w, axis=1)).max())


@pytest.mark.parametrize("seed", range(40))
def test_no_point_of_a_pair_exceeds_its_bound(seed):
    generator = np.random.default_rng(seed)
    n, r, k = generator.integers(2, 9), generator.integers(1, 5), generator.integers(1, 4)
    rows, dual = generator.standard_normal((n, r)), generator.standard_normal((n, k))
    chart = np.array([generator.integers(k), generator.choice([-1.0, 1.0]), generator.integers(r), 1.0])
    size = 2.0 ** -generator.integers(0, 6)
    tau, eta = np.full(k, size), np.full(r, 2.0 ** -generator.integers(0, 6))
    v0, w0 = generator.uniform(-1, 1, k) * (1 - tau), generator.uniform(-1, 1, r) * (1 - eta)
    tau[int(chart[0])] = eta[int(chart[2])] = 0.0
    v0[int(chart[0])], w0[int(chart[2])] = chart[1], chart[3]
    for bound in (0.3, 1.0, 3.0):
        value, excess = bound_and_excess(rows, dual, bound, chart, v0, tau, w0, eta, generator)
        assert excess <= max(value, 0.0) + 1e-12 * n


@pytest.mark.parametrize("seed", range(12))
def test_agrees_with_the_faces(seed):
    generator = np.random.default_rng(seed)
    n, d, k = generator.integers(3, 12), generator.integers(2, 4), generator.integers(2, 4)
    rows = generator.standard_normal((n, d))
    if seed % 3 == 0:
        rows = generator.integers(-2, 3, (n, d)).astype(float)
        rows = rows[rows.any(axis=1)]
    dual = generator.standard_normal((len(rows), k))
    found = vector_box_gauge(rows, dual)
    assert found.closed
    rank = np.linalg.matrix_rank(rows)
    if rank == rows.shape[1]:
        exact = VectorFaceOracle(rows).price(dual, threshold=np.inf).upper_bound
        assert found.upper_bound == pytest.approx(exact, rel=3e-9)
        assert found.value == pytest.approx(exact, rel=1e-9)


def nasty_tables():
    generator = np.random.default_rng(3)
    points = generator.standard_normal((7, 2))
    ones = np.ones((7, 1))
    line = np.arange(7.0)[:, None] * np.ones((1, 2))
    line[3, 1] += 1.5e-12
    yield "far", np.hstack([points + 1e8, ones])
    yield "cluster", np.hstack([1.0 + 1e-9 * points, ones])
    yield "units", np.hstack([points * [1e7, 1e-7], ones])
    yield "tiny bias", np.hstack([points, 1e-7 * ones])
    yield "line", np.hstack([line, ones])
    yield "huge", np.hstack([points * 1e250, ones])
    yield "tiny", np.hstack([points, ones]) * 1e-250


@pytest.mark.parametrize(("name", "rows"), [pytest.param(*each, id=each[0]) for each in nasty_tables()])
@pytest.mark.parametrize("centred", [False, True])
def test_no_neuron_exceeds_the_bound_on_a_nasty_table(name, rows, centred):
    generator = np.random.default_rng(len(name))
    dual = generator.standard_normal((len(rows), 2))
    if centred:
        dual -= dual.mean(axis=0)
    found = vector_box_gauge(rows, dual, max_nodes=50_000)
    starts = [found.neuron, *generator.standard_normal((20, rows.shape[1]))]
    units = rows / np.abs(rows).max(axis=1, keepdims=True)
    starts += [np.cross(units[i], units[j]) for i in range(4) for j in range(i)]
    for neuron in starts:
        size = np.abs(neuron).max()
        if 0 < size < np.inf:
            square, length = exact_value_squared(rows, dual, neuron / size)
            assert square <= Fraction(found.upper_bound) ** 2 * length


def test_few_nodes_leave_a_valid_bound():
    generator = np.random.default_rng(0)
    rows, dual = generator.standard_normal((12, 3)), generator.standard_normal((12, 3))
    bounds = [vector_box_gauge(rows, dual, max_nodes=limit).upper_bound for limit in (0, 300, 100_000)]
    assert bounds[0] == pytest.approx(float(np.linalg.norm(dual, axis=1) @ np.linalg.norm(rows, axis=1)))
    assert bounds[0] > bounds[1] > bounds[2] >= vector_box_gauge(rows, dual).value


def test_scales_and_rotations_change_nothing():
    generator = np.random.default_rng(1)
    rows, dual = generator.standard_normal((9, 3)), generator.standard_normal((9, 2))
    turn = np.linalg.qr(generator.standard_normal((3, 3)))[0]
    turn_outputs = np.linalg.qr(generator.standard_normal((2, 2)))[0]
    expected = vector_box_gauge(rows, dual).upper_bound
    scales = 10.0 ** generator.uniform(-9, 9, 9)
    assert vector_box_gauge(rows @ turn, dual @ turn_outputs).upper_bound == pytest.approx(expected, rel=3e-9)
    assert vector_box_gauge(rows * scales[:, None], dual / scales[:, None]).upper_bound == pytest.approx(
        expected, rel=3e-9
    )
    assert vector_box_gauge(rows, 2.0**600 * dual).upper_bound == pytest.approx(
        2.0**600 * expected, rel=1e-12
    )


def test_nothing_to_bound():
    assert vector_box_gauge(np.zeros((2, 2)), np.ones((2, 2))).upper_bound == 0.0
    assert vector_box_gauge(np.eye(2), np.zeros((2, 3))).upper_bound == 0.0
