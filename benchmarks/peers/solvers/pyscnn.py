"""pyscnn (package ``scnn``): the convex reformulation on sampled activation patterns."""

from importlib.util import find_spec

import numpy as np
from benchmark_utils.networks import as_result, nothing
from benchmark_utils.stopping import ToleranceSolver


class Solver(ToleranceSolver):
    """Augmented Lagrangian on the patterns of ``n_gates`` random gates: an upper bound by construction.

    The tolerance applies to its stopping criteria for the squared gradient and for the constraints.
    """

    name = "pyscnn"
    first_tol, factor = 1e-2, 10.0
    parameters = {"n_gates": [500], "seed": [0]}
    requirements = ["pip::pyscnn"]

    def skip(self, X, y, lam, lam_max, loss, bias, output_bias):
        if find_spec("scnn") is None or find_spec("lab") is None:
            return True, "pyscnn is not installed: pip install pyscnn"
        if loss != "squared" or output_bias != "none":
            return True, "pyscnn has the squared loss only, and no output bias"
        return False, None

    def set_objective(self, X, y, lam, lam_max, loss, bias, output_bias):
        self.lifted, self.y, self.lam = np.column_stack([X, np.full(len(X), bias)]), y, lam

    def warm_up(self):
        import scnn.optimize  # noqa: F401

    def run(self, tol):
        width = self.lifted.shape[1]
        if tol >= 1:
            self.result = nothing(width)
            return
        from scnn.activations import sample_gate_vectors
        from scnn.metrics import Metrics
        from scnn.models import ConvexReLU
        from scnn.optimize import optimize_model
        from scnn.regularizers import NeuronGL1
        from scnn.solvers import AL

        model = ConvexReLU(sample_gate_vectors(self.seed, width, self.n_gates))
        network, _ = optimize_model(
            model,
            AL(model, tol=tol, constraint_tol=tol),
            Metrics(),
            self.lifted,
            self.y,
            regularizer=NeuronGL1(self.lam),  # pyscnn minimises half the mean of squares + λ Σ‖w‖
            unitize_data=False,
            dtype="float64",
            seed=self.seed,
        )
        hidden, output = network.parameters
        self.result = as_result((hidden, output[0], 0.0))
