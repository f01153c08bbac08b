"""Hidden weights with few bits, so that one input far from the origin is multiplied and shifted without rounding.

The value a x + b of a neuron with its kink among the points is what is left when nearly everything cancels: for
minutes counted in seconds since 1970, nine digits of sixteen. Where the inputs have few bits (whole numbers), a can
have so few that a x is exact, and b such that the kink is a point; then so is the sum, and only the output weights
round. Balanced networks lose nothing: a is moved by less than 2⁻²⁰ of itself, its output weight the other way, and
the norm changes by the square of that.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from covopt.network.shallow import ReLUNetwork

FEWEST_BITS = 20  # of a: the norm changes by less than 4⁻²⁰
AT_A_POINT = 1e-6  # distance of a kink from a point, relative to the point's neighbours
MOST_ROWS = 1500  # for the dense correction
ROUNDS = 8
CLOSE = 1e-11  # of the largest target: what needs no correction


def with_exact_products(network: ReLUNetwork, inputs: np.ndarray, targets: np.ndarray) -> ReLUNetwork:
    """Return the network with hidden weights that multiply the inputs exactly, where that brings it closer.

    Parameters
    ----------
    network : ReLUNetwork
        Of one input, with a bias.
    inputs : ndarray of shape (N,)
    targets : ndarray of shape (N, k)

    Examples
    --------
    >>> minutes = 1.6e9 + 60.0 * np.arange(3)
    >>> kink = np.array([[1.0, -minutes[1]]]) / 7.0
    >>> found = with_exact_products(ReLUNetwork(kink, np.array([[7.0]]), 1.0), minutes, np.array([[0.0], [0], [60]]))
    >>> found.predict(minutes[:, None]).ravel()
    array([ 0.,  0., 60.])
    """
    goal = CLOSE * float(np.abs(targets).max(initial=0.0))
    if not len(network) or len(inputs) > MOST_ROWS or _distance(network, inputs, targets) <= goal:
        return network
    spare = 53 - _bits(inputs)
    rounded = _rounded(network, inputs, spare) if spare >= FEWEST_BITS else network
    return _corrected(rounded, network, inputs, targets, goal)


def _rounded(network: ReLUNetwork, inputs: np.ndarray, spare: int) -> ReLUNetwork:
    """Leave the slopes ``spare`` bits, and put kinks that are at a point there exactly."""
    slopes, shifts = network.hidden_weights.T
    live = slopes != 0.0
    exponent = np.frexp(slopes)[1]
    rounded = np.ldexp(np.rint(np.ldexp(slopes, spare - exponent)), exponent - spare)
    ratio = np.where(live, rounded / np.where(live, slopes, 1.0), 1.0)
    kinks = -shifts * network.bias / np.where(live, slopes, 1.0)
    points = np.unique(inputs)
    place = np.abs(kinks[:, None] - points).argmin(axis=1)
    room = np.minimum(np.diff(points, prepend=-np.inf), np.diff(points, append=np.inf))[place]
    at_point = live & (np.abs(kinks - points[place]) <= AT_A_POINT * room)
    moved = np.where(at_point, -rounded * points[place] / network.bias, shifts * ratio)
    return dataclasses.replace(
        network,
        hidden_weights=np.column_stack([rounded, moved]), output_weights=network.output_weights / ratio[:, None],
    )  # fmt: skip


def _corrected(
    found: ReLUNetwork, best: ReLUNetwork, inputs: np.ndarray, targets: np.ndarray, goal: float
) -> ReLUNetwork:
    """Correct the output weights by what is missed, a few times; the closest of all that were met."""
    least = _distance(best, inputs, targets)
    lifted = np.column_stack([inputs, np.full(len(inputs), found.bias)])
    active = np.maximum(lifted @ found.hidden_weights.T, 0.0)
    size = np.linalg.norm(found.output_weights, axis=1)
    lever = found.bias * float(np.abs(found.output_bias).max())
    columns = np.column_stack([active * size, np.full(len(inputs), lever)])
    for _ in range(ROUNDS):
        missed = targets - found.predict(inputs[:, None]).reshape(targets.shape)
        worst = float(np.abs(missed).max())
        if worst < least:
            best, least = found, worst
        if least <= goal:
            break
        step = np.linalg.lstsq(columns, missed, rcond=1e-13)[0]
        found = dataclasses.replace(
            found, output_weights=found.output_weights + size[:, None] * step[:-1],
            output_bias=found.output_bias + lever * step[-1] / found.bias,
        )  # fmt: skip
    return best


def _bits(values: np.ndarray) -> int:
    """Bits between the highest and the lowest that any of the numbers has."""
    pairs = [float(value).as_integer_ratio() for value in values[values != 0.0]]
    if not pairs:
        return 0
    lowest = min((n & -n).bit_length() - d.bit_length() for n, d in pairs)
    return max(abs(n).bit_length() - d.bit_length() for n, d in pairs) - lowest + 1


def _distance(network: ReLUNetwork, inputs: np.ndarray, targets: np.ndarray) -> float:
    return float(np.abs(targets - network.predict(inputs[:, None]).reshape(targets.shape)).max(initial=0.0))
