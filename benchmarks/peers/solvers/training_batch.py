"""covopt.training: several seeds and learning rates in one batch; the best network counts."""

from importlib.util import find_spec

import numpy as np
from benchmark_utils.networks import as_result
from benchmark_utils.stopping import UntilCertified
from benchopt import BaseSolver

OPTIMIZERS = ("gd", "sgd", "adam", "lbfgs")
# chosen on N = 20, noise; those of gd and sgd over the number of neurons: the curvature at the start grows with it
RATES = {"adam": (0.01, 0.03), "sgd": (0.1, 0.3), "gd": (1.0, 3.0)}
BATCHES, MOMENTUM = 5, 0.9
BEST = 3  # number of networks returned
FIRST_STEPS, GROWTH = 250, 2
# λ/λ_max of the stages: from dominant penalty to near interpolation; the last value is kept for several stages.
# With a small λ from the start, training would reach any interpolant, and then reduce its norm ever more slowly
LEVELS = np.r_[np.geomspace(1e-2, 3e-7, 10), 3e-7, 3e-7]
# learning rates fall geometrically to this fraction of the first
LAST_RATE = {"adam": 1e-2, "sgd": 1e-1, "gd": 0.3, "lbfgs": 1.0}


class Solver(BaseSolver):
    """Gradient descent and SGD (fifths of the samples) with momentum 0.9, Adam and L-BFGS on all samples.

    With a loss, all stages have the λ of the objective; for interpolation λ falls, to reach a small norm. All
    ``seeds`` train at once, with two learning rates each; the time is that of the whole batch, and the three networks
    with the least penalised loss are returned. ``width`` is in multiples of N. Each point of a curve is a separate
    run.
    """

    name = "training"
    sampling_strategy = "iteration"
    stopping_criterion = UntilCertified(patience=5)
    parameters = {
        "optimizer": ["gd", "sgd", "adam", "lbfgs"],
        "width": [0.5, 1, 4, 16],
        "seeds": [8],
        "device": [None],
    }
    requirements = ["pip::covopt-nn[torch]"]

    def skip(self, X, y, lam, lam_max, loss, bias, output_bias):
        if find_spec("torch") is None:
            return True, "torch is not installed: pip install torch"
        if self.optimizer not in OPTIMIZERS or (loss == "interpolation" and output_bias != "none"):
            return True, f"{', '.join(OPTIMIZERS)}, for interpolation without output bias"
        return False, None

    def get_next(self, stop_val):
        return max(FIRST_STEPS, GROWTH * stop_val)

    def set_objective(self, X, y, lam, lam_max, loss, bias, output_bias):
        through = loss == "interpolation"
        self.problem, self.levels = (X, y), LEVELS * lam_max if through else np.full(len(LEVELS), lam)
        self.terms = {"loss": "squared" if through else loss, "bias": bias, "output_bias": output_bias}
        self.n_neurons = max(1, round(self.width * len(y)))

    def warm_up(self):
        self.run_once(stop_val=20)

    def run(self, steps):
        from covopt.training import Phase, train

        options, rates, last = {}, RATES.get(self.optimizer), LAST_RATE[self.optimizer]
        if self.optimizer in ("sgd", "gd"):
            rates = [rate / self.n_neurons for rate in rates]
            options["momentum"] = MOMENTUM
        if self.optimizer == "sgd":
            options["batch_size"] = max(1, len(self.problem[1]) // BATCHES)
        run, count = None, max(1, steps // len(LEVELS))
        for lam, progress in zip(self.levels, np.linspace(0.0, 1.0, len(LEVELS)), strict=True):
            run = train(
                *self.problem,
                widths=self.n_neurons,
                lam=lam,
                seeds=self.seeds,
                learning_rate=None if rates is None else [rate * last**progress for rate in rates],
                schedule=[Phase(self.optimizer, steps=count, **options)],
                tol_gradient=1e-12,
                device=self.device or "cpu",
                start=run,
                **self.terms,
            )
        best = run.table["objective"].sort_values().index[:BEST]  # NaN last
        networks = [run.network(int(i)) for i in best]
        self.result = as_result(
            *((each.hidden_weights, each.output_weights, each.output_bias) for each in networks)
        )

    def get_result(self):
        return self.result
