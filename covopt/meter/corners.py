r"""The refit for a loss with a corner, such as the hinge: a cone program in its multipliers U.

    min ⟨c, U⟩ + ‖β Uᵀ1‖²/4ρ   s.t.   |Φᵀ U| ≤ 2λ,   U in the box of the conjugate,   C*(U) = ⟨c, U⟩,

whose own multipliers are the output weights; ρ is the price of the squared output bias, and Uᵀ1 = 0 where it is 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from covopt.limits import LONGEST_S, seconds_left
from covopt.losses import Loss

ACCURACY = 1e-13
MOST = 500_000  # pairs of a row and a neuron: some seconds


class Refitted(NamedTuple):
    """Output weights (m, 1), output bias (1,) and multipliers U (N, 1)."""

    weights: np.ndarray
    offset: np.ndarray
    slope: np.ndarray


def solve_corners(
    features: np.ndarray, loss: Loss, lam: float, constant: float = 0.0, price: float = 0.0
) -> Refitted | None:
    """Return the optimum of C(Φv + βb) + 2λ‖v‖₁ + ρb²; None where there is no room or time.

    Parameters
    ----------
    features : ndarray of shape (N, m)
        Φ.
    loss : Loss
        With one output, bound to its targets; its conjugate is linear on a box.
    lam : float
    constant, price : float
        β, 0 without an output bias, and ρ.

    Examples
    --------
    >>> from covopt.losses import make_loss
    >>> loss = make_loss("hinge")
    >>> _ = loss.encode_targets([-1.0, 1.0])
    >>> found = solve_corners(np.array([[0.0], [2.0]]), loss, 0.1)  # ½ + ½ max(0, 1 − 2v) + 0.2 |v|
    >>> found.weights.round(6).tolist(), found.slope.round(6).tolist()
    ([[0.5]], [[0.5], [-0.1]])
    """
    import clarabel

    bounds = loss.box()
    if bounds is None or features.size > MOST:
        return None
    n, m = features.shape
    rows = [
        sparse.csr_array(features.T),
        sparse.csr_array(-features.T),
        sparse.eye_array(n),
        -sparse.eye_array(n),
    ]
    right = [np.full(2 * m, 2.0 * lam), bounds[1].ravel(), -bounds[0].ravel()]
    cones, n_more = [clarabel.NonnegativeConeT(2 * (m + n))], 0
    if constant > 0.0:  # the sum is one unknown more, where it has a price
        rows, right, cones = (
            [*rows, np.full((1, n), constant)],
            [*right, np.zeros(1)],
            [*cones, clarabel.ZeroConeT(1)],
        )
        n_more = int(price > 0.0)
    matrix = sparse.vstack(rows)
    if n_more:
        matrix = sparse.hstack([matrix, np.eye(1, matrix.shape[0], matrix.shape[0] - 1).T * -1.0])
    quadratic = sparse.diags_array([*np.zeros(n), *np.full(n_more, 0.5 / price if n_more else 0.0)])
    linear = [*loss.conjugate_gradient(np.zeros((n, 1))).ravel(), *np.zeros(n_more)]
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = ACCURACY
    settings.time_limit = min(LONGEST_S, max(0.05, seconds_left()))
    answer = clarabel.DefaultSolver(
        sparse.csc_matrix(quadratic),
        np.array(linear),
        sparse.csc_matrix(matrix),
        np.concatenate(right),
        cones,
        settings,
    ).solve()
    slope, multipliers = np.asarray(answer.x)[:n], np.asarray(answer.z)
    if not (np.isfinite(slope).all() and np.isfinite(multipliers).all()):
        return None
    weights, offset = multipliers[m : 2 * m] - multipliers[:m], np.zeros(1)
    if constant > 0.0:
        offset = -multipliers[-1:]
    return Refitted(weights[:, None], offset, slope[:, None])
