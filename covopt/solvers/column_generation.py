"""Column generation: solve over the neurons found so far, ask the oracle for better ones, stop on the gap.

One round

1. solves the restricted dual with the interior-point method, only as accurately as the current gap deserves
   (a centred dual makes better columns than a vertex),
2. prices it: the oracle's bound h(λ) scales λ into a feasible dual, its local maxima become columns,
3. turns the multipliers into a network that interpolates: merged within cells, polished within faces.

Once the gap is small the cuts are linearisations of smooth functions (the neuron moves inside its face as λ moves),
and cutting planes alone converge linearly. The restricted dual then carries the curvature of those faces,
½ Σ_F ‖p_F‖ ‖T_Fᵀ G_Fᵀ (λ − λ_k)‖² with T_F the directions of the face orthogonal to its neuron: the master becomes
the quadratic model of sequential quadratic programming, and convergence is quadratic. The cuts stay valid either
way, so the curvature changes the path and never a bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from covopt.exact.rounding import relative_gap
from covopt.oracles.base import Oracle, Pricing
from covopt.oracles.lifted.gauge_certificate import GaugeCertificate
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.interior_point import Curvature, MasterPoint, solve_master
from covopt.solvers.least_norm import LeastNorm
from covopt.solvers.loop import GenerationLoop, RoundState
from covopt.solvers.merging import Faces, face_matrix, merge_in_cells, polish
from covopt.solvers.seeds import random_vertices, spanning_directions
from covopt.status import Status

CURVATURE_GAP = 2e-6
MERGE_GAP = 1e-3
EARLY = 0.1
SEEDS_PER_ROW = 2
MAX_IDLE = 8
ROUNDING = 1e-14
PASSES = 0.9e-9  # the same, where nothing comes closer: what a certificate allows, nearly
FEASIBLE = 1e-10  # largest residual, relative to max|y| = 1, at which a network counts as interpolating


@dataclass
class Point:
    """Best points of a solver, in the units and shapes of the :class:`ShallowProblem`."""

    neurons: np.ndarray
    weights: np.ndarray
    offset: float | np.ndarray
    upper_bound: float
    dual: np.ndarray
    lower_bound: float
    status: Status
    history: list[RoundState] = field(default_factory=list)
    proof: GaugeCertificate | None = None  # of the dual's gauge, where a semidefinite relaxation gave it
    moments: np.ndarray | None = (
        None  # Λᵀ Z, (r, k), where it is known better than the sum of the dual's doubles
    )

    @property
    def gap(self) -> float:
        """Relative distance of the bounds."""
        return relative_gap(self.upper_bound, self.lower_bound)


class ColumnGeneration(GenerationLoop):
    """Solve a :class:`ShallowProblem` by column generation.

    Parameters
    ----------
    problem : ShallowProblem
    oracle : Oracle
        Prices duals of the problem's rows.
    start_neurons : ndarray of shape (m, r), optional
    **options
        Of :class:`~covopt.solvers.loop.GenerationLoop`.
    """

    def __init__(
        self,
        problem: ShallowProblem,
        oracle: Oracle,
        *,
        start_neurons: np.ndarray | None = None,
        **options: Any,
    ):
        super().__init__(**options)
        self.problem, self.oracle, self.start_neurons = problem, oracle, start_neurons
        self.faces: Faces | None = None
        self.residual = np.inf
        # the best so far of those that miss the points by more than the tolerance is worth
        self._rough: tuple[float, np.ndarray, np.ndarray, float] = np.inf, np.zeros((0, 0)), np.zeros(0), 0.0
        n, rank = problem.rows.shape
        self.point = Point(
            np.zeros((0, rank)), np.zeros(0), 0.0, np.inf, np.zeros(n), 0.0, Status.GAP, []
        )  # fmt: skip

    # ------------------------------------------------------------------ the loop
    def solve(self) -> Point:
        """See the base class; where no network met the tolerance, the closest one that a certificate allows."""
        point = super().solve()
        if not np.isfinite(point.upper_bound) and self._rough[0] <= PASSES:
            self._offer(*self._rough[1:])
        return point

    def _start(self) -> bool:
        """First dual, first columns; False when the zero network is already optimal."""
        problem = self.problem
        n = len(problem.targets)
        first = problem.project_dual(problem.targets)
        if np.abs(first).max(initial=0.0) <= 1e-14:
            offset = float(problem.targets.mean()) if problem.has_offset and n else 0.0
            self.point.upper_bound, self.point.offset = 0.0, offset
            return False
        pricing = self.oracle.price(first, threshold=0.0, max_neurons=max(n, 20))
        self._offer_dual(first, pricing)
        neurons = [random_vertices(problem.rows, SEEDS_PER_ROW * n, self.rng), pricing.neurons]
        if self.start_neurons is not None:
            neurons.append(self.start_neurons)
        self._set_columns(np.concatenate(neurons))
        gram = self.atoms.T @ self.atoms
        gram[np.diag_indices_from(gram)] += 1e-10 * float(np.trace(gram)) / n
        if np.linalg.eigvalsh(gram)[0] < 2e-10 * float(np.trace(gram)) / n:
            self._set_columns(np.concatenate([*neurons, spanning_directions(problem.rows)]))
        return True

    def _set_columns(self, neurons: np.ndarray) -> None:
        neurons = np.unique(np.round(neurons, 13), axis=0)
        norms = np.linalg.norm(neurons, axis=1, keepdims=True)
        neurons = neurons[norms[:, 0] > 0.5] / norms[norms[:, 0] > 0.5]
        atoms = self.problem.atoms(neurons).T
        live = atoms.max(axis=1) > 1e-13
        if live.any():  # all of them vanish only on data without room in double precision
            neurons, atoms = neurons[live], atoms[live]
        self.neurons, self.atoms = neurons, np.ascontiguousarray(atoms)

    def _iterate(self) -> None:
        plus = minus = None
        previous: np.ndarray | None = None
        shrink = 0.5
        idle = 0
        for number in range(self.max_rounds):
            gap = self.point.gap if np.isfinite(self.point.gap) else 1.0
            curvature = self._curvature(previous) if gap <= CURVATURE_GAP and self.faces is not None else None
            start = self.point.dual * (1.0 - shrink)
            accuracy = max(0.1 * min(gap, 1.0), 0.01 * self.tol, 1e-13)
            if curvature is not None or idle:
                accuracy = max(accuracy * 0.1 ** (1 + idle), 1e-14)
            master = solve_master(
                self.atoms, self.problem.targets, start, offset_cost=self.problem.offset_cost,
                tol=accuracy, plus=plus, minus=minus, curvature=curvature, deadline=self._deadline,
            )  # fmt: skip
            threshold = 1.0 - min(0.05, 3.0 * np.sqrt(gap)) if gap < 1e-2 else 1.0
            dual = self.problem.project_dual(master.dual)
            pricing = self.oracle.price(dual, threshold=threshold)
            bound = self.point.lower_bound
            self._offer_dual(dual, pricing)
            # far from the end a network is made every few rounds only: it costs as much as a master step
            if gap > EARLY and number % 3 and pricing.upper_bound > 1.0 + EARLY:
                pass
            elif not self._offer_network(master, curved=curvature is not None):
                self._offer_network(self._plain(start, master, accuracy), curved=False)
            new_gap = self.point.gap
            if self.should_stop():
                return
            # dropping without progress would let the same columns come and go for ever
            keep = self._keep(master) if self.point.lower_bound > bound else slice(None)
            fresh = self._fresh(pricing, gap)
            # without new columns only a more accurate master can help
            idle = 0 if len(fresh) or new_gap < 0.5 * gap else idle + 1
            if idle > MAX_IDLE:
                return
            self.neurons = np.concatenate([self.neurons[keep], fresh])
            self.atoms = np.concatenate([self.atoms[keep], self.problem.atoms(fresh).T])
            zeros = np.zeros(len(fresh))
            plus, minus = (
                np.concatenate([master.plus[keep], zeros]),
                np.concatenate([master.minus[keep], zeros]),
            )
            previous = master.dual
            shrink = float(np.clip(0.1 * new_gap, 1e-12, 0.1))

    def _plain(self, start: np.ndarray, master: MasterPoint, accuracy: float) -> MasterPoint:
        """Solve the restricted problem without curvature on the same columns: its weights interpolate exactly."""
        return solve_master(
            self.atoms, self.problem.targets, start, offset_cost=self.problem.offset_cost, tol=accuracy,
            plus=master.plus, minus=master.minus, deadline=self._deadline,
        )  # fmt: skip

    # ------------------------------------------------------------------ bounds
    def _offer_dual(self, dual: np.ndarray, pricing: Pricing) -> None:
        scaled, value = self.problem.scale_dual(dual, pricing.upper_bound)
        if value > self.point.lower_bound or not self.point.dual.any():
            self.point.dual, self.point.lower_bound = scaled, max(value, 0.0)

    def _offer_network(self, master: MasterPoint, *, curved: bool) -> bool:
        """Turn the multipliers into networks that interpolate; keep the cheapest so far.

        Multipliers of a curved master do not interpolate by themselves, the neurons have to move within their faces;
        those of a plain one do, up to a small correction. Returns whether any network interpolated.
        """
        weights, offset = master.plus - master.minus, master.offset
        found = False
        if not curved:
            weights, offset, residual = self._repair(master)
            if residual <= self._negligible:
                used = weights != 0
                self._offer(self.neurons[used], weights[used], offset)
                found = True
            elif residual < self._rough[0]:
                used = weights != 0
                self._rough = residual, self.neurons[used], weights[used], offset
        if self.point.gap <= MERGE_GAP:
            heavy = np.abs(weights) > 1e-7 * np.abs(weights).max(initial=0.0)
            faces = merge_in_cells(self.problem.rows, self.neurons[heavy], weights[heavy])
            polished, offset, self.residual = polish(
                self.problem.rows, self.problem.targets, faces, offset, moves_offset=self.problem.has_offset
            )
            self.faces = faces
            if self.residual <= self._negligible:
                self.faces, masses = polished, polished.masses
                live = masses > 0
                units = polished.vectors[live] / masses[live, None]
                self._offer(units, (polished.signs * masses)[live], offset)
                found = True
        return found

    @property
    def _negligible(self) -> float:
        """Residual that is worth less than a tenth of the tolerance: missing the points by r saves ⟨λ, r⟩."""
        price = float(np.abs(self.point.dual).sum())
        worth = 0.1 * self.tol * self.point.lower_bound / price if price > 0 else FEASIBLE
        return max(min(FEASIBLE, worth), ROUNDING)

    def _offer(self, neurons: np.ndarray, weights: np.ndarray, offset: float) -> None:
        value = self.problem.primal_value(weights, offset)
        if value < self.point.upper_bound:
            self.point.neurons, self.point.weights = neurons, weights
            self.point.offset, self.point.upper_bound = offset, value

    def _repair(self, master: MasterPoint) -> tuple[np.ndarray, float, float]:
        """Least-norm correction of the multipliers, weighted by their size, to interpolate exactly."""
        weights, offset = master.plus - master.minus, master.offset
        problem = self.problem
        offset_scale = 0.0
        if problem.has_offset:
            offset_scale = np.sqrt(max(abs(offset), float(np.abs(weights).mean())))
        # a small floor lets columns at rest take part where those in use do not reach
        metric = np.sqrt(np.abs(weights) + 1e-9 * np.abs(weights).max(initial=0.0))
        scaled = self.atoms * metric[:, None]
        if problem.has_offset:
            scaled = np.concatenate([scaled, np.full((1, scaled.shape[1]), offset_scale)])
        correction = LeastNorm(scaled)
        for attempt in range(6):
            residual = problem.targets - self.atoms.T @ weights - offset
            if np.abs(residual).max() <= 0.01 * self._negligible:
                break
            step = correction.solve(residual, accurate=attempt >= 3)
            weights = weights + metric * step[: len(weights)]
            if problem.has_offset:
                offset += offset_scale * float(step[-1])
        residual = problem.targets - self.atoms.T @ weights - offset
        return weights, offset, float(np.abs(residual).max())

    # ------------------------------------------------------------------ columns
    def _curvature(self, centre: np.ndarray | None) -> Curvature | None:
        """Curvature of the active faces at the last dual: neurons with room to move in their face."""
        if centre is None or self.faces is None or not len(self.faces):
            return None
        faces = self.faces
        rows = self.problem.rows
        basis, owner = faces.spans(rows, beside_neuron=True)
        factor = face_matrix(rows, faces, basis, owner, np.sqrt(faces.masses))
        return Curvature(factor, centre) if len(owner) else None

    def _keep(self, master: MasterPoint) -> np.ndarray:
        """Columns that may matter: nearly tight, or carrying weight."""
        gap = self.point.gap if np.isfinite(self.point.gap) else 1.0
        tight = np.abs(self.atoms @ master.dual) > max(0.9, 1.0 - 10.0 * np.sqrt(gap))
        weights = np.abs(master.plus - master.minus)
        kept = tight | (weights > 1e-6 * weights.max())
        return kept if kept.any() else ~kept  # a master without columns is none

    def _fresh(self, pricing: Pricing, gap: float) -> np.ndarray:
        """Return new columns, best first, without those already there."""
        limit = max(10, len(self.problem.targets) // 2) if gap > 1e-2 else len(pricing.neurons)
        neurons = pricing.neurons
        if len(neurons) and len(self.neurons):
            near, _ = cKDTree(self.neurons).query(neurons, distance_upper_bound=1e-10)
            neurons = neurons[~np.isfinite(near)]
        return neurons[:limit]
