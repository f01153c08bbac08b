"""What a proof is about: a table, the question asked about it, and the digest that ties a proof to them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise ‖W‖² through the points, or C(f) + lam ‖W‖² with a loss.

    Attributes
    ----------
    X, Y : ndarray of shape (N, d), (N, k)
        Y is ±1 for a loss of two classes.
    bias : float
    output_bias : {"none", "penalized", "free"}
    loss : str or None
        A name of :mod:`covopt.losses`; None for interpolation.
    lam, delta : float
        Strength, and the parameter of the huber loss.
    sample_weight : ndarray of shape (N,) or None
        C is the mean with these weights.
    """

    X: np.ndarray
    Y: np.ndarray
    bias: float
    output_bias: str = "none"
    loss: str | None = None
    lam: float = 0.0
    delta: float = 1.0
    sample_weight: np.ndarray | None = None

    def digest(self, dual: np.ndarray) -> str:
        """Return a SHA-256 of the table, what is asked about it, and a dual point.

        Examples
        --------
        >>> line = Problem(np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]]), 1.0)
        >>> line.digest(np.array([-1.0, 1.0])) == line.digest(np.array([-1.0, 1.0]))
        True
        """
        digest = hashlib.sha256()
        asked = (float(self.bias), self.output_bias, self.loss, float(self.lam), float(self.delta))
        digest.update(repr(asked).encode())
        for array in (self.X, self.Y, dual, self.sample_weight):
            if array is not None:
                numbers = np.ascontiguousarray(array, dtype="<f8") + 0.0
                digest.update(repr(numbers.shape).encode() + numbers.tobytes())
        return digest.hexdigest()
