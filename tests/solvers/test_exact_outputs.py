"""Output weights moved by units in the last place: against all multiples, and where rounding leaves too much."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import covopt
from covopt.network import ReLUNetwork
from covopt.solvers.exact_outputs import meet, nearest_multiples


@pytest.mark.parametrize("seed", range(5))
def test_multiples_are_nearly_the_best(seed):
    rng = np.random.default_rng(seed)
    columns = rng.standard_normal((3, 3)) * [1.0, 0.3, 0.1]
    goal = columns @ rng.integers(-3, 4, 3) + 0.01 * rng.standard_normal(3)
    found = nearest_multiples(columns, goal)
    assert np.array_equal(found, np.rint(found))
    every = np.array(list(product(range(-12, 13), repeat=3)))
    best = np.linalg.norm(every @ columns.T - goal, axis=1).min()
    assert np.linalg.norm(columns @ found - goal) <= 2.0 * best + 1e-12


def test_nothing_is_moved_for_nothing():
    assert not nearest_multiples(np.eye(3), np.zeros(3)).any()
    assert not nearest_multiples(np.zeros((2, 2)), np.ones(2)).any()


def test_ramps_of_gaps_of_all_sizes_are_met():
    """Every output weight rounded on its own leaves 1e-8 of the targets."""
    rng = np.random.default_rng(0)
    x = 1.7e18 + np.cumsum(10.0 ** rng.uniform(9.0, 15.0, 12)).round()
    lifted = np.column_stack([x, np.ones(12)])
    hidden = np.column_stack([np.ones(12), -np.concatenate([[x[0] - 1e12], x[:-1]])])
    heights = np.maximum(x[:, None] + hidden[:, 1], 0.0)
    targets = rng.standard_normal((12, 1))
    rough = np.linalg.solve(heights, targets) * (1.0 + 1e-7 * rng.standard_normal((12, 1)))
    network = ReLUNetwork(hidden, rough, 1.0)
    met = meet(network, lifted, targets)
    missed = [np.abs(heights @ one.output_weights - targets).max() for one in (network, met)]
    assert missed[1] < 1e-9 < missed[0]
    assert np.abs(met.output_weights / rough - 1.0).max() < 1e-3


def test_targets_whose_squares_no_double_holds():
    inputs = np.array([1.7e15, 1700000000356390.2, 1700000000712780.5])
    targets = np.array([-2.7e149, -7.5e149, -2.5e149])
    solution = covopt.min_norm(inputs[:, None], targets, output_bias="free")
    assert solution.status.code == "certified"
    assert solution.certificate.residual < 1e-12
