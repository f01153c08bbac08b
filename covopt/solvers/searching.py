"""Column generation where nothing prices exactly: local search finds columns, signs and boxes prove.

A search believes the best value that it has met and steers the master by it, but reports nothing that has not been
proved (:mod:`covopt.oracles.searched`). A neuron found later corrects the belief. Where proofs cost more than a
walk in passing, they are made once the best value exceeds one by less than a share of the gap and the proof would
close half of it; until then there is the bound that takes no search.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from covopt.checks.speaking import stage
from covopt.exact.rounding import relative_gap
from covopt.limits import TimeUp
from covopt.oracles.base import Pricing
from covopt.oracles.bounds import gauge_bound
from covopt.oracles.searched import CLOSE, SearchedThenProved
from covopt.problems.problem import Problem
from covopt.solvers.generation import Generation
from covopt.solvers.loop import RoundState
from covopt.solvers.points import Point
from covopt.status import Status

ROUNDS = 2000
NODES = 5_000_000  # boxes per proof
NEWS = 0.8  # of the distance of the bounds, that is worth a note
WORTH = 0.5  # share of the gap that a proof has to close
LOOK_EVERY = 4  # rounds, of those that solve their restricted problem
MOST_COLUMNS = 4  # for each row, that one round adds


class Believing(Generation):
    """Rounds of a :class:`Generation` that believe the local search and report what was proved.

    Attributes
    ----------
    proved : tuple of (ndarray, float)
        The best dual point whose gauge was bounded, scaled into feasibility, and its value.
    believed : ndarray
        The dual that the rounds have ended with.
    """

    oracle: SearchedThenProved

    def __init__(self, problem: Any, oracle: SearchedThenProved, **options: Any):
        super().__init__(problem, oracle, **options)
        oracle.is_worth = self._is_worth
        self.proved: tuple[np.ndarray, float] = np.zeros_like(self.point.dual), 0.0
        self.believed = self._priced = self.master.dual
        self._turn = 0

    def price(self, dual: np.ndarray, threshold: float, max_neurons: int | None = None) -> Pricing:
        """See the base class."""
        self._priced = dual
        return super().price(dual, threshold, max_neurons)

    def offer_dual(self, dual: np.ndarray, pricing: Pricing) -> None:
        """See the base class; what is only believed counts until it is refuted, by a neuron or by a network."""
        if self.oracle.proved or pricing.exact:
            self._note_proof(dual, pricing.upper_bound)
            return
        super().offer_dual(dual, pricing)
        if self.point.lower_bound > (1.0 + self.tol) * self.point.upper_bound:
            self._return_to_proof()

    def _is_worth(self, best: float) -> bool:
        """Whether a proof would make the distance of the bounds half as large, or small enough."""
        value = self.problem.scale_dual(self._priced, best)[1]
        upper, lower = self.point.upper_bound, self.proved[1]
        return value - lower >= WORTH * (upper - lower) or relative_gap(upper, value) <= self.tol

    def _patient_round(self) -> tuple[int, bool]:
        """See the base class; such rounds are worth a look at boxes, now and then."""
        self._turn = (self._turn + 1) % LOOK_EVERY
        self.oracle.looks = self._turn == 0
        return super()._patient_round()

    def _return_to_proof(self) -> None:
        self.point.dual, self.point.lower_bound = self.proved

    def _note_proof(self, dual: np.ndarray, gauge: float) -> None:
        scaled, value = self.problem.scale_dual(dual, gauge)
        if value > self.proved[1]:
            upper = self.point.upper_bound
            if upper - value < NEWS * (upper - self.proved[1]):
                self._note = "a proof raises the lower bound"
            self.proved = scaled, value
        if value > self.point.lower_bound:
            self._return_to_proof()

    def correct(self, neurons: np.ndarray) -> None:
        """See the base class; belief does not fall below what is proved."""
        super().correct(neurons)
        if self.proved[1] > self.point.lower_bound:
            self._return_to_proof()

    def _fresh(self, pricing: Pricing, gap: float) -> np.ndarray:
        """Also correct the belief: in the dual point that is kept a neuron found now may exceed one."""
        self.correct(pricing.neurons)
        return pricing.neurons[: MOST_COLUMNS * self.master.dual.size]

    def should_stop(self) -> bool:
        """See the base class; belief alone never ends the rounds, a proof that failed does."""
        while self.point.gap <= self.tol < relative_gap(self.point.upper_bound, self.proved[1]):
            if not self._is_decided():
                self.oracle.failed = True
                break
        self.oracle.gap = self.point.gap if np.isfinite(self.point.gap) else 1.0
        return super().should_stop() or self.oracle.failed

    @stage("proofs")
    def _is_decided(self) -> bool:
        """Ask for a proof of the dual point that is kept; False where there is none, and no neuron is found."""
        slack, asked = CLOSE * self.tol, self.problem.asked(self.point.dual)
        found = self.oracle.prove(asked, 1.0 + 0.2 * slack)
        highest, bound = float(np.abs(found.values).max(initial=0.0)), found.upper_bound
        if np.isfinite(bound):
            self._note_proof(self.point.dual, bound)
        if bound <= 1.0 + slack:
            # what is proved is a hair below what was believed, and may be beyond the tolerance
            self._return_to_proof()
        self.correct(found.neurons)
        return bound <= 1.0 + slack or highest > 1.0 + 0.2 * slack

    def solve(self) -> Point:
        """Return the cheapest network and the best dual point that was proved, by a relaxation at least."""
        point = super().solve()
        self.believed = self.point.dual
        if self.proved[1] == 0.0 and point.dual.any():
            with contextlib.suppress(TimeUp):  # the network stays, however late a bound is
                rows, asked = self.problem.rows[self.problem.live], self.problem.asked(self.believed)
                scaled, value = self.problem.scale_dual(self.believed, gauge_bound(rows, asked))
                self.proved = scaled, max(value, 0.0)
        self._return_to_proof()
        if point.warm is not None:
            point.warm = dataclasses.replace(point.warm, feasible=point.dual)
        if point.status is Status.CERTIFIED and point.gap > self.tol:  # the time was up during the proof
            point.status = Status.TIME_LIMIT
        point.claimed = point.status is Status.CERTIFIED and self.oracle.boxes is not None
        return point


def search(
    problem: Problem,
    *,
    tol: float,
    time_limit_s: float | None = None,
    random_state: int | None = None,
    callback: Callable[[RoundState, Point], bool] | None = None,
    proves: bool = True,
    max_nodes: int = NODES,
    effort: float = 1.0,
    **options: Any,
) -> tuple[Point, np.ndarray]:
    """Solve a problem for whose rows there is no exact oracle; see the head of this module.

    Parameters
    ----------
    problem : Problem
    tol : float
    time_limit_s : float, optional
    random_state : int, optional
    callback : callable, optional
        Sees proved bounds only.
    proves : bool
        Whether signs and boxes are tried.
    max_nodes : int, optional
        Boxes per proof.
    effort : float
        Share of a proof by signs.
    **options
        Of the generation: ``warm``.

    Returns
    -------
    (Point, ndarray of shape (N, k))
        Status ``CERTIFIED`` when the gap was proved; ``GAP`` with the best network and bound where proofs did not
        end; and the dual that is believed to be optimal.

    Examples
    --------
    >>> point, _ = search(Problem.through(np.eye(3), np.array([3.0, 4.0, -6.0])), tol=1e-6)
    >>> point.status.code, round(point.upper_bound, 5)
    ('certified', 11.0)
    """
    oracle = SearchedThenProved(
        problem.rows[problem.rows.any(axis=1)], tol=tol, max_nodes=max_nodes, random_state=random_state,
        n_outputs=problem.vector_outputs, proves=proves, effort=effort,
    )  # fmt: skip

    def observe(state: RoundState, point: Point) -> bool:
        dual, lower = generation.proved
        gap = relative_gap(state.upper_bound, lower) if lower > 0 else 1.0
        known = dataclasses.replace(point, lower_bound=lower, dual=dual if lower > 0 else point.dual)
        return callback is not None and callback(
            dataclasses.replace(state, lower_bound=lower, gap=gap), known
        )

    generation = Believing(
        problem, oracle, tol=tol, time_limit_s=time_limit_s, random_state=random_state, callback=observe,
        max_rounds=ROUNDS, **options,
    )  # fmt: skip
    point = generation.solve()
    return point, generation.believed
