"""What every network through the points needs: rank and bends, safe from rounding."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from covopt.exact.rank import exact_rank, rank_at_least
from covopt.losses.interpolation import INTERPOLATES

_EXACT_WORK = 60_000  # fraction operations: below a second


def rank_at_most(matrix: np.ndarray, *, beside_constants: bool = False) -> int:
    """Return a number that the rank does not exceed: the rank in rationals, or min(N, k) where that takes long.

    Parameters
    ----------
    matrix : ndarray of shape (N, k)
    beside_constants : bool
        Of the columns modulo the constants.

    Examples
    --------
    >>> rank_at_most(np.array([[0.5, 1.0], [0.25, 0.5]]))
    1
    """
    n, k = matrix.shape
    most = min(n - 1 if beside_constants else n, k)
    if rank_at_least(matrix, beside_constants=beside_constants) >= most:
        return max(most, 0)
    if n * k * min(n, k) > _EXACT_WORK:
        return most
    rows = [[Fraction(float(v)) for v in row] for row in matrix]
    if beside_constants:
        rows = [[a - b for a, b in zip(row, rows[0], strict=True)] for row in rows[1:]]
    return exact_rank(rows)


def bend_bound(x: np.ndarray, targets: np.ndarray) -> int:
    """Count triples of neighbouring points off a line that share no interval: each needs a bend of its own.

    A network on the line with m neurons is piecewise linear with at most m bends. Between the ends of three
    points that lie on no line there is a bend; the open intervals of the triples counted here are disjoint. The
    test is in rationals. Points count as off a line when no line comes within 1e-9 of max|y| of them, what a network
    through the points may miss: equally spaced decimals on a line are off it by rounding.

    Parameters
    ----------
    x : ndarray of shape (N,)
        Distinct.
    targets : ndarray of shape (N, k)

    Examples
    --------
    >>> bend_bound(np.arange(5.0), np.array([[0.0], [1.0], [0.0], [1.0], [0.0]]))
    2
    """
    order = np.argsort(x)
    points = [Fraction(float(v)) for v in x[order]]
    values = [[Fraction(float(v)) for v in row] for row in targets[order]]
    miss = Fraction(INTERPOLATES * float(np.abs(targets).max(initial=0.0)))
    count, i = 0, 0
    while i + 2 < len(points):
        left, right = points[i + 1] - points[i], points[i + 2] - points[i + 1]
        bent = any(
            abs((b - a) * right - (c - b) * left) > 2 * miss * (left + right)
            for a, b, c in zip(values[i], values[i + 1], values[i + 2], strict=True)
        )
        if bent:
            count += 1
            i += 2
        else:
            i += 1
    return count
