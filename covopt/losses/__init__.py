r"""Losses of regularised training: value, gradient, convex conjugate and its domain.

A loss is C(F) = Σ_i s_i ℓ(f_i, y_i), the weighted MEAN over the samples: s_i = sample_weight_i / Σ sample_weight.
``encode_targets`` binds a loss to its targets and weights; then F and U are arrays of shape (N, k), or (N,).

=====================  ======================================  ==================================================
name                   ℓ(f, y)                                 C*(U), its domain
=====================  ======================================  ==================================================
squared                ‖f − y‖² (no ½)                         Σ u·y + ‖u‖²/(4s)
huber                  ½r² up to |r| = δ, then δ(|r| − δ/2)    Σ uy + u²/(2s), |u| ≤ sδ (every output by itself)
logistic               log(1 + exp(−yf)), y = ±1               Σ s(p log p + (1−p) log(1−p)), p = −uy/s in [0, 1]
hinge                  max(0, 1 − yf)                          Σ uy, 0 ≤ −uy ≤ s
squared-hinge          max(0, 1 − yf)²                         Σ uy + u²/(4s), uy ≤ 0
softmax-cross-entropy  log Σ_c exp f_c − f_y                   Σ s Σ_c q_c log q_c, q = e_y + u/s in the simplex
=====================  ======================================  ==================================================

Interpolation is the loss that is 0 at the targets and ∞ elsewhere, with C*(U) = ⟨U, Y⟩: :class:`Interpolation`.

The conjugates are those of Boyd and Vandenberghe, Convex Optimization, §3.3. Losses for numbers are defined here,
losses for classes in :mod:`covopt.losses.classification`.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from covopt.checks.validation import check_choice, check_positive
from covopt.errors import InputError
from covopt.exact.rank import COMPUTED, FOUND
from covopt.losses.base import Loss, PiecewiseQuadratic, as_columns
from covopt.losses.classification import Hinge, Logistic, SoftmaxCrossEntropy, SquaredHinge

__all__ = [
    "LOSSES", "Hinge", "Huber", "Interpolation", "Logistic", "Loss", "SoftmaxCrossEntropy", "SquaredError",
    "SquaredHinge", "loss_from_dict", "make_loss",
]  # fmt: skip

INTERPOLATES = FOUND  # largest error, relative to max|y|, of a network that counts as interpolating


class Interpolation(PiecewiseQuadratic):
    """C(F) = 0 where F = Y, to 1e-9 of max|Y|, and ∞ elsewhere; C*(U) = ⟨U, Y⟩ for every U.

    It cannot be used in ``covopt.fit``, since no λ weighs it: use ``covopt.min_norm`` instead.

    Examples
    --------
    >>> loss = Interpolation()
    >>> _ = loss.encode_targets([1.0, 2.0])
    >>> loss.value([1.0, 2.0]), loss.value([1.0, 2.1]), loss.conjugate([3.0, -1.0])
    (0.0, inf, 1.0)
    """

    name = "interpolation"
    interpolates = True

    @classmethod
    def of(cls, targets: np.ndarray) -> Interpolation:
        """Return the loss bound to validated targets of shape (N,) or (N, k); N may be 0."""
        loss = cls()
        loss.targets = as_columns(targets)
        loss.weights = np.full((len(targets), 1), 1.0 / max(len(targets), 1))
        return loss

    def value(self, F):
        return 0.0 if self.residual(F) <= INTERPOLATES else np.inf

    def residual(self, F: np.ndarray) -> float:
        """Return max|F − Y| / max|Y|."""
        return relative_residual(as_columns(F), self.targets)

    def room(self, U):
        """See the base class: rows of zeros stay zero, unless all other rows are equal."""
        some = U.any(axis=1, keepdims=True)
        apart = np.abs(U - U.mean(axis=0, where=some)).max(initial=0.0, where=some) if some.any() else 0.0
        is_flat = apart <= COMPUTED * np.abs(U).max(initial=0.0)
        return np.broadcast_to(np.where(is_flat, 1.0, some), U.shape)


def relative_residual(F: np.ndarray, Y: np.ndarray) -> float:
    """Return max|F − Y| / max|Y|, or the absolute error when all targets vanish.

    Examples
    --------
    >>> relative_residual(np.array([1.0, 4.0]), np.array([2.0, 4.0])), relative_residual(np.ones(2), np.zeros(2))
    (0.25, 1.0)
    """
    scale = float(np.abs(Y).max()) or 1.0
    return float(np.abs(F - Y).max()) / scale


class SquaredError(PiecewiseQuadratic):
    """‖f − y‖², any number of outputs.

    Parameters
    ----------
    total : bool
        Sum over the samples instead of averaging: the weights sum to N.

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
    bend = 0.5
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


class Huber(PiecewiseQuadratic):
    """½r² up to |r| = δ, then δ(|r| − δ/2), separately for every output.

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
    bend = 1.0

    def __init__(self, delta: float = 1.0):
        self.delta = check_positive("delta", delta)

    def parameters(self):
        return {**super().parameters(), "delta": self.delta}

    def __repr__(self) -> str:
        return f"Huber(delta={self.delta:g})"

    def constant(self, price, outputs=None):
        """See the base class; the derivative is piecewise linear: Newton's method fails where all are in a tail."""
        return np.array([self._root(price, column) for column in range(self.targets.shape[1])])

    def _root(self, price: float, column: int) -> float:
        """Return the exact root of the nondecreasing derivative of one output, by bisection over its knots."""
        targets, delta = self.targets[:, column], self.delta
        weights = np.broadcast_to(self.weights, self.targets.shape)[:, column]
        knots = np.unique(np.concatenate([targets - delta, targets + delta]))

        def slope(point: float) -> float:
            return float(weights @ np.clip(point - targets, -delta, delta)) + price * point

        low, high = 0, len(knots) - 1
        for end, beyond in ((low, 1.0), (high, -1.0)):
            rest = slope(knots[end])
            if rest * beyond >= 0.0:  # the root is in the tail, where only the price term grows
                return float(knots[end] - rest / price) if price > 0 else float(knots[end])
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if slope(knots[middle]) < 0.0 else (low, middle)
        left, right = slope(knots[low]), slope(knots[high])
        return float(knots[low] - left * (knots[high] - knots[low]) / (right - left))

    def slopes(self):
        edge = np.broadcast_to(self.delta, self.targets.shape)
        return -edge, edge


LOSSES: dict[str, type[Loss]] = {
    kind.name: kind for kind in (SquaredError, Logistic, SoftmaxCrossEntropy, Huber, Hinge, SquaredHinge)
}


def make_loss(loss: str | Loss) -> Loss:
    """Return a new loss that is not bound to targets yet.

    Parameters
    ----------
    loss : str or Loss
        A name of :data:`LOSSES`, or an object such as ``Huber(delta=0.5)``, which is copied.

    Raises
    ------
    InputError
        For an unknown name.

    Examples
    --------
    >>> make_loss("huber")
    Huber(delta=1)
    """
    if isinstance(loss, Loss):
        fresh = copy.copy(loss)
        for name in ("targets", "weights", "classes", "column", "floor"):
            fresh.__dict__.pop(name, None)
        return fresh
    check_choice("loss", loss, tuple(LOSSES))
    return LOSSES[loss]()


def loss_from_dict(content: dict[str, Any]) -> Loss:
    """Return the loss described by :meth:`Loss.parameters`.

    Examples
    --------
    >>> loss_from_dict({"name": "huber", "delta": 0.5})
    Huber(delta=0.5)
    """
    options = {name: value for name, value in content.items() if name not in ("name", "classes", "column")}
    found = LOSSES[content["name"]](**options)
    if content.get("classes") is not None:
        found.classes = tuple(content["classes"])
    found.column = content.get("column")
    return found
