"""A network through points that are far from the origin: met to more digits than doubles show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from covopt.exact.outputs import offset_of, outputs_of_far
from covopt.losses.interpolation import INTERPOLATES
from covopt.network import ReLUNetwork
from covopt.solvers.least_norm import LeastNorm

ROUNDS = 4
ENOUGH = 1e-14  # of the largest target
COSTS = 1e-9  # relative rise of the cost that more digits may bring


def meet(network: ReLUNetwork, lifted: np.ndarray, targets: np.ndarray) -> ReLUNetwork:
    """Take the least change of the output weights, relative to their size, to what the network misses as it is.

    Parameters
    ----------
    network : ReLUNetwork
    lifted : ndarray of shape (N, D)
        The points, with the bias where there is one.
    targets : ndarray of shape (N, k)

    Returns
    -------
    ReLUNetwork
        The same where doubles hide nothing, or where no change comes nearer to the targets.

    Examples
    --------
    >>> lifted = np.array([[1e9, 1.0], [1e9 + 1.0, 1.0]])
    >>> network = ReLUNetwork(np.array([[0.1, -1e8 + 1.0], [0.3, -3e8]]), np.array([[1.0], [1.0]]))
    >>> changed = meet(network, lifted, np.array([[1.0], [2.0]]))
    >>> bool(np.abs(outputs_of_far(lifted, *parts(changed), np.array([[1.0], [2.0]])) - [[1.0], [2.0]]).max() < 1e-14)
    True
    """
    found = outputs_of_far(lifted, *parts(network), targets)
    if found is None or not len(network):
        return network
    scale = float(np.abs(targets).max(initial=0.0)) or 1.0
    sizes = np.linalg.norm(network.output_weights, axis=1)[:, None]
    heights = np.maximum(lifted @ network.hidden_weights.T, 0.0)
    inverse = LeastNorm(np.ascontiguousarray((heights * sizes[:, 0]).T))
    best, missed = network, targets - found
    first = least = float(np.abs(missed).max()) / scale
    for _ in range(ROUNDS):
        if least <= ENOUGH:
            break
        change = np.column_stack([inverse.solve(column) for column in missed.T])
        changed = replace(best, output_weights=best.output_weights + sizes * change)
        found = outputs_of_far(lifted, *parts(changed), targets)
        if found is None:
            break
        missed = targets - found
        left = float(np.abs(missed).max()) / scale
        if not left < least:
            break
        best, least = changed, left
    # a network that misses the points has no cost to be compared with
    through = least <= INTERPOLATES < first
    return best if through or best.squared_norm <= (1.0 + COSTS) * network.squared_norm else network


def parts(network: ReLUNetwork) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return hidden weights, output weights and what the output bias adds, in two parts."""
    return network.hidden_weights, network.output_weights, offset_of(network.bias, network.output_bias)
