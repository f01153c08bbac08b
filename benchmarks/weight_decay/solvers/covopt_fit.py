"""Column generation with an exact oracle: covopt.fit."""

from benchmark_utils.networks import as_result, zero_network
from benchmark_utils.stopping import ToleranceSolver

import covopt

TIME_LIMIT_S = 600.0


class Solver(ToleranceSolver):
    """covopt.fit, asked for smaller and smaller certified gaps."""

    name = "covopt"
    requirements = ["pip::covopt-nn"]

    def set_objective(self, X, y, lam, loss, bias, output_bias):
        self.n_inputs = X.shape[1] + 1
        self.problem = (X, y)
        self.options = {"lam": lam, "loss": loss, "bias": bias, "output_bias": output_bias}

    def warm_up(self):
        self.run_once(1e-6)  # kernels compile at their first call

    def run(self, tol):
        if tol >= 1:
            self.result = zero_network(self.n_inputs)
            return
        network = covopt.fit(*self.problem, tol=tol, time_limit_s=TIME_LIMIT_S, **self.options).network
        self.result = as_result(network.hidden_weights, network.output_weights[:, 0], network.output_bias[0])

    def get_result(self):
        return self.result
