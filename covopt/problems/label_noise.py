"""Between the user's table and the solver's units for a label-noise potential.

With rows Z = X̃V/s_x and targets y/s_y of the reduced problem, ω(w) = s_xᵖ ω'(Vᵀw), p = 1 for the printed potential
and 2 for the exact one; a neuron u with ω'(u) = 1 and output weight c' costs c' s_y s_xᵖ⁻¹ in the user's units, and a
dual Λ' stands for Λ = Λ' s_xᵖ⁻¹.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covopt.data import Data
from covopt.errors import InputError
from covopt.network import ReLUNetwork
from covopt.oracles.faces import DEFAULT_FACE_BUDGET
from covopt.oracles.label_noise import LabelNoiseOracle
from covopt.potentials import LabelNoise
from covopt.problems.reduction import Reduction, _check_size, reduce_data
from covopt.problems.shallow import ShallowProblem

OUTPUT_BIASES = ("none", "free")


@dataclass(frozen=True, eq=False)
class LabelNoiseTask:
    """A reduced interpolation problem with its potential.

    Attributes
    ----------
    data : Data
    potential : LabelNoise
    problem : ShallowProblem
        Neurons have ω'(u) = 1.
    reduction : Reduction
    rows : ndarray of shape (N, r)
        All rows of the table in reduced units: those that the problem leaves out count in ω.
    """

    data: Data
    potential: LabelNoise
    problem: ShallowProblem
    reduction: Reduction
    rows: np.ndarray

    @property
    def value_scale(self) -> float:
        """Factor from reduced values to the user's Σ|c|ω."""
        return self.reduction.target_scale * self.reduction.row_scale ** (self.potential.degree - 1)

    def oracle(self, *, budget: float = DEFAULT_FACE_BUDGET) -> LabelNoiseOracle:
        """Return the exact oracle of the reduced duals."""
        return LabelNoiseOracle(self.rows, self.potential, kept=self.reduction.keep, budget=budget)

    def cost(self, network: ReLUNetwork) -> float:
        """⟨V, μ⟩ = Σ_j |v_j| ω(w_j) in the user's units, of any network on these inputs."""
        scale = self.reduction.row_scale
        weights = self.potential.weigh(self.data.lifted / scale, network.hidden_weights)
        return float(np.abs(network.output_weights[:, 0]) @ weights) * scale**self.potential.degree

    def invert_dual(self, dual: np.ndarray) -> np.ndarray:
        """Return the dual on all N rows in the user's units."""
        return self.reduction.invert_dual(dual) * self.reduction.row_scale**self.potential.degree

    def apply_dual(self, dual: np.ndarray) -> np.ndarray:
        """Return the reduced dual of one in the user's units."""
        return self.reduction.apply_dual(dual) / self.reduction.row_scale**self.potential.degree

    def invert_network(self, neurons: np.ndarray, weights: np.ndarray, offset: float) -> ReLUNetwork:
        """Return the balanced network in the user's units."""
        lengths = np.linalg.norm(neurons, axis=1)
        units, scaled, moved = self.reduction.invert_network(
            neurons / lengths[:, None], weights * lengths, offset
        )
        return ReLUNetwork.from_neurons(
            units, scaled, bias=self.data.bias, offset=moved, counts_output_bias=not self.problem.has_offset
        )


def check_label_noise(potential: LabelNoise, n_outputs: int, output_bias: str) -> None:
    """Refuse what a label-noise potential is not defined for.

    Parameters
    ----------
    potential : LabelNoise
    n_outputs : int
    output_bias : str

    Raises
    ------
    InputError
        For several outputs and for a penalised output bias.
    """
    if n_outputs > 1:
        raise InputError(
            f"potential={potential.name!r} is for one output, but Y has {n_outputs} columns; "
            'pass one column at a time, or use potential="variation".'
        )
    if output_bias not in OUTPUT_BIASES:
        raise InputError(
            f"potential={potential.name!r} takes output_bias 'none' or 'free', received {output_bias!r}: label noise "
            "does not penalize an output bias, whose gradient is constant."
        )


def reduce_label_noise(
    data: Data,
    output_bias: str,
    potential: LabelNoise,
    *,
    reduced: tuple[ShallowProblem, Reduction] | None = None,
) -> LabelNoiseTask:
    """Reduce the table; rows that follow from others leave the constraints but stay in ω.

    Parameters
    ----------
    data : Data
    output_bias : {"none", "free"}
    potential : LabelNoise
    reduced : (ShallowProblem, Reduction), optional
        Of :func:`~covopt.problems.reduction.reduce_data`, when the caller has them.

    Raises
    ------
    InputError
        For several outputs, a penalised output bias, and data without room in double precision.
    """
    check_label_noise(potential, data.n_outputs, output_bias)
    problem, reduction = reduced or reduce_data(data, output_bias)
    rows = data.lifted @ reduction.basis / reduction.row_scale
    task = LabelNoiseTask(data, potential, problem, reduction, rows)
    _check_size("X and Y", "the label-noise cost is of the size", task.value_scale)
    return task
