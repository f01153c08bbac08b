"""Column generation with a loss: the driver's rounds, and networks that need not interpolate.

Every network is a feasible point here, so whatever a step leads to is offered as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.checks.timing import stage
from covopt.oracles.base import Oracle, Pricing
from covopt.problems.problem import Problem
from covopt.solvers.driver import Driver
from covopt.solvers.master.columns import most_columns
from covopt.solvers.master.networks import mass, shifted
from covopt.solvers.master.newton import Step
from covopt.solvers.points import Point, WarmStart
from covopt.solvers.regularised.following import Following
from covopt.solvers.regularised.newton import applies
from covopt.solvers.seeds import random_vertices

NEGLIGIBLE = 1e-9  # share of the largest mass below which a neuron is tried without
CENTRE = 0.5  # of a feasible dual, that is well inside of everything
WARM_FLOOR = 0.01  # least slack of a column of another solve
WARM_TIGHT = 0.9  # columns of another solve that are kept: nearly tight, or in use


class RegularisedGeneration(Driver):
    """Solve a :class:`Problem` by column generation.

    Parameters
    ----------
    problem : Problem
    oracle : Oracle
        Prices duals of the rows that are not zero: of shape (n,) for one output, else (n, q).
    warm : WarmStart, optional
        The end of another solve on the same rows, or a guess.
    **options
        Of :class:`~covopt.solvers.driver.Driver`.
    """

    def __init__(
        self,
        problem: Problem,
        oracle: Oracle,
        *,
        warm: WarmStart | None = None,
        **options: Any,
    ):
        super().__init__(problem, oracle, **options)
        self.warm = warm
        self.following: Following | None = None

    @property
    def n_columns(self) -> int:
        """Number of columns at present."""
        return len(self.following.neurons) if self.following is not None else len(self.master.columns)

    def solve(self) -> Point:
        """See the base class; the point also says where another solve may start."""
        point = super().solve()
        columns, cones = self.master.columns, self.master.cones
        if self.following is None and len(columns) and len(columns) == len(cones.sizes):
            weights = cones.weights
            heavy = np.linalg.norm(weights, axis=1) > NEGLIGIBLE * np.abs(weights).max(initial=0.0)
            tight = np.linalg.norm(self.master.heights, axis=1) > WARM_TIGHT
            kept = heavy | tight
            point.warm = WarmStart(
                columns.neurons[kept], weights[kept], cones.sizes[kept], self.master.shift(), self.master.dual,
                None if self.master.edges is None else self.master.edges.force, self.point.dual,
            )  # fmt: skip
        return point

    # ------------------------------------------------------------------ the start
    def _start(self) -> bool:
        """First dual, first columns; False when a network without neurons is already optimal."""
        problem = self.problem
        nothing = np.zeros((0, problem.rows.shape[1]))
        self.offer(nothing, np.zeros((0, problem.n_outputs)), problem.best_constant())
        first = problem.project_dual(problem.constant_dual())
        if not problem.live.any():
            self.point.dual, self.point.lower_bound = problem.scale_dual(first, 0.0)
            return False
        if self.warm is not None and applies(problem):
            self.following = Following(self, self.warm, curved=self.unit.has_curvature)
            return True
        return self._start_columns(first)

    def _iterate(self) -> None:
        """Exact steps from a warm start, then, or where they end, interior-point steps."""
        if self.following is not None:
            if self.following.run():
                return
            self.following, self.warm = None, self.point.warm or self.warm
            if not self._start_columns(self.problem.project_dual(self.problem.constant_dual())):
                return
        super()._iterate()

    def _start_columns(self, first: np.ndarray) -> bool:
        """First columns of the interior-point master; False where a bound shows that nothing is left to do."""
        problem, master = self.problem, self.master
        if self.warm is not None:
            return self._start_warm(self.warm, first)
        n = len(problem.rows)
        most = most_columns(n, n * problem.n_outputs)  # an eighth of them leaves room for those that come
        pricing = self.price(first, 0.0, max_neurons=max(min(n, most // 8), 20))
        self.offer_dual(first, pricing)
        if self.point.gap <= self.tol:
            return False
        # half of a feasible dual in the interior of everything: what starts are mixed with
        self.centre = first * (CENTRE / max(pricing.upper_bound, 1.0))
        master.columns.append_different(self.normalise(pricing.neurons))
        count = min(int(self.schedule.seeds_per_row * n), most // 8)
        seeds = random_vertices(problem.rows[problem.live], count, self.rng)
        master.columns.append_different(self.normalise(seeds), live=False)
        master.dual = self.centre
        level = self._level()
        master.cones.add(master.heights, level, 0.0)
        self._enter_edges(level)
        return True

    def _start_warm(self, warm: WarmStart, first: np.ndarray) -> bool:
        """Offer what is known, and start from its columns and weights."""
        problem, master = self.problem, self.master
        columns = master.columns
        self.offer(warm.neurons, warm.weights, warm.offset)
        neurons = np.zeros((0, problem.rows.shape[1]))
        if not self._offer_feasible(warm):
            dual = problem.project_dual(warm.dual)
            pricing = self.price(dual, WARM_TIGHT)
            neurons = pricing.neurons
            self.offer_dual(dual, pricing)
        if self.point.gap <= self.tol:
            return False
        columns.append(self.normalise(warm.neurons))
        weights = np.zeros((len(columns), problem.n_outputs))
        if len(columns) == len(warm.weights):
            weights = warm.weights
        fresh = columns.append(self.normalise(neurons))
        weights = np.concatenate([weights, np.zeros((fresh, problem.n_outputs))])
        # inside of everything, as far as the columns tell
        tallest = float(np.linalg.norm(columns.atoms @ first, axis=1).max(initial=0.0))
        self.centre = first * (CENTRE / max(tallest, 1.0))
        self.dual_gap = min(self.point.gap, 1.0)
        master.dual = self._best_dual()
        master.offset = warm.offset.copy()
        level = self._level()
        master.cones.add(master.heights, level, WARM_FLOOR)
        master.cones.carry(weights, level)
        self._enter_edges(level)
        if master.edges is not None and warm.edges is not None:
            master.edges.take(warm.edges, level)
        return True

    def _offer_feasible(self, warm: WarmStart) -> bool:
        """Take over the dual of another λ, whose gauge is known, where it is in the domain of this one."""
        if warm.feasible is None or not np.array_equal(
            self.problem.project_dual(warm.feasible), warm.feasible
        ):
            return False
        nothing = np.zeros((0, self.problem.rows.shape[1]))
        self.offer_dual(warm.feasible, Pricing(nothing, np.zeros(0), 1.0, exact=True))
        return True

    def _level(self) -> float:
        """Product of slack and multiplier that the bounds so far ask for."""
        count = 2 * (len(self.master.columns) + (self.master.dual.size if self.master.edges else 0))
        missing = self.point.upper_bound - max(self.point.lower_bound, 0.0)
        return max(missing, self.tol * abs(self.point.upper_bound), 1e-300) / max(count, 1)

    def _enter_edges(self, level: float) -> None:
        if self.master.edges is not None:
            self.master.enter_edges()
            self.master.edges.centre(level)

    # ------------------------------------------------------------------ networks
    def offer(self, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> None:
        """Keep a network where it is the best so far."""
        value = self.problem.primal_value(self.problem.fitted(neurons, weights, offset), weights, offset)
        self.keep(value, neurons, weights, offset)

    @stage("networks")
    def _offer_networks(self, step: Step, *, due: bool) -> None:
        """Offer what a step leads to, the best one first, as far as first order promises something."""
        master, problem = self.master, self.problem
        if not step.candidates:
            self._offer_weights(
                master.columns.neurons, master.columns.atoms, master.cones.weights, master.shift()
            )
            return
        promised = [
            problem.primal_value(candidate.outputs, 0.0 * candidate.weights, candidate.offset)
            + mass(step, candidate)
            for candidate in step.candidates
        ]
        for chosen in np.argsort(promised):
            if not promised[chosen] < self.point.upper_bound:
                break
            candidate = step.candidates[chosen]
            neurons, weights, atoms = shifted(master.columns, step, candidate)
            self._offer_weights(neurons, atoms, weights, candidate.offset)

    def _offer_weights(
        self, neurons: np.ndarray, atoms: np.ndarray, weights: np.ndarray, offset: np.ndarray
    ) -> None:
        """See the base class; the lightest neurons are left out."""
        sizes = np.linalg.norm(weights, axis=1)
        weights = np.where((sizes > NEGLIGIBLE * sizes.max(initial=0.0))[:, None], weights, 0.0)
        value = self.problem.primal_value(atoms.T @ weights + offset, weights, offset)
        self.keep(value, neurons, weights, offset)
