"""Column search where no oracle prices exactly: local search; then signs or boxes prove what it found.

Where climbs find enough neurons above one for a round, nothing else runs. Where rows lie on
grids most neurons above one are in cells where no climb starts: near the optimum of raw iris climbs find ten where
boxes find a thousand. So every fourth round also searches boxes, until they find at most twice as many as the climbs:
the neurons of one search serve several rounds. Raw iris takes 51 processor seconds this way, and does not end in 270
without; its first 80 rows take 9 (6), every second row 10 (8), 80 × 4 of diabetes 12 (15); normal points search no
boxes. Proofs are attempted when the rounds seem to have converged: earlier they cost more than they gain (50 × 7
normal points take 6 s, and had a gap of 3 % after 9 with proofs that would have halved the gap).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.exact.rank import FOUND
from covopt.limits import HALF, PIECE
from covopt.oracles.base import Pricing
from covopt.oracles.boxes import BoxOracle
from covopt.oracles.branch_and_bound import BranchAndBoundOracle
from covopt.oracles.cascade import merged, sign_nodes, suits_boxes, suits_signs
from covopt.oracles.local_search import FIRST_SHARE, LocalSearchOracle

CLOSE = 0.1  # share of the tolerance that a proof may leave; share of the climbs' excess that boxes may leave


class SearchedThenProved:
    """Local search for columns; signs and boxes for proofs.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    tol : float
        Tolerance of the solver.
    max_nodes : int
        Most boxes per proof.
    random_state : int, optional
    n_outputs : int
        0 for duals of shape (N,). With several outputs nothing is proved here.
    proves : bool
        Whether signs and boxes are tried at all.
    effort : float
        Share of the node limit of signs: what they do not finish is left to the certificate.

    Attributes
    ----------
    boxes : BoxOracle or None
        In up to eight dimensions.
    looks : bool
        Whether boxes are searched where climbs find little; set by the solver.
    by_signs : bool
        Whether branch and bound over signs comes first: few rows for the dimension.
    """

    def __init__(
        self, rows: np.ndarray, *, tol: float, max_nodes: int, random_state: int | None = None, n_outputs: int = 0,
        proves: bool = True, effort: float = 1.0,
    ):  # fmt: skip
        self.tol, self._rows = tol, rows
        self.looks, self._sees_more = False, True
        proves = proves and n_outputs == 0
        self.by_signs = proves and suits_signs(*rows.shape)
        self.local = LocalSearchOracle(rows, random_state=0 if random_state is None else random_state)
        self.boxes: BoxOracle | None = None
        if proves and suits_boxes(rows.shape[1]):
            self.boxes = BoxOracle(rows, max_nodes=max_nodes, n_threads=2)
        nodes = sign_nodes(len(rows), rows.shape[1], min(effort, 1.0))
        self.signs = BranchAndBoundOracle(rows, node_limit=nodes, random_state=0)

    def price(
        self,
        dual: np.ndarray,
        *,
        threshold: float = 0.0,
        max_neurons: int | None = None,
        complete: bool = False,
    ) -> Pricing:
        """Return local maxima; ``upper_bound`` is the largest value found, not a bound."""
        options: dict[str, Any] = {"threshold": threshold, "max_neurons": max_neurons}
        found = self.local.search(dual, **options, share=FIRST_SHARE)
        if _count(found) >= HALF * len(dual):
            return found
        if self.looks and self._sees_more and self.boxes is not None:
            found = self._look(self.boxes, dual, found)
        if not _count(found):
            found = merged(found, self.local.search(dual, **options))
        return found

    def _look(self, boxes: BoxOracle, dual: np.ndarray, found: Pricing) -> Pricing:
        """Add all neurons that boxes find."""
        level = 1.0 + CLOSE * max(found.upper_bound - 1.0, self.tol)
        more = boxes.price(dual, threshold=level, complete=True, max_nodes=PIECE)
        self._sees_more = _count(more) > 2 * _count(found)
        return merged(found, more)

    def prove(self, dual: np.ndarray, level: float) -> Pricing:
        """Return neurons above a level, or a bound close to the level: by signs, where these end, or by boxes."""
        found = Pricing(self._rows[:0], np.zeros(0), np.inf, exact=False)
        if self.by_signs:
            self.signs.goal = (1.0 + 0.5 * CLOSE * self.tol) * level
            found = self.signs.price(dual, threshold=level)
            if self.signs.interrupted:
                raise KeyboardInterrupt
        if self.boxes is None or found.exact or (self.by_signs and found.upper_bound <= self.signs.goal):
            return found
        boxes = self.boxes.price(dual, threshold=level)
        both = merged(found, boxes)
        return Pricing(both.neurons, both.values, min(found.upper_bound, boxes.upper_bound), exact=False)


def _count(found: Pricing) -> int:
    return int((np.abs(found.values) > 1.0 + FOUND).sum())
