"""The restricted master on columns that stay where they are, beside a cone program for the same."""

import cvxpy as cp
import numpy as np
import pytest

from covopt.losses import make_loss
from covopt.problems.problem import Problem
from covopt.solvers.master.newton import Master

TOL = 1e-8


def solved(problem, neurons):
    """Take Newton steps over columns none of which moves; return the outputs, weights and offset."""
    master = Master(problem)
    master.columns.append(neurons, live=False)
    first = problem.project_dual(problem.constant_dual()) if not problem.interpolates else master.dual
    tallest = np.linalg.norm(master.columns.atoms @ first, axis=1).max()
    master.dual = 0.5 / max(1.0, tallest) * first
    master.cones.add(master.heights, 1.0, 0.0)
    if master.edges is not None:
        master.enter_edges()
        master.edges.centre(1.0)
    for _ in range(80):
        value = max(problem.dual_value(master.dual), 1e-9)
        missed = master.step(0.1 * TOL, value, with_networks=False).residual
        if max(master.complementarity, missed * np.abs(master.dual).sum()) <= TOL * value:
            break
    weights, offset = master.cones.weights, master.shift()
    return master.columns.atoms.T @ weights + offset, weights, offset


def by_clarabel(problem, neurons):
    """The value of the best network of some neurons."""
    Y, n = problem.loss.targets.reshape(len(problem.rows), -1), len(problem.rows)
    v, B = cp.Variable((len(neurons), Y.shape[1])), cp.Variable((1, Y.shape[1]))
    F, cost = problem.atoms(neurons) @ v, cp.sum(cp.norm(v, 2, axis=1))
    if problem.has_offset:
        F, cost = F + np.ones((n, 1)) @ B, cost + 0.5 * problem.offset_cost * cp.sum_squares(B)
    if problem.interpolates:
        return cp.Problem(cp.Minimize(cost), [F == Y]).solve(solver=cp.CLARABEL)
    terms = {
        "squared": lambda: cp.sum_squares(F - Y), "huber": lambda: 0.5 * cp.sum(cp.huber(F - Y, 1.0)),
        "logistic": lambda: cp.sum(cp.logistic(-cp.multiply(Y, F))),
        "hinge": lambda: cp.sum(cp.pos(1.0 - cp.multiply(Y, F))),
    }[problem.loss.name]()  # fmt: skip
    return cp.Problem(cp.Minimize(terms / n / problem.strength + cost)).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("offset_cost", [np.inf, 0.7, 0.0])
@pytest.mark.parametrize(
    ("loss", "k"),
    [(None, 1), (None, 3), ("squared", 1), ("squared", 3), ("huber", 2), ("logistic", 1), ("hinge", 1)],
)
def test_interior_points_end_where_a_cone_program_does(loss, k, offset_cost):
    rng = np.random.default_rng(k)
    rows, neurons = rng.standard_normal((9, 3)), rng.standard_normal((25, 3))
    neurons /= np.linalg.norm(neurons, axis=1, keepdims=True)
    Y = 3.0 * rng.standard_normal((9, k))
    problem = Problem.through(rows, Y, offset_cost)
    if loss is not None:
        bound = make_loss(loss)
        bound.encode_targets(np.sign(Y[:, 0]) if loss in ("logistic", "hinge") else Y)
        problem = Problem(rows, bound, 0.05, offset_cost)
    found = solved(problem, neurons)
    value = problem.network_value(*found[1:]) if loss is None else problem.primal_value(*found)
    assert value == pytest.approx(by_clarabel(problem, neurons), rel=1e-6)
    assert loss is not None or np.abs(found[0] - Y).max() < 1e-7
