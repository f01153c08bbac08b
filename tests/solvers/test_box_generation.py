"""Column generation in five dimensions and more: only what boxes proved is reported."""

import dataclasses

import numpy as np
import pytest
from sklearn.datasets import load_iris

import covopt
from covopt.api import generation
from covopt.limits import TimeUp
from covopt.oracles import searched as box_pricing
from covopt.oracles.bounds import gauge_bound
from covopt.oracles.choose import box_seconds, boxes_are_cheaper, face_seconds
from covopt.oracles.cones import box_gauge
from covopt.oracles.faces import FaceOracle
from covopt.oracles.searched import Pool, SearchedThenProved
from covopt.oracles.support import VALID, GaugeBound
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.box_generation import BoxGeneration, solve_by_boxes
from covopt.solvers.generation import generate
from covopt.status import Status


def instance(n: int, rank: int, seed: int, offset_cost: float = np.inf) -> ShallowProblem:
    generator = np.random.default_rng(seed)
    targets = generator.standard_normal(n)
    return ShallowProblem(generator.standard_normal((n, rank)), targets / np.abs(targets).max(), offset_cost)


@pytest.mark.parametrize("offset_cost", [np.inf, 1.0, 0.0])
@pytest.mark.parametrize(("n", "rank"), [(14, 4), (12, 5)])
def test_the_value_is_the_one_of_the_faces(n, rank, offset_cost):
    problem = instance(n, rank, 1, offset_cost)
    exact = generate(problem, FaceOracle(problem.rows), tol=1e-7)
    found = solve_by_boxes(problem, tol=1e-6)
    assert found.status is Status.CERTIFIED
    assert found.gap <= 1e-6
    assert found.lower_bound <= exact.upper_bound * (1 + 1e-9)
    assert found.upper_bound >= exact.lower_bound * (1 - 1e-9)


def test_what_the_local_search_misses_is_found_by_boxes(monkeypatch):
    """A blind local search: it sees one neuron, and never the best one."""
    problem = instance(7, 3, 2)
    exact = generate(problem, FaceOracle(problem.rows), tol=1e-8)
    oracle = SearchedThenProved(problem.rows, tol=1e-6, max_nodes=10**6)
    search = oracle.local.search

    def blind(dual, **options):
        found = search(dual, **{**options, "threshold": 0.0})
        worst = slice(len(found.values) - 1, None)
        return type(found)(found.neurons[worst], found.values[worst], abs(float(found.values[-1])), False)

    monkeypatch.setattr(oracle.local, "search", blind)
    point = BoxGeneration(problem, oracle, tol=1e-6, max_rounds=20).solve()
    assert point.lower_bound <= exact.upper_bound * (1 + 1e-9)
    assert point.upper_bound >= exact.lower_bound * (1 - 1e-9)


def test_without_boxes_signs_prove_or_no_bound_is_believed(monkeypatch):
    problem = instance(30, 6, 3)
    by_signs = solve_by_boxes(problem, tol=1e-6, max_nodes=1)
    assert by_signs.status is Status.CERTIFIED and by_signs.gap <= 1e-6
    proved = box_gauge(problem.rows, by_signs.dual, rtol=1e-7).upper_bound
    assert proved <= 1.0 + 1e-6
    nothing = GaugeBound(np.inf, False, VALID)
    monkeypatch.setattr(box_pricing, "sign_gauge", lambda *_: nothing)
    point = solve_by_boxes(problem, tol=1e-6, max_nodes=1)
    assert point.status is Status.GAP
    assert 0 < point.lower_bound < point.upper_bound
    assert gauge_bound(problem.rows, point.dual) <= 1 + 1e-9


def test_the_callback_sees_proved_bounds_only():
    problem = instance(20, 5, 4)
    seen = []
    point = solve_by_boxes(problem, tol=1e-6, callback=lambda state: bool(seen.append(state)))
    lower = [state.lower_bound for state in seen]
    assert lower[0] == 0.0
    assert lower == sorted(lower)
    assert lower[-1] <= point.upper_bound
    assert solve_by_boxes(problem, tol=1e-6, callback=lambda _: True).status is Status.CALLBACK


def test_the_time_may_be_up_during_a_proof(monkeypatch):
    """What was only believed is not certified then."""
    problem = instance(14, 4, 1)

    def late(self):
        raise TimeUp

    monkeypatch.setattr(BoxGeneration, "_is_decided", late)
    monkeypatch.setattr(SearchedThenProved, "_walk", lambda self, dual, found: found)
    point = solve_by_boxes(problem, tol=1e-6, max_nodes=1)
    assert point.status is not Status.CERTIFIED
    assert point.gap > 1e-6


def test_a_pool_keeps_what_it_has_room_for(monkeypatch):
    generator = np.random.default_rng(0)
    rows, neurons = generator.standard_normal((8, 3)), generator.standard_normal((30, 3))
    dual = generator.standard_normal(8)
    pool = Pool(rows)
    pool.add(neurons[:20])
    pool.add(neurons)
    assert len(pool) == 30
    found, values = pool.above(dual, 1.0)
    expected = np.maximum(neurons @ rows.T, 0.0) @ dual
    np.testing.assert_allclose(np.sort(values), np.sort(expected[np.abs(expected) > 1.0]))
    np.testing.assert_allclose(np.maximum(found @ rows.T, 0.0) @ dual, values)
    monkeypatch.setattr("covopt.oracles.searched.POOL", 40)
    pool.add(generator.standard_normal((1, 3)))
    assert len(pool) == 5


def test_rows_on_a_grid_with_columns_of_uneven_size():
    """Near the optimum most neurons above one are in cells that no climb starts in."""
    generator = np.random.default_rng(0)
    X = np.round(generator.standard_normal((24, 3)) * [1.0, 0.3, 0.1] + [5.0, 3.0, 1.0], 1)
    rows = np.unique(np.c_[X, np.ones(24)], axis=0) / 8.0
    problem = ShallowProblem(rows, generator.integers(0, 3, len(rows)) / 2.0)
    exact = generate(problem, FaceOracle(rows), tol=1e-6)
    point = solve_by_boxes(problem, tol=1e-6)
    assert point.status is Status.CERTIFIED
    assert point.lower_bound <= exact.upper_bound * (1 + 1e-9)
    assert point.upper_bound >= exact.lower_bound * (1 - 1e-9)


@pytest.mark.slow
def test_fifty_points_with_four_features():
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((50, 4)), generator.standard_normal(50)
    solution = covopt.min_norm(X, y)
    assert solution.status is Status.CERTIFIED
    assert solution.solver == "column-generation with boxes"
    assert solution.cost == pytest.approx(84.416797, rel=1e-6)
    assert covopt.verify(solution).ok


def test_which_problems_suit():
    """Boxes from where they are clearly cheaper by the fitted seconds; both grow with the rows and the dimension."""
    rows = np.random.default_rng(0).standard_normal((60, 9))
    assert [boxes_are_cheaper(rows[:, :r]) for r in (3, 4, 5, 6, 8, 9)] == [
        False,
        False,
        True,
        True,
        True,
        False,
    ]
    assert [boxes_are_cheaper(rows[:n, :5]) for n in (8, 10, 25)] == [False, False, True]
    assert face_seconds(20, 5) < face_seconds(40, 5) < face_seconds(40, 6)
    assert box_seconds(rows[:20, :5]) < box_seconds(rows[:40, :5]) < box_seconds(rows[:40, :6])
    iris = np.column_stack([np.unique(load_iris().data, axis=0)[::4], np.ones(38)])
    assert not boxes_are_cheaper(iris) and boxes_are_cheaper(rows[:38, :5])


def test_faces_follow_where_boxes_do_not_end(monkeypatch):
    """A network and a bound that boxes leave are kept; faces make the certificate where they can be afforded."""
    generator = np.random.default_rng(1)
    X, y = generator.standard_normal((16, 4)), generator.standard_normal(16)
    assert boxes_are_cheaper(np.column_stack([X, np.ones(16)]))
    by_boxes = covopt.min_norm(X, y)

    def given_up(*arguments, **options):
        return dataclasses.replace(solve_by_boxes(*arguments, **options), status=Status.GAP)

    monkeypatch.setattr(generation, "solve_by_boxes", given_up)
    by_faces = covopt.min_norm(X, y)
    assert by_boxes.solver == "column-generation with boxes" and by_faces.solver == "column-generation"
    assert by_faces.status is by_boxes.status is Status.CERTIFIED
    assert by_faces.cost == pytest.approx(by_boxes.cost, rel=3e-6)


@pytest.mark.parametrize("stop", [TimeUp, KeyboardInterrupt])
def test_a_search_after_boxes_that_is_stopped_leaves_their_network(monkeypatch, stop):
    """Boxes ended late with 65 on the iris table, the search after them had no time: 36900 along a line came back."""
    generator = np.random.default_rng(1)
    X, y = generator.standard_normal((12, 4)), generator.standard_normal(12)

    def given_up(*arguments, **options):
        return dataclasses.replace(solve_by_boxes(*arguments, **options), status=Status.GAP)

    def stopped(problem, solver, options, plane, thin, first):
        first.dual, first.upper_bound = np.zeros_like(first.dual), np.inf  # half done
        raise stop

    monkeypatch.setattr(generation, "boxes_are_cheaper", lambda rows: True)
    monkeypatch.setattr(generation, "solve_by_boxes", given_up)
    monkeypatch.setattr(generation, "_without_boxes", stopped)
    solution = covopt.min_norm(X, y)
    assert solution.gap < 1e-5 and solution.solver == "column-generation with boxes"
    assert covopt.verify(solution).ok
