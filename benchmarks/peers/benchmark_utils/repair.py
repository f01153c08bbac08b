"""Repair a trained network, which misses the points a little, to an interpolant, so that norms can be compared.

Three repairs are tried and the cheapest result counts; none searches for a better network. (1) Only output weights
change, each relative to the size of its neuron, so that idle neurons stay idle. (2) All weights change, as little as
possible. (3) If the residual is at most ``SMALL``, the network of smallest norm through the residuals, found by
covopt, is added to the network: the most generous repair. The result is balanced, ‖w‖ = |v|.
"""

import numpy as np

import covopt
from covopt.problems.problem import Problem
from covopt.solvers.both_layers import Network
from covopt.solvers.interpolating import meet_points

RESIDUAL = 1e-9  # largest |f − y| of an interpolant, relative to the largest |y|
SMALL = 1e-3  # in the same units: largest residual that a second network may remove


def balance(hidden, output, shift):
    """Rescale every neuron to ‖w‖ = |v| and drop neurons that are zero."""
    size, weight = np.linalg.norm(hidden, axis=1), np.abs(output)
    live = size * weight > 0
    root = np.sqrt(weight[live] / size[live])
    return hidden[live] * root[:, None], output[live] / root, shift


def missing(lifted, y, hidden, output, shift):
    """Return the residuals y − f; β is one."""
    return y - np.maximum(lifted @ hidden.T, 0.0) @ output - shift


def by_output_weights(lifted, y, hidden, output, shift):
    """Interpolate by changing only the output weights."""
    features = np.maximum(lifted @ hidden.T, 0.0)
    size = np.sqrt(np.linalg.norm(hidden, axis=1) * np.abs(output))
    for _ in range(2):  # the second step removes the rounding error of the first
        missed = y - features @ output - shift
        output = output + size * np.linalg.lstsq(features * size, missed, rcond=1e-13)[0]
    return hidden, output, shift


def by_all_weights(lifted, y, hidden, output, shift):
    """Interpolate by repeated first-order steps of least change in all weights."""
    problem = Problem.through(lifted, (y - shift)[:, None])
    size = np.linalg.norm(hidden, axis=1)
    found = meet_points(problem, Network(hidden / size[:, None], (output * size)[:, None], np.zeros(1)))
    return found.neurons, found.weights[:, 0], shift


def by_more_neurons(lifted, y, hidden, output, shift):
    """Add a second network that interpolates the residuals; return the network unchanged if they are too large."""
    missed = missing(lifted, y, hidden, output, shift)
    if not 0 < np.abs(missed).max() <= SMALL * np.abs(y).max():
        return hidden, output, shift
    second = covopt.min_norm(lifted[:, :-1], missed, bias=float(lifted[0, -1]), tol=1e-2).network
    wide = np.concatenate([hidden, second.hidden_weights])
    return wide, np.concatenate([output, second.output_weights[:, 0]]), shift


def repair(lifted, y, hidden, output, shift):
    """Return the cheapest interpolant, balanced, or None if no repair interpolates.

    Parameters
    ----------
    lifted : (N, D) array
        Its last column is β = 1.
    y : (N,) array, not all zero
    hidden, output, shift : (m, D) array, (m,) array, float
    """
    start = balance(hidden, output, shift)
    if not len(start[1]) or not (np.isfinite(hidden).all() and np.isfinite(output).all()):
        return None
    best = np.inf, None
    for method in (by_output_weights, by_all_weights, by_more_neurons):
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                found = balance(*method(lifted, y, *start))
            except np.linalg.LinAlgError:  # no convergence: the weights have diverged
                continue
            missed = np.abs(missing(lifted, y, *found)).max()
        cost = float((found[0] ** 2).sum() + (found[1] ** 2).sum())
        if missed <= RESIDUAL * np.abs(y).max() and cost < best[0]:
            best = cost, found
    return best[1]
