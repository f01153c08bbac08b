"""Training a two-layer ReLU network with weight decay: value and certified gap of whatever a solver returns.

    min over widths and weights of  C(f) + λ‖W‖²,   f(x) = Σ_j v_j σ(w_j·(x, 1)) + b,

C the mean of (f − y)² or of log(1 + exp(−yf)), λ = reg · λ_max, λ_max the smallest λ whose solution is zero.
The value is computed here in NumPy from the weights alone. The lower bound is the dual value that covopt.fit
certifies on the instance, once, outside every solver's timing: valid whichever solver it is held against.
"""

import numpy as np
from benchmark_utils.networks import zero_network
from benchmark_utils.stopping import UntilCertified
from benchopt import BaseObjective

import covopt

BIAS = 1.0
REFERENCE_TOL = 1e-8
REFERENCE_TIME_S = 600.0
ROUNDING = 1e-11


class Objective(BaseObjective):
    """C(f) + λ‖W‖² and its gap to a certified lower bound."""

    name = "weight-decay"
    min_benchopt_version = "1.10"
    requirements = ["pip::covopt-nn"]
    parameters = {"loss": ["squared", "logistic"], "reg": [0.01], "output_bias": ["none"]}
    stopping_criterion = UntilCertified()
    test_dataset_name = "simulated"

    def skip(self, X, y):
        labels = set(np.unique(y)) <= {-1.0, 1.0}
        if self.loss == "logistic" and not labels:
            return True, "the logistic loss needs targets -1 and 1"
        if self.loss == "squared" and labels:
            return True, "the targets are classes; the squared loss is for numbers"
        return False, None

    def set_data(self, X, y):
        if self.output_bias not in ("none", "penalized"):
            raise ValueError(f"output_bias must be 'none' or 'penalized'; received {self.output_bias!r}")
        self.X, self.y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
        self.lifted = np.column_stack([self.X, np.full(len(self.X), BIAS)])
        terms = {"loss": self.loss, "bias": BIAS, "output_bias": self.output_bias}
        self.lam = self.reg * covopt.lambda_max(self.X, self.y, **terms)
        solution = covopt.fit(
            self.X, self.y, lam=self.lam, tol=REFERENCE_TOL, time_limit_s=REFERENCE_TIME_S, **terms
        )
        self.lower_bound, self.reference_gap = solution.lower_bound, solution.gap

    def get_objective(self):
        return {
            "X": self.X,
            "y": self.y,
            "lam": self.lam,
            "loss": self.loss,
            "bias": BIAS,
            "output_bias": self.output_bias,
        }

    def evaluate_result(self, hidden_weights, output_weights, output_bias, note):
        hidden = np.asarray(hidden_weights, dtype=float).reshape(-1, self.lifted.shape[1])
        output, shift = np.asarray(output_weights, dtype=float).ravel(), float(output_bias)
        if self.output_bias == "none" and shift != 0.0:
            raise ValueError(f"the network has an output bias ({shift:g}), and the problem allows none")
        fitted = np.maximum(self.lifted @ hidden.T, 0.0) @ output + BIAS * shift
        if self.loss == "squared":
            mean = np.mean((fitted - self.y) ** 2)
        else:
            mean = np.mean(np.logaddexp(0.0, -self.y * fitted))
        squared_norm = (hidden**2).sum() + (output**2).sum() + shift**2
        value = float(mean + self.lam * squared_norm)
        gap = (value - self.lower_bound) / value
        if gap < -ROUNDING:
            raise RuntimeError(f"the value {value!r} is below the certified bound {self.lower_bound!r}")
        return {
            "value": value,
            "gap": gap,
            "n_neurons": int(((hidden**2).sum(axis=1) * output**2 > 0).sum()),
            "squared_norm": float(squared_norm),
            "lower_bound": self.lower_bound,
            "reference_gap": self.reference_gap,
            "lam": self.lam,
            "n_samples": len(self.y),
            "n_features": self.X.shape[1],
            "note": note,
        }

    def get_one_result(self):
        return zero_network(self.lifted.shape[1])
