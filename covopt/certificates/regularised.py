"""The certificate with a loss: every number recomputed from the user's table, the network and the dual.

The upper bound is C(f) + λ‖W‖² of the network as it is. The lower bound is the value of the dual at the best multiple
of Λ that is feasible by the oracle's bound on h(Λ), less what rounding can have added.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covopt.certificates.duality import Certificate, distance
from covopt.data import Data
from covopt.losses import Loss
from covopt.network import ReLUNetwork
from covopt.oracles.faces import DEFAULT_FACE_BUDGET
from covopt.oracles.support import bound_gauge
from covopt.problems.reduction import Reduction
from covopt.problems.regularised import RegularisedProblem, reduce_fit


@dataclass(frozen=True)
class FitCertificate(Certificate):
    """What was checked, in the user's units: of the objective C(f) + λ‖W‖².

    Attributes
    ----------
    objective : float
        C(f) + λ‖W‖² of the network; ``lower_bound`` and ``gap`` are about it, ``residual`` is 0.
    loss_value : float
        C(f).
    """

    objective: float = 0.0
    loss_value: float = 0.0


def certify_fit(
    data: Data,
    network: ReLUNetwork,
    dual: np.ndarray,
    *,
    loss: Loss,
    lam: float,
    output_bias: str,
    budget: float = DEFAULT_FACE_BUDGET,
    reduced: tuple[RegularisedProblem, Reduction] | None = None,
) -> FitCertificate:
    """Recompute objective, lower bound and gap from the raw data.

    Parameters
    ----------
    data : Data
    network : ReLUNetwork
    dual : ndarray of shape (N,) or (N, k)
        Λ in the user's units. It is first moved into the domain of C*, which changes nothing for an honest one.
    loss : Loss
        Bound to ``data.Y`` and the weights.
    lam : float
    output_bias : {"none", "penalized", "free"}
    budget : float
        Largest number of faces that the exact oracle may look at; beyond it h(Λ) is bounded by a relaxation.
    reduced : (RegularisedProblem, Reduction), optional
        When the caller has them already.
    """
    problem, reduction = reduced or reduce_fit(data, loss, lam, output_bias)
    cost = network.squared_norm
    loss_value = loss.value(network.predict(data.X))
    objective = loss_value + lam * cost
    reduced_dual = reduction.apply_dual(dual if dual.ndim == 2 else dual[:, None])
    reduced_dual = problem.project_dual(reduced_dual.reshape(len(problem.rows), problem.n_outputs))
    live = problem.rows.any(axis=1)
    gauge, exact = 0.0, True
    if live.any() and reduced_dual[live].any():
        asked = reduced_dual[live]
        gauge, exact = bound_gauge(
            problem.rows[live], asked[:, 0] if asked.shape[1] == 1 else asked, budget=budget
        )
    scaled, _ = problem.scale_dual(reduced_dual, gauge)
    value, size = problem.dual_terms(scaled)
    value -= (scaled.size + 8) * np.finfo(float).eps * size
    lower = float(max(0.0, value * problem.strength))
    bound = "dual point scaled by its exact maximum over all neurons"
    if not exact:
        bound = "dual point scaled by a valid upper bound on the maximum over all neurons"
    return FitCertificate(
        cost, lower, float(distance(objective, lower)), 0.0, float(gauge), exact, bound, objective, loss_value
    )
