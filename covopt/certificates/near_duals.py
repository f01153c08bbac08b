r"""Doubles for a dual of one input that a solver knows by what it does: the ends of its arcs, Λᵀx and Λᵀ1.

With rows (x_i, β) by size, F(r_j) = Σ_{i>j} Λ_i β (x_i − x_j)/|z_j| at the neuron that turns active at row j, and
where all rows are active F(w) = q·w, q = (Λᵀx, βΛᵀ1). These are as many numbers as rows, linear in Λ. Rounding every
Λ_i on its own changes q by 2⁻⁵³ Σ|Λ_i||x_i|, which for stamps in nanoseconds is 10⁹ times what q may be. So up to
``WINDOW`` neighbours are rounded together: their whole multiples of a unit in the last place make a lattice in the
space of those numbers, and one of its points close to what is wanted is taken (:mod:`covopt.exact.lattice`). The rows
beside them are rounded in windows of their own, from both ends, each making up for what the ones before have left.

Only the direction of a dual counts: lengths may be given up (``STRETCH``), which with two or three rows is what
leaves room. And far from the origin Λᵀx hardly counts for the value: zero is tried as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np

from covopt.exact.lattice import Lattice
from covopt.oracles.arcs import arc_gauge

WINDOW = 8  # rows that are rounded together
BITS = (52, 53)  # of the entries: one less than doubles have, or all of them
LEAST = 2.0**-40  # share of the largest entry that gives the unit of smaller ones
FINE = 96  # bits of the numbers in which a lattice is written
HEAVY = 2**80  # weight of a sum that has to be zero
STRETCH = (0, 10, 30)  # bits of length that may be given up
ENOUGH = 1e-8  # of the value, that may be lost
ROOM = Fraction(1, 2**26)  # between the dual and its constraint: lengths do not count


class Wanted:
    """What one column of a dual does: exact sums S_j = Σ_{i>j} Λ_i (x_i − x_j), Λᵀx and Λᵀ1, and the Λ that has them.

    Parameters
    ----------
    x : list of Fraction
        Rising.
    bias : Fraction
    heights : list of float
        F(r_j).
    moments : tuple of float
        q.
    is_free : bool
        Whether Λᵀ1 = 0.
    flat : bool
        Whether Λᵀx = 0.
    """

    def __init__(
        self,
        x: list[Fraction],
        bias: Fraction,
        heights: list[float],
        moments: tuple[float, float],
        *,
        is_free: bool,
        flat: bool,
    ):
        n = len(x)
        self.x, self.bias = x, bias
        self.lengths = [Fraction(math.hypot(float(value), float(bias))) for value in x]
        self.along = Fraction(0) if flat else Fraction(moments[0])
        self.total = Fraction(0) if is_free else Fraction(moments[1]) / bias
        sums = [Fraction(h) * length / bias for h, length in zip(heights, self.lengths, strict=True)]
        sums[0], sums[-1] = self.along - x[0] * self.total, Fraction(0)
        after = [
            self.total,
            *((sums[j] - sums[j + 1]) / (x[j + 1] - x[j]) for j in range(n - 1)),
            Fraction(0),
        ]
        self.dual = [after[j] - after[j + 1] for j in range(n)]


def near_dual(
    inputs: np.ndarray,
    bias: float,
    targets: np.ndarray,
    heights: np.ndarray,
    moments: np.ndarray,
    given: np.ndarray,
    *,
    is_free: bool,
) -> np.ndarray:
    """Return doubles near the dual that a solver knows; those given where they lose nothing, or none are better.

    Parameters
    ----------
    inputs : ndarray of shape (N,)
        Distinct.
    bias : float
        β > 0.
    targets : ndarray of shape (N, k)
    heights : ndarray of shape (N, k)
        F(r_i) for each row.
    moments : ndarray of shape (2, k)
        (Λᵀx, βΛᵀ1).
    given : ndarray of shape (N, k)
        Doubles to be compared with.
    is_free : bool
        Whether Λᵀ1 = 0 must hold to the last digit.

    Examples
    --------
    >>> x = 1.6e18 + np.array([0.0, 1e9])  # two stamps, a second apart
    >>> kinks, line = np.array([[1.0], [0.0]]), np.array([[0.0], [-1.0]])
    >>> found = near_dual(x, 1.0, np.array([[0.0], [1.0]]), kinks, line, np.zeros((2, 1)), is_free=False)
    >>> sum(Fraction(a) * Fraction(b) for a, b in zip(found[:, 0].tolist(), x.tolist()))
    Fraction(0, 1)
    """
    order = np.argsort(inputs, kind="stable")
    rows = np.column_stack([inputs[order], np.full(len(inputs), bias)])
    x, y = [Fraction(value) for value in rows[:, 0].tolist()], targets[order]
    best, most = given, _value(rows, y, given[order], is_free=is_free)
    ideal = _ideal(x, Fraction(bias), y, heights[order], moments, is_free=is_free)
    lengths = STRETCH if len(x) <= WINDOW else STRETCH[:1]
    for bits, flat, stretch in product(BITS, (False, True), lengths):
        if most >= ideal * (1 - Fraction(ENOUGH)):
            break
        columns = []
        for f, q in zip(heights[order].T.tolist(), moments.T.tolist(), strict=True):
            wanted = Wanted(x, Fraction(bias), f, (q[0], q[1]), is_free=is_free, flat=flat)
            columns.append(_rounded(wanted, stretch, bits, is_free=is_free))
        if any(column is None for column in columns):
            continue
        found = np.array(columns, dtype=float).T
        value = _value(rows, y, found, is_free=is_free)
        if value > most:
            above = math.frexp(arc_gauge(rows, found))
            found = np.ldexp(found, -above[1] + (above[0] == 0.5) if above[0] * 2.0 ** above[1] > 1.0 else 0)
            most, best = value, np.empty_like(found)
            best[order] = found
    return best


def _ideal(
    x: list[Fraction],
    bias: Fraction,
    y: np.ndarray,
    heights: np.ndarray,
    moments: np.ndarray,
    *,
    is_free: bool,
) -> Fraction:
    """Return ⟨Λ, Y⟩ of the dual as it is known."""
    found = Fraction(0)
    for f, q, column in zip(heights.T.tolist(), moments.T.tolist(), y.T.tolist(), strict=True):
        wanted = Wanted(x, bias, f, (q[0], q[1]), is_free=is_free, flat=False)
        found += sum((w * Fraction(v) for w, v in zip(wanted.dual, column, strict=True)), Fraction(0))
    return abs(found)


def _value(rows: np.ndarray, y: np.ndarray, dual: np.ndarray, *, is_free: bool) -> Fraction:
    """Return |⟨Λ, Y⟩| / h(Λ), zero where Λᵀ1 = 0 is missed."""
    if is_free and any(sum(map(Fraction, column)) for column in dual.T.tolist()):
        return Fraction(0)
    gauge = arc_gauge(rows, dual)
    if not 0.0 < gauge < math.inf:
        return Fraction(0)
    pairs = zip(dual.ravel().tolist(), y.ravel().tolist(), strict=True)
    return abs(sum((Fraction(a) * Fraction(b) for a, b in pairs), Fraction(0))) / Fraction(gauge)


def _rounded(wanted: Wanted, stretch: int, bits: int, *, is_free: bool) -> list[float] | None:
    """Round one column, or None where its entries would not be doubles."""
    n = len(wanted.x)
    goal = [(1 - ROOM) * value for value in wanted.dual]
    most = max(map(abs, goal))
    if not most:
        return [0.0] * n
    least = most * Fraction(LEAST)
    units = [_unit(max(abs(value), least), bits) for value in goal]
    first = min(_windows(goal, n), default=(Fraction(0), 0))[1]
    last = min(first + WINDOW, n)
    if is_free:  # sums of the others are multiples of what is in the window
        units = [max(unit, min(units[first:last])) for unit in units]
    dual = list(goal)
    for rows, towards in ((range(n - 1, last - 1, -1), -1), (range(first), 1)):
        for start in range(0, len(rows), WINDOW):
            _one_sided(wanted, goal, dual, units, rows[: start + WINDOW], start, towards)
    window = range(first, last)
    for i in window:
        dual[i] = _to_unit(goal[i], units[i])
    missed = [a - b for a, b in zip(goal, dual, strict=True)]
    for i, step in zip(
        window, _together(wanted, missed, units, window, stretch, is_free=is_free), strict=True
    ):
        dual[i] += step * units[i]
    found = [float(value) for value in dual]
    return found if all(Fraction(a) == b for a, b in zip(found, dual, strict=True)) else None


def _one_sided(
    wanted: Wanted, goal: list[Fraction], dual: list[Fraction], units: list[Fraction], rows: range, start: int,
    towards: int,
) -> None:  # fmt: skip
    """Round the rows of an end from ``start`` on: what is active on that side alone hears of no others."""
    x, lengths = wanted.x, wanted.lengths
    own = rows[start:]

    def says(row: int, weight: Fraction) -> list[Fraction]:
        kinks = [(x[i + towards], lengths[i + towards]) for i in own]
        return [weight * max(towards * (kink - x[row]), Fraction(0)) / length for kink, length in kinks]

    for i in own:
        dual[i] = _to_unit(goal[i], units[i])
    missed = [says(i, goal[i] - dual[i]) for i in rows if goal[i] != dual[i]]
    vectors = [says(i, units[i]) for i in own]
    for i, step in zip(
        own, _multiples(vectors, [sum(part) for part in zip(*missed, strict=True)]), strict=True
    ):
        dual[i] += step * units[i]


def _multiples(vectors: list[list[Fraction]], goal: list[Fraction]) -> list[int]:
    """Return whole multiples of vectors whose sum is close to a goal."""
    count = len(vectors)
    whole = [
        [round(value * 2**FINE) for value in vector] + [int(i == j) for j in range(count)]
        for i, vector in enumerate(vectors)
    ]
    goal = goal or [Fraction(0)] * len(vectors[0])
    return Lattice(whole).nearest([round(value * 2**FINE) for value in goal] + [0] * count)[-count:]


def _windows(goal: list[Fraction], n: int) -> Iterator[tuple[Fraction, int]]:
    """Yield the largest entry and the first row of every window."""
    for first in range(max(1, n - WINDOW + 1)):
        yield max(map(abs, goal[first : first + WINDOW])), first


def _unit(value: Fraction, bits: int) -> Fraction:
    """Return the power of two of which a number is less than 2**bits, and at least half as many."""
    power = value.numerator.bit_length() - value.denominator.bit_length()
    return Fraction(2) ** (power + (value >= Fraction(2) ** power) - bits)


def _to_unit(value: Fraction, unit: Fraction) -> Fraction:
    return round(value / unit) * unit


def _together(
    wanted: Wanted,
    missed: list[Fraction],
    units: list[Fraction],
    window: range,
    stretch: int,
    *,
    is_free: bool,
) -> list[int]:
    """Return whole multiples of the units of a window that make up for what is missed, as nearly as they can."""
    x, last = wanted.x, window[-1]

    def says(weights: list[Fraction]) -> list[Fraction]:
        found = []
        for j in window[1:-1]:
            total = sum((weights[i] * (x[i] - x[j]) for i in range(j + 1, len(x)) if weights[i]), Fraction(0))
            found.append(total * wanted.bias / wanted.lengths[j])
        along = sum((w * value for w, value in zip(weights, x, strict=True) if w), Fraction(0))
        if wanted.along == 0:
            along *= HEAVY
        return [*found, along, sum(weights, Fraction(0)) * wanted.bias * (HEAVY * HEAVY if is_free else 1)]

    vectors = []
    for i in window:
        alone = [Fraction(0)] * len(x)
        alone[i] = units[i]
        vectors.append(says(alone))
    rest = says(missed)
    if stretch:
        way = says(wanted.dual if last < len(x) else missed)
        p = max(range(len(way)), key=lambda i: abs(way[i]))
        if way[p]:
            for vector in (*vectors, rest):
                share = vector[p] / way[p]
                for i in range(len(way)):
                    vector[i] = vector[i] - share * way[i] if i != p else vector[p] / 2**stretch
    return _multiples(vectors, rest)
