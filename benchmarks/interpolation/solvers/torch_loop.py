"""One network, trained by plain PyTorch: nobody's batch, one thread, double precision."""

from importlib.util import find_spec

import numpy as np
from benchmark_utils.annealing import LAST_RATE, lam_at
from benchmark_utils.networks import as_result
from benchmark_utils.stopping import UntilOptimal, next_steps
from benchopt import BaseSolver

ADAM_RATE, SGD_RATE = 0.03, 0.3  # SGD's over the number of neurons: the curvature at the start grows with it
BATCHES, MOMENTUM = 5, 0.9


class Solver(BaseSolver):
    """nn.Sequential and torch.optim: Adam on all samples, or SGD on fifths of them with momentum 0.9.

    λ falls as in benchmark_utils/annealing.py; it is the optimiser's weight decay. ``width`` counts neurons in
    multiples of N. Each point of the curve is a run of its own with that many steps.
    """

    name = "torch-loop"
    sampling_strategy = "iteration"
    stopping_criterion = UntilOptimal()
    parameters = {"optimizer": ["adam", "sgd"], "width": [4], "learning_rate": [None], "seed": [0]}
    requirements = ["pip::torch"]

    def skip(self, X, y, bias, lam_max):
        if find_spec("torch") is None:
            return True, "torch is not installed: pip install torch"
        if self.optimizer not in ("adam", "sgd"):
            return True, f"no optimizer {self.optimizer!r}; there are adam, sgd"
        return False, None

    def get_next(self, stop_val):
        return next_steps(stop_val)

    def set_objective(self, X, y, bias, lam_max):
        import torch

        torch.set_num_threads(1)  # matrices this small only lose by being shared
        self.X, self.y, self.lam_max = torch.tensor(X), torch.tensor(y)[:, None], lam_max
        self.n_neurons = max(1, round(self.width * len(y)))

    def warm_up(self):
        self.run_once(stop_val=5)

    def _start(self):
        import torch
        from torch import nn, optim

        generator = torch.Generator().manual_seed(self.seed)
        inner = nn.Linear(self.X.shape[1], self.n_neurons, dtype=torch.float64)
        outer = nn.Linear(self.n_neurons, 1, bias=False, dtype=torch.float64)
        with torch.no_grad():
            fan = self.X.shape[1] + 1
            for weight in inner.parameters():
                weight.normal_(0.0, (2.0 / fan) ** 0.5, generator=generator)
            outer.weight.normal_(0.0, (2.0 / self.n_neurons) ** 0.5, generator=generator)
        self.model = nn.Sequential(inner, nn.ReLU(), outer)
        default = ADAM_RATE if self.optimizer == "adam" else SGD_RATE / self.n_neurons
        rate = self.learning_rate or default
        if self.optimizer == "adam":
            return rate, optim.Adam(self.model.parameters(), lr=rate, weight_decay=0.0, fused=True)
        return rate, optim.SGD(self.model.parameters(), lr=rate, momentum=MOMENTUM, fused=True)

    def run(self, steps):
        from torch import nn

        rate, optimizer = self._start()
        mean, order, n_samples = nn.MSELoss(), np.random.default_rng(self.seed), len(self.y)
        size = n_samples if self.optimizer == "adam" else max(1, n_samples // BATCHES)
        last = LAST_RATE[self.optimizer]
        rows, settings = np.arange(n_samples), optimizer.param_groups[0]
        for step in range(steps):
            progress = step / steps
            settings["lr"] = rate * last**progress
            settings["weight_decay"] = 2.0 * self.lam_max * lam_at(progress)
            if size < n_samples:
                place = (step * size) % (n_samples - n_samples % size)
                if place == 0:
                    rows = order.permutation(n_samples)
                batch = rows[place : place + size]
                X, y = self.X[batch], self.y[batch]
            else:
                X, y = self.X, self.y
            optimizer.zero_grad()
            mean(self.model(X), y).backward()
            optimizer.step()

    def get_result(self):
        inner, outer = self.model[0], self.model[2]
        hidden = np.column_stack([inner.weight.detach().numpy(), inner.bias.detach().numpy()])
        return as_result([(hidden, outer.weight.detach().numpy().copy())])
