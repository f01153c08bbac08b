"""Output weights with which a network meets its points as exactly as doubles allow, however far the points are.

Where points are far from the origin for their distances, outputs are small differences of large numbers: what a
network misses shows with twice the digits only (:mod:`covopt.exact.outputs`), and rounding every output weight on
its own leaves more than is allowed. So weights are moved by whole units in the last place. What a unit changes is a
vector of outputs; whole multiples of these vectors make a lattice, and what is missed is to be close to one of its
points. The basis of up to ``FEW`` vectors is reduced in whole numbers (:mod:`covopt.exact.lattice`); a larger one is
made shorter by subtracting multiples of one vector from another. Then the nearest plane is taken (Babai 1986).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from covopt.exact.far_rows import coordinates
from covopt.exact.lattice import Lattice
from covopt.exact.outputs import offset_of, outputs_of_far
from covopt.losses.interpolation import INTERPOLATES
from covopt.network import ReLUNetwork
from covopt.solvers.least_norm import LeastNorm

ROUNDS = 4
ENOUGH = 1e-14  # of the largest target
COSTS = 1e-9  # relative rise of the cost that more digits may bring
FEW = 12  # columns of a lattice in whole numbers
ACCURATE = 2.0**4  # parts of what is enough that it tells apart
MOST_COLUMNS = 300  # of a lattice, and of a dense decomposition
RCOND = 1e-15
SWEEPS = 20
SHORTER = 1e-3  # share of a vector's square that a subtraction must take away
LARGEST = 2.0**40  # multiples of a unit


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
    for change in (_least_norm, _nearest):
        for _ in range(ROUNDS):
            if least <= ENOUGH:
                break
            changed = change(best, heights, at_best)
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


def _nearest(network: ReLUNetwork, heights: np.ndarray, missed: np.ndarray) -> ReLUNetwork | None:
    """Change output weights and output bias by units in the last place, output by output."""
    if len(network) > MOST_COLUMNS:
        return None
    weights, offset = network.output_weights.copy(), network.output_bias.copy()
    for output in range(weights.shape[1]):
        units = np.spacing(np.abs(np.append(weights[:, output], offset[output])))
        columns = np.column_stack([heights, np.full(len(heights), network.bias)])
        live = np.append(weights[:, output], offset[output]) != 0.0
        counts = np.zeros(len(units))
        counts[live] = nearest_multiples(columns[:, live] * units[live], missed[:, output])
        weights[:, output] += (counts * units)[:-1]
        offset[output] += (counts * units)[-1]
    return replace(network, output_weights=weights, output_bias=offset)


def nearest_multiples(columns: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Return whole multiples of columns whose sum is close to a vector.

    Parameters
    ----------
    columns : ndarray of shape (N, m)
    goal : ndarray of shape (N,)

    Examples
    --------
    >>> nearest_multiples(np.array([[1.0, 0.7], [1.0, 1.0]]), np.array([0.29, 0.01]))
    array([ 1., -1.])
    """
    top = float(np.abs(columns).max(initial=0.0)) or 1.0
    if columns.shape[1] <= FEW:
        return _in_lattice(columns / top, goal / top)
    basis, counts = _shortened(columns / top)
    lengths = np.linalg.norm(basis, axis=0)
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0.0][: len(goal)]
    turn, triangle = np.linalg.qr(basis[:, order])
    left, found = turn.T @ (goal / top), np.zeros(len(order))
    for j in range(len(order) - 1, -1, -1):
        if triangle[j, j] != 0.0:
            times = np.rint(left[j] / triangle[j, j])
            if abs(times) < LARGEST:
                found[j] = times
                left = left - times * triangle[:, j]
    total = counts[:, order] @ found
    return total if np.abs(total).max(initial=0.0) < LARGEST else np.zeros(columns.shape[1])


def _in_lattice(columns: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Return multiples of few columns in whole numbers: of those that come as close, small ones."""
    most, count = ACCURATE / (ENOUGH * (float(np.abs(goal).max(initial=0.0)) or 1.0)), columns.shape[1]

    def whole(vector: np.ndarray) -> list[int]:
        return [round(Fraction(float(value)) * Fraction(most)) for value in vector]

    lattice = Lattice([[*whole(columns[:, j]), *(int(i == j) for i in range(count))] for j in range(count)])
    near = lattice.nearest([*whole(goal), *([0] * count)])[-count:]
    return np.array(near, dtype=float) if max(map(abs, near)) < LARGEST else np.zeros(count)


def _shortened(basis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Subtract multiples of vectors from others as long as those become shorter; return both and the multiples."""
    basis, counts = basis.copy(), np.eye(basis.shape[1])
    squares = np.einsum("ij,ij->j", basis, basis)
    for _ in range(SWEEPS):
        changed = False
        for j in range(basis.shape[1]):
            while True:
                products = basis.T @ basis[:, j]
                times = np.rint(products / np.where(squares > 0.0, squares, np.inf))
                times[j] = 0.0
                gains = times * (2.0 * products - times * squares)
                i = int(gains.argmax())
                moved = counts[:, j] - times[i] * counts[:, i]
                if not gains[i] > SHORTER * squares[j] or np.abs(moved).max() > LARGEST:
                    break
                basis[:, j] -= times[i] * basis[:, i]
                counts[:, j], squares[j], changed = moved, float(basis[:, j] @ basis[:, j]), True
        if not changed:
            break
    return basis, counts
