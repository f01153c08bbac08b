"""Branch and bound against the exact oracle, brute force and closed forms; its limits leave valid bounds."""

import numpy as np
import pytest

from covopt.errors import InputError
from covopt.oracles.branch_and_bound import BranchAndBoundOracle
from covopt.oracles.signs import sign_tree
from tests.oracles.table import face_oracle


def oracle(rows, **options):
    return BranchAndBoundOracle(rows, random_state=0, n_starts=options.pop("n_starts", 64), **options)


def test_an_optimal_dual_has_many_equal_maxima():
    """All of them have to be told apart from one bound: the hardest duals, and the ones that matter."""
    from covopt.problems.problem import Problem
    from covopt.solvers.generation import Generation

    rng = np.random.default_rng(0)
    rows, targets = rng.standard_normal((14, 4)), rng.uniform(-1, 1, 14)
    problem = Problem.through(rows / np.linalg.norm(rows, axis=1).max(), targets)
    faces = face_oracle(problem.rows)
    dual = Generation(problem, faces, tol=1e-7).solve().dual[:, 0]
    found = oracle(problem.rows).price(dual)
    assert found.exact
    assert found.upper_bound == pytest.approx(faces.price(dual).upper_bound, rel=1e-9)


def test_rows_that_do_not_matter_and_a_zero_dual():
    rng = np.random.default_rng(5)
    rows, dual = rng.standard_normal((30, 20)), np.zeros(30)
    dual[:6] = rng.standard_normal(6)
    found = oracle(rows).price(dual)
    assert found.exact
    assert found.upper_bound == pytest.approx(oracle(rows[:6]).price(dual[:6]).upper_bound, rel=3e-10)
    nothing = oracle(rows).price(np.zeros(30))
    assert nothing.upper_bound == 0.0 and nothing.exact
    with pytest.raises(InputError, match="one output"):
        oracle(rows).price(np.zeros((30, 2)))


def test_an_interrupt_leaves_a_valid_bound(monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((18, 6))
    dual = rng.standard_normal(18)
    truth = oracle(rows).price(dual).upper_bound
    real, calls = sign_tree.bound_node, []
    for last in (1, 2, 3, 4, 7):  # in the first root, the second, either part of a node

        def stop(*args, last=last):
            calls.append(1)
            if len(calls) == last:
                raise KeyboardInterrupt
            return real(*args)

        calls.clear()
        monkeypatch.setattr(sign_tree, "bound_node", stop)
        asked = oracle(rows, n_starts=1)
        assert asked.price(dual).upper_bound >= truth * (1 - 1e-9)
        assert asked.interrupted and len(calls) == last


def test_a_goal_ends_the_search_with_a_bound_that_holds():
    rng = np.random.default_rng(1)
    rows, dual = rng.standard_normal((25, 8)), rng.standard_normal(25)
    tight, loose = oracle(rows), oracle(rows, goal=1.5)
    dual /= abs(tight.price(dual).values[0])
    found = loose.price(dual)
    assert 1.0 <= found.upper_bound <= 1.5 and not found.exact
    assert loose.n_nodes < tight.n_nodes
    assert loose.price(2.0 * dual).upper_bound == pytest.approx(2.0, rel=1e-9)  # out of reach: the maximum
