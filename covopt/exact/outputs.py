r"""Outputs of a two-layer network to twice the digits, where doubles hide how far they are from the targets.

Of points far from the origin for their distances, w·x is a small difference of large products: doubles may compute
the targets themselves where the network, as its weights are, misses them by 1e-7 of the largest.
"""

from __future__ import annotations

import numpy as np

from covopt.exact.rounding import allowance, two_product, two_sum

MOST = 1e7  # pairs of points and neurons: about a second
BLOCK = 2**16  # entries of the arrays that are worked on at a time: they stay in the cache
HIDDEN = 5e-10  # of the largest target, that doubles may be wrong by
SAFE = 2.0**400  # sizes between which a product of two numbers and its error are doubles


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
    found = np.empty(targets.shape)
    step = max(1, BLOCK // max(len(hidden), 1))
    for first in range(0, len(lifted), step):
        rows, block = lifted[first : first + step], slice(first, first + step)
        heights, rest = np.zeros((len(rows), len(hidden))), np.zeros((len(rows), len(hidden)))
        for column, entries in zip(rows.T, hidden.T, strict=True):
            heights, rest = _add(heights, rest, column[:, None], entries[None, :])
        live = heights > 0.0
        heights, rest = np.where(live, heights, 0.0), np.where(live, rest, 0.0)
        for output, column in enumerate(weights.T):
            product, error = two_product(heights, column)
            ends = offset[0, output] - targets[block, output]
            total, low = _total(np.column_stack([product, ends]), (error + rest * column).sum(axis=1))
            exact = two_sum(np.full(len(rows), offset[0, output]), -targets[block, output])[1]
            found[block, output] = total + (low + exact + offset[1, output])
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


def _total(values: np.ndarray, low: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Add up rows by halves, what every sum loses to ``low``."""
    while values.shape[1] > 1:
        half = values.shape[1] // 2
        sums, lost = two_sum(values[:, :half], values[:, half : 2 * half])
        low = low + lost.sum(axis=1)
        values = np.column_stack([sums, values[:, 2 * half :]])
    return values[:, 0], low


def _add(total: np.ndarray, low: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Add a·b to a number of two parts."""
    product, error = two_product(a, b)
    total, lost = two_sum(total, product)
    return two_sum(total, low + (lost + error))
