r"""The restricted master near a solution: Newton's method in the outputs, an active set for the weights.

For one output and a loss of positive second derivative, around outputs F_k with Λ_k = −∇C(F_k)/μ and
D = (∇²C(F_k)/μ)⁻¹ (diagonal), the restricted problem has the dual

    min over Λ   ½(Λ − Λ_k)ᵀD(Λ − Λ_k) − F_kᵀ(Λ − Λ_k) + ½‖Gᵀ(Λ − Λ_c)‖² + ½κ(1ᵀΛ)²     s.t.  |⟨a_j, Λ⟩| ≤ 1

where G carries the curvature of the active faces around the centre Λ_c (see :mod:`covopt.solvers.master.newton`):
in the primal, neurons that move within their faces by η at the price ½‖η‖². D plus the few columns of G has a
symmetric root by one thin singular value decomposition, which turns the problem into the one of
:mod:`covopt.solvers.regularised.active_set`. With the squared loss one step is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covopt.losses.base import TINY
from covopt.problems.problem import Problem
from covopt.solvers.regularised.active_set import solve_sparse

FLAT = 1e-14  # second derivative, relative to the largest, below which a sample is not resolved
MAX_STEPS = 12
HALVINGS = 6


@dataclass(frozen=True)
class Curvature:
    """A quadratic term ½(λ − centre)ᵀ factor factorᵀ (λ − centre)."""

    factor: np.ndarray
    centre: np.ndarray


@dataclass(frozen=True)
class NewtonPoint:
    """Solution of the restricted problem.

    Attributes
    ----------
    dual : ndarray of shape (N, 1)
        −∇C/μ at the outputs of the model.
    weights : ndarray of shape (M,)
    offset : float
    moves : ndarray of shape (g,) or None
        η = Gᵀ(Λ − Λ_c).
    """

    dual: np.ndarray
    weights: np.ndarray
    offset: float
    moves: np.ndarray | None


def applies(problem: Problem) -> bool:
    """Whether the loss has one output and a positive second derivative, and the offset costs something."""
    return problem.n_outputs == 1 and problem.loss.is_strictly_convex and not problem.is_free


def solve_newton_master(
    problem: Problem,
    atoms: np.ndarray,
    weights: np.ndarray,
    offset: float,
    *,
    tol: float,
    curvature: Curvature | None = None,
) -> NewtonPoint:
    """Solve the problem restricted to some neurons, from the weights that they have.

    Parameters
    ----------
    problem : Problem
        One for which :func:`applies` holds.
    atoms : ndarray of shape (M, N)
    weights : ndarray of shape (M,)
    offset : float
        B.
    tol : float
        Decrease that Newton's model may still promise at the end, relative to the value.
    curvature : Curvature, optional

    Returns
    -------
    NewtonPoint
    """
    curvature = curvature or Curvature(np.zeros((len(atoms.T), 0)), np.zeros(len(atoms.T)))
    # the price of a move is linear as well where the centre is no local maximum of its face
    G, linear = curvature.factor, curvature.factor.T @ curvature.centre
    v, B, moves = weights, offset, np.zeros(len(linear))

    def outputs(v, B, moves):
        return (atoms.T @ v + B + G @ moves)[:, None]

    def value(F, v, B, moves):
        return (
            problem.primal_value(F, v[:, None], np.array([B]))
            + 0.5 * float(moves @ moves)
            + float(linear @ moves)
        )

    F = outputs(v, B, moves)
    here = value(F, v, B, moves)
    nothing = np.zeros_like(v), 0.0, moves
    at_nothing = value(outputs(*nothing), *nothing)
    if not here <= at_nothing:  # weights far too large would leave their rounding behind
        (v, B, moves), F, here = nothing, outputs(*nothing), at_nothing
    for _ in range(MAX_STEPS):
        found = _model(problem, atoms, F, v, G, linear)
        if found is None:
            break
        step = found[0] - v, found[1] - B, found[2] - moves
        length, trial, there = 1.0, F, here
        for _ in range(HALVINGS):
            point = v + length * step[0], B + length * step[1], moves + length * step[2]
            trial = outputs(*point)
            there = value(trial, *point)
            if there <= here + 1e-15 * abs(here):
                break
            length *= 0.5
        else:
            break  # rounding, or as good as it gets
        fallen = here - there
        (v, B, moves), F, here = point, trial, there
        if problem.loss.is_quadratic or fallen <= tol * abs(here):
            break
    return NewtonPoint(problem.dual_of(F), v, B, moves if len(moves) else None)


def _model(problem: Problem, atoms, F, v, G, linear):
    """Minimise the quadratic model around the outputs F; weights, offset and moves."""
    bend = _second_derivative(problem, F)
    top = float(bend.max(initial=0.0))
    if not np.isfinite(top) or top <= 0.0:
        return None
    bend = np.maximum(bend, FLAT * top)
    root = 1.0 / np.sqrt(bend)  # of D
    offset = np.full((len(root), int(problem.kappa > 0.0)), np.sqrt(problem.kappa))
    beside = np.concatenate([G, offset], axis=1) / root[:, None]
    left, values, _ = np.linalg.svd(beside, full_matrices=False)
    shrink = 1.0 - 1.0 / np.sqrt(1.0 + values**2)
    c = F[:, 0] / root + root * problem.dual_of(F)[:, 0] + (G @ linear) / root
    scaled = np.vstack([atoms / root, c])
    scaled -= ((scaled @ left) * shrink) @ left.T
    weights = solve_sparse(scaled[:-1], scaled[-1], v)
    x = scaled[-1] - weights @ scaled[:-1]
    dual = (x - left @ (shrink * (left.T @ x))) / root
    return weights, problem.kappa * float(dual.sum()), G.T @ dual - linear


def _second_derivative(problem: Problem, F: np.ndarray) -> np.ndarray:
    """Diagonal of ∇²C(F)/μ, shape (N,)."""
    bend = problem.loss.hessian(problem.raise_outputs(F)) / max(problem.strength, TINY)
    if bend.ndim == 3:
        assert problem.outputs is not None
        direction = problem.outputs[:, 0]
        return np.einsum("c,icd,d->i", direction, bend, direction)
    return np.broadcast_to(bend, F.shape)[:, 0]
