"""What looks for columns where nothing prices exactly: neurons seen before, a short local search, signs and boxes.

Where rows lie on grids or have columns of very different size most neurons above one sit in cells that no climb
starts in: near the optimum of the raw iris table a local search of 1024 starts finds ten where boxes find five
hundred. A few tenths of a second of boxes find some of them, a walk over all boxes finds nearly all, and where it
finds none it is a proof. What one walk finds serves several rounds: neurons that are not among the columns, or no
longer, are tried before anything is searched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from covopt.exact.parallel_rows import ASCENT_DIGITS, first_of_each
from covopt.oracles.base import Pricing
from covopt.oracles.branch_and_bound import BranchAndBoundOracle
from covopt.oracles.cascade import joined, merged, sign_nodes, suits_boxes, suits_signs
from covopt.oracles.cones import BoxOracle
from covopt.oracles.local_search import FIRST_SHARE, LocalSearchOracle

NEAR = 0.3  # share of the gap by which the best value may exceed one when a proof is asked for
FAR = 0.05  # with a larger excess a proof never pays
ENOUGH = 0.5  # neurons for each row, that a short local search may find: then boxes are not asked
LOOK, LOOK_SHARE = (
    60_000,
    8,
)  # boxes that look for what a short local search has missed, and of a walk over all
FEW = 20  # neurons from such a look, that are worth a round
SEEN = 0.3  # of the largest excess that is known, now or of late: neurons above it are looked for first
WALK = 0.1  # of the gap, by how much a walk over all boxes lets neurons exceed one
WALKED = 1_500_000  # boxes up to which a walk pays although its bound does not
CLOSE = 0.1  # of the tolerance, what a proof may leave
ABOVE = 1e-9  # what a neuron has to exceed one by
NODES, STARTS = 50_000, 128  # of branch and bound over signs
POOL = 6_000_000  # numbers that are kept of neurons seen before


class Pool:
    """Neurons that exceeded one at some dual point, with their atoms; the oldest are forgotten.

    Parameters
    ----------
    rows : ndarray of shape (N, r)

    Examples
    --------
    >>> pool = Pool(np.eye(2))
    >>> pool.add(np.array([[0.6, 0.8], [0.6, 0.8], [1.0, 0.0]]))
    >>> pool.above(np.array([1.0, 1.0]), 1.0)[1].round(9)
    array([1.4])
    """

    def __init__(self, rows: np.ndarray):
        self._rows = rows
        self._neurons, self._atoms = np.zeros((0, rows.shape[1])), np.zeros((0, len(rows)))

    def __len__(self) -> int:
        return len(self._neurons)

    def add(self, neurons: np.ndarray) -> None:
        """Remember neurons, once each."""
        first = first_of_each(np.concatenate([self._neurons, neurons]), ASCENT_DIGITS)
        fresh = neurons[first[first >= len(self)] - len(self)]
        most = max(POOL // max(len(self._rows), 1), 1)
        self._neurons = np.concatenate([self._neurons, fresh])[-most:]
        self._atoms = np.concatenate([self._atoms, np.maximum(fresh @ self._rows.T, 0.0)])[-most:]

    def above(self, dual: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Neurons with a value above ``level`` in size, and their values."""
        values = self._atoms @ dual
        values = values if values.ndim == 1 else np.linalg.norm(values, axis=1)
        found = np.abs(values) > level
        return self._neurons[found], values[found]


class SearchedThenProved:
    """Neurons seen before, local search, boxes; ``proved`` says whether the last answer's bound is valid.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    tol : float
        Of the solver that asks.
    max_nodes : int
        Boxes per proof.
    random_state : int, optional
    n_outputs : int
        0 for duals of one axis. Of several outputs nothing is proved here.
    proves : bool
        Whether signs and boxes are tried at all.
    effort : float
        Share of the nodes of signs: what they do not end with is left to the certificate.

    Attributes
    ----------
    boxes : BoxOracle or None
        Up to eight dimensions.
    gap : float
        Of the solver, as far as it knows.
    is_worth : callable
        Of the best value met at the dual that is priced: whether a proof would lift the bound by enough.
    failed : bool
        Whether a proof ran out of boxes without meeting a neuron.
    by_signs : bool
        Whether branch and bound over signs has proved what boxes had not: few rows for the dimension.
    """

    def __init__(
        self, rows: np.ndarray, *, tol: float, max_nodes: int, random_state: int | None = None, n_outputs: int = 0,
        proves: bool = True, effort: float = 1.0,
    ):  # fmt: skip
        self.tol, self.max_nodes, self.effort = tol, max_nodes, min(effort, 1.0)
        self.gap = 1.0
        self.is_worth: Callable[[float], bool] = lambda best: True
        self.proved = self.failed = False
        proves = proves and n_outputs == 0
        self.by_signs = proves and suits_signs(*rows.shape)
        self._rows = rows
        self.local = LocalSearchOracle(rows, random_state=0 if random_state is None else random_state)
        self.pool = Pool(rows)
        self._excess = 0.0
        self._walked = 0  # boxes of the last walk
        self._sees_more = False  # whether the last walk found what climbs had missed
        self.boxes: BoxOracle | None = None
        if proves and suits_boxes(rows.shape[1]):
            self.boxes = BoxOracle(rows, max_nodes=max_nodes, n_threads=2)
        self.signs = BranchAndBoundOracle(rows, node_limit=NODES, n_starts=STARTS, random_state=0)

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
        self.proved = False
        enough = ENOUGH * len(dual)
        found = joined(*self.pool.above(dual, 1.0 + ABOVE))
        if len(found.values) >= enough:
            return found
        found = merged(found, self.local.search(dual, **options, share=FIRST_SHARE))
        if _count(found) >= enough:
            return self._remembered(found)
        if self.boxes is None:
            if not _count(found):
                found = self._remembered(merged(found, self.local.search(dual, **options)))
            return self._walk(dual, found) if self.by_signs and not _count(found) else found
        excess = max(found.upper_bound - 1.0, SEEN * self._excess, CLOSE * self.tol)
        found = self._looked(dual, found, 1.0 + SEEN * excess)
        if _count(found) >= FEW or self.proved:
            return found
        if not self._sees_more and not _count(found):
            found = self._remembered(merged(found, self.local.search(dual, **options)))
        return self._walk(dual, found)

    def _looked(self, dual: np.ndarray, found: Pricing, level: float) -> Pricing:
        """Add what a few boxes find above a level."""
        most = min(LOOK, self.max_nodes, self._walked // LOOK_SHARE if self._walked else LOOK)
        assert self.boxes is not None
        missed = self.boxes.price(dual, threshold=level, max_nodes=max(most, 1))
        found = self._remembered(merged(found, missed))
        best = found.upper_bound
        self._excess = best - 1.0
        self.proved = missed.upper_bound <= level * (1.0 + CLOSE * self.tol) and self.is_worth(level)
        return replace(found, upper_bound=max(missed.upper_bound, best)) if self.proved else found

    def _walk(self, dual: np.ndarray, found: Pricing) -> Pricing:
        """Walk over all boxes, where that is cheap or its bound would pay."""
        best = max(found.upper_bound, 1.0)
        if not self._sees_more or self._walked > WALKED:
            settled = (
                best <= 1.0 + CLOSE * self.tol
            )  # also at the first dual of a large λ, before any gap is known
            near = settled or (self.gap < 1.0 and best - 1.0 <= min(FAR, NEAR * self.gap))
            if not near or not self.is_worth(best):
                return found
        level = best * (1.0 + 0.2 * CLOSE * self.tol)
        if self._sees_more:
            slack = max(WALK * self.gap, CLOSE * self.tol)
            level = 1.0 + slack if best <= 1.0 + slack else 1.0 + SEEN * (best - 1.0)
        boxes = self.prove(dual, level)
        before, together = _count(found), merged(found, boxes)
        self.proved = bool(np.abs(boxes.values).max(initial=0.0) <= level) and np.isfinite(boxes.upper_bound)
        if self.proved:
            self.failed = boxes.upper_bound > level * (1.0 + NEAR * self.gap)
            bound = max(boxes.upper_bound, best)
            return Pricing(together.neurons, together.values, bound, exact=False)
        self._sees_more = _count(together) >= before + FEW
        return self._remembered(together)

    def prove(self, dual: np.ndarray, level: float) -> Pricing:
        """Return neurons above a level, or a bound about the level: by signs, where these end, or boxes."""
        if self.by_signs:
            signs = self._by_signs(dual, level, sign_nodes(self._rows.shape[1]))
            if signs.exact or signs.upper_bound <= self.signs.goal:
                return signs
            self.by_signs = False  # rows of uneven size: once is enough
        if self.boxes is None:
            return Pricing(self._rows[:0], np.zeros(0), np.inf, exact=False)
        boxes = self.boxes.price(dual, threshold=level, complete=self._sees_more)
        self._walked = self.boxes.nodes
        highest = float(np.abs(boxes.values).max(initial=0.0))
        if highest > level or boxes.upper_bound <= (1.0 + CLOSE * self.tol) * level:
            return boxes
        # where boxes ran out the bound is far above the level although no neuron is
        signs = self._by_signs(dual, level, NODES)
        self.by_signs = signs.exact
        together, bound = merged(boxes, signs), min(signs.upper_bound, boxes.upper_bound)
        return Pricing(together.neurons, together.values, bound, exact=False)

    def _by_signs(self, dual: np.ndarray, level: float, nodes: int) -> Pricing:
        self.signs.node_limit = max(int(self.effort * nodes), 1)
        self.signs.goal = (1.0 + 0.5 * CLOSE * self.tol) * level
        found = self.signs.price(dual, threshold=level)
        if self.signs.interrupted:
            raise KeyboardInterrupt
        return found

    def _remembered(self, found: Pricing) -> Pricing:
        """Keep for later rounds what exceeds one."""
        beyond = np.abs(found.values) > 1.0 + ABOVE
        self.pool.add(found.neurons[beyond])
        return found


def _count(found: Pricing) -> int:
    return int((np.abs(found.values) > 1.0 + ABOVE).sum())
