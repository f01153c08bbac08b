r"""Two neighbouring layers at a time, by exact shallow solves.

With the features before layer ℓ and the pre-activations after layer ℓ + 1 fixed, the two layers cost

.. math::
    \min_{(K, K^\sigma) \in S} \operatorname{Tr} K (K_{\ell-1}^\sigma)^+
    + \operatorname{Tr} K_{\ell+1} (K^\sigma)^+ = R_2(\sigma(Z_{\ell-1}), Z_{\ell+1}),

(FL22 Prop 3), a convex problem. So the norm never rises when :func:`covopt.min_norm` puts the global minimum of a
pair of layers in its place. Where no pair gains, no neuron can be inserted or moved between fixed neighbours: a
condition on minima that descent over the weights does not see (FL22 Prop 19).
"""

from __future__ import annotations

import warnings

import numpy as np

from covopt.api import min_norm
from covopt.api.stopping import pass_on
from covopt.depth.descent import norm_of
from covopt.depth.layers import Layout
from covopt.errors import CovoptError
from covopt.limits import checkpoint

TOL = 1e-5  # of a pair: what descent does afterwards needs no more
GAINS = 1e-4  # relative, of a sweep over all pairs: less ends it


def alternate(
    layout: Layout,
    theta: np.ndarray,
    X: np.ndarray,
    Y: np.ndarray,
    *,
    max_sweeps: int = 20,
) -> tuple[Layout, np.ndarray]:
    """Return a network of at most the same norm: sweeps over the pairs of layers until a sweep gains little.

    Parameters
    ----------
    layout : Layout
    theta : ndarray of shape (layout.size,)
        Of a network through the points, or near it: the last pair is solved for the targets themselves.
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N, k)
    max_sweeps : int

    Returns
    -------
    (Layout, ndarray)

    Examples
    --------
    Two neurons where one is enough, L = 3:

    >>> layout = Layout((1, 2, 2, 1), 0.0, "none")
    >>> layers = [np.array([[2.0], [0.5]]), np.array([[1.0, 1.0], [0.0, 0.5]]), np.array([[1.0, 2.0]])]
    >>> layout, theta = Layout.of_layers(layers, 1, 0.0, "none")
    >>> small, found = alternate(layout, theta, np.array([[1.0]]), np.array([[3.0]]))
    >>> round(norm_of(small, found), 3), round(3 * 3 ** (2 / 3), 3)
    (6.24, 6.24)
    """
    for _ in range(max_sweeps):
        before = norm_of(layout, theta)
        for place in range(layout.depth - 1):
            checkpoint()
            layout, theta = solve_pair(layout, theta, X, Y, place)
        if norm_of(layout, theta) > (1.0 - GAINS) * before:
            break
    return layout, theta


def solve_pair(
    layout: Layout, theta: np.ndarray, X: np.ndarray, Y: np.ndarray, place: int
) -> tuple[Layout, np.ndarray]:
    """Return the network with two neighbouring layers solved for, or as it is where that does not help.

    Parameters
    ----------
    layout, theta, X, Y
        As in :func:`alternate`.
    place : int
        The first of the two, counted from 0.
    """
    layers, values = layout.split(theta), layout.forward(theta, X)[1]
    last = place + 2 == layout.depth
    features = X if place == 0 else np.maximum(values[place - 1], 0.0)
    targets = Y if last else values[place + 1]
    output_bias = layout.output_bias if last else "penalized"
    if layout.bias == 0.0:
        output_bias = "none"
    if not targets.any():
        return layout, theta
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            solved = min_norm(
                features, targets, bias=layout.bias, output_bias=output_bias, tol=TOL, duplicates="mean"
            )
    except CovoptError:  # opposite features without biases
        return layout, theta
    pass_on(solved.status)
    found = solved.network
    if not len(found):
        return layout, theta
    after = found.output_weights.T
    if output_bias != "none":
        after = np.column_stack([after, found.output_bias])
    fresh = [*layers[:place], found.hidden_weights, after, *layers[place + 2 :]]
    new, better = Layout.of_layers(
        [w.copy() for w in fresh], layout.widths[0], layout.bias, layout.output_bias
    )
    missed = float(np.abs(layout.forward(theta, X)[1][-1] - Y).max(initial=0.0))
    # a pair that is the last one mends what was missed, at any price
    mends = last and missed > 1e-6 * float(np.abs(Y).max(initial=0.0))
    return (new, better) if mends or norm_of(new, better) < norm_of(layout, theta) else (layout, theta)
