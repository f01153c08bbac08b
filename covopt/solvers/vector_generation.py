"""Column generation with vector outputs: the same loop as for one output, over a group basis pursuit.

One round solves the restricted dual over the neurons found so far (:mod:`covopt.solvers.group_master`), prices it
with the oracle, whose bound on h(Λ) scales Λ into a feasible dual and whose local maxima become columns, and repairs
the multipliers into a network that interpolates. A cell may need several neurons here, so nothing is merged within
cells; a neuron inside a cell moves with Λ, and its columns crowd around its place. The balls ‖Λᵀa‖ ≤ 1 are curved,
which makes the restricted dual steadier than a linear program: gaps of 1e-9 take some twenty rounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from covopt.oracles.base import Oracle, Pricing
from covopt.problems.shallow import ShallowProblem, sizes
from covopt.solvers.column_generation import Point
from covopt.solvers.group_master import GroupPoint, solve_group_master
from covopt.solvers.least_norm import LeastNorm
from covopt.solvers.loop import GenerationLoop
from covopt.solvers.seeds import random_vertices, spanning_directions
from covopt.status import Status

SEEDS_PER_ROW = 2
MAX_IDLE = 6
ROUNDING = 1e-14
FEASIBLE = 1e-10  # largest residual, relative to max|y|, at which a network counts as interpolating


class VectorGeneration(GenerationLoop):
    """Solve a :class:`ShallowProblem` with targets of shape (N, k) by column generation.

    Parameters
    ----------
    problem : ShallowProblem
    oracle : Oracle
        Prices duals of shape (N, k).
    start_neurons : ndarray of shape (m, r), optional
    **options
        Of :class:`~covopt.solvers.loop.GenerationLoop`.
    """

    def __init__(
        self,
        problem: ShallowProblem,
        oracle: Oracle,
        *,
        start_neurons: np.ndarray | None = None,
        **options: Any,
    ):
        super().__init__(**options)
        self.problem, self.oracle, self.start_neurons = problem, oracle, start_neurons
        (n, rank), k = problem.rows.shape, problem.targets.shape[1]
        self.point = Point(
            np.zeros((0, rank)), np.zeros((0, k)), np.zeros(k), np.inf, np.zeros((n, k)), 0.0, Status.GAP, []
        )  # fmt: skip

    # ------------------------------------------------------------------ the loop
    def _start(self) -> bool:
        """First dual, first columns; False when the zero network is already optimal."""
        problem = self.problem
        n = len(problem.targets)
        first = problem.project_dual(problem.targets)
        if np.abs(first).max(initial=0.0) <= 1e-14:
            if problem.has_offset and n:
                self.point.offset = problem.targets.mean(axis=0)
            self.point.upper_bound = 0.0
            return False
        pricing = self.oracle.price(first, threshold=0.0, max_neurons=max(n, 20))
        self._offer_dual(first, pricing)
        neurons = [random_vertices(problem.rows, SEEDS_PER_ROW * n, self.rng), pricing.neurons]
        neurons.append(spanning_directions(problem.rows))
        if self.start_neurons is not None:
            neurons.append(self.start_neurons)
        self.neurons = np.zeros((0, problem.rows.shape[1]))
        self.atoms = np.zeros((0, n))
        self._append(np.concatenate(neurons))
        return True

    def _append(self, neurons: np.ndarray) -> int:
        """Add unit neurons that are not there yet and do something; returns how many."""
        neurons = np.unique(np.round(neurons, 13) + 0.0, axis=0)
        norms = np.linalg.norm(neurons, axis=1, keepdims=True)
        neurons = neurons[norms[:, 0] > 0.5] / norms[norms[:, 0] > 0.5]
        atoms = self.problem.atoms(neurons).T
        live = atoms.max(axis=1, initial=0.0) > 1e-13
        if len(self.neurons) and live.any():
            near, _ = cKDTree(self.neurons).query(neurons, distance_upper_bound=1e-10)
            live &= ~np.isfinite(near)
        self.neurons = np.concatenate([self.neurons, neurons[live]])
        self.atoms = np.ascontiguousarray(np.concatenate([self.atoms, atoms[live]]))
        return int(live.sum())

    def _iterate(self) -> None:
        problem = self.problem
        weights = masses = None
        shrink, idle = 0.5, 0
        for _ in range(self.max_rounds):
            gap = self.point.gap if np.isfinite(self.point.gap) else 1.0
            accuracy = max(0.1 * min(gap, 1.0) * 0.1**idle, 0.01 * self.tol, 1e-13)
            master = solve_group_master(
                self.atoms, problem.targets, self.point.dual * (1.0 - shrink), offset_cost=problem.offset_cost,
                tol=accuracy, weights=weights, masses=masses, deadline=self._deadline,
            )  # fmt: skip
            threshold = 1.0 - min(0.05, 3.0 * np.sqrt(gap)) if gap < 1e-2 else 1.0
            dual = problem.project_dual(master.dual)
            pricing = self.oracle.price(dual, threshold=threshold)
            bound = self.point.lower_bound
            self._offer_dual(dual, pricing)
            self._offer_master(master)
            if self.should_stop():
                return
            progress = self.point.lower_bound > bound
            # dropping without progress would let the same columns come and go for ever
            keep = self._keep(master) if progress else np.ones(len(self.neurons), dtype=bool)
            self.neurons, self.atoms = self.neurons[keep], self.atoms[keep]
            fresh = self._append(self._best(pricing, gap))
            idle = 0 if fresh or self.point.gap < 0.5 * gap else idle + 1
            if idle > MAX_IDLE:
                return
            k = problem.targets.shape[1]
            weights = np.concatenate([master.weights[keep], np.zeros((fresh, k))])
            masses = np.concatenate([master.masses[keep], np.zeros(fresh)])
            shrink = float(np.clip(0.1 * self.point.gap, 1e-12, 0.1))

    # ------------------------------------------------------------------ bounds
    def _offer_dual(self, dual: np.ndarray, pricing: Pricing) -> bool:
        scaled, value = self.problem.scale_dual(dual, pricing.upper_bound)
        if value > self.point.lower_bound or not self.point.dual.any():
            self.point.dual, self.point.lower_bound = scaled, max(value, 0.0)
            return True
        return False

    @property
    def _negligible(self) -> float:
        """Residual that is worth less than a tenth of the tolerance: missing the points by R saves ⟨Λ, R⟩."""
        price = float(np.abs(self.point.dual).sum())
        worth = 0.1 * self.tol * self.point.lower_bound / price if price > 0 else FEASIBLE
        return max(min(FEASIBLE, worth), ROUNDING)

    def _offer(self, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> bool:
        value = self.problem.primal_value(weights, offset)
        if value >= self.point.upper_bound:
            return False
        self.point.neurons, self.point.weights = neurons, weights
        self.point.offset, self.point.upper_bound = offset, value
        return True

    def _offer_master(self, master: GroupPoint) -> None:
        """Correct the multipliers to interpolate exactly; the cheapest network so far is kept."""
        problem = self.problem
        weights, offset = master.weights, master.offset
        mass = sizes(weights)
        offset_scale = 0.0
        if problem.has_offset:
            offset_scale = float(np.sqrt(max(np.abs(offset).max(initial=0.0), mass.mean())))
        # a small floor lets columns at rest take part where those in use do not reach
        metric = np.sqrt(mass + 1e-9 * mass.max(initial=0.0))
        scaled = self.atoms * metric[:, None]
        if problem.has_offset:
            scaled = np.concatenate([scaled, np.full((1, scaled.shape[1]), offset_scale)])
        correction = LeastNorm(scaled)
        for attempt in range(6):
            residual = problem.targets - self.atoms.T @ weights - offset
            if np.abs(residual).max() <= 0.01 * self._negligible:
                break
            step = correction.solve(residual, accurate=attempt >= 3)
            weights = weights + metric[:, None] * step[: len(weights)]
            if problem.has_offset:
                offset = offset + offset_scale * step[-1]
        residual = problem.targets - self.atoms.T @ weights - offset
        if np.abs(residual).max() <= self._negligible:
            used = sizes(weights) > 0
            self._offer(self.neurons[used], weights[used], offset)

    # ------------------------------------------------------------------ columns
    def _keep(self, master: GroupPoint) -> np.ndarray:
        """Columns that may matter: nearly tight, or carrying weight."""
        gap = self.point.gap if np.isfinite(self.point.gap) else 1.0
        tight = np.linalg.norm(self.atoms @ master.dual, axis=1) > max(0.9, 1.0 - 10.0 * np.sqrt(gap))
        mass = sizes(master.weights)
        return tight | (mass > 1e-6 * mass.max(initial=0.0))

    def _best(self, pricing: Pricing, gap: float) -> np.ndarray:
        """Return new columns, best first: not all of them while the gap is large."""
        limit = max(10, self.problem.targets.size // 2) if gap > 1e-2 else len(pricing.neurons)
        return pricing.neurons[:limit]
