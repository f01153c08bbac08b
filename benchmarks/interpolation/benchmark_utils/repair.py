"""From a trained network, which misses the points a little, to one that meets them: only then do costs compare.

Three repairs are tried and the cheapest result counts; none searches for a better network.

output weights   the hidden weights stay; the output weights change by the least sum of squares, each measured in its
                 neuron's own size √(‖w‖|v|), so that idle neurons stay idle
all weights      Gauss and Newton's steps to the nearest network through the points, all weights moving
more neurons     the network stays, and beside it stands the one of smallest norm through what it misses, found by
                 covopt: the most generous repair, for networks that miss by at most ``SMALL``

The result is balanced, ‖w‖ = |v|, which leaves the function and lowers the norm.
"""

import numpy as np

import covopt

RESIDUAL = 1e-9  # largest |f − y| of an interpolant, relative to the largest |y|
SMALL = 1e-3  # in the same units: what a second network may add
STEPS = 30


def balance(hidden, output):
    """Rescale every neuron to ‖w‖ = |v|; silent ones go."""
    size, weight = np.linalg.norm(hidden, axis=1), np.abs(output)
    live = size * weight > 0
    root = np.sqrt(weight[live] / size[live])
    return hidden[live] * root[:, None], output[live] / root


def squared_norm(hidden, output):
    return float((hidden**2).sum() + (output**2).sum())


def residual(lifted, y, hidden, output):
    """max |f − y| / max |y|."""
    return float(np.abs(np.maximum(lifted @ hidden.T, 0.0) @ output - y).max() / np.abs(y).max())


def by_output_weights(lifted, y, hidden, output):
    """The hidden weights kept."""
    features = np.maximum(lifted @ hidden.T, 0.0)
    size = np.sqrt(np.linalg.norm(hidden, axis=1) * np.abs(output))
    for _ in range(2):  # the second step takes the rounding of the first
        change = np.linalg.lstsq(features * size, y - features @ output, rcond=1e-13)[0]
        output = output + size * change
    return hidden, output


def by_all_weights(lifted, y, hidden, output):
    """Nearest in the weights, to first order, again and again."""
    m, width = hidden.shape
    for _ in range(STEPS):
        heights = lifted @ hidden.T
        features = np.maximum(heights, 0.0)
        missing = y - features @ output
        slopes = (heights > 0) * output
        jacobian = np.concatenate(
            [features, (slopes[:, :, None] * lifted[:, None, :]).reshape(len(y), -1)], axis=1
        )
        step = np.linalg.lstsq(jacobian, missing, rcond=1e-11)[0]
        output, hidden = output + step[:m], hidden + step[m:].reshape(m, width)
        if np.abs(missing).max() <= 1e-13 * np.abs(y).max():
            break
    return hidden, output


def by_more_neurons(lifted, y, hidden, output):
    """What is missed, interpolated by a second network; None where too much is."""
    missing = y - np.maximum(lifted @ hidden.T, 0.0) @ output
    if not np.abs(missing).max() <= SMALL * np.abs(y).max():
        return None
    if not missing.any():
        return hidden, output
    second = covopt.min_norm(lifted[:, :-1], missing, bias=float(lifted[0, -1]), tol=1e-2).network
    return np.concatenate([hidden, second.hidden_weights]), np.concatenate(
        [output, second.output_weights[:, 0]]
    )


def repair(lifted, y, hidden, output):
    """Return the cheapest interpolant, balanced, or None where no repair ends on the points.

    Parameters
    ----------
    lifted : (N, D) array
        Its last column is β.
    y : (N,) array, not all zero
    hidden, output : (m, D) and (m,) arrays
    """
    if not len(output) or not (np.isfinite(hidden).all() and np.isfinite(output).all()):
        return None
    start, best = balance(hidden, output), None
    if not len(start[1]):
        return None
    for method in (by_output_weights, by_all_weights, by_more_neurons):
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                moved = method(lifted, y, *start)
            except np.linalg.LinAlgError:  # no convergence: the weights have run away
                continue
            if moved is None:
                continue
            found = balance(*moved)
            if not len(found[1]) or not residual(lifted, y, *found) <= RESIDUAL:
                continue
        if best is None or squared_norm(*found) < squared_norm(*best):
            best = found
    return best
