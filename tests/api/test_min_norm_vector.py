"""Vector outputs end to end: closed forms, a second solver, the conditions of optimality, mutated certificates."""

import numpy as np
import pytest

import covopt

RNG = np.random.default_rng(11)


def certified(X, Y, **options):
    solution = covopt.min_norm(X, Y, **options)
    assert solution.status is covopt.Status.CERTIFIED, solution.summary()
    report = covopt.verify(solution)
    assert report.ok, report.summary()
    assert solution.lower_bound <= solution.cost * (1 + 1e-12)
    return solution


def test_where_the_doubly_nonnegative_bound_is_not_tight():
    i = np.arange(5)
    Y = np.cos(4 * np.pi * (i[:, None] - i[None, :]) / 5) ** 2
    solution = certified(np.eye(5), Y, bias=0)
    assert solution.lower_bound <= 10.067982 + 1e-6
    assert solution.cost == pytest.approx(10.067982, abs=2e-5)


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
