r"""Descent to a network through the points: λ → 0 on both layers, then the least change of both that meets them.

Few neurons may interpolate many points only where they move. With W, V the layers of a balanced network, R what it
misses and J the Jacobian of its outputs,

    min ‖δW‖² + ‖δV‖² + ρ ‖δB‖²   s.t.   J(δW, δV, δB) = R,

is a Gauss–Newton step in the norm that is minimised; its kernel J Jᵀ has a row for every target. Kinks that are
crossed shorten steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from scipy.linalg import LinAlgError, solve

from covopt.errors import Status
from covopt.exact.rank import COMPUTED, ROUGH
from covopt.limits import HALF, HURRY_S, checkpoint, unlimited
from covopt.losses import make_loss
from covopt.problems.problem import PASSES, Problem
from covopt.solvers.both_layers import STEPS, Network, balanced, descend, of_unit_neurons
from covopt.solvers.descent import NEURONS, Descent
from covopt.solvers.least_norm import MOST_UNKNOWNS
from covopt.solvers.loop import Point, WarmStart
from covopt.solvers.postprocess import with_few_neurons
from covopt.solvers.quick import quick_network

SHARES = 0.1, 0.01, 0.001  # of the λ at which one point alone would count
PER_UNKNOWN = 8  # parameters of the first network for each target
TRIES = 3  # corrections of one network, with a descent on what is missed after each
CORRECTIONS = 100  # Gauss–Newton steps at most


class InterpolatingDescent:
    """The cheapest network through the points so far, of descents from random neurons.

    Parameters
    ----------
    problem : Problem
    random_state : int, optional

    Attributes
    ----------
    point : Point
        Its upper bound is infinite as long as no network has met the points; its dual is that of the least λ.

    Examples
    --------
    >>> descent = InterpolatingDescent(Problem.through(np.eye(3), np.array([1.0, 0.5, -0.5])))
    >>> for point in descent.run(3):
    ...     pass
    >>> bool(point.upper_bound < 2.0)
    True
    """

    def __init__(self, problem: Problem, random_state: int | None = None):
        self.problem, self.seed = problem, 0 if random_state is None else random_state
        self.targets = problem.targets
        self.point = Point.nothing(problem, Status.TIME_LIMIT)
        if not self.targets.any():  # no neurons are optimal
            self.point.upper_bound = 0.0
        self.network: Network | None = None  # where a descent is
        self.n_neurons = max(NEURONS, PER_UNKNOWN * self.targets.size // max(problem.rows.shape[1], 1))

    def run(self, starts: int = 1, passes: int = 0) -> Iterator[Point]:
        """Yield the best point after each start; there are no passes, and no starts for very many targets."""
        if not self.targets.any() or self.targets.size > MOST_UNKNOWNS:
            return
        for seed in range(self.seed, self.seed + starts):
            self._start(seed)
            yield self.point

    def _start(self, seed: int) -> None:
        """Descend from random neurons at smaller and smaller λ, then meet the points.

        Where corrections do not meet them, another descent on what is missed adds neurons: then they are small.
        """
        problem, network = self.problem, self._descended(self.problem, seed, self._keep)
        for number in range(1, TRIES + 1):
            if self._meet(network):
                break
            rest = Problem.through(problem.rows, problem.residual(*network), problem.offset_cost)
            more = self._descended(rest, seed + number)
            neurons, weights = (np.concatenate(pair) for pair in zip(network[:2], more[:2], strict=True))
            network = Network(neurons, weights, network.offset + more.offset)
            self._move_to(network)
        else:
            self.rescue()

    def _descended(
        self, problem: Problem, seed: int, keep: Callable[[Problem, Network], None] | None = None
    ) -> Network:
        """Return where descents lead from random neurons; ``keep`` sees where each ends, or is ended."""
        fits = squared_fits(problem, SHARES)
        network = Descent(fits[0], seed).random_network(self.n_neurons)
        for fit in fits:
            network = descend(fit, network, steps=2 * STEPS, rescue=keep and partial(keep, fit))
            if keep is not None:
                keep(fit, network)
        return network

    def _keep(self, fit: Problem, network: Network) -> None:
        self.point.dual = self.problem.project_dual(fit.dual_of(fit.fitted(*network)))
        self._move_to(network)

    def _move_to(self, network: Network) -> None:
        self.network = network
        self.point.warm = WarmStart(*network, self.point.dual)  # columns need not pass through the points

    def rescue(self, seconds: float = HURRY_S) -> bool:
        """Take the network where the descent is, or was ended, through the points; whether that came out.

        Where corrections do not meet them, a quick network through what it misses stands beside it. Without a descent
        a quick one may take so many seconds.
        """
        if self.network is None:
            with unlimited():
                return self.take_quick(seconds)
        if self._meet(self.network):
            return True
        problem, (neurons, weights, offset) = self.problem, self.network
        rest = Problem.through(problem.rows, problem.residual(neurons, weights, offset), problem.offset_cost)
        quick = quick_network(rest, HURRY_S, self.seed)
        both = np.concatenate([neurons, quick.neurons]), np.concatenate([weights, quick.weights])
        return self._offer(*both, offset)

    def take_quick(self, seconds: float) -> bool:
        """Take a network that costs more, in next to no time; on very many points it may miss some by a little."""
        self.point = self.point.merged(quick_network(self.problem, seconds, self.seed))
        return bool(np.isfinite(self.point.upper_bound))

    def _meet(self, network: Network) -> bool:
        return self._offer(*meet_points(self.problem, network))

    def _offer(self, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> bool:
        """Keep a network that meets the points at a lower cost, with few neurons; whether it meets them."""
        neurons, weights, offset = with_few_neurons(self.problem, neurons, weights, offset)
        missed = self.problem.missed(neurons, weights, offset)
        value = self.problem.network_value(weights, offset)
        meets = bool(missed <= PASSES * np.abs(self.targets).max())
        if meets and value < self.point.upper_bound:
            self.point = dataclasses.replace(
                self.point, neurons=neurons, weights=weights, offset=offset, upper_bound=value,
                warm=WarmStart(neurons, weights, offset, self.point.dual),
            )  # fmt: skip
        return meets


def squared_fits(problem: Problem, shares: Sequence[float]) -> list[Problem]:
    """Return fits of the points at shares of the λ at which one point alone would count."""
    loss = make_loss("squared")
    loss.encode_targets(problem.targets)
    lengths = np.linalg.norm(problem.rows, axis=1)
    alone = 2.0 * float((np.linalg.norm(problem.targets, axis=1) * lengths).max()) / len(lengths)
    return [Problem(problem.rows, loss, share * alone, problem.offset_cost) for share in shares]


def meet_points(problem: Problem, network: Network) -> Network:
    """Change both layers, as little as possible, until the network passes through the points or steps get short.

    Parameters
    ----------
    problem : Problem
    network : Network
    """
    rows, targets = problem.rows, problem.targets
    size = float(np.abs(targets).max())
    gram = rows @ rows.T
    layers = (*balanced(network), network.offset)
    active, atoms, missed = _forward(rows, targets, *layers)
    for _ in range(CORRECTIONS):
        checkpoint()
        if np.abs(missed).max() <= COMPUTED * size:
            break
        kernel, lever = _kernel(problem, gram, atoms, active, layers[1])
        try:
            multipliers = solve(kernel, missed.T.ravel(), assume_a="pos").reshape(missed.T.shape).T
        except LinAlgError:
            break
        step = (
            ((multipliers @ layers[1].T) * active).T @ rows, atoms.T @ multipliers,
            lever * multipliers.sum(axis=0),
        )  # fmt: skip
        length, before = 1.0, float(np.linalg.norm(missed))
        while length > ROUGH:
            tried = tuple(part + length * change for part, change in zip(layers, step, strict=True))
            found = _forward(rows, targets, *tried)
            if np.linalg.norm(found[2]) < before:
                break
            length *= HALF
        else:
            break
        layers, (active, atoms, missed) = tried, found
    return of_unit_neurons(*layers)


def _forward(rows, targets, W, V, B) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which neurons are active, (N, m), their activations, and what the outputs miss, (N, k)."""
    atoms = np.maximum(rows @ W.T, 0.0)
    return (atoms > 0.0).astype(float), atoms, targets - atoms @ V - B


def _kernel(problem: Problem, gram, atoms, active, V) -> tuple[np.ndarray, float]:
    """Return J Jᵀ, outputs first, and how much of a multiplier the offset takes."""
    n, k = len(atoms), V.shape[1]
    kernel, common = np.empty((k, n, k, n)), atoms @ atoms.T
    for c in range(k):
        for d in range(c, k):
            block = gram * ((active * (V[:, c] * V[:, d])) @ active.T)
            kernel[c, :, d] = block
            kernel[d, :, c] = block.T
    for c in range(k):
        kernel[c, :, c] += common
    kernel = kernel.reshape(n * k, n * k)
    mean = float(np.trace(kernel)) / len(kernel)
    lever = 0.0
    if problem.has_offset:  # one that costs nothing moves as easily as a point does
        lever = mean if problem.offset_cost == 0 else min(mean, 1.0 / problem.offset_cost)
        for c in range(k):
            kernel[c * n : (c + 1) * n, c * n : (c + 1) * n] += lever
    kernel[np.diag_indices(len(kernel))] += COMPUTED * mean
    return kernel, lever
