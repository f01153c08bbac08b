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

from covopt.network import ReLUNetwork
from covopt.solution import Solution

MARGIN = 1e-9  # of the compared numbers: far above rounding, far below any real contradiction


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
    lifted = network.lift(data.X)
    outputs = network.predict(data.X).reshape(data.Y.shape)
    norm = network.squared_norm
    # sizes of the terms that the outputs are sums of, and what rounding leaves of a sum that long
    sizes = np.abs(lifted) @ (np.abs(network.hidden_weights).T @ np.abs(network.output_weights))
    sizes += network.bias * np.abs(network.output_bias)
    rounding = 8 * (len(network) + sum(lifted.shape) + data.n_outputs) * np.finfo(float).eps
    floor, terms = 2.0 * float((dual * outputs).sum()), 2.0 * float((np.abs(dual) * sizes).sum())
    # Λ is feasible up to the rounding of its own sums over the points
    terms += norm * float(np.linalg.norm(dual, axis=1) @ np.linalg.norm(lifted, axis=1))
    claim = "‖W‖² ≥ 2⟨Λ, f(X)⟩"
    if solution.output_bias == "penalized":
        sums, sum_sizes = np.abs(dual.sum(axis=0)), np.abs(dual).sum(axis=0)
        floor -= data.bias**2 * float((sums**2).sum())
        terms += 2.0 * data.bias**2 * float((sums + rounding * sum_sizes) @ sum_sizes)
        claim += " − β²‖Λᵀ1‖²"
    margin = MARGIN * (norm + abs(floor)) + rounding * terms
    found = [Fact(claim, norm, floor, margin)]
    certificate = solution.certificate
    if solution.loss is not None:
        assert solution.lam is not None
        loss = solution.loss.value(outputs)
        objective = loss + solution.lam * norm
        # what rounding of the outputs does to the loss
        shaken = float((np.abs(solution.loss.gradient(outputs)) * sizes).sum()) + rounding * sizes.max() ** 2
        margin = MARGIN * (objective + abs(certificate.lower_bound)) + rounding * shaken
        found.append(Fact("C(f) + λ‖W‖² ≥ lower bound", objective, certificate.lower_bound, margin))
    elif interpolates:
        missed = 2.0 * float((np.abs(dual) * np.abs(outputs - data.Y)).sum())
        margin = MARGIN * (norm + abs(certificate.lower_bound)) + rounding * terms + missed
        found.append(Fact("‖W‖² ≥ lower bound", norm, certificate.lower_bound, margin))
    return found
