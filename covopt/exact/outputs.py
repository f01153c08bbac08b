r"""Outputs of a two-layer network to twice the digits, where doubles hide how far they are from the targets.

Of points far from the origin for their distances, w·x is a small difference of large products: doubles may compute
the targets themselves where the network, as its weights are, misses them by 1e-7 of the largest.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from covopt.exact.rounding import allowance, two_product, two_sum

MOST = 1e7  # pairs of points and neurons: about a second
HIDDEN = 5e-10  # of the largest target, that doubles may be wrong by
SAFE = 2.0**400  # sizes between which a product of two numbers and its error are doubles
_product, _sum = njit(two_product), njit(two_sum)


def blur(lifted: np.ndarray, hidden: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> float:
    """Bound the error of computed outputs max_o |Σ_j v_jo σ(w_j·z) + c_o|, from above.

    Parameters
    ----------
    lifted : ndarray of shape (N, D)
    hidden : ndarray of shape (m, D)
    weights : ndarray of shape (m, k)
    offset : ndarray of shape (k,)

    Examples
    --------
    >>> blur(np.array([[1e9, 1.0]]), np.array([[1.0, -1e9]]), np.ones((1, 1)), np.zeros(1)) > 1e-7
    True
    """
    with np.errstate(all="ignore"):
        heights = np.abs(lifted) @ np.abs(hidden).T
        size = float((heights @ np.abs(weights) + np.abs(offset)).max(initial=0.0))
    return allowance(len(hidden) + lifted.shape[1], size) if np.isfinite(size) else np.inf


def offset_of(bias: float, output_bias: np.ndarray) -> np.ndarray:
    """Return β times the output biases, in two parts of shape (2, k): the product, and what it is rounded by.

    Examples
    --------
    >>> offset_of(1.0 + 2.0**-52, np.array([1.0 - 2.0**-52])).tolist() == [[1.0], [-(2.0**-104)]]
    True
    """
    with np.errstate(over="ignore", invalid="ignore"):
        product, error = two_product(np.full_like(output_bias, bias), output_bias)
    inside = (np.abs(product) < SAFE) & (np.abs(product) > 1.0 / SAFE) & np.isfinite(error)
    return np.array([product, np.where(inside, error, 0.0)])


def misses(
    lifted: np.ndarray, hidden: np.ndarray, weights: np.ndarray, offset: np.ndarray, targets: np.ndarray
) -> np.ndarray | None:
    """Return Σ_j v_j σ(w_j·z_i) + c − y_i, computed with about 100 bits and rounded once.

    Parameters
    ----------
    lifted : ndarray of shape (N, D)
    hidden : ndarray of shape (m, D)
    weights : ndarray of shape (m, k)
    offset : ndarray of shape (2, k)
        In two parts: :func:`offset_of`.
    targets : ndarray of shape (N, k)

    Returns
    -------
    ndarray of shape (N, k) or None
        None where numbers are too large or too small for that.

    Examples
    --------
    >>> z, w = np.array([[1e9 + 0.25, 1.0]]), np.array([[0.1, -1e8]])
    >>> float(np.maximum(z @ w.T, 0.0)[0, 0])
    0.025000005960464478
    >>> float(misses(z, w, np.ones((1, 1)), np.zeros((2, 1)), np.zeros((1, 1)))[0, 0])
    0.025000005551115125
    """
    sizes = [np.abs(part[part != 0.0]) for part in (lifted, hidden, weights)]
    if any(len(part) and not 1.0 / SAFE < part.min() <= part.max() < SAFE for part in sizes):
        return None
    ends, rest = two_sum(np.broadcast_to(offset[0], targets.shape), -targets)
    lifted, columns, weights = (
        np.ascontiguousarray(part, dtype=float) for part in (lifted, hidden.T, weights)
    )
    found: np.ndarray = _misses(lifted, columns, weights, ends, rest + offset[1])
    return found


@njit(cache=True)
def _misses(
    lifted: np.ndarray, columns: np.ndarray, weights: np.ndarray, ends: np.ndarray, rest: np.ndarray
) -> np.ndarray:
    """Add Σ_j v_j σ(w_j·z_i) to numbers of two parts."""
    found = np.empty(ends.shape)
    for i in range(len(lifted)):
        high, low = np.zeros(columns.shape[1]), np.zeros(columns.shape[1])
        for column in range(len(columns)):
            for j in range(len(high)):
                product, error = _product(lifted[i, column], columns[column, j])
                high[j], lost = _sum(high[j], product)
                low[j] += lost + error
        for output in range(ends.shape[1]):
            value, below = ends[i, output], rest[i, output]
            for j in range(len(high)):
                height, lost = _sum(high[j], low[j])
                if height > 0.0:
                    product, error = _product(height, weights[j, output])
                    value, missed = _sum(value, product)
                    below += missed + (error + lost * weights[j, output])
            found[i, output] = value + below
    return found


def outputs_of_far(
    lifted: np.ndarray, hidden: np.ndarray, weights: np.ndarray, offset: np.ndarray, targets: np.ndarray
) -> np.ndarray | None:
    """Return outputs to twice the digits; None where doubles hide less than ``HIDDEN`` of the largest target.

    So it is for more than ``MOST`` pairs of points and neurons: outputs are then believed as doubles compute them.

    Parameters
    ----------
    lifted, hidden, weights, offset, targets
        As for :func:`misses`. Where that is out of reach, outputs are as far from the targets as rounding allows.
    """
    parts = lifted, hidden, weights, offset
    if len(lifted) * len(hidden) > MOST:
        return None
    hides = blur(*parts[:3], offset[0])
    if not hides > HIDDEN * (float(np.abs(targets).max(initial=0.0)) or 1.0):
        return None
    missed = misses(*parts, targets)
    return targets + (hides if missed is None else missed)
