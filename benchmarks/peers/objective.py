"""Two-layer ReLU networks of small norm: objective and certified gap of the networks that a solver returns.

    min over widths and weights of  C(f) + λ‖W‖²,   f(x) = Σ_j v_j σ(w_j·(x, 1)) + b,

C the mean of (f − y)² or of log(1 + exp(−yf)), λ = reg · λ_max, λ_max the smallest λ whose solution is zero; or, for
``loss=interpolation``, min ‖W‖² over the networks through the points. The value is computed here in NumPy from the
weights alone. The lower bound is certified by covopt once per instance, outside every solver's timing, and valid for
all solvers. Trained networks miss the points a little, and may therefore cost less than the optimum: the value is the
norm of the network *repaired* to an interpolant (benchmark_utils/repair.py), or infinite if no repair succeeds. If a
solver returns several networks, such as those of several seeds, the best one counts.
"""

import numpy as np
from benchmark_utils.networks import nothing
from benchmark_utils.repair import repair
from benchmark_utils.stopping import UntilCertified
from benchopt import BaseObjective

import covopt

BIAS = 1.0
REFERENCE_TIME_S = 600.0
ROUNDING = 1e-9


class Objective(BaseObjective):
    """C(f) + λ‖W‖², or ‖W‖² of an interpolant, and the gap to a certified lower bound."""

    name = "small-norm"
    min_benchopt_version = "1.10"
    requirements = ["pip::covopt-nn"]
    parameters = {"loss": ["squared", "logistic", "interpolation"], "reg": [0.01], "output_bias": ["none"]}
    stopping_criterion = UntilCertified()
    test_dataset_name = "simulated"

    def skip(self, X, y):
        labels = set(np.unique(y)) <= {-1.0, 1.0}
        if (self.loss == "logistic") != labels:
            return True, f"the loss is {self.loss}, the targets are {'classes' if labels else 'numbers'}"
        return False, None

    def set_data(self, X, y):
        if self.output_bias not in ("none", "penalized"):
            raise ValueError(f"output_bias must be 'none' or 'penalized'; received {self.output_bias!r}")
        self.X, self.y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
        self.lifted = np.column_stack([self.X, np.full(len(self.X), BIAS)])
        terms = {"bias": BIAS, "output_bias": self.output_bias}
        through = self.loss == "interpolation"
        names = terms if through else {"loss": self.loss, **terms}
        self.lam_max = covopt.lambda_max(self.X, self.y, **names)
        self.lam = 1.0 if through else self.reg * self.lam_max
        terms["time_limit_s"] = REFERENCE_TIME_S
        if through:
            solution = covopt.min_norm(self.X, self.y, tol=1e-9, **terms)
        else:
            solution = covopt.fit(self.X, self.y, lam=self.lam, loss=self.loss, tol=1e-8, **terms)
        checked = covopt.verify(solution)
        if not checked.ok:
            raise RuntimeError(f"the reference is not verified:\n{checked.summary()}")
        self.lower_bound, self.reference_gap = solution.lower_bound, solution.gap

    def get_objective(self):
        names = ("X", "y", "lam", "lam_max", "loss", "output_bias")
        return {"bias": BIAS, **{name: getattr(self, name) for name in names}}

    def evaluate_result(self, networks, note):
        value, n_neurons = np.inf, 0
        for network in networks:
            if self.output_bias == "none" and network[2] != 0.0:
                raise ValueError(
                    f"the network has an output bias ({network[2]:g}), and the problem allows none"
                )
            found = network
            if self.loss == "interpolation":
                found = repair(self.lifted, self.y, *network)
            if found is not None:
                live = int(((found[0] ** 2).sum(axis=1) * found[1] ** 2 > 0).sum())
                value, n_neurons = min((value, n_neurons), (self._value(*found), live))
        gap = 1.0 - self.lower_bound / value if value > 0 else 0.0
        if gap < -ROUNDING:
            raise RuntimeError(f"the value {value!r} is below the certified bound {self.lower_bound!r}")
        return {
            "value": value, "gap": gap, "n_neurons": n_neurons, "lower_bound": self.lower_bound,
            "reference_gap": self.reference_gap, "lam": self.lam, "n_samples": len(self.y),
            "n_features": self.X.shape[1], "note": note,
        }  # fmt: skip

    def _value(self, hidden, output, shift):
        price = self.lam * float((hidden**2).sum() + (output**2).sum() + shift**2)
        fitted = np.maximum(self.lifted @ hidden.T, 0.0) @ output + BIAS * shift
        if self.loss == "squared":
            return price + float(np.mean((fitted - self.y) ** 2))
        return price + (0.0 if self.loss != "logistic" else float(np.logaddexp(0.0, -self.y * fitted).mean()))

    def get_one_result(self):
        return nothing(self.lifted.shape[1])
