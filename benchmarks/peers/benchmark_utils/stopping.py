"""Stopping criterion of the solvers, and the sequence of their tolerances."""

import math

from benchopt import BaseSolver
from benchopt.stopping_criterion import StoppingCriterion

LAST_TOL, TARGET, LEAST_PROGRESS = 1e-9, 1e-7, 1e-9


class UntilCertified(StoppingCriterion):
    """Stop at a certified gap of ``TARGET``, or when the gap does not improve for ``patience`` evaluations.

    A gap of one (an infinite value) does not count as no improvement: the next run may interpolate. benchopt adds its
    own limits on time and number of runs.
    """

    def __init__(self, patience=3, strategy=None, key_to_monitor="gap", minimize=True):
        self.patience = patience
        super().__init__(
            patience=patience, strategy=strategy, key_to_monitor=key_to_monitor, minimize=minimize
        )

    def check_convergence(self, objective_list):
        gaps = [entry["objective_gap"] for entry in objective_list]
        recent, before = gaps[-self.patience :], gaps[: -self.patience]
        still = bool(before) and min(before) - min(recent) <= LEAST_PROGRESS and min(gaps) < 1.0
        done = math.log(min(max(gaps[-1], TARGET), 1.0)) / math.log(TARGET)
        return gaps[-1] <= TARGET or still, done


class ToleranceSolver(BaseSolver):
    """A solver that is rerun from scratch with decreasing tolerances.

    The first run, with infinite tolerance, returns the network without neurons. A solver whose run cannot be
    interrupted lowers the tolerance in smaller steps, so that it does not exceed benchopt's time limit by much.
    """

    first_tol, factor = 1e-3, 1000.0
    sampling_strategy = "tolerance"
    stopping_criterion = UntilCertified(patience=2)

    def get_next(self, stop_val):
        return self.first_tol if stop_val > self.first_tol else max(stop_val / self.factor, LAST_TOL)

    def get_result(self):
        return self.result
