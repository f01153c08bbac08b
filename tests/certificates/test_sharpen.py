"""Newton's method on the tight set: the last digits, confirmed from outside."""

import numpy as np
import pytest

import covopt
from covopt.certificates.tight import sharpen
from covopt.datasets import make_random_plane, make_smooth
from covopt.oracles.cascade import exact_oracle
from covopt.problems.reduction import reduce_data


def reduced(solution):
    problem, reduction = reduce_data(solution.data, solution.output_bias)
    offset = solution.data.bias * solution.network.output_bias / reduction.target_scale
    return problem, exact_oracle(problem.rows, 0), reduction.apply_dual(solution.dual), offset


@pytest.mark.parametrize("output_bias", ["none", "penalized", "free"])
@pytest.mark.parametrize("make", [make_smooth, make_random_plane])
def test_gaps_of_rounding_size_and_fewer_neurons(make, output_bias):
    X, y = make(30, random_state=4)
    rough = covopt.min_norm(X, y, output_bias=output_bias, tol=1.1e-9)
    problem, oracle, dual, offset = reduced(rough)
    sharp, neurons, weights, offset = sharpen(problem, oracle, dual, offset)
    assert oracle.price(sharp[:, 0]).upper_bound <= 1 + 1e-11
    assert problem.missed(neurons, weights, offset) <= 1e-11
    upper, lower = problem.network_value(weights, offset), problem.dual_value(sharp)
    assert abs(upper - lower) <= 1e-10 * upper
    assert problem.dual_value(dual) <= lower * (1 + 1e-11)
    assert len(weights) <= len(rough.network)
    assert np.linalg.matrix_rank(problem.atoms(neurons), tol=1e-9) == len(weights)


def test_min_norm_ends_with_it_at_the_tightest_tolerance():
    X, y = make_smooth(40, random_state=1)
    coarse, fine = covopt.min_norm(X, y), covopt.min_norm(X, y, tol=1e-9)
    assert fine.gap <= 1e-10
    assert len(fine.network) < len(coarse.network)
    assert covopt.verify(fine).ok
    assert fine.lower_bound * (1 - 1e-12) <= coarse.cost


def test_an_inaccurate_dual_is_refused():
    X, y = make_smooth(30, random_state=2)
    problem, oracle, dual, offset = reduced(covopt.min_norm(X, y, tol=1e-9))
    assert sharpen(problem, oracle, 0.9 * dual, offset) is None
    noise = np.random.default_rng(0).standard_normal(dual.shape)
    spoiled = dual + 1e-3 * np.abs(dual).max() * noise
    spoiled /= oracle.price(spoiled[:, 0]).upper_bound
    found = sharpen(problem, oracle, spoiled, offset)
    assert found is None or problem.dual_value(found[0]) >= problem.dual_value(dual) * (1 - 1e-9)
