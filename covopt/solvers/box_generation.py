"""Column generation in five to eight dimensions: local search finds columns, boxes prove.

A proof by boxes costs seconds, and of a dual point far from optimal it says nothing worth having. So most rounds ask
the local search alone; the best value that it meets passes for h and steers the master, but is never reported. Once
that value exceeds one by less than a share of the gap, a search over boxes decides: it returns neurons that the local
search missed, or a bound that is valid. Only those rounds move the dual point and the lower bound that are reported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from covopt.exact.rounding import relative_gap
from covopt.oracles.base import Pricing
from covopt.oracles.bounds import gauge_bound
from covopt.oracles.cones import BoxOracle, box_gauge
from covopt.oracles.faces import count_faces
from covopt.oracles.local_search import LocalSearchOracle
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.column_generation import ColumnGeneration, Point, RoundState

NEAR = 0.3  # share of the gap by which the best value may exceed one when boxes are asked
FAR = 0.05  # with a larger excess a proof never pays
NODES = 5_000_000  # boxes per proof
NODES_PER_S = 200_000
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
    failed : bool
        Whether a proof ran out of boxes without meeting a neuron.
    """

    def __init__(self, rows: np.ndarray, *, tol: float, max_nodes: int, random_state: int | None = None):
        self.tol, self.max_nodes = tol, max_nodes
        self.gap = 1.0
        self.proved = self.failed = False
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
        found = self.local.search(dual, threshold=threshold, max_neurons=max_neurons)
        best = found.upper_bound
        self.proved = False
        if self.gap >= 1.0 or best - 1.0 > max(min(FAR, NEAR * self.gap), CLOSE * self.tol):
            return found
        level = max(best, 1.0) * (1.0 + 0.2 * CLOSE * self.tol)
        boxes = self._boxes.price(dual, threshold=level)
        self.proved = True
        beyond = np.abs(boxes.values) > level
        self.failed = not beyond.any() and boxes.upper_bound > level * (1.0 + NEAR * self.gap)
        if beyond.any():
            self.local.warm = np.concatenate([boxes.neurons[beyond], self.local.warm])
        return Pricing(
            np.concatenate([boxes.neurons[beyond], found.neurons]),
            np.concatenate([boxes.values[beyond], found.values]),
            boxes.upper_bound,
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
        self.proved: tuple[np.ndarray, float] = np.zeros_like(problem.targets), 0.0

    def _offer_dual(self, dual: np.ndarray, pricing: Pricing) -> None:
        if self.oracle.proved:
            self._note_proof(dual, pricing.upper_bound)
        else:
            super()._offer_dual(dual, pricing)

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
            bound = box_gauge(
                self.problem.rows, self.point.dual, rtol=CLOSE * self.tol, max_nodes=self.oracle.max_nodes,
                n_threads=2,
            )  # fmt: skip
            self.oracle.failed |= not bound.closed and abs(bound.best_value) <= 1.0 + CLOSE * self.tol
            self._note_proof(self.point.dual, bound.upper_bound)
        self.oracle.gap = self.point.gap if np.isfinite(self.point.gap) else 1.0
        return super().should_stop() or self.oracle.failed

    def solve(self) -> Point:
        """Return the cheapest network and the best dual point that was proved, by a relaxation at least."""
        point = super().solve()
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
        problem, oracle, tol=tol, time_limit_s=time_limit_s, random_state=random_state, callback=observe
    )
    return generation.solve()
