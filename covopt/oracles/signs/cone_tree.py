r"""Branch and bound for several outputs: best-first over the signs of the rows, each node an eigenvalue bound.

A node is a cone of directions: rows are on (z_i·w ≥ 0), off (≤ 0), zero (= 0) or undecided, bounded by
:func:`covopt.oracles.signs.lagrangian.bound_on_cone` from its parent's multipliers. An undecided row splits a node.
Once all rows are decided the function is a quadratic form ‖Mw‖² on a polyhedral cone:

- its top eigenvector u lies in the cone, and the node is settled; or
- the maximum lies on a facet. If w is a maximiser with w·u ≥ 0 and no row that u violates vanishes at w, a step from
  w towards u stays in the cone and ascends: so one of the rows that u violates vanishes. The same holds for −u, and
  when u or −u is in the dual cone (a nonnegative combination of the inward rows) only that one matters.

**Rounding.** Let m bound what the computed basis of the zero rows' flat misses, for both (:func:`flat_up`), and
u be what was computed: within 2m of a unit vector u' of the flat. A height z_i·u' that is negative is computed
below τ‖z_i‖, τ = 4m + γ: a row is taken for violated below τ, and for kept above −τ. Where u keeps all rows by
that rule, or where the zero rows are not independent enough to say what the flat is, the node is given up with
its bound. Rows that nearly vanish on a leaf's flat bound no facet there nor below: without them the cone is
larger. On the arc from a maximiser w to u', not longer than 90° (by 10⁻¹² where the dual cone says so, which
counts to second order), the form is a + b cos 2θ, b ≥ 0, and ends within ε of its maximum: it nowhere falls
below its value at w by more than ε. So a facet is worth at least h(w)² − ε, and its nodes' bounds are raised by
ε, the square of the leaf's proved bound less that of what u is worth.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from covopt.exact.definite import flat_up, product_error_up, top_eigenvalue_up
from covopt.exact.rounding import UNIT, allowance, gamma, lengths_up, operator_norm_up, total_up, up
from covopt.limits import now
from covopt.oracles.local_search import climb_outputs
from covopt.oracles.signs.lagrangian import OFF, ON, UNDECIDED, ZERO, bound_on_cone

LIVE = 1e-8  # share of a row's length below which it counts as vanishing on a flat
DUAL = 1e-12  # distance of u from the dual cone that tells its side; it enters the bound squared
ROOT_STEPS = 200
NODE_STEPS = 80


@dataclass(frozen=True)
class _Node:
    bound: float
    state: np.ndarray
    multipliers: np.ndarray
    doubt: np.ndarray
    paid: float = 0.0  # ε of the leaves above, on the scale of squares
    ignored: np.ndarray | None = (
        None  # rows that nearly vanished on a leaf's flat, which no facet below is cut by
    )


def _packed(multipliers: np.ndarray) -> np.ndarray:
    """Halve the room of multipliers; any are valid, so rounding them is no matter as long as they stay finite."""
    return multipliers.astype(np.float32) if np.abs(multipliers).max(initial=0.0) < 1e37 else multipliers


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
        self.total = total_up(lengths_up(dual), lengths_up(rows))
        self.allowance = allowance(sum(rows.shape) + dual.shape[1] + 8, self.total)
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
        deadline = None if time_limit_s is None else now() + time_limit_s
        self.margin = margin
        total = self.total
        n = len(self.rows)
        root = _Node(total, np.full(n, UNDECIDED), np.zeros((2 * n, 2 * n)), np.zeros(n))
        heapq.heappush(self.heap, (-total, 0, root))
        node = None
        try:
            node = self._bounded(root, root.state, ROOT_STEPS)
            self.heap.clear()
            self._push(node)
            while self.heap and -self.heap[0][0] > self.best + self.margin:
                if self.n_nodes >= node_limit or (deadline is not None and now() > deadline):
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
        value = found.value
        if parent.paid:
            value = up(math.sqrt(up(up(value * value) + parent.paid)))
        bound = min(value, parent.bound)
        return _Node(bound, state, _packed(found.multipliers), found.doubt, parent.paid, parent.ignored)

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
        basis, miss, whole = np.eye(self.rows.shape[1]), 0.0, True
        if (state == ZERO).any():
            basis, miss, whole = flat_up(self.rows[state == ZERO])
        if not basis.shape[1] and whole and miss < 1.0:
            return []
        if not basis.shape[1] or not whole or miss > LIVE / 8:
            return self._give_up(node.bound)
        on = state == ON
        image = (self.dual[on].T @ self.rows[on]) @ basis
        _, _, vectors = np.linalg.svd(image)
        top = vectors[0]
        high, low = self._enclose(image, top, basis, miss)
        bound = min(node.bound, up(math.sqrt(up(up(high * high) + node.paid))))
        self._offer(basis @ top)
        self._offer(-basis @ top)
        decided = np.flatnonzero(on | (state == OFF))
        inward = (
            np.where(on, 1.0, -1.0)[decided, None] * self.rows[decided] @ basis / self.lengths[decided, None]
        )
        live = np.linalg.norm(inward, axis=1) > LIVE / 4
        ignored = np.zeros(len(state), dtype=bool) if node.ignored is None else node.ignored.copy()
        ignored[decided[~live]] = True
        live &= ~ignored[decided]
        decided, inward = decided[live], inward[live]
        heights = inward @ top
        wide = float(np.linalg.norm(basis))
        tau = 4.0 * miss + gamma(8 * (sum(basis.shape) + 8)) * max(wide, 1.0)
        kept = min((-heights).max(initial=-np.inf), heights.max(initial=-np.inf)) <= tau
        if bound <= self.best + self.margin or kept or not len(decided):
            return self._give_up(bound)
        candidates = np.ones(len(decided), dtype=bool)
        for sign in (1.0, -1.0):
            if nnls(inward.T, sign * top)[1] <= DUAL:
                candidates = sign * heights < tau
        paid = up(node.paid + up(up(high * high) - low * low + 8.0 * (DUAL * high) ** 2))
        parent = _Node(bound, state, node.multipliers, node.doubt, paid, ignored)
        return [self._child(parent, int(row), ZERO) for row in decided[candidates]]

    def _give_up(self, bound: float) -> list[_Node]:
        self.settled = max(self.settled, bound)
        return []

    def _enclose(
        self, image: np.ndarray, top: np.ndarray, basis: np.ndarray, miss: float
    ) -> tuple[float, float]:
        """Enclose the largest ‖Mw‖ over unit w of the flat: what none exceeds, what the one next to Vu is worth."""
        gram = image @ image.T if len(image) < image.shape[1] else image.T @ image
        pair = (image.T, image.T) if len(image) < image.shape[1] else (image, image)
        believed = float(np.linalg.eigvalsh(gram)[-1])
        proved = max(up(top_eigenvalue_up(gram, believed) + product_error_up(*pair)), 0.0)
        wide = max(float(np.linalg.norm(basis)), 1.0)
        lost = (2.0 * miss + gamma(4 * (len(self.rows) + sum(basis.shape) + 8)) * wide) * self.total
        high = up(up(up(math.sqrt(proved)) * operator_norm_up(basis)) + up(lost))
        reached = float(np.linalg.norm(image @ top)) * (1.0 - 8 * (sum(image.shape) + 4) * UNIT)
        return high, max(0.0, reached - up(lost))
