"""Interpolation with one input: a sparse program over the rays, then columns inside arcs until none is violated.

In the local coordinates of :class:`~covopt.problems.half_plane.HalfPlane` the restricted problem is

    min Σ_j ‖v_j‖ (+ ½ ρ ‖B‖²)   s.t.   Mᵀ v + e Bᵀ = demands,

with at most four entries in each row of M, whatever the units. With one output and no price on the offset it is a
linear program (the simplex method ends at a vertex: at most N neurons), else a second-order cone program. Neurons
inside arcs enter by pricing, which has a closed form; where the points are far from the origin there are none. Column
generation in the coordinates of the rows keeps a gap of .3 for 1000 points with two outputs, of .02 where the input
is a year.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from scipy.sparse.linalg import splu

from covopt.errors import Status
from covopt.exact.rank import ATOMS, COMPUTED, FOUND
from covopt.exact.rounding import UNIT
from covopt.limits import HALF, now
from covopt.problems.half_plane import HalfPlane, Points
from covopt.solvers.driver import Schedule
from covopt.solvers.least_norm import SHIFT
from covopt.solvers.loop import GenerationLoop, Point

ACCURACY = 1e-10  # tolerance of the linear programs, in their own units
SMALL = 400  # most targets for which the gap is closed to ``FOUND``
# loss by rounding, over the tolerance, above which multipliers become two doubles; most multipliers for that
ROUNDED, MOST_EXACT = 0.1, 20_000


class OneInput(GenerationLoop):
    """Solve a :class:`Problem` with rows in an open half plane.

    Parameters
    ----------
    plane : HalfPlane
    **options
        See :class:`~covopt.solvers.loop.GenerationLoop`.
    """

    def __init__(self, plane: HalfPlane, **options: Any):
        super().__init__(**options)
        self.asked, self.plane, self.problem = self.tol, plane, plane.problem
        if plane.targets.size <= SMALL:  # rounds are cheap, and a sharp dual tells which neurons are tight
            self.tol = min(self.tol, FOUND)
        self.columns = plane.rays()
        self.neurons = plane.neurons(self.columns)
        self.point = Point.nothing(self.problem, Status.GAP, finished=plane.targets.size > SMALL)

    def solve(self) -> Point:
        """See the base class."""
        point = super().solve()
        if point.status is Status.GAP and point.gap <= self.asked:
            point.status = Status.CERTIFIED
        lost = UNIT * float(np.abs(point.dual).sum(axis=1) @ self.plane.lengths)
        if lost > ROUNDED * self.asked and point.dual.size <= MOST_EXACT:
            point.dual, point.dual_low = self.plane.two_doubles(self._unknowns)
        return point

    def _start(self) -> bool:
        peak = float(np.abs(self.plane.demands).max())
        self.scale = peak if peak > 0.0 else 1.0
        return True

    def _iterate(self) -> None:
        idle = 0
        for _ in range(self.max_rounds):
            before, found = self.point.gap, self._solved()
            if found is None:
                return
            weights, offset, duals = found
            entering = []
            for dual in duals:
                unknowns = self.plane.balanced(dual) if self.problem.offset_cost == 0.0 else dual
                dual_norm, fresh, values = self.plane.price(unknowns)
                self._offer_dual(unknowns, max(dual_norm, 1.0))
                entering.append(fresh.take(values > 1.0 + 0.1 * self.tol))
            if self.point.lower_bound > 0.0:
                self._offer_network(weights, offset)
            idle = 0 if self.point.gap < before else idle + 1
            if self.should_stop() or not any(map(len, entering)) or idle > Schedule.max_idle:
                return  # columns that enter again and again show rounding errors alone
            self.columns = Points.join(self.columns, *entering)
            self.neurons = self.plane.neurons(self.columns)

    # ------------------------------------------------------------------ restricted problems
    def _solved(self) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]] | None:
        """Return weights (m, k), offset (k,) and unknowns (N, k) of optimal duals of the restricted problem.

        With one output they are vertices: a network of few neurons, a dual to the last digit.
        """
        problem = self.problem
        if problem.is_scalar and not 0.0 < problem.offset_cost < np.inf:
            vertex = self._linear()
            return None if vertex is None else (*vertex[:2], [vertex[2]])
        amid = self._conic()
        if amid is None:
            return None
        weights, offset, duals = *amid[:2], [amid[2]]
        if problem.is_scalar:
            # with the offset known, its cost is linear in the dual problem and constant for the network
            vertex = self._linear(price=problem.offset_cost * float(offset[0]))
            network = self._linear(fixed=offset)
            if vertex is not None and network is not None:
                weights, duals = network[0], [*duals, vertex[2]]
        return weights, offset, duals

    def _linear(
        self, *, price: float = 0.0, fixed: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Solve for one output by the simplex method; the offset is free at a linear price, or fixed."""
        matrix = self.plane.equations(self.columns).T
        m = matrix.shape[1]
        cost, right = np.ones(2 * m), self.plane.demands[:, 0]
        bounds: list[tuple[float | None, None]] = [(0.0, None)] * (2 * m)
        both, size = [matrix, -matrix], 1.0
        if fixed is not None:
            right = right - self.plane.offset_equation() * fixed[0]
        elif self.problem.has_offset:
            column = self.plane.offset_equation()
            size = float(np.abs(column).max())
            both.append(sparse.csr_matrix(column[:, None] / size))
            cost, bounds = np.append(cost, price / size), [*bounds, (None, None)]
        answer = linprog(
            cost, A_eq=sparse.hstack(both).tocsc(), b_eq=right / self.scale, bounds=bounds,
            method="highs-ds", options=self._options(),
        )  # fmt: skip
        if answer.x is None or answer.eqlin is None or answer.status != 0:
            return None
        weights = (answer.x[:m] - answer.x[m : 2 * m]) * self.scale
        offset = answer.x[2 * m :] / size * self.scale if len(answer.x) > 2 * m else np.zeros(1)
        return weights[:, None], offset, np.asarray(answer.eqlin.marginals)[:, None]

    def _options(self) -> dict[str, float]:
        options = {"primal_feasibility_tolerance": ACCURACY, "dual_feasibility_tolerance": ACCURACY}
        left = self._seconds_left()
        return options if left is None else options | {"time_limit": left}

    def _seconds_left(self) -> float | None:
        return None if self._deadline is None else max(0.05, self._deadline - now())

    def _conic(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Solve the dual of the restricted problem by an interior point method for second-order cones."""
        import clarabel

        matrix = self.plane.equations(self.columns).tocsr()
        m, n = matrix.shape
        k = self.plane.targets.shape[1]
        # a cone (1, Mᵀ_j u) for each neuron; u is stored output by output
        each = sparse.kron(sparse.eye_array(k), matrix, format="csr")
        order = np.arange(k * m).reshape(k, m).T.ravel()
        place = np.repeat(np.arange(m) * (k + 1), k) + np.tile(np.arange(1, k + 1), m)
        # row of the cone, row of ``each``
        chosen = sparse.csr_array((np.full(k * m, -1.0), (place, order)), shape=(m * (k + 1), k * m))
        matrix_all = chosen @ each
        right = np.zeros(m * (k + 1))
        right[:: k + 1] = 1.0
        cones = [clarabel.SecondOrderConeT(k + 1)] * m
        quadratic = sparse.csc_array((n * k, n * k))
        if self.problem.has_offset:
            total = sparse.kron(sparse.eye_array(k), sparse.csr_array(self.plane.offset_equation()[None, :]))
            if self.problem.offset_cost > 0:
                quadratic = (total.T @ total / (self.problem.offset_cost * self.scale)).tocsc()
            else:
                size = float(np.abs(total.data).max())
                matrix_all = sparse.vstack([matrix_all, total / size])
                right = np.concatenate([right, np.zeros(k)])
                cones = [*cones, clarabel.ZeroConeT(k)]
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = ATOMS
        settings.max_threads = 1
        left = self._seconds_left()
        if left is not None:
            settings.time_limit = left
        answer = clarabel.DefaultSolver(
            sparse.csc_matrix(sparse.triu(quadratic)), -self.plane.demands.T.ravel() / self.scale,
            sparse.csc_matrix(matrix_all), right, cones, settings,
        ).solve()  # fmt: skip
        unknowns = np.asarray(answer.x).reshape(k, n).T
        multipliers = np.asarray(answer.z)
        if not np.isfinite(unknowns).all() or not np.isfinite(multipliers).all():
            return None
        weights = -multipliers[: m * (k + 1)].reshape(m, k + 1)[:, 1:] * self.scale
        offset = np.zeros(k)
        if self.problem.has_offset:
            if self.problem.offset_cost > 0:
                offset = self.plane.total(unknowns) / self.problem.offset_cost
            else:
                offset = multipliers[m * (k + 1) :] / size * self.scale
        return weights, offset, unknowns

    # ------------------------------------------------------------------ bounds
    def _offer_dual(self, unknowns: np.ndarray, dual_norm: float) -> None:
        linear = float(np.vdot(unknowns, self.plane.demands))
        step = 1.0 / dual_norm
        bend = 0.0
        if self.problem.has_offset and self.problem.offset_cost > 0:
            bend = float(np.sum(self.plane.total(unknowns) ** 2)) / self.problem.offset_cost
            step = min(step, linear / bend) if bend > 0 else step
        value = step * linear - 0.5 * step * step * bend
        if value > self.point.lower_bound or not self.point.dual.any():
            self.point.lower_bound = max(value, 0.0)
            self.point.dual, self._unknowns = self.plane.dual(step * unknowns), step * unknowns

    def _offer_network(self, weights: np.ndarray, offset: np.ndarray) -> None:
        mass = np.linalg.norm(weights, axis=1)
        used = mass > ATOMS * mass.max(initial=0.0)
        columns, kept = _merged(self.plane, self.columns.take(used), weights[used])
        columns, kept = self.plane.completed(columns, kept)
        kept, offset = self._refined(columns, kept, offset)
        columns, kept = self._without_idle(columns, kept)
        value = self.problem.network_value(kept, offset)
        if value < self.point.upper_bound:
            self.point.upper_bound = value
            self.point.neurons, self.point.weights = self.plane.neurons(columns), kept
            self.point.offset = offset

    def _refined(
        self, columns: Points, weights: np.ndarray, offset: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Correct weights and offset, as little as possible relative to their size, until they interpolate."""
        plane = self.plane
        matrix, right = plane.outputs(columns)
        mass = np.linalg.norm(weights, axis=1)
        metric = mass + FOUND * mass.max(initial=0.0)
        values, shift = weights, np.zeros(0)
        if self.problem.has_offset:
            shift = plane.offset_outputs()
            matrix = sparse.hstack([matrix, sparse.csr_array(shift[:, None])]).tocsr()
            lever = max(float(np.abs(offset).max()), float(np.abs(self.problem.targets).max()))
            metric, values = np.append(metric, lever), np.concatenate([weights, offset[None]])
        system = (matrix @ sparse.diags_array(metric) @ matrix.T).tocsc()
        diagonal = system.diagonal()
        scaling = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        scaled = sparse.diags_array(scaling) @ system @ sparse.diags_array(scaling)
        factor = splu((scaled + SHIFT * sparse.eye_array(len(scaling))).tocsc())

        def stepped(values: np.ndarray, missed: np.ndarray) -> np.ndarray:
            step = scaling[:, None] * factor.solve(np.ascontiguousarray(scaling[:, None] * missed))
            return values + metric[:, None] * (matrix.T @ step)

        # first the local equations, which are free of cancellation, then the outputs in floating point
        least = np.inf
        while (worst := float(np.abs(left := right - matrix @ values).max())) < HALF * least:
            values, least = stepped(values, left), worst
        best, least = values, np.inf
        while (worst := float(np.abs(left := self._missed(columns, values)).max())) < HALF * least:
            best, least = values, worst
            values = stepped(values, plane.local(left))
        return best[: len(weights)], best[len(weights)] if self.problem.has_offset else offset

    def _without_idle(self, columns: Points, weights: np.ndarray) -> tuple[Points, np.ndarray]:
        """Drop neurons that add nothing to any output."""
        reach = np.maximum(self.plane.rows @ self.plane.neurons(columns).T, 0.0).max(axis=0)
        heard = reach * np.linalg.norm(weights, axis=1) > COMPUTED * float(np.abs(self.problem.targets).max())
        return columns.take(heard), weights[heard]

    def _missed(self, columns: Points, values: np.ndarray) -> np.ndarray:
        """Return targets minus outputs in floating point, rows by angle, shape (N, k)."""
        m = len(columns)
        found = (
            self.plane.targets - np.maximum(self.plane.rows @ self.plane.neurons(columns).T, 0.0) @ values[:m]
        )
        return found - values[m] if self.problem.has_offset else found


def _merged(plane: HalfPlane, columns: Points, weights: np.ndarray) -> tuple[Points, np.ndarray]:
    """Merge neurons of one arc and sign, with one output: their sum has the same outputs and costs no more.

    Where the ends of an arc are nearly opposite, a sum much shorter than its parts has lost its digits: such neurons
    are not merged.
    """
    if weights.shape[1] > 1 or not len(columns):
        return columns, weights
    sign = np.sign(weights[:, 0])
    label = np.column_stack([columns.kind, np.where(columns.kind < 2, columns.arc, 0), sign])
    groups, group = np.unique(label, axis=0, return_inverse=True)
    parts = np.zeros((len(groups), 2))
    np.add.at(parts, group, np.abs(weights) * columns.parts)
    kind, arc = groups[:, 0].astype(int), groups[:, 1].astype(int)
    cosine = np.where(kind < 2, plane.cosines[arc], 0.0)
    around = parts[:, 0] ** 2 + parts[:, 1] ** 2
    square = around + 2.0 * cosine * parts[:, 0] * parts[:, 1]
    clear = square > FOUND * around
    length = np.sqrt(square[clear])
    alone = ~clear[np.ravel(group)]
    together = Points(kind[clear], arc[clear], parts[clear] / length[:, None])
    masses = np.concatenate([groups[clear, 2] * length, weights[alone, 0]])
    return Points.join(together, columns.take(alone)), masses[:, None]


def solve_one_input(plane: HalfPlane, **options: Any) -> Point:
    """Solve by :class:`OneInput`.

    Parameters
    ----------
    plane : HalfPlane
    **options
        ``tol``, ``time_limit_s``, ``max_rounds``, ``random_state``, ``callback``.

    Examples
    --------
    >>> from covopt.problems.problem import Problem
    >>> years = np.column_stack([np.arange(1871.0, 1876.0), np.ones(5)])
    >>> plane = HalfPlane.of(Problem.through(years, np.array([1.0, 0.0, 1.0, 0.0, 1.0])))
    >>> point = solve_one_input(plane, tol=1e-6)
    >>> point.status.code, bool(point.gap < 1e-9), len(point.neurons) <= 5
    ('certified', True, True)
    """
    return OneInput(plane, **options).solve()
