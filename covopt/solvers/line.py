r"""One input and a bias in coordinates that no choice of units spoils: neurons, equations and duals by arcs.

All neurons that have a kink among points far from the origin (years, incomes, seconds since 1970) point in nearly one
direction: their outputs agree to many digits, and what tells them apart is lost in the sums of
:class:`~covopt.problems.problem.Problem`. Here points are sorted, x_1 < … < x_N, and everything is said by their
differences. The unit directions r_i = (β, −x_i)/n_i, n_i = ‖(x_i, β)‖, at which row i turns silent, cut the circle
into arcs:

- r_i to r_{i+1}, where the points after x_i are active (kinks that face right),
- −r_i to −r_{i+1}, where the points up to x_i are active (kinks that face left),
- the arc between −r_N and r_1, where all points are active, and the one opposite, where none is.

A dual Λ is known by f_i = F(r_i), F(w) = Λᵀσ(X̃w), and q = Λᵀ X̃: F is linear on every arc, f_1 = q·r_1, f_N = 0 and
F(−r_i) = f_i − q·r_i. So every neuron asks about at most four of the unknowns u = (f_2 … f_{N−1}, q), none of which
is a difference of large numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from covopt.exact.far_rows import rounded_with_sums, whole
from covopt.problems.problem import Problem

# A column is (what it faces, arc, a, b): a r_i + b r_{i+1}, its negative, or (a, b) where all points are active.
RIGHT, LEFT, FULL = 0.0, 1.0, 2.0


def is_one_input(problem: Problem) -> bool:
    """Whether rows are distinct points (x, β) of a line, β > 0.

    Examples
    --------
    >>> years = np.column_stack([np.arange(1871.0, 1881.0), np.ones(10)])
    >>> is_one_input(Problem.through(years, np.ones(10))), is_one_input(Problem.through(np.eye(2), np.ones(2)))
    (True, False)
    """
    rows = problem.rows
    if not problem.interpolates or rows.shape[1] != 2 or len(rows) < 2:
        return False
    return bool(
        rows[0, 1] > 0.0 and (rows[:, 1] == rows[0, 1]).all() and len(np.unique(rows[:, 0])) == len(rows)
    )


class Line:
    """Points of a line with their arcs.

    Parameters
    ----------
    problem : Problem
        Of which :func:`is_one_input` holds.

    Attributes
    ----------
    demands : ndarray of shape (N, k)
        What the unknowns of a dual are worth.
    scale_q : ndarray of shape (2, 2)
        T with q = T q', where q' is a coordinate of size one.
    """

    def __init__(self, problem: Problem):
        self.problem, self.order = problem, np.argsort(problem.rows[:, 0])
        self.rows, self.targets = problem.rows[self.order], problem.targets[self.order]
        self.x, self.bias = self.rows[:, 0], float(self.rows[0, 1])
        self.lengths, self.gaps = np.hypot(self.x, self.bias), np.diff(self.x)
        self.rays = np.column_stack([np.full(len(self.x), self.bias), -self.x]) / self.lengths[:, None]
        self.sines = self.bias * self.gaps / (self.lengths[:-1] * self.lengths[1:])
        self.cosines = np.einsum("ij,ij->i", self.rays[:-1], self.rays[1:])
        self.angles = np.arctan2(self.sines, self.cosines)
        self.inward = self.rows[0] / self.lengths[0]  # orthogonal to r_1
        self.opening = float(np.arctan2(-self.rays[-1] @ self.inward, -self.rays[-1] @ self.rays[0]))
        among = self._full(np.linspace(0.0, self.opening, 9))
        directions = np.concatenate([self.rays, among[:, 2:]])
        _, singular, right = np.linalg.svd(directions / np.sqrt(len(directions)), full_matrices=False)
        self.scale_q = right.T / np.maximum(singular, 1e-12 * singular[0])
        self.normal = self.rays[0] * self.lengths[0]
        self._make_maps()
        self.constant = np.zeros(len(self.x))  # what a constant output of one is in the equations
        self.constant[-2:] = self.scale_q[1] / self.bias
        self.demands = self._local(self.targets)
        slope = (self.targets[1] - self.targets[0]) / self.gaps[0]
        line = np.stack([slope, (self.targets[0] - slope * self.x[0]) / self.bias])
        self.demands[-2:] = self.scale_q.T @ line

    def _full(self, angles: np.ndarray) -> np.ndarray:
        """Return columns at which all points are active, by their angle from r_1."""
        found = np.full((len(angles), 4), FULL)
        found[:, 1] = 0.0
        found[:, 2:] = np.cos(angles)[:, None] * self.rays[0] + np.sin(angles)[:, None] * self.inward
        return found

    def _neurons(self, columns: np.ndarray) -> np.ndarray:
        """Return the unit directions, shape (m, 2)."""
        arc = columns[:, 1].astype(int)
        found = columns[:, 2:3] * self.rays[arc] + columns[:, 3:] * self.rays[arc + 1]
        found[columns[:, 0] == LEFT] *= -1.0
        found[columns[:, 0] == FULL] = columns[columns[:, 0] == FULL, 2:]
        return found / np.hypot(found[:, 0], found[:, 1])[:, None]

    # ------------------------------------------------------------------ equations
    def _make_maps(self) -> None:
        """Write F(r_i), F(−r_i) and F(w) as sums of the unknowns, and what their neurons add to local outputs."""
        n, shares = len(self.x), self.bias / self.lengths
        line, last = self.rays @ self.scale_q, np.column_stack([self.rows[0], self.normal])
        right = sparse.lil_array((n, n))
        right[1 : n - 1, : n - 2] = sparse.eye_array(n - 2)
        left, outputs_right, outputs_left = right.copy(), right.copy(), right.copy()
        right[0, n - 2 :], outputs_right[0, n - 1] = line[0], self.lengths[0]
        left[1:, n - 2 :] = -line[1:]
        outputs_left[1:, n - 2] = (shares * (self.x - self.x[0]))[1:]
        outputs_left[1:, n - 1] = -(self.rays @ self.normal)[1:]
        self.duals = right.tocsr(), left.tocsr(), self.scale_q
        self.values = outputs_right.tocsr(), outputs_left.tocsr(), last

    def _apply(self, maps: tuple[Any, Any, np.ndarray], columns: np.ndarray) -> sparse.csr_array:
        """Return what each column is by one of the maps, shape (m, N)."""
        m, n = len(columns), len(self.x)
        full = np.where(columns[:, :1] == FULL, columns[:, 2:], 0.0) @ maps[2]
        total = sparse.hstack([sparse.csr_array((m, n - 2)), full])
        for kind, each in ((RIGHT, maps[0]), (LEFT, maps[1])):
            which = np.flatnonzero(columns[:, 0] == kind)
            arc = columns[which, 1].astype(int)
            place = np.tile(which, 2), np.concatenate([arc, arc + 1])
            chosen = sparse.csr_array((columns[which, 2:].T.ravel(), place), shape=(m, n))
            total = total + chosen @ each
        return sparse.csr_array(total)

    def _local(self, outputs: np.ndarray) -> np.ndarray:
        """Return outputs on the points (N, k) as bends at x_2 … x_{N−1}, and the first line along x̃_1 and n_1 r_1."""
        slopes = np.diff(outputs, axis=0) / self.gaps[:, None]
        bends = (self.lengths[1:-1] / self.bias)[:, None] * np.diff(slopes, axis=0)
        line = np.array([slopes[0], (outputs[0] - slopes[0] * self.x[0]) / self.bias])
        return np.concatenate([bends, outputs[:1], (self.normal @ line)[None]])

    # ------------------------------------------------------------------ duals
    def price(self, unknowns: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return h of a dual, the maximisers inside arcs as columns, and the values there."""
        q, best = self.scale_q @ unknowns[-2:], 0.0
        found, values = [], []
        for kind, heights in ((RIGHT, self.duals[0]), (LEFT, self.duals[1])):
            ends = heights @ unknowns
            best = max(best, float(np.linalg.norm(ends, axis=1).max()))
            slope = (ends[1:] - self.cosines[:, None] * ends[:-1]) / self.sines[:, None]
            angle, height = _peaks(ends[:-1], slope)
            inside = np.flatnonzero((angle > 0.0) & (angle < self.angles))
            parts = np.stack([np.sin(self.angles - angle), np.sin(angle)]) / self.sines
            found.append(np.column_stack([np.full(len(inside), kind), inside, parts[:, inside].T]))
            values.append(height[inside])
        angle, height = _peaks(self.rays[:1] @ q, self.inward[None] @ q)
        inside = np.flatnonzero((angle > 0.0) & (angle < self.opening))
        found.append(self._full(angle[inside]))
        every = np.concatenate([*values, height[inside]])
        return max(best, float(every.max(initial=0.0))), np.concatenate(found), every

    def _multipliers(self, x: Any, bias: Any, q: Any, heights: Any) -> np.ndarray:
        """Return Λ (N, k) by points, of numbers or fractions: F(r_i)n_i are its second sums."""
        steps = (bias * (x[1:] - x[:-1]))[:, None]
        slopes = (heights[1:] - heights[:-1]) / steps
        first = slopes[0] + q[1] / bias
        return np.concatenate([first[None], slopes[1:] - slopes[:-1], -slopes[-1:]])

    def _by_rows(self, values: np.ndarray) -> np.ndarray:
        """Return values by points in the problem's order of rows."""
        found = np.empty_like(values)
        found[self.order] = values
        return found

    def dual_of(self, unknowns: np.ndarray) -> np.ndarray:
        """Return Λ (N, k) in the problem's order of rows."""
        q, heights = self.scale_q @ unknowns[-2:], np.zeros_like(unknowns)
        heights[0] = self.bias * q[0] - self.x[0] * q[1]
        heights[1:-1] = unknowns[:-2] * self.lengths[1:-1, None]
        return self._by_rows(self._multipliers(self.x, self.bias, q, heights))

    def _exact_multipliers(self, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the Λ that has these unknowns by two doubles each; with Λᵀ1 = 0 where an offset costs nothing."""
        q, rough = self.scale_q @ unknowns[-2:], np.zeros_like(unknowns)
        if self.problem.is_free:
            q[1] = 0.0
        rough[1:-1] = unknowns[:-2] * self.lengths[1:-1, None]
        x, bias, line, heights = (
            whole(part, np.zeros_like(part)) for part in (self.x, self.rows[:1, 1], q, rough)
        )
        heights[0] = bias[0] * line[0] - x[0] * line[1]
        found = self._multipliers(x, bias[0], line, heights)
        high, low = rounded_with_sums(found, self.rows)
        return self._by_rows(high), self._by_rows(low)


def _peaks(start: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Angle in [0, π) at which ‖cos·start + sin·slope‖ is largest, and that norm."""
    along = np.einsum("ij,ij->i", start, start)
    across = np.einsum("ij,ij->i", slope, slope)
    mixed = np.einsum("ij,ij->i", start, slope)
    angle = (0.5 * np.arctan2(2.0 * mixed, along - across)) % np.pi
    height = np.linalg.norm(np.cos(angle)[:, None] * start + np.sin(angle)[:, None] * slope, axis=1)
    return angle, height
