"""Lower bounds on the cost by semidefinite relaxation: never above the optimum, closed forms, tightness."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from covopt.data import Data
from covopt.errors import InputError
from covopt.oracles.lifted.gauge_certificate import check_gauge
from covopt.oracles.lifted.lift import LEVELS
from covopt.problems.reduction import reduce_data
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.column_generation import ColumnGeneration
from covopt.solvers.relaxation import bracket, solve_relaxation
from tests.bank.closed_forms import CASES, random_cases
from tests.nightly import at_night
from tests.oracles.table import face_oracle


def reduced(case):
    return reduce_data(Data.validate(case.X, case.targets, bias=case.bias), case.output_bias)


def optimum(problem):
    """Certified bounds of the exact solver; its network may miss the points by rounding."""
    point = ColumnGeneration(problem, face_oracle(problem.rows), tol=1e-7).solve()
    return point.lower_bound, point.upper_bound


def noise(n, bias, seed):
    rng = np.random.default_rng(seed)
    inputs, targets = rng.standard_normal((n, 2)), rng.standard_normal(n)
    rows = np.column_stack([inputs, np.ones(n)]) if bias else inputs
    return ShallowProblem(rows / np.linalg.norm(rows, axis=1).max(), targets)


# ------------------------------------------------------------------ scalar outputs
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_closed_forms_are_reached(case):
    problem, reduction = reduced(case)
    point = solve_relaxation(problem)
    bound = 2.0 * reduction.value_scale * point.lower_bound
    assert bound <= case.cost * (1 + 1e-12)
    assert bound >= case.cost * (1 - 1e-5) - 1e-12


@pytest.mark.parametrize("count", [40, at_night(150)])
def test_never_above_the_optimum(count):
    for number, case in enumerate(random_cases(count, seed=5)):
        problem, _ = reduced(case)
        if not len(problem.rows) or not problem.targets.any():
            continue
        level = LEVELS[number // 3 % 4]
        point = solve_relaxation(problem, level=level, splits=int(number % 7 == 0))
        upper = optimum(problem)[1]
        assert point.lower_bound <= upper * (1 + 1e-10), (case.name, level)
        assert point.lower_bound >= 0.25 * upper, (case.name, level)
        assert point.gauge <= 1 + 1e-9


def test_the_first_order_method_is_never_above_either(monkeypatch):
    monkeypatch.setattr("covopt.solvers.relaxation.AFFORDABLE", 0.0)
    for case in random_cases(20, seed=6):
        problem, _ = reduced(case)
        if not len(problem.rows) or not problem.targets.any():
            continue
        point = solve_relaxation(problem, max_steps=150)
        assert point.n_steps % 50 == 0
        assert 0.0 <= point.lower_bound <= optimum(problem)[1] * (1 + 1e-10), case.name


@pytest.mark.thinned(2)
@pytest.mark.parametrize("seed", [1, 2])
def test_splits_reach_the_optimum_on_noise(seed):
    problem = noise(12, True, seed)
    point = solve_relaxation(problem, splits=3)
    lower, upper = optimum(problem)
    assert 0.93 * lower <= point.lower_bound <= upper


def test_each_tightening_raises_the_bound():
    problem = noise(8, True, 1)
    bounds = [solve_relaxation(problem, level=level).lower_bound for level in LEVELS]
    bounds.append(solve_relaxation(problem, level="cone", splits=2).lower_bound)
    assert all(later >= earlier * (1 - 1e-6) for earlier, later in itertools.pairwise(bounds))
    assert bounds[-1] > 1.2 * bounds[0]


def test_the_dual_proves_the_bound():
    problem = noise(10, True, 4)
    point = solve_relaxation(problem, splits=1)
    assert check_gauge(problem.rows, point.dual, point.certificate) == point.gauge <= 1 + 1e-12
    assert point.lower_bound == pytest.approx(point.dual @ problem.targets, rel=1e-10)
    assert face_oracle(problem.rows).price(point.dual).upper_bound <= point.gauge * (1 + 1e-9)


@pytest.mark.parametrize("output_bias", ["penalized", "free"])
def test_offsets(output_bias):
    rng = np.random.default_rng(7)
    data = Data.validate(rng.standard_normal((8, 2)), rng.standard_normal(8) + 2.0, bias=0.5)
    problem, _ = reduce_data(data, output_bias)
    point = solve_relaxation(problem, splits=2)
    lower, upper = optimum(problem)
    assert 0.95 * lower <= point.lower_bound <= upper
    if output_bias == "free":
        assert abs(point.dual.sum()) <= 1e-10 * np.abs(point.dual).sum()


def test_invariances():
    problem = noise(8, True, 2)
    value = solve_relaxation(problem).lower_bound
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    order = np.random.default_rng(2).permutation(8)
    turned = ShallowProblem((problem.rows @ turn)[order], problem.targets[order])
    assert solve_relaxation(turned).lower_bound == pytest.approx(value, rel=1e-3)
    flipped = ShallowProblem(100.0 * problem.rows, -3.0 * problem.targets)
    assert solve_relaxation(flipped).lower_bound == pytest.approx(0.03 * value, rel=1e-3)


# ------------------------------------------------------------------ vector outputs
def test_identity_with_a_completely_positive_root():
    # FL22 Prop 14: R₂ = 2 Tr (YYᵀ)^{1/2}
    factor = np.abs(np.random.default_rng(0).standard_normal((4, 6)))
    root = factor @ factor.T
    point = solve_relaxation(ShallowProblem(np.eye(4), root))
    assert point.lower_bound == pytest.approx(np.trace(root), rel=1e-5)
    assert point.lower_bound <= np.trace(root)


def test_one_hot_targets_on_the_identity():
    labels = np.array([0, 1, 1, 2, 2, 2])
    point = solve_relaxation(ShallowProblem(np.eye(6), np.eye(3)[labels]))
    assert point.lower_bound == pytest.approx(1 + np.sqrt(2) + np.sqrt(3), rel=1e-5)


def test_parallel_columns_are_the_scalar_problem():
    problem = noise(7, True, 3)
    doubled = ShallowProblem(problem.rows, np.outer(problem.targets, [0.6, 0.8]))
    lower, upper = optimum(problem)
    bound = solve_relaxation(doubled, splits=3).lower_bound
    assert 0.97 * lower <= bound <= upper


def test_doubly_nonnegative_but_not_completely_positive():
    # the pentagon: the doubly-nonnegative bound is Tr (YYᵀ)^{1/2} = 5, the optimum 5.033991; only splits see it
    steps = np.arange(5)
    targets = np.cos(4 * np.pi * (steps[:, None] - steps) / 5) ** 2
    problem = ShallowProblem(np.eye(5), targets)
    assert solve_relaxation(problem).lower_bound == pytest.approx(5.0, rel=1e-6)
    point = solve_relaxation(problem, splits=5)
    assert 5.0335 <= point.lower_bound <= 5.033992
    assert check_gauge(problem.rows, point.dual, point.certificate) <= 1 + 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_vector_bounds_stay_below_the_cost_of_networks_through_the_points(seed):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((7, 3)) if seed % 2 else rng.integers(-2, 3, (7, 3)) + 0.5
    neurons = rng.standard_normal((3, 3))
    neurons /= np.linalg.norm(neurons, axis=1, keepdims=True)
    weights = rng.standard_normal((3, 2))
    problem = ShallowProblem(rows, np.maximum(rows @ neurons.T, 0.0) @ weights)
    cost = float(np.linalg.norm(weights, axis=1).sum())
    for level in ("plain", "length"):
        assert 0.3 * cost <= solve_relaxation(problem, level=level).lower_bound <= cost * (1 + 1e-10)


@pytest.mark.parametrize("offset_cost", [0.0, 0.7])
def test_vector_offsets(offset_cost):
    rng = np.random.default_rng(9)
    rows, targets = rng.standard_normal((6, 3)), rng.standard_normal((6, 2)) + 1.0
    point = solve_relaxation(ShallowProblem(rows, targets, offset_cost), splits=1)
    without = solve_relaxation(ShallowProblem(rows, targets), splits=1)
    assert 0.0 < point.lower_bound <= without.lower_bound * (1 + 1e-6)
    if offset_cost == 0.0:
        np.testing.assert_allclose(point.dual.sum(axis=0), 0.0, atol=1e-10 * np.abs(point.dual).sum())


# ------------------------------------------------------------------ many rows, little time
def test_more_rows_than_may_carry_dual():
    problem = noise(20, True, 5)
    part = solve_relaxation(problem, max_rows=8, start_dual=problem.targets)
    assert np.count_nonzero(part.dual) <= 8
    assert part.lower_bound <= optimum(problem)[1]
    assert part.gauge <= 1 + 1e-9


def test_bracket_stops_when_it_is_close_enough_and_keeps_the_better_dual():
    problem = noise(8, True, 0)
    exact = ColumnGeneration(problem, face_oracle(problem.rows), tol=1e-6).solve()
    point = bracket(problem, dual=exact.dual, upper_bound=exact.upper_bound, tol=0.05)
    assert 0.95 * exact.upper_bound <= point.lower_bound <= exact.upper_bound
    assert point.n_regions < 20
    aligned = ShallowProblem(np.eye(3), np.array([3.0, 0.0, 0.0]))
    cut = bracket(aligned, dual=np.array([1.0, 0.0, 0.0]), upper_bound=3.0, time_limit_s=1e-3)
    assert cut.lower_bound == pytest.approx(3.0, rel=1e-4)


def test_a_time_limit_cuts_a_round_short():
    rng = np.random.default_rng(0)
    problem = ShallowProblem(rng.standard_normal((30, 12)), rng.standard_normal(30))
    point = solve_relaxation(problem, splits=9, time_limit_s=0.3)
    assert point.lower_bound >= 0.0
    assert check_gauge(problem.rows, point.dual, point.certificate) <= 1 + 1e-9


def test_zero_targets_cost_nothing():
    point = solve_relaxation(ShallowProblem(np.eye(3), np.zeros(3)))
    assert point.lower_bound == 0.0
    assert not point.dual.any()


@pytest.mark.parametrize("options", [{"level": "tight"}, {"splits": -2}, {"tol": 2.0}, {"time_limit_s": 0}])
def test_options_are_checked(options):
    with pytest.raises(InputError, match=next(iter(options))):
        solve_relaxation(ShallowProblem(np.eye(2), np.ones(2)), **options)


def test_nothing_is_claimed_before_anything_is_proved(monkeypatch):
    monkeypatch.setattr("covopt.solvers.relaxation.RelaxationRun.look", lambda *_: 1.0)
    point = solve_relaxation(ShallowProblem(np.eye(2), np.array([3.0, 4.0])))
    assert point.lower_bound == 0.0
    assert not point.dual.any()


def test_extreme_costs_are_solved_in_other_units():
    # two nearly parallel rows with different targets: λ in the thousands
    problem = ShallowProblem(np.array([[1.0, 0.0], [1.0, 1e-4], [0.0, 1.0]]), np.array([1.0, -1.0, 0.5]))
    lower, upper = optimum(problem)
    point = solve_relaxation(problem, splits=2)
    assert 0.9 * lower <= point.lower_bound <= upper * (1 + 1e-10)
