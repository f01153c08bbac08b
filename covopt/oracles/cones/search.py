"""All roots of the cover, to decide G(u) ≤ H‖u‖ and −G(u) ≤ H‖u‖ for all u.

The roots are walked in slices, all unfinished roots one slice a round, and what a round does depends on the rounds
before it only: the answer is the same for any number of threads.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from covopt.checks.speaking import tell
from covopt.exact.rounding import EPS
from covopt.oracles.cones.kernel import LEVELS, Stack, explore, plant
from covopt.oracles.cones.scalar import Scalar

SLICE = 4096  # boxes of a root between two looks at interrupts, deadlines and the other roots
POINTS = 64  # that are kept of a root
LISTS = ("rows", "centre", "radius", "theta")  # of a stack, an entry for each undecided row of each level


@dataclass
class Search:
    """What a search proved: σG(u) ≤ ``upper_bound``·‖u‖ for both signs σ, in exact arithmetic.

    Attributes
    ----------
    upper_bound : float
        H, or what it had to be raised to.
    nodes : int
        Boxes looked at.
    finished : bool
        False when boxes were left over at ``max_nodes``; they are in the bound all the same.
    points : ndarray of shape (m, r)
        Unit vectors with |G(u)| above the H of the moment.
    """

    upper_bound: float
    nodes: int
    finished: bool
    points: np.ndarray


@dataclass
class Root:
    """One root of a cover while it is walked: σ times the signs and the linear part of G, the path to its box."""

    weights: np.ndarray
    linear: np.ndarray
    stack: Stack
    met: list[np.ndarray] = field(
        default_factory=list
    )  # where climbs have ended from points above an H that grew

    @property
    def done(self) -> bool:
        """Whether every box has been looked at."""
        return bool(self.stack.state[0] < 0)

    def stopped(self, growth: float) -> bool:
        """No more to do, or no room for points of a search that collects them."""
        return self.done or (growth == 0.0 and self.stack.state[1] == len(self.stack.points))

    def walk(self, *, scalar: Scalar, sizes: np.ndarray, growth: float, budget: int) -> int:
        """Walk on by at most ``budget`` boxes."""
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
        """Points above the H of the moment."""
        return np.concatenate([*self.met, self.stack.points[: self.stack.state[1]]])

    def pending(self) -> float:
        """Largest bound of a box that was not looked at."""
        level = int(self.stack.state[0])
        if level <= 0:  # done, or not even the root was looked at
            return 0.0 if self.done else np.inf
        waiting = self.stack.stage[:level] == 1
        waiting[-1:] = True
        return float(self.stack.bound[:level][waiting].max(initial=0.0))


def make_stack(n: int, r: int) -> Stack:
    """Return room for the path to a box of n rows in dimension r, and for points."""
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
        points=np.zeros((POINTS, r)),
        state=np.zeros(3, np.int64),
        level=np.zeros(2),
    )


def longer(stack: Stack) -> Stack:
    """Double the list of rows."""
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
        Positive; what is to be proved.
    max_nodes : int
        Boxes, in all roots together; each root gets one at least.
    growth : float
        At 0 a point above H is recorded and its box is closed with its own bound, and a root with :data:`POINTS` of
        them stops. Otherwise H becomes the value at the local maximum above the point, times ``growth``, and the
        search goes on.
    stops : bool
        End after the first round of slices that has met a point: what is above H matters, not how far H is off.

    Examples
    --------
    >>> import numpy as np
    >>> from covopt.oracles.cones.scalar import Scalar
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
            share = min(SLICE, max(1, (max_nodes - nodes) // len(alive)))
            walk = partial(Root.walk, scalar=scalar, sizes=sizes, growth=growth, budget=share)
            nodes += sum(map(walk, alive) if pool is None else pool.map(walk, alive))
            rounds += 1
            text = f"boxes, round {rounds}: {nodes:,} looked at, {len(alive)} roots"
            tell(logging.DEBUG, text, "boxes", slices=rounds, n_boxes=nodes, parts=len(alive))
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
