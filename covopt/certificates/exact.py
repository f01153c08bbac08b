"""Primal and dual values in rational arithmetic: floats are rationals, so nothing is rounded.

The one number that stays a float is the oracle's upper bound on h(λ), which carries its own rounding allowance.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from covopt.data import Data
from covopt.network import ReLUNetwork


@dataclass(frozen=True)
class ExactValues:
    """Attributes are exact.

    Attributes
    ----------
    residual : Fraction
        max_i |f(x_i) − y_i| / max_i |y_i| (absolute when all targets vanish).
    cost : Fraction
        ‖W‖² (a free output bias not counted).
    lower_bound : Fraction
        max over 0 ≤ t ≤ 1/gauge of 2t⟨λ, y⟩ − t²β²(1ᵀλ)² (the last term with a penalised output bias only).
    dual_sum : Fraction
        1ᵀλ.
    """

    residual: Fraction
    cost: Fraction
    lower_bound: Fraction
    dual_sum: Fraction


def exact_values(
    data: Data, network: ReLUNetwork, dual: np.ndarray, *, output_bias: str, gauge: float
) -> ExactValues:
    """Recompute residual, cost and lower bound without rounding.

    Parameters
    ----------
    data : Data
        With one output.
    network : ReLUNetwork
    dual : ndarray of shape (N,)
        λ in the user's units.
    output_bias : {"none", "penalized", "free"}
    gauge : float
        An upper bound on h(λ).

    Examples
    --------
    >>> data = Data.validate([[0.0], [1.0]], [0.0, 1.0])
    >>> network = ReLUNetwork.from_neurons(np.array([[1.0, 0.0]]), np.array([1.0]), bias=1.0)
    >>> values = exact_values(data, network, np.array([-1.0, 1.0]), output_bias="none", gauge=1.0)
    >>> values.residual, values.cost, values.lower_bound
    (Fraction(0, 1), Fraction(2, 1), Fraction(2, 1))
    """
    rows = [[Fraction(x) for x in row] for row in data.lifted.tolist()]
    targets = [Fraction(y) for y in data.Y[:, 0].tolist()]
    hidden = [[Fraction(w) for w in row] for row in network.hidden_weights.tolist()]
    output = [Fraction(v) for v in network.output_weights[:, 0].tolist()]
    shift = Fraction(network.bias) * Fraction(float(network.output_bias[0]))
    worst = Fraction(0)
    for row, target in zip(rows, targets, strict=True):
        value = shift
        for neuron, weight in zip(hidden, output, strict=True):
            height = sum((w * x for w, x in zip(neuron, row, strict=True)), Fraction(0))
            if height > 0:
                value += weight * height
        worst = max(worst, abs(value - target))
    size = max((abs(y) for y in targets), default=Fraction(0)) or Fraction(1)
    cost = sum((w * w for row in hidden for w in row), Fraction(0)) + sum(
        (v * v for v in output), Fraction(0)
    )
    if output_bias == "penalized":
        cost += Fraction(float(network.output_bias[0])) ** 2
    multipliers = [Fraction(m) for m in dual.tolist()]
    linear = sum((m * y for m, y in zip(multipliers, targets, strict=True)), Fraction(0))
    total = sum(multipliers, Fraction(0))
    return ExactValues(
        worst / size, cost, _best_multiple(linear, total, data.bias, output_bias, gauge), total
    )


def _best_multiple(
    linear: Fraction, total: Fraction, bias: float, output_bias: str, gauge: float
) -> Fraction:
    if linear <= 0 or gauge <= 0:
        return Fraction(0)
    step = 1 / Fraction(gauge)
    curvature = (Fraction(bias) * total) ** 2 if output_bias == "penalized" else Fraction(0)
    if curvature > 0:
        step = min(step, linear / curvature)
    return 2 * step * linear - step**2 * curvature
