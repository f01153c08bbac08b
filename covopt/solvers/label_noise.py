r"""Least label-noise cost, interpolating or with a loss: column generation with neurons of ω(w) = 1.

    primal   min  Σ_j |c_j| + …   s.t.  Σ_j σ(Z w_j) c_j + B·1 = y,   ω(w_j) = 1,
    dual     max  ⟨λ, y⟩          s.t.  |⟨λ, σ(Z w)⟩| ≤ ω(w) for all w   (1ᵀλ = 0 with a free offset),

the problem of :mod:`covopt.problems.problem` with another unit for neurons.
This module replaces the parts of column generation that depend on that unit: the scaling of columns, the metric of a
face, the cost of a merged neuron, and the finish.

Two neurons of one sign may be merged where ω is convex: in a closed cell for the printed potential; where the active
rows are the same for the exact one, whose factor jumps when a row turns active.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.exact.rank import COMPUTED
from covopt.oracles.label_noise import LabelNoiseOracle
from covopt.potentials import HINGE
from covopt.problems.problem import Problem
from covopt.solvers.generation import generate
from covopt.solvers.loop import Point
from covopt.solvers.master.columns import Frames
from covopt.solvers.merging import Faces, Unit, merge_in_cells
from covopt.solvers.postprocess import finish_network


def metric_frames(oracle: LabelNoiseOracle) -> Frames:
    """Return a function that turns orthonormal frames of faces into frames of ω: on a face ω(w) = φ·(wᵀQw)^½.

    Directions that change no activation have no length in that metric and are left out.

    Parameters
    ----------
    oracle : LabelNoiseOracle
    """

    def fit(neurons: np.ndarray, atoms: np.ndarray, frames: np.ndarray, dims: np.ndarray) -> None:
        active = oracle.rows @ neurons.T > HINGE * np.linalg.norm(neurons, axis=1)
        for j in range(len(neurons)):
            frame = frames[j, : dims[j]].copy()
            frames[j] = 0.0
            frames[j, 0], dims[j] = neurons[j], 1
            weight = active[:, j] * oracle.sample_weight
            heights = oracle.rows @ frame.T
            values, vectors = np.linalg.eigh(heights.T @ (weight[:, None] * heights))
            real = values > COMPUTED * values[-1]
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


class LabelNoiseUnit(Unit):
    """Neurons that cost ω(w).

    Parameters
    ----------
    oracle : LabelNoiseOracle
    """

    def __init__(self, oracle: LabelNoiseOracle):
        self.oracle, self.fit_frames = oracle, metric_frames(oracle)

    def normalise(self, neurons: np.ndarray) -> np.ndarray:
        """See the base class."""
        return self.oracle.normalise(neurons)

    def weigh(self, vectors: np.ndarray) -> np.ndarray:
        """See the base class."""
        return self.oracle.weigh(vectors)

    def merge(self, rows: np.ndarray, neurons: np.ndarray, weights: np.ndarray) -> Faces:
        """Merge where ω is convex."""
        lengths = np.linalg.norm(neurons, axis=1)
        return merge_in_cells(
            rows, neurons / lengths[:, None], weights * lengths, same_active=self.oracle.potential.exact
        )


def solve_label_noise(problem: Problem, oracle: LabelNoiseOracle, **options: Any) -> Point:
    """Solve by column generation and finish the network.

    Parameters
    ----------
    problem : Problem
        One output; without offset, or with a free one.
    oracle : LabelNoiseOracle
        Of the problem's rows (its ``kept`` ones).
    **options
        See :func:`~covopt.solvers.generation.generate`.

    Returns
    -------
    Point
        Neurons of ω(w) = 1; where they interpolate the value is Σ|c_j|.

    Examples
    --------
    >>> from covopt.potentials import LabelNoise
    >>> problem = Problem.through(np.eye(2), np.array([3.0, -4.0]))
    >>> point = solve_label_noise(problem, LabelNoiseOracle(problem.rows, LabelNoise()), tol=1e-6)
    >>> round(point.upper_bound * 2**0.5, 6), point.status.code
    (7.0, 'certified')
    >>> from covopt.losses import make_loss
    >>> loss = make_loss("squared")
    >>> _ = loss.encode_targets([3.0, 4.0])
    >>> problem = Problem(np.eye(2), loss, 0.1)
    >>> point = solve_label_noise(problem, LabelNoiseOracle(problem.rows, LabelNoise()), tol=1e-6)
    >>> point.status.code, len(point.neurons)
    ('certified', 1)
    """
    unit = LabelNoiseUnit(oracle)
    point = generate(problem, oracle, unit=unit, **options)
    network = point.neurons, point.weights, point.offset
    point.neurons, point.weights, point.offset = finish_network(problem, *network, unit=unit)
    if problem.interpolates:
        point.upper_bound = problem.network_value(point.weights, point.offset)
    point.finished = True
    return point
