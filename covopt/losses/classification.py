"""Losses for classification: logistic, hinge, squared hinge and softmax cross-entropy; encoding of labels as targets.

Two classes are encoded as ±1, several as one-hot rows.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, softmax, xlogy

from covopt.checks import listed
from covopt.data.tabular import RowNames
from covopt.errors import InputError
from covopt.exact.rounding import TINY
from covopt.losses.base import Loss, PiecewiseQuadratic

INFINITE = (np.inf, -np.inf)


def codes_of(scores: np.ndarray) -> np.ndarray:
    """Return the class of each row of scores, or of encoded targets, numbered from 0.

    Examples
    --------
    >>> codes_of(np.array([-1.0, 1.0])).tolist(), codes_of(np.eye(3)).tolist()
    ([0, 1], [0, 1, 2])
    """
    scores = scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores
    found: np.ndarray = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    return found


def _as_labels(Y: Any) -> tuple[np.ndarray, list[Any]]:
    """Return the labels as given, a vector or a matrix of one-hot rows, and their distinct values."""
    labels = np.asarray(Y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim not in (1, 2) or not len(labels):
        raise InputError(f"Y must hold one label for each sample; received shape {labels.shape}.")
    if labels.ndim == 2:
        return labels, []
    given = labels.tolist()
    lacking = next((i for i, v in enumerate(given) if v is None or v != v or v in INFINITE), None)  # noqa: PLR0124
    if lacking is not None:
        where = RowNames.of(Y).all(lacking)
        raise InputError(f"Y {where} is missing or is not finite; every sample needs a label.")
    if len({isinstance(label, str) for label in given}) > 1:
        raise InputError("Y mixes strings with other labels; use one kind.")
    return labels, np.unique(labels).tolist()


def _shown(values: list[Any]) -> str:
    return listed([repr(value) for value in values])


def encode_binary(
    loss: str, Y: Any, known: tuple[Any, ...] | None = None
) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Return ±1 of shape (N, 1) and the labels of −1 and +1.

    Parameters
    ----------
    loss : str
        Used in messages.
    Y : array_like of shape (N,) or (N, 1)
        −1 and 1, 0 and 1, booleans, or two strings (in alphabetical order).
    known : tuple, optional
        Labels of −1 and 1 that were found before.

    Raises
    ------
    InputError
        For anything else.

    Examples
    --------
    >>> encode_binary("logistic", [True, False])[0].ravel().tolist()
    [1.0, -1.0]
    """
    labels, found = _as_labels(Y)
    if labels.ndim == 2:
        raise InputError(
            f"loss={loss!r} takes one label for each sample, but Y has shape {labels.shape}; "
            'for several classes use loss="softmax-cross-entropy".'
        )
    pairs: list[tuple[Any, Any]] = [(-1, 1), (False, True) if labels.dtype.kind == "b" else (0, 1)]
    if isinstance(found[0], str):
        pairs = [(found[0], found[1])] if len(found) == 2 else []
    for pair in pairs:
        if set(found) <= set(pair):
            signs = np.where(labels == pair[1], 1.0, -1.0)[:, None]
            return signs, known or pair if pair == (-1, 1) else pair
    hint = ' (for more than two classes use loss="softmax-cross-entropy")' if len(found) > 2 else ""
    raise InputError(
        f"loss={loss!r} needs labels of two classes, -1 and 1, 0 and 1, booleans or two strings; "
        f"Y holds {_shown(found)}{hint}."
    )


def encode_classes(
    loss: str, Y: Any, known: tuple[Any, ...] | None = None
) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Return one-hot rows (N, k) and the labels of the columns, sorted.

    Parameters
    ----------
    loss : str
        Used in messages.
    Y : array_like of shape (N,) or (N, k)
        Integers, booleans or strings; or rows with a single one and zeros.
    known : tuple, optional
        Labels that were found before.

    Raises
    ------
    InputError
        For fractions, rows that are not one-hot, and a single class.

    Examples
    --------
    >>> encode_classes("softmax-cross-entropy", [3, 5, 3])
    (array([[1., 0.], [0., 1.], [1., 0.]]), (3, 5))
    """
    labels, found = _as_labels(Y)
    if labels.ndim == 2:
        ones = labels == 1
        wrong = (~ones & (labels != 0)).any(axis=1) | (ones.sum(axis=1) != 1)
        if wrong.any():
            raise InputError(
                f"loss={loss!r}: Y {RowNames.of(Y).all(int(np.argmax(wrong)))} is not one-hot: "
                "give a single 1 in each row, or one column of labels."
            )
        return ones.astype(float), known or tuple(range(ones.shape[1]))
    if labels.dtype.kind in "fc" and (labels != np.round(labels)).any():
        row = int(np.argmax(labels != np.round(labels)))
        raise InputError(
            f"loss={loss!r} needs classes, but Y {RowNames.of(Y).all(row)} is {labels[row]:g}; "
            'use integers or strings, or loss="squared" for numbers.'
        )
    if labels.dtype.kind == "f":
        labels, found = labels.astype(int), [int(value) for value in found]
    kinds = known if known is not None and set(found) <= set(known) else tuple(found)
    if len(kinds) < 2:
        raise InputError(f"loss={loss!r} needs at least two classes; every label in Y is {_shown(found)}.")
    return np.column_stack([labels == kind for kind in kinds]).astype(float), kinds


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
        """See the base class; a parabola of this width replaces the corner, below a margin of one."""
        rounded = copy.copy(self)
        rounded.bend = width
        return rounded

    def constant(self, price, outputs=None):
        """See the base class; the minimum is between the kinks at −1 and 1, where the loss is linear."""
        pull = float((self.weights * self.targets).sum())
        return np.clip(np.array([pull / price if price > 0 else np.copysign(np.inf, pull)]), -1.0, 1.0)

    def gradient_at_constant(self, B, price):
        """See the base class; at a kink all samples of its class get equal shares of the required subgradient."""
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
