"""Column generation without an exact oracle: local search finds columns, signs and boxes prove bounds.

The best value that local search finds is believed and steers the master, but only proved bounds are reported
(:mod:`covopt.oracles.cascade`). A proof is tried when the believed gap is within the tolerance: if it finds neurons
that violate the dual, the belief is corrected, and the rounds go on with them as columns. Without a proof, the
relaxation bounds the dual norm.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import numpy as np

from covopt.checks.log import stage
from covopt.errors import Status
from covopt.limits import TimeUp
from covopt.oracles.base import Pricing
from covopt.oracles.bounds import relaxed_dual_norm
from covopt.oracles.cascade import CLOSE, SearchedThenProved
from covopt.problems.problem import Problem
from covopt.solvers.generation import Generation
from covopt.solvers.loop import Point


class HeuristicGeneration(Generation):
    """Rounds of a :class:`Generation` that believe the local search and report what was proved.

    Attributes
    ----------
    proved : tuple of (ndarray, float)
        The best dual point whose dual norm was bounded, scaled into feasibility, and its value.
    last_dual : ndarray
        The dual that the rounds have ended with.
    """

    oracle: SearchedThenProved

    def __init__(self, problem: Any, oracle: SearchedThenProved, **options: Any):
        super().__init__(problem, oracle, **options)
        self.proved: tuple[np.ndarray, float] = np.zeros_like(self.point.dual), 0.0
        self.last_dual, self.failed = self.master.dual, False
        self._violating = oracle.rows[:0]  # neurons that a proof has found

    def offer_dual(self, dual: np.ndarray, pricing: Pricing) -> None:
        """See the base class; a believed bound counts until a neuron or a network refutes it."""
        super().offer_dual(dual, pricing)
        if self.point.lower_bound > (1.0 + self.tol) * self.point.upper_bound:
            self._return_to_proof()

    def price(self, dual: np.ndarray, threshold: float, max_neurons: int | None = None) -> Pricing:
        """See the base class; columns that violate the dual count like neurons that are found."""
        found = super().price(dual, threshold, max_neurons)
        known = np.linalg.norm(self.master.columns.atoms @ dual, axis=1).max(initial=0.0)
        return dataclasses.replace(found, upper_bound=max(found.upper_bound, float(known)))

    def _return_to_proof(self) -> None:
        self.point.dual, self.point.lower_bound = self.proved

    def _note_proof(self, dual: np.ndarray, dual_norm: float) -> None:
        scaled, value = self.problem.scale_dual(dual, dual_norm)
        if value > self.proved[1]:
            self.proved = scaled, value
        if value > self.point.lower_bound:
            self._return_to_proof()

    def known(self) -> Point:
        """See the base class."""
        dual, lower = self.proved
        return dataclasses.replace(self.point, lower_bound=lower, dual=dual if lower > 0 else self.point.dual)

    def correct(self, neurons: np.ndarray) -> None:
        """See the base class; the believed bound does not fall below the proved one."""
        super().correct(neurons)
        if self.proved[1] > self.point.lower_bound:
            self._return_to_proof()

    def _fresh(self, pricing: Pricing) -> np.ndarray:
        """Return the neurons found, and correct the belief: one may violate the constraint of the best dual."""
        self.correct(pricing.neurons)
        neurons, self._violating = np.concatenate([pricing.neurons, self._violating]), self.oracle.rows[:0]
        return neurons

    def is_closed(self) -> bool:
        """See the base class; a believed bound alone never ends the rounds, a failed proof does."""
        while not self.failed and self.point.gap <= self.tol < self.known().gap:
            self.failed = not self._is_decided()
        return super().is_closed() or self.failed

    @stage("proofs")
    def _is_decided(self) -> bool:
        """Try to prove the best dual point; return False if there is neither a proof nor a violated neuron."""
        slack, asked = CLOSE * self.tol, self.problem.asked(self.point.dual)
        found = self.oracle.prove(asked, 1.0 + 0.2 * slack)
        highest, bound = float(np.abs(found.values).max(initial=0.0)), found.upper_bound
        if np.isfinite(bound):
            self._note_proof(self.point.dual, bound)
        if bound <= 1.0 + slack:
            # the proved bound is slightly below the believed one: the gap may exceed the tolerance
            self._return_to_proof()
        self.correct(found.neurons)
        self._violating = found.neurons
        return bound <= 1.0 + slack or highest > 1.0 + 0.2 * slack

    def solve(self) -> Point:
        """Return the cheapest network and the best dual point that was proved, by a relaxation at least."""
        point = super().solve()
        self.last_dual = self.point.dual
        if self.proved[1] == 0.0 and point.dual.any():
            with contextlib.suppress(TimeUp):  # keep the network even without time for a bound
                rows, asked = self.problem.rows[self.problem.live], self.problem.asked(self.last_dual)
                scaled, value = self.problem.scale_dual(self.last_dual, relaxed_dual_norm(rows, asked))
                self.proved = scaled, max(value, 0.0)
        self._return_to_proof()
        if point.status is Status.CERTIFIED and point.gap > self.tol:  # a proof failed or ran out of time
            point.status = Status.GAP if self.failed else Status.TIME_LIMIT
        point.claimed = point.status is Status.CERTIFIED and self.oracle.boxes is not None
        return point


def searching(
    problem: Problem,
    *,
    tol: float,
    random_state: int | None = None,
    proves: bool = True,
    max_nodes: int | None = None,
    effort: float = 1.0,
    **options: Any,
) -> HeuristicGeneration:
    """Return the rounds on a problem for whose rows there is no exact oracle; see the head of this module.

    Parameters
    ----------
    problem : Problem
    tol : float
    random_state : int, optional
    proves : bool
        Whether signs and boxes are tried.
    max_nodes : int, optional
        Boxes per proof; by default as many as a whole check examines.
    effort : float
        Share of a proof by signs.
    **options
        Of the generation: ``time_limit_s``, ``callback`` and ``warm``.
    """
    oracle = SearchedThenProved(
        problem.rows[problem.rows.any(axis=1)], tol=tol, max_nodes=max_nodes, random_state=random_state,
        n_outputs=problem.vector_outputs, proves=proves, effort=effort,
    )  # fmt: skip
    return HeuristicGeneration(problem, oracle, tol=tol, random_state=random_state, **options)


def search(problem: Problem, **options: Any) -> Point:
    """Solve by :func:`searching`.

    Returns
    -------
    Point
        Status ``CERTIFIED`` when the gap was proved; ``GAP`` where proofs did not end.

    Examples
    --------
    >>> point = search(Problem.through(np.eye(3), np.array([3.0, 4.0, -6.0])), tol=1e-6)
    >>> point.status.code, round(point.upper_bound, 5)
    ('certified', 11.0)
    """
    return searching(problem, **options).solve()
