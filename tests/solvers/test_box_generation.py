"""Column generation in four dimensions and more: only what boxes proved is reported."""

import dataclasses

import numpy as np
import pytest

import covopt
from covopt.errors import BudgetError
from covopt.limits import TimeUp
from covopt.oracles import searched as box_pricing
from covopt.oracles.bounds import gauge_bound
from covopt.oracles.choose import exact_oracle
from covopt.oracles.cones import box_gauge
from covopt.oracles.searched import Pool, SearchedThenProved
from covopt.problems.shallow import ShallowProblem
from covopt.solvers import improve
from covopt.solvers.box_generation import BoxGeneration, solve_by_boxes
from covopt.solvers.generation import generate
from covopt.status import Status
from tests.oracles.table import face_oracle


def instance(n: int, rank: int, seed: int, offset_cost: float = np.inf) -> ShallowProblem:
    generator = np.random.default_rng(seed)
    targets = generator.standard_normal(n)
    return ShallowProblem(generator.standard_normal((n, rank)), targets / np.abs(targets).max(), offset_cost)


@pytest.mark.parametrize("offset_cost", [np.inf, 1.0, 0.0])
@pytest.mark.parametrize(("n", "rank"), [(14, 4), (12, 5)])
def test_the_value_is_the_one_of_the_faces(n, rank, offset_cost):
    problem = instance(n, rank, 1, offset_cost)
    exact = generate(problem, face_oracle(problem.rows), tol=1e-7)
    found = solve_by_boxes(problem, tol=1e-6)
    assert found.status is Status.CERTIFIED
    assert found.gap <= 1e-6
    assert found.lower_bound <= exact.upper_bound * (1 + 1e-9)
    assert found.upper_bound >= exact.lower_bound * (1 - 1e-9)


def test_what_the_local_search_misses_is_found_by_boxes(monkeypatch):
    """A blind local search: it sees one neuron, and never the best one."""
    problem = instance(7, 3, 2)
    exact = generate(problem, face_oracle(problem.rows), tol=1e-8)
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
    monkeypatch.setattr(box_pricing, "NODES", 1)
    monkeypatch.setattr(box_pricing, "FEW_NODES", 1)
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
    exact = generate(problem, face_oracle(rows), tol=1e-6)
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


@pytest.mark.parametrize(("n", "d"), [(16, 8), (14, 10), (18, 9), (20, 12)])
def test_small_tables_in_many_dimensions_are_certified(n, d):
    """Signs prove them in some hundred nodes; 4.5·10⁸ faces of the first took more time than there was."""
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((n, d)), generator.standard_normal(n)
    solution = covopt.min_norm(X, y, bias=1.0)
    assert solution.status is Status.CERTIFIED and len(solution.history) < 60
    rows = np.column_stack([X, np.ones(n)])
    oracle = exact_oracle(rows, 0)
    found = oracle.price(solution.dual)
    assert found.exact and found.upper_bound <= 1.0 + 1e-6 and oracle.signs.n_nodes < 2000
    assert covopt.verify(solution).ok


def test_which_oracle_takes_a_table():
    rows = np.random.default_rng(0).standard_normal((60, 12))
    made = [type(exact_oracle(rows[:n, :r], 0)).__name__ for n, r in ((60, 3), (60, 4), (60, 8), (60, 10))]
    assert made == ["FaceOracle", "SearchOracle", "SearchOracle", "SearchOracle"]
    with pytest.raises(BudgetError, match="too many for signs and for boxes"):
        exact_oracle(rows[:, :9], 0)


def test_a_proof_a_hair_beyond_the_tolerance_is_followed_by_more_rounds():
    """The belief was within 1e-6, its proof within 1.02e-6: the solve ended uncertified."""
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((40, 3)), generator.standard_normal(40)
    problem = ShallowProblem(np.column_stack([X, np.ones(40)]), y / np.abs(y).max())
    for tol in np.geomspace(1e-4, 1e-7, 7):
        assert solve_by_boxes(problem, tol=tol).status is Status.CERTIFIED


@pytest.mark.thinned(4)
@pytest.mark.parametrize("lam", ["0.1max", "0.001max"])
@pytest.mark.parametrize(("n", "d", "output_bias"), [(30, 3, "none"), (20, 4, "free"), (14, 5, "penalized")])
def test_fits_ask_boxes(n, d, output_bias, lam):
    generator = np.random.default_rng(2)
    X, y = generator.standard_normal((n, d)), generator.standard_normal(n)
    fitted = covopt.fit(X, y, lam=lam, output_bias=output_bias)
    assert fitted.status is Status.CERTIFIED and fitted.solver == "column-generation with boxes"
    assert covopt.verify(fitted).ok
    above = covopt.fit(X, y, lam="1.01max", output_bias=output_bias)  # the first dual is optimal, and proved
    assert above.status is Status.CERTIFIED and len(above.network) == 0


@pytest.mark.parametrize("stop", [TimeUp, KeyboardInterrupt])
def test_a_search_after_boxes_that_is_stopped_leaves_their_network(monkeypatch, stop):
    """Boxes ended late with 65 on the iris table, the search after them had no time: 36900 along a line came back."""
    generator = np.random.default_rng(1)
    X, y = generator.standard_normal((12, 4)), generator.standard_normal(12)

    def given_up(*arguments, **options):
        return dataclasses.replace(solve_by_boxes(*arguments, **options), status=Status.GAP)

    def stopped(problem, *, found, **options):
        found.dual, found.upper_bound = np.zeros_like(found.dual), np.inf  # half done
        raise stop

    monkeypatch.setattr(improve, "solve_by_boxes", given_up)
    monkeypatch.setattr(improve, "solve_heuristic", stopped)
    solution = covopt.min_norm(X, y)
    assert solution.gap < 1e-5 and solution.solver == "column-generation with boxes"
    assert covopt.verify(solution).ok
