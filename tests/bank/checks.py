"""What every answer to a problem of the bank must satisfy: one set of checks for all solvers."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from covopt import ReLUNetwork, Solution
from tests.bank.problems import Problem

ROUNDING, TOL = 1e-9, 1e-7


def parts(problem: Problem, network: ReLUNetwork) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Neurons (m, D), output weights (m, k) and offset B (1, k) of a network."""
    k = problem.targets.shape[1]
    return (
        network.hidden_weights.reshape(-1, problem.rows.shape[1]),
        network.output_weights.reshape(-1, k),
        np.reshape(network.bias * network.output_bias, (1, k)),
    )


def primal(problem: Problem, network: ReLUNetwork) -> tuple[float, np.ndarray]:
    """Objective and F, in the formulas of the bank."""
    neurons, weights, B = parts(problem, network)
    atoms = np.maximum(neurons @ problem.rows.T, 0.0)
    F = atoms.T @ weights + B
    # rounding may lift a row that lies on the hinge above it
    seen = 1e-10 * problem.arrangement.lengths * np.linalg.norm(neurons, axis=1)[:, None]
    atoms = np.where(atoms > seen, atoms, 0.0)
    sizes = problem.arrangement.weigh(neurons, atoms, problem.potential)
    cost = problem.kappa * float(np.linalg.norm(weights, axis=1) @ sizes) + problem.charge(B)
    return problem.value(F) + problem.lam * cost, F


def check_kkt(problem: Problem, network: ReLUNetwork, dual: np.ndarray, tol: float) -> None:
    """Feasible network and dual, equal values, and every summand of the gap small by itself.

    The gap is a sum of three terms, none of them negative: C(F) + C*(U) − ⟨U, F⟩ at U = −λκΛ, which is what
    stationarity leaves; λκ Σ_j(‖v_j‖ω(w_j) − ⟨v_j, Λᵀa_j⟩), complementarity: neurons that are used are tight; and
    λ‖B/β − βΛᵀ1‖² for a penalised output bias.

    Parameters
    ----------
    tol : float
        Relative to the problem's value.
    """
    dual = dual.reshape(problem.targets.shape)
    neurons, weights, B = parts(problem, network)
    objective, F = primal(problem, network)
    unit = problem.unit(objective)
    allowed = tol * unit
    if problem.loss is None:
        size = np.abs(problem.targets).max(initial=0.0) or 1.0
        assert np.abs(F - problem.targets).max() <= ROUNDING * size, "the network misses the points"
    if problem.output_bias == "none":
        assert not B.any(), "an output bias where there is none"

    height = problem.arrangement.dual_norm(dual, problem.potential)
    assert height <= 1 + ROUNDING, f"h(Λ) = {height}"
    rays = problem.arrangement.vertices()
    many = np.concatenate([np.random.default_rng(0).standard_normal((500, problem.rows.shape[1])), rays])
    atoms = np.maximum(many @ problem.rows.T, 0.0)
    if (
        problem.potential != "label-noise-exact"
    ):  # it jumps where a row meets the hinge: the dual norm above knows
        sizes = problem.arrangement.weigh(many, atoms, problem.potential)
        assert (np.linalg.norm(atoms @ dual, axis=1) <= (1 + ROUNDING) * sizes + 1e-12).all(), "h(Λ) > 1"
    if problem.output_bias == "free":
        assert np.abs(dual.sum(axis=0)).max() <= ROUNDING * max(np.abs(dual).max(), 1.0), "Λᵀ1 ≠ 0"

    U = -problem.price * dual
    inside = problem.clip(U)
    assert np.abs(U - inside).max(initial=0.0) <= ROUNDING, "Λ is outside of the domain"
    bound = problem.dual_value(dual)
    assert -ROUNDING * unit <= objective - bound <= allowed, f"objective {objective}, dual value {bound}"

    stationary = problem.value(F) + problem.conjugate(inside) - float((U * F).sum())
    assert -ROUNDING <= stationary <= allowed + ROUNDING, f"stationarity {stationary}"
    atoms = np.maximum(neurons @ problem.rows.T, 0.0)
    complementary = objective - problem.value(F) - problem.lam * problem.charge(B)
    complementary -= problem.price * float(np.einsum("mk,mn,nk->", weights, atoms, dual))
    assert -ROUNDING <= complementary <= allowed + ROUNDING, f"complementarity {complementary}"
    if problem.output_bias == "penalized":
        off = problem.lam * float(((B / problem.bias - problem.bias * dual.sum(axis=0)) ** 2).sum())
        assert off <= allowed + ROUNDING, f"b ≠ βΛᵀ1: {off}"


@cache
def solved(problem: Problem) -> Solution:
    """Column generation's answer: one solve for each problem, shared by all statements about it."""
    return problem.solve(tol=TOL)


@cache
def reference(problem: Problem) -> tuple[float, float]:
    """Values of a network and of a feasible dual: in closed form, or of an answer that is optimal by KKT."""
    if problem.known is not None:
        return problem.known, problem.known
    answer = solved(problem)
    check_kkt(problem, answer.network, answer.dual, TOL + ROUNDING)
    return primal(problem, answer.network)[0], best_multiple(problem, answer.dual)


def check_bracket(problem: Problem, answer: Solution) -> None:
    """Whatever the status: the stated numbers are those of the network and the dual, and enclose the reference."""
    objective, _ = primal(problem, answer.network)
    # Frank–Wolfe sums the squares, the bank takes their mean
    scale = float(len(problem.targets)) if getattr(answer.loss, "total", False) else 1.0
    known, proved = reference(problem)
    unit = problem.unit(known)
    upper, lower = answer.objective / scale, answer.lower_bound / scale
    assert upper == pytest.approx(objective, rel=1e-9, abs=1e-12 * unit)
    meets = problem.loss is not None or residual(problem, answer.network) <= ROUNDING
    assert not meets or upper >= proved - 1e-9 * unit, f"{upper} below {proved}"
    assert 0 <= lower <= known + 1e-9 * unit, f"{lower} above {known}"
    assert lower <= best_multiple(problem, answer.dual) + 1e-9 * unit, "the dual does not prove the bound"


def best_multiple(problem: Problem, dual: np.ndarray) -> float:
    """The best value of a feasible multiple of Λ."""
    dual = dual.reshape(problem.targets.shape)
    height = problem.arrangement.dual_norm(dual, problem.potential)
    most = 1.0 / height if height > 0 else 1.0
    U = -problem.price * most * dual
    if np.abs(problem.clip(U) - U).max() > ROUNDING:
        most = min(most, 1.0)  # the larger one leaves the domain of the conjugate
    options = {"bounds": (0.0, most), "options": {"xatol": 1e-12}}
    found = minimize_scalar(lambda t: -problem.dual_value(t * dual), **options)
    return max(-float(found.fun), problem.dual_value(most * dual))


def check_optimal(problem: Problem, answer: Solution, tol: float) -> None:
    """Certified within ``tol``, and optimal: so its values are those of the reference."""
    assert answer.status.code == "certified"
    assert answer.gap <= tol
    check_bracket(problem, answer)
    check_kkt(problem, answer.network, answer.dual, tol + ROUNDING)


def check_one_neuron_per_cell(rows: np.ndarray, neurons: np.ndarray, weights: np.ndarray) -> None:
    """SP20 Thm 4.2: two neurons of one sign are separated by a row, or one of them could take both."""
    rows = rows[rows.any(axis=1)]
    heights = neurons @ (rows / np.linalg.norm(rows, axis=1, keepdims=True)).T
    heights = heights / np.linalg.norm(neurons, axis=1, keepdims=True)
    sides = np.where(np.abs(heights) > 1e-10, np.sign(heights), 0.0)
    for j in range(len(weights)):
        for k in range(j):
            if weights[j] * weights[k] > 0:
                assert (sides[j] * sides[k] < 0).any(), f"neurons {k} and {j} share a cell"


def residual(problem: Problem, network: ReLUNetwork) -> float:
    missed = primal(problem, network)[1] - problem.targets
    return float(np.abs(missed).max(initial=0.0) / (np.abs(problem.targets).max(initial=0.0) or 1.0))
