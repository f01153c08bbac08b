"""Gradient training of a fixed-width network with L2 weight decay, in double precision."""

from importlib.util import find_spec

import numpy as np
from benchmark_utils.networks import as_result
from benchmark_utils.stopping import UntilCertified
from benchopt import BaseSolver

LEARNING_RATES = {"adam": 0.01, "sgd": 0.01, "lbfgs": 1.0}
BATCH, MOMENTUM, HALF_LIFE, DENSE = 10, 0.9, 1000, 2000


class Solver(BaseSolver):
    """Adam (full batch), SGD (batches of 10, momentum 0.9) or L-BFGS (strong Wolfe line search).

    He's initialisation. An iteration t is one step of Adam, one epoch of SGD, or one call of L-BFGS with at most 20
    inner iterations. The learning rate falls like 1/√(1 + t/1000) for Adam and 1/(1 + t/1000) for SGD, so that both
    can converge; ``learning_rate=None`` takes ``LEARNING_RATES``.
    """

    name = "torch"
    sampling_strategy = "callback"
    stopping_criterion = UntilCertified(patience=25)  # evaluations are dense at the start
    parameters = {
        "optimizer": ["adam", "sgd", "lbfgs"],
        "width": [200],
        "learning_rate": [None],
        "seed": [0],
    }
    requirements = ["pip::torch"]

    def skip(self, X, y, lam, lam_max, loss, bias, output_bias):
        if find_spec("torch") is None:
            return True, "torch is not installed: pip install torch"
        if self.optimizer not in LEARNING_RATES or loss == "interpolation":
            return True, f"no optimizer {self.optimizer!r} for {loss}; there are {', '.join(LEARNING_RATES)}"
        return False, None

    def get_next(self, stop_val):
        return stop_val + max(1, min(stop_val // 2, DENSE))

    def set_objective(self, X, y, lam, lam_max, loss, bias, output_bias):
        import torch

        torch.set_num_threads(1)  # matrices this small only lose by being shared
        self.lifted = torch.tensor(np.column_stack([X, np.full(len(X), bias)]))
        self.y, self.lam, self.loss, self.bias = torch.tensor(y), lam, loss, bias
        self.has_offset = output_bias != "none"

    def warm_up(self):
        self.run_once(stop_val=3)

    def value(self, rows):
        import torch

        hidden, output, shift = self.weights
        fitted = torch.relu(self.lifted[rows] @ hidden.T) @ output + self.bias * shift
        if self.loss == "squared":
            mean = ((fitted - self.y[rows]) ** 2).mean()
        else:
            mean = torch.nn.functional.softplus(-self.y[rows] * fitted).mean()
        return mean + self.lam * sum((w**2).sum() for w in self.weights)

    def _start(self):
        import torch

        generator = torch.Generator().manual_seed(self.seed)
        width, n_inputs = self.width, self.lifted.shape[1]
        hidden = torch.randn(width, n_inputs, generator=generator, dtype=torch.float64)
        output = torch.randn(width, generator=generator, dtype=torch.float64)
        self.weights = [hidden * (2.0 / n_inputs) ** 0.5, output * (1.0 / width) ** 0.5]
        self.weights.append(torch.zeros((), dtype=torch.float64))
        trained = self.weights if self.has_offset else self.weights[:2]
        for weight in trained:
            weight.requires_grad_()
        rate = self.learning_rate or LEARNING_RATES[self.optimizer]
        if self.optimizer == "adam":
            return torch.optim.Adam(trained, lr=rate), lambda step: (1.0 + step / HALF_LIFE) ** -0.5
        if self.optimizer == "sgd":
            optimizer = torch.optim.SGD(trained, lr=rate, momentum=MOMENTUM)
            return optimizer, lambda step: 1.0 / (1.0 + step / HALF_LIFE)
        options = {"max_iter": 20, "history_size": 50, "line_search_fn": "strong_wolfe"}
        tiny = {"tolerance_grad": 1e-14, "tolerance_change": 1e-16}
        return torch.optim.LBFGS(trained, lr=rate, **options, **tiny), lambda step: 1.0

    def run(self, callback):
        import torch

        optimizer, decay = self._start()
        base = optimizer.param_groups[0]["lr"]
        order = np.random.default_rng(self.seed)
        n_samples, step = len(self.y), 0

        def closure(rows):
            optimizer.zero_grad()
            value = self.value(rows)
            value.backward()
            return value

        everything = slice(None)
        while callback():
            optimizer.param_groups[0]["lr"] = base * decay(step)
            batches = [everything]
            if self.optimizer == "sgd":
                shuffled = torch.tensor(order.permutation(n_samples))
                batches = shuffled.split(BATCH)
            for rows in batches:
                optimizer.step(lambda rows=rows: closure(rows))
            step += 1

    def get_result(self):
        return as_result(tuple(weight.detach().numpy().copy() for weight in self.weights))
