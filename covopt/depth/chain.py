"""Networks as chains of layers: of other kinds, in files, and what rank and bottleneck theorems ask of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.errors import InputError
from covopt.exact.rounding import TINY, gamma
from covopt.files.schema import numbers
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
        network = network if network.scaling is None else network.folded()
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


def jacobian_between(network: Any, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Jf(x) at every row of a table, what its entries may be off, and where it is the derivative.

    It is not on a kink, and where rounding hides on which side of one: a neuron that is zero there, that moves with
    the inputs and is heard by the next layer. The other neurons that are zero make no difference.

    Parameters
    ----------
    network : DeepReLUNetwork, ReLUNetwork or sequence of ndarray
        With ReLUs.
    X : array_like of shape (N, d)

    Returns
    -------
    values, errors : ndarray of shape (N, k, d)
    decided : ndarray of bool, of shape (N,)

    Examples
    --------
    >>> size = [np.array([[1.0], [-1.0]]), np.array([[1.0, 1.0]])]
    >>> values, errors, decided = jacobian_between(size, [[2.0], [0.0]])
    >>> float(values[0, 0, 0]), bool(errors.max() < 1e-14), decided.tolist()
    (1.0, True, [True, False])
    """
    chain = as_chain(network)
    rows = check_inputs(X, chain.n_inputs)
    # of every sum and every product on the way, Σ n_ℓ + 4 roundings for an entry
    share = gamma(sum(w.shape[1] + 4 for w in chain.weights))
    decided, moves, sizes = np.ones(len(rows), dtype=bool), np.ones(rows.shape), np.abs(rows)
    found = chain.representations(rows)
    for ell, (w, b) in enumerate(chain.layers[:-1]):
        sizes = sizes @ np.abs(w).T + (0.0 if b is None else np.abs(chain.bias * b))
        hidden = np.abs(found[ell]) <= share * sizes
        moves = (moves @ np.abs(w).T > 0.0).astype(float)
        heard = np.abs(chain.weights[ell + 1]).sum(axis=0) > 0.0
        decided &= ~(hidden & (moves > 0.0) & heard).any(axis=1)
        moves *= hidden | (found[ell] > 0.0)
    size = np.broadcast_to(np.eye(chain.n_outputs), (len(rows), chain.n_outputs, chain.n_outputs))
    for ell in range(len(chain.weights) - 1, -1, -1):
        size = size @ np.abs(chain.weights[ell])
        size = size if ell == 0 else size * (found[ell - 1] > 0.0)[:, None, :]
    return _from_layer(chain, rows)[0], share * size * (1.0 + share) + TINY, decided


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
    """Inverse of :func:`to_content`.

    Parameters
    ----------
    content : dict
        Parsed JSON, which is not believed.
    n_inputs, n_outputs : int
    bias : float
    output_bias : {"none", "penalized", "free"}

    Raises
    ------
    ValueError, CovoptError
        Where the layers do not fit together.
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
