"""Column generation for any problem: the driver's rounds, their first columns, and the networks of a step.

With a loss every network is feasible, so the networks of a step are offered as they are. For interpolation a step
gives weights and shifts of neurons whose outputs are right to first order. If their cost is within a few tolerances
of the lower bound, a network is made of them: neurons are shifted in their closed faces, then weights and moves
within faces are corrected to interpolate.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from covopt.checks.log import stage
from covopt.errors import Status
from covopt.exact.rank import FOUND, NEAR
from covopt.limits import HALF, PIECE
from covopt.oracles.base import Oracle
from covopt.problems.problem import PASSES, Problem
from covopt.solvers.active_set import applies
from covopt.solvers.driver import Driver
from covopt.solvers.least_norm import LeastNorm
from covopt.solvers.loop import Point, WarmStart
from covopt.solvers.master.columns import most_columns
from covopt.solvers.master.networks import completed, interpolate, mass, shifted
from covopt.solvers.master.newton import Candidate, Step
from covopt.solvers.path_follower import TIGHT, PathFollower
from covopt.solvers.quick import COLUMNS_PER_ROW

MANY_ROWS = 1000  # from so many on, a network takes seconds: after an interrupt a quick one replaces it


class Generation(Driver):
    """Solve a :class:`Problem` by column generation.

    Parameters
    ----------
    problem : Problem
    oracle : Oracle
        Prices duals of the rows that are not zero: of shape (n,) for one output, else (n, q).
    warm : WarmStart, optional
        End point of another solve on the same rows, or a guess.
    **options
        See :class:`~covopt.solvers.driver.Driver`; ``is_brief``: whether exact steps from the warm start are enough.
    """

    def __init__(self, problem: Problem, oracle: Oracle, *, warm: WarmStart | None = None, **options: Any):
        self.is_brief = options.pop("is_brief", False)
        super().__init__(problem, oracle, **options)
        self.warm, self.targets = warm, problem.targets
        self.following: PathFollower | None = None

    @property
    def n_columns(self) -> int:
        """Number of columns at present."""
        return len(self.following.columns) if self.following is not None else len(self.master.columns)

    def solve(self) -> Point:
        """Solve as the base class does; the point also has a warm start for another solve.

        If no network was found, one is made of the last weights.
        """
        point = super().solve()
        has_none = not np.isfinite(point.upper_bound)
        columns, cones = self.master.columns, self.master.cones
        # after an interrupted step, lengths of arrays may differ
        fits = len(columns.neurons) == len(columns.atoms) == len(cones.weights) > 0
        if self.problem.interpolates and has_none:
            quick = point.status is Status.INTERRUPTED and len(self.problem.rows) >= MANY_ROWS
            with contextlib.suppress(LinAlgError, ValueError):
                if fits and not quick:
                    self._offer_weights(columns.neurons, columns.atoms, cones.weights, self.master.shift())
        elif not self.problem.interpolates and self.following is None and fits:
            weights = cones.weights
            heavy = np.linalg.norm(weights, axis=1) > FOUND * np.abs(weights).max(initial=0.0)
            tight = np.linalg.norm(self.master.heights, axis=1) > TIGHT
            kept = heavy | tight
            point.warm = WarmStart(
                columns.neurons[kept], weights[kept], self.master.shift(), self.master.dual,
            )  # fmt: skip
        return point

    # ------------------------------------------------------------------ the start
    def _start(self) -> bool:
        """Set the first dual and columns; return False if a network without neurons is already optimal."""
        problem = self.problem
        if problem.interpolates:
            return self._start_through()
        nothing = np.zeros((0, problem.rows.shape[1]))
        self.offer(nothing, np.zeros((0, problem.n_outputs)), problem.best_constant())
        first = problem.project_dual(problem.constant_dual())
        if not problem.live.any():
            self.point.dual, self.point.lower_bound = problem.scale_dual(first, 0.0)
            return False
        if self.warm is not None and applies(problem):
            self.following = PathFollower(self, self.warm)
            return True
        return self._start_columns(first)

    def _iterate(self) -> None:
        """Take exact steps from a warm start, if any; if they do not close the gap, interior-point steps."""
        if self.following is not None:
            if self.following.run() or self.is_brief:
                return
            self.following, self.warm = None, self.point.warm or self.warm
            if not self._start_columns(self.problem.project_dual(self.problem.constant_dual())):
                return
        super()._iterate()

    def _start_columns(self, first: np.ndarray) -> bool:
        """Set the first columns of the interior-point master; return False if the bounds have closed the gap."""
        problem, master = self.problem, self.master
        known = np.zeros((0, problem.rows.shape[1]))
        if self.warm is not None:
            self.offer(self.warm.neurons, self.warm.weights, self.warm.offset)
            dual = problem.project_dual(self.warm.dual)
            pricing = self.price(dual, TIGHT)
            self.offer_dual(dual, pricing)
            known = np.concatenate([self.warm.neurons, pricing.neurons])
        n = len(problem.rows)
        most = most_columns(n, n * problem.n_outputs)  # an eighth of them leaves room for later columns
        pricing = self.price(first, 0.0, max_neurons=max(min(n, most // 8), 20))
        self.offer_dual(first, pricing)
        if self.is_closed():
            return False
        # half of a feasible dual is strictly feasible: other starts are mixed with it
        self.centre = first * (HALF / max(pricing.upper_bound, 1.0))
        master.columns.append(self.normalise(np.concatenate([known, pricing.neurons])))
        seeds = random_vertices(problem.rows[problem.live], min(n, most // 8), self.rng)
        master.columns.append(self.normalise(seeds), live=False)
        master.dual = self.centre
        if self.warm is not None:
            self.dual_gap, master.offset = min(self.point.gap, 1.0), self.warm.offset.copy()
            master.dual = self._best_dual()
        level = self._level()
        master.cones.add(master.heights, level, 0.0)
        self._enter_edges(level)
        return True

    def _level(self) -> float:
        """Return the product of slack and multiplier that corresponds to the present bounds."""
        count = 2 * (len(self.master.columns) + (self.master.dual.size if self.master.edges else 0))
        missing = self.point.upper_bound - max(self.point.lower_bound, 0.0)
        return max(missing, self.tol * abs(self.point.upper_bound), 1e-300) / max(count, 1)

    def _enter_edges(self, level: float) -> None:
        if self.master.edges is not None:
            self.master.enter_edges()
            self.master.edges.centre(level)

    # ------------------------------------------------------------------ the start, for interpolation
    def _start_through(self) -> bool:
        """Set the first dual, and first columns whose atoms span the targets; return False if no neuron is needed."""
        problem, master = self.problem, self.master
        first = self.problem.project_dual(self.targets)
        if problem.is_constant:
            if problem.has_offset and len(first):
                self.point.offset = self.targets.mean(axis=0)
            self.point.upper_bound = 0.0
            return False
        pricing = self.price(first, 0.0, max_neurons=max(len(first), 20))
        self.offer_dual(first, pricing)
        master.columns.append(self.normalise(pricing.neurons))
        if self.warm is not None:
            master.columns.append(self.normalise(self.warm.neurons))
        weights = self._add_spanning()
        largest = float(np.linalg.norm(weights, axis=1).max(initial=0.0))
        master.cones.add(master.heights, HALF * max(largest, 1e-8), 1.0)
        return True

    def _add_spanning(self) -> np.ndarray:
        """Add fixed columns that span all outputs; return the least-norm weights that interpolate."""
        problem, columns = self.problem, self.master.columns
        if not problem.interpolates:
            return np.zeros((0, problem.n_outputs))
        seeds = random_vertices(problem.rows, len(self.targets), self.rng)
        columns.append(self.normalise(seeds), live=False)
        weights, missed = self._first_weights()
        if missed > NEAR:
            columns.append(self.normalise(spanning_directions(problem.rows)), live=False)
            weights, _ = self._first_weights()
        return weights

    def _first_weights(self) -> tuple[np.ndarray, float]:
        """Return least-norm weights of the first columns that interpolate, and the residual for random targets."""
        atoms, neurons = self.master.columns.atoms, self.master.columns.neurons
        if self.problem.has_offset:
            atoms = np.concatenate([atoms, np.full((1, atoms.shape[1]), np.sqrt(len(atoms)))])
        fit = LeastNorm(atoms)
        asked = np.column_stack([self.targets, np.random.default_rng(0).standard_normal(len(self.targets))])
        # under a time limit, spanning directions would take half of it and save no rounds
        hurries = self._deadline is not None and len(self.targets) >= MANY_ROWS
        found = fit.refined(asked) if hurries else fit.solve(asked)
        missed = float(np.abs(asked - atoms.T @ found)[:, 0 if hurries else -1 :].max(initial=0.0))
        weights = found[:, :-1] if missed <= NEAR else fit.solve(self.targets)
        return weights[: len(neurons)], missed

    # ------------------------------------------------------------------ networks
    def offer(self, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> None:
        """Keep a network if it is the best so far."""
        value = self.problem.primal_value(self.problem.fitted(neurons, weights, offset), weights, offset)
        self.keep(value, neurons, weights, offset)

    @stage("networks")
    def _offer_networks(self, step: Step, *, due: bool) -> None:
        """Offer the networks of a step, best first, while their first-order values are below the upper bound."""
        master, problem = self.master, self.problem
        if problem.interpolates:
            self._offer_near(step, due=due)
            return
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
        """Keep the network of weights (m, k), without its lightest neurons, if it is the best so far.

        For interpolation weights are corrected first. A residual r lowers the cost by up to ⟨λ, r⟩, a bound on which
        is added to the value.
        """
        if not self.problem.interpolates:
            sizes = np.linalg.norm(weights, axis=1)
            weights = np.where((sizes > FOUND * sizes.max(initial=0.0))[:, None], weights, 0.0)
            value = self.problem.primal_value(atoms.T @ weights + offset, weights, offset)
            self.keep(value, neurons, weights, offset)
            return
        weights, _, offset = interpolate(
            atoms, self.targets, weights, offset, has_offset=self.problem.has_offset
        )
        missed = self.problem.missed(neurons, weights, offset)
        if missed <= PASSES:
            saved = missed * float(np.abs(self.point.dual).sum())
            self.keep(self.problem.network_value(weights, offset) + saved, neurons, weights, offset)

    # ------------------------------------------------------------------ networks, for interpolation
    def _offer_near(self, step: Step, *, due: bool) -> None:
        """Make the best network of a step if its cost is near the lower bound."""
        if not step.candidates:
            return
        costs = [
            mass(step, candidate) + float(np.vdot(np.abs(candidate.left), np.abs(self.master.dual)))
            + self.problem.network_value(0.0 * candidate.weights, candidate.offset)
            for candidate in step.candidates
        ]  # fmt: skip
        best = int(np.argmin(costs))
        near = self.point.lower_bound * (1.0 + self.schedule.worth_a_network * self.tol)
        # once the dual has converged, residuals of solves are no reason to wait: the correction removes them
        done = self.dual_gap <= self.tol < self.point.gap
        if costs[best] <= near or due or done:
            self._offer_candidate(step, step.candidates[best])

    def _offer_candidate(self, step: Step, candidate: Candidate) -> None:
        """Make a network of a candidate: until the dual is done, without its lightest neurons."""
        cones, columns = self.master.cones, self.master.columns
        # a full step takes light columns past zero, where they cost twice what they gain: keep the iterate's weights
        turned = (candidate.weights * cones.weights).sum(axis=1) <= 0.0
        candidate = replace(candidate, weights=np.where(turned[:, None], cones.weights, candidate.weights))
        sizes = np.linalg.norm(candidate.weights, axis=1)
        most = COLUMNS_PER_ROW * self.targets.size
        every = len(sizes) <= most or self.dual_gap <= self.tol
        least = 0.0 if every else np.partition(sizes, -most)[-most]
        kept = sizes > max(FOUND * sizes.max(initial=0.0), least)
        if not kept.any():
            return
        if self.problem.is_scalar:
            candidate = completed(columns, step, candidate, kept, has_offset=self.problem.has_offset)
        neurons, weights, atoms = shifted(columns, step, candidate, kept)
        self._offer_weights(neurons, atoms, weights, candidate.offset)


def generate(problem: Problem, oracle: Oracle, **options: Any) -> Point:
    """Solve by column generation.

    Parameters
    ----------
    problem : Problem
    oracle : Oracle
    **options
        ``tol``, ``time_limit_s``, ``max_rounds``, ``random_state``, ``callback``, ``unit`` and ``warm``.
    """
    return Generation(problem, oracle, **options).solve()


def random_vertices(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return unit neurons ±w, each orthogonal to r − 1 random rows.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    count : int
        Number of subsets; twice as many neurons come back.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (2 * count, r)
    """
    n, rank = rows.shape
    if rank == 1:
        return np.array([[1.0], [-1.0]])
    chosen = np.tile(np.arange(rank - 1), (1, 1))
    if n > rank - 1:  # in pieces: one number for each subset and row takes much memory
        sizes = [len(part) for part in np.array_split(np.arange(count), -(-count * n // PIECE) or 1)]
        parts = [rng.random((m, n)).argpartition(rank - 2, axis=1)[:, : rank - 1].copy() for m in sizes]
        chosen = np.concatenate(parts)
    subsets = rows[chosen] / np.linalg.norm(rows[chosen], axis=2, keepdims=True)
    null = np.linalg.svd(subsets, full_matrices=True)[2][:, -1, :]
    return np.concatenate([null, -null])


def spanning_directions(rows: np.ndarray) -> np.ndarray:
    """Return neurons whose atoms span all of ℝᴺ for rows on distinct rays without antipodal dependence.

    They are, for every row z, the directions ±z, and ± a random direction orthogonal to z.
    """
    n, rank = rows.shape
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    rng = np.random.default_rng(0)
    tangent = rng.standard_normal((n, rank))
    tangent -= np.einsum("ij,ij->i", tangent, units)[:, None] * units
    norms = np.linalg.norm(tangent, axis=1, keepdims=True)
    tangent = tangent / np.where(norms > 0, norms, 1.0)
    return np.concatenate([units, -units, tangent, -tangent])
