"""Reduction of the user's table to the solver's units for a label-noise potential.

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

import numpy as np

from covopt.data import Data
from covopt.errors import InputError
from covopt.exact.rank import COMPUTED, exact_rank
from covopt.exact.rounding import exponents, gamma, misses_up, two_sum
from covopt.losses import Loss
from covopt.network import ReLUNetwork
from covopt.oracles.faces import DEFAULT_FACE_BUDGET
from covopt.oracles.label_noise import LabelNoiseOracle, whiten
from covopt.potentials import LabelNoise
from covopt.problems.problem import Problem
from covopt.problems.reduction import Reduction, check_size, reduce_data, reduce_fit

OUTPUT_BIASES = ("none", "free")


@dataclass(frozen=True, eq=False, kw_only=True)
class Whitening(Reduction):
    """Map between a table and its problem of whitened rows, whose neurons have ω'(u) = 1.

    Attributes
    ----------
    data : Data
    potential : LabelNoise
    weights : ndarray of shape (N,)
        Weight of each sample of the table in ω.
    rows : ndarray of shape (n, s)
        The whitened rows in the means of ω, those of positive weight; interpolation constrains only some of them.
    back, forth : ndarray of shape (D, s) and (s, D)
        T, and the map from a neuron of the lifted inputs to that of the whitened rows.
    decided : bool
        Whether the directions that whitening left out are dependent exactly (or none was left out).
    distances, blur : ndarray of shape (n,)
        |x̃_i|/s_x, and bounds on the rounding errors of the whitened rows.
    kept, asked : ndarray of int
        The rows that a dual is priced on: their indices in ``rows``, and among the rows of the problem.
    """

    data: Data
    potential: LabelNoise
    weights: np.ndarray
    rows: np.ndarray
    back: np.ndarray
    forth: np.ndarray
    decided: bool
    distances: np.ndarray
    blur: np.ndarray
    kept: np.ndarray
    asked: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """Weights of ``rows`` in ω, shape (n,)."""
        return self.weights[self.weights > 0]

    @property
    def cost_scale(self) -> float:
        """Factor from reduced values to the user's Σ|c|ω."""
        return self.target_scale * self.row_scale ** (self.potential.degree - 1)

    @property
    def _sizes(self) -> float:
        return self.row_scale ** (1 - self.potential.degree)

    def oracle(self, *, budget: float = DEFAULT_FACE_BUDGET) -> LabelNoiseOracle:
        """Return the exact oracle of the reduced duals."""
        return LabelNoiseOracle(
            self.rows, self.potential, kept=self.kept, sample_weight=self.shares, lengths=self.distances,
            blur=self.blur, budget=budget,
        )  # fmt: skip

    def cost(self, network: ReLUNetwork) -> float:
        """Return ⟨V, μ⟩ = Σ_j |v_j| ω(w_j) in the user's units, of any network on these inputs."""
        omega = self.potential.weigh(self.data.lifted / self.row_scale, network.hidden_weights, self.weights)
        return float(np.abs(network.output_weights[:, 0]) @ omega) * self.row_scale**self.potential.degree

    def normalise(self, neurons: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whiten reduced neurons, and scale them to ω'(u) = 1 and their weights accordingly.

        Neurons that no row activates, or only by rounding, are dropped.
        """
        neurons = neurons @ self.forth.T
        omega = self.potential.weigh(self.rows, neurons, self.shares, self.distances)
        size = np.linalg.norm(self.rows, axis=1).max(initial=0.0)
        size *= self.distances.max(initial=0.0) if self.potential.exact else 1.0
        live = omega > COMPUTED * np.linalg.norm(neurons, axis=1) * size
        return neurons[live] / omega[live, None], weights[live] * omega[live, None]

    def invert_network(self, neurons, weights, offset):
        """See the base class."""
        neurons = neurons @ self.back.T
        lengths = np.linalg.norm(neurons, axis=1)[:, None]
        return super().invert_network(neurons / lengths, weights * lengths, offset)


def check_label_noise(potential: LabelNoise, n_outputs: int, output_bias: str) -> None:
    """Refuse problems that a label-noise potential is not defined for.

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
    loss: Loss | None = None,
    lam: float = 1.0,
    *,
    reduced: tuple[Problem, Reduction] | None = None,
) -> tuple[Problem, Whitening]:
    """Reduce the table; redundant rows leave the constraints but stay in ω.

    Parameters
    ----------
    data : Data
    output_bias : {"none", "free"}
    potential : LabelNoise
    loss : Loss, optional
        Bound to ``data.Y``; by default networks interpolate.
    lam : float
        λ, with a loss.
    reduced : (Problem, Reduction), optional
        Result of :func:`~covopt.problems.reduction.reduce_data`, if available.

    Raises
    ------
    InputError
        For several outputs, a penalised output bias, and data outside the range of double precision.
    """
    check_label_noise(potential, data.n_outputs if loss is None else loss.targets.shape[1], output_bias)
    if loss is None:
        problem, reduction = reduced or reduce_data(data, output_bias, even=False)
        weights = np.full(data.n_samples, 1.0 / data.n_samples)
    else:
        problem, reduction = reduce_fit(data, loss, lam, output_bias)
        weights = loss.weights[:, 0]
        # the reduced objective is C/μ + Σ|c'|, with μ = λ s_xᵖ⁻¹
        problem = replace(problem, strength=lam * reduction.row_scale ** (potential.degree - 1))
        check_size("lam", "measured in units of X it is", problem.strength)
    lifted, scale = data.lifted[weights > 0], reduction.row_scale
    distances = np.linalg.norm(lifted / scale, axis=1)
    # interpolation has left zero rows out, a loss those without weight
    kept = reduction.keep if loss is None else np.flatnonzero(distances)
    asked = np.arange(len(kept)) if loss is None else kept
    rows, back, forth, blur, decided = _whitened(lifted, data.bias, weights[weights > 0], scale)
    problem = replace(problem, rows=rows[kept] if loss is None else rows)
    found = Whitening(
        **vars(reduction) | {"basis": np.eye(lifted.shape[1])}, data=data, potential=potential, weights=weights,
        rows=rows, back=back, forth=forth, decided=decided, distances=distances, blur=blur, kept=kept, asked=asked,
    )  # fmt: skip
    check_size("X and Y", "the label-noise cost is of the size", found.cost_scale)
    return problem, found


def _whitened(lifted: np.ndarray, bias: float, weights: np.ndarray, row_scale: float):
    """Move, scale and whiten: rows, T, its inverse for neurons of lifted rows over ``row_scale``, blur, decided."""
    dimension = lifted.shape[1]
    if not lifted.any():
        return lifted, np.eye(dimension), np.eye(dimension), np.zeros(len(lifted)), True
    moved, centre = lifted, np.zeros(dimension)
    if bias > 0:
        mean = weights @ (lifted / row_scale) * row_scale / weights.sum()
        centre[:-1] = lifted[np.abs((lifted - mean) / row_scale).max(axis=1).argmin(), :-1]
        moved = lifted - centre
    power = exponents(moved.T)
    scaled = np.ldexp(moved, -power)
    _, shrink, _ = whiten(scaled, weights)
    # the map is taken as exact; the rounding error of its product with the table is bounded
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
    return white, back, forth, blur, decided
