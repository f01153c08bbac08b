"""Column generation by itself: bounds at every round, folded products beside plain ones."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import covopt
from covopt.errors import Status
from covopt.oracles.vector_faces import VectorFaceOracle
from covopt.problems.problem import Problem
from covopt.solvers.frank_wolfe import FrankWolfe
from covopt.solvers.generation import Generation
from covopt.solvers.master.columns import Columns
from covopt.solvers.master.folding import Folding
from covopt.solvers.master.networks import interpolate
from tests.cases import drawn
from tests.oracles.table import face_oracle


def problem(seed=0, n=30, kind="noise"):
    rng, X = drawn(seed, (n, 2))
    rows = np.column_stack([X, np.ones(n)])
    rows /= np.linalg.norm(rows, axis=1).max()
    y = rng.standard_normal(n) if kind == "noise" else np.sin(2 * X[:, 0]) * X[:, 1]
    return Problem.through(rows, y / np.abs(y).max())


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
    columns.append(neurons)
    columns.append(np.concatenate([_vertices(rows, r), -_vertices(rows, r)]))
    m, rng = len(columns), np.random.default_rng(seed)
    dual, weights = rng.standard_normal((len(rows), 1)), 10.0 ** rng.uniform(-8.0, 8.0, m)
    weights[::7] = 0.0
    chosen = np.flatnonzero(columns.dims > 1)[::3]
    tangents = columns.tangents(dual, columns.atoms @ dual, chosen)
    scales = rng.uniform(size=len(tangents))
    beside = columns.tangent_rows(tangents, scales)
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


@pytest.mark.parametrize("seed", range(3))
def test_a_correction_leaves_out_the_neurons_whose_weights_would_turn(seed):
    rng = np.random.default_rng(seed)
    atoms = np.maximum(rng.standard_normal((40, 3)) @ rng.standard_normal((3, 12)), 0.0)
    sizes = np.where(np.arange(40) < 15, 1.0, 1e-3) * np.abs(rng.standard_normal(40))
    weights = (sizes * rng.choice([-1.0, 1.0], 40))[:, None]
    targets = atoms.T @ weights + 0.02 * rng.standard_normal((12, 1))
    found, _, _ = interpolate(atoms, targets, weights, np.zeros(1), has_offset=False)
    assert np.abs(atoms.T @ found - targets).max() <= 1e-11
    assert not (found * weights < 0.0).any() and not found.all()
