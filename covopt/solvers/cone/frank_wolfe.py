r"""Frank–Wolfe over FL22's cone S with a certified oracle: vanilla, pairwise, fully corrective, sliding.

The objective F(m) of :mod:`covopt.problems.cone` is convex and smooth where K(m) + K₀ is regular. S is unbounded, but
at its best scale every point has Σm ≤ F/2, so a minimiser lies in the simplex Σm ≤ M = F/2 of the best value so far,
whose vertices are M·(w wᵀ, a(w)a(w)ᵀ). The oracle's answer at Λ gives, in one call,

    the vertex        the neuron with the largest ‖Λᵀa(w)‖,
    the FW gap        Σ_j m_j (1 − ‖Λᵀa_j‖²) + M (h(Λ)² − 1)⁺  ≥  F(m) − F*,
    the certified gap F(m) − (dual value of Λ scaled into h ≤ 1), mostly the smaller of the two.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy.linalg import LinAlgError

from covopt.checks.timing import stage
from covopt.exact.parallel_rows import first_of_each
from covopt.limits import now
from covopt.oracles.base import Pricing
from covopt.problems.cone import ConeProblem
from covopt.solvers.cone.fully_corrective import correct_masses, interpolate
from covopt.solvers.cone.masses import MassState
from covopt.solvers.cone.pruning import FEASIBLE, merge_close
from covopt.solvers.cone.sliding import cluster, slide
from covopt.solvers.loop import GenerationLoop
from covopt.solvers.seeds import random_vertices, spanning_directions
from covopt.status import Status

ONE_AT_A_TIME = ("vanilla", "pairwise")
VARIANTS = (*ONE_AT_A_TIME, "fully-corrective", "sliding")
SLIDE_GAP = 1e-2  # before that, the faces of the neurons are not the right ones yet
CROWD = 6  # columns per entry of Y, besides the first ones, before idle ones are dropped
MAX_IDLE = 4  # iterations without progress
INACTIVE = 0.8  # ‖Λᵀa‖ below which a column without mass is dropped


class VectorOracle(Protocol):
    """Any oracle that prices Λ of shape (N, k); values are norms."""

    def price(self, dual: np.ndarray, *, threshold: float = 0.0, max_neurons: int | None = None) -> Pricing:
        """Return local maxima of ‖Λᵀσ(Zw)‖ above ``threshold``, the best one always, and a bound."""
        ...


@dataclass(frozen=True)
class FrankWolfeState:
    """What a callback sees after every iteration, in the units of the problem (scaled by ``value_unit``)."""

    iteration: int
    time_s: float
    cost: float
    fw_gap: float
    lower_bound: float
    gap: float
    n_atoms: int


@dataclass
class FrankWolfePoint:
    """Best primal and dual points of a run.

    Attributes
    ----------
    neurons, weights, offset
        Network of the best value: unit neurons (m, r), output weights (m, k), offset (k,).
    value, lower_bound : float
        F of the network, and the certified bound.
    dual : ndarray of the inner targets' shape
        Λ with h(Λ) ≤ 1 that gives the bound.
    active_neurons, active_masses
        The active set, to start from again.
    exact : bool
        Whether every bound came from an exact oracle.
    jitter : float
        Largest relative multiple of the identity that a factorisation of K needed; it enters no reported number.
    """

    neurons: np.ndarray
    weights: np.ndarray
    offset: np.ndarray
    value: float
    lower_bound: float
    dual: np.ndarray
    status: Status
    active_neurons: np.ndarray
    active_masses: np.ndarray
    exact: bool = True
    jitter: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)

    @property
    def gap(self) -> float:
        """(value − lower bound) / value."""
        if not np.isfinite(self.value):
            return np.inf
        return max(0.0, self.value - self.lower_bound) / self.value if self.value > 0 else 0.0


class FrankWolfe(GenerationLoop):
    """Minimise F over the masses of all unit neurons.

    Parameters
    ----------
    problem : ConeProblem
    oracle : VectorOracle
        For the rows of the problem.
    variant : {"vanilla", "pairwise", "fully-corrective", "sliding"}
        One vertex with an exact line search; mass moved from the worst active atom to the vertex; the best masses on
        all atoms met, to which all local maxima of the oracle are added; the same with local descent on the atoms.
    tol : float
        Relative certified gap to stop at.
    max_iter : int
    time_limit_s : float, optional
    start : (ndarray of shape (m, r), ndarray of shape (m,)), optional
        Unit neurons and masses.
    callback : callable, optional
        Called with a :class:`FrankWolfeState`; a true answer stops.
    random_state : int, optional
    value_unit : float
        What the numbers of history and callback are multiplied with.

    Examples
    --------
    >>> from covopt.oracles.vector_faces import VectorFaceOracle
    >>> rows = np.array([[1.0, 1.0], [-1.0, 1.0], [0.0, 1.0]])
    >>> problem = ConeProblem(rows, np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]))
    >>> point = FrankWolfe(problem, VectorFaceOracle(rows), variant="sliding").solve()
    >>> round(point.value, 6), point.status.code
    (4.0, 'certified')
    """

    is_cut = False  # the first round is short, and only its end is a bracket

    def __init__(
        self,
        problem: ConeProblem,
        oracle: VectorOracle,
        *,
        variant: str = "sliding",
        tol: float = 1e-6,
        max_iter: int = 100_000,
        time_limit_s: float | None = None,
        start: tuple[np.ndarray, np.ndarray] | None = None,
        callback: Callable[[FrankWolfeState], Any] | None = None,
        random_state: int | None = None,
        value_unit: float = 1.0,
    ):
        super().__init__(
            tol=tol,
            time_limit_s=time_limit_s,
            max_rounds=max_iter,
            random_state=random_state,
            callback=callback,
        )
        self.problem, self.oracle, self.variant, self.value_unit = problem, oracle, variant, value_unit
        self._given = start
        self._state: MassState | None = None
        rank, k = problem.rows.shape[1], problem.targets.shape[1]
        self.point = FrankWolfePoint(
            np.zeros((0, rank)), np.zeros((0, k)), np.zeros(k), np.inf, 0.0,
            np.zeros_like(problem.inner_targets), Status.GAP, np.zeros((0, rank)), np.zeros(0),
        )  # fmt: skip

    # ------------------------------------------------------------------ start
    def _start(self) -> bool:
        """First atoms."""
        self.point.active_neurons, self.point.active_masses = self._starting_atoms()
        return True

    def _iterate(self) -> None:
        active = self.point.active_neurons, self.point.active_masses
        try:
            if self.variant in ONE_AT_A_TIME:
                self._one_atom_at_a_time(*active)
            else:
                self._all_masses(*active)
        except LinAlgError:  # no covariance of these atoms has an inverse in double precision
            self.point.status = Status.GAP

    def _starting_atoms(self) -> tuple[np.ndarray, np.ndarray]:
        """Neurons whose atoms span the targets, with masses at the best common scale."""
        rows = self.problem.rows
        neurons, masses = np.zeros((0, rows.shape[1])), np.zeros(0)
        if self._given is not None:
            neurons, masses = self._given
        if self.problem.ridge > 0 and len(neurons):
            return neurons, masses
        nonzero = rows[np.linalg.norm(rows, axis=1) > 0]
        count = 2 * len(nonzero)
        fresh = [spanning_directions(nonzero), random_vertices(nonzero, count, self.rng)]
        spanning = np.concatenate(fresh)
        for _ in range(6):
            atoms = self.problem.atoms(spanning)
            sizes = np.linalg.norm(atoms, axis=1)
            spanning, atoms, sizes = spanning[sizes > 0], atoms[sizes > 0], sizes[sizes > 0]
            values = np.linalg.svd(atoms / sizes[:, None], compute_uv=False) if len(atoms) else np.zeros(1)
            if self.problem.ridge > 0 or (len(values) == atoms.shape[1] and values[-1] > 1e-9 * values[0]):
                break
            more = self.rng.standard_normal((count, rows.shape[1]))
            spanning = np.concatenate([spanning, more / np.linalg.norm(more, axis=1, keepdims=True)])
        if not len(neurons):
            return spanning, np.full(len(spanning), 1.0)
        share = 1e-6 * float(masses.sum()) / len(spanning)
        return np.concatenate([neurons, spanning]), np.concatenate([masses, np.full(len(spanning), share)])

    # ------------------------------------------------------------------ variants
    def _one_atom_at_a_time(self, neurons: np.ndarray, masses: np.ndarray) -> None:
        state = self._state = MassState(self.problem, neurons, masses)
        if self._given is None:
            state.rescale()
        for iteration in range(self.max_rounds):
            pricing = self._price(state.dual, 0.0, 1)
            slopes = state.slopes()
            ceiling = 0.5 * state.value
            height = pricing.upper_bound**2 - 1.0
            fw_gap = float(state.masses @ (1.0 - slopes)) + ceiling * max(0.0, height)
            self._offer_dual(state.dual, pricing)
            self.point.value = state.value
            self.point.active_neurons, self.point.active_masses = state.neurons, state.masses
            if self._done(iteration, state.value, fw_gap, int((state.masses > 0).sum())):
                break
            try:
                best = state.insert(pricing.neurons[0])
                active = np.flatnonzero(state.masses > 0)
                if self.variant == "pairwise" and len(active):
                    worst = int(active[slopes[active].argmin()])
                    before = state.value
                    state.exchange(best, worst)
                    if state.masses[worst] == 0.0 or iteration % 32 == 0:
                        state.forget_empty()
                    if not state.value < before:
                        state.refresh()
                else:
                    state.toward(best)
                state.rescale()
            except LinAlgError:
                break

    def _finish(self) -> None:
        """Make the network of the last masses, where a round is too cheap to make its own."""
        state, point = self._state, self.point
        if state is None:
            return
        state.complete()
        with contextlib.suppress(LinAlgError):
            state.refresh()
        point.jitter, point.value = state.jitter, np.inf
        point.active_neurons, point.active_masses = state.neurons, state.masses
        self._offer_network(state.neurons, state.masses, state.dual)

    def _all_masses(self, neurons: np.ndarray, masses: np.ndarray) -> None:
        warm: np.ndarray | None = masses if self._given is not None else None
        # sliding reads off which columns are used: complementarity has to show it
        share = 1e-4 if self.variant == "sliding" else 0.02
        gap, value, bound, idle = 1.0, np.inf, 0.0, 0
        spanning, crowded = len(neurons), len(neurons) + CROWD * self.problem.inner_targets.size
        for iteration in range(self.max_rounds):
            atoms = self.problem.atoms(neurons)
            live = np.linalg.norm(atoms, axis=1) > 0
            if not live.all():
                spanning -= int((~live[:spanning]).sum())
                neurons, atoms = neurons[live], atoms[live]
                warm = warm[live] if warm is not None else None
            corrected = correct_masses(
                self.problem,
                atoms,
                masses=warm,
                tol=float(np.clip(share * gap, share * self.tol, 0.05 * share)),
            )
            masses, dual = corrected.masses, corrected.dual
            weights = self._offer_network(neurons, masses, dual)
            pricing = self._price(dual, 1.0, None)
            self._offer_dual(dual, pricing)
            slopes = np.square(atoms @ dual).sum(axis=1)
            height = max(0.0, pricing.upper_bound**2 - 1.0)
            fw_gap = float(masses @ (1.0 - slopes)) + 0.5 * self.point.value * height
            heavy = masses > 1e-9 * masses.sum()
            self.point.active_neurons, self.point.active_masses = neurons[heavy], masses[heavy]
            fresh = [pricing.neurons]
            gap = self.point.gap
            if self.variant == "sliding" and self.tol < gap <= SLIDE_GAP:
                fresh += self._slide(neurons, masses, weights, dual, slopes)
                gap = self.point.gap
            if self._done(iteration, self.point.value, fw_gap, int(heavy.sum())):
                break
            progress = value - self.point.value + self.point.lower_bound - bound
            idle = idle + 1 if progress <= 1e-3 * self.tol * self.point.value else 0
            value, bound = self.point.value, self.point.lower_bound
            if idle >= MAX_IDLE:
                break  # double precision, or the tolerance of the masses, ends here
            if len(neurons) > crowded and idle == 0:
                # the first columns span the targets: without them K is singular and Λ unbounded
                kept = (
                    (np.arange(len(neurons)) < spanning)
                    | (slopes > INACTIVE**2)
                    | (masses > 1e-7 * masses.sum())
                )
                neurons = neurons[kept]
            neurons = np.concatenate([neurons, *fresh])
            neurons = neurons[first_of_each(neurons)]
            warm = None

    def _slide(self, neurons, masses, weights, dual, slopes):
        """Descend on the atoms; offer network and dual, return new columns."""
        # complementarity tells used columns from unused ones: m_j > s_j in units of the largest mass
        used = masses > np.maximum(1e-9 * masses.max(), (1.0 - slopes) * masses.max())
        if not used.any():
            return []
        angle = float(np.clip(3 * np.sqrt(self.point.gap), 1e-4, 0.5))
        faces, outputs = cluster(self.problem.rows, neurons[used], weights[used], angle)
        if len(faces) > 2 * self.problem.inner_targets.size:  # far more than a vertex of the masses has
            units, merged = merge_close(self.problem, neurons[used], weights[used], angle)
            faces, outputs = cluster(self.problem.rows, units, merged, 0.0)
        moved = slide(self.problem, faces, outputs, dual, tol=1e-14)
        if moved is None:
            return []
        pricing = self._price(moved.dual, 1.0, None)
        self._offer_dual(moved.dual, pricing)
        self._offer_network(moved.neurons, moved.masses, moved.dual)
        found = [pricing.neurons, moved.neurons]
        least = self._least_dual(moved.neurons, moved.masses)
        if self.point.gap > self.tol and least is not None:
            pricing = self._price(least, 1.0, None)
            self._offer_dual(least, pricing)
            found.append(pricing.neurons)
        return found

    def _least_dual(self, neurons: np.ndarray, masses: np.ndarray) -> np.ndarray | None:
        """K⁺Y where K is singular: of all duals of these masses the shortest, optimal in FL22's Prop 14."""
        values, vectors = np.linalg.eigh(self.problem.covariance(self.problem.atoms(neurons), masses))
        used = values > 1e-9 * values[-1]
        if used.all():
            return None
        return (vectors[:, used] / values[used]) @ (vectors[:, used].T @ self.problem.inner_targets)

    # ------------------------------------------------------------------ bounds
    @stage("pricing")
    def _price(self, dual: np.ndarray, threshold: float, count: int | None) -> Pricing:
        pricing = self.oracle.price(self.problem.outer_dual(dual), threshold=threshold, max_neurons=count)
        self.point.exact &= pricing.exact
        return pricing

    def _offer_dual(self, dual: np.ndarray, pricing: Pricing) -> None:
        scaled, bound = self.problem.dual_bound(dual, pricing.upper_bound)
        if bound > self.point.lower_bound:
            self.point.dual, self.point.lower_bound = scaled, bound

    def _offer_network(self, neurons: np.ndarray, masses: np.ndarray, dual: np.ndarray) -> np.ndarray:
        """Keep the network of these masses if it is the best; return its output weights."""
        weights, offset, value, residual = interpolate(self.problem, neurons, masses, dual)
        if residual <= FEASIBLE and value < self.point.value:
            self.point.neurons, self.point.weights = neurons, weights
            self.point.offset, self.point.value = offset, value
        return weights

    def _done(self, iteration: int, value: float, fw_gap: float, n_atoms: int) -> bool:
        point, unit = self.point, self.value_unit
        state = FrankWolfeState(
            iteration,
            now() - self._began,
            value * unit,
            fw_gap * unit,
            point.lower_bound * unit,
            point.gap,
            n_atoms,
        )
        point.history.append(dict(state.__dict__))
        return self.ends(state)
