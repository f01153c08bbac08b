"""All roots of the cover, to decide G(u) ≤ H‖u‖ and −G(u) ≤ H‖u‖ for all u.

The roots are walked in slices, all unfinished roots one slice a round, and what a round does depends on the rounds
before it only: the answer is the same for any number of threads, and for the workers of a cluster
(:mod:`covopt.parallel`), which get the path to the current box and send back the cuts and the path to the next one.
In a long search a root that is left with few others gives halves that wait to parts of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from covopt.oracles.cones.kernel import LEVELS, Stack, cut, explore, plant
from covopt.parallel import active_cluster

LARGEST_SLICE = 1 << 16  # so that interrupts and deadlines are heard in between
LARGEST_ROUND = 1 << 22  # boxes, once roots are split
FIRST_SLICE = 2048
WORTH_SENDING = 1 << 12  # boxes of a slice: some 10 ms
PARTS = 64  # that long searches are split into
MOST_POINTS = 64
LISTS = ("rows", "centre", "radius", "theta")  # of a stack, an entry for each undecided row of each level
LEVELS_OF = ("u0", "s", "g", "g_low", "axis", "stage", "bound")  # of a stack, an entry for each level


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
    roots : list of ndarray of uint8
        The cuts of each root in preorder: 0 for a leaf, j + 1 for a box that is cut along u_j. Roots are ordered by
        sign (+, −), chart axis a, side (+, −).
    """

    upper_bound: float
    nodes: int
    finished: bool
    points: np.ndarray
    roots: list[np.ndarray]

    @property
    def tree(self) -> np.ndarray:
        """All roots in one array."""
        return np.concatenate(self.roots)


@dataclass
class _Root:
    weights: np.ndarray
    linear: np.ndarray
    old: np.ndarray
    stack: Stack
    slices: list[np.ndarray] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return bool(self.stack.state[0] < 0)

    def stopped(self, growth: float) -> bool:
        """No more to do, or no room for points of a search that collects them."""
        return self.done or (growth == 0.0 and self.stack.state[1] == len(self.stack.points))

    def split(self, rows: np.ndarray) -> _Root | None:
        """Give the half that comes last to a root of its own; None where no half waits."""
        level = -1 if self.done else int(self.stack.state[0])
        waiting = np.flatnonzero(self.stack.stage[: max(level, 0)] == 1)
        if not len(waiting):
            return None
        top, (place, inside) = int(waiting[0]), self.stack.state[3:5]
        old = np.zeros(0, np.uint8)
        if top < inside and place < len(self.old):
            known = int(level <= inside) + int((waiting[1:] < inside).sum())
            old = self.old[_behind(self.old, int(place), known) :]
        stack = Stack(*(array.copy() for array in self.stack))
        cut(rows, self.weights, stack, top, True)
        self.stack.stage[top] = 2
        stack.state[[0, 1, 3, 4]] = top + 1, 0, 0, top + 1
        stack.level[1] = 0.0
        return _Root(self.weights, self.linear, old, stack)

    def take_points(self) -> np.ndarray:
        """Points found since the last call."""
        found = self.stack.points[: self.stack.state[1]].copy()
        if not self.stopped(0.0):
            self.stack.state[1] = 0
        return found

    def pending(self) -> tuple[float, np.ndarray]:
        """Largest bound of a box that was not looked at, and the leaves that close the tree there."""
        if self.done:
            return 0.0, np.zeros(0, np.uint8)
        level = int(self.stack.state[0])
        if level == 0:  # not even the root was looked at
            return np.inf, np.zeros(1, np.uint8)
        above = self.stack.bound[:level]
        waiting = self.stack.stage[:level] == 1
        leaves = np.zeros(1 + int(waiting.sum()), np.uint8)
        waiting[-1:] = True
        return float(above[waiting].max(initial=0.0)), leaves


def _make_stack(n: int, r: int, n_points: int) -> Stack:
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
        points=np.zeros((n_points, r)),
        state=np.zeros(5, np.int64),
        level=np.zeros(2),
    )


def _behind(old: np.ndarray, place: int, count: int) -> int:
    """Return where so many subtrees of a preorder have ended that begin at ``place``."""
    while count and place < len(old):
        count += 1 if old[place] else -1
        place += 1
    return place


def _longer(stack: Stack) -> Stack:
    """Double the list of rows."""
    lists = {
        name: np.concatenate([getattr(stack, name), np.empty_like(getattr(stack, name))]) for name in LISTS
    }
    return stack._replace(**lists)


def _packed(stack: Stack) -> Stack:
    """Return what of a stack a walk goes on from: the levels down to the current box."""
    level = max(int(stack.state[0]), 0)
    end = int(stack.first[level + 1])
    parts = {name: getattr(stack, name)[:end] for name in LISTS}
    parts |= {name: getattr(stack, name)[: level + 1] for name in LEVELS_OF}
    found = stack.points[: stack.state[1]]
    return stack._replace(**parts, first=stack.first[: level + 2], points=found)


def _unpacked(packed: Stack, n: int, n_points: int) -> Stack:
    """Inverse of :func:`_packed`."""
    stack = _make_stack(n, packed.u0.shape[1], n_points)
    while len(stack.rows) < 2 * len(packed.rows):
        stack = _longer(stack)
    for name in (*LISTS, *LEVELS_OF, "first", "points"):
        own, given = getattr(stack, name), getattr(packed, name)
        own[: len(given)] = given
    return stack._replace(state=packed.state.copy(), level=packed.level.copy())


def _walk_away(
    rows: np.ndarray,
    squares: np.ndarray,
    sizes: np.ndarray,
    weights: np.ndarray,
    linear: np.ndarray,
    old: np.ndarray,
    packed: Stack,
    n_points: int,
    growth: float,
    budget: int,
) -> tuple[int, np.ndarray, Stack]:
    """Walk on as :func:`_walk` does, on another machine; return the boxes, their cuts, and the path from there."""
    root = _Root(weights, linear, old, _unpacked(packed, len(rows), n_points))
    used = _walk(root, rows=rows, squares=squares, sizes=sizes, growth=growth, budget=budget)
    return used, np.concatenate([np.zeros(0, np.uint8), *root.slices]), _packed(root.stack)


def _walk_all(
    roots: list[_Root],
    arrays: tuple[np.ndarray, ...],
    growth: float,
    budget: int,
    pool: ThreadPoolExecutor | None,
) -> int:
    """Walk all roots on by a slice, here or on a cluster."""
    cluster = active_cluster() if budget >= WORTH_SENDING else None
    if cluster is None:
        rows, squares, sizes = arrays
        walk = partial(_walk, rows=rows, squares=squares, sizes=sizes, growth=growth, budget=budget)
        return sum(map(walk, roots) if pool is None else pool.map(walk, roots))
    nodes, n_points = 0, len(roots[0].stack.points)
    tasks = []
    for root in roots:
        place, packed = int(root.stack.state[3]), _packed(root.stack)
        state = packed.state.copy()
        state[3] = 0
        old = root.old[place : place + budget]  # a box uses up one entry at most
        path = packed._replace(state=state)
        tasks.append((root.weights, root.linear, old, path, n_points, growth, budget))
    for root, (used, tree, packed) in zip(roots, cluster.spread(_walk_away, tasks, arrays), strict=True):
        place = int(root.stack.state[3])
        root.stack = _unpacked(packed, len(arrays[0]), n_points)
        root.stack.state[3] += place
        root.slices.append(tree)
        nodes += used
    return nodes


def _walk(
    root: _Root, *, rows: np.ndarray, squares: np.ndarray, sizes: np.ndarray, growth: float, budget: int
) -> int:
    """Walk on by at most ``budget`` boxes."""
    used = 0
    while used < budget and not root.stopped(growth):
        tree = np.empty(budget - used, np.uint8)
        new = explore(rows, squares, root.weights, root.linear, sizes, root.stack, growth, root.old, tree)
        used += new
        root.slices.append(tree[:new].copy())
        if not root.stopped(growth) and used < budget:
            root.stack = _longer(root.stack)
    return used


def search(
    rows: np.ndarray,
    signs: np.ndarray,
    linear: np.ndarray,
    H: float,
    *,
    max_nodes: int,
    sigmas: Sequence[int] = (1, -1),
    growth: float = 0.0,
    before: Search | None = None,
    n_points: int = MOST_POINTS,
    stops: bool = False,
    n_threads: int = 1,
) -> Search:
    r"""Bound σG(u) = σ(linear·u + Σ signs_i max(y_i·u, 0)) over unit u, for every σ in ``sigmas``.

    Parameters
    ----------
    rows : ndarray of shape (n, r)
        y_i, of size about one (see :mod:`covopt.oracles.cones.kernel`); no zero rows, r ≥ 1.
    signs : ndarray of shape (n,)
        +1 or −1.
    linear : ndarray of shape (r,)
    H : float
        Positive; what is to be proved.
    max_nodes : int
        Boxes, in all roots together; each root gets one at least.
    growth : float
        At 0 a point above H is recorded and its box is closed with its own bound, and a root with ``n_points`` of
        them stops. Otherwise H becomes the value at the local maximum above the point, times ``growth``, and the
        search goes on.
    before : Search, optional
        A finished search of the same function with a larger H: its leaves are looked at, its cuts are made again.

    stops : bool
        End after the first round of slices that has met a point: what is above H matters, not how far H is off.

    Examples
    --------
    >>> import numpy as np
    >>> answer = search(np.eye(2), np.ones(2), np.zeros(2), 1.0 + 1e-9, max_nodes=1000)
    >>> answer.upper_bound == 1.0 + 1e-9, answer.finished
    (False, True)
    >>> answer = search(np.eye(2), np.ones(2), np.zeros(2), 2**0.5 * (1 + 1e-9), max_nodes=1000)
    >>> answer.upper_bound == 2**0.5 * (1 + 1e-9), len(answer.points)
    (True, 0)
    """
    rows = np.ascontiguousarray(rows, dtype=float)
    linear = np.ascontiguousarray(linear, dtype=float)
    n, r = rows.shape
    squares = (rows**2).sum(axis=1)
    sizes = (np.abs(rows).sum(axis=0) + np.abs(linear)) * (1 + n * 2.0**-52)
    old = before.roots if before else [np.zeros(0, np.uint8)] * (2 * r * len(sigmas))
    roots: list[list[_Root]] = []
    for sigma in sigmas:
        weights = np.ascontiguousarray(sigma * signs, dtype=float)
        for a in range(r):
            for side in (1.0, -1.0):
                root = _Root(weights, sigma * linear, old[len(roots)], _make_stack(n, r, n_points))
                plant(rows, weights, root.linear, root.stack, a, side, H)
                roots.append([root])

    nodes, budget, arrays = 0, FIRST_SLICE, (rows, squares, sizes)
    points = [np.zeros((0, r))]
    with ThreadPoolExecutor(max(n_threads, 1)) as threads:
        pool = threads if n_threads > 1 else None
        alive = [part for parts in roots for part in parts]
        while alive and (nodes < max_nodes or nodes == 0):
            if budget == LARGEST_SLICE and len(alive) < PARTS:
                alive = _split(roots, rows, growth)
            most = budget if len(alive) <= 4 * r else LARGEST_ROUND // len(alive)
            share = min(most, max(1, (max_nodes - nodes) // len(alive)))
            nodes += _walk_all(alive, arrays, growth, share, pool)
            budget = min(2 * budget, LARGEST_SLICE)
            every = [part for parts in roots for part in parts]
            if growth > 0.0:
                points.extend(part.take_points() for part in alive)
                H = max(part.stack.level[0] for part in every)
                for part in alive:
                    part.stack.level[0] = H
            alive = [part for part in every if not part.stopped(growth)]
            if stops and any(part.stack.state[1] for part in every):
                break

    every = [part for parts in roots for part in parts]
    points.extend(part.take_points() for part in every)
    raised, trees = 0.0, []
    for parts in roots:
        cuts = []
        for part in parts:
            left, closing = part.pending()
            H = max(H, part.stack.level[0])
            raised = max(raised, left, part.stack.level[1])
            cuts += [*part.slices, closing]
        trees.append(np.concatenate(cuts))
    upper = H if raised == 0.0 else float(np.nextafter(H + raised, np.inf))
    finished = all(part.done for part in every)
    return Search(upper, nodes, finished, np.concatenate(points), trees)


def _split(roots: list[list[_Root]], rows: np.ndarray, growth: float) -> list[_Root]:
    """Split unfinished parts in two until there are enough of them; return them in order."""
    while True:
        alive = sum(not part.stopped(growth) for parts in roots for part in parts)
        before = alive
        for parts in roots:
            for place in range(len(parts) - 1, -1, -1):
                half = None if alive >= PARTS or parts[place].stopped(growth) else parts[place].split(rows)
                if half is not None:
                    parts.insert(place + 1, half)
                    alive += 1
        if alive in (before, PARTS):
            return [part for parts in roots for part in parts if not part.stopped(growth)]
