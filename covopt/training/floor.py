"""What a certificate proves about ANY network, in numbers that a trained one can be held against.

Let Λ be dual feasible, ‖Λᵀσ(X̃ w)‖ ≤ 1 for all unit w. For every network f = Σ σ(w_j·x̃) v_jᵀ (+ β b), through the
points or not,

    ‖W‖² ≥ 2 Σ ‖w_j‖‖v_j‖ + ‖b‖² ≥ 2⟨Λ, f(X) − β1bᵀ⟩ + ‖b‖² ≥ 2⟨Λ, f(X)⟩ − β²‖Λᵀ1‖²,

where the last term belongs to a penalised output bias; with a free one Λᵀ1 = 0. For an f through the points the right
side is the certified lower bound (theory.md §2). With a loss the certified bound itself holds for every network.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covopt.certificates.regularised import FitCertificate
from covopt.network import ReLUNetwork
from covopt.solution import Solution

MARGIN = 1e-9  # of the sum of the sizes of all terms: far above rounding, far below any real contradiction


@dataclass(frozen=True)
class Fact:
    """An inequality value ≥ floor that the certificate claims for one network.

    Attributes
    ----------
    claim : str
    value, floor : float
    margin : float
        What rounding can change about ``value − floor``, generously.
    """

    claim: str
    value: float
    floor: float
    margin: float

    @property
    def holds(self) -> bool:
        """Whether the network respects the claim."""
        return not self.value < self.floor - self.margin


def feasible_dual(solution: Solution) -> np.ndarray:
    """Return Λ of shape (N, k), divided by its gauge where that exceeds one, projected for a free output bias."""
    dual = solution.dual.reshape(solution.data.Y.shape) / max(1.0, solution.certificate.gauge)
    return dual - dual.mean(axis=0) if solution.output_bias == "free" else dual


def facts(solution: Solution, network: ReLUNetwork, *, interpolates: bool = False) -> list[Fact]:
    """Return what the certificate claims about a network.

    Parameters
    ----------
    solution : Solution
        With the variation norm.
    network : ReLUNetwork
        Of the solution's inputs, outputs and bias.
    interpolates : bool
        The network passes through the points, up to its residual, and a solution without a loss bounds its norm.

    Examples
    --------
    >>> import covopt
    >>> solution = covopt.min_norm([[-1.0], [0.0], [1.0]], [1.0, 0.0, 1.0])
    >>> [fact.holds for fact in facts(solution, solution.network, interpolates=True)]
    [True, True]
    """
    data, dual = solution.data, feasible_dual(solution)
    outputs = network.predict(data.X).reshape(data.Y.shape)
    norm = network.squared_norm
    # sizes of the terms that the outputs are sums of
    hidden = np.abs(network.lift(data.X)) @ np.abs(network.hidden_weights).T
    sizes = hidden @ np.abs(network.output_weights) + network.bias * np.abs(network.output_bias)
    floor, terms = 2.0 * float((dual * outputs).sum()), norm + 2.0 * float((np.abs(dual) * sizes).sum())
    claim = "‖W‖² ≥ 2⟨Λ, f(X)⟩"
    if solution.output_bias == "penalized":
        floor -= data.bias**2 * float((dual.sum(axis=0) ** 2).sum())
        terms += data.bias**2 * float((np.abs(dual).sum(axis=0) ** 2).sum())
        claim += " − β²‖Λᵀ1‖²"
    found = [Fact(claim, norm, floor, MARGIN * terms)]
    certificate = solution.certificate
    if isinstance(certificate, FitCertificate):
        assert solution.loss is not None
        assert solution.lam is not None
        loss = solution.loss.value(outputs)
        objective = loss + solution.lam * norm
        # what rounding of the outputs does to the loss, to first order
        shaken = float((np.abs(solution.loss.gradient(outputs)) * sizes).sum())
        size = abs(loss) + solution.lam * norm + shaken + abs(certificate.lower_bound)
        found.append(Fact("C(f) + λ‖W‖² ≥ lower bound", objective, certificate.lower_bound, MARGIN * size))
    elif interpolates:
        missed = 2.0 * float((np.abs(dual) * np.abs(outputs - data.Y)).sum())
        found.append(Fact("‖W‖² ≥ lower bound", norm, certificate.lower_bound, MARGIN * terms + missed))
    return found
