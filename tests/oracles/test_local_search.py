"""Searches from below, relaxations from above, and branch and bound between them."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from covopt.limits import TimeUp, limited
from covopt.oracles import ascent, sign_tree
from covopt.oracles.base import recall, remembering
from covopt.oracles.bounds import Relaxation, relaxed_dual_norm
from covopt.oracles.boxes.scalar import Scalar, narrow
from covopt.oracles.local_search import LocalSearchOracle, approach, climb, climb_outputs
from covopt.oracles.sign_tree import sign_dual_norm
from covopt.oracles.vector_faces import VectorFaceOracle
from tests.cases import drawn, normal, unit
from tests.oracles.table import face_oracle, functions, question


def test_climbs_start_where_rows_of_uneven_columns_are_round():
    """Columns of sizes 1 to 1e-5: directions that are uniform in the units given all cut the rows alike."""
    rows = normal(4, (60, 4))
    uneven = rows * np.array([1.0, 1e-2, 1e-3, 1e-5])
    starts = LocalSearchOracle(uneven, random_state=0)._starts(np.zeros(60), 400)  # noqa: SLF001
    share = np.mean((uneven @ starts[-200:].T > 0).std(axis=1) > 0.3)
    assert share > 0.9


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 20), st.integers(0, 3), st.booleans())
def test_climbs_end_no_lower(seed, r, n, k, integer):
    """With one output, beside a linear term, or with several."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-2, 3, (n, r)).astype(float) if integer else rng.standard_normal((n, r))
    rows = rows[np.linalg.norm(rows, axis=1) > 0]
    dual, linear = rng.standard_normal((len(rows), k) if k else len(rows)), rng.standard_normal(r)
    starts = unit(rng.standard_normal((6, r)))
    height = lambda points: functions(rows, dual, points) + (0.0 if k else points @ linear)  # noqa: E731
    each = (starts,) if not k else starts[:, None]  # climbs of several outputs drop what ends in one point
    for start in each:
        points, values = climb_outputs(rows, dual, start) if k else climb(rows, dual, linear, start)
        assert np.allclose(np.linalg.norm(points, axis=1), 1)
        assert np.allclose(values, height(points), atol=1e-11)
        assert (values >= height(start) - 1e-12 * np.abs(dual).sum()).all()


def test_ends_of_vector_climbs_are_local_maxima():
    rng, rows, dual = drawn(7, (15, 5), (15, 3))
    found = LocalSearchOracle(rows, n_starts=64, random_state=0).price(dual)
    assert found.values[0] <= found.upper_bound
    assert (np.diff(found.values) <= 0).all()
    near = unit(found.neurons[0] + 1e-4 * rng.standard_normal((2000, 5)))
    assert functions(rows, dual, near).max() <= found.values[0] * (1 + 1e-13)


@pytest.mark.parametrize("seed", [6, 7])
def test_climbs_of_several_outputs_meet_the_best_of_all_faces(seed):
    """From where steps along gradients had led they missed maxima at kinks: of 15 × 8, two outputs, by 5 %."""
    rng, rows = drawn(seed, (10, 4))
    dual = question(rng, rows, "cancels", 2)
    best = VectorFaceOracle(rows).price(dual).values[0]
    met = LocalSearchOracle(rows, n_starts=64, random_state=0).search(dual).upper_bound
    assert met == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_climbs_in_turns_end_where_climbs_end(n_outputs, monkeypatch):
    rows, dual, starts = normal(0, (400, 4), (400, n_outputs), (80, 4))
    starts /= np.linalg.norm(starts, axis=1)[:, None]

    def climbed():
        if n_outputs > 1:
            return climb_outputs(rows, dual, starts, n_threads=2)
        return climb(rows, dual[:, 0], np.zeros(4), starts, n_threads=2)

    points, values = climbed()
    calls = []
    monkeypatch.setattr(ascent, "PIECE", 400 * 200 * 4)  # a tangent is not cut
    monkeypatch.setattr(ascent, "checkpoint", lambda: calls.append(1))
    again = climbed()
    assert len(calls) > 10
    assert np.array_equal(again[0], points)
    assert np.array_equal(again[1], values)


def test_a_deadline_is_heard_within_one_climb():
    rows, mu = normal(0, (100000, 8), 100000)
    began = time.process_time()
    with pytest.raises(TimeUp), limited(0.02):
        climb(rows, mu, np.zeros(8), np.eye(8)[:1], n_threads=1)  # a second
    assert time.process_time() - began < 0.8


def test_starts_come_near_the_maxima_that_climbs_from_them_meet():
    """Seventy climbs on digits (1797 × 62, nine outputs) took 5.4 s; from where these steps end 1.9 s."""
    rows, dual, starts = normal(3, (120, 6), (120, 3), (40, 6))
    starts /= np.linalg.norm(starts, axis=1, keepdims=True)
    near = approach(rows, dual, starts)
    assert len(near) < len(starts)
    assert np.allclose(np.linalg.norm(near, axis=1), 1.0)
    all_ends, ends = (climb_outputs(rows, dual, each)[1] for each in (starts, near))
    assert ends.max() >= all_ends.max() * (1 - 1e-9)
    values = np.linalg.norm(np.maximum(near @ rows.T, 0.0) @ dual, axis=1)
    assert np.median(values) > 0.95 * np.median(all_ends)
    zero = np.zeros_like(dual)  # no direction to go
    assert len(approach(rows, zero, starts[:2])) == 2


@pytest.mark.parametrize("subset", [[1, 4, 6], [0, 1, 2, 3, 4, 5, 6, 7, 8]])
def test_restriction_keeps_rows_and_dual_norm(subset):
    """Of three rows in five dimensions, and of rows of low rank."""
    rng = np.random.default_rng(2)
    rows, dual, rank = rng.standard_normal((9, 5)), np.zeros(9), min(len(subset), 3)
    if len(subset) > rank:
        rows = rows[:, :rank] @ rng.standard_normal((rank, 5))
    dual[subset] = rng.standard_normal(len(subset))
    basis, reduced = narrow(rows[subset], 1.0 / np.linalg.norm(rows[subset], axis=1))
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
    bound = relaxed_dual_norm(rows, dual, n_rounds=n_rounds)
    assert found <= bound <= most * found
    assert bound < 0.8 * np.linalg.norm(dual, axis=1) @ np.linalg.norm(rows, axis=1)
    each = [relaxed_dual_norm(rows, column, n_rounds=15) for column in dual.T]
    assert bound <= np.linalg.norm(each) * (1 + 1e-9)


def test_a_bound_that_is_given_no_time_holds():
    rows, dual, directions = normal(0, (300, 4), 300, (2000, 4))
    met = np.abs(np.maximum(directions @ rows.T, 0.0) @ dual / np.linalg.norm(directions, axis=1)).max()
    best, hurried = relaxed_dual_norm(rows, dual), relaxed_dual_norm(rows, dual, seconds=0.0)
    assert met < best <= hurried < np.inf
    assert hurried == relaxed_dual_norm(rows, dual, n_rounds=1)
    # two outputs of one row: h = √2, of each alone 1
    assert relaxed_dual_norm(np.ones((400, 1)), np.full((400, 2), 1.0 / 400)) >= np.sqrt(2.0)


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
    apart = np.linalg.norm([relaxed_dual_norm(rows, column) for column in dual.T])
    found = relaxation.bound(dual)
    assert best <= found.value <= found.proved() < 1.1 * best < 0.7 * apart
    # where the bound is attained, nearly
    assert_allclose(np.vdot(found.atoms[0], dual), found.value, rtol=1e-6)
    again = relaxation.bound(0.9 * dual + 0.1 * dual[::-1])  # from where the first one ended
    assert again.value < 1.1 * climb_outputs(rows, 0.9 * dual + 0.1 * dual[::-1], np.eye(12))[1].max()


@pytest.mark.parametrize("rows, dual", [labelled(120, 8, 5), normal(0, (300, 6), 300)])
def test_updates_go_on_until_they_show_what_a_solve_has_shown(rows, dual):
    once, goal = relaxed_dual_norm(rows, dual, n_rounds=10), relaxed_dual_norm(rows, dual, n_rounds=25)
    assert relaxed_dual_norm(rows, dual, n_rounds=10, goal=goal) <= goal < once


# ---- branch and bound against the exact oracle, brute force and closed forms; its limits leave valid bounds.
def test_an_interrupt_leaves_a_valid_bound(monkeypatch):
    rows, dual = normal(0, (18, 6), 18)
    truth = sign_dual_norm(rows, dual).upper_bound
    real, calls = sign_tree.bound_node, []
    for last in (1, 2, 3, 4, 7):  # in the first root, the second, either part of a node

        def stop(*args, last=last):
            calls.append(1)
            if len(calls) == last:
                raise KeyboardInterrupt
            return real(*args)

        calls.clear()
        monkeypatch.setattr(sign_tree, "bound_node", stop)
        with remembering():
            with pytest.raises(KeyboardInterrupt):
                sign_dual_norm(rows, dual)
            assert truth * (1 - 1e-9) <= recall(rows, dual) < np.inf
        assert len(calls) == last


def test_a_goal_ends_the_search_with_a_bound_that_holds():
    rows, dual = normal(1, (25, 8), 25)
    tight = sign_dual_norm(rows, dual)
    dual /= abs(tight.best_value)
    found = sign_dual_norm(rows, dual, goal=1.5)
    assert 1.0 <= found.upper_bound <= 1.5 and not found.closed
    assert found.nodes < tight.nodes
    # out of reach: the maximum
    assert sign_dual_norm(rows, 2.0 * dual, goal=1.5).upper_bound == pytest.approx(2.0, rel=1e-9)


def test_what_climbs_miss_branch_and_bound_finds(monkeypatch):
    """Rows on one line with opposite signs make a linear part."""
    monkeypatch.setattr(Scalar, "search", lambda self, neurons=None: None)
    found = sign_dual_norm(np.vstack([np.eye(3), -np.eye(3)[:1]]), np.array([3.0, 4.0, -6.0, 7.0]))
    assert found.closed and found.best_value == pytest.approx(np.hypot(4.0, 7.0))
