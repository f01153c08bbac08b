"""From the user's table to the solver's problem and back: redundant rows, rank, units.

Like a cvxpy reduction: :func:`reduce_data` applies, :meth:`Reduction.invert_network` and
:meth:`Reduction.invert_dual` undo.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covopt.data import Data
from covopt.problems.shallow import ShallowProblem


@dataclass(frozen=True)
class Reduction:
    """How the reduced problem relates to the user's units.

    Reduced rows are Z = X̃[keep] V / s_x with V an orthonormal basis of the row space of X̃, reduced targets
    y[keep] / s_y. A unit neuron u stands for w = V u, an output weight c' for c = (s_y / s_x) c', an offset B'
    for B = s_y B', a dual λ' for λ = λ' / s_x on the kept rows and zero elsewhere.
    """

    keep: np.ndarray
    n_samples: int
    basis: np.ndarray
    row_scale: float
    target_scale: float

    @property
    def value_scale(self) -> float:
        """Factor from the reduced primal value to the user's Σ|c_j|‖w_j‖ (+ ½b²)."""
        return self.target_scale / self.row_scale

    def invert_network(
        self, neurons: np.ndarray, weights: np.ndarray, offset: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return unit neurons (m, D), output weights (m,) and offset in the user's units."""
        return neurons @ self.basis.T, weights * self.value_scale, offset * self.target_scale

    def invert_dual(self, dual: np.ndarray) -> np.ndarray:
        """Return the dual on all N rows in the user's units."""
        full = np.zeros(self.n_samples)
        full[self.keep] = dual / self.row_scale
        return full

    def apply_dual(self, dual: np.ndarray) -> np.ndarray:
        """Return the reduced dual of a dual in the user's units that vanishes on dropped rows."""
        return dual[self.keep] * self.row_scale


def reduce_data(data: Data, output_bias: str) -> tuple[ShallowProblem, Reduction]:
    """Drop redundant rows, reduce to the rank, scale rows and targets to size one.

    Parameters
    ----------
    data : Data
        With one output; contradictory rows were refused when it was made.
    output_bias : {"none", "penalized", "free"}
    """
    keep = data.independent_rows
    lifted = data.lifted[keep]
    targets = data.Y[keep, 0]
    basis = data.basis
    rows = lifted @ basis
    row_scale = float(np.linalg.norm(rows, axis=1).max()) if len(rows) else 1.0
    target_scale = float(np.abs(targets).max()) if len(rows) else 1.0
    target_scale = target_scale or 1.0
    offset_cost = {"none": np.inf, "free": 0.0}.get(output_bias)
    if offset_cost is None:  # ½ b² with b = B / β, in units of the reduced value
        offset_cost = row_scale * target_scale / data.bias**2
    problem = ShallowProblem(rows / row_scale, targets / target_scale, offset_cost)
    return problem, Reduction(keep, data.n_samples, basis, row_scale, target_scale)
