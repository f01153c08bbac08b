"""The certificate for a label-noise potential: all numbers recomputed from the table, the network and the dual."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from covopt.certificates.conjugate import into_domain
from covopt.certificates.duality import INTERPOLATES, Certificate, centred, residual_of
from covopt.certificates.regularised import FitCertificate, lower_bound
from covopt.data import Data
from covopt.exact.rounding import allowance, below, dot_bounds, relative_gap, sum_bounds, up
from covopt.network import ReLUNetwork
from covopt.oracles.conditioning import in_clear_position
from covopt.oracles.faces import DEFAULT_FACE_BUDGET
from covopt.potentials import LabelNoise
from covopt.problems.label_noise import LabelNoiseTask, reduce_label_noise
from covopt.problems.reduction import Reduction
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
    point = centred(dual.reshape(len(dual), -1)[task.kept], output_bias)
    gauge, exact = _gauge(task, point[:, 0], budget)
    if output_bias == "free":  # what the sum differs from zero by goes to the row where it costs least
        rest = max(abs(end) for end in sum_bounds(point))
        k = int(_loudest(task)[task.kept].argmin())
        gauge = up(gauge + up(rest * float(_loudest(task)[task.kept][k])))
        lost = up(rest * abs(float(data.Y[task.kept][k, 0])))
    else:
        lost = 0.0
    low, high = dot_bounds(point, data.Y[task.kept])
    value = Fraction(max(low, -high)) - Fraction(lost)
    lower = below(value / Fraction(gauge)) if 0.0 < gauge < np.inf else 0.0
    bound = f"dual point divided by {_words(exact)}, in the {potential.name} potential"
    return Certificate(cost, lower, relative_gap(cost, lower), residual, gauge, exact, bound)


def _words(exact: bool) -> str:
    if exact:
        return "its exact maximum over all faces"
    return "a bound by its length (rows that nearly depend on each other: their faces are not decided in doubles)"


def _loudest(task: LabelNoiseTask) -> np.ndarray:
    """Return what a_i/ω can be for each row: ω² ≥ q_i a_i², times q_i|x̃_i|² in the exact potential."""
    weights = task.weights[task.weights > 0]
    with np.errstate(divide="ignore"):
        each = 1.0 / np.sqrt(weights)
        if task.potential.exact:
            each = each / (np.sqrt(weights) * task.lengths * task.reduction.row_scale)
    return each * (1.0 + 1e-14)


def _gauge(task: LabelNoiseTask, dual: np.ndarray, budget: float) -> tuple[float, bool]:
    """Bound max |⟨λ, σ(X̃w)⟩|/ω(w) from above, by all faces where they are decided, else by Cauchy and Schwarz.

    |⟨λ, a⟩| ≤ max(‖λ⁺‖_{1/q}, ‖λ⁻‖_{1/q}) ω_b for activations a ≥ 0; the factor of the exact potential is at least
    the smallest √q_i|x̃_i| of a row that counts.
    """
    if not dual.any():
        return 0.0, True
    weights = task.weights[task.weights > 0]
    asked = dual * task.reduction.row_scale ** (1 - task.potential.degree)
    live = np.flatnonzero(task.lengths)
    if task.decided and in_clear_position(task.rows[live], task.data.lifted[task.weights > 0][live]):
        found = task.oracle(budget=budget).price(asked, threshold=np.inf).upper_bound
        # the dual in these units, the weights and the lengths are rounded
        rounding = allowance(8, float(np.abs(dual) @ _loudest(task)[task.kept]))
        return up(found + rounding), True
    shares = dual / np.sqrt(weights[task.kept])
    size = max(float(np.linalg.norm(np.maximum(side * shares, 0.0))) for side in (1.0, -1.0))
    if task.potential.exact:
        reach = np.sqrt(weights[task.kept]) * task.lengths[task.kept] * task.reduction.row_scale
        size /= float(reach[dual != 0].min())
    return up(size * (1.0 + 1e-13)), False


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
    cost = task.cost(network)
    assert task.loss is not None
    loss_value = task.loss.value(network.predict(task.data.X))
    objective = loss_value + task.lam * cost
    keep = task.reduction.keep
    part = task.loss.take(keep)
    slope = into_domain(part, -task.lam * dual.reshape(-1, 1)[keep], balanced=task.problem.is_free)
    gauge, exact = _gauge(task, slope[task.kept, 0], budget)
    lower = lower_bound(part, slope, task.lam, gauge)
    bound = f"dual point scaled by {_words(exact)}, in the {task.potential.name} potential"
    return FitCertificate(
        cost, lower, relative_gap(objective, lower), 0.0, up(gauge / task.lam), exact, bound, float(objective),
        loss_value,
    )  # fmt: skip
