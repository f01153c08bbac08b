r"""Frank–Wolfe over FL22's cone S with a certified oracle: vanilla, pairwise, fully corrective, sliding.

The objective F(m) of :mod:`covopt.problems.cone` is convex and smooth where K(m) + K₀ is regular. S is unbounded, but
at its best scale every point has Σm ≤ F/2, so a minimiser lies in the simplex Σm ≤ M = F/2 of the best value so far,
whose vertices are M·(w wᵀ, a(w)a(w)ᵀ). The oracle's answer at Λ gives, in one call,

    the vertex        the neuron with the largest ‖Λᵀa(w)‖,
    the FW gap        Σ_j m_j (1 − ‖Λᵀa_j‖²) + M (h(Λ)² − 1)⁺  ≥  F(m) − F*,
    the certified gap F(m) − (dual value of Λ scaled into h ≤ 1), mostly the smaller of the two.

Vanilla and pairwise steps move mass between a few atoms (:mod:`covopt.solvers.cone.masses`); the fully corrective and
the sliding rounds find all masses at once, in the restricted master (:mod:`covopt.solvers.cone.all_masses`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy.linalg import LinAlgError

from covopt.checks.timing import stage
from covopt.limits import TimeUp, now
from covopt.oracles.base import Pricing
from covopt.problems.cone import ConeProblem
from covopt.solvers.cone.all_masses import FittedMasses, InterpolatingMasses
from covopt.solvers.cone.masses import MassState
from covopt.solvers.loop import GenerationLoop
from covopt.solvers.master.networks import interpolate
from covopt.solvers.seeds import random_vertices, spanning_directions
from covopt.status import Status

ONE_AT_A_TIME = ("vanilla", "pairwise")
VARIANTS = (*ONE_AT_A_TIME, "fully-corrective", "sliding")
FEASIBLE = 1e-11  # residual of a network, relative to max |Y|, that counts as interpolating
EXACT = 1e-13  # and that corrections aim at


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
        self._given, self._seed = start, random_state
        self._state: MassState | None = None
        rank, k = problem.rows.shape[1], problem.targets.shape[1]
        self.point = FrankWolfePoint(
            np.zeros((0, rank)), np.zeros((0, k)), np.zeros(k), np.inf, 0.0,
            np.zeros_like(problem.inner_targets), Status.GAP, np.zeros((0, rank)), np.zeros(0),
        )  # fmt: skip

    # ------------------------------------------------------------------ start
    def _start(self) -> bool:
        """First atoms, where the variant needs masses of its own."""
        if self.variant in ONE_AT_A_TIME:
            self.point.active_neurons, self.point.active_masses = self._starting_atoms()
        return True

    def _iterate(self) -> None:
        if self.variant not in ONE_AT_A_TIME:
            self._all_masses()
            return
        try:
            self._one_atom_at_a_time(self.point.active_neurons, self.point.active_masses)
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

    def _all_masses(self) -> None:
        """Let the driver go round; its values are half of these."""
        problem, point = self.problem, self.point

        def note(upper: float, distance: float, lower: float, n_atoms: int) -> bool:
            point.value, point.lower_bound = 2.0 * upper, 2.0 * lower
            return self._done(len(point.history), point.value, 2.0 * distance, n_atoms)

        kind = FittedMasses if problem.ridge > 0 else InterpolatingMasses
        rounds = kind(
            problem, self.oracle, moves=self.variant == "sliding", note=note, start=self._given, tol=self.tol,
            max_rounds=self.max_rounds, random_state=self._seed,
            time_limit_s=None if self._deadline is None else max(self._deadline - now(), 1e-6),
        )  # fmt: skip
        try:
            found = rounds.solve()
        except TimeUp:
            found = rounds.point
            found.status = Status.TIME_LIMIT
        k = problem.targets.shape[1]
        point.neurons, point.weights = found.neurons, found.weights.reshape(-1, k)
        point.offset, point.value = np.reshape(found.offset, k), 2.0 * found.upper_bound
        point.dual = problem.inner_dual(found.dual.reshape(-1, k))
        point.lower_bound, point.exact = 2.0 * found.lower_bound, rounds.oracle.exact
        with contextlib.suppress(IndexError, ValueError):  # stopped within a step its arrays may not fit
            point.active_neurons, point.active_masses = rounds.active_set
        if point.status is Status.GAP:  # what the rounds themselves have met
            point.status = found.status

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

    def _offer_network(self, neurons: np.ndarray, masses: np.ndarray, dual: np.ndarray) -> None:
        """Keep the network of these masses, v_j = m_j Λᵀa_j, corrected to interpolate, if it is the best."""
        problem = self.problem
        atoms = np.maximum(neurons @ problem.rows.T, 0.0)
        dual = problem.outer_dual(dual)
        weights = masses[:, None] * (atoms @ dual)
        if np.isinf(problem.offset):
            offset = (problem.targets - atoms.T @ weights).mean(axis=0)
        else:
            offset = problem.offset * dual.sum(axis=0)
        size = float(np.abs(problem.targets).max()) or 1.0
        if problem.ridge == 0:
            weights, offset = interpolate(
                problem.rows, neurons, atoms, problem.targets, weights, offset,
                has_offset=problem.offset > 0, enough=EXACT * size,
            )  # fmt: skip
        value, missed = problem.network_value(neurons, weights, offset)
        if (problem.ridge > 0 or missed <= FEASIBLE * size) and value < self.point.value:
            self.point.neurons, self.point.weights = neurons, weights
            self.point.offset, self.point.value = offset, value

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
