r"""A true lower bound in any dimension: the semidefinite relaxation of the interpolation problem.

Moments of all neurons together, one block per region of directions, must meet the targets at least mass
(:func:`covopt.oracles.lifted.admm.run_lifted`). Its dual is a Λ together with a proof that h(Λ) ≤ 1, both
approximate; what is returned is the dual value divided by the gauge that the proof shows, rounding included.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from covopt.checks.validation import check_choice, check_count, check_time_limit, check_tol
from covopt.exact.rounding import allowance
from covopt.oracles.bounds import gauge_bound
from covopt.oracles.lifted.admm import LiftedPoint, run_lifted
from covopt.oracles.lifted.conic import AFFORDABLE, estimate_work, run_conic
from covopt.oracles.lifted.gauge_certificate import (
    GaugeCertificate,
    Multipliers,
    UnitRows,
    bound_region,
    check_gauge,
)
from covopt.oracles.lifted.lift import LEVELS, Lift
from covopt.oracles.lifted.splitting import Regions, certificate_of
from covopt.problems.shallow import ShallowProblem

MAX_ROWS = 80  # a step at so many rows takes about 10 ms
MAX_SPLITS = 12
UNITS = (1.0, 30.0, 1000.0)  # of the targets, tried one after the other where numbers are extreme
LOSS = 1e-3


@dataclass(frozen=True)
class RelaxationPoint:
    """A dual point with its proof, in the units of the :class:`ShallowProblem`.

    Attributes
    ----------
    dual : ndarray of the targets' shape
        Feasible: its gauge is at most 1 by the certificate.
    lower_bound : float
        Its dual value; no network costs less.
    gauge : float
        What :func:`covopt.oracles.lifted.gauge_certificate.check_gauge` answers for ``dual``; at most 1 to rounding.
    certificate : GaugeCertificate or None
        None where :func:`covopt.oracles.bounds.gauge_bound` alone proves the gauge.
    n_regions, n_steps : int
    time_s : float
    """

    dual: np.ndarray
    lower_bound: float
    gauge: float
    certificate: GaugeCertificate | None
    n_regions: int
    n_steps: int
    time_s: float


def solve_relaxation(
    problem: ShallowProblem,
    *,
    level: str = "length",
    splits: int = 0,
    tol: float = 3e-5,
    time_limit_s: float | None = None,
    max_steps: int = 4000,
    max_rows: int = MAX_ROWS,
    start_dual: np.ndarray | None = None,
    enough: float = np.inf,
) -> RelaxationPoint:
    r"""Bound the interpolation problem from below by its doubly-nonnegative relaxation.

    .. math::
        \min \sum_b \operatorname{Tr} X^b_{vv} + \tfrac{\rho}{2}\|B\|^2 \quad \text{s.t.} \quad
        \sum_b X^b_{pv} + 1 B^\top = Y, \quad X^b = C_b M^b C_b^\top, \; M^b \succeq 0, \; X^b_{ll'} \ge 0, \;
        X^b_{p_i q_i} = 0, \; \operatorname{Tr} X^b_{vv} = X^b_{tt} = \operatorname{Tr} X^b_{ww},

    a sum over regions b of directions. One region and level "plain" is the doubly-nonnegative relaxation; products
    with the length and splits make it smaller sets of moments, so larger bounds, up to the optimum.

    Parameters
    ----------
    problem : ShallowProblem
    level : {"plain", "signed", "length", "cone"}
        See :class:`covopt.oracles.lifted.lift.Lift`.
    splits : int
        Rounds in which every region that carries mass is divided in two; after each the program is solved anew.
    tol : float
        Relative residual at which the solver stops; the bound is valid at any.
    time_limit_s : float, optional
    max_steps : int
        Per round.
    max_rows : int
        Rows that may carry dual; the most important ones of ``start_dual`` when there are more.
    start_dual : ndarray of the targets' shape, optional
        By default the targets.
    enough : float
        No further round once the lower bound is above it.

    Returns
    -------
    RelaxationPoint
        The best of all rounds.

    Raises
    ------
    InputError
        When an option cannot be used.

    Examples
    --------
    >>> problem = ShallowProblem(np.eye(2), np.array([3.0, 4.0]))
    >>> round(solve_relaxation(problem).lower_bound, 3)
    5.0
    """
    began = time.perf_counter()
    check_choice("level", level, LEVELS)
    splits, tol, time_limit_s = (
        check_count("splits", splits, 0),
        check_tol(tol),
        check_time_limit(time_limit_s),
    )
    deadline = None if time_limit_s is None else began + time_limit_s
    targets = problem.targets.reshape(len(problem.targets), -1)
    n_rows, outputs = targets.shape
    nothing = GaugeCertificate(n_rows, outputs, 1.0, [], level, [], [])
    if not targets.any():
        return RelaxationPoint(np.zeros_like(problem.targets), 0.0, 0.0, nothing, 0, 0, 0.0)

    run = RelaxationRun(problem, targets, max_rows, start_dual)
    regions = Regions(run.unit.units, outputs, level)
    steps = 0
    for turn in range(splits + 1):
        lifts = regions.lifts()
        point = run.solve(lifts, tol, max_steps, deadline)
        steps += point.n_steps
        if turn == splits or run.bound >= enough or (deadline is not None and time.perf_counter() > deadline):
            break
        if not regions.split(point):
            break
    if run.bound <= 0.0:  # cut short before anything was proved
        spent = time.perf_counter() - began
        return RelaxationPoint(np.zeros_like(problem.targets), 0.0, 0.0, nothing, len(regions), steps, spent)
    unit = UnitRows.of(problem.rows, run.dual, run.support)
    certificate = certificate_of(unit, run.support, n_rows, run.lifts, run.multipliers)
    # a hair inside, so that checking the scaled dual cannot answer more than 1
    margin = 1.0 + 1e-12
    dual, _ = problem.scale_dual(run.dual, margin * check_gauge(problem.rows, run.dual, certificate))
    gauge = check_gauge(problem.rows, dual, certificate)
    bound = problem.scale_dual(dual, max(1.0, gauge))[1] if gauge > 1.0 else problem.dual_value(dual)
    # ⟨Λ, Y⟩ is a sum of numbers that may cancel
    bound -= _value_rounding(problem, dual)
    bound = max(0.0, bound)
    return RelaxationPoint(
        dual, bound, gauge, certificate, len(run.lifts), steps, time.perf_counter() - began
    )


def bracket(
    problem: ShallowProblem,
    *,
    dual: np.ndarray | None = None,
    upper_bound: float = np.inf,
    tol: float = 1e-3,
    time_limit_s: float = 60.0,
) -> RelaxationPoint:
    """Lower bound beside a heuristic solution: as tight as the time allows.

    The relaxation at level "length" is solved over ever more regions of directions until it comes within ``tol`` of
    the upper bound or the time is up. The better of it and of the given dual divided by
    :func:`covopt.oracles.bounds.gauge_bound` is returned.

    Parameters
    ----------
    problem : ShallowProblem
    dual : ndarray of the targets' shape, optional
        Of a heuristic solve; it need not be feasible. It chooses the rows where there are too many.
    upper_bound : float
        Primal value of the best network known.
    tol : float
        Relative gap that is good enough.
    time_limit_s : float
        A round that is under way when it is over is cut short.

    Returns
    -------
    RelaxationPoint
        Its ``certificate`` is None where the given dual won.

    Raises
    ------
    InputError
        When ``tol`` or ``time_limit_s`` cannot be used.

    Examples
    --------
    >>> point = bracket(ShallowProblem(np.eye(2), np.array([3.0, 4.0])), upper_bound=5.0)
    >>> 4.99 < point.lower_bound <= 5.0
    True
    """
    point = solve_relaxation(
        problem, splits=MAX_SPLITS, time_limit_s=time_limit_s, start_dual=dual,
        enough=(1.0 - check_tol(tol)) * upper_bound,
    )  # fmt: skip
    if dual is None or not dual.any():
        return point
    moved = problem.project_dual(dual)
    scaled, bound = problem.scale_dual(moved, gauge_bound(problem.rows, moved))
    bound -= _value_rounding(problem, scaled)
    if bound <= point.lower_bound:
        return point
    return replace(point, dual=scaled, lower_bound=bound, gauge=1.0, certificate=None)


def _value_rounding(problem: ShallowProblem, dual: np.ndarray) -> float:
    return allowance(dual.size, float(np.abs(dual * problem.targets).sum()))


def _rough_cost(units: np.ndarray, targets: np.ndarray) -> float:
    """Cost of a least-squares network on random neurons: solvers want an optimum of order one.

    Near-parallel rows with different targets make it thousands of times what the targets' size says.
    """
    n_rows, rank = units.shape
    directions = np.random.default_rng(0).standard_normal((4 * n_rows, rank))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    atoms = np.maximum(units @ np.concatenate([units, -units, directions]).T, 0.0)
    weights = np.linalg.lstsq(atoms, targets, rcond=1e-10)[0]
    return float(np.linalg.norm(weights, axis=1).sum()) or 1.0


class RelaxationRun:
    """Rows and targets as the solver sees them, and the best dual so far."""

    def __init__(
        self, problem: ShallowProblem, targets: np.ndarray, max_rows: int, start_dual: np.ndarray | None
    ):
        self.problem = problem
        lengths = np.linalg.norm(problem.rows, axis=1)
        self.support = np.arange(len(targets))
        if len(targets) > max_rows:
            first = targets if start_dual is None else start_dual.reshape(targets.shape)
            importance = np.linalg.norm(first, axis=1) * lengths
            self.support = np.sort(np.argsort(-importance, kind="stable")[:max_rows])
        self.lengths = lengths[self.support]
        self.unit = UnitRows.of(problem.rows, targets / lengths[:, None] ** 2, self.support)
        targets = self.unit.dual  # of the rows at length one
        self.value = _rough_cost(self.unit.units, targets)
        self.targets = targets / self.value
        self.bound = -np.inf

    def spread(self, dual: np.ndarray) -> np.ndarray:
        """From the rows at length one to all rows as given, feasible for a free offset."""
        full = np.zeros((len(self.problem.rows), dual.shape[1]))
        full[self.support] = dual / self.lengths[:, None]
        return self.problem.project_dual(full.reshape(self.problem.targets.shape))

    def solve(self, lifts: list[Lift], tol: float, max_steps: int, deadline: float | None) -> LiftedPoint:
        """By the interior-point method where affordable, in other units if its answer proves little."""
        kept = None
        weights, outputs = 1.0 / self.lengths, self.targets.shape[1]
        for factor in UNITS if estimate_work(lifts, outputs) <= AFFORDABLE else ():
            left = None if deadline is None else deadline - time.perf_counter()
            point = run_conic(
                lifts, targets=factor * self.targets, offset_weights=weights, time_limit_s=left,
                offset_cost=self.problem.offset_cost * self.value / factor,
            )  # fmt: skip
            if point is None:
                continue
            kept = point
            loss = self.look(lifts, point.dual, point.multipliers)
            if loss <= LOSS and point.settled:
                break
        if kept is None:
            kept = run_lifted(
                lifts, targets=self.targets, offset_weights=weights, deadline=deadline, tol=tol,
                offset_cost=self.problem.offset_cost * self.value, max_steps=max_steps,
                look=lambda dual, found: self.look(lifts, dual, found) < 0.0,
            )  # fmt: skip
            self.look(lifts, kept.dual, kept.multipliers)
        return kept

    def look(self, lifts: list[Lift], dual: np.ndarray, found: list[Multipliers]) -> float:
        """Keep what proves the largest lower bound; return the share of the claim that is lost to rounding."""
        full = self.spread(dual)
        unit = full[self.support].reshape(len(self.support), -1) * self.lengths[:, None]
        gauge = max(bound_region(lift, unit, part) for lift, part in zip(lifts, found, strict=True))
        bound = self.problem.scale_dual(full, gauge)[1]
        claim = self.problem.scale_dual(full, 1.0)[1]
        if bound > self.bound:
            self.bound, self.dual, self.multipliers, self.lifts = bound, full, found, lifts
        return 1.0 - bound / claim if claim > 0 else 1.0
