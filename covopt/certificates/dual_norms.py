"""The part of a certificate that depends on the potential: the cost of a network and a bound on the dual norm.

The dual norm is h(Λ) = max over neurons of ‖Λᵀσ(X̃w)‖/ω(w), for rows and duals in the user's units.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from covopt.data import Data
from covopt.exact.rank import FOUND
from covopt.exact.rounding import allowance, gamma, lengths_up, total_up, up
from covopt.losses import Interpolation, Loss
from covopt.network import ReLUNetwork
from covopt.oracles.certified import DualNormBound, certified_dual_norm
from covopt.oracles.faces import DEFAULT_FACE_BUDGET
from covopt.oracles.label_noise import LabelNoiseOracle, by_length_up
from covopt.potentials import LabelNoise, Potential, VariationNorm
from covopt.problems.label_noise import Whitening, reduce_label_noise
from covopt.problems.problem import Problem
from covopt.problems.reduction import Reduction, reduce_data

VARIATION = VariationNorm()
BY_FACES = "exact maximum over all faces"
OVER_FACES = "bound over all faces (rows that nearly depend on each other leave a margin)"
BY_LENGTH = (
    "bound by its length (rows that nearly depend on each other: their faces are not decided in doubles)"
)


class VariationDualNorm:
    """The dual norm of the variation norm, ω(w) = ‖w‖, on a table.

    Parameters
    ----------
    data : Data
    keep : ndarray of int
        Rows of the table that the dual belongs to.

    Attributes
    ----------
    per_cost : float
        κ: networks cost κ Σ‖v_j‖ω(w_j).
    suffix : str
        End of the description of a bound.
    """

    per_cost: ClassVar[float] = 2.0
    suffix = ""

    def __init__(self, data: Data, keep: np.ndarray):
        self.rows, self.keep = data.lifted[keep], keep

    def cost(self, network: ReLUNetwork) -> float:
        """Cost of a network in the user's units: ‖W‖², a free output bias not counted."""
        return network.squared_norm

    def reach(self) -> np.ndarray:
        """Bound max over neurons of σ(x̃_i·w)/ω(w) from above, for each of the rows that count: ‖x̃_i‖."""
        return lengths_up(self.rows)

    def bound(
        self, point: np.ndarray, *, effort: float, goal: float | None = None, low: np.ndarray | None = None
    ) -> DualNormBound:
        """Bound h of a dual point of shape (n, k), given by one double or two, from above."""
        return certified_dual_norm(self.rows, point, effort=effort, goal=goal, low=low)


class LabelNoiseDualNorm:
    """The dual norm of a label-noise potential on a table.

    Parameters
    ----------
    task : Whitening
    """

    per_cost: ClassVar[float] = 1.0

    def __init__(self, task: Whitening):
        self.task, self.keep = task, task.keep
        self.suffix = f", in the {task.potential.name} potential"

    def cost(self, network: ReLUNetwork) -> float:
        """Σ|v_j|ω(w_j)."""
        return self.task.cost(network)

    def reach(self) -> np.ndarray:
        """Bound σ(x̃_i·w)/ω(w) by ω² ≥ q_i a_i², times q_i|x̃_i|² in the exact potential."""
        found = np.zeros(len(self.keep))
        found[self.task.asked] = self._reach[self.task.kept]
        return found

    @property
    def _reach(self) -> np.ndarray:
        """Return the same bounds for all rows of positive weight."""
        task, weights = self.task, self.task.shares
        with np.errstate(divide="ignore"):
            each = 1.0 / np.sqrt(weights)
            if task.potential.exact:
                each = each / (np.sqrt(weights) * task.distances * task.row_scale)
        # roots, quotients, products and a norm of D entries
        return each * (1.0 + gamma(4 * (task.data.lifted.shape[1] + 8)))

    def _oracle(self, effort: float) -> LabelNoiseOracle | None:
        """Return the oracle over all faces, or None if they are not proved to be those of the table."""
        task = self.task
        if not task.decided:
            return None
        try:
            oracle = task.oracle(budget=effort * DEFAULT_FACE_BUDGET)
        except ArithmeticError:  # ranks that rounding leaves open
            return None
        return oracle if oracle.is_proved(task.data.lifted[task.weights > 0]) else None

    def bound(
        self, point: np.ndarray, *, effort: float, goal: float | None = None, low: np.ndarray | None = None
    ) -> DualNormBound:
        """Bound h over all faces if they are decided, else by length."""
        if low is not None:
            paid = total_up(lengths_up(low), self.reach())
            return DualNormBound(up(self.bound(point, effort=effort).value + paid), False, OVER_FACES)
        task, dual = self.task, point[self.task.asked, 0]
        if not dual.any():
            return DualNormBound(0.0, True, BY_FACES)
        asked = dual * task.row_scale ** (1 - task.potential.degree)
        roundings = len(dual) + task.data.lifted.shape[1] + 16
        lengths = task.distances[task.kept] if task.potential.exact else None
        by_length = up(by_length_up(asked, task.shares[task.kept], lengths) * (1.0 + gamma(4 * roundings)))
        oracle = self._oracle(effort)
        if oracle is not None:
            answer = oracle.price(asked, threshold=np.inf)
            attained = (1.0 + FOUND) * float(np.abs(answer.values).max(initial=0.0))
            exact = answer.upper_bound <= attained
            # the dual in these units, the weights and the lengths are rounded
            found = up(
                answer.upper_bound + allowance(roundings, float(np.abs(dual) @ self._reach[task.kept]))
            )
            if exact or found <= by_length:
                return DualNormBound(min(found, by_length), exact, BY_FACES if exact else OVER_FACES)
        return DualNormBound(by_length, False, BY_LENGTH)


DualNorm = VariationDualNorm | LabelNoiseDualNorm


def make_dual_norm(
    data: Data,
    *,
    output_bias: str,
    loss: Loss,
    lam: float,
    potential: Potential = VARIATION,
    reduced: tuple[Problem, Reduction] | None = None,
) -> DualNorm:
    """Bind a potential to a table.

    Parameters
    ----------
    data : Data
    output_bias : {"none", "penalized", "free"}
    loss : Loss
        Bound to ``data.Y``; :class:`~covopt.losses.Interpolation` for networks through the points.
    lam : float
    potential : Potential
    reduced : (Problem, Reduction), optional
        Of :func:`~covopt.problems.reduction.reduce_data`, when the caller has them.

    Raises
    ------
    InputError
        For several outputs or a penalised output bias with a label-noise potential, for data without room in double
        precision.
    """
    through = isinstance(loss, Interpolation)
    if isinstance(potential, LabelNoise):
        known = None if through else loss
        return LabelNoiseDualNorm(
            reduce_label_noise(data, output_bias, potential, known, lam, reduced=reduced)[1]
        )
    if through:
        _, reduction = reduced or reduce_data(data, output_bias)
        return VariationDualNorm(data, reduction.keep)
    return VariationDualNorm(data, np.flatnonzero(loss.weights[:, 0] > 0))
