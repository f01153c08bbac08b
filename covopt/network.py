"""Shallow ReLU networks as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from covopt.errors import InputError


@dataclass(frozen=True, eq=False)
class ReLUNetwork:
    r"""The network :math:`f(x) = \sum_j \sigma(w_j\cdot(x, \beta))\, v_j + \beta b`.

    Parameters
    ----------
    hidden_weights : ndarray of shape (m, D)
        Rows w_j; the last entry multiplies β when ``bias`` is positive.
    output_weights : ndarray of shape (m, k)
        Rows v_j.
    bias : float
        β; zero for a network without biases.
    output_bias : ndarray of shape (k,)
        b; zeros when the network has none.
    counts_output_bias : bool
        Whether ‖b‖² belongs to the squared norm (a penalised output bias) or is free.

    Examples
    --------
    >>> net = ReLUNetwork.from_neurons(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([1.0, 1.0]), bias=1.0)
    >>> net.predict([[-2.0], [0.5]])
    array([2. , 0.5])
    >>> net.squared_norm
    4.0
    """

    hidden_weights: np.ndarray
    output_weights: np.ndarray
    bias: float = 1.0
    output_bias: np.ndarray = field(default_factory=lambda: np.zeros(1))
    counts_output_bias: bool = True

    @classmethod
    def from_neurons(
        cls,
        neurons: np.ndarray,
        weights: np.ndarray,
        *,
        bias: float,
        offset: float = 0.0,
        counts_output_bias: bool = True,
    ) -> ReLUNetwork:
        """Balanced network of unit neurons with scalar output weights c_j: ‖w_j‖ = |v_j| = √|c_j|.

        Parameters
        ----------
        neurons : ndarray of shape (m, D)
        weights : ndarray of shape (m,)
        bias : float
        offset : float
            B = β b, added to the output.
        counts_output_bias : bool
        """
        root = np.sqrt(np.abs(weights))
        output_bias = np.array([offset / bias if bias > 0 else 0.0])
        return cls(
            root[:, None] * neurons, (np.sign(weights) * root)[:, None], bias, output_bias, counts_output_bias
        )

    def __len__(self) -> int:
        return len(self.hidden_weights)

    @property
    def n_inputs(self) -> int:
        """Number of inputs d, the bias not counted."""
        return self.hidden_weights.shape[1] - (self.bias > 0)

    @property
    def squared_norm(self) -> float:
        """‖W‖²: every squared entry, the output bias included unless it is free."""
        total = float((self.hidden_weights**2).sum() + (self.output_weights**2).sum())
        return total + float((self.output_bias**2).sum()) if self.counts_output_bias else total

    def lift(self, X: np.ndarray) -> np.ndarray:
        """Return X with its bias column, shape (N, D)."""
        X = np.asarray(X, dtype=float)
        if X.ndim == 1:
            X = X[:, None] if self.n_inputs == 1 else X[None, :]
        if X.ndim != 2 or X.shape[1] != self.n_inputs:
            raise InputError(f"X has shape {X.shape}; this network takes (N, {self.n_inputs})")
        return np.column_stack([X, np.full(len(X), self.bias)]) if self.bias > 0 else X

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the outputs, of shape (N,) for one output and (N, k) for more.

        Parameters
        ----------
        X : array_like of shape (N, d)

        Raises
        ------
        InputError
            When X has another number of columns.
        """
        hidden = np.maximum(self.lift(X) @ self.hidden_weights.T, 0.0)
        outputs = hidden @ self.output_weights + self.bias * self.output_bias
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs
