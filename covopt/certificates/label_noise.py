"""The certificate for a label-noise potential: all numbers recomputed from the table, the network and the dual."""

from __future__ import annotations

import numpy as np

from covopt.certificates.duality import INTERPOLATES, Certificate, distance, residual_of
from covopt.certificates.regularised import FitCertificate
from covopt.data import Data
from covopt.network import ReLUNetwork
from covopt.oracles.faces import DEFAULT_FACE_BUDGET
from covopt.potentials import LabelNoise
from covopt.problems.label_noise import LabelNoiseTask, reduce_label_noise
from covopt.problems.reduction import Reduction
from covopt.problems.regularised import RegularisedProblem
from covopt.problems.shallow import ShallowProblem


def certify_label_noise(
    data: Data,
    network: ReLUNetwork,
    dual: np.ndarray,
    *,
    potential: LabelNoise,
    output_bias: str,
    budget: float = DEFAULT_FACE_BUDGET,
    reduced: tuple[ShallowProblem, Reduction] | None = None,
) -> Certificate:
    """Recompute cost Σ|v_j|ω(w_j), lower bound and gap from the raw data.

    The lower bound is ⟨λ, y⟩ divided by the oracle's upper bound on max |⟨λ, σ(X̃w)⟩|/ω(w).

    Parameters
    ----------
    data : Data
        With one target.
    network : ReLUNetwork
    dual : ndarray of shape (N,)
        In the user's units.
    potential : LabelNoise
    output_bias : {"none", "free"}
    budget : float
        Of the exact oracle; there is no other.
    reduced : (ShallowProblem, Reduction), optional
        When the caller has them already.

    Raises
    ------
    InputError
        For several outputs or a penalised output bias.
    BudgetError
        When the exact oracle would look at too many faces.

    Examples
    --------
    >>> data = Data.validate([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> network = ReLUNetwork.from_neurons(np.array([[1.0, 0.0]]), np.array([1.0]), bias=1.0)
    >>> dual = np.array([0.0, 1.0, 2.0]) / np.sqrt(15)
    >>> found = certify_label_noise(data, network, dual, potential=LabelNoise(), output_bias="none")
    >>> round(found.cost**2 * 3, 9), found.gap < 1e-9
    (5.0, True)
    """
    task = reduce_label_noise(data, output_bias, potential, reduced=reduced)
    cost, residual = task.cost(network), residual_of(data, network)
    if not len(task.problem.rows) or not np.any(dual):
        gap = 0.0 if cost == 0 and residual <= INTERPOLATES else 1.0
        return Certificate(cost, 0.0, gap, residual, 0.0, True, "zero, the trivial bound")
    problem = task.problem
    reduced_dual = problem.project_dual(task.apply_dual(dual))
    gauge = task.oracle(budget=budget).price(reduced_dual, threshold=np.inf).upper_bound
    scaled, value = problem.scale_dual(reduced_dual, gauge)
    # <λ, y> is a sum of numbers that may cancel: take its rounding error off
    terms = float(np.abs(scaled).sum() * np.abs(problem.targets).max())
    value = max(0.0, value - (scaled.size + 8) * np.finfo(float).eps * terms)
    lower = float(value * task.value_scale)
    bound = f"dual point divided by its exact maximum over all faces, in the {potential.name} potential"
    return Certificate(cost, lower, distance(cost, lower), residual, gauge, True, bound)


def certify_label_noise_fit(
    task: LabelNoiseTask, network: ReLUNetwork, dual: np.ndarray, *, budget: float = DEFAULT_FACE_BUDGET
) -> FitCertificate:
    """Recompute the objective C(f) + λ Σ|v|ω(w), lower bound and gap from the raw data.

    Parameters
    ----------
    task : LabelNoiseTask
        Of :func:`~covopt.problems.label_noise.reduce_label_noise_fit`.
    network : ReLUNetwork
    dual : ndarray of shape (N,)
        In the user's units. It is first moved into the domain of C*, which changes nothing for an honest one.
    budget : float
        Of the exact oracle; there is no other.

    Raises
    ------
    BudgetError
        When the exact oracle would look at too many faces.
    """
    problem: RegularisedProblem = task.problem
    cost = task.cost(network)
    assert task.loss is not None
    loss_value = task.loss.value(network.predict(task.data.X))
    objective = loss_value + task.lam * cost
    reduced_dual = problem.project_dual(task.apply_dual(dual).reshape(len(problem.rows), 1))
    asked, gauge = reduced_dual[task.kept, 0], 0.0
    if asked.any():
        gauge = task.oracle(budget=budget).price(asked, threshold=np.inf).upper_bound
    scaled, _ = problem.scale_dual(reduced_dual, gauge)
    value, size = problem.dual_terms(scaled)
    value -= (scaled.size + 8) * np.finfo(float).eps * size
    lower = float(max(0.0, value * problem.strength))
    bound = f"dual point scaled by the exact maximum over all faces, in the {task.potential.name} potential"
    return FitCertificate(
        cost, lower, distance(objective, lower), 0.0, float(gauge), True, bound, float(objective), loss_value
    )
