r"""The restricted master near a solution: Newton's method in the outputs, an active set for the weights.

For one output and a loss of positive second derivative, around outputs F_k with Λ_k = −∇C(F_k)/μ and
D = (∇²C(F_k)/μ)⁻¹ (diagonal), the restricted problem has the dual

    min over Λ   ½(Λ − Λ_k)ᵀD(Λ − Λ_k) − F_kᵀ(Λ − Λ_k) + ½‖Gᵀ(Λ − Λ_c)‖² + ½κ(1ᵀΛ)²     s.t.  |⟨a_j, Λ⟩| ≤ 1

where G carries the curvature of the active faces around the centre Λ_c (see :mod:`covopt.solvers.master.newton`):
in the primal, neurons that move within their faces by η at the price ½‖η‖². D plus the few columns of G has a
symmetric root by one thin singular value decomposition, which turns the problem into the one below. With the squared
loss one step is exact.

**The active set** (:func:`solve_sparse`) is exact, and quick from a good start, for

    min over v   ½ ‖c − Aᵀv‖² + ‖v‖₁          (A: one atom per row)

Active columns keep their signs. Steps lead to the least-squares solution on them; a column whose weight would change
its sign leaves, and then the columns that violate |⟨a, c − Aᵀv⟩| ≤ 1 most enter, a few at a time. A tiny ridge ‖v‖²
keeps the system definite where columns are linearly dependent (as a pair ±w may be). Along directions that change no
output and reduce the norm, steps are then so long that a weight reaches zero, as in the simplex method.

The system is RᵀR, and the triangular factor R is updated with the active set: Householder reflections absorb the rows
below it (the parts of entering columns outside the span, or the row of a leaving column). The Gram matrix is never
formed: squares would round so small a ridge away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dtpqrt, dtrtrs

from covopt.exact.rank import FOUND, ROUGH
from covopt.exact.rounding import TINY
from covopt.limits import HALF
from covopt.problems.problem import Problem
from covopt.solvers.least_norm import SHIFT

BATCH = 16  # columns that enter, and reflections that are applied, at once
PATIENCE = 3  # rounds without progress after which only rounding error is left


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
    """Return whether the loss has one output and a positive second derivative, and no offset is free."""
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
    """Solve the restricted master over some neurons, warm-started at given weights.

    Parameters
    ----------
    problem : Problem
        One for which :func:`applies` holds.
    atoms : ndarray of shape (M, N)
    weights : ndarray of shape (M,)
    offset : float
        B.
    tol : float
        Relative decrease of the value in a Newton step at which to stop.
    curvature : Curvature, optional

    Returns
    -------
    NewtonPoint
    """
    curvature = curvature or Curvature(np.zeros((len(atoms.T), 0)), np.zeros(len(atoms.T)))
    # the cost of a move has a linear term where the centre is no local maximum of its face
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
    if not here <= at_nothing:  # weights far too large would leave rounding errors: start at zero
        (v, B, moves), F, here = nothing, outputs(*nothing), at_nothing
    while True:
        found = _model(problem, atoms, F, v, G, linear)
        if found is None:
            break
        step = found[0] - v, found[1] - B, found[2] - moves
        length, trial, there = 1.0, F, here
        while length > ROUGH:
            point = v + length * step[0], B + length * step[1], moves + length * step[2]
            trial = outputs(*point)
            there = value(trial, *point)
            if there <= here + 1e-15 * abs(here):
                break
            length *= HALF
        else:
            break  # only rounding error is left
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
    bend = np.maximum(bend, SHIFT * top)
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


def solve_sparse(atoms: np.ndarray, targets: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Minimise ½‖c − Aᵀv‖² + ‖v‖₁.

    Parameters
    ----------
    atoms : ndarray of shape (M, N)
        A.
    targets : ndarray of shape (N,)
        c.
    weights : ndarray of shape (M,), optional
        Warm start.

    Returns
    -------
    ndarray of shape (M,)
        v. Where v is not zero, ⟨a, c − Aᵀv⟩ is its sign; elsewhere it is at most 1 in absolute value. Both hold up to
        FOUND unless progress stopped or rounding errors are larger.

    Examples
    --------
    >>> solve_sparse(np.eye(2), np.array([3.0, 0.5]))
    array([2., 0.])
    """
    v = np.zeros(len(atoms)) if weights is None else weights.astype(float)
    signs, least, idle, steps = np.sign(v), np.inf, 0, 0
    ridge = math.sqrt(SHIFT) * float(np.linalg.norm(atoms, axis=1).max(initial=0.0))
    entering = np.argsort(-np.abs(v))[: np.count_nonzero(v)]  # the last column is the cheapest to leave
    held, triangle = entering[:0], np.zeros((0, 0))
    while True:
        residual = targets - v @ atoms
        value, slopes = 0.5 * float(residual @ residual) + float(np.abs(v).sum()), atoms @ residual
        idle = 0 if value < least - 1e-13 * abs(value) else idle + 1
        least = min(value, least)
        if steps or not len(entering):
            beyond = np.where(signs == 0.0, np.abs(slopes) - 1.0, np.abs(slopes - signs))
            worst = beyond.max(initial=0.0)
            if worst <= FOUND or idle >= PATIENCE:
                return v
            entering = np.flatnonzero((signs == 0.0) & (beyond > max(0.1 * worst, FOUND)))
            entering = entering[np.argsort(-beyond[entering])][: 1 if idle else BATCH]
            signs[entering] = np.sign(slopes[entering])
        if len(entering):
            rows, new = atoms[held] * signs[held, None], atoms[entering] * signs[entering, None]
            triangle = _enter(triangle, rows, new, ridge)
            held = np.concatenate([held, entering])
        sizes, pulls = v[held] * signs[held], 1.0 - slopes[held] * signs[held]
        while len(held):
            steps += 1
            falls = dtrtrs(triangle, dtrtrs(triangle, pulls, trans=1)[0])[0]
            shares = np.divide(sizes, falls, out=np.ones(len(held)), where=falls > sizes)
            length = float(shares.min())
            sizes = np.maximum(sizes - length * falls, 0.0)
            if length == 1.0:
                break
            stays = shares > length
            signs[held[~stays]] = 0.0
            triangle, held = _leave(triangle, stays), held[stays]
            sizes, pulls = sizes[stays], (1.0 - length) * pulls[stays]
        v[:] = 0.0
        v[held] = sizes * signs[held]


def _enter(triangle: np.ndarray, rows: np.ndarray, new: np.ndarray, ridge: float) -> np.ndarray:
    """Return the triangular factor after columns have entered."""
    n, more, outside = len(rows), len(new), new.T
    grown = np.zeros((n + more, n + more), order="F")
    if n:
        across = dtrtrs(triangle, rows @ new.T, trans=1)[0]
        inside = dtrtrs(triangle, across)[0]
        outside = np.concatenate([outside - rows.T @ inside, -ridge * inside])
        grown[:n, :n], grown[:n, n:] = triangle[:n], across
    grown[n:, n:] = dtpqrt(0, min(BATCH, more), ridge * np.eye(more), outside)[0]
    return grown


def _leave(triangle: np.ndarray, stays: np.ndarray) -> np.ndarray:
    """Return the triangular factor after columns have left; LAPACK ignores the stale rows below it."""
    first, n = int(stays.argmin()), int(stays.sum())
    triangle, stays = triangle[: len(stays), stays], stays[first:]
    below = triangle[first:, first:]
    if first < n:
        triangle[first:n, first:] = dtpqrt(0, min(BATCH, n - first), below[stays], below[~stays])[0]
    return triangle
