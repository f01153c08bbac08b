r"""The fully corrective step: the best masses on all atoms met so far, by a primal-dual interior-point method.

.. math::
    \min_{m \ge 0} \; \sum_j m_j + \operatorname{Tr} Y^\top (K(m) + K_0)^{-1} Y

has the optimality conditions (K(m) + K₀)Λ = Y, s_j = 1 − ‖Λᵀa_j‖² ≥ 0, m_j s_j = 0. Newton's method on m_j s_j = μ
keeps m > 0 and s > 0, so every Λ on the way is a dual point of the restricted problem and no inverse of K is ever
taken: K(m) is singular at most optima. Each step solves

    (K(m) + K₀) ⊗ I + 2 Σ_j (m_j/s_j) (a_j ⊗ q_j)(a_j ⊗ q_j)ᵀ,      q_j = Λᵀa_j,

for vec dΛ, with Mehrotra's predictor and corrector.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from covopt.problems.cone import ConeProblem
from covopt.solvers.least_norm import LeastNorm

MAX_STEPS = 80
NEIGHBOURHOOD = 1e-4  # smallest m_j s_j, relative to their mean
SMALLEST = 1e-18  # slack of a constraint
SHIFTS = (1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-8)


@dataclass(frozen=True)
class Corrected:
    """Masses and strictly feasible dual of the restricted problem.

    Attributes
    ----------
    masses : ndarray of shape (m,)
    dual : ndarray of the inner targets' shape
        ‖Λᵀa_j‖ < 1 for every atom.
    gap : float
        Σ m_j s_j, relative to the value.
    """

    masses: np.ndarray
    dual: np.ndarray
    gap: float


def correct_masses(
    problem: ConeProblem,
    atoms: np.ndarray,
    *,
    masses: np.ndarray | None = None,
    tol: float = 1e-9,
) -> Corrected:
    """Minimise F over the masses of given atoms.

    Parameters
    ----------
    problem : ConeProblem
    atoms : ndarray of shape (m, n)
        As :meth:`ConeProblem.atoms` returns them; with K₀ = 0 the targets must lie in their span.
    masses : ndarray of shape (m,), optional
        To start from; small ones are lifted.
    tol : float
        Relative complementarity to stop at.

    Examples
    --------
    >>> import numpy as np
    >>> problem = ConeProblem(np.eye(2), np.array([[3.0], [4.0]]))
    >>> found = correct_masses(problem, np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]), tol=1e-10)
    >>> found.masses.round(6) + 0.0, round(2 * float(found.dual[:, 0] @ [3, 4]), 6)
    (array([0., 0., 5.]), 10.0)
    """
    targets, base = problem.inner_targets, problem.base
    n, k = targets.shape
    count = len(atoms)
    masses, dual = _start(problem, atoms, masses)
    size = float(np.abs(targets).max()) or 1.0
    gap = np.inf
    slack = 1.0 - np.square(atoms @ dual).sum(axis=1)
    for _ in range(MAX_STEPS):
        inner = atoms @ dual
        covariance = (atoms.T * masses) @ atoms + base
        residual = targets - covariance @ dual
        complementarity = float(masses @ slack)
        value = max(float(masses.sum()), float(np.vdot(dual, targets)), 1e-300)
        gap = complementarity / value
        left = float(np.abs(residual).max())
        if gap <= tol and left <= max(1e-12, 0.1 * tol) * size:
            break
        paired = (atoms[:, :, None] * inner[:, None, :]).reshape(count, n * k)
        matrix = (paired.T * (2.0 * masses / slack)) @ paired
        for p in range(k):
            matrix[p::k, p::k] += covariance
        factor = _factorise(matrix)
        if factor is None:
            break

        def solve(missing: np.ndarray, central: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            rhs = missing - atoms.T @ ((central / slack)[:, None] * inner)  # noqa: B023
            flat = rhs.ravel()
            step = dpotrs(factor, flat, lower=1)[0]  # noqa: B023
            step = step + dpotrs(factor, flat - matrix @ step, lower=1)[0]  # noqa: B023
            change = step.reshape(n, k)
            moved = atoms @ change
            along = 2.0 * np.einsum("jk,jk->j", inner, moved)  # noqa: B023
            return change, moved, (central + masses * along) / slack  # noqa: B023

        change, moved, gain = solve(residual, -masses * slack)
        alpha = _step_length(inner, slack, moved, masses, gain)
        after = 1.0 - np.square(inner + alpha * moved).sum(axis=1)
        ratio = min(1.0, float((masses + alpha * gain) @ after) / complementarity)
        target = max(ratio, 1e-4) ** 3 * complementarity / count
        square = np.square(moved).sum(axis=1)
        along = 2.0 * np.einsum("jk,jk->j", inner, moved)
        second = gain * (along + square) + masses * square
        central = target - masses * slack
        corrected = solve(residual - atoms.T @ (gain[:, None] * moved), central + second)
        alpha = _guarded_step(inner, slack, masses, corrected, 0.999 if ratio < 1e-3 else 0.95)
        if alpha < 0.2:  # the corrector led to the border: back to the central path, without it
            safe = solve(residual, 0.5 * complementarity / count - masses * slack)
            longer = _guarded_step(inner, slack, masses, safe, 0.95)
            if longer > alpha:
                alpha, corrected = longer, safe
        change, moved, gain = corrected
        if not np.isfinite(change).all() or alpha < 1e-10:
            break
        dual = dual + alpha * change
        masses = masses + alpha * gain
        # kept along instead of recomputed: 1 − ‖q‖² has no digits left near zero
        slack = slack - alpha * (
            2.0 * np.einsum("jk,jk->j", inner, moved) + alpha * np.square(moved).sum(axis=1)
        )
        slack = np.maximum(slack, SMALLEST)
    return Corrected(masses, dual, gap)


def _start(
    problem: ConeProblem, atoms: np.ndarray, masses: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Positive masses whose own dual K̄⁻¹Y is feasible: larger masses make it shorter."""
    targets, base = problem.inner_targets, problem.base
    masses = np.ones(len(atoms)) if masses is None else np.maximum(masses, 0.1 * float(masses.mean()))
    for _ in range(200):
        covariance = (atoms.T * masses) @ atoms + base
        factor = _factorise(covariance)
        assert factor is not None
        dual = dpotrs(factor, targets, lower=1)[0]
        height = float(np.linalg.norm(atoms @ dual, axis=1).max())
        if height <= 0.95:
            break
        masses = masses * max(2.0, height) / 0.9
    return masses, dual


def _factorise(matrix: np.ndarray) -> np.ndarray | None:
    mean = float(np.trace(matrix)) / len(matrix)
    for shift in SHIFTS:
        regular = matrix.copy(order="F")
        regular[np.diag_indices_from(regular)] += shift * mean
        factor, failed = dpotrf(regular, lower=1, clean=0, overwrite_a=1)
        if not failed:
            return factor
    return None


def _step_length(inner, slack, moved, masses, gain) -> float:
    """Largest step that keeps masses and slacks positive (it may exceed 1)."""
    a = np.square(moved).sum(axis=1)
    b = np.einsum("jk,jk->j", inner, moved)
    # 1 − ‖q + t dq‖² = slack − 2bt − at²
    root = np.sqrt(b**2 + a * slack)
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.where(b + root > 0, slack / (b + root), np.inf)
        limit = np.where(gain < 0, -masses / gain, np.inf)
    return min(1e3, float(step.min()), float(limit.min()))


def _guarded_step(inner, slack, masses, direction, damping: float) -> float:
    """Damped step that keeps every m_j s_j above a share of their mean: outside of it Newton's method jams."""
    _, moved, gain = direction
    alpha = min(1.0, damping * _step_length(inner, slack, moved, masses, gain))
    along, square = 2.0 * np.einsum("jk,jk->j", inner, moved), np.square(moved).sum(axis=1)
    for _ in range(12):
        products = (masses + alpha * gain) * (slack - alpha * (along + alpha * square))
        if products.min() >= NEIGHBOURHOOD * products.mean():
            break
        alpha *= 0.8
    return alpha


def interpolate(
    problem: ConeProblem, neurons: np.ndarray, masses: np.ndarray, dual: np.ndarray, *, exact: float = 1e-13
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Turn masses and a dual into a network: v_j = m_j Λᵀa_j, corrected in the metric of the masses.

    Parameters
    ----------
    problem : ConeProblem
    neurons : ndarray of shape (m, r)
    masses : ndarray of shape (m,)
    dual : ndarray of the inner targets' shape
    exact : float
        Residual relative to max |Y| to stop at.

    Returns
    -------
    weights : ndarray of shape (m, k)
    offset : ndarray of shape (k,)
    value : float
        Objective of the network, see :meth:`ConeProblem.network_value`.
    residual : float
        What is missed, relative to max |Y|; with a ridge it is part of the value and 0 is returned.
    """
    k = problem.targets.shape[1]
    size = float(np.abs(problem.targets).max()) or 1.0
    atoms = problem.atoms(neurons)
    weights = masses[:, None] * (atoms @ dual)
    if problem.ridge > 0:
        # outputs Y − K₀-part: the ridge's share of the residual is free to be what it is
        offset = (
            problem.offset * problem.outer_dual(dual).sum(axis=0)
            if 0 < problem.offset < np.inf
            else np.zeros(k)
        )
        if np.isinf(problem.offset):
            offset = (problem.targets - np.maximum(problem.rows @ neurons.T, 0.0) @ weights).mean(axis=0)
        return weights, offset, problem.network_value(neurons, weights, offset)[0], 0.0
    penalised = 0 < problem.offset < np.inf
    offset = problem.offset * dual.sum(axis=0) if penalised else np.zeros(k)
    root = np.sqrt(masses)
    matrix = root[:, None] * atoms
    if penalised:
        matrix = np.concatenate([matrix, np.full((1, atoms.shape[1]), np.sqrt(problem.offset))])
    correction = LeastNorm(matrix)
    for attempt in range(5):
        residual = problem.inner_targets - atoms.T @ weights - offset
        if np.abs(residual).max() <= exact * size:
            break
        step = correction.solve(residual, accurate=attempt >= 2)
        weights = weights + root[:, None] * step[: len(root)]
        if penalised:
            offset = offset + np.sqrt(problem.offset) * step[-1]
    if np.isinf(problem.offset):
        offset = (problem.targets - np.maximum(problem.rows @ neurons.T, 0.0) @ weights).mean(axis=0)
    value, missed = problem.network_value(neurons, weights, offset)
    return weights, offset, value, missed / size
