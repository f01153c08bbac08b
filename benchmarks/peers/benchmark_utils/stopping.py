"""When a solver has run long enough, and how its tolerance shrinks, or its steps grow, from run to run."""

import math

from benchopt import BaseSolver
from benchopt.stopping_criterion import StoppingCriterion

LAST_TOL = 1e-9


class UntilCertified(StoppingCriterion):
    """Stop at a certified gap of ``target``, or when the gap stands still for ``patience`` evaluations.

    A gap of one, an infinite value, does not stand still: the next run may meet the points. benchopt adds its own
    limits on time and number of runs.
    """

    def __init__(
        self, target=1e-7, patience=3, progress=1e-9, strategy=None, key_to_monitor="gap", minimize=True
    ):
        self.target, self.patience, self.least_progress = target, patience, progress
        super().__init__(
            target=target, patience=patience, progress=progress, strategy=strategy,
            key_to_monitor=key_to_monitor, minimize=minimize,
        )  # fmt: skip

    def check_convergence(self, objective_list):
        gaps = [entry["objective_gap"] for entry in objective_list]
        recent, before = gaps[-self.patience :], gaps[: -self.patience]
        still = bool(before) and min(before) - min(recent) <= self.least_progress and min(gaps) < 1.0
        done = math.log(min(max(gaps[-1], self.target), 1.0)) / math.log(self.target)
        return gaps[-1] <= self.target or still, done


class ToleranceSolver(BaseSolver):
    """A solver that is run again from the start with smaller and smaller tolerances.

    The first run, with the tolerance "infinity", returns the network without neurons. A solver whose run cannot be
    stopped takes smaller steps, so that it does not overrun benchopt's time limit by much.
    """

    first_tol, factor = 1e-3, 1000.0
    sampling_strategy = "tolerance"
    stopping_criterion = UntilCertified(patience=2)

    def get_next(self, stop_val):
        return self.first_tol if stop_val > self.first_tol else max(stop_val / self.factor, LAST_TOL)

    def get_result(self):
        return self.result
