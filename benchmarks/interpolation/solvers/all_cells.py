"""One second-order cone program over all cells, the reference: covopt.min_norm(solver="conic:CLARABEL")."""

from benchmark_utils.networks import as_result, nothing
from benchmark_utils.stopping import NEVER, UntilOptimal, next_tolerance
from benchopt import BaseSolver

import covopt
from covopt.conic.backends import why_unavailable
from covopt.errors import SolverError

MOST_CELLS = 2000
TIME_LIMIT_S = 600.0


class Solver(BaseSolver):
    """What a general conic solver makes of the problem when every cell is written out."""

    name = "all-cells"
    sampling_strategy = "tolerance"
    stopping_criterion = UntilOptimal()
    parameters = {"backend": ["CLARABEL"]}
    requirements = ["pip::cvxpy", "pip::clarabel"]

    def skip(self, X, y, bias, lam_max):
        reason = why_unavailable(self.backend)
        n_cells = covopt.count_cells(X, bias=bias)
        if reason is None and n_cells > MOST_CELLS:
            reason = f"{n_cells} cells, more than {MOST_CELLS}"
        return reason is not None, reason

    def get_next(self, stop_val):
        return next_tolerance(stop_val)

    def set_objective(self, X, y, bias, lam_max):
        self.problem, self.bias = (X, y), bias

    def warm_up(self):
        covopt.min_norm([[-1.0], [0.0], [1.0]], [1.0, 0.0, 1.0], solver=f"conic:{self.backend}", tol=1e-3)

    def run(self, tol):
        if tol >= NEVER:
            self.result = nothing()
            return
        options = {"bias": self.bias, "tol": tol, "time_limit_s": TIME_LIMIT_S}
        try:
            network = covopt.min_norm(*self.problem, solver=f"conic:{self.backend}", **options).network
        except SolverError as error:  # the network of the looser tolerance stands
            self.result = {**self.result, "note": str(error)}
            return
        self.result = as_result([(network.hidden_weights, network.output_weights)])

    def get_result(self):
        return self.result
