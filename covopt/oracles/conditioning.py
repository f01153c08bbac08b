r"""When crossings of circles can be told apart: three unit rows with a volume that rounding does not come near.

Let |det| > 10⁻¹² for every three unit rows in three dimensions. With s_j = |z_j × z_i|, two crossings on circle i are
apart by an angle of at least 10⁻¹²/(s_j s_k) ≥ ½ 10⁻¹²(1/s_j + 1/s_k), and each is off by at most 16u/s < 2·10⁻¹⁵/s.
At the middle of an arc |z_l·w| ≥ ¼ 10⁻¹² for the same reason, while its computed value is off by 16u; both margins
are above a hundred. So a walk that sorts crossings visits every arc with the signs that it has.
"""

from __future__ import annotations

import numpy as np
from numba import njit

CLEAR = 1e-12
MOST_TRIPLES = 3000  # rows: some seconds


@njit(cache=True, nogil=True)
def _least_volume(units: np.ndarray, enough: float) -> float:
    """Return the least |det| of three rows, or one that is not above ``enough``."""
    n, least = len(units), np.inf
    for i in range(n):
        for j in range(i + 1, n):
            x = units[i, 1] * units[j, 2] - units[i, 2] * units[j, 1]
            y = units[i, 2] * units[j, 0] - units[i, 0] * units[j, 2]
            z = units[i, 0] * units[j, 1] - units[i, 1] * units[j, 0]
            for k in range(j + 1, n):
                least = min(least, abs(x * units[k, 0] + y * units[k, 1] + z * units[k, 2]))
            if least <= enough:
                return least
    return least


def all_clear(rows: np.ndarray) -> bool:
    """Whether all volumes of three unit rows in three dimensions exceed 10⁻¹²: no two crossings can be confused.

    With more than ``MOST_TRIPLES`` rows the answer is no: there are N³/6 volumes.

    Parameters
    ----------
    rows : ndarray of shape (N, 3)
        Without zero rows.

    Examples
    --------
    >>> all_clear(np.eye(3)), all_clear(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 2.0]]))
    (True, False)
    """
    units = np.ascontiguousarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    return len(rows) <= MOST_TRIPLES and bool(_least_volume(units, CLEAR) > CLEAR)
