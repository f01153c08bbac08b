"""Networks as chains of layers: what the rank and bottleneck theorems ask of a network."""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.errors import InputError
from covopt.network import DeepReLUNetwork, ReLUNetwork, check_inputs


def as_chain(network: Any) -> DeepReLUNetwork:
    """Return a network as a chain of layers; a shallow one is a chain of two.

    Parameters
    ----------
    network : DeepReLUNetwork, ReLUNetwork or sequence of ndarray
        A sequence holds W_1 … W_L of a network without biases.

    Raises
    ------
    InputError
        For anything else: a chain of linear maps and ReLUs is needed.

    Examples
    --------
    >>> as_chain([np.ones((3, 2)), np.ones((1, 3))])
    DeepReLUNetwork(2 → 3 → 1, bias 1, ‖W‖² 9)
    """
    if isinstance(network, DeepReLUNetwork):
        return network
    if isinstance(network, ReLUNetwork):
        hidden, bias = network.hidden_weights, network.bias
        biases: list[np.ndarray | None] = [None, None]
        if bias > 0:
            hidden, biases[0] = hidden[:, :-1], hidden[:, -1]
            biases[1] = network.output_bias if network.output_bias.any() else None
        return DeepReLUNetwork(
            [hidden, network.output_weights.T], biases, 0.0, bias or 1.0, network.counts_output_bias
        )
    if isinstance(network, list | tuple):
        return DeepReLUNetwork(network)
    raise InputError(
        f"network must be a chain of linear maps and ReLUs, a covopt.DeepReLUNetwork or ReLUNetwork; received "
        f"{type(network).__name__}. For a PyTorch module pass its weights and biases to covopt.DeepReLUNetwork."
    )


def jacobian(network: Any, X: Any) -> np.ndarray:
    """Return Jf(x) at every row of a table; on a kink that of the side where σ's argument is not positive.

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
        Where X does not fit the network.

    Examples
    --------
    >>> jacobian([np.array([[1.0], [-1.0]]), np.array([[1.0, 1.0]])], [[2.0], [-1.0]])[:, 0, 0]
    array([ 1., -1.])
    """
    chain = as_chain(network)
    return _from_layer(chain, check_inputs(X, chain.n_inputs))[0]


def _from_layer(chain: DeepReLUNetwork, X: np.ndarray) -> list[np.ndarray]:
    """Return J(α̃_ℓ → f)(x) with the inputs for α̃_0: L + 1 arrays of shape (N, k, n_ℓ), the last of identities."""
    slopes = [np.where(z > 0.0, 1.0, chain.slope) for z in chain.representations(X)[:-1]]
    eye = np.eye(chain.n_outputs)
    found = [np.broadcast_to(eye, (len(X), *eye.shape))]
    for ell in range(len(chain.weights) - 1, -1, -1):
        back = found[-1] @ chain.weights[ell]
        found.append(back if ell == 0 else back * slopes[ell - 1][:, None, :])
    return found[::-1]


def to_outputs(network: Any, X: Any) -> list[np.ndarray]:
    """Return the Jacobians J(α̃_ℓ → f)(x) of the outputs in the pre-activations, ℓ = 1 … L.

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
