"""The network: norm, residual and loss exactly, and what it costs at most to repair the residual."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from covopt.proofs.checker.arithmetic import ZERO, Problem, dot, fractions, norm_above, on_grid, sqrt_above
from covopt.proofs.checker.dual import lift, loss_of


class CheckedNetwork(NamedTuple):
    """‖W‖² with a penalised output bias; max |f(x_i) − y_i|; C(f) from above; ‖W‖² of some repair, or None.

    Neurons of squared norm ``repair`` make f pass through (X, Y) exactly; None when that is not bounded.
    """

    cost: Fraction
    residual: Fraction
    loss: Fraction | None
    repair: Fraction | None


def check_network(
    problem: Problem, hidden_weights: np.ndarray, output_weights: np.ndarray, output_bias: np.ndarray
) -> CheckedNetwork:
    """Evaluate f(x) = Σ_j max(w_j·(x, β), 0) v_j + β b on all rows in integers; the rows of arrays are w_j, v_j."""
    (rows,), first = on_grid(lift(problem))
    (hidden,), second = on_grid(hidden_weights)
    (output,), third = on_grid(output_weights)
    heights = np.maximum(rows.dot(hidden.T), 0) if len(hidden) else np.zeros((len(rows), 0), dtype=object)
    values = heights.dot(output) if len(hidden) else np.zeros(problem.Y.shape, dtype=object)
    unit, shift = first * second * third, fractions(output_bias)
    outputs = [
        [v * unit + Fraction(problem.bias) * b for v, b in zip(row, shift, strict=True)]
        for row in values.tolist()
    ]
    pairs = zip(outputs, fractions(problem.Y), strict=True)
    residual = [[f - y for f, y in zip(row, goal, strict=True)] for row, goal in pairs]
    cost = (hidden**2).sum() * second**2 + (output**2).sum() * third**2
    if problem.output_bias == "penalized":
        cost += dot(shift, shift)
    worst = max(abs(value) for row in residual for value in row)
    if problem.loss is not None:
        return CheckedNetwork(cost, worst, loss_of(problem, outputs), None)
    return CheckedNetwork(cost, worst, None, repair_above(problem, residual))


def repair_above(problem: Problem, residual: Sequence[Sequence[Fraction]]) -> Fraction | None:
    """Bound ‖W‖² of some network through (X, residual) without output bias; None where it is not bounded.

    Along a direction e with different places p_i = e·x_i the piecewise linear function through the residuals is
    Σ_k c_k max(e·x − p_k, 0): neurons (e, −p_k/β), output weights c_k, balanced cost 2 Σ ‖c_k‖ sqrt(|e|² + p_k²/β²).
    Of a few directions the one that separates the points best is taken.
    """
    if not any(value for row in residual for value in row):
        return ZERO
    points: dict[tuple[Fraction, ...], Sequence[Fraction]] = {}
    for x, r in zip(fractions(problem.X), residual, strict=True):
        if points.setdefault(tuple(x), r) != r:
            return None
    width = problem.X.shape[1]
    tried = np.vstack([np.eye(width, dtype=int), np.random.default_rng(0).integers(-9999, 9999, (64, width))])
    places = np.sort(np.array([[float(v) for v in x] for x in points]) @ tried.T, axis=0)
    nearest = np.diff(places, axis=0).min(axis=0, initial=np.inf) / np.linalg.norm(tried, axis=1)
    direction = tried[nearest.argmax()].tolist()
    placed = sorted((dot(direction, x), list(r)) for x, r in points.items())
    if problem.bias <= 0 or len({place for place, _ in placed}) < len(placed):
        return None
    none = [ZERO] * len(placed[0][1])
    start = 2 * placed[0][0] - placed[-1][0] - (len(placed) == 1)
    cost, slope, square = ZERO, none, Fraction(dot(direction, direction))
    for (left, low), (right, high) in zip([(start, none), *placed[:-1]], placed, strict=True):
        steeper = [(b - a) / (right - left) for a, b in zip(low, high, strict=True)]
        kink = norm_above(b - a for a, b in zip(slope, steeper, strict=True))
        cost += 2 * kink * sqrt_above(square + (left / Fraction(problem.bias)) ** 2)
        slope = steeper
    return cost
