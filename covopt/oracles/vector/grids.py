"""Rows of a grid that rounding has moved: integers that they come from, and how far each one is from its place.

Numbers of few digits depend on each other exactly, and only nearly once they are standardised or divided by ten: then
rounding decides which rows share a flat. Here the integers are found again. A column v of the rows, divided by the
last one where that never vanishes, is a + b n with integers n, so a row is near a multiple of (a + b∘n, 1) =
(n, 1) T, and T is one to one where no b vanishes. Ranks of such rows are those of the integers, in exact arithmetic
(:func:`~covopt.oracles.vector.lattice_proof.prove_lattice`); the distance is paid for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from covopt.exact.rounding import UNIT, lengths_up

FINEST = 2.0**-20  # step, as a share of the column's range
NOISE = 64 * UNIT  # distance from a grid, relative to the column's largest entry, that rounding explains


class Grid(NamedTuple):
    """Integers that rows come from by a linear map that is one to one.

    Attributes
    ----------
    integers : ndarray of shape (n, r)
    moved : ndarray of shape (n,)
        No row is further than this from a multiple of what its integers are mapped to.
    """

    integers: np.ndarray
    moved: np.ndarray


def grid_of(rows: np.ndarray) -> Grid | None:
    """Return the grid that rows lie on but for rounding; None without one.

    Parameters
    ----------
    rows : ndarray of shape (n, r)
        Of full column rank. A last column without zeros is divided by: a bias.

    Examples
    --------
    >>> points = np.array([[0.0], [0.1], [0.4], [0.2]])
    >>> found = grid_of(np.column_stack([points / 3.0 + 0.7, np.ones(4)]))
    >>> found.integers[:, 0].tolist(), bool(found.moved.max() < 1e-14)
    ([0.0, 1.0, 4.0, 2.0], True)
    >>> grid_of(np.random.default_rng(0).standard_normal((9, 3))) is None
    True
    """
    last = rows[:, -1]
    is_affine = bool((last != 0.0).all())
    unit = last if is_affine else np.ones(len(rows))
    integers, moved = [], []
    with np.errstate(all="ignore"):
        columns = (rows / unit[:, None]).T
    for column in columns[:-1] if is_affine else columns:
        start = float(column.min()) if is_affine else 0.0
        step = _step(column - start, float(np.abs(column).max()))
        if step == 0.0:
            return None
        places = np.rint((column - start) / step)
        rounded = 4.0 * UNIT * (np.abs(column) + abs(start) + step * np.abs(places))
        integers.append(places)
        moved.append(np.abs(column - (start + step * places)) + rounded)
    if is_affine:
        integers.append(np.ones(len(rows)))
    return Grid(
        np.column_stack(integers), lengths_up(np.column_stack(moved)) * np.abs(unit) * (1.0 + 2.0**-40)
    )


def _step(offsets: np.ndarray, size: float) -> float:
    """Return what all offsets are multiples of to rounding, by Euclid's algorithm; zero without a divisor."""
    widest = float(np.abs(offsets).max())
    if not 0.0 < widest < np.inf:
        return 0.0
    least, step = FINEST * widest, widest
    for offset in np.unique(np.abs(offsets)):
        rest = float(offset)
        while rest > least:
            step, rest = rest, abs(step - rest * round(step / rest))
            if step < least:
                return 0.0
    step = widest / round(widest / step)
    far = np.abs(offsets - step * np.rint(offsets / step)).max()
    return step if far <= NOISE * size else 0.0
