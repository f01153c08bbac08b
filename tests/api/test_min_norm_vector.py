"""Vector outputs end to end: closed forms, a second solver, the conditions of optimality, mutated certificates."""

import re

import numpy as np
import pytest

import covopt
from covopt.errors import InputError

RNG = np.random.default_rng(11)


def bipartite(n):
    """B_N of FL22 Prop 14: EᵀE for the incidence matrix E of the complete bipartite graph K_{N/2,N/2}."""
    half = n // 2
    ones = np.ones((half, half))
    return np.block([[half * np.eye(half), ones], [ones, half * np.eye(half)]])


def certified(X, Y, **options):
    solution = covopt.min_norm(X, Y, **options)
    assert solution.status is covopt.Status.CERTIFIED, solution.summary()
    report = covopt.verify(solution)
    assert report.ok, report.summary()
    assert solution.lower_bound <= solution.cost * (1 + 1e-12)
    return solution


def covariance(solution):
    """K₁ = Z Zᵀ of the balanced network."""
    heights = solution.network.lift(solution.data.X) @ solution.network.hidden_weights.T
    return heights @ heights.T


@pytest.mark.parametrize("n", [4, 6, 8, pytest.param(10, marks=pytest.mark.slow)])
def test_bipartite_matrices_cost_n_squared(n):
    solution = certified(np.eye(n), bipartite(n), bias=0)
    assert solution.cost == pytest.approx(n**2, rel=2e-6)
    assert solution.lower_bound <= n**2 * (1 + 1e-9)
    # FL22 Prop 14: at every minimiser K₁ = (YYᵀ)^{1/2}; a gap of 1e-6 leaves it a thousandth of its size
    assert np.abs(covariance(solution) - bipartite(n)).max() < 1e-2 * n


def test_one_hot_targets():
    labels = np.array([0, 0, 0, 1, 1, 2])
    solution = certified(np.eye(6), np.eye(3)[labels], bias=0)
    assert solution.cost == pytest.approx(2 * (np.sqrt(3) + np.sqrt(2) + 1), rel=2e-6)


def test_where_the_doubly_nonnegative_bound_is_not_tight():
    i = np.arange(5)
    Y = np.cos(4 * np.pi * (i[:, None] - i[None, :]) / 5) ** 2
    solution = certified(np.eye(5), Y, bias=0)
    assert solution.lower_bound <= 10.067982 + 1e-6
    assert solution.cost == pytest.approx(10.067982, abs=2e-5)


def test_a_dual_of_the_wrong_shape_is_a_damaged_file(tmp_path):
    solution = certified(np.eye(2), np.array([[2.0, 1.0], [1.0, 2.0]]), bias=0)
    content = solution.to_dict()
    content["dual"] = [1.0, 2.0]
    with pytest.raises(covopt.errors.SolutionFileError, match="lengths of the arrays do not fit"):
        covopt.Solution.from_dict(content)


def test_uniqueness_and_the_sparsest_network():
    labels = np.array([0, 0, 1, 1, 1])
    solution = certified(np.eye(5), np.eye(2)[labels], bias=0, tol=1e-9)
    tight = solution.tight_set()
    assert tight.outputs.shape == (len(tight), 2)
    np.testing.assert_allclose(np.linalg.norm(tight.outputs, axis=1), 1.0)
    sparsest = solution.sparsest()
    assert sparsest.n_neurons <= len(solution.network)
    assert sparsest.lower_bound <= 2
    wide = certified(RNG.standard_normal((8, 1)), RNG.standard_normal((8, 2)), tol=1e-8)
    assert wide.is_unique in (True, False, None)
    assert len(wide.network) <= 16  # N·k


def test_a_reference_solver_of_one_output_says_so():
    with pytest.raises(InputError, match=re.escape("handles one output")):
        covopt.min_norm(np.eye(3), np.eye(3), bias=0, solver="conic:CLARABEL")
