"""The restricted master with vector outputs: a dense interior-point method over second-order cones.

    min over Λ   −⟨Y, Λ⟩ + ½κ‖Λᵀ1‖²     s.t.  ‖Λᵀ a_j‖ ≤ 1   (Λᵀ1 = 0 if the offset is free)

with one atom a_j per row of A and κ = 1/ρ: a group basis pursuit seen from its dual. The cone variables are
s_j = (1, Λᵀa_j) and z_j = (τ_j, −v_j) with the output weights v_j, and Y = κ11ᵀΛ + Σ a_j v_jᵀ. Each step takes
Nesterov and Todd's scaling W_j = η_j [[w₀, w₁ᵀ], [w₁, I + w₁w₁ᵀ/(1 + w₀)]], whose squared inverse has the lower block
(I + 2w₁w₁ᵀ)/η², so the normal matrix on vec Λ is

    (Aᵀ diag(η⁻²) A + κ11ᵀ) ⊗ I + 2 Σ_j η_j⁻² (a_j ⊗ w₁)(a_j ⊗ w₁)ᵀ :

two symmetric products and one Cholesky factorisation (Vandenberghe's notes on the CVXOPT solvers; Domahidi et al.
2013, ECOS). Mehrotra's predictor and corrector; solves refined on the product form as in the scalar master.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotrs

from covopt.solvers.gram import weighted_gram
from covopt.solvers.interior_point import REGULARISATIONS, basis_of_centred

MAX_STEPS = 60
TINY = 1e-300


@dataclass(frozen=True)
class GroupPoint:
    """Strictly feasible dual Λ and output weights of the restricted problem.

    Attributes
    ----------
    dual : ndarray of shape (N, k)
    weights : ndarray of shape (M, k)
        v_j.
    masses : ndarray of shape (M,)
        τ_j ≥ ‖v_j‖.
    offset : ndarray of shape (k,)
    gap : float
        Complementarity Σ τ_j − v_j·Λᵀa_j, relative to the objective.
    steps : int
    """

    dual: np.ndarray
    weights: np.ndarray
    masses: np.ndarray
    offset: np.ndarray
    gap: float
    steps: int


class _Scaling:
    """Nesterov–Todd scaling of all cones: s = (1, u) and z = (τ, −v)."""

    def __init__(self, u: np.ndarray, tau: np.ndarray, v: np.ndarray):
        s_det = np.sqrt(
            np.maximum((1.0 - np.linalg.norm(u, axis=1)) * (1.0 + np.linalg.norm(u, axis=1)), TINY)
        )
        size = np.linalg.norm(v, axis=1)
        z_det = np.sqrt(np.maximum((tau - size) * (tau + size), TINY))
        s0, s1 = 1.0 / s_det, u / s_det[:, None]
        z0, z1 = tau / z_det, -v / z_det[:, None]
        gamma = np.sqrt(np.maximum((1.0 + s0 * z0 + np.einsum("jk,jk->j", s1, z1)) / 2.0, 0.5))
        self.w0 = (s0 + z0) / (2.0 * gamma)
        self.w1 = (s1 - z1) / (2.0 * gamma)[:, None]
        self.eta = np.sqrt(s_det / z_det)
        self.l0, self.l1 = self.apply(tau, -v)

    def apply(self, x0, x1):
        """W x."""
        inner = np.einsum("jk,jk->j", self.w1, x1)
        y0 = self.w0 * x0 + inner
        y1 = x1 + self.w1 * (x0 + inner / (1.0 + self.w0))[:, None]
        return self.eta * y0, self.eta[:, None] * y1

    def invert(self, x0, x1):
        """W⁻¹ x."""
        inner = np.einsum("jk,jk->j", self.w1, x1)
        y0 = self.w0 * x0 - inner
        y1 = x1 + self.w1 * (inner / (1.0 + self.w0) - x0)[:, None]
        return y0 / self.eta, y1 / self.eta[:, None]

    def divide(self, d0, d1):
        """Solve λ ∘ x = d for the Jordan product, λ the scaled point."""
        size = np.linalg.norm(self.l1, axis=1)
        det = np.maximum((self.l0 - size) * (self.l0 + size), TINY)
        inner = np.einsum("jk,jk->j", self.l1, d1)
        x0 = (self.l0 * d0 - inner) / det
        x1 = d1 / self.l0[:, None] - self.l1 * (x0 / self.l0)[:, None]
        return x0, x1


def _product(a0, a1, b0, b1):
    """Jordan product of two arrays of cone vectors."""
    return a0 * b0 + np.einsum("jk,jk->j", a1, b1), a0[:, None] * b1 + b0[:, None] * a1


class _Normal:
    """The normal matrix, factored, with solves refined on the product form."""

    def __init__(self, atoms: np.ndarray, scaling: _Scaling, kappa: float, refine_tol: float):
        self.atoms, self.kappa, self.refine_tol = atoms, kappa, refine_tol
        self.diagonal = scaling.eta**-2.0
        self.w1 = scaling.w1
        n, k = atoms.shape[1], scaling.w1.shape[1]
        plain = weighted_gram(atoms, self.diagonal)
        if kappa:
            plain += kappa
        paired = (atoms[:, :, None] * scaling.w1[:, None, :]).reshape(len(atoms), n * k)
        matrix = weighted_gram(paired, 2.0 * self.diagonal)
        for p in range(k):
            matrix[p::k, p::k] += plain
        mean = float(np.trace(matrix)) / len(matrix)
        for size in REGULARISATIONS:
            regular = matrix.copy(order="F")
            regular[np.diag_indices_from(regular)] += size * mean
            self.factor, failed = dpotrf(regular, lower=1, clean=0, overwrite_a=1)
            if not failed:
                return
        raise LinAlgError("the normal matrix could not be factored")

    def _apply(self, x: np.ndarray) -> np.ndarray:
        change = self.atoms @ x
        inner = 2.0 * np.einsum("jk,jk->j", self.w1, change)
        out = self.atoms.T @ (self.diagonal[:, None] * (change + inner[:, None] * self.w1))
        return out + self.kappa * x.sum(axis=0) if self.kappa else out

    def _precondition(self, rhs: np.ndarray) -> np.ndarray:
        return dpotrs(self.factor, rhs.ravel(), lower=1)[0].reshape(rhs.shape)

    def solve(self, rhs: np.ndarray, max_refinements: int = 4) -> np.ndarray:
        x = self._precondition(rhs)
        residual = rhs - self._apply(x)
        size = np.linalg.norm(rhs)
        direction, old = np.zeros_like(x), 1.0
        for step in range(max_refinements):
            if np.linalg.norm(residual) <= self.refine_tol * size:
                break
            preconditioned = self._precondition(residual)
            new = float(np.vdot(residual, preconditioned))
            direction = preconditioned + (new / old if step else 0.0) * direction
            applied = self._apply(direction)
            curvature = float(np.vdot(direction, applied))
            if not curvature > 0 or not np.isfinite(curvature):
                break
            x = x + new / curvature * direction
            residual = residual - new / curvature * applied
            old = new
        return x


def _step_length(x0, x1, d0, d1) -> float:
    """Largest step in [0, 1] that keeps x + t·d in the second-order cones."""
    a = d0**2 - np.einsum("jk,jk->j", d1, d1)
    b = x0 * d0 - np.einsum("jk,jk->j", x1, d1)
    size = np.linalg.norm(x1, axis=1)
    c = np.maximum((x0 - size) * (x0 + size), 0.0)
    # smallest positive root of a t² + 2 b t + c, with c ≥ 0
    root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.where((a < 0) | ((b < 0) & (b**2 >= a * c)), c / (root - b), np.inf)
    step = np.where(np.isnan(step) | (step < 0), np.inf, step)
    falling = d0 < 0
    step = np.minimum(step, np.where(falling, x0 / np.where(falling, -d0, 1.0), np.inf))
    return min(1.0, float(step.min(initial=1.0)))


def solve_group_master(
    atoms: np.ndarray,
    targets: np.ndarray,
    start: np.ndarray,
    *,
    offset_cost: float = np.inf,
    tol: float = 1e-8,
    weights: np.ndarray | None = None,
    masses: np.ndarray | None = None,
    max_steps: int = MAX_STEPS,
    deadline: float | None = None,
) -> GroupPoint:
    """Solve the restricted dual to a relative complementarity of ``tol``.

    Parameters
    ----------
    atoms : ndarray of shape (M, N)
        One atom per row; their span must contain the targets (with the constant, if there is an offset).
    targets : ndarray of shape (N, k)
    start : ndarray of shape (N, k)
        A strictly feasible Λ (‖Λᵀa_j‖ < 1; columns of mean zero when the offset is free).
    offset_cost : float
        ρ of :class:`~covopt.problems.shallow.ShallowProblem`.
    tol : float
        Relative to the dual objective.
    weights : ndarray of shape (M, k), optional
        Output weights to start from; their masses are lifted to the central path.
    masses : ndarray of shape (M,), optional
        The masses τ that go with them.
    max_steps : int
    deadline : float, optional
        Reading of ``time.perf_counter`` after which no further step is begun.

    Returns
    -------
    GroupPoint
    """
    if offset_cost == 0:
        basis = basis_of_centred(len(targets))
        found = solve_group_master(
            atoms @ basis, basis.T @ targets, basis.T @ start, tol=tol, weights=weights, masses=masses,
            max_steps=max_steps, deadline=deadline,
        )  # fmt: skip
        offset = (targets - atoms.T @ found.weights).mean(axis=0)
        return replace(found, dual=basis @ found.dual, offset=offset)
    kappa = 0.0 if np.isinf(offset_cost) else 1.0 / offset_cost
    m = len(atoms)
    refine_tol = float(np.clip(1e-6 * tol, 1e-13, 1e-8))
    dual = start.copy()
    u = atoms @ dual
    scale = max(float(np.vdot(targets, dual)), 1e-3 * float(np.abs(targets).mean()), TINY)
    v, tau = _start(u, weights, masses, scale, tol)
    ones, zeros = np.ones(m), np.zeros(m)
    gap = last_left = np.inf
    steps = stalled = 0
    for steps in range(1, max_steps + 1):  # noqa: B007
        residual = targets - atoms.T @ v
        if kappa:
            residual = residual - kappa * dual.sum(axis=0)
        complementarity = float(tau.sum() - np.vdot(u, v))
        value = max(abs(float(np.vdot(targets, dual))), scale)
        gap = complementarity / value
        left = float(np.abs(residual).sum())
        stalled = stalled + 1 if left > 0.5 * last_left else 0
        if gap <= tol and (left <= max(tol, 1e-11) * np.abs(targets).sum() or stalled >= 3):
            break
        last_left = left
        if deadline is not None and time.perf_counter() > deadline:
            break
        scaling = _Scaling(u, tau, v)
        try:
            normal = _Normal(atoms, scaling, kappa, refine_tol)
        except LinAlgError:  # as far as double precision goes
            break
        # predictor: straight to complementarity zero
        _, change, dtau, dv = _direction(normal, scaling, atoms, residual, -scaling.l0, -scaling.l1)
        alpha = _step_length(ones, u, zeros, change)
        beta = _step_length(tau, v, dtau, dv)
        reached = float(np.sum(tau + beta * dtau) - np.vdot(u + alpha * change, v + beta * dv))
        centring = min(max(reached / complementarity, 1e-12), 1.0) ** 3
        mean = max(complementarity / m, TINY)
        # corrector, with the second-order term of the predictor
        s0, s1 = scaling.invert(zeros, change)
        z0, z1 = scaling.apply(dtau, -dv)
        c0, c1 = _product(s0, s1, z0, z1)
        d0, d1 = _product(scaling.l0, scaling.l1, scaling.l0, scaling.l1)
        t0, t1 = scaling.divide(centring * mean - d0 - c0, -d1 - c1)
        step, change, dtau, dv = _direction(normal, scaling, atoms, residual, t0, t1)
        if not (np.isfinite(change).all() and np.isfinite(dv).all() and np.isfinite(dtau).all()):
            break
        alpha, beta = _step_length(ones, u, zeros, change), _step_length(tau, v, dtau, dv)
        damping = min(max(0.9, 1.0 - centring) if centring < 0.5 else 0.9, 0.9999)
        alpha, beta = min(1.0, damping * alpha), min(1.0, damping * beta)
        if kappa:
            alpha = beta = min(alpha, beta)  # with a quadratic term the residual falls only at equal steps
        dual = dual + alpha * step
        u = atoms @ dual
        v, tau = v + beta * dv, tau + beta * dtau
        tau = np.maximum(tau, np.linalg.norm(v, axis=1) * (1 + 1e-15) + TINY)
        if max(alpha, beta) < 1e-7 or np.linalg.norm(u, axis=1).max() >= 1.0:
            break
    return GroupPoint(dual, v, tau, kappa * dual.sum(axis=0), gap, steps)


def _direction(normal, scaling, atoms, residual, t0, t1):
    """Newton direction for W dz + W⁻¹ ds = t: the steps of Λ, of Λᵀa_j, of the masses and of the weights."""
    shift = scaling.invert(t0, t1)[1]
    step = normal.solve(residual + atoms.T @ shift)
    change = atoms @ step
    s0, s1 = scaling.invert(np.zeros(len(atoms)), change)
    z0, z1 = scaling.invert(t0 - s0, t1 - s1)
    return step, change, z0, -z1


def _start(u, weights, masses, scale, tol):
    """Return multipliers inside their cones, near the central path where nothing better is known."""
    m = len(u)
    slack = np.maximum(1.0 - np.einsum("jk,jk->j", u, u), 1e-16)
    if weights is None:
        tau = scale / m / slack
        return tau[:, None] * u, tau
    size = np.linalg.norm(weights, axis=1)
    tau = size if masses is None else np.maximum(masses, size)
    level = max(float(tau.sum() - np.vdot(u, weights)) / m, 1e-3 * tol * scale / m)
    # det z · det s no smaller than a fraction of the level squared
    lifted = np.hypot(size, 0.3 * level / np.sqrt(slack))  # squares of targets near 1e160 have no place
    return weights.copy(), np.maximum(tau, lifted) * (1 + 1e-15) + TINY
