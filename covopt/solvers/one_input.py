r"""Interpolation with one input and a bias: cone programs in local coordinates, and cuts.

With the unknowns u of :mod:`covopt.solvers.line` the restricted problem is

    max ⟨u, demands⟩ − ‖Λᵀ1‖²/(2ρ)   s.t.   ‖M_j u‖ ≤ 1 for every neuron j,

where the demands are the bends of the points and their first line. Neurons inside arcs come in by pricing, which is a
closed form; where the points are far from the origin there are none.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from covopt.exact.rounding import UNIT
from covopt.limits import now
from covopt.problems.problem import Problem
from covopt.solvers.least_norm import SHIFT
from covopt.solvers.line import FULL, LEFT, RIGHT, Line
from covopt.solvers.loop import GenerationLoop
from covopt.solvers.points import Point
from covopt.sparsify.reduction import caratheodory
from covopt.status import Status

ACCURACY = 1e-11  # of the cone programs, in their own units
ROUNDED, MOST_EXACT = 0.1, 20_000  # of the tolerance, from which multipliers of so few rows are two doubles
USED = 1e-11  # share of the largest weight below which a neuron is left out
MOST_DENSE = 2000  # equations up to which surplus neurons are taken out by a dense null space
CANCELS = 1e-8  # of the squares of two parts, what the square of their sum must exceed
IDLE = 1e-14  # of the largest target, what a neuron's largest output must exceed
FLOOR = 1e-9  # share of the largest weight that a neuron at rest may take without being told
ROUNDS, REFINEMENTS = 40, 4


class OneInput(Line, GenerationLoop):
    """Solve a :class:`Problem` of which :func:`~covopt.solvers.line.is_one_input` holds.

    Parameters
    ----------
    problem : Problem
    **options
        Of :class:`~covopt.solvers.loop.GenerationLoop`.

    Examples
    --------
    >>> years = np.column_stack([np.arange(1871.0, 1876.0), np.ones(5)])
    >>> point = OneInput(Problem.through(years, np.array([1.0, 0.0, 1.0, 0.0, 1.0])), tol=1e-6).solve()
    >>> point.status.code, bool(point.gap < 1e-6), len(point.neurons) <= 5
    ('certified', True, True)
    """

    def __init__(self, problem: Problem, **options: Any):
        GenerationLoop.__init__(self, **options)
        Line.__init__(self, problem)
        arcs = np.arange(len(self.gaps))
        self.columns = np.concatenate([
            np.column_stack([np.full(len(arcs), RIGHT), arcs, np.ones(len(arcs)), np.zeros(len(arcs))]),
            np.column_stack([np.full(len(arcs), LEFT), arcs, np.zeros(len(arcs)), np.ones(len(arcs))]),
            self._full(np.linspace(0.0, self.opening, 9)[1:-1]),
        ])  # fmt: skip
        self.point = Point.nothing(problem, Status.GAP, finished=True)

    @property
    def n_columns(self) -> int:
        """Number of columns at present."""
        return len(self.columns)

    def solve(self) -> Point:
        """See the base class."""
        point = super().solve()
        lost = UNIT * float(np.abs(point.dual).sum(axis=1) @ np.linalg.norm(self.problem.rows, axis=1))
        if lost > ROUNDED * self.tol and point.dual.size <= MOST_EXACT:
            point.dual, point.dual_low = self._exact_multipliers(self._unknowns)
        return point

    def _start(self) -> bool:
        peak = float(np.abs(self.demands).max())
        self.scale = peak if peak > 0.0 else 1.0
        return bool(np.isfinite(np.square(self.demands)).all() and self.sines.min() > 0.0)

    def _iterate(self) -> None:
        if self._is_straight():
            return
        for _ in range(min(self.max_rounds, ROUNDS)):
            weights, offset, unknowns = self._solved()
            if not (np.isfinite(unknowns).all() and np.isfinite(weights).all()):
                return
            if self.problem.is_free:  # Λᵀ1 = 0
                normal = self.constant[-2:]
                unknowns[-2:] -= np.outer(normal, normal @ unknowns[-2:]) / (normal @ normal)
            gauge, fresh, values = self.price(unknowns)
            self._offer_dual(unknowns, max(gauge, 1.0))
            if self.point.lower_bound > 0.0:
                self._offer_network(weights, offset)
            better = values > 1.0 + 0.1 * self.tol
            if self.should_stop() or not better.any():
                return
            self.columns = np.concatenate([self.columns, fresh[better]])

    def _is_straight(self) -> bool:
        """With a free offset, points on a line need its slope alone, |Δy/Δx|: exactly, a few roundings apart."""
        if not self.problem.is_free or not self.problem.is_scalar:
            return False
        x, y = ([Fraction(v) for v in values.tolist()] for values in (self.x, self.targets[:, 0]))
        exact = (y[-1] - y[0]) / (x[-1] - x[0])
        if any(b - y[0] != exact * (a - x[0]) for a, b in zip(x, y, strict=True)):
            return False
        slope, side = float(exact), math.copysign(1.0, self.x[0] + self.x[-1])
        share = (self.x[-1] - self.x[1:-1]) / (self.x[-1] - self.x[0])
        line = np.linalg.solve(self.scale_q, np.array([1.0, 0.0]))
        unknowns = np.concatenate([share * self.bias / self.lengths[1:-1], line])
        self._offer_dual(math.copysign(1.0, slope) * unknowns[:, None], 1.0)
        self.point.neurons, self.point.weights = np.array([[side, 0.0]]), np.array([[side * slope]])
        self.point.offset = np.array([float(y[0] - Fraction(slope) * x[0])])
        self.point.upper_bound = abs(slope)
        return True

    def _solved(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return weights (m, k), offset (k,) and unknowns (N, k) of the restricted problem, by interior points."""
        import clarabel

        matrix, problem = self._apply(self.duals, self.columns), self.problem
        (m, n), k = matrix.shape, self.targets.shape[1]
        # a cone (1, M_j u) for each neuron; u is stored output by output
        place = (np.arange(m)[None, :] * (k + 1) + 1 + np.arange(k)[:, None]).ravel()
        into = sparse.csr_array((np.full(k * m, -1.0), (place, np.arange(k * m))), shape=(m * (k + 1), k * m))
        rows = [into @ sparse.kron(sparse.eye_array(k), matrix, format="csr")]
        right, cones = np.zeros(m * (k + 1)), [clarabel.SecondOrderConeT(k + 1)] * m
        right[:: k + 1] = 1.0
        quadratic = sparse.csc_array((n * k, n * k))
        if problem.has_offset:
            total = sparse.kron(sparse.eye_array(k), sparse.csr_array(self.constant[None, :]))
            size = float(np.abs(self.constant).max())
            if problem.is_free:
                rows.append(total / size)
                right, cones = np.append(right, np.zeros(k)), [*cones, clarabel.ZeroConeT(k)]
            else:
                quadratic = (total.T @ total / (problem.offset_cost * self.scale)).tocsc()
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.max_threads = False, 1
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = ACCURACY
        if self._deadline is not None:
            settings.time_limit = max(0.05, self._deadline - now())
        answer = clarabel.DefaultSolver(
            sparse.csc_matrix(sparse.triu(quadratic)), -self.demands.T.ravel() / self.scale,
            sparse.csc_matrix(sparse.vstack(rows)), right, cones, settings,
        ).solve()  # fmt: skip
        unknowns, found = np.asarray(answer.x).reshape(k, n).T, np.asarray(answer.z)
        weights, offset = -found[: m * (k + 1)].reshape(m, k + 1)[:, 1:] * self.scale, np.zeros(k)
        if problem.is_free:
            offset = found[m * (k + 1) :] / size * self.scale
        elif problem.has_offset:
            offset = self.constant @ unknowns / problem.offset_cost
        return weights, offset, unknowns

    # ------------------------------------------------------------------ bounds
    def _offer_dual(self, unknowns: np.ndarray, gauge: float) -> None:
        linear, step, bend = float(np.vdot(unknowns, self.demands)), 1.0 / gauge, 0.0
        if self.problem.has_offset and not self.problem.is_free:
            bend = float(np.sum((self.constant @ unknowns) ** 2)) / self.problem.offset_cost
            step = min(step, linear / bend) if bend > 0 else step
        value = step * linear - 0.5 * step * step * bend
        if value > self.point.lower_bound or not self.point.dual.any():
            self.point.lower_bound = max(value, 0.0)
            self.point.dual, self._unknowns = self.dual_of(step * unknowns), step * unknowns

    def _offer_network(self, weights: np.ndarray, offset: np.ndarray) -> None:
        mass = np.linalg.norm(weights, axis=1)
        used = mass > USED * mass.max(initial=0.0)
        columns, kept = self._merged(self.columns[used], weights[used])
        # two neurons at rest, to move the network by a line
        columns = np.concatenate([columns, self.columns[:1], self._full(np.array([0.5 * self.opening]))])
        kept = np.concatenate([kept, np.zeros((2, kept.shape[1]))])
        kept, offset = self._refined(columns, kept, offset)
        n, k = self.targets.shape
        if len(kept) > n * k and n * k <= MOST_DENSE:
            columns, kept = self._fewer(columns, kept)
            kept, offset = self._refined(columns, kept, offset)
        reach = np.maximum(self.rows @ self._neurons(columns).T, 0.0).max(axis=0)
        heard: Any = reach * np.linalg.norm(kept, axis=1) > IDLE * float(np.abs(self.targets).max())
        value = self.problem.network_value(kept[heard], offset)
        if value < self.point.upper_bound:
            self.point.upper_bound, self.point.offset = value, offset
            self.point.neurons, self.point.weights = self._neurons(columns[heard]), kept[heard]

    def _refined(
        self, columns: np.ndarray, weights: np.ndarray, offset: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Correct weights and offset, as little as possible relative to their size, until the outputs are right."""
        given = np.zeros_like(offset) if self.problem.is_free else offset  # one that has a price stays
        targets = self.targets - given
        matrix, right = self._apply(self.values, columns).T, self._local(targets)
        mass = np.linalg.norm(weights, axis=1)
        metric, values = mass + FLOOR * mass.max(initial=0.0), weights
        if self.problem.is_free:
            shift = np.zeros(len(self.x))
            shift[-2:] = 1.0, self.normal[1] / self.bias
            matrix = sparse.hstack([matrix, shift[:, None]])
            lever = max(float(np.abs(offset).max()), float(np.abs(self.targets).max()))
            metric, values = np.append(metric, lever), np.concatenate([weights, offset[None]])
        matrix = matrix.tocsr()
        system = (matrix @ sparse.diags_array(metric) @ matrix.T).tocsc()
        diagonal = system.diagonal()
        scaling = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        scaled = sparse.diags_array(scaling) @ system @ sparse.diags_array(scaling)
        factor = splu((scaled + SHIFT * sparse.eye_array(len(scaling))).tocsc())
        atoms = np.maximum(self.rows @ self._neurons(columns).T, 0.0)
        best, before = values, np.inf
        for attempt in range(2 * REFINEMENTS):
            # first the local equations, which know no cancellation, then the outputs as they will be computed
            missed = right - matrix @ values
            if attempt >= REFINEMENTS:
                left = targets - atoms @ values[: len(columns)]
                left = left - values[-1] if self.problem.is_free else left
                worst = float(np.abs(left).max())
                if worst < before:
                    best, before = values, worst
                missed = self._local(left)
            step = scaling[:, None] * factor.solve(np.ascontiguousarray(scaling[:, None] * missed))
            values = values + metric[:, None] * (matrix.T @ step)
        return best[: len(weights)], best[-1] if self.problem.is_free else offset

    def _fewer(self, columns: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return at most N·k neurons, by Carathéodory."""
        dense, mass = self._apply(self.values, columns).T.toarray(), np.linalg.norm(weights, axis=1)
        columns, weights, dense, mass = (
            columns[mass > 0],
            weights[mass > 0],
            dense[:, mass > 0],
            mass[mass > 0],
        )
        # in units of the kinks: where all points are active, neurons far from the origin do much more
        size = np.abs(dense[:, columns[:, 0] != FULL]).max(axis=1, initial=0.0)
        dense = dense / np.where(size > 0.0, size, 1.0)[:, None]
        atoms = dense[:, None, :] * (weights / mass[:, None]).T[None, :, :]
        kept = caratheodory(atoms.reshape(-1, len(mass)), mass)
        return columns[kept > 0], weights[kept > 0] * (kept / mass)[kept > 0, None]

    def _merged(self, columns: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Merge neurons of one arc and sign, with one output: their sum has the same outputs and costs no more.

        Where the ends of an arc are nearly opposite, a sum that is short beside its parts has lost its digits: those
        stay apart.
        """
        if weights.shape[1] > 1 or not len(columns):
            return columns, weights
        label = np.column_stack([columns[:, :2], np.sign(weights[:, 0])])
        groups, group = np.unique(label, axis=0, return_inverse=True)
        parts = np.zeros((len(groups), 2))
        np.add.at(parts, np.ravel(group), np.abs(weights) * columns[:, 2:])
        cosine = np.where(groups[:, 0] == FULL, 0.0, self.cosines[groups[:, 1].astype(int)])
        around = np.square(parts).sum(axis=1)
        square = around + 2.0 * cosine * parts[:, 0] * parts[:, 1]
        clear = square > CANCELS * around
        length, alone = np.sqrt(square[clear]), ~clear[np.ravel(group)]
        together = np.column_stack([groups[clear, :2], parts[clear] / length[:, None]])
        masses = np.concatenate([groups[clear, 2] * length, weights[alone, 0]])
        return np.concatenate([together, columns[alone]]), masses[:, None]
