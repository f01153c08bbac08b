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
    # the unknowns are U and s = β Uᵀ1; where the offset is free, s is not in that equation, and zero
    parts = [features.T, -features.T, sparse.eye_array(n), -sparse.eye_array(n), np.full((1, n), constant)]
    share = np.zeros((2 * (m + n) + 1, 1))
    share[-1] = -1.0 if price > 0.0 else 0.0
    matrix = sparse.csc_matrix(
        sparse.hstack([sparse.vstack([sparse.csr_array(part) for part in parts]), share])
    )
    right = np.concatenate([np.full(2 * m, 2.0 * lam), bounds[1].ravel(), -bounds[0].ravel(), [0.0]])
    quadratic = sparse.csc_matrix(([0.5 / price if price > 0.0 else 1.0], ([n], [n])), shape=(n + 1, n + 1))
    linear = np.append(loss.conjugate_gradient(np.zeros((n, 1))), 0.0)
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = ACCURACY
    settings.time_limit = min(LONGEST_S, max(0.05, seconds_left()))
    cones = [clarabel.NonnegativeConeT(2 * (m + n)), clarabel.ZeroConeT(1)]
    answer = clarabel.DefaultSolver(quadratic, linear, matrix, right, cones, settings).solve()
    slope, multipliers = np.asarray(answer.x)[:n], np.asarray(answer.z)
    if not (np.isfinite(slope).all() and np.isfinite(multipliers).all()):
        return None
    weights = multipliers[m : 2 * m] - multipliers[:m]
    offset = -multipliers[-1:] if constant > 0.0 else np.zeros(1)
    return Refitted(weights[:, None], offset, slope[:, None])
