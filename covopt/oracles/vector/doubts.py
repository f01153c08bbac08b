"""What pieces whose maximiser rounding cannot place may add to a bound."""

from __future__ import annotations


def settle_doubts(settled: float, doubts: list[tuple[float, float]], n_descents: int) -> float:
    """Bound a maximum over pieces, some of them in doubt.

    A piece in doubt either counts with its own maximum, or, if it holds the maximiser, a piece of lower dimension
    comes within its gap; after at most ``n_descents`` such descents one arrives at a piece that counts. So for every
    choice of pieces that do not count, the maximum is at most the largest of those that do plus ``n_descents`` times
    the largest gap of those that do not. The best choice leaves out the pieces of smallest gap.

    Parameters
    ----------
    settled : float
        The largest maximum of the pieces that are not in doubt.
    doubts : list of (float, float)
        Maximum and gap of the others.
    n_descents : int

    Returns
    -------
    float

    Examples
    --------
    >>> settle_doubts(1.0, [(1.5, 1e-3), (3.0, 1e-4), (0.5, 0.2)], 2)
    1.002
    """
    above = sorted((gap, top) for top, gap in doubts if top > settled)
    largest = settled  # of the pieces that count
    bound = max([settled] + [top for _, top in above])
    for gap, top in reversed(above):
        bound = min(bound, largest + n_descents * gap)
        largest = max(largest, top)
    return bound
