r"""The weights of a deep network as one vector: outputs, gradients, Jacobians, and first-order conditions.

First-order conditions. Within the cell of its signs, minimise ‖W‖² subject to Z_L = Y and (2s − 1)∘Z_ℓ ≥ 0. At a
local minimum there are multipliers ν, and μ ≥ 0 on the pre-activations that are zero, with

.. math:: 2W = \sum_i \nu_i \nabla Z_L(x_i) + \sum_{z = 0} \mu_z (2s_z - 1) \nabla z .

Many pre-activations are zero at an optimum, so the gradient alone does not measure stationarity.
:func:`stationarity` returns the least residual of this equation over ν and μ, relative to ‖2W‖.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear

from covopt.checks.memory import SMALL
from covopt.data import Data
from covopt.errors import InputError
from covopt.exact.rank import NEAR
from covopt.files.schema import numbers
from covopt.network import DeepReLUNetwork, ReLUNetwork, check_inputs
from covopt.network.base import with_neurons


@dataclass(frozen=True)
class Layout:
    """Shapes of the layers, with the bias weights as last columns.

    Parameters
    ----------
    widths : tuple of int
        n_0 = d, n_1 … n_{L−1}, n_L = k.
    bias : float
        β; 0 for a network without biases.
    output_bias : {"none", "penalized", "free"}
    """

    widths: tuple[int, ...]
    bias: float
    output_bias: str

    @property
    def depth(self) -> int:
        """L, the number of weight layers."""
        return len(self.widths) - 1

    def has_bias(self, ell: int) -> bool:
        """Whether layer ℓ (counting from 0) has a bias column."""
        return self.bias > 0 and (ell + 1 < self.depth or self.output_bias != "none")

    @cached_property
    def shapes(self) -> list[tuple[int, int]]:
        """(n_ℓ, n_{ℓ−1} + 1 with a bias)."""
        return [(self.widths[i + 1], self.widths[i] + self.has_bias(i)) for i in range(self.depth)]

    @cached_property
    def size(self) -> int:
        """Number of weights."""
        return sum(a * b for a, b in self.shapes)

    @cached_property
    def charged(self) -> np.ndarray:
        """Mask of the penalised weights: 1, or 0 for a free output bias."""
        marks = [np.ones(shape) for shape in self.shapes]
        if self.has_bias(self.depth - 1) and self.output_bias == "free":
            marks[-1][:, -1] = 0.0
        return np.concatenate([mark.ravel() for mark in marks])

    def split(self, theta: np.ndarray) -> list[np.ndarray]:
        """Return the layers as views."""
        found, at = [], 0
        for a, b in self.shapes:
            found.append(theta[at : at + a * b].reshape(a, b))
            at += a * b
        return found

    def lift(self, features: np.ndarray, ell: int) -> np.ndarray:
        """Append the constant β to the inputs of layer ℓ where it has a bias."""
        if not self.has_bias(ell):
            return features
        return np.column_stack([features, np.full(len(features), self.bias)])

    def forward(self, theta: np.ndarray, X: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the inputs of every layer, with their constant β, and the pre-activations Z_1 … Z_L."""
        inputs, found, features = [], [], X
        for ell, w in enumerate(self.split(theta)):
            inputs.append(self.lift(features, ell))
            found.append(inputs[-1] @ w.T)
            features = np.maximum(found[-1], 0.0)
        return inputs, found

    def pull_back(
        self, theta: np.ndarray, inputs: list[np.ndarray], found: list[np.ndarray], back: np.ndarray
    ) -> np.ndarray:
        """Return the gradient of ⟨back, Z_L⟩ with respect to the weights."""
        layers, parts = self.split(theta), []
        for ell in range(self.depth - 1, -1, -1):
            parts.append((back.T @ inputs[ell]).ravel())
            if ell:
                back = (back @ layers[ell][:, : self.widths[ell]]) * (found[ell - 1] > 0.0)
        return np.concatenate(parts[::-1])

    def jacobians(
        self, theta: np.ndarray, X: np.ndarray, masks: list[np.ndarray] | None = None
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return Z_1 … Z_L and their Jacobians (N, n_ℓ, size), with the ReLUs replaced by masks where given."""
        layers, n = self.split(theta), len(X)
        values, slopes = [], []
        features, inner = X, np.zeros((n, X.shape[1], self.size))
        at = 0
        for ell, w in enumerate(layers):
            lifted = self.lift(features, ell)
            rows, columns = w.shape
            jac = np.zeros((n, rows, self.size))
            jac[:, :, :at] = w[:, : self.widths[ell]] @ inner[:, :, :at]
            for i in range(rows):
                jac[:, i, at + i * columns : at + (i + 1) * columns] = lifted
            at += rows * columns
            values.append(lifted @ w.T)
            slopes.append(jac)
            if ell + 1 < self.depth:
                mask = (values[-1] > 0.0) if masks is None else masks[ell]
                features, inner = np.where(mask, values[-1], 0.0), jac * mask[:, :, None]
        return values, slopes

    def jacobian_bytes(self, n_samples: int) -> int:
        """Return the size of the Jacobians of all pre-activations."""
        return 8 * self.size * n_samples * sum(self.widths[1:])

    def to_network(self, theta: np.ndarray, slope: float = 0.0) -> DeepReLUNetwork:
        """Return the network of a vector of weights."""
        weights, biases = [], []
        for ell, w in enumerate(self.split(theta)):
            own = self.has_bias(ell)
            weights.append(w[:, :-1].copy() if own else w.copy())
            biases.append(w[:, -1].copy() if own else None)
        return DeepReLUNetwork(weights, biases, slope, self.bias or 1.0, self.output_bias != "free")

    @staticmethod
    def of_width(width: int, data: Data, depth: int, output_bias: str) -> Layout:
        """Return the layout for a table whose hidden layers have one width."""
        return Layout((data.n_features, *[width] * (depth - 1), data.n_outputs), data.bias, output_bias)

    @staticmethod
    def of_layers(
        layers: list[np.ndarray], n_inputs: int, bias: float, output_bias: str
    ) -> tuple[Layout, np.ndarray]:
        """Return the layout of matrices (with their bias columns) and the vector of their entries."""
        widths = (n_inputs, *(len(w) for w in layers))
        return Layout(widths, bias, output_bias), np.concatenate([w.ravel() for w in layers])

    @staticmethod
    def of_network(network: DeepReLUNetwork, bias: float, output_bias: str) -> tuple[Layout, np.ndarray]:
        """Return the layout of a network and the vector of its weights; a layer without neurons gets a silent one."""
        layers = []
        for ell, (w, b) in enumerate(with_neurons(network.layers), 1):
            has_bias = bias > 0.0 and not (ell == len(network.weights) and output_bias == "none")
            layers.append(np.column_stack([w, np.zeros(len(w)) if b is None else b]) if has_bias else w)
        return Layout.of_layers(layers, network.n_inputs, bias, output_bias)


def stationarity(
    network: DeepReLUNetwork,
    X: np.ndarray,
    output_bias: str,
    gradient: np.ndarray | None = None,
    lam: float = 1.0,
) -> float | None:
    """Return the relative residual of the first-order conditions; None if the Jacobians would not fit into memory.

    Parameters
    ----------
    network : DeepReLUNetwork
    X : ndarray of shape (N, d)
    output_bias : {"none", "penalized", "free"}
    gradient : ndarray of shape (N, k), optional
        ∇C(Z_L) for a network that minimises C + λ‖W‖²; it fixes ν = −∇C. By default ν is a free variable.
    lam : float

    Examples
    --------
    >>> line = DeepReLUNetwork([np.array([[1.0]]), np.array([[1.0]]), np.array([[1.0]])])
    >>> stationarity(line, np.array([[2.0]]), "none") < 1e-12
    True
    >>> uneven = DeepReLUNetwork([np.array([[2.0]]), np.array([[0.5]]), np.array([[1.0]])])
    >>> stationarity(uneven, np.array([[2.0]]), "none") > 0.1
    True
    """
    bias = network.bias if any(b is not None for b in network.biases or ()) else 0.0
    layout, theta = Layout.of_network(network, bias, output_bias)
    if layout.jacobian_bytes(len(X)) > SMALL:
        return None
    values, slopes = layout.jacobians(theta, X)
    target = 2.0 * lam * layout.charged * theta
    norm = float(np.linalg.norm(target))
    if norm == 0.0:
        return 0.0
    columns, low = [], []
    if gradient is None:
        columns.append(slopes[-1].reshape(-1, layout.size))
        low.append(np.full(len(columns[0]), -np.inf))
    else:
        target = target + np.einsum("nk,nkp->p", gradient, slopes[-1])
    size = max(float(np.abs(z).max(initial=0.0)) for z in values[:-1])
    for z, slope in zip(values[:-1], slopes[:-1], strict=True):
        at = np.abs(z) <= NEAR * size
        signs = np.where(z > 0.0, 1.0, -1.0)[at]
        columns.append(signs[:, None] * slope[at])
        low.append(np.zeros(int(at.sum())))
    matrix = np.concatenate(columns).T
    if not matrix.shape[1]:
        return float(np.linalg.norm(target)) / norm
    answer = lsq_linear(matrix, target, bounds=(np.concatenate(low), np.inf), tol=1e-14, max_iter=500)
    return float(np.linalg.norm(matrix @ answer.x - target)) / norm


def as_chain(network: Any) -> DeepReLUNetwork:
    """Return a network as a chain of layers; a shallow one is a chain of two.

    Parameters
    ----------
    network : DeepReLUNetwork, ReLUNetwork or sequence of ndarray
        A sequence holds W_1 … W_L of a network without biases.

    Raises
    ------
    InputError
        For anything but a chain of linear maps and ReLUs.

    Examples
    --------
    >>> as_chain([np.ones((3, 2)), np.ones((1, 3))])
    DeepReLUNetwork(2 → 3 → 1, bias 1, ‖W‖² 9)
    """
    if isinstance(network, DeepReLUNetwork):
        return network
    if isinstance(network, ReLUNetwork):
        return network.chain
    if isinstance(network, list | tuple):
        return DeepReLUNetwork(network)
    raise InputError(
        f"network must be a chain of linear maps and ReLUs, a covopt.DeepReLUNetwork or ReLUNetwork; received "
        f"{type(network).__name__}. For a PyTorch module pass its weights and biases to covopt.DeepReLUNetwork."
    )


def check_kind(network: DeepReLUNetwork, bias: float, output_bias: str, slope: float = 0.0) -> None:
    """Refuse a network whose β or slope differs from the required one, or that has biases where none are allowed.

    Raises
    ------
    InputError
    """
    own_bias = network.bias if any(b is not None for _, b in network.layers) else bias
    for name, own, asked in (("bias", own_bias, bias), ("slope", network.slope, slope)):
        if own != asked:
            raise InputError(
                f"the network has {name} {own:g}, where {asked:g} is asked for; make them the same."
            )
    for ell, (_, shift) in enumerate(network.layers, 1):
        last = ell == len(network.layers)
        if shift is None or not shift.any():
            continue
        if bias == 0 or (last and output_bias == "none"):
            raise InputError(f"layer {ell} of the network has a bias that bias and output_bias leave out.")
        if last and output_bias == "penalized" and not network.counts_output_bias:
            raise InputError(
                "the network has a free output bias, and its norm would count it; use a penalized one."
            )


def as_shallow(network: DeepReLUNetwork, bias: float, output_bias: str) -> ReLUNetwork:
    """Return a chain of two layers as a shallow network.

    Parameters
    ----------
    network : DeepReLUNetwork
    bias : float
        β of the shallow network; 0 for one without biases.
    output_bias : {"none", "penalized", "free"}

    Examples
    --------
    >>> as_shallow(as_chain([np.ones((3, 2)), np.ones((1, 3))]), 1.0, "none")
    ReLUNetwork(3 neurons, 2 inputs → 1 output, bias 1, ‖W‖² 9)
    """
    (hidden, shift), (out, offset) = network.layers
    if bias > 0:
        hidden = np.column_stack([hidden, np.zeros(len(hidden)) if shift is None else shift])
    own = np.zeros(len(out)) if offset is None else offset
    return ReLUNetwork(hidden, out.T, bias, own, output_bias != "free")


def jacobian(network: Any, X: Any) -> np.ndarray:
    """Return Jf(x) at every row of a table; at a kink σ'(0) is that of the negative side.

    Parameters
    ----------
    network : DeepReLUNetwork, ReLUNetwork or sequence of ndarray
    X : array_like of shape (N, d)

    Returns
    -------
    ndarray of shape (N, k, d)

    Raises
    ------
    InputError
        If X does not match the network.

    Examples
    --------
    >>> jacobian([np.array([[1.0], [-1.0]]), np.array([[1.0, 1.0]])], [[2.0], [-1.0]])[:, 0, 0]
    array([ 1., -1.])
    """
    chain = as_chain(network)
    return _from_layer(chain, check_inputs(X, chain.n_inputs))[0]


def _from_layer(chain: DeepReLUNetwork, X: np.ndarray) -> list[np.ndarray]:
    """Return J(α̃_ℓ → f)(x) for ℓ = 0 (the inputs) … L: arrays of shape (N, k, n_ℓ), the last one of identities."""
    slopes = [np.where(z > 0.0, 1.0, chain.slope) for z in chain.representations(X)[:-1]]
    eye = np.eye(chain.n_outputs)
    found = [np.broadcast_to(eye, (len(X), *eye.shape))]
    for ell in range(len(chain.weights) - 1, -1, -1):
        back = found[-1] @ chain.weights[ell]
        found.append(back if ell == 0 else back * slopes[ell - 1][:, None, :])
    return found[::-1]


def to_outputs(network: Any, X: Any) -> list[np.ndarray]:
    """Return the Jacobians J(α̃_ℓ → f)(x) of the outputs with respect to the pre-activations, ℓ = 1 … L.

    Parameters
    ----------
    network : DeepReLUNetwork, ReLUNetwork or sequence of ndarray
    X : array_like of shape (N, d)

    Returns
    -------
    list of ndarray of shape (N, k, n_ℓ)
    """
    chain = as_chain(network)
    return _from_layer(chain, check_inputs(X, chain.n_inputs))[1:]


def to_content(network: DeepReLUNetwork) -> dict[str, Any]:
    """Return the layers of a network as JSON types.

    Parameters
    ----------
    network : DeepReLUNetwork
    """
    return {
        "weights": [w.tolist() for w, _ in network.layers],
        "biases": [None if b is None else b.tolist() for _, b in network.layers],
    }


def from_content(
    content: dict[str, Any], n_inputs: int, n_outputs: int, bias: float, output_bias: str
) -> DeepReLUNetwork:
    """Read a network that :func:`to_content` wrote.

    Parameters
    ----------
    content : dict
        Parsed JSON, which is validated.
    n_inputs, n_outputs : int
    bias : float
    output_bias : {"none", "penalized", "free"}

    Raises
    ------
    ValueError, CovoptError
        If the shapes of the layers do not match.
    """
    weights = []
    width = n_inputs
    for part in content["weights"]:
        weights.append(numbers("weights", part).reshape(len(part), width))
        width = len(part)
    if width != n_outputs:
        raise ValueError("a network has another number of outputs than the table")
    biases = [None if b is None else numbers("biases", b) for b in content["biases"]]
    return DeepReLUNetwork(weights, biases, 0.0, bias or 1.0, output_bias != "free")
