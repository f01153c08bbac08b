"""Column generation by itself: bounds at every round, the master beside a cone program, folded products."""

from dataclasses import replace
from functools import partial

import cvxpy as cp
import numpy as np
import pytest

import covopt
from covopt.losses import make_loss
from covopt.oracles.vector_faces import VectorFaceOracle
from covopt.problems.problem import Problem
from covopt.solvers.frank_wolfe import FrankWolfe
from covopt.solvers.generation import Generation
from covopt.solvers.master.columns import Columns
from covopt.solvers.master.folding import Folding
from covopt.solvers.master.newton import Master
from covopt.status import Status
from tests.cases import drawn
from tests.oracles.table import face_oracle


def problem(seed=0, n=30, offset_cost=np.inf, kind="noise"):
    rng, X = drawn(seed, (n, 2))
    rows = np.column_stack([X, np.ones(n)])
    rows /= np.linalg.norm(rows, axis=1).max()
    y = rng.standard_normal(n) if kind == "noise" else np.sin(2 * X[:, 0]) * X[:, 1]
    return Problem.through(rows, y / np.abs(y).max(), offset_cost)


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


# ---- the restricted master on columns that stay where they are, beside a cone program for the same.
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
    rng, rows, neurons = drawn(k, (9, 3), (25, 3))
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


# ------------------------------------------------------------- folded products against plain ones.
N_ROWS = 100


def _columns(seed: int, r: int, pairs: int, singles: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng, rows, some = drawn(seed, (N_ROWS, r), (pairs + singles, r))
    some /= np.linalg.norm(some, axis=1, keepdims=True)
    neurons = np.concatenate([some, -some[:pairs]])[rng.permutation(2 * pairs + singles)]
    return rows, neurons, np.maximum(neurons @ rows.T, 0.0)


@pytest.mark.parametrize("r", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_products_by_groups_are_the_plain_ones(monkeypatch, r, seed):
    monkeypatch.setattr("covopt.solvers.master.folding.GROUPED", 0)
    rows, neurons, _ = _columns(seed, r, 90, 40)
    columns = Columns(rows)
    columns.append_different(neurons)
    columns.append_different(np.concatenate([_vertices(rows, r), -_vertices(rows, r)]))
    m, rng = len(columns), np.random.default_rng(seed)
    dual, weights = rng.standard_normal((len(rows), 1)), 10.0 ** rng.uniform(-8.0, 8.0, m)
    weights[::7] = 0.0
    chosen = np.flatnonzero(columns.dims > 1)[::3]
    tangents = columns.tangents(dual, columns.atoms @ dual, chosen)
    scales = rng.uniform(size=len(tangents))
    beside = np.empty((len(tangents), len(rows)))
    columns.tangent_rows(tangents, scales, beside)
    folding = Folding(columns.atoms, columns.neurons, rows, weights)
    x, y = rng.standard_normal((len(rows), 2)), rng.standard_normal((m, 2))
    assert np.allclose(folding.times(x), columns.atoms @ x, rtol=0, atol=1e-12)
    assert np.allclose(folding.transposed(y), columns.atoms.T @ y, rtol=0, atol=1e-11)
    plain = (columns.atoms * weights[:, None]).T @ columns.atoms
    size = plain.max()
    moves = tangents.owner, tangents.directions * scales[:, None]
    assert np.allclose(np.tril(folding.gram(weights)), np.tril(plain), rtol=0, atol=1e-14 * size)
    found = folding.gram(weights, beside, moves)
    assert np.allclose(np.tril(found), np.tril(plain + beside.T @ beside), rtol=0, atol=1e-14 * size)


def _vertices(rows: np.ndarray, r: int) -> np.ndarray:
    """Neurons that rows are silent at: their atoms vanish where rounding says nothing."""
    found = np.linalg.svd(np.stack([rows[i : i + r - 1] for i in range(0, 40, 2)]))[2][:, -1]
    return np.ascontiguousarray(found)


def test_columns_without_neurons_and_nearly_opposite_ones_are_no_pairs():
    rows, neurons, atoms = _columns(3, 3, 100, 0)
    assert len(Folding(atoms, 0.0 * neurons, rows, np.ones(len(atoms))).atoms) == len(atoms)
    moved = neurons + 1e-12 * np.random.default_rng(0).standard_normal(neurons.shape)
    assert len(Folding(atoms, moved, rows, np.ones(len(atoms))).atoms) == len(atoms)
