r"""Starts through a bottleneck of one neuron (RK23 Prop 10): a line through the inputs, then a shallow network.

With s = Xu + βb ≥ 0 for all rows, the middle layers are ρ^{1/(L−3)} times the identity of ℝ, and

.. math:: R_L \le \|u\|^2 + b^2 + (L - 3)\rho^{2/(L-3)} + R_2(\rho s, Y).

It is the cheapest kind of network when L is large, and rarely before.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from covopt.api import min_norm
from covopt.api.stopping import pass_on
from covopt.data import Data
from covopt.depth.layers import Layout
from covopt.depth.starts import of_shallow
from covopt.errors import InputError

SLOPES = (1.0, 4.0, 16.0)  # ρ, times the size of the inputs
MOST_DIRECTIONS = 3
MOST_COMPARED = 300  # rows, each with each


def rank_one_starts(data: Data, depth: int, output_bias: str) -> Iterator[tuple[Layout, np.ndarray]]:
    """Yield interpolating networks whose hidden layers but the last have one neuron.

    Parameters
    ----------
    data : Data
        With a bias: without one s ≥ 0 asks for a cone.
    depth : int
        L ≥ 3.
    output_bias : {"none", "penalized", "free"}

    Examples
    --------
    >>> data = Data.validate([[-1.0], [0.5], [2.0]], [1.0, 0.0, 1.0], bias=1.0)
    >>> for layout, theta in rank_one_starts(data, 5, "none"):
    ...     print(layout.widths[:5], bool(np.allclose(layout.forward(theta, data.X)[1][-1], data.Y)))
    (1, 1, 1, 1, 2) True
    (1, 1, 1, 1, 2) True
    (1, 1, 1, 1, 2) True
    """
    if data.bias <= 0.0 or depth < 3:
        return
    for u in projections(data):
        along = data.X @ u
        offset = max(0.0, -float(along.min())) / data.bias
        s = along + data.bias * offset
        size = float(np.abs(s).max())
        if size <= 0.0:
            continue
        for slope in SLOPES if depth > 3 else (1.0,):
            try:
                shallow = min_norm(
                    slope * s[:, None], data.Y, bias=data.bias, output_bias=output_bias, tol=1e-3
                )
            except InputError:  # rows that this line does not tell apart
                break
            pass_on(shallow.status)
            last, weights = of_shallow(shallow.network, output_bias)
            layers = [np.append(u, offset)[None]]
            if depth > 3:
                layers += [np.array([[slope ** (1.0 / (depth - 3)), 0.0]])] * (depth - 3)
            layers += [w.copy() for w in last.split(weights)]
            yield Layout.of_layers(layers, data.n_features, data.bias, output_bias)


def projections(data: Data) -> list[np.ndarray]:
    """Return unit vectors that may tell the rows apart: main directions, and that of the steepest pair."""
    centred = data.X - data.X.mean(axis=0)
    found = [*np.linalg.svd(centred, full_matrices=False)[2]] if len(data.X) > 1 else []
    some = np.unique(np.linspace(0, len(data.X) - 1, MOST_COMPARED).astype(int))
    X, Y = data.X[some], data.Y[some]
    gaps = X[:, None] - X[None]
    lengths = np.linalg.norm(gaps, axis=2)
    rises = np.abs(Y[:, None] - Y[None]).max(axis=2)
    slopes = np.where(lengths > 0, rises / np.where(lengths > 0, lengths, 1.0), 0.0)
    i, j = np.unravel_index(int(slopes.argmax()), slopes.shape)
    if lengths[i, j] > 0:
        found.insert(0, gaps[i, j] / lengths[i, j])
    kept: list[np.ndarray] = []
    for u in found:
        if all(abs(float(u @ v)) < 1.0 - 1e-9 for v in kept):
            # the way with the smaller offset
            kept.append(u if -float((data.X @ u).min()) <= float((data.X @ u).max()) else -u)
    return kept[:MOST_DIRECTIONS]
