r"""A certified upper bound on h(λ) = max over ‖w‖ ≤ 1 of |Σ λ_i σ(x_i·w)|, and neurons above a level, by boxes.

The search decides whether G ≤ H for one H. The first H is the best local maximum plus the tolerance, since a proof
costs hardly more at 10⁻⁶ than at 10⁻²; a point above H raises it and the search continues. If that takes too many
boxes, the search proves the geometric mean of value and bound, repeatedly; the last bound proved is returned.

All roots of the cover are walked in slices (:func:`search`): each round walks one slice of every unfinished root. A
round depends only on the rounds before it, so the answer is the same for any number of threads.
"""

from __future__ import annotations

import logging
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from covopt.checks.log import log_event
from covopt.exact.rank import COMPUTED, ROUGH
from covopt.exact.rounding import EPS, SLIP
from covopt.limits import PIECE
from covopt.oracles.ascent import LEAST_SWEEPS
from covopt.oracles.base import MOST_KEPT, WORK, Pricing, heights, kept, ranked
from covopt.oracles.boxes.kernel import LEVELS, Stack, explore, plant
from covopt.oracles.boxes.quadratic_search import MOST_QUADRATIC_DIMENSIONS
from covopt.oracles.boxes.scalar import DualNormBound, Scalar

LISTS = ("rows", "centre", "radius", "theta")  # lists of a stack: one entry per undecided row and level


@dataclass
class Search:
    """Result of a search: σG(u) ≤ ``upper_bound``·‖u‖ for both signs σ, in exact arithmetic.

    Attributes
    ----------
    upper_bound : float
        H, or the value to which it was raised.
    nodes : int
        Boxes visited.
    finished : bool
        False when boxes were left over at ``max_nodes``; the bound includes them.
    points : ndarray of shape (m, r)
        Unit vectors with |G(u)| above the current H.
    """

    upper_bound: float
    nodes: int
    finished: bool
    points: np.ndarray


@dataclass
class Root:
    """One root of a cover and its walk: σ times the signs and the linear part of G, and the path to its box."""

    weights: np.ndarray
    linear: np.ndarray
    stack: Stack
    # end points of climbs from points above an H that was raised
    met: list[np.ndarray] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether every box has been visited."""
        return bool(self.stack.state[0] < 0)

    def stopped(self, growth: float) -> bool:
        """Return whether nothing is left to do, or no room for points in a search that collects them."""
        return self.done or (growth == 0.0 and self.stack.state[1] == len(self.stack.points))

    def walk(self, *, scalar: Scalar, sizes: np.ndarray, growth: float, budget: int) -> int:
        """Continue the walk by at most ``budget`` boxes; return how many were visited."""
        used = 0
        while used < budget and not self.stopped(growth):
            used += explore(scalar.y, self.weights, self.linear, sizes, self.stack, growth, budget - used)
            if growth > 0.0 and self.stack.state[1] > 0:
                self.met.append(scalar.ascend(self.stack.points[:1]))
                highest = float(np.abs(scalar(self.met[-1])).max())
                self.stack.level[0], self.stack.state[1] = max(self.stack.level[0], highest) * growth, 0
            elif not self.stopped(growth) and used < budget:
                self.stack = longer(self.stack)
        return used

    @property
    def points(self) -> np.ndarray:
        """Points above the current H."""
        return np.concatenate([*self.met, self.stack.points[: self.stack.state[1]]])

    def pending(self) -> float:
        """Return the largest bound of a box that was not visited."""
        level = int(self.stack.state[0])
        if level <= 0:  # done, or not even the root was visited
            return 0.0 if self.done else np.inf
        waiting = self.stack.stage[:level] == 1
        waiting[-1:] = True
        return float(self.stack.bound[:level][waiting].max(initial=0.0))


def make_stack(n: int, r: int) -> Stack:
    """Allocate the path to a box of n rows in dimension r, and the points."""
    depth = LEVELS * (r - 1) + 2
    capacity = 8 * n + 64
    return Stack(
        rows=np.empty(capacity, np.int32),
        centre=np.empty(capacity),
        radius=np.empty(capacity),
        theta=np.empty(capacity),
        first=np.zeros(depth + 1, np.int64),
        u0=np.zeros((depth, r)),
        s=np.zeros((depth, r)),
        g=np.zeros((depth, r)),
        g_low=np.zeros((depth, r)),
        axis=np.zeros(depth, np.int64),
        stage=np.zeros(depth, np.int64),
        bound=np.zeros(depth),
        points=np.zeros((MOST_KEPT, r)),
        state=np.zeros(3, np.int64),
        level=np.zeros(2),
    )


def longer(stack: Stack) -> Stack:
    """Return the stack with lists of twice the length."""
    lists = {
        name: np.concatenate([getattr(stack, name), np.empty_like(getattr(stack, name))]) for name in LISTS
    }
    return stack._replace(**lists)


def search(
    scalar: Scalar,
    H: float,
    *,
    max_nodes: int,
    growth: float = 0.0,
    stops: bool = False,
    n_threads: int = 1,
) -> Search:
    r"""Bound G(u) and −G(u) over unit u.

    Parameters
    ----------
    scalar : Scalar
        G, of rows in at least one dimension.
    H : float
        Positive; the bound to prove.
    max_nodes : int
        Most boxes, in all roots together; each root gets at least one.
    growth : float
        At 0 a point above H is recorded and its box is closed with its own bound; a root with
        :data:`MOST_KEPT` points stops. Otherwise H is raised to the value at the local maximum above the point, times
        ``growth``, and the search continues.
    stops : bool
        End after the first round of slices that finds a point: any point above H is enough.

    Examples
    --------
    >>> import numpy as np
    >>> from covopt.oracles.boxes.scalar import Scalar
    >>> plane = Scalar(np.eye(2), np.ones(2))
    >>> top = float(np.linalg.norm(plane.y))
    >>> answer = search(plane, 0.9 * top, max_nodes=1000)
    >>> answer.upper_bound == 0.9 * top, answer.finished
    (False, True)
    >>> answer = search(plane, top * (1 + 1e-9), max_nodes=1000)
    >>> answer.upper_bound == top * (1 + 1e-9), len(answer.points)
    (True, 0)
    """
    rows, (n, r) = scalar.y, scalar.y.shape
    sizes = scalar.sizes * (1 + n * EPS)
    roots: list[Root] = []
    for sigma in (1.0, -1.0):
        for a in range(r):
            for side in (1.0, -1.0):
                root = Root(sigma * scalar.signs, sigma * scalar.linear, make_stack(n, r))
                plant(rows, root.weights, root.linear, root.stack, a, side, H)
                roots.append(root)

    nodes, rounds = 0, 0
    with ThreadPoolExecutor(max(n_threads, 1)) as threads:
        pool = threads if n_threads > 1 else None
        alive = roots
        while alive and (nodes < max_nodes or nodes == 0):
            # boxes of a root between two checks of interrupts, deadlines and the other roots
            share = max(1, min(PIECE // max(rows.size, 1), (max_nodes - nodes) // len(alive)))
            walk = partial(Root.walk, scalar=scalar, sizes=sizes, growth=growth, budget=share)
            nodes += sum(map(walk, alive) if pool is None else pool.map(walk, alive))
            rounds += 1
            text = f"boxes, round {rounds}: {nodes:,} looked at, {len(alive)} roots"
            log_event(logging.DEBUG, text, "boxes", slices=rounds, n_boxes=nodes, parts=len(alive))
            if growth > 0.0:
                H = max(root.stack.level[0] for root in roots)
                for root in alive:
                    root.stack.level[0] = H
            alive = [root for root in roots if not root.stopped(growth)]
            if stops and any(root.stack.state[1] for root in roots):
                break

    H = max(H, *(root.stack.level[0] for root in roots))
    raised = max(max(root.pending(), root.stack.level[1]) for root in roots)
    upper = H if raised == 0.0 else float(np.nextafter(H + raised, np.inf))
    return Search(
        upper, nodes, all(root.done for root in roots), np.concatenate([root.points for root in roots])
    )


def box_limit(rank: int, effort: float = 1.0) -> int:
    """Return the box limit for an effort: boxes are compiled, and those that matter have few undecided rows.

    A box takes some eight passes over five rows per coordinate, five operations for each of their entries: 2 µs in
    four dimensions, 9 in eight.

    Examples
    --------
    >>> box_limit(4), box_limit(8, 0.5)
    (5000000, 625000)
    """
    return int(effort * WORK / (LEAST_SWEEPS * (5.0 * max(rank, 1)) ** 2))


def box_dual_norm(
    rows: np.ndarray,
    dual: np.ndarray,
    *,
    neurons: np.ndarray | None = None,
    rtol: float = 1e-9,
    max_nodes: int | None = None,
    n_threads: int = 1,
    random_state: int = 0,
    goal: float = 0.0,
) -> DualNormBound:
    r"""Bound h(λ) = max over ‖w‖₂ ≤ 1 of |Σ_i λ_i σ(x_i·w)| from above.

    The bound holds in exact arithmetic for the rows and the dual as given: the error of the coordinates and all
    rounding are added (:mod:`covopt.oracles.boxes.scalar`, :mod:`covopt.oracles.boxes.kernel`), about 10⁻¹⁴
    Σ|λ_i|‖x_i‖ in all. It is valid for any number of boxes; more boxes, at 1–2 µs each, make it tighter.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        x_i, with their bias coordinate; of any scale, dependent or repeated rows included.
    dual : ndarray of shape (N,)
        λ.
    neurons : ndarray of shape (m, D), optional
        Starting directions in addition to those of a local search.
    rtol : float
        Relative tolerance between the bound and the largest |F| found. Where the maximum is one point, the bound
        comes closer (:data:`COMPUTED`), with no more boxes.
    max_nodes : int, optional
        Most boxes; :func:`box_limit` by default.
    n_threads : int
        Does not change the answer.
    random_state : int
        For the local search.
    goal : float
        A bound at most this is good enough.

    Raises
    ------
    InputError
        For arrays of the wrong shape, infinite or missing numbers.

    Examples
    --------
    >>> import numpy as np
    >>> answer = box_dual_norm(np.eye(2), np.array([3.0, 4.0]))
    >>> answer.closed, 5.0 <= answer.upper_bound <= 5.00000001
    (True, True)
    >>> answer.best_neuron.round(9), round(answer.best_value, 9)
    (array([0.6, 0.8]), 5.0)
    """
    scalar = Scalar(rows, dual)
    if scalar.V.shape[1] == 0:
        return scalar.answer(0.0, 0, rtol)
    scalar.search(neurons, random_state)
    lowest = trivial = scalar.norms()
    max_nodes = box_limit(scalar.V.shape[1]) if max_nodes is None else max_nodes
    met, nodes = scalar.lower(goal), 0
    wanted = min(max(scalar.best, SLIP * trivial, met - scalar.rounding(met)), trivial)

    def ask(H: float, budget: int, rtol: float = rtol) -> bool:
        nonlocal lowest, nodes
        level, growth = H * (1.0 + 0.5 * rtol) + scalar.rounding(H), 1.0 + 0.5 * rtol
        found = search(scalar, level, max_nodes=budget, growth=growth, n_threads=n_threads)
        nodes += found.nodes
        scalar.offer(found.points)
        if found.upper_bound < lowest:
            lowest = found.upper_bound
            scalar.lift(lowest)
        return found.finished

    few = scalar.V.shape[1] <= MOST_QUADRATIC_DIMENSIONS
    # spend half of the boxes on the H that is wanted
    if few and not ask(wanted, max(max_nodes // 2, 1), min(rtol, COMPUTED)):
        while nodes < max_nodes:
            base = max(scalar.best, wanted)
            mean = math.sqrt(base * lowest)
            is_near = mean <= (1.0 + ROUGH) * base
            if not ask(base if is_near else mean, max_nodes - nodes) or is_near:
                break
    return scalar.answer(lowest, nodes, rtol)


class BoxOracle:
    """Pricing by boxes, for scalar outputs in any dimension.

    With a threshold H the answer contains the maxima that climbs from boxes above H reach. If there are none it is a
    proved bound of about H. Without a threshold it is that of :func:`box_dual_norm`.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        Any rows; dependent, repeated and zero ones included.
    max_nodes : int, optional
        Most boxes per pricing, :func:`box_limit` by default. At the limit the bound is weaker, but still valid.
    rtol : float
        Tolerance of a pricing without a threshold.
    n_threads : int

    Examples
    --------
    >>> import numpy as np
    >>> oracle = BoxOracle(np.eye(3))
    >>> answer = oracle.price(np.array([3.0, 4.0, -6.0]), threshold=5.5)
    >>> answer.neurons.round(9), answer.values.round(9)
    (array([[0., 0., 1.]]), array([-6.]))
    >>> answer = oracle.price(np.array([3.0, 4.0, -6.0]), threshold=6.5)
    >>> len(answer.neurons), 6.0 <= answer.upper_bound < 6.5000001
    (1, True)
    """

    def __init__(
        self, rows: np.ndarray, *, max_nodes: int | None = None, rtol: float = 1e-9, n_threads: int = 1
    ):
        self.rows = np.ascontiguousarray(rows, dtype=float)
        self.max_nodes = box_limit(self.rows.shape[1]) if max_nodes is None else max_nodes
        self.rtol = rtol
        self.n_threads = n_threads

    def price(
        self,
        dual: np.ndarray,
        *,
        threshold: float = 0.0,
        max_neurons: int | None = None,
        complete: bool = False,
    ) -> Pricing:
        """Return maxima of |F| above ``threshold``, always the best one known, and a valid bound on h(λ).

        Arguments as in :class:`covopt.oracles.base.Oracle`. With ``complete`` and a threshold the search ends when
        every root has been walked, not when a few points are found. Maxima that share a box above the threshold with
        a better one may still be missing.
        """
        scalar = Scalar(self.rows, dual)
        if not threshold > 0.0 or not 0 < scalar.V.shape[1] <= MOST_QUADRATIC_DIMENSIONS:
            found = box_dual_norm(
                self.rows, dual, rtol=self.rtol, max_nodes=self.max_nodes, n_threads=self.n_threads
            )
            exact = found.upper_bound <= abs(found.best_value) * (1.0 + 2.0 * self.rtol)
            return Pricing(found.best_neuron[None], np.array([found.best_value]), found.upper_bound, exact)
        answer = search(
            scalar,
            scalar.lower(threshold),
            max_nodes=self.max_nodes,
            stops=not complete,
            n_threads=self.n_threads,
        )
        points = scalar.ascend(answer.points)
        if not len(answer.points):
            scalar.search()
            points = np.concatenate([points, scalar.point[None]]) if scalar.point is not None else points
        neurons = points @ scalar.V.T
        neurons /= np.linalg.norm(neurons, axis=1, keepdims=True)
        neurons, values = ranked(neurons, heights(self.rows, scalar.dual, neurons))
        upper = scalar.lift(min(answer.upper_bound, scalar.norms()))
        best = float(np.abs(values[0]))
        return Pricing(*kept(neurons, values, threshold, max_neurons), max(upper, best), exact=False)
