"""The certificate of optimality: every number recomputed from the user's table, the network and the dual.

Nothing that a solver said is used. The upper bound is ‖W‖² of the network as it is, valid because its outputs are
compared with the targets; the lower bound is the dual value of λ divided by the oracle's upper bound on h(λ).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covopt.checks.wording import counted
from covopt.data import Data
from covopt.network import ReLUNetwork
from covopt.oracles.faces import DEFAULT_FACE_BUDGET
from covopt.oracles.lifted.gauge_certificate import GaugeCertificate, check_gauge
from covopt.oracles.support import bound_gauge
from covopt.problems.reduction import Reduction, reduce_data
from covopt.problems.shallow import ShallowProblem

INTERPOLATES = 1e-9  # of max|y|
PROVEN = 1e-9  # a proof that h(Λ) is at most this much above one needs no help from an oracle


@dataclass(frozen=True)
class Certificate:
    """What was checked, in the user's units.

    Attributes
    ----------
    cost : float
        ‖W‖² of the network (a free output bias not counted).
    lower_bound : float
        No network through the points has a smaller ‖W‖².
    gap : float
        (cost − lower_bound) / cost; see :func:`distance` for a cost below the bound.
    residual : float
        max_i |f(x_i) − y_i| / max_i |y_i|.
    gauge : float
        Upper bound on h(λ) that the lower bound was divided by.
    exact : bool
        Whether the oracle's bound is the maximum itself: it looked at every face, or its branch and bound ended.
    bound : str
        Which lower bound it is, in words.
    """

    cost: float
    lower_bound: float
    gap: float
    residual: float
    gauge: float
    exact: bool
    bound: str

    @property
    def interpolates(self) -> bool:
        """Whether the network passes through the points, to 1e-9 of max|y|."""
        return self.residual <= INTERPOLATES


def residual_of(data: Data, network: ReLUNetwork) -> float:
    """max_i |f(x_i) − y_i| / max_i |y_i| (absolute when all targets vanish)."""
    scale = float(np.abs(data.Y).max()) or 1.0
    return float(np.abs(network.predict(data.X).reshape(data.Y.shape) - data.Y).max()) / scale


def distance(cost: float, lower_bound: float) -> float:
    """Relative distance of the two bounds, |cost − lower_bound| / max(cost, lower_bound).

    A cost below the bound belongs to a network that misses the points, if only by the 1e-9 that is
    allowed: it proves nothing, and the distance says how far off it is.
    """
    size = max(cost, lower_bound)
    if np.isnan(size + lower_bound):
        return np.nan
    return abs(cost - lower_bound) / size if size > 0 else 0.0


def certify(
    data: Data,
    network: ReLUNetwork,
    dual: np.ndarray,
    *,
    output_bias: str,
    budget: float = DEFAULT_FACE_BUDGET,
    reduced: tuple[ShallowProblem, Reduction] | None = None,
    proof: GaugeCertificate | None = None,
) -> Certificate:
    """Recompute primal, dual and gap from the raw data.

    Parameters
    ----------
    data : Data
    network : ReLUNetwork
    dual : ndarray of shape (N,) or (N, k)
        Λ in the user's units; rows whose targets follow from others carry zero.
    output_bias : {"none", "penalized", "free"}
    budget : float
        Largest number of faces that the exact oracle may look at; beyond it h(λ) is bounded by a relaxation.
    reduced : (ShallowProblem, Reduction), optional
        When the caller has them already.
    proof : GaugeCertificate, optional
        Multipliers of a semidefinite relaxation that bound h(Λ); they are checked, and used where they fit.

    Raises
    ------
    InputError
        When the proof does not belong to these data.
    """
    problem, reduction = reduced or reduce_data(data, output_bias)
    cost = network.squared_norm
    residual = residual_of(data, network)
    if not len(problem.rows) or not np.any(dual):
        gap = 0.0 if cost == 0 and residual <= INTERPOLATES else 1.0
        return Certificate(cost, 0.0, gap, residual, 0.0, True, "zero, the trivial bound")
    reduced_dual = problem.project_dual(reduction.apply_dual(dual))
    gauge = np.inf if proof is None else check_gauge(problem.rows, reduced_dual, proof)
    exact, by_proof = False, gauge < np.inf
    if gauge > 1.0 + PROVEN:
        other, exact = bound_gauge(problem.rows, reduced_dual, budget=budget)
        if other < gauge:
            gauge, by_proof = other, False
    scaled, value = problem.scale_dual(reduced_dual, gauge)
    # <λ, y> is a sum of numbers that may cancel: take its rounding error off
    terms = float(np.abs(scaled).sum() * np.abs(problem.targets).max())
    value = max(0.0, value - (scaled.size + 8) * np.finfo(float).eps * terms)
    lower = 2.0 * value * reduction.value_scale
    gap = distance(cost, lower)
    support = int(np.count_nonzero(reduced_dual.reshape(len(reduced_dual), -1).any(axis=1)))
    bound = "dual point divided by its exact maximum over all neurons"
    if exact and support < len(reduced_dual):
        bound = f"dual point supported on {counted(support, 'row')}, divided by its exact maximum over all neurons"
    if not exact:
        bound = "dual point divided by a valid upper bound on the maximum over all neurons"
    if by_proof:
        bound = "dual point with a semidefinite proof that no neuron exceeds one, checked by eigenvalues"
    return Certificate(cost, lower, gap, residual, gauge, exact, bound)
