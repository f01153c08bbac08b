r"""Interpolation in the plane of lifted rows, one input and a bias, in coordinates that are accurate in any units.

With one input all neurons that have a kink among points far from the origin (years, incomes, seconds since 1970)
point in nearly one direction: their outputs agree to many digits, and their differences are lost in the sums of
:class:`~covopt.problems.problem.Problem`. Here rows are sorted by angle, z_1 … z_N in an open half plane, and all
quantities are computed from cross products of neighbours, which are accurate whatever their size (with a bias β they
are β(x_j − x_i)). The unit directions r_i ⟂ z_i, at which row i turns silent, cut the circle into arcs:

- r_i to r_{i+1}, where the rows after i are active (kinks that face right),
- −r_i to −r_{i+1}, where the rows up to i are active (kinks that face left),
- the arc between −r_N and r_1, where all rows are active, and the one opposite, where none is.

A dual Λ is represented by f_i = F(r_i), F(w) = Λᵀσ(Zw), and q = Λᵀ Z: F is linear on every arc, f_1 = q·r_1, f_N = 0
and F(−r_i) = f_i − q·r_i. So every neuron involves at most four of the unknowns (f_2 … f_{N−1}, q), none of which is
a difference of large numbers, and the network's equations Σ_j σ(Zw_j) v_jᵀ = Y become as many local ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from covopt.exact.far_rows import rounded_with_sums, whole
from covopt.exact.rank import COMPUTED, FOUND
from covopt.exact.rounding import two_product
from covopt.problems.problem import Problem


def crosses(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the product of the second row with the normal (z₂, −z₁) of the first, to about one rounding.

    Examples
    --------
    >>> float(crosses(np.array([[1.0, 1.0]]), np.array([[3.0, 1.0]]))[0])
    2.0
    """
    left, left_error = two_product(second[:, 0], first[:, 1])
    right, right_error = two_product(second[:, 1], first[:, 0])
    return (left - right) + (left_error - right_error)


@dataclass(frozen=True)
class Points:
    """Unit neurons by their arc: a r_i + b r_{i+1}, the negative of that, or any direction where all are active.

    Attributes
    ----------
    kind : ndarray of int
        0 faces right, 1 faces left, 2 all rows are active.
    arc : ndarray of int
        i, counted from 0; meaningless for kind 2.
    parts : ndarray of shape (m, 2)
        (a, b), or the direction itself.
    """

    kind: np.ndarray
    arc: np.ndarray
    parts: np.ndarray

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, which: np.ndarray) -> Points:
        """Return a selection of the neurons."""
        return Points(self.kind[which], self.arc[which], self.parts[which])

    @classmethod
    def join(cls, *several: Points) -> Points:
        """Return the concatenation."""
        return cls(
            np.concatenate([p.kind for p in several]), np.concatenate([p.arc for p in several]),
            np.concatenate([p.parts for p in several]),
        )  # fmt: skip


class HalfPlane:
    """A problem with two coordinates, in terms of arcs; make one with :meth:`of`.

    Attributes
    ----------
    order : ndarray of int
        The rows by angle.
    matrix_q : ndarray of shape (2, 2)
        T with q = T q', where q' is a coordinate of size one.
    constant : ndarray of shape (2,) or None
        e with Z e = 1, where there is an offset.
    """

    def __init__(self, problem: Problem, order: np.ndarray, constant: np.ndarray | None):
        self.problem, self.order, self.constant = problem, order, constant
        self.rows = z = problem.rows[order]
        self.targets = problem.targets[order]
        self.lengths = np.hypot(z[:, 0], z[:, 1])
        self.normals = np.column_stack([z[:, 1], -z[:, 0]]) / self.lengths[:, None]
        self.steps = crosses(z[:-1], z[1:])
        self.sines = self.steps / (self.lengths[:-1] * self.lengths[1:])
        self.cosines = np.einsum("ij,ij->i", self.normals[:-1], self.normals[1:])
        self.angles = np.arctan2(self.sines, self.cosines)
        self.inward = z[0] / self.lengths[0]
        last = -self.normals[-1]
        self.opening = float(np.arctan2(last @ self.inward, last @ self.normals[0]))
        directions = np.concatenate([self.normals, self.on_opening(np.linspace(0.0, self.opening, 9))])
        _, singular, right = np.linalg.svd(directions / np.sqrt(len(directions)), full_matrices=False)
        self.matrix_q = right.T / np.maximum(singular, 1e-12 * singular[0])
        self.demands = self._demands()

    @classmethod
    def of(cls, problem: Problem) -> HalfPlane | None:
        """Return the half plane of a problem, or None if its rows lie in none.

        Examples
        --------
        >>> rows = np.column_stack([np.arange(1871.0, 1881.0), np.ones(10)])
        >>> HalfPlane.of(Problem.through(rows, np.ones(10))) is not None
        True
        >>> HalfPlane.of(Problem.through(np.array([[1.0, 0.0], [-1.0, 0.1], [0.0, -1.0]]), np.ones(3))) is None
        True
        """
        rows = problem.rows
        if rows.shape[1] != 2 or len(rows) < 2 or problem.is_constant:
            return None
        units = rows / np.hypot(rows[:, 0], rows[:, 1])[:, None]
        middle = units.sum(axis=0)
        if not middle.any():
            return None
        middle /= np.hypot(*middle)
        along = units @ middle
        if along.min() <= COMPUTED and (rows[:, 1] > 0).all():  # a bias of 1e-9 beside inputs of both signs
            middle = np.array([0.0, 1.0])
            along = units[:, 1]
        if along.min() <= COMPUTED:
            return None
        if (rows[:, 1] > 0).all():
            order = np.argsort(rows[:, 0] / rows[:, 1], kind="stable")
        else:
            order = np.argsort((units @ np.array([middle[1], -middle[0]])) / along, kind="stable")
        if crosses(rows[order[:-1]], rows[order[1:]]).min() <= 0.0:
            return None
        constant = None
        if problem.has_offset:
            constant = np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)[0]
            if (rows[:, 1] == rows[0, 1]).all():  # the constants are the bias
                constant = np.array([0.0, 1.0 / rows[0, 1]])
            if np.abs(rows @ constant - 1.0).max() > FOUND:
                return None
        with np.errstate(all="ignore"):
            found = cls(problem, order, constant)
            room = np.isfinite(found.demands).all() and np.isfinite(found.demands**2).all()
        return found if room and found.sines.min() > 0.0 else None

    @property
    def is_lifted(self) -> bool:
        """Whether the second entry of all rows is the same: one input and its bias."""
        return bool((self.rows[:, 1] == self.rows[0, 1]).all() and self.rows[0, 1] > 0.0)

    def on_opening(self, angle: np.ndarray) -> np.ndarray:
        """Return directions at which all rows are active, by their angle from r_1."""
        return np.cos(angle)[:, None] * self.normals[0] + np.sin(angle)[:, None] * self.inward

    # ------------------------------------------------------------------ equations
    def _demands(self) -> np.ndarray:
        """Return the right-hand side of the equations, (N, k): kinks at rows 2 … N − 1, then the first line."""
        y, normals = self.targets, self.normals[:2] * self.lengths[:2, None]
        line = (np.outer(normals[0], y[1]) - np.outer(normals[1], y[0])) / self.steps[0]
        return np.concatenate([self._bends(y), self.matrix_q.T @ line])

    def _bends(self, y: np.ndarray) -> np.ndarray:
        c = self.steps
        over = crosses(self.rows[:-2], self.rows[2:])
        bend = y[2:] / c[1:, None] + y[:-2] / c[:-1, None] - y[1:-1] * (over / (c[1:] * c[:-1]))[:, None]
        return self.lengths[1:-1, None] * bend

    def local(self, y: np.ndarray) -> np.ndarray:
        """Transform outputs y on the rows (by angle) into the equations of :meth:`outputs`, shape (N, k)."""
        normals = self.normals[:2] * self.lengths[:2, None]
        second = (normals[0] @ normals[0] * y[1] - normals[0] @ normals[1] * y[0]) / self.steps[0]
        return np.concatenate([self._bends(y), [y[0], second]])

    def equations(self, points: Points) -> sparse.csr_matrix:
        """Return M (m, N), which gives each neuron's value from the unknowns: F(w_j) = Σ M_ji (f, q')_i."""
        n, m = len(self.rows), len(points)
        each = np.arange(m)
        bends, line = points.kind < 2, np.zeros((m, 2))
        line[~bends] = points.parts[~bends]
        where, which, values = [], [], []
        for step in (0, 1):
            ray = points.arc + step
            part = np.where(points.kind == 1, -1.0, 1.0) * points.parts[:, step]
            # the silent end of an arc contributes nothing, the other the whole line
            first, left = bends & (ray == 0), points.kind == 1
            line[first & ~left] += (part[:, None] * self.normals[np.minimum(ray, n - 1)])[first & ~left]
            turned = bends & left & (ray > 0)
            line[turned] += (part[:, None] * self.normals[np.minimum(ray, n - 1)])[turned]
            inner = bends & (ray > 0) & (ray < n - 1)
            where.append(each[inner])
            which.append(ray[inner] - 1)
            values.append(points.parts[inner, step])
        scaled = line @ self.matrix_q
        for column in (0, 1):
            where.append(each)
            which.append(np.full(m, n - 2 + column))
            values.append(scaled[:, column])
        return sparse.csr_matrix(
            (np.concatenate(values), (np.concatenate(where), np.concatenate(which))), shape=(m, n)
        )

    def offset_equation(self) -> np.ndarray:
        """Return what a constant output of one contributes, shape (N,)."""
        assert self.constant is not None
        found = np.zeros(len(self.rows))
        found[-2:] = self.constant @ self.matrix_q
        return found

    def outputs(self, points: Points) -> tuple[sparse.csr_array, np.ndarray]:
        """Return the equations of the weights, with the first line given by its value at row 1 and its slope.

        Returns
        -------
        (sparse array of shape (N, m), ndarray of shape (N, k))
        """
        z, normal = self.rows[0], self.normals[0] * self.lengths[0]
        matrix = self.equations(points).T.tolil()
        # what kinks add to the value at row 1 comes from cross products, not from sums that cancel
        value, slope = np.zeros(len(points)), np.zeros(len(points))
        over = crosses(np.broadcast_to(z, self.rows.shape), self.rows) / self.lengths  # −r_i·z_1
        flat = self.normals @ normal
        for step in (0, 1):
            ray = np.minimum(points.arc + step, len(self.rows) - 1)
            part = points.parts[:, step]
            left = points.kind == 1
            value += np.where(left, part * over[ray], 0.0)
            first = (points.kind == 0) & (ray == 0)
            slope += np.where(left & (ray > 0), -part * flat[ray], np.where(first, part * flat[0], 0.0))
        full = points.kind == 2
        value[full] = points.parts[full] @ z
        slope[full] = points.parts[full] @ normal
        matrix[-2], matrix[-1] = value, slope
        return matrix.tocsr(), self.local(self.targets)

    def offset_outputs(self) -> np.ndarray:
        """Return what a constant output of one adds to the equations of :meth:`outputs`."""
        assert self.constant is not None
        found = np.zeros(len(self.rows))
        found[-2:] = 1.0, self.constant @ self.normals[0] * self.lengths[0]
        return found

    def completed(self, points: Points, weights: np.ndarray) -> tuple[Points, np.ndarray]:
        """Add a neuron of weight zero with all rows active if there is none, since corrections need one."""
        if (points.kind == 2).any():
            return points, weights
        middle = self.on_opening(np.array([0.5 * self.opening]))
        more = Points(np.array([2]), np.array([0]), middle)
        return Points.join(points, more), np.concatenate([weights, np.zeros((1, weights.shape[1]))])

    def neurons(self, points: Points) -> np.ndarray:
        """Return the unit directions, shape (m, 2)."""
        here = np.minimum(points.arc, len(self.rows) - 2)
        found = points.parts[:, :1] * self.normals[here] + points.parts[:, 1:] * self.normals[here + 1]
        found[points.kind == 1] *= -1.0
        found[points.kind == 2] = points.parts[points.kind == 2]
        return found / np.hypot(found[:, 0], found[:, 1])[:, None]

    def rays(self) -> Points:
        """Return a neuron at every end of an arc, and some between −r_N and r_1."""
        n = len(self.rows)
        arcs = np.arange(n - 1)
        right = Points(np.zeros(n - 1, int), arcs, np.tile([1.0, 0.0], (n - 1, 1)))
        left = Points(np.ones(n - 1, int), arcs, np.tile([0.0, 1.0], (n - 1, 1)))
        inner = self.on_opening(np.linspace(0.0, self.opening, 9)[1:-1])
        return Points.join(right, left, Points(np.full(len(inner), 2), np.zeros(len(inner), int), inner))

    # ------------------------------------------------------------------ duals
    def price(self, unknowns: np.ndarray) -> tuple[float, Points, np.ndarray]:
        """Return h of a dual of shape (N, k), the maximisers inside arcs and the values there."""
        n = len(self.rows)
        q = self.matrix_q @ unknowns[-2:]
        line = self.normals @ q
        right = np.concatenate([line[:1], unknowns[:-2], np.zeros((1, q.shape[1]))])
        left = right - line
        left[0] = 0.0
        best = max(float(np.linalg.norm(ends, axis=1).max()) for ends in (right, left))
        found, values = [], []
        for kind, ends in ((0, right), (1, left)):
            slope = (ends[1:] - self.cosines[:, None] * ends[:-1]) / self.sines[:, None]
            angle, height = _peaks(ends[:-1], slope)
            inside = (angle > 0.0) & (angle < self.angles)
            parts = np.column_stack([np.sin(self.angles - angle), np.sin(angle)]) / self.sines[:, None]
            found.append(Points(np.full(n - 1, kind)[inside], np.flatnonzero(inside), parts[inside]))
            values.append(height[inside])
        angle, height = _peaks(line[:1], self.inward[None] @ q)
        if 0.0 < angle[0] < self.opening:
            found.append(Points(np.array([2]), np.array([0]), self.on_opening(angle)))
            values.append(height)
        all_values = np.concatenate(values)
        return max(best, float(all_values.max(initial=0.0))), Points.join(*found), all_values

    def heights(self, unknowns: np.ndarray) -> np.ndarray:
        """Return F(r_i) in the problem's order of rows, shape (N, k)."""
        first = self.normals[:1] @ (self.matrix_q @ unknowns[-2:])
        found = np.empty((len(self.rows), first.shape[1]))
        found[self.order] = np.concatenate([first, unknowns[:-2], np.zeros_like(first)])
        return found

    def dual(self, unknowns: np.ndarray) -> np.ndarray:
        """Return Λ (N, k) in the problem's order of rows."""
        q = self.matrix_q @ unknowns[-2:]
        heights = self.heights(unknowns)[self.order] * self.lengths[:, None]
        normals = self.normals[:2] * self.lengths[:2, None]
        heights[0] = normals[0] @ q
        c = self.steps[:, None]
        found = np.empty_like(heights)
        found[0] = (heights[1] - normals[1] @ q) / c[0]
        found[-1] = heights[-2] / c[-1]
        over = crosses(self.rows[:-2], self.rows[2:])[:, None]
        found[1:-1] = heights[:-2] / c[:-1] + heights[2:] / c[1:] - heights[1:-1] * (over / (c[:-1] * c[1:]))
        back = np.empty_like(found)
        back[self.order] = found
        return back

    def two_doubles(self, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the Λ of these unknowns, two doubles for each entry, with Λᵀ1 = 0 if the offset is free."""
        z = whole(self.rows, np.zeros_like(self.rows))
        q = self.matrix_q @ unknowns[-2:]
        if self.problem.offset_cost == 0.0 and self.is_lifted:
            q[1] = 0.0
        ends, line = np.zeros_like(unknowns), whole(q, np.zeros_like(q))
        ends[1:-1] = unknowns[:-2] * self.lengths[1:-1, None]
        heights = whole(ends, np.zeros_like(ends))
        first, second = (z[i, 1] * line[0] - z[i, 0] * line[1] for i in (0, 1))
        heights[0] = first
        c, over = (z[j:, 0] * z[:-j, 1] - z[j:, 1] * z[:-j, 0] for j in (1, 2))
        c, over = c[:, None], over[:, None]
        found = np.concatenate([
            ((heights[1] - second) / c[0])[None],
            heights[:-2] / c[:-1] + heights[2:] / c[1:] - heights[1:-1] * (over / (c[:-1] * c[1:])),
            (heights[-2] / c[-1])[None],
        ])  # fmt: skip
        back = np.empty((2, *found.shape))
        back[:, self.order] = rounded_with_sums(found, self.rows)
        return back[0], back[1]

    def balanced(self, unknowns: np.ndarray) -> np.ndarray:
        """Project the unknowns onto Λᵀ1 = 0."""
        assert self.constant is not None
        normal = self.matrix_q.T @ self.constant
        moved = unknowns.copy()
        moved[-2:] -= np.outer(normal, normal @ unknowns[-2:]) / (normal @ normal)
        return moved

    def total(self, unknowns: np.ndarray) -> np.ndarray:
        """Return Λᵀ1 as Λᵀ Z e."""
        assert self.constant is not None
        return (self.matrix_q @ unknowns[-2:]).T @ self.constant


def _peaks(start: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the angle in [0, π) at which ‖cos·start + sin·slope‖ is largest, and that norm."""
    along = np.einsum("ij,ij->i", start, start)
    across = np.einsum("ij,ij->i", slope, slope)
    mixed = np.einsum("ij,ij->i", start, slope)
    angle = (0.5 * np.arctan2(2.0 * mixed, along - across)) % np.pi
    height = np.linalg.norm(np.cos(angle)[:, None] * start + np.sin(angle)[:, None] * slope, axis=1)
    return angle, height
