r"""Descent on both layers: the network that every large or limited fit begins with.

The objective of both layers (:mod:`covopt.solvers.both_layers`) is not convex, and in practice benign: from
sixty random neurons some hundred steps end next to the global minimum. What is missing then are a few
neurons, which the dual point −∇C/μ of the network names: those with ‖Λᵀσ(Zw)‖ > 1. They are added with little mass,
twins are merged, and the descent goes on (sliding Frank–Wolfe over all neurons). Every network is an upper bound.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from covopt.errors import Status
from covopt.exact.rounding import relative_gap
from covopt.oracles.base import heights
from covopt.oracles.local_search import approach, climb, climb_outputs
from covopt.problems.problem import Problem
from covopt.solvers.both_layers import ANNEALED, PIECE, STEPS, Network, descend
from covopt.solvers.loop import Point, WarmStart
from covopt.solvers.merging import merge_alike

NEURONS = 60  # of the first network
SAMPLE = 20_000  # rows of the first descent, and of merging
FEW = 2000  # rows before those, on which steps are cheap
LOOKED_AT = 4000  # rows on which missing neurons are looked for
STARTS, FRESH = 24, 20  # climbs to missing neurons, and how many of those are added
SHARE = 0.01  # of the mean mass, that they begin with
ANGLES = 0.01, 0.1  # within which neurons of one cell are one
SAME = 1e-6  # relative rise of the objective that fewer neurons may bring
WORTH = 1e-5  # relative fall of the objective that another pass has to bring
EXCESS = 1e-3  # of a missing neuron that may bring it
PASSES = 8
LONGEST = 30  # doublings of the step that tells how large outputs get
WIDTH = 0.001  # of the corner of a loss that is rounded off


class Descent:
    """The best network so far, of descents from random neurons and from those that are missing.

    Parameters
    ----------
    problem : Problem
        With the norm as the price of a neuron.
    random_state : int, optional

    Attributes
    ----------
    point : Point
        The network, its objective, its dual point in the domain of the conjugate; its lower bound is 0, as nothing
        is known of the dual point's size yet. At first the best constant.
    """

    def __init__(self, problem: Problem, random_state: int | None = None):
        self.problem = problem
        self.smooth = _rounded(problem, WIDTH)  # what descents see: corners of a loss would stop them
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
        """Keep a network where it is the best so far, or worse by a share that fewer neurons are worth."""
        problem, point = self.problem, self.point
        fitted = self._fitted(network)
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
        """Yield the best point after each descent: from random neurons, then with those that are missing.

        Parameters
        ----------
        starts : int
            How often random neurons are tried.
        passes : int
            At most so many descents with missing neurons for each.
        start : Network, optional
            Where to begin instead of at random.
        """
        if not len(self.live) or not self.problem.dual_of(self._fitted(self.network)).any():
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
                if relative_gap(before, self.point.upper_bound) < WORTH:
                    break

    def rescue(self, seconds: float = np.inf) -> bool:
        """Make a network soon, where none was found yet; whether there is one."""
        for _ in self.run(1, 0):
            pass
        return bool(len(self.point.neurons))

    # ------------------------------------------------------------------ steps
    def _first(self) -> Network:
        """Descend from random neurons, on samples of very many rows first."""
        problem = self.problem
        self._offer_one()
        network = self.random_network()
        for most in (FEW, SAMPLE):
            if len(problem.rows) > most:
                network = self._descend(self.sampled(self.smooth, most), network)
                self.offer(network)
        if len(problem.rows) > SAMPLE:
            network = self._merged(network)
        return self._descend(self.smooth, network)

    def _descend(self, problem: Problem, network: Network) -> Network:
        """Descend, by Adam first where steps are cheap."""
        annealed = ANNEALED if len(problem.rows) <= FEW else 0
        return descend(problem, network, annealed=annealed, rescue=self.offer)

    def _offer_one(self) -> None:
        """Offer a neuron along ±Zᵀλ, with little mass: better than a constant, whatever the time and the noise."""
        lines = (self.problem.rows.T @ self.point.dual).T
        units = _units(np.concatenate([lines, -lines, self.problem.rows[self.live[:1]]]))
        pulls = heights(self.problem.rows, self.point.dual, units)
        sizes = np.linalg.norm(pulls, axis=1)
        best = int(sizes.argmax())
        if sizes[best] > 1.0:
            weights = SHARE * self._wanted() * pulls[best : best + 1] / sizes[best]
            self.offer(Network(units[best : best + 1], weights, self.constant))

    def random_network(self, n_neurons: int = NEURONS) -> Network:
        """Random neurons, half of them uniform where the rows are round, with outputs half as large as wanted."""
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
        """Root mean square of the step along −∇C from the best constant that lowers the loss well."""
        problem = self.problem
        raised = problem.raise_outputs(np.tile(self.constant, (len(problem.rows), 1)))
        slope = problem.loss.gradient(raised) / problem.loss.weights
        root = float(np.sqrt(np.square(slope).sum(axis=1).mean()))
        first = best = problem.loss.value(raised)
        length = (
            2.0**-LONGEST
            * max(float(np.abs(problem.loss.targets).max(initial=0.0)), 1e-300)
            / max(root, 1e-300)
        )
        reached = length
        for _ in range(2 * LONGEST):
            value = problem.loss.value(raised - length * slope)
            if value > best:
                break
            if value < best - 0.01 * first:
                reached = length
            best, length = value, 2.0 * length
        return reached * root

    def _merged(self, network: Network) -> Network:
        """Merge neurons that have met, and descend again; fewer neurons are kept where they are as good."""
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
            if not self.offer(fewer, SAME):
                break
            network = fewer
        return network

    def _missing(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return unit neurons with ‖Λᵀσ(Zw)‖ > 1, the best few, and the weights that they begin with."""
        problem, dual = self.problem, self.point.dual
        rows = problem.rows
        chosen = self._chosen(LOOKED_AT)
        part = np.ascontiguousarray(dual[chosen])
        lines = (rows.T @ dual).T
        normal = self.rng.standard_normal((STARTS, rows.shape[1]))
        edges = [
            rows[self.rng.choice(self.live, min(len(self.live), rows.shape[1] - 1))] for _ in range(STARTS)
        ]
        vertices = [np.linalg.svd(edge)[2][-1] for edge in edges] if rows.shape[1] > 1 else []
        largest = rows[np.abs(dual).argmax(axis=0)]
        starts = _units(np.concatenate([lines, -lines, largest, normal, *[v[None] for v in vertices]]))
        looked = np.ascontiguousarray(rows[chosen])
        if part.shape[1] == 1:
            none = np.zeros(rows.shape[1])
            ends = [climb(looked, sign * part[:, 0], none, starts, n_threads=1)[0] for sign in (1.0, -1.0)]
            points = np.concatenate(ends)
        else:
            points = climb_outputs(looked, part, approach(looked, part, starts), n_threads=1)[0]
        points = _units(points[np.unique(points.round(6), axis=0, return_index=True)[1]])
        pulls = heights(rows, dual, points)
        sizes = np.linalg.norm(pulls, axis=1)
        order = np.argsort(-sizes, kind="stable")[:FRESH]
        order = order[sizes[order] > 1.0 + EXCESS]
        if not len(order):
            return None
        masses = np.linalg.norm(self.point.weights, axis=1)
        mass = SHARE * float(masses.mean()) if len(masses) else SHARE * self._wanted()
        return points[order], mass * pulls[order] / sizes[order, None]

    # ------------------------------------------------------------------ rows
    def _chosen(self, most: int) -> np.ndarray:
        """Return rows that are not zero, at most so many."""
        return self.live if len(self.live) <= most else np.sort(self.rng.permutation(self.live)[:most])

    def sampled(self, problem: Problem, most: int) -> Problem:
        """Return the problem of some rows, which stand for all of them."""
        if len(problem.rows) <= most:
            return problem
        chosen = np.sort(self.rng.permutation(len(problem.rows))[:most])
        loss = problem.loss.take(chosen)
        loss.weights = loss.weights * (float(problem.loss.weights.sum()) / float(loss.weights.sum()))
        return dataclasses.replace(problem, rows=np.ascontiguousarray(problem.rows[chosen]), loss=loss)

    def _fitted(self, network: Network) -> np.ndarray:
        rows = self.problem.rows
        if not len(network.neurons):
            return np.tile(network.offset, (len(rows), 1))
        pieces = [rows[first : first + PIECE] for first in range(0, len(rows), PIECE)]
        return np.concatenate(
            [
                np.maximum(piece @ network.neurons.T, 0.0) @ network.weights + network.offset
                for piece in pieces
            ]
        )


def _rounded(problem: Problem, width: float) -> Problem:
    loss = problem.loss.smoothed(width)
    return problem if loss is problem.loss else dataclasses.replace(problem, loss=loss)


def _units(points: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(points, axis=1)
    return points[lengths > 0.0] / lengths[lengths > 0.0, None]
