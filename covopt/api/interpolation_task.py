"""One interpolation problem from a validated table to its solution: solve, go back to the user's units, certify."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from covopt.api.generation import CONIC, generate_in_time, zero_point
from covopt.api.resuming import joined, opened, resumable
from covopt.api.rounds import Callback, observer
from covopt.api.stopping import Clock, effort_left, in_time, noting
from covopt.certificates.certify import Conclusion, conclude, outputs_of
from covopt.certificates.gauges import LabelNoiseGauge, VariationGauge
from covopt.checks.checkpoints import Checkpoint
from covopt.checks.memory import gives_way
from covopt.checks.speaking import tell_result
from covopt.checks.timing import Stopwatch, timing
from covopt.data import Data
from covopt.data.scaling import Scaling
from covopt.errors import InputError
from covopt.exact.far_rows import without_middle
from covopt.limits import now
from covopt.network import ReLUNetwork
from covopt.oracles.remembered import remembering
from covopt.parallel.blas import one_blas_thread
from covopt.potentials import LabelNoise
from covopt.problems.label_noise import reduce_label_noise
from covopt.problems.reduction import Reduction
from covopt.problems.shallow import ShallowProblem
from covopt.solution import Solution
from covopt.solvers.exact_outputs import meet
from covopt.solvers.finish import finish_network
from covopt.solvers.frank_wolfe import CovarianceSolver
from covopt.solvers.label_noise import solve_label_noise
from covopt.solvers.neuron_limit import with_few_neurons
from covopt.solvers.points import Point
from covopt.solvers.thin import solve_thin_quickly
from covopt.status import Status

MET_BYTES = 48.0  # for each pair of a point and a neuron, of outputs that are met to all digits
ROOM = 2.0**-36  # between the dual and its constraint, for what the proof that none exceeds it costs


@dataclass(frozen=True, eq=False)
class InterpolationTask:
    """What :func:`covopt.min_norm` was asked, checked and reduced.

    Attributes
    ----------
    data : Data
    reduced : tuple of ShallowProblem and Reduction
    output_bias, potential, solver : str
    tol : float
    time_limit_s : float or None
    random_state : int or None
    callback : callable or None
    checkpoint : Checkpoint or None
    began : float
        Reading of ``covopt.limits.now()`` when the user asked.
    scaling : Scaling or None
        How the table was standardised.
    rounds : CovarianceSolver or None
        With a solver "frank-wolfe:VARIANT".
    """

    data: Data
    reduced: tuple[ShallowProblem, Reduction]
    output_bias: str
    potential: str
    solver: str
    tol: float
    time_limit_s: float | None
    random_state: int | None
    callback: Callback | None
    checkpoint: Checkpoint | None
    began: float
    scaling: Scaling | None = None
    rounds: CovarianceSolver | None = None

    def solve(self) -> Solution:
        """Solve with the variation norm."""
        problem, reduction = self.reduced
        history: list[dict[str, float]] = []
        clock = Clock(self.time_limit_s, self.began)

        def halfway(point: Point, clock: Clock) -> Solution:
            if not np.isfinite(point.upper_bound):
                quick = solve_thin_quickly(problem, time_limit_s=0.0)
                point = replace(point, neurons=quick.neurons, weights=quick.weights, offset=quick.offset)
            network = self._network(point.neurons, point.weights, point.offset)
            found = self._conclude(point, network, clock)
            if clock.interrupted:
                raise KeyboardInterrupt
            status = Status.INTERRUPTED
            found = found._replace(status=status)
            return self._solution(network, found, "column-generation", history, watch)

        # compiled threads and BLAS threads compete for the same cores
        with (
            one_blas_thread(), remembering(), timing(self.began) as watch,
            opened(self.checkpoint) as file,
            resumable(
                file, problem, halfway=halfway, better=self._better,
                asked=(self.data, self.output_bias, self.potential),
            ) as conclude_run,
        ):  # fmt: skip
            point, name = self._point(
                observer(2.0 * reduction.value_scale, history, self.callback, self.began), clock
            )
            best = point.neurons, point.weights, point.offset
            if point.status is Status.INTERRUPTED:
                clock.hurry()
            if not point.finished:
                best = in_time(
                    clock,
                    lambda: finish_network(problem, *best),
                    lambda: with_few_neurons(problem, *best, time_limit_s=clock.until_late()),
                    share=0.5,
                )
            network = self._network(*with_few_neurons(problem, *best, time_limit_s=clock.until_late(0.5)))
            network = in_time(clock, lambda: self._met(network), lambda: network, share=0.5)
            found = self._conclude(point, network, clock)
            if clock.interrupted and found.status is not Status.CERTIFIED:
                found = found._replace(status=Status.INTERRUPTED)
            solution = self._solution(network, found, name, history, watch)
            solution = conclude_run(solution)
        tell_result(solution)
        return solution

    def _met(self, network: ReLUNetwork) -> ReLUNetwork:
        """Return a network whose outputs at the points are right to the last digit, as far as doubles have room."""
        if gives_way(
            MET_BYTES * len(self.data.X) * len(network), "outputs to all digits", "they stay as they are"
        ):
            return network
        return meet(network, self.data.lifted, self.data.Y)

    def _network(self, neurons, weights, offset) -> ReLUNetwork:
        """Return a network of the reduced problem in the user's units."""
        units, scaled, moved = self.reduced[1].invert_network(neurons, weights, offset)
        return ReLUNetwork.from_neurons(
            units, scaled, bias=self.data.bias, offset=moved, counts_output_bias=self.output_bias != "free"
        )

    def _better(self, solution: Solution, earlier: Solution) -> Solution:
        """Return the solution with the network and the dual of an earlier one where they are better."""
        return joined(
            solution, earlier,
            lambda network, known: conclude(
                self.data, network, known.dual, low=known.dual_low,
                stopped=solution.status, tol=self.tol, output_bias=self.output_bias,
                settled=self.reduced[0].offset_cost == 0,
                gauge=VariationGauge(self.data, self.reduced[1].keep),
            ),
        )  # fmt: skip

    def solve_label_noise(self, potential: LabelNoise) -> Solution:
        """Solve with a label-noise potential."""
        task = reduce_label_noise(self.data, self.output_bias, potential, reduced=self.reduced)
        problem = task.problem
        history: list[dict[str, float]] = []
        with (
            one_blas_thread(), timing(self.began) as watch,
        ):  # fmt: skip
            name = "column-generation"
            if not len(problem.rows) or not problem.targets.any():
                point, name = zero_point(problem), "closed form"
            else:
                point = solve_label_noise(
                    problem, task.oracle(), tol=self.tol, time_limit_s=self.time_limit_s,
                    random_state=self.random_state,
                    callback=observer(task.value_scale, history, self.callback, self.began),
                )  # fmt: skip
            network = task.invert_network(point.neurons, point.weights, float(point.offset))
            found = conclude(
                self.data, network, task.invert_dual(point.dual), stopped=point.status, tol=self.tol,
                settled=problem.offset_cost == 0, output_bias=self.output_bias, gauge=LabelNoiseGauge(task),
            )  # fmt: skip
        solution = self._solution(network, found, name, history, watch)
        tell_result(solution)
        return solution

    def _point(self, observe: Callback, clock: Clock) -> tuple[Point, str]:
        problem, _ = self.reduced
        if not len(problem.rows) or not problem.targets.any():
            return zero_point(problem), "closed form"
        if self.solver.startswith(CONIC) and problem.is_vector:
            raise InputError(
                f"solver={self.solver!r} handles one output (a cell may need several neurons with more), but Y "
                f'has {self.data.n_outputs} columns of rank {problem.targets.shape[1]}; use solver="auto"'
            )
        options: dict[str, Any] = {
            "tol": self.tol, "time_limit_s": self.time_limit_s, "random_state": self.random_state,
            "callback": observe,
        } | ({} if self.rounds is None else {"rounds": self.rounds})  # fmt: skip
        return generate_in_time(problem, self.solver, options, clock)

    def _conclude(self, point: Point, network: ReLUNetwork, clock: Clock) -> Conclusion:
        """Conclude; late by what was proved before, or a bound without a search."""
        outputs = noting(clock, lambda: outputs_of(self.data, network))
        effort = effort_left("", clock) if clock.hurries else 1.0
        return in_time(
            clock,
            lambda: self._concluded(point, network, outputs=outputs, effort=effort),
            lambda: self._concluded(point, network, outputs=outputs, effort=0.0),
        )

    def _concluded(self, point: Point, network: ReLUNetwork, **more: Any) -> Conclusion:
        """Conclude, however long that takes."""
        best, low = self.reduced[1].invert_dual(point.dual), self.reduced[1].invert_low(point.dual_low)
        best = best * (1.0 - ROOM) if low is None else best
        return conclude(
            self.data, network, best, low=low, settled=self.reduced[0].offset_cost == 0,
            hold=self._hold(), **self._options(point), **more,
        )  # fmt: skip

    def _options(self, point: Point) -> dict[str, Any]:
        # with an offset that costs nothing, or next to nothing, Λᵀ1 = 0 has to hold to the last digit
        return {
            "stopped": point.status, "tol": self.tol, "output_bias": self.output_bias,
            "gauge": VariationGauge(self.data, self.reduced[1].keep),
            "goal": 1.0 if point.claimed else None,
        }  # fmt: skip

    def _hold(self) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None:
        """Return what takes the sum along the middle out of a dual, where rows were brought closer."""
        if not self.reduced[1].is_far:
            return None
        free = self.reduced[0].offset_cost == 0.0  # or next to it: Λᵀ1 = 0 has to hold to the last digit
        return lambda dual: without_middle(self.data.lifted, dual, keep_sums=free)

    def _solution(self, network, found: Conclusion, name, history, watch: Stopwatch) -> Solution:
        network = replace(network, scaling=self.scaling)
        return Solution(
            self.data, self.output_bias, self.potential, network, *found[:3], self.tol, name, history,
            now() - self.began, self.random_state, timings=watch.seconds(), dual_low=found.low,
        )  # fmt: skip
