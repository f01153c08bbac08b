"""The two-layer ReLU network of smallest norm through the points: how far above the certified optimum a network is.

    min over widths and weights of  ‖W‖²   s.t.  f(x_i) = y_i,   f(x) = Σ_j v_j σ(w_j·(x, 1)).

The optimum is computed once for every dataset, outside every solver's timing: covopt.min_norm at 1e-9, its
certificate recomputed from the raw data by covopt.verify. Trained networks miss the points a little; a network that
misses them may cost less than the optimum, so its own norm says nothing. What is compared is the norm of the network
*repaired* to an interpolant (benchmark_utils/repair.py), infinite where that is impossible. A solver may return
several networks, such as those of several seeds: the best one counts.
"""

import numpy as np
from benchmark_utils.networks import nothing
from benchmark_utils.repair import repair, residual, squared_norm
from benchmark_utils.stopping import UntilOptimal
from benchopt import BaseObjective

import covopt

BIAS = 1.0
REFERENCE_TOL = 1e-9
REFERENCE_TIME_S = 600.0
ROUNDING = 1e-10
NO_INTERPOLANT = 999.0  # benchopt takes an infinite value for divergence


class Objective(BaseObjective):
    """Cost of the repaired network over the certified optimum, minus one."""

    name = "interpolation"
    min_benchopt_version = "1.10"
    requirements = ["pip::covopt-nn"]
    stopping_criterion = UntilOptimal()
    test_dataset_name = "simulated"

    def set_data(self, X, y):
        self.X, self.y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
        self.lifted = np.column_stack([self.X, np.full(len(self.X), BIAS)])
        self.lam_max = covopt.lambda_max(self.X, self.y, bias=BIAS)
        solution = covopt.min_norm(
            self.X, self.y, bias=BIAS, tol=REFERENCE_TOL, time_limit_s=REFERENCE_TIME_S
        )
        checked = covopt.verify(solution)
        if not checked.ok:
            raise RuntimeError(f"the reference is not verified:\n{checked.summary()}")
        self.lower_bound, self.reference_gap = solution.lower_bound, solution.gap
        self.dual = np.asarray(solution.dual).ravel()

    def get_objective(self):
        return {"X": self.X, "y": self.y, "bias": BIAS, "lam_max": self.lam_max}

    def evaluate_result(self, networks, note):
        best = (np.inf, np.inf, 0)  # cost of the repaired network, what it missed before, its neurons
        for hidden, output in networks:
            found = repair(self.lifted, self.y, hidden, output)
            if found is not None:
                cost = squared_norm(*found)
                self._check(found, cost)
                best = min(best, (cost, residual(self.lifted, self.y, hidden, output), len(found[1])))
        cost, missed, n_neurons = best
        return {
            "value": cost,
            "gap": min(cost / self.lower_bound - 1.0, NO_INTERPOLANT),
            "residual": missed,
            "n_neurons": n_neurons,
            "lower_bound": self.lower_bound,
            "reference_gap": self.reference_gap,
            "n_samples": len(self.y),
            "n_features": self.X.shape[1],
            "note": note,
        }

    def _check(self, network, cost):
        """‖W‖² ≥ 2⟨Λ, f(X)⟩ for every network f: rounding in f(X) is accounted for, nothing else."""
        hidden, output = network
        terms = self.dual * (np.maximum(self.lifted @ hidden.T, 0.0) @ output)
        if cost < 2.0 * terms.sum() - ROUNDING * (cost + 2.0 * np.abs(terms).sum()):
            raise RuntimeError(f"the cost {cost!r} is below the certified bound {2.0 * terms.sum()!r}")

    def get_one_result(self):
        return nothing()
