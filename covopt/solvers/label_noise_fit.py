"""Training with a loss and a label-noise potential: the loop for losses, with neurons of ω(w) = 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.oracles.label_noise import LabelNoiseOracle
from covopt.problems.regularised import RegularisedProblem
from covopt.solvers.label_noise import metric_frames, normalised
from covopt.solvers.merging import merge_in_cells
from covopt.solvers.regularised.finish import finish_fit
from covopt.solvers.regularised.generation import RegularisedGeneration
from covopt.solvers.regularised.points import FitPoint


class LabelNoiseFit(RegularisedGeneration):
    """Solve a :class:`RegularisedProblem` of one output whose neurons have ω(w) = 1.

    Parameters
    ----------
    problem : RegularisedProblem
    oracle : LabelNoiseOracle
        Of all rows, with the ones that are not zero as its ``kept`` ones.
    **options
        Of :class:`~covopt.solvers.regularised.generation.RegularisedGeneration`.
    """

    oracle: LabelNoiseOracle

    has_curvature = False  # of the kind that following a path uses

    def __init__(self, problem: RegularisedProblem, oracle: LabelNoiseOracle, **options: Any):
        super().__init__(problem, oracle, fit_frames=metric_frames(oracle), **options)

    def normalise(self, neurons: np.ndarray) -> np.ndarray:
        """See the base class."""
        return self.oracle.normalise(neurons)


def solve_label_noise_fit(problem: RegularisedProblem, oracle: LabelNoiseOracle, **options: Any) -> FitPoint:
    """Solve by column generation and finish the network.

    Parameters
    ----------
    problem : RegularisedProblem
        One output; without offset, or with a free one.
    oracle : LabelNoiseOracle
    **options
        ``tol``, ``time_limit_s``, ``random_state``, ``callback``, ``warm``.

    Returns
    -------
    FitPoint
        Neurons of ω(w) = 1.

    Examples
    --------
    >>> from covopt.losses import make_loss
    >>> from covopt.potentials import LabelNoise
    >>> loss = make_loss("squared")
    >>> _ = loss.encode_targets([3.0, 4.0])
    >>> problem = RegularisedProblem(np.eye(2), loss, 0.1)
    >>> point = solve_label_noise_fit(problem, LabelNoiseOracle(problem.rows, LabelNoise()), tol=1e-6)
    >>> point.status.code, len(point.neurons)
    ('certified', 1)
    """

    def merged(problem, neurons, weights, offset):
        lengths = np.linalg.norm(neurons, axis=1)
        faces = merge_in_cells(
            problem.rows[problem.rows.any(axis=1)], neurons / lengths[:, None], weights[:, 0] * lengths,
            same_active=oracle.potential.exact,
        )  # fmt: skip
        units, signed = normalised(oracle, faces)
        return units, signed[:, None], offset

    point = LabelNoiseFit(problem, oracle, **options).solve()
    point.neurons, point.weights, point.offset = finish_fit(
        problem, point.neurons, point.weights, point.offset, merge=merged
    )
    return point
