"""The restricted master: a dense interior-point method for the dual over the columns found so far.

    min over λ   −⟨y, λ⟩ + ½κ(1ᵀλ)² + ½(λ − λ_c)ᵀH(λ − λ_c)     s.t.  −1 ≤ A λ ≤ 1   (1ᵀλ = 0 if the offset is free)

with one atom per row of A, κ = 1/ρ, and an optional curvature H around a centre λ_c (see
:mod:`covopt.solvers.curvature`). The multipliers z = p − q are the output weights: Aᵀz + B·1 = y − H(λ − λ_c).
Mehrotra's predictor–corrector keeps λ strictly feasible and works on the N × N normal matrix
Aᵀ diag(p/s + q/t) A + κ11ᵀ + H (one symmetric product and one Cholesky factorisation a step), its solves refined by
preconditioned conjugate gradients on the product form: the matrix itself loses half the digits near the end.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotrs

from covopt.solvers.gram import weighted_gram

REGULARISATIONS = (1e-14, 1e-12, 1e-10, 1e-8, 1e-6)
MAX_STEPS = 60
WEAK = 1e-8  # columns whose share of the normal matrix is below this are left to the refinement


@dataclass
class Curvature:
    """A quadratic term ½(λ − centre)ᵀ factor factorᵀ (λ − centre)."""

    factor: np.ndarray
    centre: np.ndarray
    matrix: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.matrix = self.factor @ self.factor.T


@dataclass(frozen=True)
class MasterPoint:
    """Strictly feasible dual λ and multipliers of the restricted problem.

    Attributes
    ----------
    dual : ndarray of shape (N,)
    plus, minus : ndarray of shape (M,)
        Multipliers of Aλ ≤ 1 and −Aλ ≤ 1; the output weights are their difference.
    offset : float
    gap : float
        Complementarity p·s + q·t, relative to the objective.
    steps : int
    """

    dual: np.ndarray
    plus: np.ndarray
    minus: np.ndarray
    offset: float
    gap: float
    steps: int


class _Normal:
    """The normal matrix Aᵀ diag(d) A + κ11ᵀ + H, factored, with refined solves."""

    def __init__(self, atoms, diagonal, kappa, curvature, refine_tol):
        self.atoms, self.diagonal, self.kappa = atoms, diagonal, kappa
        self.curvature, self.refine_tol = curvature, refine_tol
        matrix = weighted_gram(self.atoms, self.diagonal, weak=WEAK)
        if self.kappa:
            matrix += self.kappa
        if self.curvature is not None:
            matrix += self.curvature.matrix
        mean = float(np.trace(matrix)) / len(matrix)
        for size in REGULARISATIONS:
            regular = matrix.copy(order="F")
            regular[np.diag_indices_from(regular)] += size * mean
            self.factor, failed = dpotrf(regular, lower=1, clean=0, overwrite_a=1)
            if not failed:
                return
        raise LinAlgError("the normal matrix could not be factored")

    def _apply(self, x):
        out = self.atoms.T @ (self.diagonal * (self.atoms @ x))
        if self.kappa:
            out += self.kappa * x.sum()
        if self.curvature is not None:
            out += self.curvature.factor @ (self.curvature.factor.T @ x)
        return out

    def solve(self, rhs: np.ndarray, max_refinements: int = 4) -> np.ndarray:
        """Solve with the factor, then refine on the product form."""
        x, _ = dpotrs(self.factor, rhs, lower=1)
        residual = rhs - self._apply(x)
        size = np.linalg.norm(rhs)
        direction, old = np.zeros_like(x), 1.0
        for step in range(max_refinements):
            if np.linalg.norm(residual) <= self.refine_tol * size:
                break
            preconditioned, _ = dpotrs(self.factor, residual, lower=1)
            new = float(residual @ preconditioned)
            direction = preconditioned + (new / old if step else 0.0) * direction
            applied = self._apply(direction)
            curvature = float(direction @ applied)
            if not curvature > 0 or not np.isfinite(curvature):
                break
            alpha = new / curvature
            x = x + alpha * direction
            residual = residual - alpha * applied
            old = new
        return x


def _step_length(values, steps):
    """Largest step in [0, 1] that keeps every value nonnegative."""
    falling = steps < 0
    if not falling.any():
        return 1.0
    return min(1.0, float(np.min(values[falling] / -steps[falling])))


def solve_master(
    atoms: np.ndarray,
    targets: np.ndarray,
    start: np.ndarray,
    *,
    offset_cost: float = np.inf,
    tol: float = 1e-8,
    plus: np.ndarray | None = None,
    minus: np.ndarray | None = None,
    curvature: Curvature | None = None,
    max_steps: int = MAX_STEPS,
    deadline: float | None = None,
) -> MasterPoint:
    """Solve the restricted dual to a relative complementarity of ``tol``.

    Parameters
    ----------
    atoms : ndarray of shape (M, N)
        One atom per row; their span must contain the targets (with the constant, if there is an offset).
    targets : ndarray of shape (N,)
    start : ndarray of shape (N,)
        A strictly feasible λ (|Aλ| < 1; mean zero when the offset is free).
    offset_cost : float
        ρ of :class:`~covopt.problems.shallow.ShallowProblem`.
    tol : float
        Relative to the dual objective.
    plus, minus : ndarray of shape (M,), optional
        Multipliers to start from; they are lifted to the central path.
    curvature : Curvature, optional
    max_steps : int
    deadline : float, optional
        Reading of ``time.perf_counter`` after which no further step is begun.

    Returns
    -------
    MasterPoint
    """
    if offset_cost == 0:
        return _solve_centred(atoms, targets, start, tol, plus, minus, curvature, max_steps, deadline)
    kappa = 0.0 if np.isinf(offset_cost) else 1.0 / offset_cost
    m = len(atoms)
    refine_tol = float(np.clip(1e-6 * tol, 1e-13, 1e-8))
    dual = start.copy()
    product = atoms @ dual
    s, t = 1.0 - product, 1.0 + product
    scale = max(float(targets @ dual), 1e-3 * float(np.abs(targets).sum()) / len(targets), 1e-300)
    if plus is None or minus is None:
        level = scale / m
        p, q = level / s, level / t
    else:
        # lift to complementarity products no smaller than a fraction of their mean
        level = max((float(plus @ s) + float(minus @ t)) / (2 * m), 1e-3 * tol * scale / m)
        p, q = np.maximum(plus, 0.3 * level / s), np.maximum(minus, 0.3 * level / t)
    gap = last_left = np.inf
    steps = stalled = 0
    for steps in range(1, max_steps + 1):  # noqa: B007
        z = p - q
        residual = targets - atoms.T @ z  # what the offset and the curvature must explain
        if kappa:
            residual = residual - kappa * dual.sum()
        if curvature is not None:
            residual = residual - curvature.factor @ (curvature.factor.T @ (dual - curvature.centre))
        complementarity = float(p @ s + q @ t)
        value = max(abs(float(targets @ dual)), scale)
        gap = complementarity / value
        left = float(np.abs(residual).sum())
        stalled = stalled + 1 if left > 0.5 * last_left else 0
        if gap <= tol and (left <= max(tol, 1e-11) * np.abs(targets).sum() or stalled >= 3):
            break
        last_left = left
        if deadline is not None and time.perf_counter() > deadline:
            break
        try:
            normal = _Normal(atoms, p / s + q / t, kappa, curvature, refine_tol)
        except LinAlgError:  # as far as double precision goes
            break

        # predictor: straight to complementarity zero
        affine = normal.solve(residual + atoms.T @ (p - q))
        change = atoms @ affine
        dp = -p + p / s * change
        dq = -q - q / t * change
        alpha = min(_step_length(s, -change), _step_length(t, change))
        beta = min(_step_length(p, dp), _step_length(q, dq))
        reached = float((p + beta * dp) @ (s - alpha * change) + (q + beta * dq) @ (t + alpha * change))
        centring = max(reached / complementarity, 1e-12) ** 3
        mean = max(complementarity / (2 * m), 1e-300)
        target_p = centring * mean + dp * change  # − dp·ds with ds = −change
        target_q = centring * mean - dq * change
        rhs = residual + atoms.T @ (p - q - target_p / s + target_q / t)
        direction = normal.solve(rhs)
        change = atoms @ direction
        dp = target_p / s - p + p / s * change
        dq = target_q / t - q - q / t * change
        if not (np.isfinite(direction).all() and np.isfinite(dp).all() and np.isfinite(dq).all()):
            break
        alpha = min(_step_length(s, -change), _step_length(t, change))
        beta = min(_step_length(p, dp), _step_length(q, dq))
        damping = max(0.9, 1.0 - centring) if centring < 0.5 else 0.9
        damping = min(damping, 0.9999)
        alpha, beta = min(1.0, damping * alpha), min(1.0, damping * beta)
        if curvature is not None or kappa:
            alpha = beta = min(alpha, beta)  # with a quadratic term the residual falls only at equal steps
        dual = dual + alpha * direction
        product = atoms @ dual
        s, t = np.maximum(1.0 - product, 1e-16), np.maximum(1.0 + product, 1e-16)
        p, q = np.maximum(p + beta * dp, 1e-300), np.maximum(q + beta * dq, 1e-300)
        if max(alpha, beta) < 1e-7:
            break
    return MasterPoint(dual, p, q, kappa * float(dual.sum()), gap, steps)


def basis_of_centred(n: int) -> np.ndarray:
    """Orthonormal basis of 1ᵀλ = 0 as columns, shape (n, n − 1).

    The Householder reflection that maps the first unit vector to 1/√n, without its first column.
    """
    mirror = np.full(n, 1.0 / np.sqrt(n))
    mirror[0] -= 1.0
    size = float(mirror @ mirror)
    return np.eye(n)[:, 1:] - np.outer(mirror, mirror[1:] * (2.0 / size if size > 0 else 0.0))


def _solve_centred(atoms, targets, start, tol, plus, minus, curvature, max_steps, deadline) -> MasterPoint:
    """Free offset: solve over λ = Eν with the columns of E an orthonormal basis of 1ᵀλ = 0."""
    basis = basis_of_centred(len(targets))
    if curvature is not None:
        curvature = Curvature(basis.T @ curvature.factor, basis.T @ curvature.centre)
    found = solve_master(
        atoms @ basis, basis.T @ targets, basis.T @ start, tol=tol, plus=plus, minus=minus,
        curvature=curvature, max_steps=max_steps, deadline=deadline,
    )  # fmt: skip
    offset = float((targets - atoms.T @ (found.plus - found.minus)).mean())
    return replace(found, dual=basis @ found.dual, offset=offset)
