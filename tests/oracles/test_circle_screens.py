"""Screening of arcs and cells against eigenvectors by NumPy: nothing that may hold a maximum is passed by."""

from __future__ import annotations

import numpy as np
import pytest

from covopt.oracles.scalar.sphere import circle_frames, sort_crossings
from covopt.oracles.scalar.sphere_walk import find_leans
from covopt.oracles.vector.circle_screens import add_heights, screen_cells, screen_edges, screen_forms

BLUR = 1e-12


def _continued(values: np.ndarray) -> np.ndarray:
    return np.concatenate([-values[-2:], values, -values[:3]])


def _circles(rows: np.ndarray, mu: np.ndarray):
    """Every half circle: its frame, crossings, and the maps on its arcs with the circle's own row silent."""
    norms = np.linalg.norm(rows, axis=1)
    first, second = circle_frames(rows / norms[:, None])
    order, cosine, sine, after = sort_crossings(rows, first, second)
    lean, tied = np.empty(cosine.shape), np.empty(len(rows), dtype=bool)
    find_leans(rows, norms, first, second, order, cosine, sine, after, lean, tied, 0, len(rows))
    for i in range(len(rows)):
        frame = np.stack([first[i], second[i], rows[i] / norms[i]])
        ends = np.concatenate([cosine[i], -cosine[i, :1]]), np.concatenate([sine[i], -sine[i, :1]])
        middle = np.stack([ends[0][:-1] + ends[0][1:], ends[1][:-1] + ends[1][1:]], axis=1) @ frame[:2]
        for half, side in ((0, 1.0), (1, -1.0)):
            signs = np.sign(side * middle @ rows.T)
            signs[:, i] = 0.0
            maps = np.einsum("qj,jk,jc->qkc", (signs > 0).astype(float), mu, rows)
            yield i, half, frame, order[i], (cosine[i], sine[i], lean[i]), signs, maps


def _screened(i, half, frame, order, crossings, maps, mu, rows, squared, general):
    """Marks of edges and of cells."""
    m, k = len(order), mu.shape[1]
    x, y, z = (np.ascontiguousarray(part.T) for part in np.moveaxis(maps @ frame.T, 2, 0))
    cosine, sine, lean = (_continued(values) for values in crossings)
    xx, xy, yy = (x * x).sum(axis=0), (x * y).sum(axis=0), (y * y).sum(axis=0)
    edges, cells, every = np.zeros(m, dtype=bool), np.zeros(m, dtype=bool), np.ones(m, dtype=bool)
    screen_edges(
        xx, xy, yy, cosine[2:-3], sine[2:-3], cosine[3:-2], sine[3:-2], every, squared, 1e-14, BLUR, edges
    )
    step, outwards = mu[i] * np.linalg.norm(rows[i]), 1.0 - 2.0 * half
    if not general:
        screen_cells(
            x[0], x[1], y[0], y[1], z[0], z[1], cosine, sine, lean, step[0], step[1], outwards, every, squared, BLUR,
            cells,
        )  # fmt: skip
        return edges, cells
    for own in range(2):
        xz, yz, zz = np.zeros(m), np.zeros(m), np.zeros(m)
        for p in range(k):
            add_heights(x[p], y[p], z[p], own * step[p], xz, yz, zz)
        screen_forms(
            xx, xy, yy, xz, yz, zz, cosine, sine, lean, (2 * own - 1) * outwards, every, squared, BLUR, cells
        )
    return edges, cells


@pytest.mark.parametrize(("k", "general"), [(2, False), (1, True), (2, True), (3, True), (5, True)])
def test_nothing_that_holds_its_best_point_is_passed_by(k, general):
    rng = np.random.default_rng(k)
    looked = passed = held = 0
    for n, level in ((6, 0.0), (9, 1.0), (14, 0.0)):
        rows, mu = rng.standard_normal((n, 3)), rng.standard_normal((n, k))
        for i, half, frame, order, crossings, signs, maps in _circles(rows, mu):
            edges, cells = _screened(i, half, frame, order, crossings, maps, mu, rows, level**2, general)
            c, s = crossings[0], crossings[1]
            starts = (1.0 - 2.0 * half) * (c[:, None] * frame[0] + s[:, None] * frame[1])
            for q, M in enumerate(maps):
                looked += 2
                passed += (not edges[q]) + (not cells[q])
                if np.linalg.norm(M @ starts[q]) > level + 1e-9:
                    assert edges[q]
                flat = M @ frame[:2].T
                _, size, right = np.linalg.svd(flat)
                w = right[0] @ frame[:2]
                inside = any(((sign * rows @ w) * signs[q] >= -1e-12).all() for sign in (1.0, -1.0))
                if inside and size[0] > level + 1e-9:
                    held += 1
                    assert edges[q]
                for own in (0.0, 1.0):
                    _, size, right = np.linalg.svd(M + own * np.outer(mu[i], rows[i]))
                    heights = rows @ right[0] * np.where(np.arange(n) == i, 2.0 * own - 1.0, signs[q])
                    inside = heights.min() >= -1e-12 or heights.max() <= 1e-12
                    if inside and size[0] > level + 1e-9:
                        held += 1
                        assert cells[q]
    assert held > 20
    assert passed > looked / 4  # or nothing is saved


@pytest.mark.parametrize("general", [False, True])
def test_where_two_eigenvalues_are_equal_nothing_is_ruled_out(general):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((8, 3))
    mu = np.zeros((8, 2))
    for i, half, frame, order, crossings, _, _ in _circles(rows, mu):
        maps = np.zeros((len(order), 2, 3))
        maps[:] = frame[1:] if half else frame[:2]  # the form has the eigenvalues 1, 1, 0
        edges, cells = _screened(i, half, frame, order, crossings, maps, mu, rows, 0.5, general)
        assert cells.all() and (half or edges.all())


def test_maps_that_are_too_small_are_ruled_out():
    rng = np.random.default_rng(1)
    rows, mu = rng.standard_normal((8, 3)), rng.standard_normal((8, 3))
    for i, half, frame, order, crossings, _, maps in _circles(rows, mu):
        edges, cells = _screened(i, half, frame, order, crossings, maps, mu, rows, 1e4, True)
        assert not edges.any() and not cells.any()
