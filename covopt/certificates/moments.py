r"""Doubles that have the sum they should have: with one input, a dual whose Λᵀx survives rounding.

Where all rows are active, Λᵀσ(X̃w) = (Λᵀ X̃) w. Far from the origin Λ is large and Λᵀx is what is left when nearly
everything has cancelled: rounding every Λ_i on its own leaves 2⁻⁵³ Σ|Λ_i||x_i|, which for seconds since 1970 is more
than the bound of one that it has to meet. So three entries are moved by whole units in the last place, in moves that
keep Λᵀ1: opposite ones on two rows change Λᵀx by a unit times the distance of the rows, and combined as in Euclid's
algorithm they make steps as fine as the differences of rows allow.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

CLOSE = Fraction(1, 2**40)  # distance of the sum, relative to one, at which it is left alone
LARGEST = 2**24  # units by which an entry may be moved


def hold_moments(inputs: np.ndarray, dual: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Move a dual by units in the last place until Λᵀx is close to what is wanted.

    Parameters
    ----------
    inputs : ndarray of shape (N,)
    dual : ndarray of shape (N,) or (N, k)
    wanted : ndarray of shape (k,)

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
        _hold(inputs, column, Fraction(goal))
    return found.reshape(dual.shape)


def _sum(inputs: np.ndarray, column: np.ndarray) -> Fraction:
    """Return Σ λ_i x_i exactly."""
    terms = (Fraction(w) * Fraction(x) for w, x in zip(column.tolist(), inputs.tolist(), strict=True) if w)
    return sum(terms, Fraction(0))


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
