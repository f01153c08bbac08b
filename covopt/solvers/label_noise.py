r"""Interpolation at least label-noise cost: column generation with neurons of ω(w) = 1.

    primal   min  Σ_j |c_j| + …   s.t.  Σ_j σ(Z w_j) c_j + B·1 = y,   ω(w_j) = 1,
    dual     max  ⟨λ, y⟩          s.t.  |⟨λ, σ(Z w)⟩| ≤ ω(w) for all w   (1ᵀλ = 0 with a free offset),

the problem of :mod:`covopt.problems.shallow` with another unit for neurons. What column generation knows about that
unit is replaced here: how columns are scaled, the metric of a face, what a merged neuron costs, the finish.

Two neurons of one sign may be merged where ω is convex: in a closed cell for the printed potential; where the active
rows are the same for the exact one, whose factor jumps when a row turns active.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.oracles.label_noise import LabelNoiseOracle
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.column_generation import ColumnGeneration, Point
from covopt.solvers.master.columns import ON_PLANE, Frames
from covopt.solvers.merging import Faces, merge_in_cells, polish
from covopt.sparsify.caratheodory import caratheodory

MAX_ROUNDS = 150  # what is not reached by then is below the oracle's own allowance for rounding
SINGULAR = (
    1e-12  # eigenvalue of a face's metric, relative to the largest, below which a direction changes no atom
)
EXACT = 1e-11
COSTS = 1e-10
LIGHT = 1e-6  # of the largest mass: neurons without which the others are moved to interpolate


def metric_frames(oracle: LabelNoiseOracle) -> Frames:
    """Return what turns orthonormal frames of faces into frames of ω: on a face ω(w) = φ·(wᵀQw)^½.

    Directions that change no activation have no length in that metric and are left out.

    Parameters
    ----------
    oracle : LabelNoiseOracle
    """

    def fit(neurons: np.ndarray, atoms: np.ndarray, frames: np.ndarray, dims: np.ndarray) -> None:
        active = oracle.rows @ neurons.T > ON_PLANE * np.linalg.norm(neurons, axis=1)
        for j in range(len(neurons)):
            frame = frames[j, : dims[j]].copy()
            frames[j] = 0.0
            frames[j, 0], dims[j] = neurons[j], 1
            weight = active[:, j] * oracle.sample_weight
            heights = oracle.rows @ frame.T
            values, vectors = np.linalg.eigh(heights.T @ (weight[:, None] * heights))
            real = values > SINGULAR * values[-1]
            if values[-1] <= 0 or real.sum() < 2:
                continue
            root = np.sqrt(values[real])
            # the neuron in coordinates where the metric is the identity, and what is orthogonal to it
            own = (vectors[:, real] * root).T @ (frame @ neurons[j])
            size = float(np.linalg.norm(own))
            across = np.linalg.svd(own[None, :])[2][1:]
            dims[j] = len(own)
            frames[j, 1 : len(own)] = size * (across / root) @ vectors[:, real].T @ frame

    return fit


class LabelNoiseGeneration(ColumnGeneration):
    """Solve a :class:`ShallowProblem` whose neurons have ω(w) = 1.

    Parameters
    ----------
    problem : ShallowProblem
        One output.
    oracle : LabelNoiseOracle
    **options
        Of :class:`~covopt.solvers.column_generation.ColumnGeneration`.
    """

    oracle: LabelNoiseOracle

    def __init__(self, problem: ShallowProblem, oracle: LabelNoiseOracle, **options: Any):
        super().__init__(problem, oracle, fit_frames=metric_frames(oracle), **options)

    def normalise(self, neurons: np.ndarray) -> np.ndarray:
        """See the base class."""
        return self.oracle.normalise(neurons)

    def _merged(self, neurons: np.ndarray, weights: np.ndarray) -> Faces:
        return merge(self.problem, self.oracle, neurons, weights)

    def _unmerged(self, faces: Faces) -> tuple[np.ndarray, np.ndarray]:
        return normalised(self.oracle, faces)


def merge(
    problem: ShallowProblem, oracle: LabelNoiseOracle, neurons: np.ndarray, weights: np.ndarray
) -> Faces:
    """Merge neurons of equal sign where ω is convex."""
    lengths = np.linalg.norm(neurons, axis=1)
    return merge_in_cells(
        problem.rows, neurons / lengths[:, None], weights * lengths, same_active=oracle.potential.exact
    )


def normalised(oracle: LabelNoiseOracle, faces: Faces) -> tuple[np.ndarray, np.ndarray]:
    """Return neurons of ω(w) = 1 and signed weights."""
    masses = oracle.weigh(faces.vectors)
    live = masses > 0
    return faces.vectors[live] / masses[live, None], (faces.signs * masses)[live]


def finish_label_noise(problem: ShallowProblem, oracle: LabelNoiseOracle, point: Point) -> Point:
    """Merge, sparsify and polish a network; each step is kept only if it interpolates at no higher cost.

    Parameters
    ----------
    problem : ShallowProblem
    oracle : LabelNoiseOracle
    point : Point
        Its neurons, weights and offset are replaced.
    """
    used = point.weights != 0
    best = point.neurons[used], point.weights[used], point.offset
    for sparsify, light in ((False, 0.0), (True, 0.0), (False, 0.0), (False, LIGHT)):
        if not len(best[0]):
            break
        kept = np.abs(best[1]) > light * np.abs(best[1]).max()
        neurons, weights, offset = best[0][kept], best[1][kept], best[2]
        if sparsify:
            weights = caratheodory(problem.atoms(neurons), weights)
        heavy = np.abs(weights) > 1e-13 * np.abs(weights).max()
        faces = merge(problem, oracle, neurons[heavy], weights[heavy])
        faces, offset, _ = polish(
            problem.rows, problem.targets, faces, float(offset), moves_offset=problem.has_offset, rounds=10
        )
        candidate = (*normalised(oracle, faces), offset)
        if _accept(problem, best, candidate):
            best = candidate
    light = np.abs(best[1]) > 1e-10 * np.abs(best[1]).max(initial=0.0)
    fewer = best[0][light], best[1][light], best[2]
    if len(best[0]) and _missed(problem, fewer) <= EXACT:
        best = fewer
    point.neurons, point.weights, point.offset = best
    point.upper_bound = problem.primal_value(best[1], best[2])
    return point


def _missed(problem: ShallowProblem, network: tuple) -> float:
    return float(np.abs(problem.residual(*network)).max(initial=0.0))


def _accept(problem: ShallowProblem, best: tuple, candidate: tuple) -> bool:
    before, after = _missed(problem, best), _missed(problem, candidate)
    ceiling = problem.primal_value(best[1], best[2]) * (1 + COSTS)
    cheap = problem.primal_value(candidate[1], candidate[2]) <= ceiling
    return after <= EXACT < before or (cheap and after <= max(EXACT, before))


def solve_label_noise(problem: ShallowProblem, oracle: LabelNoiseOracle, **options: Any) -> Point:
    """Solve by column generation and finish the network.

    Parameters
    ----------
    problem : ShallowProblem
        One output; without offset, or with a free one.
    oracle : LabelNoiseOracle
        Of the problem's rows (its ``kept`` ones).
    **options
        ``tol``, ``time_limit_s``, ``random_state``, ``callback``.

    Returns
    -------
    Point
        Neurons of ω(w) = 1; the value is Σ|c_j|.

    Examples
    --------
    >>> from covopt.potentials import LabelNoise
    >>> problem = ShallowProblem(np.eye(2), np.array([3.0, -4.0]))
    >>> point = solve_label_noise(problem, LabelNoiseOracle(problem.rows, LabelNoise()), tol=1e-6)
    >>> round(point.upper_bound * 2**0.5, 6), point.status.code
    (7.0, 'certified')
    """
    options.setdefault("max_rounds", MAX_ROUNDS)
    point = LabelNoiseGeneration(problem, oracle, **options).solve()
    return finish_label_noise(problem, oracle, point)
