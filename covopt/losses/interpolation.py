"""Interpolation as a loss: nothing at the targets, infinite elsewhere."""

from __future__ import annotations

import numpy as np

from covopt.losses.base import Loss, as_columns

FLAT = 1e-12  # of the largest number: multipliers that differ by no more are equal
INTERPOLATES = 1e-9  # of max|y|: a network that misses the points by no more counts as one through them


class Interpolation(Loss):
    """C(F) = 0 where F = Y, to 1e-9 of max|Y|, and ∞ elsewhere; C*(U) = ⟨U, Y⟩ for every U.

    It is no choice for ``covopt.fit``: no λ weighs it, and ``covopt.min_norm`` is the question.

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
        """Bind it to numbers that were checked, of shape (N,) or (N, k); N may be 0."""
        loss = cls()
        loss.targets = as_columns(targets)
        loss.weights = np.full((len(targets), 1), 1.0 / max(len(targets), 1))
        return loss

    def value(self, F):
        return 0.0 if self.residual(F) <= INTERPOLATES else np.inf

    def residual(self, F: np.ndarray) -> float:
        """max|F − Y| / max|Y|."""
        return relative_residual(as_columns(F), self.targets)

    def conjugate_terms(self, U):
        terms = U * self.targets
        return float(np.vdot(U, self.targets)), float(np.abs(terms).sum())

    def conjugate_gradient(self, U):
        return self.targets

    def conjugate_hessian(self, U):
        return np.zeros((len(U), 1))

    def room(self, U):
        """See the base class: rows of zeros stay, unless the others are equal numbers."""
        some = U.any(axis=1, keepdims=True)
        apart = np.abs(U - U.mean(axis=0, where=some)).max(initial=0.0, where=some) if some.any() else 0.0
        is_flat = apart <= FLAT * np.abs(U).max(initial=0.0)
        return np.broadcast_to(np.where(is_flat, 1.0, some), U.shape)


def relative_residual(F: np.ndarray, Y: np.ndarray) -> float:
    """max|F − Y| / max|Y|, absolute when all targets vanish.

    Examples
    --------
    >>> relative_residual(np.array([1.0, 4.0]), np.array([2.0, 4.0])), relative_residual(np.ones(2), np.zeros(2))
    (0.25, 1.0)
    """
    scale = float(np.abs(Y).max()) or 1.0
    return float(np.abs(F - Y).max()) / scale
