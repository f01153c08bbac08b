"""Branch and bound for one output: best-first over the signs of the rows that make F convex, compiled.

F(w) = Σ μ_i σ(z_i·w) is a minimum of linear functions in each row of negative weight, so only the others are branched
on: at most 2^p nodes for p of them, whatever the dimension. :mod:`covopt.oracles.signs.sign_bounds` bounds a node.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from covopt.exact.definite import descent_share
from covopt.exact.rounding import lengths_up, total_up
from covopt.oracles.ascent import height
from covopt.oracles.cones.narrowing import FREE, OFF, ON
from covopt.oracles.signs.sign_bounds import CONCAVE, ROUNDS, bound_node, workspace


@njit(cache=True, nogil=True)
def run_tree(
    rows, mu, squares, states, coefs, taus, nus, bounds, branches, open_, numbers, levels, point, margin, chunk,
    share,
):  # fmt: skip
    """Branch ``chunk`` times on the node of largest bound.

    ``numbers`` = open nodes, slots used, nodes met; ``levels`` = incumbent, largest bound given up. All of it is
    updated in place, so that an interrupt after the call finds a consistent tree.
    """
    n, r = rows.shape
    work = workspace(n, r)
    coef, tau, zero = np.empty(n), np.empty(n), np.zeros(r)
    best, settled = levels[0], levels[1]
    count, used = numbers[0], numbers[1]
    rounds = np.int64(ROUNDS)  # a literal would compile the callee once more
    for _ in range(chunk):
        place = 0
        for k in range(1, count):
            if bounds[open_[k]] > bounds[open_[place]]:
                place = k
        node = open_[place]
        if count == 0 or bounds[node] <= best + margin or used + 1 >= len(bounds):
            break
        count -= 1
        open_[place] = open_[count]
        row = branches[node]
        limit, start_nu = bounds[node], nus[node]
        for side in range(2):
            # the first child takes a new slot and the second its parent's
            slot = used if side == 0 else node
            states[slot] = states[node]
            states[slot, row] = ON if side == 0 else OFF
            coef[:] = coefs[node]
            tau[:] = taus[node]
            numbers[2] += 1
            found, nu, branch = bound_node(
                rows, mu, states[slot], coef, tau, start_nu, squares, best + margin, rounds, share, work
            )
            size = np.sqrt((work[3] ** 2).sum())
            value = height(rows, mu, zero, work[3]) / size if size > 0.0 else 0.0
            if value > best:
                best = value
                point[:] = work[3]
            found = min(found, limit)
            if side == 0 or found > best + margin:
                coefs[slot] = coef
                taus[slot] = tau
            if found <= best + margin or branch < 0:
                settled = max(settled, found)
            else:
                nus[slot], bounds[slot], branches[slot] = nu, found, branch
                open_[count] = slot
                count += 1
                if side == 0:
                    used += 1
    numbers[0], numbers[1] = count, used
    levels[0], levels[1] = best, settled


class SignTree:
    """Open nodes of one sign of a dual; its owner carries the incumbent from one sign to the other.

    Parameters
    ----------
    rows : ndarray of shape (n, r)
        Of size one.
    mu : ndarray of shape (n,)
        Weights, zero ones too; the sum of |μ| should be neither tiny nor huge.
    capacity : int
        Most nodes kept, about 10 n bytes each.

    Attributes
    ----------
    best, point : float, ndarray of shape (r,)
        The incumbent: F(point / ‖point‖) = best. Set ``best`` when it is known from elsewhere.

    Examples
    --------
    >>> tree = SignTree(np.eye(2), np.array([0.3, 0.4]), 100)
    >>> while tree.bound > tree.best + 1e-9:
    ...     tree.run(margin=0.0, chunk=10)
    >>> round(tree.best, 9), tree.upper < 0.5 + 1e-9
    (0.5, True)
    """

    def __init__(self, rows: np.ndarray, mu: np.ndarray, capacity: int):
        n, r = rows.shape
        self.rows, self.mu = np.ascontiguousarray(rows), np.ascontiguousarray(mu)
        self.squares = (self.rows**2).sum(axis=1)
        self.capacity = capacity
        self.point = np.zeros(r)
        lengths = np.sqrt(self.squares)
        convex = mu > 0
        self.share = descent_share(n, r)
        trivial = total_up(mu[convex], lengths_up(self.rows[convex]))
        state = np.where(convex, FREE, CONCAVE).astype(np.int8)
        coef, tau = np.where(convex, 0.5 * mu, 0.0), lengths / np.sqrt(r)
        bound, nu, branch = bound_node(
            self.rows,
            self.mu,
            state,
            coef,
            tau,
            0.5 * trivial,
            self.squares,
            0.0,
            5 * ROUNDS,
            self.share,
            workspace(n, r),
        )
        bound = min(bound, trivial)
        self._nodes = [
            state[None], coef[None].astype(np.float32), tau[None].astype(np.float32), np.array([nu]),
            np.array([bound]), np.array([branch]), np.array([0]),
        ]  # fmt: skip
        self._numbers = np.array([1, 1, 1])
        self._levels = np.zeros(2)
        if branch < 0:
            self._levels[1], self._numbers[0] = bound, 0

    @property
    def bound(self) -> float:
        """Largest bound of an open node."""
        return float(self._nodes[4][self._nodes[6][: self._numbers[0]]].max(initial=0.0))

    @property
    def upper(self) -> float:
        """What the maximum of F does not exceed (nor 0)."""
        return max(self.bound, *self._levels.tolist())

    @property
    def best(self) -> float:
        """Value of the incumbent."""
        return float(self._levels[0])

    @best.setter
    def best(self, value: float) -> None:
        self._levels[0] = max(value, self._levels[0])

    @property
    def n_nodes(self) -> int:
        """Nodes that were bounded."""
        return int(self._numbers[2])

    @property
    def is_full(self) -> bool:
        """Whether the capacity is spent."""
        return bool(self._numbers[1] + 1 >= self.capacity)

    def run(self, *, margin: float, chunk: int) -> None:
        """Branch at most ``chunk`` times; nodes with bounds up to ``best + margin`` are given up."""
        room = len(self._nodes[3])
        if self._numbers[1] + chunk + 1 > room and room < self.capacity:
            more = min(room + max(room, chunk + 2), self.capacity) - room
            self._nodes = [
                np.concatenate([part, np.zeros((more, *part.shape[1:]), part.dtype)]) for part in self._nodes
            ]
        states, coefs, taus, nus, bounds, branches, open_ = self._nodes
        run_tree(
            self.rows, self.mu, self.squares, states, coefs, taus, nus, bounds, branches, open_, self._numbers,
            self._levels, self.point, margin, chunk, self.share,
        )  # fmt: skip
