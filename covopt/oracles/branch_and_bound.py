"""Exact pricing of one output without enumeration, by branch and bound over the signs of the rows.

:mod:`covopt.oracles.signs.sign_tree` starts from the best neuron of a local search. It stops when no open node can
exceed the incumbent, or at a limit; the bound is valid in both cases.
"""

from __future__ import annotations

import math

import numpy as np

from covopt.checks.memory import room
from covopt.errors import InputError
from covopt.exact.rank import ATOMS
from covopt.exact.rounding import (
    TINY,
    exponents,
    lengths_up,
    operator_norm_up,
    total_up,
    transfer_up,
    up,
)  # fmt: skip
from covopt.limits import now
from covopt.oracles.base import OBJECT_BYTES, Pricing, kept
from covopt.oracles.coordinates import restrict
from covopt.oracles.local_search import STARTS, LocalSearchOracle
from covopt.oracles.remembered import remember
from covopt.oracles.signs.sign_tree import SignTree

ROW_BYTES = 17.0  # per row of an open node


class BranchAndBoundOracle:
    """Pricing for one output: exact if it ends within its limits, with a valid bound in any case.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Rows without zero rows, in any position.
    node_limit : int
        Most nodes per pricing (17 N + 1024 bytes each).
    time_limit_s : float, optional
        Seconds per pricing.
    goal : float
        Stop once the bound is at most this, whatever the value of the best neuron; zero asks for the maximum.
    n_starts, random_state, n_threads
        Passed to the local search for the incumbent.

    Attributes
    ----------
    n_nodes : int
        Nodes of the last pricing.
    interrupted : bool
        Whether Ctrl-C ended the last pricing; its bound is still valid.

    Notes
    -----
    Times on one core, for standard normal points with bias and standard normal targets. An optimal dual is the
    hardest one: many of its maxima are equal. N = 20, d = 10 takes 120 nodes, N = 30, d = 7 takes 600, N = 40,
    d = 20 takes 3000 and about a second, where there are 10²¹ faces.
    In dimension 3, and up to a few million faces, the exact oracles by faces are faster.

    Examples
    --------
    >>> oracle = BranchAndBoundOracle(np.eye(3), random_state=0)
    >>> answer = oracle.price(np.array([3.0, 4.0, -6.0]))
    >>> round(float(answer.values[0]), 9), round(answer.upper_bound, 8), answer.exact
    (-6.0, 6.0, True)
    """

    def __init__(
        self,
        rows: np.ndarray,
        *,
        node_limit: int = 1_000_000,
        time_limit_s: float | None = None,
        goal: float = 0.0,
        n_starts: int = STARTS,
        random_state: int | np.random.Generator | None = None,
        n_threads: int = 2,
    ):
        self.rows = np.ascontiguousarray(rows, dtype=float)
        self.node_limit, self.time_limit_s, self.goal = node_limit, time_limit_s, goal
        self.n_nodes, self.interrupted = 0, False
        self.local = LocalSearchOracle(
            self.rows, n_starts=n_starts, random_state=random_state, n_threads=n_threads
        )

    def price(
        self,
        dual: np.ndarray,
        *,
        threshold: float = 0.0,
        max_neurons: int | None = None,
        complete: bool = False,
    ) -> Pricing:
        """Return local maxima and a valid bound on h, which is attained if the search ended.

        Arguments as in :class:`covopt.oracles.base.Oracle`. ``complete`` uses four times as many starts, without a
        guarantee to find every local maximum.
        """
        dual = np.ascontiguousarray(dual, dtype=float)
        if dual.ndim != 1:
            raise InputError(f"branch and bound takes duals of one output, shape (N,), got {dual.shape}")
        outputs = dual.reshape(len(dual), -1)
        starts, self.local.n_starts = self.local.n_starts, self.local.n_starts * (4 if complete else 1)
        found = self.local.search(dual, threshold=threshold, max_neurons=max_neurons)
        self.local.n_starts = starts
        self.n_nodes, self.interrupted = 0, False
        support = np.flatnonzero(np.abs(outputs).max(axis=1, initial=0.0) > 0)
        if len(support) == 0:
            return Pricing(found.neurons, found.values, 0.0, exact=True)
        reduced, basis = restrict(self.rows, support)
        lost = transfer_up(self.rows[support], lengths_up(outputs[support]), basis, reduced)
        best = found.upper_bound
        margin = max(ATOMS * best, self.goal - best)
        upper, point = self._search(reduced, outputs[support], best, margin)
        neurons, values = found.neurons, found.values
        size = float(np.linalg.norm(point))
        if size > 0:
            fresh = basis @ (point / size)
            value = np.maximum(self.rows @ fresh, 0.0) @ outputs
            shown = float(value[0])
            if abs(shown) > best * (1.0 + ATOMS):
                neurons, values = np.vstack([fresh, neurons]), np.append(shown, values)
                self.local.warm = np.vstack([fresh, self.local.warm])
                best = abs(shown)
        upper = max(up(up(operator_norm_up(basis) * upper) + lost), best)
        remember(self.rows, dual, upper)
        exact = upper <= best * (1.0 + 2 * ATOMS)
        return Pricing(*kept(neurons, values, 0.0, max_neurons), upper, exact)

    def _search(
        self, rows: np.ndarray, outputs: np.ndarray, best: float, margin: float
    ) -> tuple[float, np.ndarray]:
        """Bound both signs of a scalar dual; return the bound and the incumbent if it is new."""
        # scaling by powers of two is exact
        power = exponents(rows)
        units, weights = np.ldexp(rows, -power[:, None]), outputs[:, 0]
        top = int((power + exponents(outputs)).max()) + len(rows).bit_length()
        total, weights = math.ldexp(1.0, top), np.ldexp(weights, power - top)
        node = OBJECT_BYTES + ROW_BYTES * len(rows)
        capacity = max(int(room(node * self.node_limit) / node), 1)
        deadline, tree = np.inf if self.time_limit_s is None else now() + self.time_limit_s, None
        margin /= total
        try:
            tree = SignTree(units, weights, best / total)
            while tree.bound > tree.best + margin and tree.n_nodes < self.node_limit:
                if len(tree.open) >= capacity or now() > deadline:
                    break
                tree.branch(margin)
        except KeyboardInterrupt:
            self.interrupted = True
        if tree is None:
            return total_up(np.abs(outputs[:, 0]), lengths_up(rows)), np.zeros(rows.shape[1])
        self.n_nodes = tree.n_nodes
        return up(total * up(tree.upper + len(rows) * TINY)), tree.point
