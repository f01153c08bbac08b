"""Branch and bound against the exact oracle, brute force and closed forms; its limits leave valid bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covopt.errors import InputError
from covopt.oracles.branch_and_bound import BranchAndBoundOracle
from covopt.oracles.local_search import LocalSearchOracle
from tests.oracles.table import face_oracle


def oracle(rows, **options):
    return BranchAndBoundOracle(rows, random_state=0, n_starts=options.pop("n_starts", 64), **options)


def height(rows, dual, neurons):
    return np.abs(np.maximum(neurons @ rows.T, 0.0) @ dual)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 14), st.booleans())
def test_scalar_pricing_is_that_of_all_faces(seed, r, n, integer):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-2, 3, (n, r)).astype(float) if integer else rng.standard_normal((n, r))
    rows = rows[np.linalg.norm(rows, axis=1) > 0]
    rank = np.linalg.matrix_rank(rows) if len(rows) else 0
    if rank < r:
        return
    dual = rng.integers(-3, 4, len(rows)).astype(float) if integer else rng.standard_normal(len(rows))
    truth = face_oracle(rows).price(dual)
    found = oracle(rows).price(dual)
    assert found.exact
    assert found.upper_bound == pytest.approx(truth.upper_bound, rel=1e-9, abs=1e-9)
    assert np.abs(truth.values).max(initial=0.0) <= found.upper_bound + 1e-13
    assert np.allclose(height(rows, dual, found.neurons), np.abs(found.values), atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_an_optimal_dual_has_many_equal_maxima(seed):
    """All of them have to be told apart from one bound: the hardest duals, and the ones that matter."""
    from covopt.problems.problem import Problem
    from covopt.solvers.generation import Generation

    rng = np.random.default_rng(seed)
    rows, targets = rng.standard_normal((14, 4)), rng.uniform(-1, 1, 14)
    problem = Problem.through(rows / np.linalg.norm(rows, axis=1).max(), targets)
    faces = face_oracle(problem.rows)
    dual = Generation(problem, faces, tol=1e-7).solve().dual[:, 0]
    found = oracle(problem.rows).price(dual)
    assert found.exact
    assert found.upper_bound == pytest.approx(faces.price(dual).upper_bound, rel=1e-9)


def test_rotation_scaling_and_order_change_nothing():
    rng = np.random.default_rng(4)
    rows, dual = rng.standard_normal((9, 4)), rng.standard_normal(9)
    value = oracle(rows).price(dual).upper_bound
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    order = rng.permutation(9)
    stretch = np.exp(rng.standard_normal(9))
    for other_rows, other_dual, factor in [
        (rows @ turn, dual, 1.0),
        (rows[order], dual[order], 1.0),
        (rows * stretch[:, None], dual / stretch, 1.0),
        (1e-3 * rows, 1e7 * dual, 1e4),
        (rows, -dual, 1.0),
    ]:
        found = oracle(other_rows).price(other_dual)
        assert found.exact
        assert found.upper_bound == pytest.approx(factor * value, rel=3e-10)
    assert oracle(1e-60 * rows).price(1e80 * dual).upper_bound == pytest.approx(1e20 * value, rel=1e-9)


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


@pytest.mark.parametrize("limits", [{"node_limit": 1}, {"node_limit": 5}, {"time_limit_s": 1e-9}])
def test_limits_leave_a_valid_bound(limits):
    rng = np.random.default_rng(6)
    for _ in range(2):
        rows = rng.standard_normal((11, 4))
        dual = rng.standard_normal(11)
        truth = oracle(rows).price(dual)
        assert truth.exact
        found = oracle(rows, n_starts=1, **limits).price(dual)
        assert abs(truth.values[0]) <= found.upper_bound
        assert found.exact == (found.upper_bound <= abs(found.values[0]) * (1 + 2e-10))
        trivial = np.abs(dual) @ np.linalg.norm(rows, axis=1)
        assert found.upper_bound <= trivial * (1 + 1e-9)


def test_an_interrupt_leaves_a_valid_bound(monkeypatch):
    from covopt.oracles.signs import sign_tree

    rng = np.random.default_rng(0)
    rows = rng.standard_normal((18, 6))
    dual = rng.standard_normal(18)
    truth = oracle(rows).price(dual).upper_bound
    calls = []

    def stop(*args, **options):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*args, **options)

    real = sign_tree.run_tree
    monkeypatch.setattr(sign_tree, "run_tree", stop)
    from covopt.oracles import branch_and_bound

    monkeypatch.setattr(branch_and_bound, "CHUNK", 1)
    found = oracle(rows, n_starts=1).price(dual)
    assert len(calls) == 2
    assert found.upper_bound >= truth * (1 - 1e-9)


def test_a_goal_ends_the_search_with_a_bound_that_holds():
    rng = np.random.default_rng(1)
    rows, dual = rng.standard_normal((25, 8)), rng.standard_normal(25)
    tight, loose = oracle(rows), oracle(rows, goal=1.5)
    dual /= abs(tight.price(dual).values[0])
    found = loose.price(dual)
    assert 1.0 <= found.upper_bound <= 1.5 and not found.exact
    assert loose.n_nodes < tight.n_nodes
    assert loose.price(2.0 * dual).upper_bound == pytest.approx(2.0, rel=1e-9)  # out of reach: the maximum


def test_threshold_max_neurons_and_better_incumbents():
    rng = np.random.default_rng(2)
    rows, dual = rng.standard_normal((20, 6)), rng.standard_normal(20)
    full = oracle(rows).price(dual)
    few = oracle(rows).price(dual, max_neurons=2)
    assert len(few.values) == 2
    assert (np.diff(np.abs(full.values)) <= 0).all()
    assert len(oracle(rows).price(dual, threshold=1e9).values) == 1
    blind = oracle(rows, n_starts=1)
    blind.local.search = lambda dual, **_: LocalSearchOracle(rows, n_starts=1).search(dual, max_neurons=1)
    assert abs(blind.price(dual).values[0]) == pytest.approx(abs(full.values[0]), rel=1e-9)
