"""Branch and bound for one output: best-first over the signs of the rows that make F convex.

F(w) = Σ μ_i σ(z_i·w) is a minimum of linear functions in each row of negative weight, so only the others are branched
on: at most 2^p nodes for p of them, whatever the dimension. :mod:`covopt.oracles.signs.sign_bounds` bounds a node,
which is compiled: tens of thousands of nodes a second.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from covopt.exact.definite import descent_share
from covopt.exact.rounding import lengths_up, total_up
from covopt.oracles.ascent import height
from covopt.oracles.cones.narrowing import FREE, OFF, ON
from covopt.oracles.signs.sign_bounds import CONCAVE, ROUNDS, bound_node, workspace


@dataclass
class Node:
    """What is assumed of the rows' signs for one of the duals ±μ, the multipliers, and the row to branch on."""

    mu: np.ndarray
    state: np.ndarray
    coef: np.ndarray
    tau: np.ndarray
    nu: float
    row: int = -1

    def child(self, state: int) -> Node:
        """Return the part of the node where the row is on or off, with copies of the multipliers."""
        states = self.state.copy()
        states[self.row] = state
        return Node(self.mu, states, self.coef.copy(), self.tau.copy(), self.nu)


class SignTree:
    """Open nodes of both signs of a dual, of which any may be branched on or given up at any time.

    Parameters
    ----------
    rows : ndarray of shape (n, r)
        Of size one.
    mu : ndarray of shape (n,)
        Weights, zero ones too; the sum of |μ| should be neither tiny nor huge.
    best : float
        A value of |F| that is known.

    Attributes
    ----------
    best, point : float, ndarray of shape (r,)
        The incumbent: |F(point / ‖point‖)| = best; zeros while there is none but the value that was known.
    n_nodes : int
        Nodes that were bounded.

    Examples
    --------
    >>> tree = SignTree(np.eye(2), np.array([0.3, 0.4]))
    >>> while tree.bound > tree.best + 1e-9:
    ...     tree.branch(0.0)
    >>> round(tree.best, 9), tree.upper < 0.5 + 1e-9
    (0.5, True)
    """

    def __init__(self, rows: np.ndarray, mu: np.ndarray, best: float = 0.0):
        n, r = rows.shape
        self.rows, self.zero = np.ascontiguousarray(rows), np.zeros(r)
        self.squares = (self.rows**2).sum(axis=1)
        self.share, self._work = descent_share(n, r), workspace(n, r)
        self.best, self.point, self.n_nodes = best, np.zeros(r), 0
        self.open: list[tuple[float, int, Node]] = []
        self._settled = self._held = 0.0  # the largest bound given up; of a node that is being branched on
        for side in (mu, -mu):
            convex = side > 0
            trivial = total_up(side[convex], lengths_up(self.rows[convex]))
            state = np.where(convex, FREE, CONCAVE).astype(np.int8)
            coef, tau = np.where(convex, 0.5 * side, 0.0), np.sqrt(self.squares / r)
            self._look(
                Node(np.ascontiguousarray(side), state, coef, tau, 0.5 * trivial), trivial, 0.0, 5 * ROUNDS
            )

    def _look(self, node: Node, above: float, level: float, rounds: int = ROUNDS) -> None:
        """Bound a node whose parent's bound is known; give it up where that does not exceed a level."""
        found, node.nu, node.row = bound_node(
            self.rows, node.mu, node.state, node.coef, node.tau, node.nu, self.squares, level, rounds, self.share,
            self._work,
        )  # fmt: skip
        self.n_nodes += 1
        point = self._work[3]
        size = float(np.sqrt(point @ point))
        if size > 0.0 and (value := height(self.rows, node.mu, self.zero, point) / size) > self.best:
            self.best, self.point = value, point.copy()
        found = min(found, above)
        if found <= level or node.row < 0:
            self._settled = max(self._settled, found)
        else:
            heapq.heappush(self.open, (-found, self.n_nodes, node))

    @property
    def bound(self) -> float:
        """Largest bound of an open node."""
        return -self.open[0][0] if self.open else 0.0

    @property
    def upper(self) -> float:
        """What the maximum of |F| does not exceed, also after an interrupt."""
        return max(self.bound, self._held, self._settled, self.best)

    def branch(self, margin: float) -> None:
        """Branch on the node of largest bound; its parts are given up at bounds up to ``best + margin``."""
        self._held = self.bound
        node = heapq.heappop(self.open)[2]
        for state in (ON, OFF):
            self._look(node.child(state), self._held, self.best + margin)
        self._held = 0.0
