"""Interpolation by column generation: the driver's rounds, and networks that pass through the points.

A step of the master leads to weights and shifts of neurons whose outputs are right to first order. Where their cost
comes within a few tolerances of the lower bound, a network is made of them: neurons shifted in their closed faces,
weights and moves within faces corrected to interpolate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from covopt.checks.timing import stage
from covopt.oracles.base import Oracle
from covopt.problems.problem import PASSES, Problem
from covopt.solvers.driver import Driver
from covopt.solvers.least_norm import LeastNorm
from covopt.solvers.master.networks import completed, interpolate, mass, shifted
from covopt.solvers.master.newton import Candidate, Step
from covopt.solvers.points import Point, WarmStart
from covopt.solvers.seeds import random_vertices, spanning_directions
from covopt.status import Status

ROUNDING = 1e-14
FEASIBLE = 1e-10  # largest residual, relative to max|y| = 1, at which a network counts as interpolating
REACHED = 0.01  # of that, what corrections aim at
HEAVY = 1e-9  # share of the largest weight below which a neuron is tried without
HEAVIEST = 3  # columns for each unknown that are enough to interpolate well: copies of more fill memory,
SMALL = 10**6  # unless their atoms have no more entries than this
MANY_ROWS = 1200  # from which on a quick network is at hand after an interrupt, and another takes seconds
SPANNED = 1e-6  # what first columns may miss of targets of size one


class ColumnGeneration(Driver):
    """Pass through the points by column generation.

    Parameters
    ----------
    problem : Problem
    oracle : Oracle
        Prices duals of the problem's rows.
    warm : WarmStart, optional
        Whose neurons are columns.
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
        self.warm, self.targets = warm, problem.targets
        # the best so far of those that miss the points by more than the tolerance is worth
        self._rough: tuple[float, Any] = np.inf, None

    def solve(self) -> Point:
        """See the base class; where no network met the tolerance, the closest one that a certificate allows."""
        point = super().solve()
        columns, weights = self.master.columns, self.master.cones.weights
        # stopped within a step its arrays may not fit
        fits = len(columns.neurons) == len(columns.atoms) == len(weights) > 0
        fits &= point.status is not Status.INTERRUPTED or len(self.problem.rows) < MANY_ROWS
        if not np.isfinite(point.upper_bound) and fits and self._rough[1] is None:
            try:
                self._offer_weights(columns.neurons, columns.atoms, weights, self.master.shift())
            except (LinAlgError, ValueError):
                return point
        if not np.isfinite(point.upper_bound) and self._rough[0] <= PASSES:
            self._keep_network(*self._rough[1])
        return point

    # ------------------------------------------------------------------ the start
    def _start(self) -> bool:
        """First dual, first columns; False when the zero network is already optimal."""
        problem, master, schedule = self.problem, self.master, self.schedule
        n = len(problem.targets)
        first = self.problem.project_dual(self.targets)
        if np.abs(first).max(initial=0.0) <= 1e-14:
            if problem.has_offset and n:
                self.point.offset = self.targets.mean(axis=0)
            self.point.upper_bound = 0.0
            return False
        pricing = self.price(first, 0.0, max_neurons=max(n, 20))
        self.offer_dual(first, pricing)
        master.columns.append_different(self.normalise(pricing.neurons))
        if self.warm is not None:
            master.columns.append_different(self.normalise(self.warm.neurons))
        weights = self._add_spanning()
        largest = float(np.linalg.norm(weights, axis=1).max(initial=0.0))
        master.cones.add(master.heights, schedule.start * max(largest, 1e-8), 1.0)
        return True

    def _add_spanning(self) -> np.ndarray:
        """See the base class; returns the least-norm weights that interpolate."""
        problem, columns = self.problem, self.master.columns
        seeds = random_vertices(problem.rows, int(self.schedule.seeds_per_row * len(self.targets)), self.rng)
        columns.append_different(self.normalise(seeds), live=False)
        weights, missed = self._first_weights()
        if missed > SPANNED:
            columns.append_different(self.normalise(spanning_directions(problem.rows)), live=False)
            weights, _ = self._first_weights()
        return weights

    def _first_weights(self) -> tuple[np.ndarray, float]:
        """Least-norm weights that interpolate with the first columns, and what such weights miss of any targets."""
        atoms = self.master.columns.atoms
        if self.problem.has_offset:
            atoms = np.concatenate([atoms, np.full((1, atoms.shape[1]), np.sqrt(len(atoms)))])
        fit = LeastNorm(atoms)
        other = np.random.default_rng(0).standard_normal((len(self.targets), 1))
        missed = float(np.abs(other - atoms.T @ fit.solve(other)).max(initial=0.0))
        return fit.solve(self.targets)[: len(self.master.columns)], missed

    # ------------------------------------------------------------------ networks
    @property
    def _negligible(self) -> float:
        """Residual that is worth less than a tenth of the tolerance: missing the points by r saves ⟨λ, r⟩."""
        price = float(np.abs(self.point.dual).sum())
        worth = 0.1 * self.tol * self.point.lower_bound / price if price > 0 else FEASIBLE
        return max(min(FEASIBLE, worth), ROUNDING)

    @stage("networks")
    def _offer_networks(self, step: Step, *, due: bool) -> None:
        if not step.candidates:
            return
        costs = [
            mass(step, candidate) + float(np.vdot(np.abs(candidate.left), np.abs(self.master.dual)))
            + self.problem.network_value(0.0 * candidate.weights, candidate.offset)
            for candidate in step.candidates
        ]  # fmt: skip
        best = int(np.argmin(costs))
        near = self.point.lower_bound * (1.0 + self.schedule.worth_a_network * self.tol)
        # where the dual is done, what solves leave over is no reason to wait: the correction sees to it
        done = self.dual_gap <= self.tol < self.point.gap
        if costs[best] <= near or due or done:
            self._offer_candidate(step, step.candidates[best])

    def _offer_candidate(self, step: Step, candidate: Candidate) -> None:
        """Make networks of a candidate: without its lightest neurons or, at the end, of the columns in use alone."""
        cones, columns = self.master.cones, self.master.columns
        # a whole step takes light columns beyond zero, where they cost twice what they win: the iterate's do not
        turned = (candidate.weights * cones.weights).sum(axis=1) <= 0.0
        candidate = replace(candidate, weights=np.where(turned[:, None], cones.weights, candidate.weights))
        sizes = np.linalg.norm(candidate.weights, axis=1)
        most = max(HEAVIEST * self.targets.size, SMALL // len(self.targets))
        least = 0.0 if len(sizes) <= most else np.partition(sizes, -most)[-most]
        kept = sizes > max(HEAVY * sizes.max(initial=0.0), least)
        if self.dual_gap <= self.tol:
            kept = cones.tightness > 1.0
        every = np.ones(len(kept), dtype=bool)
        for chosen in (kept, every):
            if not chosen.any() or (chosen is every and (len(kept) > most or kept.all())):
                continue
            whole = candidate
            if self.problem.is_scalar:
                whole = completed(
                    columns, step, candidate, chosen, has_offset=self.problem.has_offset
                )  # fmt: skip
            neurons, weights, atoms = shifted(columns, step, whole, chosen)
            # what the columns left out would have reached must not pass for a small misfit
            enough = self._negligible * (1.0 if chosen.all() else REACHED)
            met = self._offer_weights(neurons, atoms, weights, whole.offset, enough=enough)
            if (met and self.dual_gap > self.tol) or self.point.gap <= self.tol:
                break

    def _offer_weights(
        self,
        neurons: np.ndarray,
        atoms: np.ndarray,
        weights: np.ndarray,
        offset: np.ndarray,
        *,
        enough: float | None = None,
    ) -> bool:
        """See the base class: weights are corrected to interpolate, to ``enough``; returns whether they do."""
        weights, offset = interpolate(
            self.problem.rows, neurons, atoms, self.targets, weights, offset,
            has_offset=self.problem.has_offset, enough=REACHED * self._negligible,
        )  # fmt: skip
        network = neurons, weights, offset
        residual = self.problem.missed(*network)
        if residual <= (self._negligible if enough is None else enough):
            self._keep_network(*network)
            return True
        if residual < self._rough[0]:
            self._rough = residual, network
        return False

    def _keep_network(self, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> None:
        self.keep(self.problem.network_value(weights, offset), neurons, weights, offset)
