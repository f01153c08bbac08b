"""Column generation in five to eight dimensions: local search finds columns, boxes prove.

A proof by boxes costs seconds, and of a dual point far from optimal it says nothing worth having. So a round asks a
short local search, then boxes above a threshold near the worst neuron of late: where rows lie on grids or have
columns of very different size these find in a tenth of a second what no local search does. Only where they find
nothing the local search takes its time; its best value passes for h and steers the master, but is never reported.
Once that value exceeds one by less than a share of the gap, and its proof would close half of it, a search over boxes
decides. Now and then what is believed is proved anyway, so that there is a bound at any time.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from covopt.checks.timing import stage
from covopt.exact.rounding import relative_gap
from covopt.limits import TimeUp, limited
from covopt.oracles.base import Pricing
from covopt.oracles.bounds import gauge_bound
from covopt.oracles.cones import BoxOracle, box_gauge
from covopt.oracles.faces import count_faces
from covopt.oracles.local_search import FIRST_SHARE, LocalSearchOracle
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.checkpoints import State
from covopt.solvers.column_generation import ColumnGeneration, Point, RoundState
from covopt.status import Status

NEAR = 0.3  # share of the gap by which the best value may exceed one when boxes are asked
FAR = 0.05  # with a larger excess a proof never pays
ENOUGH = 0.5  # neurons for each row, that a short local search may find: then boxes are not asked
LOOK = 60_000  # boxes that look for what a short local search has missed
SEEN = 0.5  # of the largest excess that is known, now or of late: neurons above it are looked for first
ROUNDS = 2000
PROOF_EVERY = 25  # rounds, after which what is believed is proved, if only roughly
ROUGH = 1e-3
LAST_S = 10.0  # seconds for a last proof of what is believed
NODES = 5_000_000  # boxes per proof
NODES_PER_S = 200_000
WORTH = 0.5  # share of the gap that a proof has to close
CLOSE = 0.1  # of the tolerance, what a proof may leave
FEWEST_DIMENSIONS, MOST_DIMENSIONS = 5, 8
FEWEST_FACES = 2e7  # below, looking at every face is quicker


def suits(problem: ShallowProblem) -> bool:
    """Whether boxes are the oracle to try: one output, five to eight dimensions, many faces.

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((60, 6))
    >>> suits(ShallowProblem(rows, np.ones(60))), suits(ShallowProblem(rows[:, :3], np.ones(60)))
    (True, False)
    """
    n, rank = problem.rows.shape
    if problem.is_vector or not FEWEST_DIMENSIONS <= rank <= MOST_DIMENSIONS:
        return False
    return count_faces(n, rank) > FEWEST_FACES


class SearchedThenProved:
    """Local search, and boxes near the end; ``proved`` says whether the last answer's bound is valid.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    tol : float
        Of the solver that asks.
    max_nodes : int
        Boxes per proof.
    random_state : int, optional

    Attributes
    ----------
    gap : float
        Of the solver, as far as it knows.
    is_worth : callable
        Of a dual and the best value met: whether a proof would lift the bound by enough.
    failed : bool
        Whether a proof ran out of boxes without meeting a neuron.
    """

    def __init__(self, rows: np.ndarray, *, tol: float, max_nodes: int, random_state: int | None = None):
        self.tol, self.max_nodes = tol, max_nodes
        self.gap = 1.0
        self.is_worth: Callable[[np.ndarray, float], bool] = lambda dual, best: True
        self.proved = self.failed = False
        self._excess = 0.0
        self.local = LocalSearchOracle(rows, random_state=0 if random_state is None else random_state)
        self._boxes = BoxOracle(rows, max_nodes=max_nodes, n_threads=2)

    def price(
        self,
        dual: np.ndarray,
        *,
        threshold: float = 0.0,
        max_neurons: int | None = None,
        complete: bool = False,
    ) -> Pricing:
        """Return local maxima; their bound is valid where ``proved`` says so."""
        options: dict[str, Any] = {"threshold": threshold, "max_neurons": max_neurons}
        found = self.local.search(dual, **options, share=FIRST_SHARE)
        self.proved = False
        if (np.abs(found.values) > 1.0).sum() >= ENOUGH * len(dual):
            return found
        excess = max(found.upper_bound - 1.0, CLOSE * self.tol)
        for level in sorted({1.0 + SEEN * max(excess, self._excess), 1.0 + excess / 8.0}, reverse=True):
            missed = self._boxes.price(dual, threshold=level, max_nodes=LOOK)
            highest = float(np.abs(missed.values).max())
            if highest > level:
                self._excess = highest - 1.0
                return self._together(missed, found, level, max(highest, found.upper_bound))
        self._excess = excess
        found = self.local.search_on(dual, **options, found=found)
        best = found.upper_bound
        if self.gap >= 1.0 or best - 1.0 > max(min(FAR, NEAR * self.gap), CLOSE * self.tol):
            return found
        if not self.is_worth(dual, best):
            return found
        level = max(best, 1.0) * (1.0 + 0.2 * CLOSE * self.tol)
        boxes = self._boxes.price(dual, threshold=level)
        highest = float(np.abs(boxes.values).max())
        self.proved = highest <= level
        if not self.proved:
            return self._together(boxes, found, level, max(highest, best))
        self.failed = boxes.upper_bound > level * (1.0 + NEAR * self.gap)
        return self._together(boxes, found, level, boxes.upper_bound)

    def _together(self, boxes: Pricing, found: Pricing, level: float, bound: float) -> Pricing:
        """Join what boxes and local search have found; the former is where the latter starts next time."""
        beyond = np.abs(boxes.values) > level
        if beyond.any():
            self.local.warm = np.concatenate([boxes.neurons[beyond], self.local.warm])
        return Pricing(
            np.concatenate([boxes.neurons[beyond], found.neurons]),
            np.concatenate([boxes.values[beyond], found.values]),
            bound,
            exact=False,
        )


class BoxGeneration(ColumnGeneration):
    """:class:`ColumnGeneration` that believes the local search and reports what boxes proved.

    Attributes
    ----------
    proved : tuple of (ndarray of shape (N,), float)
        The best dual point whose gauge was bounded by boxes, scaled into feasibility, and its value.
    """

    oracle: SearchedThenProved

    def __init__(self, problem: ShallowProblem, oracle: SearchedThenProved, **options: Any):
        super().__init__(problem, oracle, **options)
        oracle.is_worth = self._is_worth
        self.proved: tuple[np.ndarray, float] = np.zeros_like(problem.targets), 0.0

    def state(self) -> State | None:
        """See the base class; what is believed of a dual is kept apart from what is proved."""
        state = super().state()
        return (
            None if state is None else {**state, "proved": {"dual": self.proved[0], "value": self.proved[1]}}
        )

    def restore(self, state: State) -> bool:
        """See the base class; the network and the columns, and the dual that was proved."""
        known = state["proved"]["dual"], float(state["proved"]["value"])
        if known[0].shape != self.proved[0].shape or not super().restore(state):
            return False
        self.proved = known
        self.point.dual, self.point.lower_bound = known
        self.oracle.gap = min(self.point.gap, 1.0)
        return True

    def _offer_dual(self, dual: np.ndarray, pricing: Pricing) -> None:
        if self.oracle.proved:
            self._note_proof(dual, pricing.upper_bound)
        else:
            super()._offer_dual(dual, pricing)

    def _is_worth(self, dual: np.ndarray, best: float) -> bool:
        """Whether a proof would make the distance of the bounds half as large, or small enough."""
        value, upper, lower = self.problem.scale_dual(dual, best)[1], self.point.upper_bound, self.proved[1]
        return value - lower >= WORTH * (upper - lower) or relative_gap(upper, value) <= self.tol

    def _note_proof(self, dual: np.ndarray, gauge: float) -> None:
        scaled, value = self.problem.scale_dual(dual, gauge)
        if value > self.proved[1]:
            self.proved = scaled, value
        # what was believed may have been too much: from here on it is what is proved
        self.point.dual, self.point.lower_bound = self.proved

    def _fresh(self, pricing: Pricing, gap: float) -> np.ndarray:
        """Also correct the belief: in the dual point that is kept a neuron found now may exceed one."""
        if len(pricing.neurons) and self.point.dual.any():
            highest = float(np.abs(self.problem.atoms(pricing.neurons).T @ self.point.dual).max())
            if highest > 1.0:
                scaled, value = self.problem.scale_dual(self.point.dual, highest)
                self.point.dual, self.point.lower_bound = scaled, max(value, 0.0)
        return super()._fresh(pricing, gap)

    def should_stop(self) -> bool:
        """See the base class; belief alone never ends the rounds, a proof that failed does."""
        if self.point.gap <= self.tol and not self.oracle.proved:
            self.oracle.failed |= self._prove_belief(CLOSE * self.tol)
        elif len(self.point.history) % PROOF_EVERY == PROOF_EVERY - 1 and np.isfinite(self.point.upper_bound):
            self._prove_belief(ROUGH)
        self.oracle.gap = self.point.gap if np.isfinite(self.point.gap) else 1.0
        return super().should_stop() or self.oracle.failed

    @stage("proofs")
    def _prove_belief(self, rtol: float) -> bool:
        """Bound h of the dual point that is kept; return whether that fails although no neuron exceeds one."""
        bound = box_gauge(
            self.problem.rows, self.point.dual, rtol=rtol, max_nodes=self.oracle.max_nodes, n_threads=2
        )
        self._note_proof(self.point.dual, bound.upper_bound)
        if abs(bound.best_value) > 1.0:
            self.oracle.local.warm = np.concatenate([bound.best_neuron[None], self.oracle.local.warm])
        return not bound.closed and abs(bound.best_value) <= 1.0 + rtol

    def solve(self) -> Point:
        """Return the cheapest network and the best dual point that was proved, by a relaxation at least."""
        point = super().solve()
        if point.status in (Status.GAP, Status.TIME_LIMIT) and point.lower_bound > self.proved[1]:
            with contextlib.suppress(TimeUp), limited(LAST_S):
                self._prove_belief(ROUGH)
        if self.proved[1] == 0.0 and point.dual.any():
            self.proved = self.problem.scale_dual(point.dual, gauge_bound(self.problem.rows, point.dual))
        point.dual, point.lower_bound = self.proved
        return point


def solve_by_boxes(
    problem: ShallowProblem,
    *,
    tol: float,
    time_limit_s: float | None = None,
    random_state: int | None = None,
    callback: Callable[[RoundState], bool] | None = None,
    max_nodes: int = NODES,
) -> Point:
    """Solve a scalar problem; see the head of this module.

    Parameters
    ----------
    problem : ShallowProblem
    tol : float
    time_limit_s : float, optional
        It also limits the boxes of one proof.
    random_state : int, optional
    callback : callable, optional
        Sees proved bounds only.
    max_nodes : int
        Boxes per proof.

    Returns
    -------
    Point
        Status ``CERTIFIED`` when the gap was proved; ``GAP`` with the best network and bound where boxes did not end.

    Examples
    --------
    >>> point = solve_by_boxes(ShallowProblem(np.eye(3), np.array([3.0, 4.0, -6.0])), tol=1e-6)
    >>> point.status.code, round(point.upper_bound, 5)
    ('certified', 11.0)
    """
    if time_limit_s is not None:
        max_nodes = min(max_nodes, int(NODES_PER_S * time_limit_s))
    oracle = SearchedThenProved(problem.rows, tol=tol, max_nodes=max_nodes, random_state=random_state)

    def observe(state: RoundState) -> bool:
        lower = generation.proved[1]
        gap = relative_gap(state.upper_bound, lower) if lower > 0 else 1.0
        return callback is not None and callback(dataclasses.replace(state, lower_bound=lower, gap=gap))

    generation = BoxGeneration(
        problem, oracle, tol=tol, time_limit_s=time_limit_s, random_state=random_state, callback=observe,
        max_rounds=ROUNDS,
    )  # fmt: skip
    return generation.solve()
