"""Output weights with which a network meets its points as exactly as doubles allow, however far the points are.

Where points are far from the origin for their distances, outputs are small differences of large numbers: what a
network misses shows with twice the digits only (:mod:`covopt.exact.outputs`). The heights of its neurons, to their
own digits, say how output weights have to change; rounding those leaves 2⁻⁵³ of a slope times the points' range.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from covopt.exact.far_rows import coordinates
from covopt.exact.outputs import offset_of, outputs_of_far
from covopt.losses.interpolation import INTERPOLATES
from covopt.network import ReLUNetwork
from covopt.solvers.least_norm import LeastNorm

ROUNDS = 4
ENOUGH, ENOUGH_OF_MANY = 1e-14, 1e-11  # of the largest target; digits of a dense system take seconds
COSTS = 1e-9  # relative rise of the cost that more digits may bring
MOST_COLUMNS = 300  # of a dense decomposition
RCOND = 1e-15


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
    missed = _missed(network, lifted, targets)
    if missed is None or not len(network):
        return network
    scale = float(np.abs(targets).max(initial=0.0)) or 1.0
    heights = heights_of_far(lifted, network.hidden_weights)
    best, first = network, float(np.abs(missed).max()) / scale
    least, at_best = first, missed
    enough = ENOUGH if len(network) <= MOST_COLUMNS else ENOUGH_OF_MANY
    for _ in range(ROUNDS):
        if least <= enough:
            break
        changed = _least_norm(best, heights, at_best)
        missed = None if changed is None else _missed(changed, lifted, targets)
        if changed is None or missed is None or not float(np.abs(missed).max()) / scale < least:
            break
        best, at_best, least = changed, missed, float(np.abs(missed).max()) / scale
    # a network that misses the points has no cost to be compared with
    through = least <= INTERPOLATES < first
    return best if through or best.squared_norm <= (1.0 + COSTS) * network.squared_norm else network


def _missed(network: ReLUNetwork, lifted: np.ndarray, targets: np.ndarray) -> np.ndarray | None:
    found = outputs_of_far(lifted, *parts(network), targets)
    return None if found is None else targets - found


def parts(network: ReLUNetwork) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return hidden weights, output weights and what the output bias adds, in two parts."""
    return network.hidden_weights, network.output_weights, offset_of(network.bias, network.output_bias)


def heights_of_far(lifted: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """Return max(w_j·z_i, 0), every one of them to its own digits, shape (N, m)."""
    return np.maximum(coordinates(lifted, hidden.T), 0.0)


def _least_norm(network: ReLUNetwork, heights: np.ndarray, missed: np.ndarray) -> ReLUNetwork | None:
    """Change output weights, and an output bias that there is, by as little as possible relative to their size."""
    sizes = np.linalg.norm(network.output_weights, axis=1)
    # no square, which may be too large for a double
    lever = float(np.abs(network.output_bias).max(initial=0.0))
    columns = np.column_stack([heights * sizes, np.full(len(heights), network.bias * lever)])
    if not np.isfinite(columns).all() or not np.isfinite(missed).all():
        return None
    if len(sizes) > MOST_COLUMNS:
        inverse = LeastNorm(np.ascontiguousarray(columns.T))
        change = np.column_stack([inverse.solve(column) for column in missed.T])
    else:  # what tells near points apart is the smallest of all singular values
        change = np.linalg.lstsq(columns, missed, rcond=RCOND)[0]
    return replace(
        network, output_weights=network.output_weights + sizes[:, None] * change[:-1],
        output_bias=network.output_bias + lever * change[-1],
    )  # fmt: skip
