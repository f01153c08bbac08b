r"""Descent on both layers of a network: the objective, its gradient, and Adam followed by L-BFGS.

With neurons of any length, balanced or not, the reduced problem of :mod:`covopt.problems.problem` is

    min over W (m, r), V (m, q), B    C(σ(Z Wᵀ) V + 1Bᵀ)/μ + ½(‖W‖² + ‖V‖²) + ½ ρ ‖B‖²,

since ‖w‖² + ‖v‖² ≥ 2‖w‖‖v‖ with equality where a neuron is balanced. The objective has corners where the kink of a
neuron meets a point, and L-BFGS stops there: on noise in thirty columns 1 to 2 % above the value that Adam reaches
with steps that are long at first. L-BFGS then finds the last digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from covopt.exact.rank import FOUND
from covopt.limits import TimeUp, checkpoint, unlimited
from covopt.problems.problem import Problem

STEPS = 100  # most steps of L-BFGS or Gauss–Newton, for one descent
# steps of Adam before L-BFGS, and their initial length as a share of the root mean square of a layer's entries
ANNEALED, RATE = 500, 0.4
KEPT = 0.9, 0.999  # decay of the running means of slopes and of squared slopes


class Network(NamedTuple):
    """Unit neurons (m, r), weights (m, q), offset (q,)."""

    neurons: np.ndarray
    weights: np.ndarray
    offset: np.ndarray


def value_and_slope(
    problem: Problem, W: np.ndarray, V: np.ndarray, B: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Return the objective of both layers and its derivatives.

    Parameters
    ----------
    problem : Problem
    W : ndarray of shape (m, r)
    V : ndarray of shape (m, q)
    B : ndarray of shape (q,)
    """
    checkpoint()
    atoms = problem.rows @ W.T
    np.maximum(atoms, 0.0, out=atoms)
    fitted = atoms @ V + B
    squares = float(np.vdot(W, W) + np.vdot(V, V))
    value = problem.loss.value(problem.raise_outputs(fitted)) / problem.strength + 0.5 * squares
    slope = -problem.dual_of(fitted)
    pulls = slope @ V.T
    pulls *= atoms > 0.0
    dW, dV = W + pulls.T @ problem.rows, V + atoms.T @ slope
    dB = np.zeros_like(B)
    if problem.has_offset:
        dB = slope.sum(axis=0) + problem.offset_cost * B
        value += 0.5 * problem.offset_cost * float(B @ B)
    return value, dW, dV, dB


def balanced(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """Return W and V with ‖w‖ = ‖v‖ for every neuron."""
    root = np.sqrt(np.linalg.norm(network.weights, axis=1))[:, None]
    return network.neurons * root, network.weights / np.where(root > 0.0, root, 1.0)


def of_unit_neurons(W: np.ndarray, V: np.ndarray, B: np.ndarray) -> Network:
    """Return the network with unit neurons, without those of negligible weight."""
    lengths = np.linalg.norm(W, axis=1)
    masses = lengths * np.linalg.norm(V, axis=1)
    kept = masses > FOUND * masses.max(initial=0.0)
    return Network(W[kept] / lengths[kept, None], V[kept] * lengths[kept, None], B)


def descend(
    problem: Problem,
    network: Network,
    *,
    steps: int = STEPS,
    annealed: int = 0,
    rescue: Callable[[Network], object] | None = None,
) -> Network:
    """Run Adam, then L-BFGS on both layers; return a network of unit neurons with no larger objective.

    Parameters
    ----------
    problem : Problem
    network : Network
    steps : int
        Steps of L-BFGS.
    annealed : int
        Steps of Adam.
    rescue : callable, optional
        Called with the best network so far when a deadline or an interrupt ends the descent, before it is re-raised.

    Examples
    --------
    >>> from covopt.losses import make_loss
    >>> loss = make_loss("squared")
    >>> _ = loss.encode_targets([3.0, 4.0])
    >>> start = Network(np.array([[0.8, 0.6]]), np.ones((1, 1)), np.zeros(1))
    >>> found = descend(Problem(np.eye(2), loss, 0.01), start)
    >>> (found.neurons * found.weights).round(2)
    array([[2.99, 3.99]])
    """
    if not len(network.neurons):
        return network
    (W, V), B = balanced(network), network.offset
    m, q = V.shape
    ends = np.cumsum([W.size, V.size])
    unit = 1.0 / np.sqrt(max(problem.offset_cost, 1.0)) if problem.has_offset else 0.0
    scale = 1.0 / max(abs(value_and_slope(problem, W, V, B)[0]), 1e-300)

    def split(variables: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        first, second, third = np.split(variables, ends)
        return first.reshape(m, -1) @ metric, second.reshape(m, q), third * unit

    metric, inverse = _metric(problem, float(np.square(V).sum(axis=1).mean()))
    start = np.concatenate([(W @ inverse).ravel(), V.ravel(), B / unit if unit else B])
    best: list[Any] = [np.inf, start]

    def objective(variables: np.ndarray) -> tuple[float, np.ndarray]:
        value, dW, dV, dB = value_and_slope(problem, *split(variables))
        if value < best[0]:
            best[:] = value, variables.copy()
        return scale * value, scale * np.concatenate([(dW @ metric).ravel(), dV.ravel(), unit * dB])

    options = {"maxiter": steps, "maxfun": 3 * steps, "ftol": 1e-14, "gtol": 0.0}
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            _anneal(objective, start, ends, annealed)
            found = minimize(objective, best[1], jac=True, method="L-BFGS-B", options=options)
    except (TimeUp, KeyboardInterrupt):
        if rescue is not None:
            with unlimited():
                rescue(of_unit_neurons(*split(best[1])))
        raise
    return of_unit_neurons(*split(found.x)) if found.fun <= 1.0 else network


def _anneal(objective: Callable, variables: np.ndarray, ends: np.ndarray, steps: int) -> None:
    """Take steps of Adam, whose lengths decrease to zero on a cosine schedule."""
    (first, second), mean, square = KEPT, 0.0, 0.0
    inner, outer, offset = np.split(variables, ends)
    inner, outer = (np.full(part.shape, RATE * np.sqrt(np.square(part).mean())) for part in (inner, outer))
    lengths = np.concatenate([inner, outer, np.full(offset.shape, outer[0])])
    for number in range(1, steps + 1):
        slope = objective(variables)[1]
        mean = first * mean + (1.0 - first) * slope
        square = second * square + (1.0 - second) * slope**2
        root = np.sqrt(square / (1.0 - second**number))
        step = mean / (1.0 - first**number) / np.where(root > 0.0, root, 1.0)
        variables = variables - 0.5 * (1.0 + np.cos(np.pi * number / steps)) * lengths * step


def _metric(problem: Problem, mass: float) -> tuple[np.ndarray, np.ndarray]:
    """Return P, about the inverse square root of the curvature in w for neurons of this mass, and P⁻¹, (r, r)."""
    weighed = problem.rows * np.sqrt(problem.loss.weights[:, :1])
    values, vectors = np.linalg.eigh(weighed.T @ weighed)
    roots = np.sqrt(1.0 + 0.5 * mass / problem.strength * np.maximum(values, 0.0))
    return (vectors / roots) @ vectors.T, (vectors * roots) @ vectors.T
