r"""Descent on both layers: the network that every large or limited fit begins with.

The objective of both layers (:mod:`covopt.solvers.both_layers`) is not convex, and in practice benign: from
sixty random neurons some hundred steps end next to the global minimum. The few neurons that are then missing are
those with ‖Λᵀσ(Zw)‖ > 1 at the dual point Λ = −∇C/μ of the network. They are added with little mass, near-duplicates
are merged, and the descent goes on (sliding Frank–Wolfe over all neurons). Every network is an upper bound.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from covopt.errors import Status
from covopt.exact.rank import NEAR, ROUGH
from covopt.exact.rounding import relative_gap
from covopt.oracles.base import heights
from covopt.oracles.local_search import LocalSearchOracle, approach
from covopt.problems.problem import Problem
from covopt.solvers.both_layers import ANNEALED, STEPS, Network, descend
from covopt.solvers.loop import Point, WarmStart
from covopt.solvers.merging import merge_alike

NEURONS = 60  # of the first network
SAMPLE = 4000  # rows of the first descent, of merging, and of the search for missing neurons
STARTS = 24  # of the search for missing neurons, and most neurons added at once
SHARE = 0.01  # initial mass of a missing neuron, as a share of the mean mass
ANGLES = 0.01, 0.1  # in radians, within which neurons of one cell are merged
PASSES = 8


class Descent:
    """Descents from random neurons, then with missing neurons added; the best network is kept.

    Parameters
    ----------
    problem : Problem
        With the norm as the cost of a neuron.
    random_state : int, optional

    Attributes
    ----------
    point : Point
        The network, its objective, and its dual point, projected onto the domain of the conjugate. The lower bound is
        0, since no dual norm is computed here. Initially the best constant.
    """

    def __init__(self, problem: Problem, random_state: int | None = None):
        self.problem = problem
        self.smooth = _rounded(problem, ROUGH)  # for descents: corners of a loss would stop them
        self.rng = np.random.default_rng(0 if random_state is None else random_state)
        n, r = problem.rows.shape
        self.constant = problem.best_constant()
        self.point = Point(
            np.zeros((0, r)), np.zeros((0, problem.n_outputs)), self.constant, np.inf, np.zeros((n, 0)), 0.0,
            Status.TIME_LIMIT,
        )  # fmt: skip
        self.offer(Network(self.point.neurons, self.point.weights, self.constant))
        self.live = np.flatnonzero(problem.rows.any(axis=1))

    @property
    def network(self) -> Network:
        """The best so far."""
        return Network(self.point.neurons, self.point.weights, self.point.offset)

    def offer(self, network: Network, rise: float = 0.0) -> bool:
        """Keep a network with an objective below 1 + ``rise`` times the best; return whether it was kept."""
        problem, point = self.problem, self.point
        fitted = problem.fitted(*network)
        value = problem.primal_value(fitted, network.weights, network.offset)
        is_better = bool(value < point.upper_bound * (1.0 + rise))
        if is_better:
            dual = problem.project_dual(problem.dual_of(fitted))
            self.point = dataclasses.replace(
                point, neurons=network.neurons, weights=network.weights, offset=network.offset, upper_bound=value,
                dual=dual,
                warm=WarmStart(*network, dual),
            )  # fmt: skip
        return is_better

    def run(self, starts: int = 1, passes: int = PASSES, start: Network | None = None) -> Iterator[Point]:
        """Yield the best point after each descent: from random neurons, then with missing ones added.

        Parameters
        ----------
        starts : int
            Number of random starts.
        passes : int
            Most descents with missing neurons after each start.
        start : Network, optional
            Used instead of random neurons.
        """
        if not len(self.live) or not self.problem.dual_of(self.problem.fitted(*self.network)).any():
            return
        for _ in range(starts):
            found = self._first() if start is None else self._descend(self.smooth, start)
            self.offer(found)
            found = self._merged(found)
            yield self.point
            for _ in range(passes):
                before = self.point.upper_bound
                fresh = self._missing()
                if fresh is None:
                    break
                neurons, weights = (
                    np.concatenate(pair) for pair in zip(self.network[:2], fresh, strict=True)
                )
                joined = Network(neurons, weights, self.point.offset)
                found = self._descend(self.smooth, joined)
                self.offer(found)
                self._merged(found)
                yield self.point
                if relative_gap(before, self.point.upper_bound) < NEAR:
                    break

    def rescue(self, seconds: float = np.inf) -> bool:
        """Run one descent without passes; return whether there is a network with neurons."""
        for _ in self.run(1, 0):
            pass
        return bool(len(self.point.neurons))

    # ------------------------------------------------------------------ steps
    def _first(self) -> Network:
        """Descend from random neurons, first on a sample if there are very many rows."""
        problem = self.problem
        network = self.random_network()
        chosen = self._chosen(SAMPLE)
        fresh = self._wanting(approach(problem.rows[chosen], self.point.dual[chosen], network.neurons))
        if fresh is not None:  # better than a constant, however short the time or strong the noise
            shares = 0.25 ** np.arange(6)
            any(self.offer(Network(fresh[0], share * fresh[1], self.constant)) for share in shares)
        if len(problem.rows) > SAMPLE:
            network = self._descend(self.sampled(self.smooth, SAMPLE), network)
            self.offer(network)
            network = self._merged(network)
        return self._descend(self.smooth, network)

    def _descend(self, problem: Problem, network: Network) -> Network:
        """Descend, by Adam first where steps are cheap."""
        annealed = ANNEALED if len(problem.rows) <= SAMPLE else 0
        return descend(problem, network, annealed=annealed, rescue=self.offer)

    def random_network(self, n_neurons: int = NEURONS) -> Network:
        """Return random neurons, half of them uniform in whitened coordinates, scaled to half the wanted outputs."""
        problem = self.problem
        r, q = problem.rows.shape[1], problem.n_outputs
        sample = problem.rows[self._chosen(SAMPLE)]
        neurons = self.rng.standard_normal((n_neurons, r))
        spread = np.linalg.pinv(np.linalg.qr(sample, mode="r"), rcond=1e-12).T
        neurons[::2] = neurons[::2, : len(spread)] @ spread
        neurons /= np.linalg.norm(neurons, axis=1, keepdims=True)
        weights = self.rng.standard_normal((n_neurons, q))
        size = float(np.sqrt(np.square(np.maximum(sample @ neurons.T, 0.0) @ weights).sum(axis=1).mean()))
        return Network(neurons, weights * (0.5 * self._wanted() / max(size, 1e-300)), self.constant)

    def _wanted(self) -> float:
        """Return the root mean square residual of the best constant: about how large outputs get."""
        missed = self.problem.loss.targets - self.problem.raise_outputs(self.constant)
        return float(np.sqrt(np.square(missed).sum(axis=1).mean()))

    def _merged(self, network: Network) -> Network:
        """Merge neurons that nearly coincide, and descend again; keep the fewer neurons if they are as good."""
        rows = self.problem.rows[self._chosen(SAMPLE)]
        for angle in ANGLES:
            if not len(network.neurons):
                break
            units, weights = merge_alike(rows, network.neurons, network.weights, angle)
            if len(units) == len(network.neurons):
                continue
            fewer = descend(
                self.problem, Network(units, weights, network.offset), steps=STEPS // 4, rescue=self.offer
            )
            if not self.offer(fewer, NEAR):
                break
            network = fewer
        return network

    def _missing(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return missing neurons that power steps find, else climbs, and their initial weights, or None."""
        chosen = self._chosen(SAMPLE)
        rows, dual = self.problem.rows[chosen], self.point.dual[chosen]
        fresh = self._wanting(approach(rows, dual, self.random_network().neurons))
        if fresh is not None:
            return fresh
        search = LocalSearchOracle(rows, n_starts=STARTS, random_state=self.rng, n_threads=1)
        return self._wanting(search.search(dual[:, 0] if self.problem.is_scalar else dual).neurons)

    def _wanting(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the best few unit neurons with ‖Λᵀσ(Zw)‖ > 1 and their initial weights, or None."""
        pulls = heights(self.problem.rows, self.point.dual, points)
        sizes = np.linalg.norm(pulls, axis=1)
        order = np.argsort(-sizes, kind="stable")[:STARTS]
        order = order[sizes[order] > 1.0 + ROUGH]
        if not len(order):
            return None
        masses = np.linalg.norm(self.point.weights, axis=1)
        mass = SHARE * float(masses.mean()) if len(masses) else SHARE * self._wanted()
        return points[order], mass * pulls[order] / sizes[order, None]

    # ------------------------------------------------------------------ rows
    def _chosen(self, most: int) -> np.ndarray:
        """Return the indices of nonzero rows, a random sample where there are more than ``most``."""
        return self.live if len(self.live) <= most else np.sort(self.rng.permutation(self.live)[:most])

    def sampled(self, problem: Problem, most: int) -> Problem:
        """Return the problem on a random sample of rows, with the total weight of all rows."""
        if len(problem.rows) <= most:
            return problem
        chosen = np.sort(self.rng.permutation(len(problem.rows))[:most])
        loss = problem.loss.take(chosen)
        loss.weights = loss.weights * (float(problem.loss.weights.sum()) / float(loss.weights.sum()))
        return dataclasses.replace(problem, rows=np.ascontiguousarray(problem.rows[chosen]), loss=loss)


def _rounded(problem: Problem, width: float) -> Problem:
    loss = problem.loss.smoothed(width)
    return problem if loss is problem.loss else dataclasses.replace(problem, loss=loss)
