"""Networks to start the descent from: a layer inserted into a shallower optimum, and random ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from covopt.depth.layers import Layout
from covopt.network import ReLUNetwork


def of_shallow(network: ReLUNetwork, output_bias: str) -> tuple[Layout, np.ndarray]:
    """Return a shallow network's weights as a vector.

    Parameters
    ----------
    network : ReLUNetwork
    output_bias : {"none", "penalized", "free"}
    """
    last = network.output_weights.T
    if network.bias > 0 and output_bias != "none":
        last = np.column_stack([last, network.output_bias])
    n_inputs = network.hidden_weights.shape[1] - (network.bias > 0)
    hidden = network.hidden_weights
    if not len(hidden):  # a constant: one silent neuron
        hidden = np.zeros((1, hidden.shape[1]))
        last = np.column_stack([np.zeros((len(last), 1)), last])
    return Layout.of_layers([hidden.copy(), last.copy()], n_inputs, network.bias, output_bias)


def deeper(
    layout: Layout, theta: np.ndarray, rng: np.random.Generator, *, extra: int, balanced: bool = False
) -> Iterator[tuple[Layout, np.ndarray]]:
    """Yield networks with one layer more and the same function: an identity after each hidden layer.

    Parameters
    ----------
    layout : Layout
    theta : ndarray of shape (layout.size,)
    rng : numpy Generator
    extra : int
        Small random neurons that each layer gets besides, for descent to use.
    balanced : bool
        Share the norm of each neuron among its three weights, where they cost least; descent likes the others more.
    """
    layers = layout.split(theta)
    for place in range(1, layout.depth):
        width = layout.widths[place]
        into, after = layers[place - 1].copy(), layers[place].copy()
        norms = np.linalg.norm(into, axis=1), np.linalg.norm(after[:, :width], axis=0)
        size = np.cbrt(norms[0] * norms[1]) if balanced else np.zeros(width)
        size, first = np.where(size > 0, size, 1.0), np.where(size > 0, norms[0], 1.0)
        into *= (size / first)[:, None]
        after[:, :width] *= first / size**2
        identity = np.diag(size)
        if layout.bias > 0:
            identity = np.column_stack([identity, np.zeros(width)])
        chain = [w.copy() for w in (*layers[: place - 1], into, identity, after, *layers[place + 1 :])]
        yield _widened(chain, layout, rng, extra)


def random_start(
    layout: Layout, rng: np.random.Generator, targets: float, inputs: float
) -> tuple[Layout, np.ndarray]:
    """Return normal weights whose outputs have about the size of the targets.

    Parameters
    ----------
    layout : Layout
    rng : numpy Generator
    targets, inputs : float
        Sizes of Y and X.
    """
    gain = (max(targets, 1e-300) / max(inputs, 1e-300)) ** (1.0 / layout.depth)
    parts = [gain * np.sqrt(2.0 / shape[1]) * rng.standard_normal(shape) for shape in layout.shapes]
    return layout, np.concatenate([part.ravel() for part in parts])


def _widened(
    chain: list[np.ndarray], like: Layout, rng: np.random.Generator, extra: int
) -> tuple[Layout, np.ndarray]:
    """Add small random neurons to every hidden layer."""
    if extra:
        for ell in range(len(chain) - 1):
            into, after = chain[ell], chain[ell + 1]
            size = 0.05 * float(np.abs(into).max(initial=0.0) + 1e-3)
            own = after.shape[1] - len(into)
            fresh = size * rng.standard_normal((extra, into.shape[1]))
            chain[ell] = np.vstack([into, fresh])
            small = size * rng.standard_normal((len(after), extra))
            chain[ell + 1] = np.column_stack(
                [after[:, : after.shape[1] - own], small, after[:, after.shape[1] - own :]]
            )
    return Layout.of_layers(chain, like.widths[0], like.bias, like.output_bias)
