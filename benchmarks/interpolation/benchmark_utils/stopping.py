"""When a solver has run long enough, and the next point of its curve."""

import math

from benchopt.stopping_criterion import StoppingCriterion

FIRST_STEPS, GROWTH = 250, 2
FIRST_TOL, SMALLER, LAST_TOL = 1e-2, 10.0, 1e-9
NEVER = 1e30  # benchopt's first tolerance: nothing is to run


class UntilOptimal(StoppingCriterion):
    """Stop within ``target`` of the certified optimum, or when ``patience`` longer runs have brought nothing.

    benchopt adds its own limits on time and number of runs.
    """

    def __init__(self, target=1e-6, patience=5, strategy=None, key_to_monitor="gap", minimize=True):
        self.target, self.patience = target, patience
        super().__init__(
            target=target,
            patience=patience,
            strategy=strategy,
            key_to_monitor=key_to_monitor,
            minimize=minimize,
        )

    def check_convergence(self, objective_list):
        gaps = [entry["objective_gap"] for entry in objective_list]
        recent, before = gaps[-self.patience :], gaps[: -self.patience]
        # where nothing has met the points yet, the next run may
        still = (
            bool(before)
            and math.isfinite(objective_list[-1]["objective_value"])
            and min(before) <= min(recent)
        )
        done = math.log(min(max(gaps[-1], self.target), 1.0)) / math.log(self.target)
        return gaps[-1] <= self.target or still, done


def next_tolerance(stop_val):
    return FIRST_TOL if stop_val > FIRST_TOL else max(stop_val / SMALLER, LAST_TOL)


def next_steps(stop_val):
    return max(FIRST_STEPS, GROWTH * stop_val)
