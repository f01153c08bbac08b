"""covopt.training: several seeds and learning rates in one batch, the best network counts."""

from importlib.util import find_spec

from benchmark_utils.annealing import LAST_RATE, stages
from benchmark_utils.networks import as_result
from benchmark_utils.stopping import UntilOptimal, next_steps
from benchopt import BaseSolver

OPTIMIZERS = ("gd", "sgd", "adam", "lbfgs")
# chosen on N = 20, noise; those of gd and sgd over the number of neurons: the curvature at the start grows with it
RATES = {"adam": (0.01, 0.03), "sgd": (0.1, 0.3), "gd": (1.0, 3.0)}
BATCHES, MOMENTUM = 5, 0.9
BEST = 3  # networks handed on


class Solver(BaseSolver):
    """Gradient descent and SGD (fifths of the samples) with momentum 0.9, Adam and L-BFGS on all samples.

    All ``seeds`` train at once, with two learning rates each; the time is that of the whole batch, and the three
    networks with the least penalised loss are handed on. λ falls in stages (benchmark_utils/annealing.py). ``width``
    counts neurons in multiples of N. Each point of the curve is a run of its own with that many steps.
    """

    name = "training"
    sampling_strategy = "iteration"
    stopping_criterion = UntilOptimal()
    parameters = {
        "optimizer": ["gd", "sgd", "adam", "lbfgs"],
        "width": [0.5, 1, 4, 16],
        "seeds": [8],
        "device": [None],
    }
    requirements = ["pip::covopt-nn[torch]"]

    def skip(self, X, y, bias, lam_max):
        if find_spec("torch") is None:
            return True, "torch is not installed: pip install torch"
        if self.optimizer not in OPTIMIZERS:
            return True, f"no optimizer {self.optimizer!r}; there are {', '.join(OPTIMIZERS)}"
        return False, None

    def get_next(self, stop_val):
        return next_steps(stop_val)

    def set_objective(self, X, y, bias, lam_max):
        self.problem, self.bias, self.lam_max = (X, y), bias, lam_max
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
        run = None
        for share, count, progress in stages(max(steps, 1)):
            run = train(
                *self.problem,
                widths=self.n_neurons,
                lam=share * self.lam_max,
                bias=self.bias,
                seeds=self.seeds,
                learning_rate=None if rates is None else [rate * last**progress for rate in rates],
                schedule=[Phase(self.optimizer, steps=count, **options)],
                tol_gradient=1e-12,
                device=self.device or "cpu",
                start=run,
            )
        best = run.table["objective"].sort_values().index[:BEST]  # NaN last
        networks = [run.network(int(i)) for i in best]
        self.result = as_result([(network.hidden_weights, network.output_weights) for network in networks])

    def get_result(self):
        return self.result
