"""Deep ReLU networks as arrays: outputs, norm, hidden representations, reduction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from covopt.checks.validation import check_positive, check_slope
from covopt.errors import InputError
from covopt.network.base import Layers, Network, check_inputs, in_pieces


@dataclass(frozen=True, eq=False, repr=False)
class DeepReLUNetwork(Network):
    r"""The network :math:`Z_\ell = \sigma_a(Z_{\ell-1}) W_\ell^T + \beta 1 b_\ell^T`, no σ on inputs and outputs.

    Parameters
    ----------
    weights : sequence of ndarray of shape (n_ℓ, n_{ℓ−1})
        W_1 … W_L, as in torch.nn.Linear.
    biases : sequence of (ndarray of shape (n_ℓ,) or None), optional
        b_1 … b_L, the weights of the bias columns; None for a layer without one. No biases by default.
    slope : float
        a in (−1, 1) of σ_a(t) = max(t, 0) + a min(t, 0); 0 is the ReLU.
    bias : float
        β > 0, the factor of the biases.
    counts_output_bias : bool
        Whether ‖b_L‖² belongs to the squared norm.

    Raises
    ------
    InputError
        If the shapes do not fit together or an entry is not finite.

    Examples
    --------
    >>> net = DeepReLUNetwork([np.array([[1.0], [-1.0]]), np.array([[1.0, 1.0]])], [None, np.array([0.5])])
    >>> net.predict([[-2.0], [1.0]])
    array([2.5, 1.5])
    >>> net.widths, net.squared_norm
    ((2,), 4.25)
    """

    weights: Sequence[np.ndarray]
    biases: Sequence[np.ndarray | None] | None = None
    slope: float = 0.0
    bias: float = 1.0
    counts_output_bias: bool = True

    def __post_init__(self) -> None:
        weights = tuple(np.asarray(w, dtype=float) for w in self.weights)
        given = (None,) * len(weights) if self.biases is None else tuple(self.biases)
        if not weights:
            raise InputError("weights is empty; a network needs at least one layer.")
        if len(given) != len(weights):
            raise InputError(
                f"biases has {len(given)} entries for {len(weights)} layers; give one (or None) per layer."
            )
        biases = tuple(None if b is None else np.asarray(b, dtype=float) for b in given)
        for layer, (w, b) in enumerate(zip(weights, biases, strict=True)):
            inputs = len(weights[layer - 1]) if layer else w.shape[-1] if w.ndim else 0
            if w.shape[1:] != (inputs,) or (b is not None and b.shape != w.shape[:1]):
                raise InputError(
                    f"weights[{layer}] has shape {w.shape}, biases[{layer}] {None if b is None else b.shape}; "
                    f"(outputs, {inputs}) and (outputs,) are needed."
                )
            if not np.isfinite(w).all() or (b is not None and not np.isfinite(b).all()):
                raise InputError(f"layer {layer} (counting from 0) has weights that are NaN or infinite.")
        check_slope(self.slope)
        check_positive("bias", self.bias)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "biases", biases)

    def __repr__(self) -> str:
        widths = " → ".join(map(str, (self.n_inputs, *self.widths, self.n_outputs)))
        return f"DeepReLUNetwork({widths}, bias {self.bias:g}, ‖W‖² {self.squared_norm:.8g})"

    @property
    def layers(self) -> tuple[tuple[np.ndarray, np.ndarray | None], ...]:
        """The pairs (W_ℓ, b_ℓ)."""
        return tuple(zip(self.weights, self.biases or (), strict=True))

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of neurons of the hidden layers."""
        return tuple(len(w) for w in self.weights[:-1])

    @property
    def n_inputs(self) -> int:
        """Number of inputs d."""
        return int(self.weights[0].shape[1])

    @property
    def n_outputs(self) -> int:
        """Number of outputs k."""
        return len(self.weights[-1])

    @property
    def squared_norm(self) -> float:
        """‖W‖²: every squared entry, with the biases, and with the output bias unless it is free."""
        parts = [part for layer in self.layers for part in layer if part is not None]
        if not self.counts_output_bias and self.layers[-1][1] is not None:
            parts.pop()  # subtracting it would leave its rounding error, which may exceed all other terms
        return float(sum((part**2).sum() for part in parts))

    def activate(self, z: np.ndarray) -> np.ndarray:
        """Return σ_a(z).

        Parameters
        ----------
        z : ndarray
        """
        return np.maximum(z, 0.0) if self.slope == 0.0 else np.maximum(z, self.slope * z)

    @property
    def _exported(self) -> tuple[Layers, float]:
        return [(w, None if b is None else self.bias * b) for w, b in self.layers], self.slope

    def representations(self, X: Any) -> list[np.ndarray]:
        """Return the pre-activations Z_1 … Z_L on the data, of shapes (N, n_ℓ).

        Parameters
        ----------
        X : array_like of shape (N, d)

        Raises
        ------
        InputError
            If X has another number of columns, or entries that are not finite.
        """
        features = check_inputs(X, self.n_inputs)
        found: list[np.ndarray] = []
        for w, b in self.layers:
            z = features @ w.T
            found.append(z if b is None else z + self.bias * b)
            features = self.activate(found[-1])
        return found

    def predict(self, X: Any) -> np.ndarray:
        """Return the outputs, of shape (N,) for one output and (N, k) for more.

        Parameters
        ----------
        X : array_like of shape (N, d)

        Raises
        ------
        InputError
            If X has another number of columns, or entries that are not finite.
        """
        widest = max(len(w) for w in self.weights)
        outputs = in_pieces(
            lambda rows: self.representations(rows)[-1], check_inputs(X, self.n_inputs), 2 * widest
        )
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def _reduced(self, X: Any, preserve: str) -> Iterator[DeepReLUNetwork]:
        features = check_inputs(X, self.n_inputs)
        found = self
        for found in self._sweep(features, preserve):
            yield found
        while preserve == "outputs" and len(self.widths) > 1:
            again = found  # each layer was reduced before the next one changed
            for again in found._sweep(features, preserve):  # noqa: B007
                pass
            if again.squared_norm >= 0.99 * found.squared_norm and sum(again.widths) >= sum(found.widths):
                break
            found = again
            yield found

    def _sweep(self, features: np.ndarray, preserve: str) -> Iterator[DeepReLUNetwork]:
        from covopt.sparsify.reduction import reductions

        network = self
        for ell in range(len(self.widths)):
            layer = network.hidden_layer(features, ell)
            silent = [np.zeros((1, part.shape[1])) for part in (layer.incoming, layer.outgoing)]
            for smaller in chain([layer], reductions(layer, preserve=preserve)):
                layer = smaller if len(smaller) else smaller.with_neurons(*silent)  # frameworks need a neuron
                network = network.with_layer(layer, ell)
                yield network
            features = layer.activations

    def hidden_layer(self, features: np.ndarray, ell: int) -> Any:
        """Return a hidden layer and its inputs in the form of :mod:`covopt.sparsify`.

        Parameters
        ----------
        features : ndarray of shape (N, n_ℓ)
        ell : int
            Counted from 0.
        """
        from covopt.sparsify import HiddenLayer

        (w, b), (out, offset) = self.layers[ell : ell + 2]
        if b is not None:
            features = np.column_stack([features, np.full(len(features), self.bias)])
            w = np.column_stack([w, b])
        free = ell + 2 == len(self.weights) and not self.counts_output_bias
        constant = 0.0 if offset is None else self.bias
        return HiddenLayer(features, w, out.T, constant, offset, free, self.slope)

    def with_layer(self, layer: Any, ell: int) -> DeepReLUNetwork:
        """Return the network with one hidden layer replaced.

        Parameters
        ----------
        layer : HiddenLayer
        ell : int
            Counted from 0.
        """
        layers, into = list(self.layers), layer.incoming
        layers[ell] = (into, None) if layers[ell][1] is None else (into[:, :-1], into[:, -1])
        layers[ell + 1] = layer.outgoing.T, layer.offset
        return replace(self, weights=[w for w, _ in layers], biases=[b for _, b in layers])
