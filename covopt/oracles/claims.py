"""What quadratics on boxes have shown of a gauge is shown again: the claim says what to prove.

A claim is believed by nobody. It costs time, up to twenty times as many boxes as a bound without one, and where they
do not suffice the claim is forgotten.
"""

from __future__ import annotations

import numpy as np

from covopt.oracles.cones.moments import decided_gauge

CLAIMED = 20  # times as many boxes show what is claimed
ATTAINED = 5e-8  # a bound this close to a value is the maximum
CLAIM_SLACK = 1e-10  # what other coordinates may change
BY_CHORDS = "valid upper bound on the maximum over all neurons, by boxes of directions"
BY_BOXES = "valid upper bound on the maximum over all neurons, by quadratics on boxes of directions"


def shown_again(
    rows: np.ndarray, dual: np.ndarray, claim: float, *, max_nodes: int
) -> tuple[float, float] | None:
    """Show that h(λ) ≤ claim, a hair aside; None where the boxes do not suffice.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N,)
    claim : float
        Positive.
    max_nodes : int
        Boxes that a bound without a claim would look at.

    Returns
    -------
    (float, float) or None
        The bound, and the largest value met.

    Examples
    --------
    >>> rows, dual = np.eye(5), np.ones(5)  # its gauge is the root of five
    >>> [shown_again(rows, dual, claim, max_nodes=100) is None for claim in (2.3, 2.2)]
    [False, True]
    """
    decided = decided_gauge(rows, dual, claim, max_nodes=max(CLAIMED * max_nodes, 1), n_threads=2)
    if decided is None or decided.upper_bound > (1.0 + CLAIM_SLACK) * claim:
        return None
    return decided.upper_bound, abs(decided.best_value)
