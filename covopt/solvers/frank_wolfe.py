r"""Frank–Wolfe over FL22's cone S with a certified oracle: vanilla, pairwise, fully corrective, sliding.

With atoms a_j = σ(Z w_j) of unit neurons, masses m_j ≥ 0 and K(m) = Σ m_j a_j a_jᵀ, FL22's 𝓛ᵏ for L = 2 (§3.2) is

.. math::
    F(m) = \sum_j m_j + \operatorname{Tr} Y^\top (K(m) + K_0)^{-1} Y, \qquad K_0 = \tau 11^\top + \kappa I,

τ = 1/ρ for a penalised output bias (FL22's β²11ᵀ), κ = μ/2 for the sum of squares (its outputs are minimised out);
with a free output bias atoms and targets are centred, and τ = 1. F is convex, and with Λ = (K + K₀)⁻¹Y

.. math::
    \partial F / \partial m_j = 1 - \|\Lambda^\top a_j\|^2, \qquad
    F^* = \max_\Lambda \; 2\langle\Lambda, Y\rangle - \operatorname{Tr} \Lambda^\top K_0 \Lambda
    \;\text{ s.t. }\; h(\Lambda) \le 1,

so the linear minimisation oracle is the pricing oracle, and F is twice the objective of the networks. S is
unbounded, but at its best scale every point has Σm ≤ F/2, so that a minimiser lies in that simplex. One pricing of
Λ gives the vertex, the gap Σ_j m_j (1 − ‖Λᵀa_j‖²) + F/2 (h(Λ)² − 1)⁺ ≥ F(m) − F*, and the certified bound, which is
mostly sharper.

Vanilla and pairwise steps move mass between a few atoms, by exact line searches. The optimal masses on all atoms so
far are the multipliers of the restricted master: fully corrective and sliding rounds are the driver's patient
rounds, with columns that stay fixed, or follow Λ within their faces.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, eigh
from scipy.optimize import brentq

from covopt.exact.rank import FOUND
from covopt.exact.rounding import TINY
from covopt.oracles.base import Pricing
from covopt.oracles.cascade import exact_oracle
from covopt.problems.problem import Problem
from covopt.solvers.generation import Generation, spanning_directions
from covopt.solvers.loop import Point, RoundState
from covopt.solvers.quick import master_bytes

ONE_AT_A_TIME = ("vanilla", "pairwise")
VARIANTS = (*ONE_AT_A_TIME, "fully-corrective", "sliding")
JITTERS = (0.0, *10.0 ** np.arange(-15.0, -9.0))

Start = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class FrankWolfeState(RoundState):
    """What a callback sees after every round: a :class:`~covopt.RoundState` with the gap of Frank–Wolfe."""

    fw_gap: float = np.inf

    def scaled(self, scale: float, time_s: float) -> FrankWolfeState:
        """See the base class."""
        return replace(super().scaled(scale, time_s), fw_gap=self.fw_gap * scale)


class Masses:
    """Masses on atoms, F(m), and the Λ that belongs to them.

    Parameters
    ----------
    problem : Problem
    neurons : ndarray of shape (m, r)
        Unit.
    masses : ndarray of shape (m,)

    Attributes
    ----------
    dual : ndarray of shape (N, k)
    value : float
        F(m).
    jitter : float
        Largest multiple of the identity, relative to the mean diagonal, that a factorisation needed (0: none).
    """

    def __init__(self, problem: Problem, neurons: np.ndarray, masses: np.ndarray):
        self.problem, self.neurons, self.masses = problem, neurons, np.asarray(masses, dtype=float)
        n = len(problem.rows)
        self.targets = self._centred(problem.demand(np.zeros(problem.dual_shape)))
        tau = 1.0 if problem.is_free else problem.kappa
        self.base = np.full((n, n), tau) + (0.0 if problem.interpolates else 0.5 * problem.strength) * np.eye(
            n
        )
        self.atoms, self.jitter = self._atoms(neurons), 0.0
        self.refresh()

    def _centred(self, values: np.ndarray) -> np.ndarray:
        return values - values.mean(axis=0) if self.problem.is_free else values

    def _atoms(self, neurons: np.ndarray) -> np.ndarray:
        """Return σ(Z w_j), one per row."""
        return self._centred(np.maximum(self.problem.rows @ neurons.T, 0.0)).T

    def refresh(self) -> None:
        """Compute Λ and F from the masses; raise LinAlgError if K(m) + K₀ is singular."""
        matrix = (self.atoms.T * self.masses) @ self.atoms + self.base
        size = np.trace(matrix) / len(matrix)
        for jitter in JITTERS:
            self.matrix = matrix + jitter * size * np.eye(len(matrix))
            try:
                factor = cholesky(self.matrix, lower=True)
            except LinAlgError:
                continue
            self.jitter = max(self.jitter, jitter)
            self.dual = cho_solve((factor, True), self.targets)
            self.value = float(self.masses.sum() + np.vdot(self.targets, self.dual))
            return
        raise LinAlgError("the covariance of the atoms is singular")

    def slopes(self) -> np.ndarray:
        """Return ‖Λᵀa_j‖² of every atom."""
        return np.square(self.atoms @ self.dual).sum(axis=1)

    def insert(self, neuron: np.ndarray) -> int:
        """Return the index of an atom, added with mass zero if it is new; drop atoms without mass."""
        kept = np.append(self.masses > 0, True)
        self.neurons = np.concatenate([self.neurons, neuron[None]])[kept]
        self.atoms = np.concatenate([self.atoms, self._atoms(neuron[None])])[kept]
        self.masses = np.append(self.masses, 0.0)[kept]
        return int(np.abs(self.neurons - neuron).max(axis=1).argmin())

    def move(self, change: np.ndarray, limit: float) -> None:
        """Move to m + γ·change for the best γ in [0, ``limit``], by the pencil of K and its change.

        In the basis of the pencil F(m + γ·change) = Σm + γΣchange + Σ g_i/(1 + γ μ_i), up to constants.
        """
        values, vectors = eigh((self.atoms.T * change) @ self.atoms, self.matrix)
        weights = np.square(vectors.T @ self.targets).sum(axis=1) * values
        high = min(limit, (1.0 - 1e-12) / max(-float(values[0]), 1e-300))

        def rise(step: float) -> float:
            return float(change.sum() - (weights / (1.0 + step * values) ** 2).sum())

        if rise(high) > 0.0:
            high = brentq(rise, 0.0, high, xtol=1e-300, maxiter=1000) if rise(0.0) < 0.0 else 0.0
        self.masses = np.maximum(self.masses + high * change, 0.0)
        self.refresh()

    def rescale(self) -> None:
        """Multiply all masses by the best factor, at least ½; their sum is then at most F/2."""
        self.masses *= 0.5
        self.refresh()
        self.move(self.masses, 0.5 * self.value / max(float(self.masses.sum()), TINY))

    def toward(self, best: int) -> None:
        """Vanilla step: shrink all masses and give the difference to one atom."""
        change = -self.masses
        change[best] += self.masses.sum()
        self.move(change, 1.0)

    def exchange(self, best: int, worst: int) -> None:
        """Pairwise step: move mass from one atom to another."""
        change = np.zeros_like(self.masses)
        change[best], change[worst] = 1.0, -1.0
        self.move(change, self.masses[worst])


class FrankWolfe(Generation):
    """Rounds of a Frank–Wolfe variant, on top of column generation.

    Parameters
    ----------
    problem : Problem
        Interpolation, or a fit with the sum of squares.
    oracle : Oracle
    variant : {"vanilla", "pairwise", "fully-corrective", "sliding"}
        A step to one vertex by exact line search; mass moved from the worst active atom to the vertex; optimal masses
        on all atoms so far, to which all local maxima of the oracle are added; the same with atoms that follow Λ.
    start : (ndarray of shape (m, r), ndarray of shape (m,)), optional
        Unit neurons and masses.
    **options
        See :class:`~covopt.solvers.generation.Generation`.

    Examples
    --------
    >>> from covopt.oracles.vector_faces import VectorFaceOracle
    >>> rows = np.array([[1.0, 1.0], [-1.0, 1.0], [0.0, 1.0]])
    >>> problem = Problem.through(rows, np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]))
    >>> rounds = FrankWolfe(problem, VectorFaceOracle(rows), variant="sliding", tol=1e-6)
    >>> point = rounds.solve()
    >>> round(2.0 * point.upper_bound, 6), point.status.code
    (4.0, 'certified')
    """

    def __init__(
        self, problem: Any, oracle: Any, *, variant: str, start: Start | None = None, **options: Any
    ):
        super().__init__(problem, oracle, **options)
        self.moves, self.variant, self.given = variant == "sliding", variant, start
        self.masses: Masses | None = None
        self._excess, self._value = np.inf, -np.inf

    @property
    def active_set(self) -> Start:
        """Active neurons and their masses."""
        if self.masses is not None:
            neurons, masses = self.masses.neurons, self.masses.masses
        else:
            neurons, masses = self.master.columns.neurons, np.linalg.norm(self.master.cones.weights, axis=1)
        count = min(len(neurons), len(masses))  # lengths differ after an interrupted step
        heavy = masses[:count] > FOUND * masses.max(initial=0.0)
        return neurons[:count][heavy], masses[:count][heavy]

    def should_stop(self) -> bool:
        """Record the round with the Frank–Wolfe gap: the linear model at Λ is nowhere below value − gap."""
        upper = self.point.upper_bound
        state = FrankWolfeState(
            **vars(self._state()) | {"round": len(self.point.history), "n_columns": len(self.active_set[1])},
            fw_gap=upper - self._value + 0.5 * upper * self._excess,
        )
        self.point.history.append(state)
        return self.ends(state)

    def _note_dual(self, dual: np.ndarray, pricing: Pricing) -> None:
        """Store the dual value of Λ and its excess h(Λ)² − 1: the minimum of F's linear model follows from them."""
        self._value, self._excess = self.problem.dual_value(dual), max(pricing.upper_bound**2 - 1.0, 0.0)

    def _iterate(self) -> None:
        if self.variant not in ONE_AT_A_TIME:
            super()._iterate()
            return
        with contextlib.suppress(
            LinAlgError
        ):  # no covariance of these atoms has an inverse in double precision
            self._move_masses()

    # ------------------------------------------------------------------ one atom at a time
    def _move_masses(self) -> None:
        self.masses = masses = Masses(self.problem, *self._first_atoms())
        if self.given is None:
            masses.rescale()
        for _ in range(self.max_rounds):
            dual = self.problem.project_dual(masses.dual)
            pricing = self.price(dual, 0.0, 1)
            self.offer_dual(dual, pricing)
            self._note_dual(dual, pricing)
            self.point.upper_bound = masses.value / 2.0
            if self.should_stop():
                return
            best = masses.insert(self.normalise(pricing.neurons[:1])[0])
            worst = int(np.where(masses.masses > 0, masses.slopes(), np.inf).argmin())
            if self.variant == "pairwise" and masses.masses[worst] > 0:
                masses.exchange(best, worst)
            else:
                masses.toward(best)
            masses.rescale()

    def _first_atoms(self) -> Start:
        """Return neurons whose atoms span the targets; beside given neurons they have negligible mass."""
        rows = self.problem.rows[self.problem.live]
        neurons, masses = (rows[:0], np.zeros(0)) if self.given is None else self.given
        if len(neurons) and not self.problem.interpolates:
            return neurons, masses
        spanning = self.normalise(spanning_directions(rows))
        share = 1e-6 * float(masses.sum()) / len(spanning) if len(neurons) else 1.0
        return np.concatenate([neurons, spanning]), np.append(masses, np.full(len(spanning), share))

    def _finish(self) -> None:
        """Make the network of the last masses, v_j = m_j Λᵀa_j: vanilla and pairwise rounds make none."""
        if self.masses is None:
            return
        self.point.upper_bound = np.inf
        (neurons, masses), dual = self.active_set, self.masses.dual
        atoms = np.maximum(neurons @ self.problem.rows.T, 0.0)
        weights, offset = masses[:, None] * (atoms @ dual), self.problem.kappa * dual.sum(axis=0)
        if self.problem.is_free:
            offset = (self.problem.demand(dual) - atoms.T @ weights).mean(axis=0)
        self._offer_weights(neurons, atoms, weights, offset)

    # ------------------------------------------------------------------ optimal masses on all atoms
    def _start(self) -> bool:
        if not super()._start():
            return False
        columns, cones, before = self.master.columns, self.master.cones, len(self.master.columns)
        self.is_patient = not self.moves or self.given is not None
        if self.given is not None:
            columns.append(self.given[0])
            cones.add(columns.atoms[before:] @ self.master.dual, self.master.level, 1.0)
        columns.live &= self.moves
        return True

    def _ask(self) -> Pricing:
        pricing = super()._ask()
        self._note_dual(self.problem.project_dual(self.master.dual), pricing)
        return pricing

    def _renew(self, pricing: Pricing, *, drops: bool = True) -> int:
        fresh = super()._renew(pricing, drops=drops)
        self.master.columns.live &= self.moves
        return fresh


@dataclass
class CovarianceSolver:
    """One run of a variant, which a task uses instead of column generation; it keeps the final active set.

    Attributes
    ----------
    variant : str
    max_iter : int
    start, active_set : (ndarray of shape (m, r), ndarray of shape (m,))
        Unit neurons and masses, of the reduced problem.
    jitter : float
    """

    variant: str
    max_iter: int = 100_000
    start: Start | None = None
    active_set: Start | None = field(default=None, init=False)
    jitter: float = field(default=0.0, init=False)

    def solve(self, problem: Problem, **options: Any) -> Point:
        """Minimise over the covariances of the problem's neurons.

        Raises
        ------
        BudgetError
            When the arrangement is too large for the exact oracle.
        """
        oracle: Any = None
        if problem.live.any():
            rows = problem.rows[problem.live]
            oracle = exact_oracle(rows, problem.vector_outputs, beside=master_bytes(problem))
        rounds = FrankWolfe(
            problem, oracle, variant=self.variant, start=self.start, max_rounds=self.max_iter, **options
        )
        try:
            return rounds.solve()
        finally:
            self.active_set = rounds.active_set
            self.jitter = 0.0 if rounds.masses is None else rounds.masses.jitter
