"""Output weights that meet their points as nearly as doubles allow, far from the origin."""

from __future__ import annotations

import numpy as np

import covopt
from covopt.network import ReLUNetwork
from covopt.solvers.exact_outputs import meet


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
    """A third of a second apart in microseconds since 1970: no crash, and what is stated holds."""
    inputs = np.array([1.7e15, 1700000000356390.2, 1700000000712780.5])
    targets = np.array([-2.7e149, -7.5e149, -2.5e149])
    solution = covopt.min_norm(inputs[:, None], targets, output_bias="free")
    assert solution.status.code in ("certified", "gap")
    assert covopt.verify(solution).ok
