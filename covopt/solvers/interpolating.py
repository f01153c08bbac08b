r"""Descent to an interpolating network: λ → 0 on both layers, then the least change of both that interpolates.

Few neurons can interpolate many points only if the neurons move. With W, V the layers of a balanced network, R its
residual and J the Jacobian of its outputs,

    min ‖δW‖² + ‖δV‖² + ρ ‖δB‖²   s.t.   J(δW, δV, δB) = R,

is a Gauss–Newton step in the norm that is minimised; its kernel J Jᵀ has a row for every target. Steps are shortened
where they cross kinks.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from scipy.linalg import LinAlgError, solve

from covopt.checks.memory import memory_left
from covopt.errors import Status
from covopt.exact.rank import COMPUTED, ROUGH
from covopt.limits import HALF, HURRY_S, TimeUp, checkpoint, defer_interrupts, limited, unlimited
from covopt.losses import make_loss
from covopt.problems.problem import PASSES, Problem
from covopt.solvers.both_layers import STEPS, Network, balanced, descend, of_unit_neurons
from covopt.solvers.descent import NEURONS, Descent
from covopt.solvers.least_norm import MOST_UNKNOWNS
from covopt.solvers.loop import Point, WarmStart
from covopt.solvers.postprocess import with_few_neurons
from covopt.solvers.quick import quick_network

SHARES = 0.1, 0.01, 0.001  # of a one-point λ_max, see :func:`squared_fits`
PER_UNKNOWN = 8  # parameters of the first network for each target
TRIES = 3  # corrections of one network, with a descent on the residual after each
BYTES = 40.0  # of a pair of a target with a neuron, or with another target


class InterpolatingDescent:
    """Descents from random neurons to interpolating networks; the cheapest one is kept.

    Parameters
    ----------
    problem : Problem
    random_state : int, optional

    Attributes
    ----------
    point : Point
        Its upper bound is infinite until a network interpolates; its dual is that of the least λ.

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
        if not self.targets.any():  # no neuron is needed
            self.point.upper_bound = 0.0
        self.network: Network | None = None  # current one of a descent
        self.n_neurons = max(NEURONS, PER_UNKNOWN * self.targets.size // max(problem.rows.shape[1], 1))

    def run(self, starts: int = 1, passes: int = 0) -> Iterator[Point]:
        """Yield the best point after each start; ``passes`` is ignored, and very many targets have no start."""
        size = self.targets.size
        needed = BYTES * size * (size + self.n_neurons)
        if not self.targets.any() or size > MOST_UNKNOWNS or needed > memory_left(needed):
            return
        for seed in range(self.seed, self.seed + starts):
            self._start(seed)
            yield self.point

    def _start(self, seed: int) -> None:
        """Descend from random neurons at decreasing λ, then correct the network to interpolate.

        If corrections fail, a descent on the residual adds neurons, so that the next corrections are small.
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
        """Return the network of descents from random neurons; ``keep`` gets each, finished or cut off."""
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
        self.point.warm = WarmStart(*network, self.point.dual)  # columns need not interpolate

    def rescue(self, seconds: float = HURRY_S) -> bool:
        """Correct the current network of the descent to interpolate, in half of the time; return whether one does.

        If corrections fail, a quick network that interpolates the residual is added to it. Without a descent, a quick
        network is made, which may take ``seconds``.
        """
        if self.network is None:
            with unlimited():
                return self.take_quick(seconds)
        with contextlib.suppress(TimeUp), limited(HALF * seconds):
            if self._meet(self.network):
                return True
        problem, (neurons, weights, offset) = self.problem, self.network
        rest = Problem.through(problem.rows, problem.residual(neurons, weights, offset), problem.offset_cost)
        with unlimited():
            quick = quick_network(rest, HURRY_S, self.seed)
            both = np.concatenate([neurons, quick.neurons]), np.concatenate([weights, quick.weights])
            return self._offer(*both, offset)

    def take_quick(self, seconds: float) -> bool:
        """Make a costlier network at once; on very many points it may have a small residual."""
        with defer_interrupts() as interrupted:  # what has begun is worth more than what may take its place
            self.point = self.point.merged(quick_network(self.problem, seconds, self.seed))
        if interrupted():
            raise KeyboardInterrupt
        return bool(np.isfinite(self.point.upper_bound))

    def _meet(self, network: Network) -> bool:
        return self._offer(*with_few_neurons(self.problem, *meet_points(self.problem, network)))

    def _offer(self, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> bool:
        """Keep a network if it interpolates at lower cost; return whether it interpolates."""
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
    """Return squared-loss fits at shares of max_i 2‖y_i‖‖z_i‖/N, the largest λ_max of a single point."""
    loss = make_loss("squared")
    loss.encode_targets(problem.targets)
    lengths = np.linalg.norm(problem.rows, axis=1)
    alone = 2.0 * float((np.linalg.norm(problem.targets, axis=1) * lengths).max()) / len(lengths)
    return [Problem(problem.rows, loss, share * alone, problem.offset_cost) for share in shares]


def meet_points(problem: Problem, network: Network) -> Network:
    """Correct both layers by least-norm steps until the network interpolates or steps get short.

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
    for _ in range(STEPS):
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
    """Return which neurons are active, (N, m), their activations, and the residual, (N, k)."""
    atoms = np.maximum(rows @ W.T, 0.0)
    return (atoms > 0.0).astype(float), atoms, targets - atoms @ V - B


def _kernel(problem: Problem, gram, atoms, active, V) -> tuple[np.ndarray, float]:
    """Return J Jᵀ, ordered by outputs first, and the factor from summed multipliers to the step of the offset."""
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
    if problem.has_offset:  # a free offset moves as easily as a point does
        lever = mean if problem.offset_cost == 0 else min(mean, 1.0 / problem.offset_cost)
        for c in range(k):
            kernel[c * n : (c + 1) * n, c * n : (c + 1) * n] += lever
    kernel[np.diag_indices(len(kernel))] += COMPUTED * mean
    return kernel, lever
