"""All roots of the cover, to decide G(u) ≤ H‖u‖ and −G(u) ≤ H‖u‖ for all u.

The roots are walked in slices, all unfinished roots one slice a round, and what a round does depends on the rounds
before it only: the answer is the same for any number of threads.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from covopt.checks.speaking import tell
from covopt.oracles.cones.kernel import explore, plant
from covopt.oracles.cones.roots import Root, longer, make_stack

LARGEST_SLICE = 1 << 16  # so that interrupts and deadlines are heard in between
FIRST_SLICE = 2048
MOST_POINTS = 64


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


def _walk(root: Root, *, rows: np.ndarray, sizes: np.ndarray, growth: float, budget: int) -> int:
    """Walk on by at most ``budget`` boxes."""
    used = 0
    while used < budget and not root.stopped(growth):
        tree = np.empty(budget - used, np.uint8)
        new = explore(rows, root.weights, root.linear, sizes, root.stack, growth, root.old, tree)
        used += new
        root.slices.append(tree[:new].copy())
        if not root.stopped(growth) and used < budget:
            root.stack = longer(root.stack)
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
    sizes = (np.abs(rows).sum(axis=0) + np.abs(linear)) * (1 + n * 2.0**-52)
    old = before.roots if before else [np.zeros(0, np.uint8)] * (2 * r * len(sigmas))
    roots: list[Root] = []
    for sigma in sigmas:
        weights = np.ascontiguousarray(sigma * signs, dtype=float)
        for a in range(r):
            for side in (1.0, -1.0):
                root = Root(weights, sigma * linear, old[len(roots)], make_stack(n, r, n_points))
                plant(rows, weights, root.linear, root.stack, a, side, H)
                roots.append(root)

    nodes, budget, rounds = 0, FIRST_SLICE, 0
    points = [np.zeros((0, r))]
    with ThreadPoolExecutor(max(n_threads, 1)) as threads:
        pool = threads if n_threads > 1 else None
        alive = roots
        while alive and (nodes < max_nodes or nodes == 0):
            share = min(budget, max(1, (max_nodes - nodes) // len(alive)))
            walk = partial(_walk, rows=rows, sizes=sizes, growth=growth, budget=share)
            nodes += sum(map(walk, alive) if pool is None else pool.map(walk, alive))
            budget = min(2 * budget, LARGEST_SLICE)
            rounds += 1
            text = f"boxes, round {rounds}: {nodes:,} looked at, {len(alive)} roots"
            tell(logging.DEBUG, text, "boxes", slices=rounds, n_boxes=nodes, parts=len(alive))
            if growth > 0.0:
                points.extend(root.take_points() for root in alive)
                H = max(root.stack.level[0] for root in roots)
                for root in alive:
                    root.stack.level[0] = H
            alive = [root for root in roots if not root.stopped(growth)]
            if stops and any(root.stack.state[1] for root in roots):
                break

    points.extend(root.take_points() for root in roots)
    raised, trees = 0.0, []
    for root in roots:
        left, closing = root.pending()
        H = max(H, root.stack.level[0])
        raised = max(raised, left, root.stack.level[1])
        trees.append(np.concatenate([*root.slices, closing]))
    upper = H if raised == 0.0 else float(np.nextafter(H + raised, np.inf))
    finished = all(root.done for root in roots)
    return Search(upper, nodes, finished, np.concatenate(points), trees)
