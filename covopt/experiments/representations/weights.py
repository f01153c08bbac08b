"""Networks of every kind as FL22's weight matrices, the bias column last; representations as lists of matrices."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

from covopt.errors import InputError


def as_matrices(network: Any, bias: float, output_bias: str, slope: float = 0.0) -> list[np.ndarray]:
    """Return W_1 … W_L, with a last column that multiplies β where the layer before has the bias column.

    Parameters
    ----------
    network : ReLUNetwork, DeepReLUNetwork, anything with a ``network``, or a sequence of matrices
    bias : float
        β.
    output_bias : {"penalized", "none"}
    slope : float
        a; a network with another one is refused.

    Raises
    ------
    InputError
        Where the network has another β or slope, biases that the options leave out, or is no network.

    Examples
    --------
    >>> from covopt.network.deep import DeepReLUNetwork
    >>> net = DeepReLUNetwork([[[1.0]], [[2.0]]], [np.array([3.0]), None])
    >>> [w.tolist() for w in as_matrices(net, 1.0, "penalized")]
    [[[1.0, 3.0]], [[2.0, 0.0]]]
    """
    network = getattr(network, "network", network)
    if callable(network):
        raise InputError("a run holds several networks; pass one of them, as in run.network(run.best).")
    if hasattr(network, "hidden_weights"):
        _refuse_other(slope, 0.0, bias, network.bias)
        _refuse_free(network.counts_output_bias, network.output_bias)
        shift = network.output_bias if bias > 0 else None
        return [
            np.asarray(network.hidden_weights, dtype=float),
            _join(network.output_weights.T, shift, 2, bias > 0 and output_bias == "penalized"),
        ]
    if hasattr(network, "layers") and hasattr(network, "squared_norm"):
        layers = network.layers
        has_biases = any(b is not None for _, b in layers)
        _refuse_other(slope, network.slope, bias, network.bias if has_biases else bias)
        _refuse_free(network.counts_output_bias, layers[-1][1])
        return [
            _join(w, b, layer, bias > 0 and (layer < len(layers) or output_bias == "penalized"))
            for layer, (w, b) in enumerate(layers, start=1)
        ]
    try:
        matrices = [np.asarray(matrix, dtype=float) for matrix in network]
    except (TypeError, ValueError):
        raise InputError(
            "a ReLUNetwork, a DeepReLUNetwork or a sequence of weight matrices is needed; "
            f"received {type(network).__name__}."
        ) from None
    if not matrices:
        raise InputError("the network has no layers; at least one weight matrix is needed.")
    return matrices


def _join(matrix: np.ndarray, shift: np.ndarray | None, layer: int, column: bool) -> np.ndarray:
    if not column:
        if shift is not None and np.any(shift != 0):
            raise InputError(
                f"layer {layer} of the network has a bias that the problem leaves out; set bias and output_bias to "
                "have it."
            )
        return np.asarray(matrix, dtype=float)
    return np.column_stack([matrix, np.zeros(len(matrix)) if shift is None else shift])


def _refuse_other(slope: float, has_slope: float, bias: float, has_bias: float) -> None:
    if has_bias != bias:
        raise InputError(f"the network has bias {has_bias:g}, the problem {bias:g}; make them the same.")
    if has_slope != slope:
        raise InputError(f"the network has slope {has_slope:g}, the problem {slope:g}; make them the same.")


def _refuse_free(counted: bool, shift: np.ndarray | None) -> None:
    if not counted and shift is not None and np.any(shift != 0):
        raise InputError(
            "the network has a free output bias, which the norm of the reformulation would count; use one that is "
            "penalized, or none."
        )


def check_representations(Z: Any, n_rows: int, outputs: tuple[int, ...] | None) -> list[np.ndarray]:
    """Return representations Z_1 … Z_L as a list of finite float arrays (N, n_ℓ).

    Parameters
    ----------
    Z : sequence of ndarray of shape (N, n_ℓ)
    n_rows : int
        N.
    outputs : tuple of int or None
        The shape that Z_L must have.

    Raises
    ------
    InputError
        Where there are none, rows are missing, entries are not finite, or Z_L has another shape.

    Examples
    --------
    >>> [z.tolist() for z in check_representations([[[1], [2]]], 2, (2, 1))]
    [[[1.0], [2.0]]]
    """
    if isinstance(Z, np.ndarray) and Z.ndim < 3:
        raise InputError("Z must be a sequence of arrays Z_1 … Z_L, one for each layer; received one array.")
    try:
        found = [np.asarray(z, dtype=float) for z in Z]
    except (TypeError, ValueError):
        raise InputError(
            f"Z must be a sequence of numeric matrices Z_1 … Z_L; received {reprlib.repr(Z)}."
        ) from None
    if not found:
        raise InputError("Z is empty; give the representations Z_1 … Z_L.")
    for layer, z in enumerate(found, start=1):
        if z.ndim != 2 or len(z) != n_rows:
            raise InputError(
                f"Z_{layer} has shape {z.shape}; ({n_rows}, width) is needed, a row for each sample."
            )
        if not np.isfinite(z).all():
            raise InputError(f"Z_{layer} has entries that are NaN or infinite.")
    if outputs is not None and found[-1].shape != outputs:
        raise InputError(
            f"Z_{len(found)}, the outputs, has shape {found[-1].shape}; the targets have {outputs}."
        )
    return found
