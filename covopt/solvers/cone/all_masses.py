"""Fully corrective and sliding rounds: the driver's restricted problems, solved to the end before each pricing.

The best masses on all atoms met so far are the multipliers of the restricted master, m_j = ‖v_j‖, and its dual is the
Λ = (K(m) + K₀)⁻¹Y of the covariances. So these variants are the patient rounds of the one driver: with columns that
stay where they are (fully corrective), or with columns that follow Λ within their faces (sliding).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from covopt.oracles.base import Pricing
from covopt.problems.cone import ConeProblem
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.column_generation import ColumnGeneration
from covopt.solvers.driver import Driver
from covopt.solvers.finish import finish_network
from covopt.solvers.regularised.generation import RegularisedGeneration

LOOSE = 0.3  # accuracy of the masses as a share of the gap: half the time of 0.1, and as many rounds
HEAVY = 1e-9  # share of the largest mass below which an atom is not in use

Start = tuple[np.ndarray, np.ndarray]
Note = Callable[[float, float, float, int], bool]


class Asked:
    """An oracle for Λ of shape (N, k), asked with duals of other shapes; knows whether every bound was exact.

    Parameters
    ----------
    oracle : VectorOracle
    live : ndarray of bool, shape (N,)
        Rows that duals speak of; the others get zeros.
    """

    def __init__(self, oracle: Any, live: np.ndarray):
        self.oracle, self.live, self.exact = oracle, live, True

    def price(
        self,
        dual: np.ndarray,
        *,
        threshold: float = 0.0,
        max_neurons: int | None = None,
        complete: bool = False,
    ) -> Pricing:
        """See the oracle."""
        asked = np.zeros((len(self.live), dual.size // max(len(dual), 1)))
        asked[self.live] = dual.reshape(len(dual), -1)
        found = self.oracle.price(asked, threshold=threshold, max_neurons=max_neurons)
        self.exact &= found.exact
        return found


class AllMasses(Driver):
    """What these rounds add to a driver: patience from the start, and Frank–Wolfe's gap.

    Parameters
    ----------
    problem : ConeProblem
    oracle : VectorOracle
        For all rows of the problem.
    moves : bool
        Whether columns follow Λ.
    note : callable
        Of objective, Frank–Wolfe gap, bound and number of atoms, all halved; says whether to stop.
    start : (ndarray of shape (m, r), ndarray of shape (m,)), optional
        Unit neurons and masses.
    **options
        Of :class:`~covopt.solvers.driver.Driver`.
    """

    is_cut = False  # the first round is short, and only its end is a bracket
    oracle: Asked

    def __init__(
        self,
        problem: ConeProblem,
        oracle: Any,
        *,
        moves: bool,
        note: Note,
        start: Start | None = None,
        **options: Any,
    ):
        live = problem.rows.any(axis=1) if problem.ridge > 0 else np.ones(len(problem.rows), dtype=bool)
        super().__init__(problem.network_problem, Asked(oracle, live), **options)  # type: ignore[arg-type]
        self.schedule = replace(self.schedule, patient_accuracy=LOOSE, network_every=2, thins_networks=False)
        self.cone, self.moves, self.note, self.given = problem, moves, note, start

    @property
    def active_set(self) -> Start:
        """Neurons in use, and their masses."""
        masses = np.linalg.norm(self.master.cones.weights, axis=1)
        heavy = masses > HEAVY * masses.max(initial=0.0)
        return self.master.columns.neurons[heavy], masses[heavy]

    def _start(self) -> bool:
        if not super()._start():  # type: ignore[safe-super]
            return False
        goes_on = self.given is not None and len(self.given[0]) > 0
        if goes_on:
            self._go_on(*self.given)  # type: ignore[misc]
        self.is_patient = goes_on or not self.moves
        self.master.columns.live &= self.moves
        return True

    def _go_on(self, neurons: np.ndarray, masses: np.ndarray) -> None:
        """Take over atoms, and the dual and the network that belong to their masses."""
        problem, columns, cones = self.cone, self.master.columns, self.master.cones
        before = len(columns)
        columns.append_different(neurons)
        cones.add(columns.atoms[before:] @ self.master.dual, self.master.level, 1.0)
        covariance = problem.covariance(problem.atoms(neurons), masses)
        inner = np.linalg.lstsq(covariance, problem.inner_targets, rcond=1e-12)[0]
        dual = self.objective.project(problem.outer_dual(inner))
        self.offer_dual(dual, self.price(dual, 1.0))
        atoms = np.maximum(neurons @ problem.rows.T, 0.0)
        self._offer_weights(
            neurons, atoms, masses[:, None] * (atoms @ dual), self.objective.kappa * dual.sum(axis=0)
        )
        self.dual_gap = min(1.0, max(self.point.gap, 1e-300))

    def _ask(self) -> Pricing:
        pricing = super()._ask()
        dual = self.objective.project(self.master.dual)
        self._excess = max(pricing.upper_bound**2 - 1.0, 0.0)
        self._value = self.objective.value(dual)
        return pricing

    def _renew(self, pricing: Pricing, *, drops: bool = True) -> int:
        fresh = super()._renew(pricing, drops=drops)
        self.master.columns.live &= self.moves
        return fresh

    def should_stop(self) -> bool:
        """Note the round in Frank–Wolfe's terms: the linear model at Λ is nowhere below the value less the gap."""
        upper, lower = self.point.upper_bound, self.point.lower_bound
        return self.note(upper, upper * (1.0 + self._excess) - self._value, lower, len(self.active_set[1]))


class InterpolatingMasses(AllMasses, ColumnGeneration):
    """The rounds without a ridge."""


class FittedMasses(AllMasses, RegularisedGeneration):
    """The rounds with a ridge: the sum of squares, whose outputs K₀ has minimised out."""


def finish_masses(
    problem: ConeProblem, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray, *, slack: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leave few neurons: the last pass over a network of masses.

    Parameters
    ----------
    problem : ConeProblem
    neurons : ndarray of shape (m, r)
        Unit.
    weights : ndarray of shape (m, k)
    offset : ndarray of shape (k,)
    slack : float
        Relative rise of the value that fewer neurons may bring; of a fit it may not rise.

    Returns
    -------
    (ndarray, ndarray, ndarray)
        Unit neurons, output weights, offset.
    """
    inner = problem.network_problem
    scalar = isinstance(inner, ShallowProblem) and not inner.is_vector
    given = (weights[:, 0], float(offset[0])) if scalar else (weights, offset)
    units, fewer, moved = finish_network(inner, neurons, *given, slack=slack)
    return units, fewer.reshape(len(units), weights.shape[1]), np.atleast_1d(moved)
