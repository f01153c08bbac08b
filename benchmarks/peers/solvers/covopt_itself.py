"""Column generation with an exact oracle: covopt.fit and covopt.min_norm."""

from benchmark_utils.networks import as_result, nothing
from benchmark_utils.stopping import ToleranceSolver

import covopt

TIME_LIMIT_S = 600.0


class Solver(ToleranceSolver):
    """covopt, with decreasing tolerances on the certified gap."""

    name = "covopt"
    requirements = ["pip::covopt-nn"]

    def set_objective(self, X, y, lam, lam_max, loss, bias, output_bias):
        self.n_inputs, self.problem = X.shape[1] + 1, (X, y)
        self.options = {"bias": bias, "output_bias": output_bias, "time_limit_s": TIME_LIMIT_S}
        self.solve = covopt.min_norm if loss == "interpolation" else covopt.fit
        self.options |= {} if loss == "interpolation" else {"lam": lam, "loss": loss}

    def warm_up(self):
        self.run_once(1e-6)  # compiles the kernels

    def run(self, tol):
        if tol >= 1:
            self.result = nothing(self.n_inputs)
            return
        found = self.solve(*self.problem, tol=tol, **self.options).network
        self.result = as_result((found.hidden_weights, found.output_weights, found.output_bias))
