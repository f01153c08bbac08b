r"""Doubles that have the sum they should have: with one input, a dual whose Λᵀx survives rounding.

Where all rows are active, Λᵀσ(X̃w) = (Λᵀ X̃) w. Far from the origin Λ is large and Λᵀx is what is left when nearly
everything has cancelled: rounding every Λ_i on its own leaves 2⁻⁵³ Σ|Λ_i||x_i|, which for seconds since 1970 is more
than the bound of one that it has to meet. So three entries are moved by whole units in the last place, in moves that
keep Λᵀ1: opposite ones on two rows change Λᵀx by a unit times the distance of the rows, and combined as in Euclid's
algorithm they make steps as fine as the differences of rows allow. Rows on a coarse grid (hours in nanoseconds) allow
none that is fine enough: there the sum is made zero, exactly, which costs next to nothing of the bound.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np

CLOSE = Fraction(1, 2**40)  # distance of the sum, relative to one, at which it is left alone
HARDLY = Fraction(1, 2**22)  # of a sum, by which it may be too large
ENOUGH = Fraction(1, 2)  # size of a sum that is wanted to be zero: bounds are of one
MOVES = (2**12, 2**16, 2**20, 2**24)  # units, the fewest first
UNLIKE = 2.0**20  # ratio of two neighbours' entries from which they are no pair
FEW = 6  # pairs that are moved
LARGEST = 2**24  # units by which an entry may be moved


def hold_moments(inputs: np.ndarray, dual: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Move a dual by units in the last place until Λᵀx is close to what is wanted.

    Parameters
    ----------
    inputs : ndarray of shape (N,)
    dual : ndarray of shape (N,) or (N, k)
    wanted : ndarray of shape (k,)
        Where a column's sum is not zero, rows on which it vanishes may be given next to nothing.

    Returns
    -------
    ndarray of the dual's shape
        Never further from what is wanted than the dual given. Columns of multiples of one power of two
        (:func:`covopt.certificates.conjugate.balanced`) keep their exact sums.

    Examples
    --------
    >>> seconds = 1.6e9 + 86400.0 * np.arange(4)
    >>> dual = np.array([1e4, -2e4, 1e4, 0.01]) / 3.0
    >>> goal = float(_sum(seconds, dual)) + 1e-5
    >>> moved = hold_moments(seconds, dual, np.array([goal]))
    >>> abs(float(_sum(seconds, moved) - Fraction(goal))) < 1e-8, bool(abs(moved - dual).max() < 1e-8)
    (True, True)
    """
    found = dual.reshape(len(dual), -1).copy()
    for column, goal in zip(found.T, np.ravel(wanted).tolist(), strict=True):
        _hold_by_neighbours(inputs, column, Fraction(goal))
        _hold(inputs, column, Fraction(goal))
        _cancel(inputs, column, Fraction(goal))
    return found.reshape(dual.shape)


def _sum(inputs: np.ndarray, column: np.ndarray) -> Fraction:
    """Return Σ λ_i x_i exactly."""
    terms = (Fraction(w) * Fraction(x) for w, x in zip(column.tolist(), inputs.tolist(), strict=True) if w)
    return sum(terms, Fraction(0))


def _hold_by_neighbours(inputs: np.ndarray, column: np.ndarray, goal: Fraction) -> None:
    """Move neighbours against each other, each pair by its own unit: what is between them hardly changes."""
    live, left = np.flatnonzero(column), goal - _sum(inputs, column)
    order = live[np.argsort(inputs[live], kind="stable")].tolist()
    found, before = [], abs(left)
    if before <= CLOSE:
        return
    is_balanced = not sum(map(Fraction, column.tolist()))
    idle = np.flatnonzero((column == 0.0) & (inputs != 0.0))
    if len(idle) and not is_balanced:  # next to nothing on a row that had nothing is fine enough
        column[idle[0]] = float(left / Fraction(float(inputs[idle[0]])))
        return
    for i, j in pairwise(order):
        sizes = sorted((abs(float(column[i])), abs(float(column[j]))))
        distance = Fraction(float(inputs[j])) - Fraction(float(inputs[i]))
        if distance and sizes[1] < UNLIKE * sizes[0]:
            unit = Fraction(float(np.spacing(sizes[1])))
            found.append((unit * distance, unit, i, j))
    found = sorted(found)[:FEW]
    if len(found) < FEW and not is_balanced:  # the sum of a few rows alone may change, too
        units = [Fraction(float(np.spacing(abs(column[j])))) for j in order[:FEW]]
        alone = zip(units, order, strict=False)
        found += [(unit * Fraction(float(inputs[j])), unit, j, j) for unit, j in alone if inputs[j]]
    moves = [(part[0], [int(j == k) for k in range(len(found))]) for j, part in enumerate(found)]
    allowed = max(2 * before, HARDLY / 2**12 * Fraction(float(np.abs(inputs).max())))
    best: tuple[Fraction, dict[int, Fraction]] = before, {}
    for largest in (1, 2**6, *MOVES[:-1]):
        rest, counts = left, [0] * len(found)
        for effect, move in _finer(moves, largest):
            times = round(rest / effect)
            counts = [count + times * m for count, m in zip(counts, move, strict=True)]
            rest -= times * effect
        moved: dict[int, Fraction] = {}
        for times, (_, unit, i, j) in zip(counts, found, strict=True):
            for row, sign in ((i, -1), (j, 1)) if i != j else ((j, 1),):
                moved[row] = moved.get(row, Fraction(float(column[row]))) + sign * times * unit
        between = max((abs(times * part[0]) for times, part in zip(counts, found, strict=True)), default=0)
        exact = all(Fraction(float(value)) == value for value in moved.values())
        if abs(rest) < best[0] and between <= allowed and exact:
            best = abs(rest), moved
    for row, value in best[1].items():
        column[row] = float(value)


def _hold(inputs: np.ndarray, column: np.ndarray, goal: Fraction) -> None:
    distance = abs(goal - _sum(inputs, column))
    live = np.flatnonzero(column)
    if distance <= CLOSE or len(live) < 2:
        return
    chosen = live[np.argsort(np.abs(column[live]), kind="stable")[:3]]  # the finest
    unit = Fraction(float(np.spacing(np.abs(column[chosen]).max())))
    kept = column[chosen]
    column[chosen] = np.rint(kept / float(unit)) * float(unit)
    missing = goal - _sum(inputs, column)
    x = [Fraction(value) for value in inputs[chosen].tolist()]
    move = [1, -1, 0][: len(chosen)]
    moves = [(unit * (x[0] - x[1]), move)]
    if len(chosen) == 3:
        moves.append((unit * (x[1] - x[2]), [0, 1, -1]))
        while moves[-1][0] != 0 and abs(moves[-1][0]) > CLOSE / 4:
            (coarse, first), (fine, second) = moves[-2:]
            times = round(coarse / fine)
            mixed = [a - times * b for a, b in zip(first, second, strict=True)]
            if max(map(abs, mixed)) > LARGEST:
                break
            moves.append((coarse - times * fine, mixed))
    shifts = [0] * len(chosen)
    left = missing
    for effect, units in sorted(moves, key=lambda pair: -abs(pair[0])):
        times = round(left / effect) if effect else 0
        times = max(-LARGEST, min(LARGEST, times))  # on a grid the differences of rows are nearly equal
        shifts = [a + times * b for a, b in zip(shifts, units, strict=True)]
        left -= times * effect
    for i, shift in zip(chosen.tolist(), shifts, strict=True):
        exact = Fraction(float(column[i])) + shift * unit
        column[i] = float(exact)
        if Fraction(float(column[i])) != exact:  # one bit too many
            column[chosen] = kept
            return
    if not abs(goal - _sum(inputs, column)) < distance:
        column[chosen] = kept


def _cancel(inputs: np.ndarray, column: np.ndarray, goal: Fraction) -> None:
    """Bring Σ λ_i x_i next to zero where it is too large for any bound, all λ multiples of one unit."""
    live, size = np.flatnonzero(column), abs(_sum(inputs, column))
    if len(live) < 3 or size <= max(ENOUGH, abs(goal) * (1 + HARDLY)):
        return
    unit = float(np.spacing(np.abs(column).max()))
    units = [int(count) for count in np.rint(column / unit)]
    chosen = live[np.argsort(np.abs(column[live]), kind="stable")[:3]].tolist()
    balanced = not sum(map(Fraction, column.tolist()))
    if balanced:  # and stays so
        units[chosen[0]] -= sum(units)
    x = [Fraction(value) for value in inputs.tolist()]
    missing = -sum((count * value for count, value in zip(units, x, strict=True)), Fraction(0))
    a, b, c = (x[i] for i in chosen)
    moves = [(a - b, [1, -1, 0]), (b - c, [0, 1, -1])]
    if not balanced:
        moves.insert(0, (a, [1, 0, 0]))
    for largest in MOVES:
        left, shifts = missing, [0, 0, 0]
        for effect, move in _finer([pair for pair in moves if pair[0]], largest):
            times = round(left / effect)
            shifts = [s + times * m for s, m in zip(shifts, move, strict=True)]
            left -= times * effect
        if abs(left) * Fraction(unit) <= ENOUGH:
            break
    else:
        return
    for i, shift in zip(chosen, shifts, strict=True):
        units[i] += shift
    if max(map(abs, units)) < 2**53:
        column[:] = np.array(units, dtype=float) * unit


def _finer(moves: list[tuple[Fraction, list[int]]], largest: int) -> list[tuple[Fraction, list[int]]]:
    """Return moves and what Euclid's algorithm makes of them, by their effects, the largest first."""
    found, pairs = list(moves), sorted(moves, key=lambda pair: -abs(pair[0]))
    while len(pairs) > 1:
        (coarse, first), (fine, second) = pairs[:2]
        times = round(coarse / fine)
        mixed = coarse - times * fine, [m - times * n for m, n in zip(first, second, strict=True)]
        pairs = pairs[1:]
        if mixed[0] and max(map(abs, mixed[1])) <= largest:
            found.append(mixed)
            pairs = sorted([*pairs, mixed], key=lambda pair: -abs(pair[0]))
    return sorted(found, key=lambda pair: -abs(pair[0]))
