import numpy as np
import pytest
from numpy.testing import assert_allclose

from covopt.oracles.bounds import Relaxation, gauge_bound
from covopt.oracles.coordinates import restrict
from covopt.oracles.local_search import climb_outputs
from tests.cases import normal
from tests.oracles.table import face_oracle, functions


@pytest.mark.parametrize("subset", [[1, 4, 6], [0, 1, 2, 3, 4, 5, 6, 7, 8]])
def test_restriction_keeps_rows_and_gauge(subset):
    """Of three rows in five dimensions, and of rows of low rank."""
    rng = np.random.default_rng(2)
    rows, dual, rank = rng.standard_normal((9, 5)), np.zeros(9), min(len(subset), 3)
    if len(subset) > rank:
        rows = rows[:, :rank] @ rng.standard_normal((rank, 5))
    dual[subset] = rng.standard_normal(len(subset))
    reduced, basis = restrict(rows, np.array(subset))
    assert reduced.shape == (len(subset), rank)
    assert_allclose(basis.T @ basis, np.eye(rank), atol=1e-14)
    assert_allclose(reduced @ basis.T, rows[subset], atol=1e-12)
    answer = face_oracle(reduced).price(dual[subset])
    assert_allclose(functions(rows, dual, answer.neurons @ basis.T), answer.values, atol=1e-12)
    turned = rows @ np.linalg.svd(rows)[2][: np.linalg.matrix_rank(rows)].T
    assert abs(answer.values[0]) == pytest.approx(abs(face_oracle(turned).price(dual).values[0]), rel=1e-12)


@pytest.mark.parametrize(("n", "d", "k", "n_rounds", "most"), [(20, 8, 3, 200, 1.03), (150, 12, 4, 60, 1.4)])
def test_several_outputs_have_a_bound_that_is_near(n, d, k, n_rounds, most):
    """The lifted form of 1797 × 64 rows with ten outputs took minutes and 4.7 GB."""
    rows, dual, starts = normal(0, (n, d), (n, k), (50, d))
    found = climb_outputs(rows, dual, starts / np.linalg.norm(starts, axis=1, keepdims=True))[1].max()
    bound = gauge_bound(rows, dual, n_rounds=n_rounds)
    assert found <= bound <= most * found
    assert bound < 0.8 * np.linalg.norm(dual, axis=1) @ np.linalg.norm(rows, axis=1)
    each = [gauge_bound(rows, column, n_rounds=15) for column in dual.T]
    assert bound <= np.linalg.norm(each) * (1 + 1e-9)


def test_a_bound_that_is_given_no_time_holds():
    rows, dual, directions = normal(0, (300, 4), 300, (2000, 4))
    met = np.abs(np.maximum(directions @ rows.T, 0.0) @ dual / np.linalg.norm(directions, axis=1)).max()
    best, hurried = gauge_bound(rows, dual), gauge_bound(rows, dual, seconds=0.0)
    assert met < best <= hurried < np.inf
    assert hurried == gauge_bound(rows, dual, n_rounds=1)
    # two outputs of one row: h = √2, of each alone 1
    assert gauge_bound(np.ones((400, 1)), np.full((400, 2), 1.0 / 400)) >= np.sqrt(2.0)


def labelled(n, d, k, seed=0):
    """Rows around k centres, and the residual of a guess: what a dual of k classes looks like."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    rows = rng.standard_normal((n, d)) + 2.0 * rng.standard_normal((k, d))[labels]
    return rows, (np.eye(k)[labels] - 1.0 / k) / n


def test_no_neuron_serves_all_classes():
    """The root of the sum of squares of each output's bound was 2.9 times h on digits of ten classes."""
    rows, dual = labelled(120, 12, 8)
    best = climb_outputs(rows, dual, np.eye(12))[1].max()
    relaxation = Relaxation(rows)
    apart = np.linalg.norm([gauge_bound(rows, column) for column in dual.T])
    found = relaxation.bound(dual)
    assert best <= found.value <= found.proved() < 1.1 * best < 0.7 * apart
    assert_allclose(
        np.vdot(found.atoms[0], dual), found.value, rtol=1e-6
    )  # where the bound is attained, nearly
    again = relaxation.bound(0.9 * dual + 0.1 * dual[::-1])  # from where the first one ended
    assert again.value < 1.1 * climb_outputs(rows, 0.9 * dual + 0.1 * dual[::-1], np.eye(12))[1].max()


def test_updates_go_on_until_they_show_what_a_solve_has_shown():
    rows, dual = labelled(120, 8, 5)
    once, goal = gauge_bound(rows, dual, n_rounds=10), gauge_bound(rows, dual, n_rounds=25)
    assert gauge_bound(rows, dual, n_rounds=10, goal=goal) <= goal < once
