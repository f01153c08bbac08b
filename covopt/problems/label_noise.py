"""Between the user's table and the solver's units for a label-noise potential.

With rows Z = X̃V/s_x and targets y/s_y of the reduced problem, ω(w) = s_xᵖ ω'(Vᵀw), p = 1 for the printed potential
and 2 for the exact one; a neuron u with ω'(u) = 1 and output weight c' costs c' s_y s_xᵖ⁻¹ in the user's units, and a
dual Λ' stands for Λ = Λ' s_xᵖ⁻¹. On top of that the rows are whitened, X̃T with Tᵀ(X̃ᵀdiag(q)X̃)T = 1: atoms do not
change, and a neuron u of the whitened rows is Tu. With a bias a shift of the inputs changes no atom either,
w·(x, β) = w'·(x − c, β) for w'_β = w_β + w_x·c/β: the table is first moved to one of its own points, whose
differences to the others are exact or as accurate as any double, and its columns are brought to size one by powers of
two. Points far from the origin would otherwise lose half their digits, or all of them.

With a loss the objective is C(f) + λ Σ|v|ω(w) (SP20 eq. 7), its dual max −C*(−λΛ) s.t. |⟨Λ, σ(X̃w)⟩| ≤ ω(w); the
means in ω weigh the samples as the loss does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from covopt.data import Data
from covopt.errors import InputError
from covopt.exact.rank import exact_rank
from covopt.exact.rounding import exponents, gamma, misses_up, two_sum
from covopt.losses import Loss
from covopt.network import ReLUNetwork
from covopt.oracles.faces import DEFAULT_FACE_BUDGET
from covopt.oracles.label_noise import LabelNoiseOracle, whiten
from covopt.potentials import LabelNoise
from covopt.problems.problem import Problem
from covopt.problems.reduction import Reduction, check_size, reduce_data
from covopt.problems.regularised import reduce_fit

OUTPUT_BIASES = ("none", "free")
ACTIVE = 1e-13  # share of the largest possible ω below which a neuron is active by rounding alone


@dataclass(frozen=True, eq=False)
class LabelNoiseTask:
    """A reduced problem, interpolation or with a loss, and its potential.

    Attributes
    ----------
    data : Data
    potential : LabelNoise
    problem : Problem
        Of whitened rows; neurons have ω'(u) = 1.
    reduction : Reduction
    rows : ndarray of shape (n, s)
        The whitened rows of the means in ω: all of the table, also those that interpolation leaves out; with a loss
        those whose samples have weight.
    back, forth : ndarray of shape (D, s) and (s, D)
        T, and the map from a neuron of the lifted inputs to that of the whitened rows.
    decided : bool
        Whether the directions that whitening left out are dependent exactly (or none was left out).
    lengths, blur : ndarray of shape (n,)
        |x̃_i|/s_x, and what rounding may have moved the whitened rows by.
    kept : ndarray of int
        The rows that a dual is asked about.
    weights : ndarray of shape (N,)
        What each sample of the table weighs in ω.
    loss : Loss, optional
        Bound to the whole table.
    lam : float
    """

    data: Data
    potential: LabelNoise
    problem: Problem
    reduction: Reduction
    rows: np.ndarray
    back: np.ndarray
    forth: np.ndarray
    decided: bool
    lengths: np.ndarray
    blur: np.ndarray
    kept: np.ndarray
    weights: np.ndarray
    loss: Loss | None = None
    lam: float = 0.0

    @property
    def value_scale(self) -> float:
        """Factor from reduced values to the user's Σ|c|ω."""
        return self.reduction.target_scale * self.reduction.row_scale ** (self.potential.degree - 1)

    def oracle(self, *, budget: float = DEFAULT_FACE_BUDGET) -> LabelNoiseOracle:
        """Return the exact oracle of the reduced duals."""
        return LabelNoiseOracle(
            self.rows, self.potential, kept=self.kept, sample_weight=self.weights[self.weights > 0],
            lengths=self.lengths, blur=self.blur, budget=budget,
        )  # fmt: skip

    def cost(self, network: ReLUNetwork) -> float:
        """⟨V, μ⟩ = Σ_j |v_j| ω(w_j) in the user's units, of any network on these inputs."""
        scale = self.reduction.row_scale
        omega = self.potential.weigh(self.data.lifted / scale, network.hidden_weights, self.weights)
        return float(np.abs(network.output_weights[:, 0]) @ omega) * scale**self.potential.degree

    def normalise(self, neurons: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whiten reduced neurons, scale them to ω'(u) = 1 and their weights along.

        Neurons that no row activates go, and those that are active by rounding alone.
        """
        neurons = neurons @ self.forth.T
        omega = self.potential.weigh(self.rows, neurons, self.weights[self.weights > 0], self.lengths)
        size = np.linalg.norm(self.rows, axis=1).max(initial=0.0)
        size *= self.lengths.max(initial=0.0) if self.potential.exact else 1.0
        live = omega > ACTIVE * np.linalg.norm(neurons, axis=1) * size
        return neurons[live] / omega[live, None], weights[live] * omega[live, None]

    def invert_dual(self, dual: np.ndarray) -> np.ndarray:
        """Return the dual on all N rows in the user's units."""
        return self.reduction.invert_dual(dual) * self.reduction.row_scale**self.potential.degree

    def apply_dual(self, dual: np.ndarray) -> np.ndarray:
        """Return the reduced dual of one in the user's units."""
        return self.reduction.apply_dual(dual) / self.reduction.row_scale**self.potential.degree

    def invert_network(self, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> ReLUNetwork:
        """Return the balanced network in the user's units."""
        neurons = neurons @ self.back.T
        lengths = np.linalg.norm(neurons, axis=1)
        units, scaled, moved = self.reduction.invert_network(
            neurons / lengths[:, None], weights * lengths[:, None], offset
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
    reduced: tuple[Problem, Reduction] | None = None,
) -> LabelNoiseTask:
    """Reduce the table; rows that follow from others leave the constraints but stay in ω.

    Parameters
    ----------
    data : Data
    output_bias : {"none", "free"}
    potential : LabelNoise
    reduced : (Problem, Reduction), optional
        Of :func:`~covopt.problems.reduction.reduce_data`, when the caller has them.

    Raises
    ------
    InputError
        For several outputs, a penalised output bias, and data without room in double precision.
    """
    check_label_noise(potential, data.n_outputs, output_bias)
    problem, reduction = reduced or reduce_data(data, output_bias)
    reduction = replace(reduction, basis=np.eye(data.lifted.shape[1]))
    weights = np.full(data.n_samples, 1.0 / data.n_samples)
    white = _whitened(data.lifted, data.bias, weights, reduction.row_scale)
    problem = replace(problem, rows=white.rows[reduction.keep])
    lengths = np.linalg.norm(data.lifted / reduction.row_scale, axis=1)
    task = LabelNoiseTask(
        data, potential, problem, reduction, white.rows, white.back, white.forth, white.decided, lengths, white.blur,
        reduction.keep, weights,
    )  # fmt: skip
    check_size("X and Y", "the label-noise cost is of the size", task.value_scale)
    return task


def reduce_label_noise_fit(
    data: Data, loss: Loss, lam: float, output_bias: str, potential: LabelNoise
) -> LabelNoiseTask:
    """Reduce a table with a loss.

    Parameters
    ----------
    data : Data
    loss : Loss
        Bound to ``data.Y``.
    lam : float
    output_bias : {"none", "free"}
    potential : LabelNoise

    Raises
    ------
    InputError
        For several outputs, a penalised output bias, and data without room in double precision.
    """
    check_label_noise(potential, loss.targets.shape[1], output_bias)
    problem, reduction = reduce_fit(data, loss, lam, output_bias)
    # the reduced objective is C/μ + Σ|c'|, with μ = λ s_xᵖ⁻¹
    strength = lam * reduction.row_scale ** (potential.degree - 1)
    check_size("lam", "measured in units of X it is", strength)
    reduction = replace(reduction, basis=np.eye(data.lifted.shape[1]))
    weights = loss.weights[:, 0]
    lifted = data.lifted[reduction.keep]
    white = _whitened(lifted, data.bias, weights[weights > 0], reduction.row_scale)
    lengths = np.linalg.norm(lifted / reduction.row_scale, axis=1)
    kept = np.flatnonzero(lengths)
    problem = replace(problem, rows=white.rows, strength=strength)
    return LabelNoiseTask(
        data, potential, problem, reduction, white.rows, white.back, white.forth, white.decided, lengths, white.blur,
        kept, weights, loss, lam,
    )  # fmt: skip


class _White(NamedTuple):
    rows: np.ndarray
    back: np.ndarray
    forth: np.ndarray
    blur: np.ndarray
    decided: bool


def _whitened(lifted: np.ndarray, bias: float, weights: np.ndarray, row_scale: float) -> _White:
    """Move, scale and whiten; neurons are those of lifted rows divided by ``row_scale``."""
    dimension = lifted.shape[1]
    if not lifted.any():
        return _White(lifted, np.eye(dimension), np.eye(dimension), np.zeros(len(lifted)), True)
    moved, centre = lifted, np.zeros(dimension)
    if bias > 0:
        mean = weights @ (lifted / row_scale) * row_scale / weights.sum()
        centre[:-1] = lifted[np.abs((lifted - mean) / row_scale).max(axis=1).argmin(), :-1]
        moved = lifted - centre
    power = exponents(moved.T)
    scaled = np.ldexp(moved, -power)
    _, shrink, _ = whiten(scaled, weights)
    # the map is what it is; what its product with the table rounds is computed
    white = (scaled.astype(np.longdouble) @ shrink.astype(np.longdouble)).astype(float)
    blur = misses_up(white, shrink.T, scaled)
    if bias > 0:
        lost = np.ldexp(np.abs(two_sum(lifted, -centre)[1]), -power)
        blur = blur + np.linalg.norm(lost @ np.abs(shrink), axis=1) * (1.0 + gamma(4 * dimension + 8))
    steep = row_scale * np.ldexp(np.eye(dimension), -power[:, None])
    back, forth = (
        steep @ shrink,
        np.linalg.pinv(shrink) @ np.ldexp(np.eye(dimension), power[:, None]) / row_scale,
    )
    if bias > 0:
        back[-1] -= centre[:-1] @ back[:-1] / bias
        forth[:, :-1] += np.outer(forth[:, -1], centre[:-1] / bias)
    decided = shrink.shape[1] == dimension or exact_rank(lifted) == shrink.shape[1]
    return _White(white, back, forth, blur, decided)
