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

The conjugates are those of Boyd and Vandenberghe, Convex Optimization, §3.3.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, softmax, xlogy

from covopt.labels import encode_binary, encode_classes
from covopt.loss_base import TINY, Loss
from covopt.validation import check_choice, check_positive


class SquaredError(Loss):
    """‖f − y‖², any number of outputs.

    Examples
    --------
    >>> loss = SquaredError()
    >>> _ = loss.encode_targets([1.0, 3.0])
    >>> loss.value([0.0, 1.0]), loss.gradient([0.0, 1.0])
    (2.5, array([-1., -2.]))
    """

    name = "squared"
    is_strictly_convex = True

    def samples(self, F):
        return ((F - self.targets) ** 2).sum(axis=1)

    def _slope(self, F):
        return 2.0 * (F - self.targets)

    def hessian(self, F):
        return 2.0 * self.weights

    def conjugate_terms(self, U):
        linear, square = U * self.targets, U**2 / (4.0 * self.weights)
        return float(linear.sum() + square.sum()), float(np.abs(linear).sum() + square.sum())

    def conjugate_gradient(self, U):
        return self.targets + U / (2.0 * self.weights)

    def conjugate_hessian(self, U):
        return 0.5 / self.weights


class Huber(Loss):
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

    def contains(self, U):
        return bool((np.abs(U) <= self.weights * self.delta).all())

    def conjugate_terms(self, U):
        linear, square = U * self.targets, U**2 / (2.0 * self.weights)
        return float(linear.sum() + square.sum()), float(np.abs(linear).sum() + square.sum())

    def conjugate_gradient(self, U):
        return self.targets + U / self.weights

    def conjugate_hessian(self, U):
        return 1.0 / self.weights

    def box(self):
        edge = np.broadcast_to(self.weights * self.delta, self.targets.shape)
        return -edge, edge


class _Binary(Loss):
    is_classification = True

    def _encode(self, Y):
        targets, self.classes = encode_binary(self.name, Y, self.classes)
        return targets

    def margins(self, F: np.ndarray) -> np.ndarray:
        """Return y f, shape (N, 1)."""
        return self.targets * F


class Logistic(_Binary):
    """log(1 + exp(−yf)) for two classes, y = ±1.

    Examples
    --------
    >>> loss = Logistic()
    >>> loss.encode_targets(["no", "yes"]).ravel(), loss.classes
    (array([-1.,  1.]), ('no', 'yes'))
    >>> round(loss.value([0.0, 0.0]), 6)
    0.693147
    """

    name = "logistic"
    is_strictly_convex = True

    def samples(self, F):
        return np.logaddexp(0.0, -self.margins(F)).sum(axis=1)

    def _slope(self, F):
        return -self.targets * expit(-self.margins(F))

    def hessian(self, F):
        margin = self.margins(F)
        return self.weights * expit(margin) * expit(-margin)

    def _chance(self, U):
        return -self.targets * U / self.weights

    def contains(self, U):
        p = self._chance(U)
        return bool(((p >= 0) & (p <= 1)).all())

    def conjugate_terms(self, U):
        p = np.clip(self._chance(U), 0.0, 1.0)
        terms = self.weights * (xlogy(p, p) + (1 - p) * np.log1p(-np.minimum(p, 1 - 1e-16)))
        return float(terms.sum()), float(np.abs(terms).sum() + 1e-16)

    def conjugate_gradient(self, U):
        p = self._chance(U)
        low = np.log(np.maximum(p, self.floor)) + np.minimum(p / self.floor - 1.0, 0.0)
        return self.targets * (np.log1p(-np.minimum(p, 1 - 1e-16)) - low)

    def conjugate_hessian(self, U):
        p = self._chance(U)
        return 1.0 / (self.weights * np.maximum(p, self.floor) * np.maximum(1.0 - p, 1e-16))

    def step_limit(self, U, step):
        p, change = self._chance(U), self._chance(step)
        with np.errstate(divide="ignore", invalid="ignore"):
            falling = (change < 0) & (p > 10.0 * self.floor)
            t = np.where(falling, -p / change, np.where(change > 0, (1.0 - p) / change, np.inf))
        return float(t.min(initial=np.inf))

    def project(self, U):
        return -self.targets * np.clip(self._chance(U), 0.0, 1.0) * self.weights

    def room(self, U):
        p = self._chance(U)
        return self.weights * np.maximum(p * (1.0 - p), 0.0)


class Hinge(_Binary):
    """max(0, 1 − yf) for two classes, y = ±1.

    Examples
    --------
    >>> loss = Hinge()
    >>> _ = loss.encode_targets([0, 1])
    >>> loss.value([0.0, 2.0])
    0.5
    """

    name = "hinge"
    is_smooth = False

    def samples(self, F):
        return np.maximum(1.0 - self.margins(F), 0.0).sum(axis=1)

    def _slope(self, F):
        return np.where(self.margins(F) < 1.0, -self.targets, 0.0)

    def hessian(self, F):
        return np.zeros_like(self.weights)

    def contains(self, U):
        pull = -self.targets * U
        return bool(((pull >= 0) & (pull <= self.weights)).all())

    def conjugate_terms(self, U):
        linear = U * self.targets
        return float(linear.sum()), float(np.abs(linear).sum())

    def conjugate_gradient(self, U):
        return self.targets.copy()

    def conjugate_hessian(self, U):
        return np.zeros_like(self.weights)

    def box(self):
        edge = -self.targets * self.weights
        return np.minimum(edge, 0.0), np.maximum(edge, 0.0)


class SquaredHinge(_Binary):
    """max(0, 1 − yf)² for two classes, y = ±1.

    Examples
    --------
    >>> loss = SquaredHinge()
    >>> _ = loss.encode_targets([False, True])
    >>> loss.value([1.0, 1.0])
    2.0
    """

    name = "squared-hinge"

    def samples(self, F):
        return (np.maximum(1.0 - self.margins(F), 0.0) ** 2).sum(axis=1)

    def _slope(self, F):
        return -2.0 * self.targets * np.maximum(1.0 - self.margins(F), 0.0)

    def hessian(self, F):
        return 2.0 * self.weights * (self.margins(F) < 1.0)

    def contains(self, U):
        return bool((U * self.targets <= 0).all())

    def conjugate_terms(self, U):
        linear, square = U * self.targets, U**2 / (4.0 * self.weights)
        return float(linear.sum() + square.sum()), float(np.abs(linear).sum() + square.sum())

    def conjugate_gradient(self, U):
        return self.targets + U / (2.0 * self.weights)

    def conjugate_hessian(self, U):
        return 0.5 / self.weights

    def box(self):
        edge = np.where(self.targets > 0, -np.inf, np.inf)
        return np.minimum(edge, 0.0), np.maximum(edge, 0.0)


class SoftmaxCrossEntropy(Loss):
    """log Σ_c exp f_c − f_y with one output for each class.

    Examples
    --------
    >>> loss = SoftmaxCrossEntropy()
    >>> loss.encode_targets(["b", "a", "c"]), loss.classes
    (array([[0., 1., 0.], [1., 0., 0.], [0., 0., 1.]]), ('a', 'b', 'c'))
    >>> round(loss.value(np.zeros((3, 3))), 6)
    1.098612
    """

    name = "softmax-cross-entropy"
    is_strictly_convex = True
    is_classification = True

    def _encode(self, Y):
        targets, self.classes = encode_classes(self.name, Y, self.classes)
        return targets

    def samples(self, F):
        return -(log_softmax(F, axis=1) * self.targets).sum(axis=1)

    def _slope(self, F):
        return softmax(F, axis=1) - self.targets

    def hessian(self, F):
        q = softmax(F, axis=1)
        blocks = q[:, :, None] * (np.eye(q.shape[1]) - q[:, None, :])
        return self.weights[:, :, None] * blocks

    def _chances(self, U):
        return self.targets + U / self.weights

    def contains(self, U):
        q = self._chances(U)
        return bool((q >= 0).all() and (np.abs(q.sum(axis=1) - 1.0) <= 1e-12).all())

    def conjugate_terms(self, U):
        q = np.maximum(self._chances(U), 0.0)
        terms = self.weights * xlogy(q, q)
        return float(terms.sum()), float(np.abs(terms).sum() + 1e-16)

    def conjugate_gradient(self, U):
        q = self._chances(U)
        heights = np.log(np.maximum(q, self.floor)) + np.minimum(q / self.floor - 1.0, 0.0)
        return heights - heights.mean(axis=1, keepdims=True)

    def conjugate_hessian(self, U):
        return 1.0 / (self.weights * np.maximum(self._chances(U), self.floor))

    def step_limit(self, U, step):
        q, change = self._chances(U), step / self.weights
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where((change < 0) & (q > 10.0 * self.floor), -q / change, np.inf)
        return float(t.min(initial=np.inf))

    def project(self, U):
        q = np.maximum(self._chances(U), 0.0)
        total = q.sum(axis=1, keepdims=True)
        q = np.where(total > 0, q / np.maximum(total, TINY), self.targets)
        return self.weights * (q - self.targets)

    def room(self, U):
        return self.weights * np.maximum(self._chances(U), 0.0)


LOSSES: dict[str, type[Loss]] = {
    kind.name: kind for kind in (SquaredError, Logistic, SoftmaxCrossEntropy, Huber, Hinge, SquaredHinge)
}


def make_loss(loss: str | Loss) -> Loss:
    """Return a fresh loss, not bound to targets yet.

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
    """Make the loss that :meth:`Loss.parameters` described.

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
