"""Training with a loss and a label-noise potential: the loop for losses, with neurons of ω(w) = 1."""

from __future__ import annotations

from typing import Any

from covopt.oracles.label_noise import LabelNoiseOracle
from covopt.problems.regularised import RegularisedProblem
from covopt.solvers.label_noise import LabelNoiseUnit
from covopt.solvers.regularised.finish import finish_fit
from covopt.solvers.regularised.generation import RegularisedGeneration
from covopt.solvers.regularised.points import FitPoint


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
    >>> import numpy as np
    >>> from covopt.losses import make_loss
    >>> from covopt.potentials import LabelNoise
    >>> loss = make_loss("squared")
    >>> _ = loss.encode_targets([3.0, 4.0])
    >>> problem = RegularisedProblem(np.eye(2), loss, 0.1)
    >>> point = solve_label_noise_fit(problem, LabelNoiseOracle(problem.rows, LabelNoise()), tol=1e-6)
    >>> point.status.code, len(point.neurons)
    ('certified', 1)
    """
    unit = LabelNoiseUnit(oracle)
    point = RegularisedGeneration(problem, oracle, unit=unit, **options).solve()
    point.neurons, point.weights, point.offset = finish_fit(
        problem, point.neurons, point.weights, point.offset, unit=unit
    )
    return point
