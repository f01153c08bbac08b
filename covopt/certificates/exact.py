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
        max over 0 ≤ t ≤ 1/gauge of 2t⟨Λ, Y⟩ − t²β²‖Λᵀ1‖² (the last term with a penalised output bias only).
    dual_sum : Fraction
        Largest entry of |Λᵀ1|.
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
    network : ReLUNetwork
    dual : ndarray of shape (N,) or (N, k)
        Λ in the user's units.
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
    rows = _fractions(data.lifted)
    targets = _fractions(data.Y)
    hidden = _fractions(network.hidden_weights)
    output = _fractions(network.output_weights)
    shift = [Fraction(network.bias) * b for b in _fractions(network.output_bias[None, :])[0]]
    worst = Fraction(0)
    for row, target in zip(rows, targets, strict=True):
        values = list(shift)
        for neuron, weights in zip(hidden, output, strict=True):
            height = sum((w * x for w, x in zip(neuron, row, strict=True)), Fraction(0))
            if height > 0:
                values = [value + weight * height for value, weight in zip(values, weights, strict=True)]
        worst = max(worst, *(abs(value - goal) for value, goal in zip(values, target, strict=True)))
    size = max((abs(y) for row in targets for y in row), default=Fraction(0)) or Fraction(1)
    cost = sum((w * w for row in hidden + output for w in row), Fraction(0))
    if output_bias == "penalized":
        cost += sum((Fraction(float(b)) ** 2 for b in network.output_bias), Fraction(0))
    multipliers = _fractions(dual.reshape(len(dual), -1))
    linear = sum(
        (
            m * y
            for row, goal in zip(multipliers, targets, strict=True)
            for m, y in zip(row, goal, strict=True)
        ),
        Fraction(0),
    )
    totals = [sum(column, Fraction(0)) for column in zip(*multipliers, strict=True)]
    square = sum((total * total for total in totals), Fraction(0))
    return ExactValues(
        worst / size,
        cost,
        _best_multiple(linear, square, data.bias, output_bias, gauge),
        max((abs(total) for total in totals), default=Fraction(0)),
    )


def _fractions(array: np.ndarray) -> list[list[Fraction]]:
    return [[Fraction(entry) for entry in row] for row in array.tolist()]


def _best_multiple(
    linear: Fraction, square: Fraction, bias: float, output_bias: str, gauge: float
) -> Fraction:
    if linear <= 0 or gauge <= 0:
        return Fraction(0)
    step = 1 / Fraction(gauge)
    curvature = Fraction(bias) ** 2 * square if output_bias == "penalized" else Fraction(0)
    if curvature > 0:
        step = min(step, linear / curvature)
    return 2 * step * linear - step**2 * curvature
