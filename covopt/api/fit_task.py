"""What fit, path and lambda_max share: a validated table, its oracle, one solve, its certificate."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np

from covopt.api.fit_targets import aligned, check_size, name_of
from covopt.api.lambdas import LargestLambda, is_chosen, largest_lambda, parse_lam
from covopt.api.resuming import CheckpointFile, joined, resumable
from covopt.api.rounds import observer
from covopt.api.selection import GRID, HeldOut, held_out
from covopt.api.stopping import Clock, best_in_time, effort_left, in_time, noting
from covopt.api.warm_starts import warm_start
from covopt.certificates.certify import Conclusion, conclude, outputs_of
from covopt.certificates.gauges import LabelNoiseGauge
from covopt.checks.speaking import tell_result
from covopt.checks.timing import timing
from covopt.checks.validation import (
    check_choice,
    check_count,
    check_output_bias,
    check_random_state,
    check_tol,
)
from covopt.data import Data
from covopt.data.scaling import Scaling, check_spans, standardise
from covopt.data.tabular import to_matrix
from covopt.errors import InputError, NotCertifiedWarning
from covopt.limits import TimeUp, limited, now
from covopt.losses import make_loss
from covopt.network import ReLUNetwork
from covopt.oracles.choose import exact_oracle
from covopt.oracles.remembered import remembering
from covopt.potentials import LabelNoise, make_potential
from covopt.problems.label_noise import LabelNoiseTask, check_label_noise, reduce_label_noise_fit
from covopt.problems.reduction import Reduction
from covopt.problems.regularised import RegularisedProblem, best_constant, check_strength, reduce_fit
from covopt.solution import Solution
from covopt.solvers.finish import finish_network
from covopt.solvers.improve import DESCENT, Improvement
from covopt.solvers.label_noise import solve_label_noise
from covopt.solvers.points import Point
from covopt.solvers.quick import master_bytes
from covopt.solvers.regularised.generation import RegularisedGeneration
from covopt.status import Status

BRIEF = 0.02  # share of the search that a first look is
HOPELESS = 0.05  # the gap with which it is the last one
FOR_CHOICE = 0.4  # of the time, for cross-validation
FOR_LAMBDA = 0.15  # of the time, where a share of λ_max is asked for
LOOSE = 0.1  # of λ_max, that is said where a share of it is asked for
MANY_ROWS = 1000  # from which on the first rounds may take all the time
SOLVERS = ("auto", "column-generation")
INSIDE = (
    0.5  # share of the tolerance that solvers aim at: the bound of a certificate that is not exact needs room
)


class FitTask:
    """A validated table with everything that does not depend on λ."""

    def __init__(
        self, X, Y, loss, bias, output_bias, sample_weight, potential, solver, tol, random_state, *,
        standardised=False,
    ) -> None:  # fmt: skip
        self.tol = check_tol(tol)
        check_random_state(random_state)
        check_output_bias(output_bias, bias)
        self.weighing = make_potential(potential)
        check_choice("solver", solver, SOLVERS)
        self.loss = make_loss(loss)
        _, target_names = to_matrix("Y", Y) if not self.loss.is_classification else (None, None)
        targets = self.loss.encode_targets(aligned(X, Y), sample_weight)
        if self.loss.is_classification:
            self.loss.column = name_of(Y)
        else:
            check_size(targets)
        names = target_names
        if self.loss.is_classification and self.loss.classes and targets.shape[1] > 1:
            names = tuple(str(label) for label in self.loss.classes)
        elif self.loss.column is not None:
            names = (self.loss.column,)
        if isinstance(self.weighing, LabelNoise):
            check_label_noise(self.weighing, targets.shape[1], output_bias)
        self.data = Data.validate(X, targets, bias=bias, target_names=names, interpolates=False)
        self.table = self.data  # as it was given
        self.scaling: Scaling | None = None
        if standardised:
            of_numbers = not self.loss.is_classification
            self.data, self.scaling = standardise(self.data, self.loss.weights[:, 0], targets=of_numbers)
            if of_numbers:
                self.loss.encode_targets(self.data.Y, sample_weight)
        if not isinstance(self.weighing, LabelNoise):
            check_spans(self.data)
        self.output_bias, self.potential, self.random_state = output_bias, potential, random_state
        weights = self.loss.weights[:, 0]
        self.sample_weight = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        if output_bias == "free" and self.loss.is_classification:
            present = self.loss.targets[weights > 0]
            if (present == present[0]).all(axis=0).any():
                raise InputError(
                    f"loss={self.loss.name!r} with a free output bias has no minimum: every sample of positive "
                    'weight is (or none is) of one class; use output_bias="penalized" or "none".'
                )
        self._oracle: Any = None
        self._largest: LargestLambda | None = None
        self.interrupted = False  # while λ_max was looked for, or a result was being finished
        self.is_brief = False  # whether a first look has to do where the bound stays far away

    def check_start(self, start: Solution) -> None:
        """Refuse a solution of another table."""
        if not isinstance(start, Solution):
            raise InputError(f"start must be a Solution; received {type(start).__name__}.")
        same = start.data.X.shape == self.data.X.shape and start.data.bias == self.data.bias
        if not same or not np.array_equal(start.data.X, self.data.X):
            raise InputError("start is a solution of another table (X or bias differ); leave it out.")
        if start.network.output_weights.shape[1] != self.data.n_outputs:
            raise InputError("start has another number of outputs; leave it out.")

    def oracle(self, problem: RegularisedProblem) -> Any:
        """Return the exact oracle; it depends on the rows only, and its presorting is worth keeping."""
        if self._oracle is None and isinstance(self.weighing, LabelNoise):
            self._oracle = self.label_noise(1.0).oracle()
        elif self._oracle is None:
            live = problem.rows.any(axis=1)
            q = problem.n_outputs
            self._oracle = exact_oracle(problem.rows[live], 0 if q == 1 else q, beside=master_bytes(problem))
        return self._oracle

    def label_noise(self, lam: float) -> LabelNoiseTask:
        """Return the problem of a label-noise potential."""
        assert isinstance(self.weighing, LabelNoise)
        return reduce_label_noise_fit(self.data, self.loss, lam, self.output_bias, self.weighing)

    def reduced(self, lam: float) -> tuple[RegularisedProblem, Reduction]:
        """Return the problem in reduced units, and the way back."""
        if isinstance(self.weighing, LabelNoise):
            task = self.label_noise(lam)
            return task.problem, task.reduction
        return reduce_fit(self.data, self.loss, lam, self.output_bias)

    def lambda_max(self) -> float:
        """See :func:`lambda_max`."""
        found = self.largest()
        if found.slack > self.tol:
            warnings.warn(
                f"lambda_max is proved, not exact: no network from {found.value:.6g} on has a neuron, and the "
                f"smallest such λ may be {100.0 * found.share:.2g} % smaller.",
                NotCertifiedWarning,
                stacklevel=3,
            )
        return found.value

    def largest(self, time_limit_s: float | None = None) -> LargestLambda:
        """λ_max, computed once."""
        if self._largest is None:
            self._largest = largest_lambda(self, time_limit_s)
        return self._largest

    def strength(self, lam: Any, time_limit_s: float | None = None) -> float:
        """Return λ of a number, or of a share of λ_max (``"0.1max"``), which takes a part of the time.

        Where λ_max is 0 the best constant is optimal for every λ; then the share itself is λ.
        """
        if is_chosen(lam):
            return self.chosen(None if time_limit_s is None else FOR_CHOICE * time_limit_s).best
        value, relative = parse_lam(lam)
        if not relative:
            return value
        found = self.largest(None if time_limit_s is None else FOR_LAMBDA * time_limit_s)
        top = found.value
        if top == 0.0:
            return value
        if found.slack > LOOSE:
            top = found.met
            self._largest = LargestLambda(top, 0.0)
            warnings.warn(
                f"λ_max is known to lie between {top:.6g} and {found.value:.6g} only; lam={lam!r} is "
                f"{value * top:.6g}, a share of the smaller number.",
                NotCertifiedWarning,
                stacklevel=3,
            )
        return value * top

    def strengths(self, lam: Any) -> Any:
        """Return one λ or several with shares of λ_max and ``"cv"`` as numbers; what is no text stays as it is."""
        if isinstance(lam, list | tuple):
            return [self.strengths(one) for one in lam]
        return self.strength(lam) if isinstance(lam, str) else lam

    def chosen(self, time_limit_s: float | None = None) -> HeldOut:
        """Return how networks over a grid of λ do in cross-validation."""
        if self.potential != "variation":
            raise InputError(f'lam="cv" is for potential="variation"; received potential={self.potential!r}.')
        top = self.largest(None if time_limit_s is None else FOR_LAMBDA * time_limit_s).met
        found = held_out(self, GRID * (top or 1.0), time_limit_s=time_limit_s)
        if found is None:
            raise InputError(
                f'lam="cv": cross-validation takes longer than the {time_limit_s:.2g} s that it may; give a longer '
                "time limit, or lam as a number or a share of λ_max."
            )
        return found

    def grid(self, n_lams: int, eps: float, time_limit_s: float | None = None) -> np.ndarray:
        """Return the geometric grid from λ_max down; finding that may take a part of the time."""
        n_lams = check_count("n_lams", n_lams)
        eps = check_tol(eps, "eps")
        self.largest(None if time_limit_s is None else FOR_LAMBDA * time_limit_s)
        top = self.lambda_max()
        if top == 0.0:
            raise InputError("the best constant is optimal for every lam, so there is no path; give lams.")
        return top * np.geomspace(1.0, eps, n_lams)

    def solve(
        self, lam, time_limit_s, callback, start, began, checkpoint: CheckpointFile | None = None
    ) -> Solution:
        """Solve for one λ, from a warm start where there is one."""
        reduced = self.reduced(lam)
        problem, reduction = reduced
        check_strength(problem, lam)
        history: list[dict[str, float]] = []
        clock = Clock(time_limit_s, began)
        options: dict[str, Any] = {
            "tol": INSIDE * self.tol, "time_limit_s": clock.for_solver(problem.rows.shape[1]),
            "random_state": self.random_state, "callback": observer(problem.strength, history, callback, began),
        }  # fmt: skip

        def halfway(point: Point, own: Clock) -> Solution:
            point = dataclasses.replace(point, status=Status.INTERRUPTED)
            solution = self._certified(lam, point, reduced, "column-generation", history, own)
            if own.interrupted:
                raise KeyboardInterrupt
            return dataclasses.replace(solution, timings=watch.seconds())

        def better(solution: Solution, earlier: Solution) -> Solution:
            return joined(
                solution, earlier,
                lambda network, known: conclude(
                    self.data, network, known.dual, stopped=solution.status, tol=self.tol,
                    output_bias=self.output_bias, loss=self.loss, lam=lam,
                ),
            )  # fmt: skip

        asked = (self.data, self.output_bias, self.potential, lam, self.loss, self.sample_weight)
        keeping = resumable(checkpoint, problem, halfway=halfway, better=better, asked=asked)
        with (
            remembering(), timing(began) as watch, keeping as conclude_run,
        ):  # fmt: skip
            if start is None and checkpoint is not None and checkpoint.start is None:
                start = checkpoint.found
            if start is not None:
                options["warm"] = warm_start(self, start, problem, reduction)
            point, name = self._point(problem, options, clock)
            solution = self._certified(lam, point, reduced, name, history, clock)
            if point.is_early and solution.status is Status.HEURISTIC and solution.gap <= HOPELESS:
                self.is_brief = False  # more was proved than the first look had promised
                options |= {"warm": point.warm, "time_limit_s": clock.for_solver(problem.rows.shape[1])}
                point, name = self._point(problem, options, clock)
                solution = self._certified(lam, point, reduced, name, history, clock)

            solution = dataclasses.replace(solution, timings=watch.seconds())
            solution = conclude_run(solution)
        tell_result(solution)
        return solution

    def _point(self, problem: RegularisedProblem, options: dict[str, Any], clock: Clock) -> tuple[Point, str]:
        """Improve the bracket until the gap is small or somebody says stop."""
        if isinstance(self.weighing, LabelNoise):
            return self._label_noise_point(problem, options, clock)
        loop = Improvement(
            problem, lambda: self.oracle(problem) if problem.rows.any() else None, is_brief=self.is_brief, **options
        )  # fmt: skip
        return loop.run(is_over=self.interrupted), loop.name

    def _label_noise_point(
        self, problem: RegularisedProblem, options: dict[str, Any], clock: Clock
    ) -> tuple[Point, str]:
        """Columns by the exact oracle alone; the best constant where no round of them ends."""
        status = Status.GAP if clock.limit is None else Status.TIME_LIMIT
        try:
            if self.interrupted:
                raise KeyboardInterrupt
            oracle: Any = self.oracle(problem) if problem.rows.any() else None
            with limited(options["time_limit_s"]):
                if not problem.rows.any():
                    return RegularisedGeneration(problem, oracle, **options).solve(), "column-generation"
                return solve_label_noise(problem, oracle, **options), "column-generation"
        except TimeUp:
            pass
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        n, q = problem.rows.shape[0], problem.n_outputs
        return Point(
            problem.rows[:0], np.zeros((0, q)), best_constant(problem), np.inf, np.zeros((n, q)), 0.0, status
        ), "constant"

    def _certified(
        self, lam, point: Point, reduced: tuple[RegularisedProblem, Reduction], name, history, clock: Clock
    ) -> Solution:  # fmt: skip
        problem, reduction = reduced
        if point.status is Status.INTERRUPTED:
            clock.hurry()
        found, gauge = (point.neurons, point.weights, point.offset), None
        if isinstance(self.weighing, LabelNoise):
            gauge = LabelNoiseGauge(self.label_noise(lam))
        else:
            found = in_time(clock, lambda: finish_network(problem, *found), lambda: found, share=0.5)
        network, dual = self.in_units(lam, reduction, *found, point.dual)
        return self._solution(lam, point, network, dual, gauge, name, history, clock)

    def in_units(self, lam, reduction: Reduction, neurons, weights, offset, dual) -> tuple[ReLUNetwork, Any]:
        """Return a network and a dual of the reduced problem in the units of the table that is solved."""
        if dual.shape[1] == 1:
            weights, offset, dual = weights[:, 0], float(offset[0]), dual[:, 0]
        if isinstance(self.weighing, LabelNoise):
            task = self.label_noise(lam)
            return task.invert_network(neurons, weights, offset), task.invert_dual(dual)
        units, scaled, moved = reduction.invert_network(neurons, weights, offset)
        network = ReLUNetwork.from_neurons(
            units, scaled, bias=self.data.bias, offset=moved, counts_output_bias=self.output_bias != "free"
        )
        return network, reduction.invert_dual(dual)

    def _solution(self, lam, point, network, dual, gauge, name, history, clock: Clock) -> Solution:
        options = {
            "stopped": point.status, "tol": self.tol, "output_bias": self.output_bias, "loss": self.loss, "lam": lam,
            "gauge": gauge, "goal": 1.0 if point.claimed else None,
        }  # fmt: skip
        options["outputs"] = noting(clock, lambda: outputs_of(self.data, network))
        hopeless = point.status is Status.INTERRUPTED and name == DESCENT  # its dual is far from optimal
        effort = 0.0 if hopeless else effort_left(name, clock)

        def briefly() -> Conclusion:
            return noting(clock, lambda: conclude(self.data, network, dual, effort=0.0, **options))

        def searched() -> Conclusion:
            return self._concluded(point, network, dual, effort, options)

        if clock.limit is None or gauge is not None or hopeless:
            found = in_time(clock, searched, briefly, share=0.25)
        else:
            found = best_in_time(clock, briefly, searched, key=lambda made: made.certificate.lower_bound)
        if clock.interrupted:
            self.interrupted = True
            if found.status is not Status.CERTIFIED:
                found = found._replace(status=Status.INTERRUPTED)
        network = dataclasses.replace(network, scaling=self.scaling)
        return Solution(
            self.data, self.output_bias, self.potential, network, *found[:3], self.tol, name, history,
            now() - clock.began, self.random_state, lam=lam, loss=self.loss,
            sample_weight=self.sample_weight, warm=point.warm, lambda_max=self._largest and self._largest.value,
        )  # fmt: skip

    def _concluded(
        self, point: Point, network: ReLUNetwork, dual: np.ndarray, effort: float, options: Any
    ) -> Conclusion:
        """Certify; where briefly, a first look decides whether the whole search is worth its time."""
        if self.is_brief and options["stopped"] is Status.HEURISTIC and not point.claimed:
            found = conclude(self.data, network, dual, effort=BRIEF * effort, **options)
            if found.certificate.gap > HOPELESS or point.is_early:
                return found
        return conclude(self.data, network, dual, effort=effort, **options)
