"""Interpolation by column generation: the driver's rounds, and networks that pass through the points.

A step of the master leads to weights and shifts of neurons whose outputs are right to first order. Where their cost
comes within a few tolerances of the lower bound, a network is made of them: neurons shifted in their closed faces,
weights and moves within faces corrected to interpolate.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from covopt.checks.timing import stage
from covopt.exact.rounding import relative_gap
from covopt.oracles.base import Oracle, Pricing
from covopt.oracles.lifted.gauge_certificate import GaugeCertificate
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.driver import Driver
from covopt.solvers.exact_ramps import Kinks
from covopt.solvers.least_norm import LeastNorm
from covopt.solvers.loop import RoundState
from covopt.solvers.master.networks import completed, interpolate, mass, shifted
from covopt.solvers.master.newton import Candidate, Step
from covopt.solvers.master.objective import Interpolation
from covopt.solvers.seeds import random_vertices, spanning_directions
from covopt.status import Status

ROUNDING = 1e-14
PASSES = 0.9e-9  # what a certificate allows, nearly: for networks where nothing comes closer
FEASIBLE = 1e-10  # largest residual, relative to max|y| = 1, at which a network counts as interpolating
REACHED = 0.01  # of that, what corrections aim at
HEAVY = 1e-9  # share of the largest weight below which a neuron is tried without
HEAVIEST = 3  # columns for each unknown that are enough to interpolate well: copies of more fill memory,
SMALL = 10**6  # unless their atoms have no more entries than this
SPANNED = 1e-6  # what first columns may miss of targets of size one


@dataclass
class Point:
    """Best points of a solver, in the units and shapes of the :class:`ShallowProblem`."""

    neurons: np.ndarray
    weights: np.ndarray
    offset: float | np.ndarray
    upper_bound: float
    dual: np.ndarray
    lower_bound: float
    status: Status
    history: list[RoundState] = field(default_factory=list)
    proof: GaugeCertificate | None = None  # of the dual's gauge, where a semidefinite relaxation gave it
    finished: bool = False  # the network is merged, and as sparse as it gets
    claimed: bool = False  # quadratics on boxes have shown that no neuron exceeds one at the dual
    moments: np.ndarray | None = (
        None  # Λᵀ Z, (r, k), where it is known better than the sum of the dual's doubles
    )
    kinks: Kinks | None = None  # where neurons of one input bend, as the solver has them
    heights: np.ndarray | None = None  # with them F(r_i), (N, k), at the neurons that turn active at a row

    @property
    def gap(self) -> float:
        """Relative distance of the bounds."""
        return relative_gap(self.upper_bound, self.lower_bound)


class ColumnGeneration(Driver):
    """Solve a :class:`ShallowProblem` by column generation, for one output or several.

    Parameters
    ----------
    problem : ShallowProblem
    oracle : Oracle
        Prices duals of the problem's rows.
    start_neurons : ndarray of shape (m, r), optional
    **options
        Of :class:`~covopt.solvers.driver.Driver`.
    """

    def __init__(
        self,
        problem: ShallowProblem,
        oracle: Oracle,
        *,
        start_neurons: np.ndarray | None = None,
        **options: Any,
    ):
        view = Interpolation(problem)
        super().__init__(view, oracle, **options)
        self.problem, self.start_neurons, self.targets = problem, start_neurons, view.targets
        # the best so far of those that miss the points by more than the tolerance is worth
        self._rough: tuple[float, Any] = np.inf, None
        (_, rank), shape = problem.rows.shape, problem.targets.shape
        self.point = Point(
            np.zeros((0, rank)), np.zeros((0, *shape[1:])), np.zeros(shape[1:])[()], np.inf, np.zeros(shape), 0.0,
            Status.GAP,
        )  # fmt: skip

    def solve(self) -> Point:
        """See the base class; where no network met the tolerance, the closest one that a certificate allows."""
        point = super().solve()
        columns, weights = self.master.columns, self.master.cones.weights
        # stopped within a step its arrays may not fit
        fits = len(columns.neurons) == len(columns.atoms) == len(weights) > 0
        if not np.isfinite(point.upper_bound) and fits and self._rough[1] is None:
            try:
                self._offer_weights(
                    columns.neurons, columns.atoms, weights, self.master.shift(), enough=self._negligible
                )
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
        first = self.objective.project(self.targets)
        if np.abs(first).max(initial=0.0) <= 1e-14:
            if problem.has_offset and n:
                self.point.offset = self._own(self.targets.mean(axis=0))
            self.point.upper_bound = 0.0
            return False
        pricing = self.oracle.price(self._own(first), threshold=0.0, max_neurons=max(n, 20))
        self.offer_dual(first, pricing)
        master.columns.append_different(self.normalise(pricing.neurons))
        if self.start_neurons is not None:
            master.columns.append_different(self.normalise(self.start_neurons))
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

    # ------------------------------------------------------------------ bounds
    def _own(self, values: np.ndarray) -> Any:
        """Return values with an axis for outputs in the problem's own shape."""
        return values if self.problem.is_vector else np.asarray(values[..., 0], order="C")[()]

    @stage("pricing")
    def price(self, dual: np.ndarray, threshold: float) -> Pricing:
        """See the base class."""
        return self.oracle.price(self._own(dual), threshold=threshold)

    def offer_dual(self, dual: np.ndarray, pricing: Pricing) -> None:
        """See the base class."""
        self._offer_dual(self._own(dual), pricing)

    def _offer_dual(self, dual: np.ndarray, pricing: Pricing) -> None:
        scaled, value = self.problem.scale_dual(dual, pricing.upper_bound)
        if value > self.point.lower_bound or not self.point.dual.any():
            self.point.dual, self.point.lower_bound = scaled, max(value, 0.0)

    def _best_dual(self) -> np.ndarray:
        shrink = float(np.clip(0.1 * self.dual_gap, 1e-12, 0.1))
        return self.point.dual.reshape(self.targets.shape) * (1.0 - shrink)

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
            + self.objective.cost(0.0 * candidate.weights, candidate.offset)
            for candidate in step.candidates
        ]  # fmt: skip
        best = int(np.argmin(costs))
        near = self.point.lower_bound * (1.0 + self.schedule.worth_a_network * self.tol)
        # where the dual is done, what solves leave over is no reason to wait: the correction sees to it
        done = self.dual_gap <= self.tol < self.point.gap
        if costs[best] <= near or due or done:
            self._offer_candidate(step, step.candidates[best])

    def bounds_of(self, kept: dict[str, Any]) -> tuple[float, float]:
        """See the base class."""
        neurons, weights, offset = kept["neurons"], kept["weights"], kept["offset"]
        missed = np.abs(self.problem.residual(neurons, weights, offset)).max(initial=0.0)
        passes = missed <= 10.0 * PASSES * np.abs(self.problem.targets).max(initial=0.0)
        upper = self.problem.primal_value(weights, offset) if passes else np.inf
        return upper, self.problem.dual_value(kept["dual"])

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
            if not self.problem.is_vector:
                whole = completed(
                    columns, step, candidate, chosen, has_offset=self.problem.has_offset, rooms=self.master.rooms[:2]
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
        enough: float,
    ) -> bool:
        """Correct weights (m, k) to interpolate, to ``enough``; keep the network where it is the best so far.

        Returns whether they do.
        """
        weights, offset = interpolate(
            self.problem.rows, neurons, atoms, self.targets, weights, offset,
            has_offset=self.problem.has_offset, enough=REACHED * self._negligible,
            rooms=self.master.rooms[:2],
        )  # fmt: skip
        network = neurons, self._own(weights), self._own(offset)
        residual = float(np.abs(self.problem.residual(*network)).max())
        if residual <= enough:
            self._keep_network(*network)
            return True
        if residual < self._rough[0]:
            self._rough = residual, network
        return False

    def _keep_network(self, neurons: np.ndarray, weights: np.ndarray, offset: Any) -> None:
        used = np.abs(weights) > 0 if weights.ndim == 1 else weights.any(axis=1)
        value = self.problem.primal_value(weights, offset)
        if value < self.point.upper_bound:
            self.point.neurons, self.point.weights = neurons[used], weights[used]
            self.point.offset, self.point.upper_bound = offset, value


def generate(problem: ShallowProblem, oracle: Oracle, **options: Any) -> Point:
    """Solve by :class:`ColumnGeneration`, with its options.

    Parameters
    ----------
    problem : ShallowProblem
    oracle : Oracle
    **options
        ``tol``, ``time_limit_s``, ``max_rounds``, ``random_state``, ``callback``, ``start_neurons``.
    """
    return ColumnGeneration(problem, oracle, **options).solve()
