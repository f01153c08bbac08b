r"""Descent on both layers: the network that every large or limited fit begins with.

With neurons of any length, balanced or not, the reduced problem of :mod:`covopt.problems.regularised` is

    min over W (m, r), V (m, q), B    C(σ(Z Wᵀ) V + 1Bᵀ)/μ + ½(‖W‖² + ‖V‖²) + ½ ρ ‖B‖²,

since ‖w‖² + ‖v‖² ≥ 2‖w‖‖v‖ with equality where a neuron is balanced. It is not convex, and in practice benign: from
sixty random neurons some hundred steps of L-BFGS end next to the global minimum. What is missing then are a few
neurons, which the dual point −∇C/μ of the network names: those with ‖Λᵀσ(Zw)‖ > 1. They are added with little mass,
twins are merged, and the descent goes on (sliding Frank–Wolfe over all neurons). Every network is an upper bound.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from covopt.exact.rounding import relative_gap
from covopt.limits import TimeUp, checkpoint, unlimited
from covopt.oracles.heights import heights
from covopt.oracles.local_search import climb, climb_outputs
from covopt.problems.regularised import RegularisedProblem, best_constant
from covopt.solvers.merging import merge_alike
from covopt.solvers.points import Point, WarmStart
from covopt.status import Status

NEURONS = 60  # of the first network
STEPS, MEMORY = 400, 30  # of L-BFGS, for one descent
PIECE = 4096  # rows at a time
SAMPLE = 20_000  # rows of the first descent, and of merging
LOOKED_AT = 4000  # rows on which missing neurons are looked for
STARTS, FRESH = 24, 20  # climbs to missing neurons, and how many of those are added
SHARE = 0.01  # of the mean mass, that they begin with
ANGLES = 0.01, 0.1  # within which neurons of one cell are one
SAME = 1e-6  # relative rise of the objective that fewer neurons may bring
NEGLIGIBLE = 1e-9  # share of the largest mass below which a neuron is left out
WORTH = 1e-5  # relative fall of the objective that another pass has to bring
PASSES = 8
LONGEST = 30  # doublings of the step that tells how large outputs get
WIDTHS = 0.1, 0.01, 0.001  # of the corner of a loss that is rounded off


class Network(NamedTuple):
    """Unit neurons (m, r), weights (m, q), offset (q,)."""

    neurons: np.ndarray
    weights: np.ndarray
    offset: np.ndarray


def value_and_slope(
    problem: RegularisedProblem, W: np.ndarray, V: np.ndarray, B: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Return the objective of both layers and its derivatives, in pieces of rows.

    Parameters
    ----------
    problem : RegularisedProblem
    W : ndarray of shape (m, r)
    V : ndarray of shape (m, q)
    B : ndarray of shape (q,)
    """
    checkpoint()
    rows, mu = problem.rows, problem.strength
    active, fitted = [], np.empty((len(rows), V.shape[1]))
    keeps = len(rows) * len(W) <= 8 * SAMPLE * NEURONS  # else the activations are computed twice
    pieces = [slice(first, first + PIECE) for first in range(0, len(rows), PIECE)]
    for piece in pieces:
        atoms = rows[piece] @ W.T
        np.maximum(atoms, 0.0, out=atoms)
        fitted[piece] = atoms @ V
        if keeps:
            active.append(atoms)
    fitted += B
    value = problem.loss.value(problem.raise_outputs(fitted)) / mu + 0.5 * float(
        np.vdot(W, W) + np.vdot(V, V)
    )
    slope = -problem.dual_of(fitted)
    dW, dV = W.copy(), V.copy()
    for number, piece in enumerate(pieces):
        atoms = active[number] if keeps else np.maximum(rows[piece] @ W.T, 0.0)
        dV += atoms.T @ slope[piece]
        pulls = slope[piece] @ V.T
        pulls *= atoms > 0.0
        dW += pulls.T @ rows[piece]
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
    """Return the network with unit neurons, without those that weigh next to nothing."""
    lengths = np.linalg.norm(W, axis=1)
    masses = lengths * np.linalg.norm(V, axis=1)
    kept = masses > NEGLIGIBLE * masses.max(initial=0.0)
    return Network(W[kept] / lengths[kept, None], V[kept] * lengths[kept, None], B)


def descend(
    problem: RegularisedProblem,
    network: Network,
    *,
    steps: int = STEPS,
    rescue: Callable[[Network], object] | None = None,
) -> Network:
    """Return where L-BFGS on both layers leads from a network: one with no larger objective, balanced.

    Parameters
    ----------
    problem : RegularisedProblem
    network : Network
    steps : int
    rescue : callable, optional
        Is given the best network so far where a deadline or an interrupt ends the descent, before that is raised.

    Examples
    --------
    >>> from covopt.losses import make_loss
    >>> loss = make_loss("squared")
    >>> _ = loss.encode_targets([3.0, 4.0])
    >>> start = Network(np.array([[0.8, 0.6]]), np.ones((1, 1)), np.zeros(1))
    >>> found = descend(RegularisedProblem(np.eye(2), loss, 0.01), start)
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

    options = {"maxcor": MEMORY, "maxiter": steps, "maxfun": 3 * steps, "ftol": 1e-14, "gtol": 0.0}
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    except (TimeUp, KeyboardInterrupt):
        if rescue is not None:
            with unlimited():
                rescue(of_unit_neurons(*split(best[1])))
        raise
    return of_unit_neurons(*split(found.x)) if found.fun <= 1.0 else network


def _metric(problem: RegularisedProblem, mass: float) -> tuple[np.ndarray, np.ndarray]:
    """Return P and its inverse, (r, r): about the root of the inverse curvature in w of neurons of this mass."""
    weighed = problem.rows * np.sqrt(problem.loss.weights[:, :1])
    values, vectors = np.linalg.eigh(weighed.T @ weighed)
    roots = np.sqrt(1.0 + 0.5 * mass / problem.strength * np.maximum(values, 0.0))
    return (vectors / roots) @ vectors.T, (vectors * roots) @ vectors.T


class Descent:
    """The best network so far, of descents from random neurons and from those that are missing.

    Parameters
    ----------
    problem : RegularisedProblem
        With the norm as the price of a neuron.
    random_state : int, optional

    Attributes
    ----------
    point : Point
        The network, its objective, its dual point in the domain of the conjugate; its lower bound is 0, as nothing
        is known of the dual point's size yet. At first the best constant.
    """

    def __init__(self, problem: RegularisedProblem, random_state: int | None = None):
        self.problem = problem
        self.smooth = _rounded(problem, WIDTHS[-1])  # what descents see: corners of a loss would stop them
        self.rng = np.random.default_rng(0 if random_state is None else random_state)
        n, r = problem.rows.shape
        self.constant = best_constant(problem)
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
                warm=WarmStart(
                    network.neurons, network.weights, np.linalg.norm(network.weights, axis=1), network.offset, dual
                ),
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
            found = self._first() if start is None else descend(self.smooth, start, rescue=self.offer)
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
                found = descend(self.smooth, joined, rescue=self.offer)
                self.offer(found)
                self._merged(found)
                yield self.point
                if relative_gap(before, self.point.upper_bound) < WORTH:
                    break

    # ------------------------------------------------------------------ steps
    def _first(self) -> Network:
        """Descend from random neurons, on a sample of very many rows first."""
        problem = self.problem
        network = self.random_network()
        wider = [problem] if self.smooth is problem else [_rounded(problem, width) for width in WIDTHS]
        if self.smooth is not problem or len(problem.rows) > SAMPLE:
            for smooth in wider:
                network = descend(self.sampled(smooth, SAMPLE), network, rescue=self.offer)
            self.offer(network)
            network = self._merged(network)
        return descend(self.smooth, network, rescue=self.offer)

    def random_network(self) -> Network:
        """Random neurons, half of them uniform where the rows are round, with outputs half as large as wanted."""
        problem = self.problem
        r, q = problem.rows.shape[1], problem.n_outputs
        sample = problem.rows[self._chosen(SAMPLE)]
        neurons = self.rng.standard_normal((NEURONS, r))
        spread = np.linalg.pinv(np.linalg.qr(sample, mode="r"), rcond=1e-12).T
        neurons[::2] = neurons[::2, : len(spread)] @ spread
        neurons /= np.linalg.norm(neurons, axis=1, keepdims=True)
        weights = self.rng.standard_normal((NEURONS, q))
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
            points = climb_outputs(looked, part, starts, n_threads=1)[0]
        points = _units(points[np.unique(points.round(6), axis=0, return_index=True)[1]])
        pulls = heights(rows, dual, points)
        sizes = np.linalg.norm(pulls, axis=1)
        order = np.argsort(-sizes, kind="stable")[:FRESH]
        order = order[sizes[order] > 1.0 + SAME]
        if not len(order):
            return None
        masses = np.linalg.norm(self.point.weights, axis=1)
        mass = SHARE * float(masses.mean()) if len(masses) else SHARE * self._wanted()
        return points[order], mass * pulls[order] / sizes[order, None]

    # ------------------------------------------------------------------ rows
    def _chosen(self, most: int) -> np.ndarray:
        """Return rows that are not zero, at most so many."""
        return self.live if len(self.live) <= most else np.sort(self.rng.permutation(self.live)[:most])

    def sampled(self, problem: RegularisedProblem, most: int) -> RegularisedProblem:
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


def _rounded(problem: RegularisedProblem, width: float) -> RegularisedProblem:
    loss = problem.loss.smoothed(width)
    return problem if loss is problem.loss else dataclasses.replace(problem, loss=loss)


def _units(points: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(points, axis=1)
    return points[lengths > 0.0] / lengths[lengths > 0.0, None]
