"""Multipliers of two doubles, Λ = high + low: for sums Λᵀ X̃ that cancel by more digits than one double has.

Where all rows are active, Λᵀσ(X̃w) = (Λᵀ X̃) w. Far from the origin Λ is large and Λᵀ X̃ is what is left when nearly
everything has cancelled: one double for every multiplier leaves 2⁻⁵³ Σ‖Λ_i‖‖x_i‖ of it, two leave 2⁻¹⁰⁶.
Nothing is believed of them: a certificate is about the exact sums, whatever they are.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np


def whole(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Return the sums as fractions, an array of objects.

    Examples
    --------
    >>> whole(np.array([1.0]), np.array([2.0**-60]))[0] - 1 == Fraction(1, 2**60)
    True
    """
    pairs = zip(np.ravel(high).tolist(), np.ravel(low).tolist(), strict=True)
    found = np.array([Fraction(a) + Fraction(b) for a, b in pairs] + [None], dtype=object)[:-1]
    return found.reshape(high.shape)


def rounded(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers (fractions, an array of objects) as two doubles each, rounded to nearest.

    Examples
    --------
    >>> high, low = rounded(np.array([Fraction(1, 3)], dtype=object))
    >>> abs(whole(high, low)[0] - Fraction(1, 3)) < Fraction(1, 2**106)
    True
    """
    high = values.astype(float)
    rest = [value - Fraction(near) for value, near in zip(values.ravel(), high.ravel().tolist(), strict=True)]
    return high, np.array(rest, dtype=float).reshape(high.shape)


def rounded_with_sums(values: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return :func:`rounded` multipliers with Λᵀ Z as it is: the two smallest make up for what all others lose.

    Parameters
    ----------
    values : ndarray of shape (N, k)
        Fractions.
    rows : ndarray of shape (N, 2)
        Z, of which no two are parallel.

    Examples
    --------
    >>> rows = np.column_stack([1.6e18 + np.array([0.0, 256.0, 1e17, 2e17]), np.ones(4)])
    >>> values = np.array([[Fraction(a, b)] for a, b in [(2**60, 3), (-(2**60), 7), (1, 3), (1, 7)]], dtype=object)
    >>> found = sum(whole(*rounded_with_sums(values, rows))[:, 0] * [Fraction(x) for x in rows[:, 0].tolist()])
    >>> wanted = sum(values[:, 0] * [Fraction(x) for x in rows[:, 0].tolist()])
    >>> abs(float(found - wanted)) < 1e-9
    True
    """
    z, goal = whole(rows, np.zeros_like(rows)), values.copy()
    for column in goal.T:
        live = np.flatnonzero(column != 0)
        if len(live) > 1:
            i, j = live[np.argsort(np.abs(column[live]).astype(float), kind="stable")[:2]]
            lost = (column - whole(*rounded(column))) @ z
            cross = z[i, 0] * z[j, 1] - z[i, 1] * z[j, 0]
            column[i] += (lost[0] * z[j, 1] - lost[1] * z[j, 0]) / cross
            column[j] += (lost[1] * z[i, 0] - lost[0] * z[i, 1]) / cross
    return rounded(goal)
