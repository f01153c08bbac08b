"""The restricted master with a loss: one interior-point method in the dual, for one output and for several.

    min over Λ   C*(−μΛ)/μ + ½κ‖Λᵀ1‖²     s.t.  ‖Λᵀ a_j‖ ≤ 1,  −μΛ in the loss's box  (Λᵀ1 = 0 if the offset is free)

with one atom a_j per row of A. The balls are scaled as in :mod:`covopt.solvers.group_master`; the conjugate adds its
gradient F(Λ) = ∇C*(−μΛ) to the residual and its Hessian to the normal matrix, the box two linear cones, and the
entropies of the logistic and softmax losses limit the step. Every iterate has a network, v_j and B, and a dual point,
and their distance is the stopping rule.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf

from covopt.problems.regularised import RegularisedProblem
from covopt.solvers.gram import weighted_gram
from covopt.solvers.group_master import TINY, _Normal, _product, _Scaling, _start, _step_length
from covopt.solvers.interior_point import REGULARISATIONS

MAX_STEPS = 100
DAMPING = 0.9999
HALVINGS = 8
BEHIND = 0.03


@dataclass(frozen=True)
class RegularisedPoint:
    """Strictly feasible dual Λ and network of the restricted problem.

    Attributes
    ----------
    dual : ndarray of shape (N, q)
    weights : ndarray of shape (M, q)
        v_j.
    masses : ndarray of shape (M,)
        τ_j ≥ ‖v_j‖.
    offset : ndarray of shape (q,)
    upper, lower : float
        Values of the two in the restricted problem.
    edges : tuple of ndarray or None
        Multipliers of the box, lower and upper.
    steps : int
    """

    dual: np.ndarray
    weights: np.ndarray
    masses: np.ndarray
    offset: np.ndarray
    upper: float
    lower: float
    edges: tuple[np.ndarray, np.ndarray] | None
    steps: int

    @property
    def gap(self) -> float:
        """Relative distance of the values."""
        return (self.upper - self.lower) / max(abs(self.upper), TINY)


class _LossNormal(_Normal):
    """The normal matrix of the balls plus the blocks of the loss, with a border for a free offset."""

    def __init__(self, atoms, scaling: _Scaling, kappa, blocks, refine_tol: float, *, is_free: bool):
        self.atoms, self.kappa, self.refine_tol, self.blocks = atoms, kappa, refine_tol, blocks
        self.diagonal, self.w1 = scaling.eta**-2.0, scaling.w1
        n, k = atoms.shape[1], scaling.w1.shape[1]
        if k == 1:
            matrix = weighted_gram(atoms, self.diagonal * (1.0 + 2.0 * self.w1[:, 0] ** 2))
            if kappa:
                matrix += kappa
        else:
            plain = weighted_gram(atoms, self.diagonal)
            if kappa:
                plain += kappa
            paired = (atoms[:, :, None] * scaling.w1[:, None, :]).reshape(len(atoms), n * k)
            matrix = weighted_gram(paired, 2.0 * self.diagonal)
            for p in range(k):
                matrix[p::k, p::k] += plain
        place = np.arange(n) * k
        for p in range(k):
            if blocks.ndim == 2:
                matrix[place + p, place + p] += blocks[:, p]
                continue
            for q in range(k):
                matrix[place + p, place + q] += blocks[:, p, q]
        self._factorise(matrix)
        if is_free:
            self.border = np.stack(
                [super(_LossNormal, self).solve(np.tile(row, (n, 1))) for row in np.eye(k)]
            )
            self.corner = self.border.sum(axis=1)

    def _factorise(self, matrix: np.ndarray) -> None:
        diagonal = np.diag(matrix).copy()
        # entropies blow single entries up: what is regularised is each entry by its own size
        for size in REGULARISATIONS:
            regular = matrix.copy(order="F")
            regular[np.diag_indices_from(regular)] += size * diagonal
            self.factor, failed = dpotrf(regular, lower=1, clean=0, overwrite_a=1)
            if not failed:
                return
        raise LinAlgError("the normal matrix could not be factored")

    def _apply(self, x: np.ndarray) -> np.ndarray:
        if self.blocks.ndim == 2:
            return super()._apply(x) + self.blocks * x
        return super()._apply(x) + np.einsum("ipq,iq->ip", self.blocks, x)

    def solve_free(self, rhs: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Step of Λ with 1ᵀ step = total, and the step of B."""
        plain = self.solve(rhs)
        offset = np.linalg.solve(self.corner.T, plain.sum(axis=0) - total)
        return plain - np.einsum("pik,p->ik", self.border, offset), offset


class _Box:
    """Bounds on Λ from the loss: slacks and multipliers."""

    def __init__(self, problem: RegularisedProblem, edges, dual, level: float):
        bounds = problem.loss.box()
        assert bounds is not None
        low, high = -bounds[1] / problem.strength, -bounds[0] / problem.strength
        self.sides = [(sign, edge) for sign, edge in ((1.0, low), (-1.0, high)) if np.isfinite(edge).any()]
        self.slack, self.force = [], []
        for i, (sign, edge) in enumerate(self.sides):
            slack = sign * (dual - np.where(np.isfinite(edge), edge, -sign * np.inf))
            slack = np.maximum(slack, TINY)
            given = None if edges is None else edges[i]
            force = level / slack if given is None else np.maximum(given, 0.3 * level / slack)
            self.slack.append(slack)
            self.force.append(np.where(np.isfinite(slack), force, 0.0))

    def pull(self, dual):
        return sum((s * f for (s, _), f in zip(self.sides, self.force, strict=True)), np.zeros_like(dual))

    @property
    def count(self):
        return sum(int(np.isfinite(s).sum()) for s in self.slack)

    @property
    def complementarity(self):
        return sum(
            float((f * np.where(np.isfinite(s), s, 0.0)).sum())
            for s, f in zip(self.slack, self.force, strict=True)
        )

    @property
    def stiffness(self):
        return sum(f / s for s, f in zip(self.slack, self.force, strict=True))

    def targets(self, level, change=None):
        """Complementarity products to aim at: the level, less the second-order term of a predictor."""
        found = []
        for (sign, _), slack, force in zip(self.sides, self.slack, self.force, strict=True):
            aim = np.full_like(slack, level)
            if change is not None:
                ds = sign * change
                aim -= ds * (-force - force / slack * ds)
            found.append(np.where(np.isfinite(slack), aim, 0.0))
        return found

    def shift(self, targets):
        """Return what the targets add to the right-hand side, beyond the pull that is there."""
        return sum(
            sign * (t / s - f)
            for (sign, _), s, f, t in zip(self.sides, self.slack, self.force, targets, strict=True)
        )

    def steps(self, change, targets):
        """Return steps of the multipliers, and the longest step that keeps all positive."""
        steps, longest = [], 1.0
        for (sign, _), s, f, t in zip(self.sides, self.slack, self.force, targets, strict=True):
            ds = sign * change
            df = t / s - f - f / s * ds
            steps.append((np.where(np.isfinite(s), ds, 0.0), df))
            for value, d in ((s, ds), (f, df)):
                falling = np.isfinite(s) & (d < 0) & (value > 0)
                if falling.any():
                    longest = min(longest, float((value[falling] / -d[falling]).min()))
        return steps, longest

    def reached(self, steps, length):
        return sum(
            float(((f + length * df) * np.where(np.isfinite(s), s + length * ds, 0.0)).sum())
            for s, f, (ds, df) in zip(self.slack, self.force, steps, strict=True)
        )

    def move(self, steps, length):
        self.slack = [np.maximum(s + length * ds, TINY) for s, (ds, _) in zip(self.slack, steps, strict=True)]
        self.force = [
            np.where(np.isfinite(s), np.maximum(f + length * df, 0.0), 0.0)
            for s, f, (_, df) in zip(self.slack, self.force, steps, strict=True)
        ]


class _NoBox:
    sides: tuple = ()
    slack: tuple = ()
    force: tuple = ()
    count = 0
    complementarity = 0.0
    stiffness = 0.0

    def pull(self, dual):
        return 0.0

    def targets(self, level, change=None):
        return ()

    def shift(self, targets):
        return 0.0

    def steps(self, change, targets):
        return (), 1.0

    def reached(self, steps, length):
        return 0.0

    def move(self, steps, length):
        pass


def solve_regularised_master(
    problem: RegularisedProblem,
    atoms: np.ndarray,
    start: np.ndarray,
    *,
    tol: float = 1e-8,
    weights: np.ndarray | None = None,
    masses: np.ndarray | None = None,
    edges: tuple[np.ndarray, np.ndarray] | None = None,
    offset: np.ndarray | None = None,
    max_steps: int = MAX_STEPS,
    deadline: float | None = None,
) -> RegularisedPoint:
    """Solve the problem restricted to some neurons to a relative gap of ``tol``.

    Parameters
    ----------
    problem : RegularisedProblem
    atoms : ndarray of shape (M, N)
        One atom per row.
    start : ndarray of shape (N, q)
        A strictly feasible Λ: ‖Λᵀa_j‖ < 1, inside the domain of the conjugate, 1ᵀΛ = 0 when the offset is free.
    tol : float
        Relative to the primal value.
    weights, masses, edges, offset : optional
        Where another solve ended; they are lifted to the central path.
    max_steps : int
    deadline : float, optional
        Reading of ``time.perf_counter`` after which no further step is begun.

    Returns
    -------
    RegularisedPoint
        The best upper and lower values need not come from one iterate; the last one is returned.
    """
    loss, mu, kappa, is_free = problem.loss, problem.strength, problem.kappa, problem.is_free
    m = len(atoms)
    dual = start.copy()
    u = atoms @ dual
    refine_tol = float(np.clip(1e-6 * tol, 1e-13, 1e-8))
    scale = max(abs(problem.dual_value(dual)), loss.value(np.zeros_like(loss.targets)) / mu * 1e-6, TINY)
    v, tau = _start(u, weights, masses, scale, tol)
    B = np.zeros(dual.shape[1]) if offset is None else offset.copy()
    level = max(float(tau.sum() - np.vdot(u, v)), tol * scale) / m
    box = _Box(problem, edges, dual, level) if loss.box() is not None else _NoBox()
    ones, zeros = np.ones(m), np.zeros(m)
    upper, lower = np.inf, -np.inf
    fits = problem.lower_outputs(loss.conjugate_gradient(problem.slope(dual)))
    steps = 0
    for steps in range(1, max_steps + 1):  # noqa: B007
        shift_of_b = B if is_free else kappa * dual.sum(axis=0)
        produced = atoms.T @ v + shift_of_b
        residual = fits + box.pull(dual) - produced
        upper = problem.primal_value(produced, v, shift_of_b)
        lower = problem.dual_value(dual)
        if upper - lower <= tol * abs(upper):
            break
        if deadline is not None and time.perf_counter() > deadline:
            break
        scaling = _Scaling(u, tau, v)
        complementarity = float(tau.sum() - np.vdot(u, v)) + box.complementarity
        count = m + box.count
        blocks = _blocks(problem, dual) + box.stiffness
        try:
            normal = _LossNormal(atoms, scaling, kappa, blocks, refine_tol, is_free=is_free)
        except LinAlgError:  # as far as double precision goes
            break

        def direction(t0, t1, aims, scaling=scaling, normal=normal, residual=residual, dual=dual):
            inner = scaling.invert(t0, t1)[1]
            rhs = residual + atoms.T @ inner + box.shift(aims)
            if is_free:
                step, dB = normal.solve_free(rhs, -dual.sum(axis=0))
            else:
                step, dB = normal.solve(rhs), 0.0
            change = atoms @ step
            s0, s1 = scaling.invert(zeros, change)
            z0, z1 = scaling.invert(t0 - s0, t1 - s1)
            return step, dB, change, z0, -z1

        aims = box.targets(0.0)
        step, _, change, dtau, dv = direction(-scaling.l0, -scaling.l1, aims)
        box_steps, box_length = box.steps(step, aims)
        alpha = min(
            _step_length(ones, u, zeros, change), _step_length(tau, v, dtau, dv), box_length,
            loss.step_limit(problem.slope(dual), problem.slope(step)),
        )  # fmt: skip
        reached = float(np.sum(tau + alpha * dtau) - np.vdot(u + alpha * change, v + alpha * dv))
        reached += box.reached(box_steps, alpha)
        centring = min(max(reached / complementarity, 1e-12), 1.0) ** 3
        mean = max(complementarity / count, TINY)
        s0, s1 = scaling.invert(zeros, change)
        z0, z1 = scaling.apply(dtau, -dv)
        c0, c1 = _product(s0, s1, z0, z1)
        d0, d1 = _product(scaling.l0, scaling.l1, scaling.l0, scaling.l1)
        # complementarity must not run ahead of what the loss still lacks: slacks would end in rounding
        goal = max(centring * mean, min(mean, BEHIND * (upper - lower) / count))
        t0, t1 = scaling.divide(goal - d0 - c0, -d1 - c1)
        aims = box.targets(goal, step)
        step, dB, change, dtau, dv = direction(t0, t1, aims)
        if not (np.isfinite(change).all() and np.isfinite(dv).all() and np.isfinite(dtau).all()):
            break
        box_steps, box_length = box.steps(step, aims)
        alpha = min(_step_length(ones, u, zeros, change), _step_length(tau, v, dtau, dv), box_length)
        alpha = min(alpha, loss.step_limit(problem.slope(dual), problem.slope(step)))
        damping = min(max(0.9, 1.0 - centring) if centring < 0.5 else 0.9, DAMPING)
        alpha = min(1.0, damping * alpha)
        alpha, moved, fits = _checked(problem, dual, step, fits, alpha)
        dual = moved
        u = atoms @ dual
        v, tau, B = v + alpha * dv, tau + alpha * dtau, B + alpha * dB
        tau = np.maximum(tau, np.linalg.norm(v, axis=1) * (1 + 1e-15) + TINY)
        box.move(box_steps, alpha)
        if alpha < 1e-9 or np.linalg.norm(u, axis=1).max() >= 1.0:
            break
    forces = tuple(box.force) if box.count else None
    end = B if is_free else kappa * dual.sum(axis=0)
    return RegularisedPoint(dual, v, tau, end, upper, lower, forces, steps)


def _checked(problem, dual, step, fits, alpha):
    """Shorten a step along which ∇C* is far from its linear model: there Newton's direction means nothing."""
    size = float(np.abs(fits).max(initial=0.0)) + 1.0
    slope = problem.lower_outputs
    for _ in range(HALVINGS):
        moved = dual + alpha * step
        found = slope(problem.loss.conjugate_gradient(problem.slope(moved)))
        if not np.isfinite(found).all() or np.abs(found).max(initial=0.0) > 1e3 * size:
            alpha *= 0.5
            continue
        break
    return alpha, moved, found


def _blocks(problem: RegularisedProblem, dual: np.ndarray) -> np.ndarray:
    """Hessian of C*(−μΛ)/μ: (N, q), or (N, q, q) when outputs are coupled."""
    curvature = problem.strength * problem.loss.conjugate_hessian(problem.slope(dual))
    q = dual.shape[1]
    if curvature.shape[1] == 1 or problem.outputs is None:
        return np.broadcast_to(curvature, (len(dual), q))
    E = problem.outputs
    return np.einsum("cp,ic,cq->ipq", E, curvature, E)
