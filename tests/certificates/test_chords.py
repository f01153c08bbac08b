"""Lines that close boxes of directions: they are as good as any, and the tree that they advise is small."""

import numpy as np

import covopt
from covopt.certificates.chords import Chords
from covopt.datasets import make_smooth


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
