"""Losses for classes: logistic, hinge, squared hinge and softmax with cross-entropy."""

from __future__ import annotations

import copy

import numpy as np
from scipy.special import expit, log_softmax, softmax, xlogy

from covopt.data.labels import encode_binary, encode_classes
from covopt.losses.base import TINY, Loss, PiecewiseQuadratic


class _Binary(Loss):
    is_classification = True
    steepest = 1.0

    def slopes(self):
        edge = -self.targets * self.steepest
        return np.minimum(edge, 0.0), np.maximum(edge, 0.0)

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
    is_strictly_convex = is_steep = True

    def samples(self, F):
        return np.logaddexp(0.0, -self.margins(F)).sum(axis=1)

    def _slope(self, F):
        return -self.targets * expit(-self.margins(F))

    def hessian(self, F):
        margin = self.margins(F)
        return self.weights * expit(margin) * expit(-margin)

    def _chance(self, U):
        return -self.targets * U / self.weights

    def probabilities(self, F):
        F = np.ravel(F)
        return np.column_stack([expit(-F), expit(F)])

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


class Hinge(PiecewiseQuadratic, _Binary):
    """max(0, 1 − yf) for two classes, y = ±1.

    Examples
    --------
    >>> loss = Hinge()
    >>> _ = loss.encode_targets([0, 1])
    >>> loss.value([0.0, 2.0])
    0.5
    """

    name = "hinge"

    def smoothed(self, width):
        """See the base class; a parabola of this width takes the place of the corner, below a margin of one."""
        rounded = copy.copy(self)
        rounded.bend = width
        return rounded

    def constant(self, price, outputs=None):
        """See the base class; between the kinks at −1 and 1, where the minimum is, the loss is linear."""
        pull = float((self.weights * self.targets).sum())
        return np.clip(np.array([pull / price if price > 0 else np.copysign(np.inf, pull)]), -1.0, 1.0)

    def gradient_at_constant(self, B, price):
        """See the base class; at a kink all samples of that class get equal shares of what optimality asks for."""
        if abs(B[0]) < 1.0:
            return super().gradient_at_constant(B, price)
        own = self.targets * B[0] > 0
        mine, others = float(self.weights[own].sum()), float(self.weights[~own].sum())
        return -self.targets * self.weights * np.where(own, (others + price) / mine, 1.0)


class SquaredHinge(PiecewiseQuadratic, _Binary):
    """max(0, 1 − yf)² for two classes, y = ±1.

    Examples
    --------
    >>> loss = SquaredHinge()
    >>> _ = loss.encode_targets([False, True])
    >>> loss.value([1.0, 1.0])
    2.0
    """

    name = "squared-hinge"
    bend = 0.5
    steepest = np.inf


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
    is_strictly_convex = is_classification = is_steep = is_level = True

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

    def probabilities(self, F):
        return softmax(F, axis=1)

    def contains(self, U):
        q = self._chances(U)
        return bool((q >= 0).all() and (np.abs(q.sum(axis=1) - 1.0) <= 1e-12).all())

    def slopes(self):
        return -self.targets, np.broadcast_to(np.inf, self.targets.shape)

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

    def project(self, U):
        q = np.maximum(self._chances(U), 0.0)
        total = q.sum(axis=1, keepdims=True)
        q = np.where(total > 0, q / np.maximum(total, TINY), self.targets)
        return self.weights * (q - self.targets)
