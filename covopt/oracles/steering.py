"""An oracle that is exact as long as branch and bound ends, and steers by local search from then on.

With several outputs local search steers from the beginning: what bounds h there takes many pricings of one output.
"""

from __future__ import annotations

import numpy as np

from covopt.oracles.base import Pricing
from covopt.oracles.branch_and_bound import BranchAndBoundOracle
from covopt.oracles.local_search import LocalSearchOracle
from covopt.oracles.support import STARTS, tree_limit

PRICING = 1 / 30  # effort of one pricing by signs
SLACK = 0.1
CLOSE = 0.3  # of the tolerance, what a bound may leave


class Steering:
    """Branch and bound until it fails to end in its limits; from then on the best local maximum passes for h.

    ``trusted`` tells the two phases apart: what is computed from the second is never reported as a bound.
    """

    def __init__(
        self,
        rows: np.ndarray,
        *,
        n_outputs: int,
        time_limit_s: float,
        random_state: int | None,
        trusted: bool = False,
        tol: float = 0.0,
    ):
        self._enough = CLOSE * tol
        self._tree = BranchAndBoundOracle(
            rows, node_limit=tree_limit(len(rows), rows.shape[1], PRICING), time_limit_s=time_limit_s, slack=SLACK,
            n_starts=2 * STARTS, random_state=random_state,
        )  # fmt: skip
        self._local = LocalSearchOracle(rows, random_state=random_state)
        self.trusted = trusted or n_outputs > 0

    def price(
        self,
        dual: np.ndarray,
        *,
        threshold: float = 0.0,
        max_neurons: int | None = None,
        complete: bool = False,
    ) -> Pricing:
        """Price exactly where that ends; otherwise return the best local maximum, which bounds nothing."""
        if not self.trusted:
            found = self._tree.price(dual, threshold=threshold, max_neurons=max_neurons, complete=complete)
            if self._tree.interrupted:
                raise KeyboardInterrupt
            best = float(np.abs(found.values).max())
            if found.exact or found.upper_bound <= best + max(1.01 * SLACK * (best - 1.0), self._enough):
                return found
            self.trusted = True
            self._local.warm = self._tree.local.warm
        return self._local.search_on(dual, threshold=threshold, max_neurons=max_neurons)
