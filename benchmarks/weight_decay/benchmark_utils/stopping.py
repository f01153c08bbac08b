"""When a solver has run long enough, and how its tolerance shrinks from run to run."""

import math

from benchopt import BaseSolver
from benchopt.stopping_criterion import StoppingCriterion

LAST_TOL = 1e-9


class UntilCertified(StoppingCriterion):
    """Stop at a certified gap of ``target``, or when the value stands still for ``patience`` evaluations.

    benchopt adds its own limits on time and number of runs.
    """

    def __init__(
        self, target=1e-7, patience=3, progress=1e-9, strategy=None, key_to_monitor="value", minimize=True
    ):
        self.target, self.patience, self.least_progress = target, patience, progress
        super().__init__(
            target=target,
            patience=patience,
            progress=progress,
            strategy=strategy,
            key_to_monitor=key_to_monitor,
            minimize=minimize,
        )

    def check_convergence(self, objective_list):
        gap = objective_list[-1]["objective_gap"]
        values = [entry["objective_value"] for entry in objective_list]
        recent, before = values[-self.patience :], values[: -self.patience]
        still = bool(before) and min(before) - min(recent) <= self.least_progress * abs(min(before))
        done = math.log(max(gap, self.target)) / math.log(self.target)
        return gap <= self.target or still, min(max(done, 0.0), 1.0)


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
