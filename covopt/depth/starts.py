"""Networks to start the descent from: layers inserted into a shallower optimum, and random ones."""

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
    layout: Layout, theta: np.ndarray, rng: np.random.Generator, *, extra: int
) -> Iterator[tuple[Layout, np.ndarray]]:
    """Yield networks with one layer more and the same function: an identity after each hidden layer.

    Parameters
    ----------
    layout : Layout
    theta : ndarray of shape (layout.size,)
    rng : numpy Generator
    extra : int
        Small random neurons that each layer gets besides, for descent to use.
    """
    layers = layout.split(theta)
    for place in range(1, layout.depth):
        identity = np.eye(layout.widths[place], layout.widths[place] + (layout.bias > 0))
        chain = [w.copy() for w in (*layers[:place], identity, *layers[place:])]
        yield _widened(chain, layout, rng, extra)


def through_outputs(layout: Layout, theta: np.ndarray, X: np.ndarray) -> tuple[Layout, np.ndarray]:
    """Return a network with one layer more and the same outputs on X: f = ReLU(f) − ReLU(−f).

    A sign that no row has is left out. Of more hidden neurons than signs it costs less than identities do.

    Parameters
    ----------
    layout : Layout
    theta : ndarray of shape (layout.size,)
    X : ndarray of shape (N, d)
    """
    *below, last = (w.copy() for w in layout.split(theta))
    width, k = layout.widths[-2:]
    signs = np.hstack([np.eye(k), -np.eye(k)])
    hidden = signs.T @ last[:, :width]
    said = layout.forward(theta, X)[0][-1][:, :width] @ hidden.T
    seen = said.max(axis=0) > 0
    seen[0] |= not seen.any()
    hidden = np.column_stack([hidden[seen], np.zeros((seen.sum(), int(layout.bias > 0)))])
    chain = [*below, hidden, np.column_stack([signs[:, seen], last[:, width:]])]
    return Layout.of_layers(chain, layout.widths[0], layout.bias, layout.output_bias)


def balance(layout: Layout, theta: np.ndarray) -> np.ndarray:
    """Return weights of the same function with the norm shared as it costs least: into a neuron as much as out of it.

    Parameters
    ----------
    layout : Layout
    theta : ndarray of shape (layout.size,)
    """
    theta = theta.copy()
    layers = layout.split(theta)
    for _ in range(10 * layout.depth):
        for place in range(1, layout.depth):
            into, after = layers[place - 1], layers[place][:, : layout.widths[place]]
            norms = np.linalg.norm(into, axis=1), np.linalg.norm(after, axis=0)
            used = (norms[0] > 0) & (norms[1] > 0)
            share = np.sqrt(np.divide(norms[1], norms[0], where=used, out=np.ones(len(used))))
            into *= share[:, None]
            after /= share
    return theta


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
