"""The maps on the arcs of a circle, in compensated sums: :mod:`covopt.oracles.vector.circles`."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def sum_maps(rows, mu, order, after, total, missed, maps):
    """Write the maps (k, 3, m) behind the crossings of one circle, from the sum 2L + Σ_{j ≠ i} μ_j z_jᵀ.

    Half a circle further every other row has changed its activity: the map before the first crossing and the last
    one have that sum.
    """
    k, m = len(maps), len(order)
    at, lost = np.zeros((k, 3)), np.zeros((k, 3))
    for q in range(m):
        j = order[q]
        for p in range(k):
            for c in range(3):
                term = after[q] * mu[j, p] * rows[j, c]
                new = at[p, c] + term
                shift = new - at[p, c]
                lost[p, c] += (at[p, c] - (new - shift)) + (term - shift)
                at[p, c] = new
                maps[p, c, q] = new + lost[p, c]
    for p in range(k):
        for c in range(3):
            base = 0.5 * (total[p, c] + missed[p, c] - maps[p, c, m - 1])
            for q in range(m):
                maps[p, c, q] += base


@njit(cache=True, nogil=True)
def sum_rows(rows, mu, linear, total, missed):
    """Write 2·linear + Σ μ_j z_jᵀ, compensated, as a sum and its error."""
    total[:] = 2.0 * linear
    missed[:] = 0.0
    for j in range(len(rows)):
        take(total, missed, rows[j], mu[j], 1.0)


@njit(cache=True, nogil=True)
def take(total, missed, row, mu_j, sign):
    """Add sign · μ_j z_jᵀ to a compensated sum."""
    for p in range(len(mu_j)):
        for c in range(3):
            term = sign * mu_j[p] * row[c]
            new = total[p, c] + term
            shift = new - total[p, c]
            missed[p, c] += (total[p, c] - (new - shift)) + (term - shift)
            total[p, c] = new


@njit(cache=True, nogil=True)
def go_on(values, out):
    """Write values of half a circle to ``out[2:]``, with two before and three behind from the opposite half."""
    m = len(values)
    out[2 : m + 2] = values
    for q in range(2):
        out[q] = -values[max(m - 2 + q, 0)]
    for q in range(3):
        out[m + 2 + q] = -values[min(q, m - 1)]
