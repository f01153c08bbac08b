"""The loop of column generation: a Newton step, pricing, columns that move, enter and leave; stop on the gap.

One round

1. takes one Newton step of the restricted master (:mod:`covopt.solvers.master.newton`),
2. prices its dual: the oracle's bound h(Λ) scales Λ into a feasible dual, its local maxima become columns,
3. makes networks of the step, each an upper bound,
4. lets columns follow the dual within their faces, adds the new ones, and drops the idle.

Bounds are valid whatever the steps do: the lower one comes from exact pricing of a scaled dual, the upper one from an
explicit network. Where single steps make no progress, the restricted master is solved before each pricing, which the
history notes. Doing so from the first round takes twice as long in the plane (500 noisy points: 2.7 instead of 1.3
processor seconds, smooth ones: 4.8 instead of 1.9), and as long elsewhere.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from covopt.checks.log import stage
from covopt.errors import Status
from covopt.exact.rank import ROUGH
from covopt.limits import HALF
from covopt.oracles.base import Oracle, Pricing, heights
from covopt.problems.problem import Problem
from covopt.solvers.loop import GenerationLoop, Point
from covopt.solvers.master.newton import Master, Step
from covopt.solvers.merging import Unit


@dataclass(frozen=True)
class Schedule:
    """Parameters of the rounds of column generation; the defaults were measured on random points in the plane.

    Attributes
    ----------
    floor : float
        Least slack of a new column, as a share of the excess h(Λ) − 1. Ten times as much doubles the rounds, since
        it takes rounds to reduce a slack that is far too large.
    listed : float
        Pricing also returns neurons within this of one (or √gap/10, if smaller): they may soon exceed one.
    in_use : float
        Columns whose multiplier exceeds this many times the mean product are kept: their slack is far smaller than
        that of an inactive column. Any value from 200 to 2000 works.
    worth_a_network : float
        A network is made if its estimated distance from the lower bound is below this many tolerances.
    networks_below : float
        Dual gap below which, with a loss, the full step of every round is tried as a network: this is cheap.
    stalled : int
        Rounds without progress of the bounds after which every restricted master is solved before pricing: where few
        constraints are active the dual objective is flat, and single steps wander.
    hopeless : int
        Rounds of that kind without progress after which only rounding error is left.
    patient_steps : int
        Most Newton steps of such a solve.
    patient_accuracy : float
        Complementarity at which it ends, as a share of the gap: a loose, centred dual prices better columns.
    patient_slack : float
        Factor on the distance from their bound up to which columns are kept then.
    max_idle : int
        Rounds without a new column or a smaller gap after which only rounding error is left.
    """

    floor: float = 0.03
    listed: float = 0.02
    in_use: float = 600.0
    worth_a_network: float = 3.0
    networks_below: float = 0.3
    stalled: int = 15
    hopeless: int = 60
    patient_steps: int = 40
    patient_accuracy: float = 0.3
    patient_slack: float = 10.0
    max_idle: int = 8


class Driver(GenerationLoop):
    """Rounds on a problem; subclasses define the first columns and how networks are made.

    Parameters
    ----------
    problem : Problem
    oracle : Oracle
    unit : Unit, optional
        Cost of neurons; by default their norm.
    **options
        See :class:`~covopt.solvers.loop.GenerationLoop`.
    """

    def __init__(
        self,
        problem: Problem,
        oracle: Oracle,
        *,
        unit: Unit | None = None,
        **options: Any,
    ):
        super().__init__(**options)
        self.problem, self.oracle = problem, oracle
        self.schedule = Schedule()
        self.unit = unit or Unit()
        self.master = Master(problem, self.unit.fit_frames)
        # ``centre``: a strictly feasible point that duals are moved towards
        self.dual_gap, self.centre = 1.0, np.zeros(problem.dual_shape)
        self.point = Point.nothing(problem, Status.GAP)
        self.is_patient = False
        self._idle = 0

    @property
    def n_columns(self) -> int:
        """Number of columns at present."""
        return len(self.master.columns)

    @abstractmethod
    def _offer_networks(self, step: Step, *, due: bool) -> None:
        """Keep the best network of a step if it is the best so far; ``due`` makes one even far from the optimum."""

    @abstractmethod
    def _add_spanning(self) -> Any:
        """Add fixed columns whose atoms span all outputs, for interpolation."""

    def normalise(self, neurons: np.ndarray) -> np.ndarray:
        """Return neurons of cost one."""
        return self.unit.normalise(neurons)

    @stage("pricing")
    def price(self, dual: np.ndarray, threshold: float, max_neurons: int | None = None) -> Pricing:
        """Price a dual of shape (N, k) with the oracle."""
        return self.oracle.price(self.problem.asked(dual), threshold=threshold, max_neurons=max_neurons)

    def offer_dual(self, dual: np.ndarray, pricing: Pricing) -> None:
        """Scale a priced dual of shape (N, k) into feasibility, and keep it if it is the best so far."""
        scaled, value = self.problem.scale_dual(dual, pricing.upper_bound)
        if value > self.point.lower_bound or not self.point.dual.any():
            self.point.dual, self.point.lower_bound = scaled, max(value, 0.0)

    def correct(self, neurons: np.ndarray) -> None:
        """Rescale the best dual if neurons (m, r) violate its constraint: an oracle may later find what it missed."""
        dual = self.point.dual
        if not len(neurons) or not dual.any():
            return
        highest = float(np.linalg.norm(heights(self.problem.rows, dual, neurons), axis=1).max())
        if highest > 1.0:
            scaled, value = self.problem.scale_dual(dual, highest)
            self.point.dual, self.point.lower_bound = scaled, max(value, 0.0)

    def _best_dual(self) -> np.ndarray:
        """Return the best feasible dual, shape (N, k), moved into the interior of the domain and the balls."""
        shrink = float(np.clip(0.1 * self.dual_gap, 1e-12, 0.1))
        return (1.0 - shrink) * self.point.dual + shrink * self.centre

    def keep(self, value: float, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> None:
        """Keep a network if it is the best so far."""
        if value < self.point.upper_bound:  # NaN is no bound either
            used = weights.any(axis=1)
            self.point.neurons, self.point.weights = neurons[used], weights[used]
            self.point.offset, self.point.upper_bound = offset, value

    # ------------------------------------------------------------------ rounds
    def _iterate(self) -> None:
        schedule, since, milestone = self.schedule, 0, self._milestone()
        for number in range(1, self.max_rounds + 1):
            before = self.dual_gap
            try:
                fresh, ended = self._patient_round() if self.is_patient else self._round(number)
            except LinAlgError:
                if self.is_patient:
                    return
                self._become_patient("the system of a Newton step could not be solved")
                continue
            if ended:
                return
            # without new columns only a more accurate master can help
            self._idle = 0 if fresh or self.dual_gap < HALF * before else self._idle + 1
            if self._idle > schedule.max_idle:
                if self.is_patient:
                    return
                self._become_patient("pricing found no new column")
            reached = self._milestone()
            if reached < HALF * milestone:
                milestone, since = reached, number
            elif self.is_patient and number - since >= schedule.hopeless:
                return
            elif not self.is_patient and number - since >= schedule.stalled:
                self._become_patient(f"the bounds hardly moved in {schedule.stalled} rounds")

    def _milestone(self) -> float:
        gap = self.point.gap
        return self.dual_gap * (gap if np.isfinite(gap) else 1.0)

    def _become_patient(self, reason: str) -> None:
        """Solve the restricted master in all later rounds; begin with spanning columns and new multipliers."""
        self._note = f"restricted problems are solved before pricing from here on: {reason}"
        self.is_patient, self._idle = True, 0
        self._span()

    def _span(self) -> None:
        """Restart at the best feasible dual, with spanning columns and equal products of slack and multiplier."""
        master = self.master
        master.dual = self._best_dual()
        before = len(master.columns)
        self._add_spanning()
        if len(master.columns) > before:
            master.cones.add(master.columns.atoms[before:] @ master.dual, 1.0, 1.0)
        master.cones.enter(master.heights)
        master.cones.centre(self.dual_gap * self._scale() / max(master.cones.count, 1))

    def _round(self, number: int) -> tuple[int, bool]:
        master, schedule = self.master, self.schedule
        gap_before = self.dual_gap
        # rounds 4, 8, 16, … always make a network, so that a bracket exists at any time
        due = number >= 4 and number & (number - 1) == 0
        networks = ROUGH if self.problem.interpolates else schedule.networks_below
        step = master.step(gap_before, self._scale(), with_networks=due or gap_before < networks)
        pricing = self._ask()
        self._offer_networks(step, due=due)
        if self.should_stop():
            return 0, True
        return self._renew(pricing), False

    def _scale(self) -> float:
        """Return the size of the objective value, the scale of absolute gaps."""
        return max(abs(self.problem.dual_value(self.master.dual)), self.point.lower_bound)

    def _ask(self) -> Pricing:
        """Price the master's dual, and update the lower bound and the dual gap."""
        master, gap = self.master, self.dual_gap
        dual = self.problem.project_dual(master.dual)
        listed = min(self.schedule.listed, 0.1 * np.sqrt(gap)) if gap < 1e-2 else 0.0
        pricing = self.price(dual, 1.0 - listed)
        self.offer_dual(dual, pricing)
        lower, missing = self.point.lower_bound, master.complementarity
        value = self.problem.dual_value(dual)
        above = max(value - self.problem.scale_dual(dual, max(pricing.upper_bound, 1.0))[1], 0.0)
        if lower > 0:
            above = (
                max(above, lower * max(pricing.upper_bound - 1.0, 0.0))
                if self.problem.interpolates
                else above
            )
            self.dual_gap = (above + missing) / (lower + above + missing)
        if np.isfinite(self.point.gap):
            self.dual_gap = min(self.dual_gap, max(self.point.gap, 1e-300))
        return pricing

    @stage("columns")
    def _renew(self, pricing: Pricing, *, drops: bool = True) -> int:
        """Move, add and drop columns; return the number of new ones."""
        master, schedule = self.master, self.schedule
        columns, cones = master.columns, master.cones
        master.slide()
        level, before = master.level, len(columns)
        fresh = columns.append(self.normalise(self._fresh(pricing)))
        if fresh:
            floor = schedule.floor * (pricing.upper_bound - 1.0)
            sizes = cones.sizes
            squares = float((sizes**2).sum()) if before else 0.0
            if squares > 0.0:  # all multipliers may be zero
                # a column close to its bound would enter with a large weight, which takes rounds to reduce
                floor = max(floor, level * float(sizes.sum()) / squares)
            cones.add(columns.atoms[before:] @ master.dual, level, floor)
        if drops and self.dual_gap < HALF:  # at a larger gap, all columns steer the dual
            self._drop(level, fresh)
        cones.lift(level)
        return fresh

    def _fresh(self, pricing: Pricing) -> np.ndarray:
        """Return the neurons to add, best first."""
        return pricing.neurons[: self.master.dual.size]

    def _drop(self, level: float, fresh: int) -> None:
        """Drop columns that are neither near their bound nor in use nor new."""
        master, schedule = self.master, self.schedule
        size = np.linalg.norm(master.heights, axis=1)
        slack = np.sqrt(self.dual_gap)  # heights move by about that
        if self.is_patient:
            slack *= schedule.patient_slack
        wanted = size > 1.0 - slack
        wanted |= master.cones.sizes > schedule.in_use * level
        if fresh:
            wanted[-fresh:] = True
        least = master.dual.size
        if wanted.sum() < least < len(wanted):
            order = np.argsort(-np.where(wanted, np.inf, size), kind="stable")
            wanted[order[:least]] = True
        elif wanted.sum() < least:
            return
        self._keep(wanted)

    def _keep(self, kept: np.ndarray) -> None:
        if not kept.all():
            self.master.columns.keep(kept)
            self.master.cones.keep(kept)

    # ------------------------------------------------------------------ restricted masters solved before pricing
    def _patient_round(self) -> tuple[int, bool]:
        """Solve the restricted master from the best feasible dual, then price."""
        master, schedule = self.master, self.schedule
        level = master.level
        master.dual = self._best_dual()
        master.cones.enter(master.heights)
        if master.edges is not None:
            master.enter_edges()
            master.edges.lift(level)
        master.cones.lift(level)
        gap, jammed = self.dual_gap, False
        accuracy = schedule.patient_accuracy * gap * 0.1**self._idle
        wanted = max(accuracy, 0.01 * self.tol) * self._scale()
        for _ in range(schedule.patient_steps):
            step = master.step(min(gap, ROUGH), self._scale(), with_networks=True)
            worth = step.residual * float(np.abs(master.dual).sum())
            if master.complementarity <= wanted and worth <= wanted:
                break
            jammed = max(step.primal, step.dual) < 1e-7
            if jammed or self._is_late():
                break
            master.slide()
        lower = self.point.lower_bound
        pricing = self._ask()
        self._offer_networks(step, due=True)
        if self.should_stop():
            return 0, True
        # dropping without progress would let the same columns cycle
        fresh = self._renew(pricing, drops=self.point.lower_bound > lower and not jammed)
        if jammed:  # after dropping, some outputs may be spanned by no column
            self._span()
        return fresh, False
