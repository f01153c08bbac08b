r"""Doubles of a dual whose sum Λᵀ X̃ survives rounding where rows are far from the origin, in any number of inputs.

Where all rows are active F(w) = Λᵀ X̃ w, at most ‖Λᵀ X̃‖, while every other neuron hears of the middle v₀ of the rows
next to nothing (:mod:`covopt.exact.far_rows`). Rounding every Λ_i on its own leaves 2⁻⁵³ Σ|Λ_i||x_i| along v₀, for
nanoseconds since 1970 some thousand times the bound of one. So the finest entries of a dual are moved by whole units
in the last place, together: their effects on Λᵀ X̃ make a lattice, and one of its points next to what is to go is
taken (:mod:`covopt.exact.lattice`). What a unit does to other neurons is its product with a row's part across.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from covopt.exact.far_rows import FarRows
from covopt.exact.lattice import Lattice

TOGETHER = 10  # entries that are moved
MOST_ROWS = 2000  # of a dual that is looked at in fractions: a tenth of a second
BITS = 52  # of an entry
FINE = 64  # bits of numbers in the lattice
ENOUGH = Fraction(1, 2**24)  # size of a sum along the middle that is left alone
SHARP = 2**6  # parts of a unit's own effect that the sums are told apart by
HEAVY = 2**60  # weight of a sum that must stay


def hold_far_sums(rows: np.ndarray, dual: np.ndarray, *, keep_sums: bool = False) -> np.ndarray:
    """Return a dual with Λᵀ X̃ = 0 along the middle of the rows, nearly, and what it is across.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
    dual : ndarray of shape (N,) or (N, k)
        Zero on rows that are to stay out.
    keep_sums : bool
        Whether Λᵀ1 stays what it is to the last digit; entries of a column are multiples of one power of two then.

    Examples
    --------
    >>> rows = np.column_stack([1.6e18 + 3e12 * np.arange(6.0), np.arange(6.0) ** 2, np.ones(6)])
    >>> dual = np.array([10.0, -21.0, 12.0, -3.0, 4.0, -2.0]) / 3.0
    >>> found = hold_far_sums(rows, dual)
    >>> sums = [abs(sum(Fraction(a) * Fraction(b) for a, b in zip(part.tolist(), rows[:, 0].tolist())))
    ...         for part in (dual, found)]
    >>> sums[0] > 100, sums[1] < 1e-6, bool(np.abs(found - dual).max() < 1e-9)
    (True, True, True)
    """
    found = dual.reshape(len(dual), -1).copy()
    live = np.flatnonzero(found.any(axis=1) & rows.any(axis=1))
    far = FarRows.of(rows[live])
    if far is None or len(live) > MOST_ROWS:
        return dual
    turn = far.basis.copy()
    turn[:, 0] = np.ldexp(turn[:, 0], -math.frexp(float(np.abs(turn[:, 0]).max()))[1])  # of length one, about
    basis = [list(map(Fraction, column)) for column in turn.T.tolist()]
    places = [
        [sum((Fraction(a) * b for a, b in zip(row, column, strict=True)), Fraction(0)) for column in basis]
        for row in rows[live].tolist()
    ]
    for column in found.T:
        values = [Fraction(value) for value in column[live].tolist()]
        along = sum((w * place[0] for w, place in zip(values, places, strict=True)), Fraction(0))
        if abs(along) > ENOUGH:
            column[live] = _moved(values, places, along, keep_sums=keep_sums)
    return found.reshape(dual.shape)


def _moved(
    values: list[Fraction], places: list[list[Fraction]], along: Fraction, *, keep_sums: bool
) -> list[float]:
    """Return one column without its sum along the middle, as it was where its entries would not be doubles."""
    chosen = sorted((j for j in range(len(values)) if values[j]), key=lambda j: abs(values[j]))[:TOGETHER]
    top = max(map(abs, values)) if keep_sums else None
    units = [_unit(top or abs(values[j])) for j in chosen]
    vectors, count = [], len(chosen)
    for i, (j, unit) in enumerate(zip(chosen, units, strict=True)):
        size = max(map(abs, places[j][1:]), default=Fraction(0))
        sums = [round(unit * value * SHARP * 2**FINE) for value in places[j]]
        own = [max(1, round(unit * size * 2**FINE)) * (i == k) for k in range(count)]
        vectors.append([*sums, HEAVY * round(unit / min(units)) * keep_sums * 2**FINE, *own])
    goal = [-round(along * SHARP * 2**FINE)] + [0] * (len(places[0]) + count)
    near = Lattice(vectors).nearest(goal)[-count:]
    moved = list(values)
    for i, (j, unit) in enumerate(zip(chosen, units, strict=True)):
        moved[j] += near[i] // vectors[i][-count + i] * unit
    found = [float(value) for value in moved]
    exact = all(Fraction(a) == b for a, b in zip(found, moved, strict=True))
    return found if exact else [float(value) for value in values]


def _unit(value: Fraction) -> Fraction:
    return Fraction(2) ** (value.numerator.bit_length() - value.denominator.bit_length() - BITS)
