"""The restricted master: KKT conditions, one output as a cone, faces and their curvature, against brute force."""

import numpy as np
import pytest

from covopt.problems.problem import Problem
from covopt.solvers.master.columns import Columns
from covopt.solvers.master.cones import Cones
from covopt.solvers.seeds import random_vertices
from tests.solvers.restricted import solve_restricted


def case(k, offset_cost, seed=0, n=12):
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.standard_normal((n, 2)), np.ones(n)])
    rows /= np.linalg.norm(rows, axis=1).max()
    targets = rng.standard_normal((n, k))
    problem = Problem.through(rows, targets, offset_cost)
    return problem, problem.atoms(random_vertices(rows, 3 * n, rng)).T


def test_one_output_is_a_cone_of_two_dimensions():
    """The same first step: slacks, multipliers and dual, by Nesterov and Todd's scaling and by two slacks."""
    problem, atoms = case(1, np.inf)
    box = solve_restricted(problem, atoms, np.zeros((12, 1)), tol=1e-9, max_steps=0)
    cone = solve_restricted(problem, atoms, np.zeros((12, 1)), tol=1e-9, max_steps=0)
    cone.cones = Cones(1)
    cone.cones.add(cone.heights, 2.0, 0.0)  # of two products
    for _ in range(3):
        box.step(1e-3, 1.0, with_networks=False)
        cone.step(1e-3, 1.0, with_networks=False)
        assert cone.complementarity == pytest.approx(box.complementarity, rel=0.5)
    assert np.sign(cone.dual).ravel() @ np.sign(box.dual).ravel() >= 10
    np.testing.assert_allclose(cone.dual, box.dual, atol=0.2 * np.abs(box.dual).max())


@pytest.mark.parametrize("k", [1, 2])
def test_a_violated_column_enters_and_is_satisfied_in_the_end(k):
    problem, atoms = case(k, np.inf)
    master = solve_restricted(problem, atoms, np.zeros((12, k)), tol=1e-4)
    late = np.full((1, 12), 0.5)
    height = float(np.linalg.norm(late @ master.dual))
    late *= 1.3 / height
    columns = master.columns
    columns.atoms = np.concatenate([columns.atoms, late])
    for name in ("neurons", "frames", "dims", "live"):
        old = getattr(columns, name)
        setattr(columns, name, np.concatenate([old, old[:1]]))
    master.cones.add(late @ master.dual, master.level, 0.03)
    for _ in range(60):
        step = master.step(1e-9, 1.0, with_networks=False)
        if master.complementarity < 1e-8 and step.residual < 1e-8:
            break
    assert np.linalg.norm(master.heights, axis=1).max() <= 1 + 1e-7
    whole = solve_restricted(problem, columns.atoms, np.zeros((12, k)), tol=1e-9)
    assert problem.dual_value(master.dual) == pytest.approx(problem.dual_value(whole.dual), rel=1e-6)


@pytest.mark.parametrize("k", [1, 3])
def test_a_column_slides_to_the_best_neuron_of_its_face(k):
    rng = np.random.default_rng(3)
    rows = np.column_stack([rng.standard_normal((8, 2)), np.ones(8)])
    dual = np.abs(rng.standard_normal((8, k)))
    columns = Columns(rows)
    units = rng.standard_normal((300, 3))
    columns.append(units / np.linalg.norm(units, axis=1, keepdims=True))
    patterns = columns.atoms > 0
    before = np.linalg.norm(columns.atoms @ dual, axis=1)
    columns.slide(dual)
    after = np.linalg.norm(columns.atoms @ dual, axis=1)
    moved = columns.live
    assert moved.any()
    assert (~moved).any()
    assert (after[moved] >= before[moved] - 1e-12).all()
    np.testing.assert_array_equal(after[~moved], before[~moved])
    np.testing.assert_array_equal(columns.atoms > 0, patterns)
    np.testing.assert_allclose(columns.atoms, np.maximum(columns.neurons @ rows.T, 0), atol=1e-12)
    for j in np.flatnonzero(moved):
        form = (rows * patterns[j][:, None]).T @ dual
        assert after[j] == pytest.approx(np.linalg.svd(form, compute_uv=False)[0], rel=1e-9)
    frames = columns.frames @ columns.frames.transpose(0, 2, 1)
    np.testing.assert_allclose(frames, np.broadcast_to(np.eye(3), frames.shape), atol=1e-12)
    np.testing.assert_allclose(columns.frames[:, 0], columns.neurons, atol=1e-12)


@pytest.mark.parametrize("k", [1, 2])
def test_tangents_are_the_curvature_of_the_face(k):
    """Second difference of the face's top singular value = that of ‖Λᵀa‖ plus the squared tangent rows."""
    rng = np.random.default_rng(5)
    rows = np.column_stack([rng.standard_normal((7, 2)), np.ones(7)])
    dual = np.abs(rng.standard_normal((7, k)))
    columns = Columns(rows)
    units = rng.standard_normal((200, 3))
    columns.append(units / np.linalg.norm(units, axis=1, keepdims=True))
    columns.slide(dual)
    heights = columns.atoms @ dual
    size = np.linalg.norm(heights, axis=1)
    j = int(np.flatnonzero(columns.live & (size > 0.3))[0])
    tangents = columns.tangents(dual, heights, np.array([j]))
    out = np.empty((len(tangents), dual.size))
    columns.tangent_rows(tangents, np.ones(len(tangents)), out)
    change = rng.standard_normal(dual.shape)
    active = rows * (columns.atoms[j] > 0)[:, None]
    step = 1e-4

    def second(function):
        values = [function(dual + t * step * change) for t in (-1, 0, 1)]
        return (values[0] - 2 * values[1] + values[2]) / step**2

    whole = second(lambda point: np.linalg.svd(active.T @ point, compute_uv=False)[0])
    fixed = second(lambda point: np.linalg.norm(columns.atoms[j] @ point))
    assert whole - fixed == pytest.approx(float(((out @ change.ravel()) ** 2).sum()), rel=1e-4, abs=1e-6)
