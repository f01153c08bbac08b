r"""Branch and bound for several outputs: best-first over the signs of the rows, each node an eigenvalue bound.

A node is a cone of directions: rows are on (z_i·w ≥ 0), off (≤ 0), zero (= 0) or undecided, bounded by
:func:`covopt.oracles.signs.lagrangian.bound_on_cone` from its parent's multipliers. An undecided row splits a node.
Once all rows are decided the function is a quadratic form ‖Mw‖² on a polyhedral cone:

- its top eigenvector u lies in the cone, and the node is settled; or
- the maximum lies on a facet. If w is a maximiser with w·u ≥ 0 and no row that u violates vanishes at w, a step from
  w towards u stays in the cone and ascends: so one of the rows that u violates vanishes. The same holds for −u, and
  when u or −u is in the dual cone (a nonnegative combination of the inward rows) only that one matters.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from covopt.exact.rank import COMPUTED, null_space
from covopt.oracles.local_search import climb_outputs
from covopt.oracles.signs.lagrangian import OFF, ON, UNDECIDED, ZERO, bound_on_cone

ROUNDING = 1e-13
ROOT_STEPS = 200
NODE_STEPS = 80


@dataclass(frozen=True)
class _Node:
    bound: float
    state: np.ndarray
    multipliers: np.ndarray
    doubt: np.ndarray


class ConeTree:
    """One search: its open nodes, its incumbent, and the largest bound among what was given up.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N, k)
    points : ndarray of shape (m, r)
        Candidates for the incumbent.

    Examples
    --------
    >>> tree = ConeTree(np.eye(2), np.array([[3.0, 0.0], [4.0, 0.0]]), np.eye(2))
    >>> tree.run(margin=1e-9, node_limit=100, time_limit_s=None)
    >>> round(tree.best, 8), round(tree.upper, 8)
    (5.0, 5.0)
    """

    def __init__(self, rows: np.ndarray, dual: np.ndarray, points: np.ndarray):
        self.rows, self.dual = rows, dual
        self.lengths = np.linalg.norm(rows, axis=1)
        self.weights = np.linalg.norm(dual, axis=1)
        self.allowance = ROUNDING * float(self.weights @ self.lengths)
        self.incumbent, self.best = np.zeros(rows.shape[1]), 0.0
        self.n_nodes = self.pushed = 0
        self.settled = 0.0
        self.interrupted = False
        self.heap: list[tuple[float, int, _Node]] = []
        for point in points:
            self._offer(point)

    @property
    def upper(self) -> float:
        """What h does not exceed."""
        open_bound = -self.heap[0][0] if self.heap else 0.0
        return max(open_bound, self.settled, self.best) + self.allowance

    def run(self, margin: float, node_limit: int, time_limit_s: float | None) -> None:
        """Branch until nothing exceeds the incumbent by more than ``margin``, or a limit is met."""
        deadline = None if time_limit_s is None else time.perf_counter() + time_limit_s
        self.margin = margin
        total = float(self.weights @ self.lengths)
        n = len(self.rows)
        root = _Node(total, np.full(n, UNDECIDED), np.zeros((2 * n, 2 * n)), np.zeros(n))
        heapq.heappush(self.heap, (-total, 0, root))
        node = None
        try:
            node = self._bounded(root, root.state, ROOT_STEPS)
            self.heap.clear()
            self._push(node)
            while self.heap and -self.heap[0][0] > self.best + self.margin:
                if self.n_nodes >= node_limit or (deadline is not None and time.perf_counter() > deadline):
                    return
                node = self.heap[0][2]
                children = self._split(node)
                heapq.heappop(self.heap)
                for child in children:
                    self._push(child)
        except KeyboardInterrupt:
            # the node in hand is still in the heap, so the bound stays valid
            self.interrupted = True

    def _push(self, node: _Node) -> None:
        if node.bound > self.best + self.margin:
            self.pushed += 1
            heapq.heappush(self.heap, (-node.bound, self.pushed, node))
        else:
            self.settled = max(self.settled, node.bound)

    def _offer(self, point: np.ndarray) -> None:
        size = float(np.linalg.norm(point))
        if size > 0:
            value = float(np.linalg.norm(np.maximum(self.rows @ (point / size), 0.0) @ self.dual))
            if value > self.best:
                self.incumbent, self.best = point / size, value

    def _bounded(self, parent: _Node, state: np.ndarray, steps: int) -> _Node:
        self.n_nodes += 1
        found = bound_on_cone(
            self.rows, self.dual, state, parent.multipliers, target=self.best + self.margin, max_steps=steps
        )
        if found.direction.any():
            before = self.best
            self._offer(found.direction)
            if self.best > before:
                self._offer(climb_outputs(self.rows, self.dual, self.incumbent[None])[0][0])
        bound = min(found.value, parent.bound)
        return _Node(bound, state, found.multipliers.astype(np.float32), found.doubt)

    def _split(self, node: _Node) -> list[_Node]:
        if (node.state == UNDECIDED).any():
            row = int((node.doubt * self.weights).argmax())
            return [self._child(node, row, value) for value in (ON, OFF)]
        return self._split_leaf(node)

    def _child(self, node: _Node, row: int, value: int) -> _Node:
        state = node.state.copy()
        state[row] = value
        return self._bounded(node, state, NODE_STEPS)

    def _split_leaf(self, node: _Node) -> list[_Node]:
        """Settle a decided cone by its top eigenvector, or branch on the facets that may carry the maximum."""
        state = node.state
        basis = np.eye(self.rows.shape[1])
        if (state == ZERO).any():
            basis = null_space(self.rows[state == ZERO], COMPUTED)
        if not basis.shape[1]:
            return []
        on = state == ON
        _, singular, vectors = np.linalg.svd((self.dual[on].T @ self.rows[on]) @ basis)
        top = vectors[0]
        bound = min(node.bound, float(singular[0]) + self.allowance)
        self._offer(basis @ top)
        self._offer(-basis @ top)
        decided = np.flatnonzero(on | (state == OFF))
        inward = (
            np.where(on, 1.0, -1.0)[decided, None] * self.rows[decided] @ basis / self.lengths[decided, None]
        )
        live = np.linalg.norm(inward, axis=1) > 1e-12
        decided, inward = decided[live], inward[live]
        if bound <= self.best + self.margin or not len(decided):
            self.settled = max(self.settled, bound)
            return []
        heights = inward @ top
        candidates = heights != 0.0
        for sign in (1.0, -1.0):
            if nnls(inward.T, sign * top)[1] <= 1e-12:
                candidates = sign * heights < 0.0
        parent = _Node(bound, state, node.multipliers, node.doubt)
        return [self._child(parent, int(row), ZERO) for row in decided[candidates]]
