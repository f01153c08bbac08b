"""The solver by itself: bounds at every round, stopping, any oracle."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import covopt
from covopt.oracles.vector_faces import VectorFaceOracle
from covopt.problems.problem import Problem
from covopt.solvers.frank_wolfe import FrankWolfe
from covopt.solvers.generation import Generation
from covopt.status import Status
from tests.oracles.table import face_oracle

OFFSETS = [np.inf, 0.7, 0.0]


def problem(seed=0, n=30, offset_cost=np.inf, kind="noise"):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    rows = np.column_stack([X, np.ones(n)])
    rows /= np.linalg.norm(rows, axis=1).max()
    y = rng.standard_normal(n) if kind == "noise" else np.sin(2 * X[:, 0]) * X[:, 1]
    return Problem.through(rows, y / np.abs(y).max(), offset_cost)


@pytest.mark.parametrize("kind", ["noise", "smooth"])
@pytest.mark.parametrize("offset_cost", OFFSETS)
def test_the_bracket_closes_monotonically_around_the_optimum(offset_cost, kind):
    case = problem(offset_cost=offset_cost, kind=kind)
    states = []
    point = Generation(
        case,
        face_oracle(case.rows),
        tol=1e-9,
        random_state=0,
        callback=lambda s, _: states.append(s) or False,
    ).solve()
    assert point.status is Status.CERTIFIED
    assert point.gap <= 1e-9
    lower, upper = np.array([[s.lower_bound, s.upper_bound] for s in states]).T
    assert (np.diff(lower) >= 0).all()
    assert (upper[1:] <= upper[:-1]).all()
    assert (lower <= point.upper_bound * (1 + 1e-12)).all()
    assert (upper >= point.lower_bound * (1 - 1e-12)).all()
    # what it claims, recomputed
    assert np.abs(case.atoms(point.neurons) @ point.weights + point.offset - case.targets).max() <= 1e-9
    assert case.network_value(point.weights, point.offset) == pytest.approx(point.upper_bound, rel=1e-12)
    assert case.dual_value(point.dual) == pytest.approx(point.lower_bound, rel=1e-12)
    assert face_oracle(case.rows).price(case.asked(point.dual)).upper_bound <= 1 + 1e-12


@pytest.mark.parametrize(
    ("solver", "oracle", "loose"),
    [(Generation, face_oracle, 1.01), (partial(FrankWolfe, variant="sliding"), VectorFaceOracle, 1.5)],
)
def test_a_bound_that_is_too_large_costs_only_the_gap(solver, oracle, loose):
    """An oracle whose bound is loose leaves valid, looser brackets and never a false certificate."""
    case = problem(seed=2)
    if oracle is VectorFaceOracle:
        case = Problem.through(case.rows[:8], np.column_stack([case.targets[:8], case.targets[8:16]]))
    exact = oracle(case.rows)

    class Loose:
        def price(self, dual, **options):
            found = exact.price(dual, **options)
            return replace(found, upper_bound=loose * found.upper_bound, exact=False)

    optimum = solver(case, exact, tol=1e-9, random_state=0).solve()
    point = solver(case, Loose(), tol=1e-6, random_state=0, max_rounds=30).solve()
    assert point.status is Status.GAP
    assert point.lower_bound <= optimum.lower_bound / loose * (1 + 1e-6)
    assert point.upper_bound >= optimum.lower_bound * (1 - 1e-9)


def test_the_reason_for_patience_is_in_the_history(tmp_path):
    """Two neurons make a linear function, so the dual is flat, and single steps wander in it."""
    X = np.random.default_rng(0).standard_normal((60, 2))
    solution = covopt.min_norm(X, X @ [1.0, -2.0] + 0.5)
    assert solution.status is Status.CERTIFIED
    notes = [state["note"] for state in solution.history if "note" in state]
    assert len(notes) == 1 and notes[0].startswith(
        "restricted problems are solved before pricing from here on: "
    )
    solution.save(tmp_path / "linear.json")
    assert covopt.load(tmp_path / "linear.json").history == solution.history
    noise = covopt.min_norm(X[:20], np.random.default_rng(1).standard_normal(20))
    assert not any("note" in state for state in noise.history)


def test_single_steps_reach_nine_digits():
    """Networks once missed the points by what solves left over, and restricted problems had to be solved."""
    case = problem(n=250, kind="smooth")
    point = Generation(case, face_oracle(case.rows), tol=1e-9, random_state=0).solve()
    assert point.status is Status.CERTIFIED and point.gap <= 1e-9
    assert not any(state.note for state in point.history)
