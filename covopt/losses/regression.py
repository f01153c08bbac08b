"""Losses for numbers: the squared error and Huber's."""

from __future__ import annotations

import numpy as np

from covopt.checks.validation import check_positive
from covopt.errors import InputError
from covopt.losses.base import Loss, QuadraticConjugate


class SquaredError(QuadraticConjugate, Loss):
    """‖f − y‖², any number of outputs.

    Parameters
    ----------
    total : bool
        Add the samples up instead of taking their mean: the weights sum to N.

    Examples
    --------
    >>> loss = SquaredError()
    >>> _ = loss.encode_targets([1.0, 3.0])
    >>> loss.value([0.0, 1.0]), loss.gradient([0.0, 1.0])
    (2.5, array([-1., -2.]))
    >>> loss = SquaredError(total=True)
    >>> _ = loss.encode_targets([1.0, 3.0])
    >>> loss.value([0.0, 1.0])
    5.0
    """

    name = "squared"
    is_strictly_convex = is_quadratic = True

    def __init__(self, total: bool = False):
        if not isinstance(total, bool):
            raise InputError(f"total must be True or False; received {total!r:.60}")
        self.total = total

    def parameters(self):
        return {**super().parameters(), **({"total": True} if self.total else {})}

    def __repr__(self) -> str:
        return f"SquaredError({'total=True' if self.total else ''})"

    @property
    def title(self) -> str:
        return "squared, summed over the samples" if self.total else self.name

    def encode_targets(self, Y, sample_weight=None):
        targets = super().encode_targets(Y, sample_weight)
        if self.total:
            self.weights = (
                np.ones_like(self.weights) if sample_weight is None else len(targets) * self.weights
            )
        return targets

    def samples(self, F):
        return ((F - self.targets) ** 2).sum(axis=1)

    def _slope(self, F):
        return 2.0 * (F - self.targets)

    def hessian(self, F):
        return 2.0 * self.weights


class Huber(QuadraticConjugate, Loss):
    """½r² up to |r| = δ, then δ(|r| − δ/2), of every output by itself.

    Parameters
    ----------
    delta : float
        Where the parabola meets the lines.

    Examples
    --------
    >>> loss = Huber(delta=1.0)
    >>> _ = loss.encode_targets([0.0, 0.0])
    >>> loss.value([1.0, 3.0])
    1.5
    """

    name = "huber"
    quadratic = 0.5

    def __init__(self, delta: float = 1.0):
        self.delta = check_positive("delta", delta)

    def parameters(self):
        return {**super().parameters(), "delta": self.delta}

    def __repr__(self) -> str:
        return f"Huber(delta={self.delta:g})"

    def samples(self, F):
        size = np.abs(F - self.targets)
        return np.where(size <= self.delta, 0.5 * size**2, self.delta * (size - 0.5 * self.delta)).sum(axis=1)

    def _slope(self, F):
        return np.clip(F - self.targets, -self.delta, self.delta)

    def hessian(self, F):
        return self.weights * (np.abs(F - self.targets) <= self.delta)

    def constant(self, price, outputs=None):
        """See the base class; the derivative is piecewise linear, and Newton would stop where all are in a tail."""
        return np.array([self._root(price, column) for column in range(self.targets.shape[1])])

    def _root(self, price: float, column: int) -> float:
        """Root of the nondecreasing derivative of one output: a bisection over its knots, exact."""
        targets, delta = self.targets[:, column], self.delta
        weights = np.broadcast_to(self.weights, self.targets.shape)[:, column]
        knots = np.unique(np.concatenate([targets - delta, targets + delta]))

        def slope(point: float) -> float:
            return float(weights @ np.clip(point - targets, -delta, delta)) + price * point

        low, high = 0, len(knots) - 1
        for end, beyond in ((low, 1.0), (high, -1.0)):
            rest = slope(knots[end])
            if rest * beyond >= 0.0:  # the root is in the tail, where only the price of the offset grows
                return float(knots[end] - rest / price) if price > 0 else float(knots[end])
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if slope(knots[middle]) < 0.0 else (low, middle)
        left, right = slope(knots[low]), slope(knots[high])
        return float(knots[low] - left * (knots[high] - knots[low]) / (right - left))

    def box(self):
        edge = np.broadcast_to(self.weights * self.delta, self.targets.shape)
        return -edge, edge
