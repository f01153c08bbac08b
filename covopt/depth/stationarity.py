r"""First-order conditions of a small norm: what a local minimum among the networks through the points must meet.

Within the cell of its signs, minimise ‖W‖² subject to Z_L = Y and (2s − 1)∘Z_ℓ ≥ 0. At a local minimum there are
multipliers ν, and μ ≥ 0 on the pre-activations that are zero, with

.. math:: 2W = \sum_i \nu_i \nabla Z_L(x_i) + \sum_{z = 0} \mu_z (2s_z - 1) \nabla z .

Optima have many pre-activations at zero, so the gradient alone says little. What is returned is the smallest residual
of this equation over ν and μ, relative to ‖2W‖: 0 at a local minimum of the cell.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import lsq_linear

from covopt.depth.layers import Layout
from covopt.network import DeepReLUNetwork

TOUCHES = 1e-6  # of the largest pre-activation: what counts as zero
MOST_NUMBERS = 4_000_000  # of the Jacobians of all pre-activations: beyond it they are not formed


def stationarity(
    network: DeepReLUNetwork,
    X: np.ndarray,
    output_bias: str,
    gradient: np.ndarray | None = None,
    lam: float = 1.0,
) -> float | None:
    """Return the relative residual of the first-order conditions; None where the network is too large to ask.

    Parameters
    ----------
    network : DeepReLUNetwork
    X : ndarray of shape (N, d)
    output_bias : {"none", "penalized", "free"}
    gradient : ndarray of shape (N, k), optional
        ∇C(Z_L) where the network minimises C + λ‖W‖²: then ν is minus it. Without it ν is free.
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
    layers = []
    for ell, (w, b) in enumerate(network.layers):
        last = ell + 1 == len(network.weights)
        if bias > 0.0 and not (last and output_bias == "none"):
            layers.append(np.column_stack([w, np.zeros(len(w)) if b is None else b]))
        else:
            layers.append(w)
    layout, theta = Layout.of_layers(layers, network.n_inputs, bias, output_bias)
    if layout.size * len(X) * sum(layout.widths[1:]) > MOST_NUMBERS:
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
        at = np.abs(z) <= TOUCHES * size
        signs = np.where(z > 0.0, 1.0, -1.0)[at]
        columns.append(signs[:, None] * slope[at])
        low.append(np.zeros(int(at.sum())))
    matrix = np.concatenate(columns).T
    if not matrix.shape[1]:
        return float(np.linalg.norm(target)) / norm
    answer = lsq_linear(matrix, target, bounds=(np.concatenate(low), np.inf), tol=1e-14, max_iter=500)
    return float(np.linalg.norm(matrix @ answer.x - target)) / norm
