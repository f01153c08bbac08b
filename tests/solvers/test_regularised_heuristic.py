"""Losses beyond the budget of faces: valid brackets, by branch and bound and by local search."""

import numpy as np
import pytest

import covopt
from covopt.data import Data
from covopt.limits import TimeUp
from covopt.losses import make_loss
from covopt.oracles.bounds import gauge_bound
from covopt.oracles.choose import exact_oracle
from covopt.oracles.steering import Steering
from covopt.problems.regularised import RegularisedProblem, reduce_fit
from covopt.solvers import brackets
from covopt.solvers.heuristic import FAR, BelievingGeneration, solve_heuristic
from covopt.solvers.regularised.generation import RegularisedGeneration
from covopt.status import Status


def instance(loss: str, n: int, d: int, classes: int = 2, lam: float = 1e-2, **options) -> RegularisedProblem:
    rng = np.random.default_rng(4)
    X, labels = rng.standard_normal((n, d)), np.arange(n) % classes
    X[0] = 0.0 if options.get("zero") else X[0]
    bound = make_loss(loss)
    targets = bound.encode_targets(labels)
    data = Data.validate(X, targets, bias=0.0 if options.get("zero") else 1.0, interpolates=False)
    return reduce_fit(data, bound, lam, "none")[0]


def optimum(problem: RegularisedProblem) -> float:
    live = problem.rows[problem.rows.any(axis=1)]
    oracle = exact_oracle(live, 0 if problem.n_outputs == 1 else problem.n_outputs)
    point = RegularisedGeneration(problem, oracle, tol=1e-8).solve()
    assert point.status is Status.CERTIFIED
    return point.lower_bound


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
@pytest.mark.parametrize("zero", [False, True], ids=["", "a row of zeros"])
def test_branch_and_bound_proves_what_the_faces_prove(loss, zero):
    problem = instance(loss, 9, 2, zero=zero)
    point = solve_heuristic(problem, tol=1e-6)
    assert point.status is Status.CERTIFIED and point.gap <= 1e-6
    best = optimum(problem)
    assert point.lower_bound <= best * (1 + 1e-7) and point.upper_bound >= best * (1 - 1e-7)


@pytest.mark.parametrize(("loss", "classes"), [("squared", 2), ("logistic", 2), ("softmax-cross-entropy", 3)])
def test_local_search_keeps_a_valid_bracket(loss, classes):
    problem = (
        instance(loss, 9 if loss == "squared" else 12, 2) if classes == 2 else instance(loss, 9, 1, classes)
    )
    seen = []
    point = solve_heuristic(problem, tol=1e-6, pricing_s=1e-9, callback=seen.append)
    assert point.status in (Status.HEURISTIC, Status.CERTIFIED)
    best = optimum(problem)
    assert 0 < point.lower_bound <= best * (1 + 1e-7)
    assert best * (1 - 1e-7) <= point.upper_bound <= 1.05 * best
    assert all(state.lower_bound <= best * (1 + 1e-7) <= state.upper_bound * (1 + 2e-7) for state in seen)


def test_no_claim_when_stopped_before_anything_is_proved():
    point = solve_heuristic(instance("squared", 30, 8), tol=1e-6, pricing_s=1e-9, callback=lambda _: True)
    assert point.status is Status.CALLBACK and 0 <= point.lower_bound <= point.upper_bound


def test_fit_goes_on_where_the_faces_are_too_many():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 8))
    solution = covopt.fit(
        X, X[:, 0] + X[:, 1] > 0, lam=0.05, loss="logistic", callback=lambda s: s.round >= 4
    )
    assert solution.solver.startswith("column-generation with ")
    assert 0 < solution.lower_bound <= solution.objective and solution.gap < 0.9
    assert (solution.status is Status.CERTIFIED) == (solution.gap <= solution.tol)
    assert covopt.verify(solution).ok


def test_a_neuron_that_was_missed_lowers_what_is_believed():
    """Else rounds go on from a dual that their own columns exclude."""
    problem = instance("squared", 12, 3)
    oracle = Steering(problem.rows, n_outputs=0, time_limit_s=1.0, random_state=0, trusted=True)
    generation = BelievingGeneration(problem, oracle, tol=1e-6)
    dual = generation.objective.first_dual()
    found = oracle.price(dual[:, 0])
    generation.point.dual, value = problem.scale_dual(dual, 0.5 * found.upper_bound)  # half of it was met
    generation.point.lower_bound = value
    generation.correct(found.neurons)
    heights = np.abs(problem.atoms(found.neurons).T @ generation.point.dual)
    assert heights.max() <= 1.0 + 1e-9
    assert 0.0 < generation.point.lower_bound < value


def test_brief_rounds_end_where_no_proof_is_in_reach():
    problem = instance("squared", 60, 8, lam=1e-3)
    point = solve_heuristic(problem, tol=1e-6, random_state=0, is_brief=True)
    assert point.is_early
    assert point.warm.feasible is None
    assert FAR / 2 < point.gap < 1.0


def test_a_deadline_within_the_bounds_keeps_the_network(monkeypatch):
    """A search for a better dual that was cut short by the solver's deadline once gave an empty network."""

    def late(*_):
        raise TimeUp

    monkeypatch.setattr(brackets, "sign_gauge", late)
    problem = instance("squared", 50, 9, lam=0.03)
    point = solve_heuristic(problem, tol=1e-3, pricing_s=1e-3, random_state=0)
    assert point.status is Status.HEURISTIC and len(point.neurons) > 0 and not point.claimed
    gauge = gauge_bound(problem.rows, point.dual[:, 0])
    assert 0.0 < point.lower_bound < point.upper_bound and gauge <= 1.0 + 1e-9


def test_more_dimensions_than_boxes_are_for_say_so_in_one_sentence(monkeypatch):
    monkeypatch.setattr(brackets, "MOST_QUADRATIC_DIMENSIONS", 8)  # 64 take longer to reach
    problem = instance("squared", 50, 9, lam=0.03)
    point = solve_heuristic(problem, tol=1e-3, pricing_s=1e-3, random_state=0)
    assert point.status is Status.HEURISTIC and 0.0 < point.lower_bound < point.upper_bound
    assert point.history[-1].note == (
        "boxes are for at most 64 dimensions (features, and one for the bias): the lower bound is a relaxation's"
    )
    assert point.history[-1].lower_bound == pytest.approx(point.lower_bound, rel=1e-9)
