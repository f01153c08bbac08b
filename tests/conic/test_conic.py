import numpy as np
import pytest

from covopt.conic import all_cells as conic
from covopt.conic.all_cells import ConicPoint, cell_matrix, facets, solve_conic
from covopt.problems.problem import Problem
from tests.bank.closed_forms import CASES, ProblemCase, all_cells, random_cases


def reduce_case(case: ProblemCase) -> tuple[Problem, np.ndarray, np.ndarray, float, float]:
    """Kept rows on a basis of their span, at size one: by hand, so that nothing else is tested."""
    rows, targets = case.lifted, case.targets
    keep: list[int] = []
    for i, row in enumerate(rows):
        if case.output_bias == "none":
            same = any(
                rows[k] @ row >= (1 - 1e-12) * np.linalg.norm(rows[k]) * np.linalg.norm(row) for k in keep
            )
            if not row.any() or same:
                continue
        elif any((rows[k] == row).all() for k in keep):
            continue
        keep.append(i)
    _, sizes, right = np.linalg.svd(rows[keep], full_matrices=False)
    basis = right[sizes > 1e-10 * sizes[0]].T
    reduced = rows[keep] @ basis
    row_scale, target_scale = np.linalg.norm(reduced, axis=1).max(), np.abs(targets).max() or 1.0
    offset_cost = {"none": np.inf, "free": 0.0}.get(case.output_bias)
    if offset_cost is None:
        offset_cost = row_scale * target_scale / case.bias**2
    problem = Problem.through(reduced / row_scale, targets[keep] / target_scale, offset_cost)
    return problem, np.array(keep), basis, row_scale, target_scale


def solve_case(case: ProblemCase, backend: str, tol: float, **options) -> tuple[ConicPoint, tuple]:
    problem, keep, basis, row_scale, target_scale = reduce_case(case)
    point = solve_conic(problem, all_cells(problem.rows), backend=backend, tol=tol, **options)
    dual = np.zeros(len(case.targets))
    dual[keep] = point.dual / row_scale
    weights = point.weights * target_scale / row_scale
    return point, (point.neurons @ basis.T, weights, point.offset * target_scale, dual)


@pytest.mark.parametrize("case", random_cases(16, seed=2), ids=lambda case: case.name)
def test_facets_describe_the_same_cells(case):
    problem = reduce_case(case)[0]
    cells = all_cells(problem.rows)
    few = facets(problem.rows, cells)
    rng = np.random.default_rng(0)
    points = rng.standard_normal((2 * len(cells), problem.rows.shape[1]))
    every = np.broadcast_to(problem.rows.any(axis=1), cells.shape)
    full = (cell_matrix(problem.rows, cells, every) @ points.ravel()).reshape(2 * len(cells), -1).min(axis=1)
    # cells and their facets only: a cone in r dimensions that is pointed has at least r of them
    assert (few.sum(axis=1) >= problem.rows.shape[1]).all()
    cell, _ = np.nonzero(few)
    slack = cell_matrix(problem.rows, cells, few) @ points.ravel()
    inside = np.full(2 * len(cells), np.inf)
    np.minimum.at(inside, np.concatenate([cell, cell + len(cells)]), slack)
    scale = np.abs(points).max()
    np.testing.assert_array_equal(inside >= -1e-9 * scale, full >= -1e-9 * scale)


def test_what_is_dropped_is_a_small_share(monkeypatch):
    problem = reduce_case(random_cases(8, seed=4)[6])[0]
    cells, found = all_cells(problem.rows), []
    for share in (0.0, 1e-3):
        monkeypatch.setattr(conic, "DROP", share)
        found.append(solve_conic(problem, cells).weights)
    everything, weights = found
    assert len(weights) < len(everything)
    assert np.abs(weights).sum() >= (1 - 1e-3) * np.abs(everything).sum()


def test_the_penalised_offset_equals_the_dual_sum():
    problem = Problem.through(np.array([[1.0, 1.0], [0.0, 1.0], [-1.0, 1.0]]), np.array([0.2, 1.0, 0.0]), 2.0)
    point = solve_conic(problem, all_cells(problem.rows))
    assert point.dual.sum() == pytest.approx(2.0 * point.offset, abs=1e-7)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.unique is not None], ids=lambda case: case.name
)
def test_uniqueness_in_the_bank_is_true(case):
    # The interior point has mass on every neuron that any minimiser uses, so these are all of them.
    _, (neurons, weights, _, _) = solve_case(case, "CLARABEL", 1e-10)
    atoms = np.maximum(case.lifted @ neurons.T, 0.0)[
        :, np.abs(weights) > 1e-4 * (np.abs(case.y).max() or 1.0)
    ]
    apart: list[np.ndarray] = []
    for atom in atoms.T:
        if not any(np.allclose(atom, other, atol=1e-3) for other in apart):
            apart.append(atom)
    if case.output_bias == "free":
        apart.append(np.ones(len(case.lifted)))
    independent = np.linalg.matrix_rank(np.array(apart), tol=1e-2) == len(apart) if apart else True
    assert independent == case.unique
