"""Lines that close boxes of directions: they are as good as any, and the tree that they advise is small."""

import numpy as np
import pytest

import covopt
from covopt.certificates.chords import FINE, Chords, advise
from covopt.datasets import make_smooth


def box_of(rows, signs, low, high):
    """The arguments of ``advise`` for one box."""
    lo, hi = np.minimum(rows * low, rows * high).sum(axis=1), np.maximum(rows * low, rows * high).sum(axis=1)
    linear = (signs * (lo >= 0)) @ rows
    entries = np.flatnonzero((lo < 0) & (hi > 0))
    each = linear[None], low[None], high[None], (high - low)[None]
    return np.array([len(entries)]), entries, signs[entries], lo[entries], hi[entries], *each


@pytest.mark.parametrize("seed", range(6))
def test_lines_meet_where_the_sum_is_largest(seed):
    rng = np.random.default_rng(seed)
    D = int(rng.integers(2, 7))
    rows, signs = rng.normal(size=(12, D)), np.where(rng.random(12) < 0.5, 1.0, -1.0)
    centre, half = rng.uniform(-0.7, 0.7, D), rng.uniform(0.0, 0.3, D)
    centre[0], half[0] = 1.0, 0.0
    low, high, basis = centre - half, centre + half, np.eye(D) + 0.2 * rng.normal(size=(D, D))
    given = box_of(rows, signs, low, high)
    count, entries, weight, lo, hi, linear, *_ = given

    def sides(scale):
        """An affine bound of (G − |u|)/scale by the advice, and its values at random points of the box."""
        shrunk = (rows / scale, count, entries, weight, lo / scale, hi / scale, linear / scale, *given[6:])
        slopes, normals, _, value, bounds = advise(*shrunk, FINE, basis)
        assert (slopes >= 0).all() and (slopes <= 1).all() and np.linalg.norm(normals) <= 1
        chord = np.maximum(-slopes * lo, (1 - slopes) * hi)[weight > 0].sum() / scale
        q = linear[0] / scale + (weight * slopes) @ rows[entries] / scale - basis @ normals[0]
        top = chord + np.maximum(q * low, q * high).sum()
        points = rng.uniform(low, high, (4000, D))
        heights = points @ rows[entries].T / scale
        up = hi / (hi - lo) * (points @ rows[entries].T - lo) / scale
        concave = points @ linear[0] / scale + np.where(weight > 0, up, -np.maximum(heights, 0.0)).sum(axis=1)
        return top, (concave - np.linalg.norm(points @ basis, axis=1)).max(), bounds[0], value

    loose = sides(1.0)
    assert loose[0] >= loose[1] - 1e-12
    scale = 1.0
    for _ in range(60):  # the largest scale with which the box does not close
        top, below, bound, value = sides(scale)
        assert (bound <= 1.0) == (top <= 0.0) and value < 1.0 + max(0.0, bound - 1.0) + 1e-12
        assert top <= 0.0 or below > -0.05  # what does not close has a point near which nothing would
        if top <= 0.0:
            break
        scale *= bound
    assert top <= 0.0


def test_a_search_that_ends_early_has_cut_the_worst():
    table = make_smooth(30)
    solution = covopt.min_norm(*table)
    rows = np.column_stack([table[0], np.ones(30)]) * np.abs(solution.dual.ravel())[:, None]
    rows, signs, bounds = rows / (1.0 + 1e-9), np.sign(solution.dual.ravel()), []
    for most in (0, 100, 400, 100_000):
        found = Chords(rows, signs, most)
        assert sum(len(code) for code in found.code) <= max(most, 12)
        assert all(2 * code.count(0) == len(code) + 1 for code in found.code)
        bounds.append(found.bound)
    assert bounds == sorted(bounds, reverse=True) and bounds[-1] < 1.0 + 1e-6
