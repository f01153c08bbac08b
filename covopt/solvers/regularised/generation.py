"""Column generation with a loss: rounds of a restricted master and an oracle.

Every network is a feasible point here, so each round offers the multipliers of the master as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from covopt.oracles.base import Oracle, Pricing
from covopt.problems.regularised import RegularisedProblem, best_constant, constant_dual
from covopt.solvers.loop import GenerationLoop
from covopt.solvers.regularised.following import TIGHT, Following
from covopt.solvers.regularised.master import RegularisedPoint, solve_regularised_master
from covopt.solvers.regularised.newton import applies
from covopt.solvers.regularised.points import FitPoint, WarmStart
from covopt.solvers.seeds import random_vertices
from covopt.status import Status

SEEDS_PER_ROW = 2
MAX_IDLE = 6
WARM_TIGHT = 0.995
NEGLIGIBLE = 1e-9  # share of the largest mass below which a neuron is tried without


class RegularisedGeneration(GenerationLoop):
    """Solve a :class:`RegularisedProblem` by column generation.

    Parameters
    ----------
    problem : RegularisedProblem
    oracle : Oracle
        Prices duals of the rows that are not zero: of shape (n,) for one output, else (n, q).
    warm : WarmStart, optional
        The end of another solve on the same rows, or a guess.
    **options
        Of :class:`~covopt.solvers.loop.GenerationLoop`.
    """

    has_curvature = True  # neurons cost their norm

    def __init__(
        self,
        problem: RegularisedProblem,
        oracle: Oracle,
        *,
        warm: WarmStart | None = None,
        **options: Any,
    ):
        super().__init__(**options)
        self.problem, self.oracle, self.warm = problem, oracle, warm
        self.live = problem.rows.any(axis=1)
        n, rank = problem.rows.shape
        q = problem.n_outputs
        self.neurons, self.atoms = np.zeros((0, rank)), np.zeros((0, n))
        self.point = FitPoint(
            np.zeros((0, rank)), np.zeros((0, q)), np.zeros(q), np.inf, np.zeros((n, q)), -np.inf,
            Status.GAP,
        )  # fmt: skip

    # ------------------------------------------------------------------ the loop
    def price(self, dual: np.ndarray, threshold: float = 0.0, max_neurons: int | None = None) -> Pricing:
        """Ask the oracle about the rows that are not zero."""
        asked = dual[self.live]
        return self.oracle.price(
            np.ascontiguousarray(asked[:, 0] if asked.shape[1] == 1 else asked),
            threshold=threshold, max_neurons=max_neurons,
        )  # fmt: skip

    def _start(self) -> bool:
        """First dual, first columns; False when a network without neurons is already optimal."""
        problem = self.problem
        constant = best_constant(problem)
        nothing = np.zeros((0, problem.rows.shape[1]))
        self.offer(nothing, np.zeros((0, problem.n_outputs)), constant)
        if self.warm is not None and self.live.any() and applies(problem):
            return not self._follow(self.warm)
        return self._start_cold()

    def _follow(self, warm: WarmStart) -> bool:
        """Newton's rounds from the columns of another solve; False if another method has to go on from there."""
        self.neurons, self.atoms = warm.neurons, np.ascontiguousarray(self.problem.atoms(warm.neurons).T)
        weights = warm.weights[:, 0]
        if not len(weights):  # of a network without neurons: what its dual is nearly tight at
            self.append(self.price(warm.dual, TIGHT).neurons)
            weights = np.zeros(len(self.neurons))
        if Following(self, weights, float(warm.offset[0]), curved=self.has_curvature).run():
            return True
        self.warm = self.point.warm
        return not self._start_cold()

    def _start_cold(self) -> bool:
        problem = self.problem
        n = len(problem.rows)
        first = problem.project_dual(constant_dual(problem))
        if not self.live.any():
            self.point.dual, self.point.lower_bound = problem.scale_dual(first, 0.0)
            return False
        pricing = self.price(first, max_neurons=max(n, 20))
        # half of a feasible dual in the interior of everything: what starts are mixed with
        self.centre = first * (0.5 / max(pricing.upper_bound, 1.0))
        self.offer_dual(first, pricing)
        if self.point.gap <= self.tol:
            return False
        if not len(self.neurons) and (self.warm is None or not len(self.warm.neurons)):
            self.append(random_vertices(problem.rows[self.live], SEEDS_PER_ROW * n, self.rng))
        if self.warm is not None:
            self.warm = self._lightened(self.warm)
            self._begin_warm(self.warm)
        self.append(pricing.neurons)
        return self.point.gap > self.tol

    def _begin_warm(self, warm: WarmStart) -> None:
        """Offer what is known, and start from its columns."""
        if len(warm.neurons) and not len(self.neurons):
            self.neurons, self.atoms = warm.neurons, np.ascontiguousarray(self.problem.atoms(warm.neurons).T)
        self.offer(warm.neurons, warm.weights, warm.offset)
        dual = self.problem.project_dual(warm.dual)
        pricing = self.price(dual)
        self.offer_dual(dual, pricing)
        self.append(pricing.neurons)

    def _lightened(self, warm: WarmStart) -> WarmStart:
        """Leave out columns that are far from tight and carry nothing: they cost, and pricing finds them again."""
        if not len(warm.neurons):
            return warm
        tight = np.linalg.norm(self.problem.atoms(warm.neurons).T @ warm.dual, axis=1) > WARM_TIGHT
        keep = tight | (warm.masses > 1e-4 * warm.masses.max(initial=0.0))
        return replace(warm, neurons=warm.neurons[keep], weights=warm.weights[keep], masses=warm.masses[keep])

    def append(self, neurons: np.ndarray) -> int:
        """Add unit neurons that are not there yet and do something; returns how many."""
        neurons = _distinct(np.round(neurons, 13) + 0.0)
        norms = np.linalg.norm(neurons, axis=1, keepdims=True)
        neurons = neurons[norms[:, 0] > 0.5] / norms[norms[:, 0] > 0.5]
        atoms = self.problem.atoms(neurons).T
        useful = atoms.max(axis=1, initial=0.0) > 1e-13
        if len(self.neurons) and useful.any():
            near, _ = cKDTree(self.neurons).query(neurons, distance_upper_bound=1e-10)
            useful &= ~np.isfinite(near)
        self.neurons = np.concatenate([self.neurons, neurons[useful]])
        self.atoms = np.ascontiguousarray(np.concatenate([self.atoms, atoms[useful]]))
        return int(useful.sum())

    def _iterate(self) -> None:
        problem = self.problem
        weights = masses = edges = offset = None
        shrink, idle = 0.5, 0
        if self.warm is not None and len(self.warm.neurons):
            fresh = len(self.neurons) - len(self.warm.neurons)
            weights = np.concatenate([self.warm.weights, np.zeros((fresh, problem.n_outputs))])
            masses = np.concatenate([self.warm.masses, np.zeros(fresh)])
            edges, offset = self.warm.edges, self.warm.offset
            shrink = float(np.clip(self.point.gap, 1e-3, 0.5))
        for _ in range(self.max_rounds):
            gap = min(self.point.gap, 1.0)
            accuracy = max(0.1 * gap * 0.1**idle, 0.01 * self.tol, 1e-13)
            start = (1.0 - shrink) * self.point.dual + shrink * self.centre
            master = solve_regularised_master(
                problem, self.atoms, start, tol=accuracy, weights=weights, masses=masses, edges=edges,
                offset=offset, deadline=self._deadline,
            )  # fmt: skip
            threshold = 1.0 - min(0.05, 3.0 * np.sqrt(gap)) if gap < 1e-2 else 1.0
            dual = problem.project_dual(master.dual)
            pricing = self.price(dual, threshold)
            bound = self.point.lower_bound
            self.offer_dual(dual, pricing)
            self._offer_master(master)
            self.point.warm = WarmStart(
                self.neurons, master.weights, master.masses, master.offset, self.point.dual, master.edges
            )
            if self.should_stop():
                return
            progress = self.point.lower_bound > bound
            # dropping without progress would let the same columns come and go for ever
            keep = self._keep(master) if progress else np.ones(len(self.neurons), dtype=bool)
            self.neurons, self.atoms = self.neurons[keep], self.atoms[keep]
            fresh = self.append(self._best(pricing, gap))
            idle = 0 if fresh or self.point.gap < 0.5 * gap else idle + 1
            if idle > MAX_IDLE:
                return
            weights = np.concatenate([master.weights[keep], np.zeros((fresh, problem.n_outputs))])
            masses = np.concatenate([master.masses[keep], np.zeros(fresh)])
            edges, offset = master.edges, master.offset
            shrink = float(np.clip(0.1 * self.point.gap, 1e-12, 0.1))

    # ------------------------------------------------------------------ bounds
    def offer_dual(self, dual: np.ndarray, pricing: Pricing) -> None:
        """Keep a priced dual point, scaled into feasibility, where it is the best so far."""
        scaled, value = self.problem.scale_dual(dual, pricing.upper_bound)
        if value > self.point.lower_bound:
            self.point.dual, self.point.lower_bound = scaled, max(value, 0.0)

    def offer(self, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> bool:
        """Keep a network where it is the best so far; returns whether it is."""
        problem = self.problem
        value = problem.primal_value(problem.fitted(neurons, weights, offset), weights, offset)
        if not value < self.point.upper_bound:  # NaN is no bound either
            return False
        self.point.neurons, self.point.weights = neurons, weights
        self.point.offset, self.point.upper_bound = offset, value
        return True

    def _offer_master(self, master: RegularisedPoint) -> None:
        mass = np.linalg.norm(master.weights, axis=1)
        for share in (0.0, NEGLIGIBLE):
            used = mass > share * mass.max(initial=0.0)
            self.offer(self.neurons[used], master.weights[used], master.offset)

    # ------------------------------------------------------------------ columns
    def _keep(self, master: RegularisedPoint) -> np.ndarray:
        """Columns that may matter: nearly tight, or carrying weight."""
        gap = min(self.point.gap, 1.0)
        tight = np.linalg.norm(self.atoms @ master.dual, axis=1) > max(0.9, 1.0 - 10.0 * np.sqrt(gap))
        mass = np.linalg.norm(master.weights, axis=1)
        return tight | (mass > 1e-6 * mass.max(initial=0.0))

    def _best(self, pricing: Pricing, gap: float) -> np.ndarray:
        """Return new columns, best first: not all of them while the gap is large."""
        size = len(self.problem.rows) * self.problem.n_outputs
        limit = max(10, size // 2) if gap > 1e-2 else len(pricing.neurons)
        return pricing.neurons[:limit]


def _distinct(rows: np.ndarray) -> np.ndarray:
    """Return the different rows in lexicographic order, as numpy.unique does, many times faster for few columns."""
    rows = rows[np.lexsort(rows.T[::-1])]
    first = np.ones(len(rows), dtype=bool)
    first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return rows[first]
