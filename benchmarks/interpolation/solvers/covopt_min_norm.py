"""Column generation with an exact oracle: covopt.min_norm."""

from benchmark_utils.networks import as_result, nothing
from benchmark_utils.stopping import NEVER, UntilOptimal, next_tolerance
from benchopt import BaseSolver

import covopt

TIME_LIMIT_S = 600.0


class Solver(BaseSolver):
    """covopt.min_norm, asked for smaller and smaller certified gaps; each point of its curve is a run of its own."""

    name = "covopt"
    sampling_strategy = "tolerance"
    stopping_criterion = UntilOptimal()
    requirements = ["pip::covopt-nn"]

    def get_next(self, stop_val):
        return next_tolerance(stop_val)

    def set_objective(self, X, y, bias, lam_max):
        self.problem, self.bias = (X, y), bias

    def warm_up(self):
        self.run_once(1e-6)  # kernels compile at their first call

    def run(self, tol):
        if tol >= NEVER:
            self.result = nothing()
            return
        network = covopt.min_norm(*self.problem, bias=self.bias, tol=tol, time_limit_s=TIME_LIMIT_S).network
        self.result = as_result([(network.hidden_weights, network.output_weights)])

    def get_result(self):
        return self.result
