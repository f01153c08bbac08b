r"""Explicit networks through the points, in integers: their cost is an upper bound for every true lower bound.

.. math:: \min \sum_j |z_j| \|w_j\| \quad \text{s.t.} \quad \sum_j \sigma(\tilde X w_j) z_j = y

over a finite set of integer neurons, by a simplex method whose tableau holds integers over one denominator
(fraction-free pivots). Every basis is an exact interpolant; the last one is the cheapest of the set.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import log2

import numpy as np

from benchmarks.adversary.exactly import positive, root_above, shortest, squares, whole
from covopt.exact.elimination import row_reduce

COST_BITS = 48
MOST_PIVOTS, ROUNDS = 150, 4
Find = Callable[[np.ndarray], np.ndarray]


class Interpolant:
    """The cheapest exact interpolant y = Σ z_j σ(X̃w_j) of the neurons offered so far.

    ``cost`` is an upper bound on Σ|z_j|‖w_j‖, a fraction, or None if the neurons cannot interpolate y.
    """

    def __init__(self, rows: np.ndarray, y: np.ndarray):
        self.rows, self._low = whole(rows)
        self.y, self._other = whole(y)
        self.neurons = np.zeros((0, rows.shape[1]), dtype=object)
        self.columns = np.zeros((len(rows), 0), dtype=object)
        self.lengths: list[Fraction] = []
        self.basis: list[int] = []
        self.weights: list[Fraction] = []

    def offer(self, neurons: np.ndarray) -> None:
        """Add those of the integer neurons (m, D) that have new activations."""
        neurons = shortest(neurons)
        atoms = positive(self.rows @ neurons.T)
        seen = {tuple(column) for column in self.columns.T}
        for j in range(len(neurons)):
            key = tuple(atoms[:, j])
            if any(key) and key not in seen:
                seen.add(key)
                self.neurons = np.concatenate([self.neurons, neurons[j : j + 1]])
                self.columns = np.concatenate([self.columns, atoms[:, j : j + 1]], axis=1)
                self.lengths.append(root_above(int(squares(neurons[j : j + 1])[0])))

    @property
    def cost(self) -> Fraction | None:
        """An upper bound on Σ|z_j|‖w_j‖ of the basis, in the units of the table."""
        if not self.basis:
            return None
        total = sum(
            (abs(z) * self.lengths[j] for j, z in zip(self.basis, self.weights, strict=True)), Fraction(0)
        )
        return total * 2**self._low / 2**self._other

    def solve(self) -> Fraction | None:
        """Pivot until no column has a positive gain, at most ``MOST_PIVOTS`` times; return ``cost``."""
        if not self.columns.size:
            return None
        tableau = _Tableau(self.columns, self.y, _costs(self.lengths))
        if not tableau.start(self.basis):
            return None
        for _ in range(MOST_PIVOTS):
            if not tableau.improve():
                break
        self.basis = [int(j) for j in tableau.basis]
        self.weights = [Fraction(int(x), int(tableau.bottom)) for x in tableau.right]
        self.dual_ready = tableau
        return self.cost

    def network(self) -> tuple[np.ndarray, list[Fraction]]:
        """Return the integer neurons of the basis and their output weights, for the table's rows as integers."""
        return self.neurons[self.basis], self.weights


def _costs(lengths: list[Fraction]) -> list[int]:
    """Return the lengths as integers in a common unit; only the choice of pivots depends on them."""
    least = min(lengths)
    return [int(length * 2**COST_BITS / least) + 1 for length in lengths]


class _Tableau:
    """B⁻¹[A y] = T / bottom with integers T; pivots divide without remainder (Edmonds; Bareiss)."""

    def __init__(self, columns: np.ndarray, y: np.ndarray, costs: list[int]):
        self.inner = columns.copy()
        self.right = y.copy()
        self.costs = np.array(costs, dtype=object)
        self.bottom = 1
        self.basis = np.full(len(y), -1)

    def start(self, wanted: list[int]) -> bool:
        """Find a basis: the wanted columns first, then those with the largest entry relative to their cost."""
        for row in range(len(self.right)):
            entries = self.inner[row]
            options = [j for j in wanted if entries[j] and j not in self.basis]
            if not options:
                options = [j for j in np.flatnonzero(entries != 0) if j not in self.basis]
            if not options:
                if self.right[row]:
                    return False  # the neurons cannot interpolate y
                continue
            best = max(options, key=lambda j: log2(abs(entries[j])) - log2(self.costs[j]))
            self._pivot(row, int(best))
        kept = self.basis >= 0
        self.inner, self.right, self.basis = self.inner[kept], self.right[kept], self.basis[kept]
        return True

    def improve(self) -> bool:
        """Make one pivot, on a column with the best reduced cost, of either sign."""
        if not len(self.basis):
            return False
        if self.bottom < 0:
            self.inner, self.right, self.bottom = -self.inner, -self.right, -self.bottom
        signs = np.where(self.right < 0, -1, 1).astype(object)
        prices = (self.costs[self.basis] * signs) @ self.inner  # of each column, over bottom
        gains = np.abs(prices) - self.costs * self.bottom
        gains[self.basis] = -1
        sizes = np.array([_relative(g, c) for g, c in zip(gains, self.costs, strict=True)])
        order = [j for j in np.argsort(-sizes, kind="stable") if gains[j] > 0]
        for column in order[:8]:
            sign = 1 if prices[column] > 0 else -1
            fall = self.inner[:, column] * signs * sign
            heights = np.abs(self.right)
            leaving = -1
            for i in np.flatnonzero(fall > 0):
                if leaving < 0 or heights[i] * fall[leaving] < heights[leaving] * fall[i]:
                    leaving = int(i)
            if leaving >= 0 and (heights[leaving] > 0 or len(order) == 1):
                self._pivot(leaving, int(column))
                return True
        return False

    def _pivot(self, row: int, column: int) -> None:
        pivot, line, value = self.inner[row, column], self.inner[row].copy(), self.right[row]
        factors = self.inner[:, column].copy()
        self.inner = (self.inner * pivot - factors[:, None] * line) // self.bottom
        self.right = (self.right * pivot - factors * value) // self.bottom
        self.inner[row], self.right[row] = line, value
        self.bottom = pivot
        self.basis[row] = column

    def dual(self, columns: np.ndarray) -> list[Fraction]:
        """Return λ with a_jᵀλ = ±c_j on the basis, free entries zero; it only serves to choose new neurons."""
        matrix = columns[:, self.basis]
        signs = np.where(self.right * (1 if self.bottom > 0 else -1) < 0, -1, 1).astype(object)
        rows = [[*line, right] for line, right in zip(matrix.T, self.costs[self.basis] * signs, strict=True)]
        reduced, pivots = row_reduce(rows, len(matrix))
        answer = [Fraction(0)] * len(matrix)
        for row, column in zip(reduced, pivots, strict=False):
            answer[column] = row[-1]
        return answer


def _relative(gain: int, cost: int) -> float:
    return log2(gain) - log2(cost) if gain > 0 else -np.inf


def cheapest(rows: np.ndarray, y: np.ndarray, more: np.ndarray | None, find: Find) -> Interpolant:
    """Return the cheapest interpolant found by column generation with the dual point of the last basis.

    Parameters
    ----------
    rows, y : ndarray
        Lifted rows and scalar targets.
    more : ndarray or None
        Integer neurons to begin with, such as those of the network under test.
    find : callable
        Returns integer neurons (m, D) for a dual point in floats.
    """
    rival = Interpolant(rows, y)
    if more is not None and len(more):
        rival.offer(more)
    size = float(np.abs(y).max(initial=0.0)) or 1.0
    rival.offer(find(np.where(y == 0, size, y)))  # rows with a zero are left out of what is found
    last = rival.solve()
    for _ in range(ROUNDS):
        if last is None:
            break
        multipliers = rival.dual_ready.dual(rival.columns)
        size = max((abs(m) for m in multipliers), default=Fraction(0))
        if not size:
            break
        rival.offer(find(np.array([float(m / size) for m in multipliers])))
        now = rival.solve()
        if now is None or now >= last * (1 - Fraction(1, 10**9)):
            last = now
            break
        last = now
    return rival
