r"""Singular values between two doubles.

LAPACK's A ≈ U S Vᵀ is not believed. With E = A − U S Vᵀ and α(Q) = ‖QᵀQ − I‖₂, both bounded after the fact,

.. math::
    s_i \sqrt{(1 - \alpha(U))_+ (1 - \alpha(V))_+} - \|E\|
        \le s_i(A) \le s_i \sqrt{(1 + \alpha(U)) (1 + \alpha(V))} + \|E\|:

Weyl's inequality for the sum, and s_i(BCD) between s_i(C) times the extreme singular values of B and D.
"""

from __future__ import annotations

import math

import numpy as np

from covopt.exact.rounding import TINY, UNIT, allowance, down, gamma, up


def singular_values_between(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Enclose the singular values of a matrix.

    Parameters
    ----------
    matrix : ndarray of shape (m, n)
        Finite.

    Returns
    -------
    low, high : ndarray of shape (min(m, n),)
        low[i] ≤ s_i(A) ≤ high[i], falling; low is zero where rounding hides the sign.

    Examples
    --------
    >>> low, high = singular_values_between(np.array([[3.0, 0.0], [0.0, 0.0]]))
    >>> bool(low[0] <= 3.0 <= high[0]), float(low[1]), bool(high[1] < 1e-12)
    (True, 0.0, True)
    """
    rows, columns = matrix.shape
    count = min(rows, columns)
    if count == 0 or not np.any(matrix):
        return np.zeros(count), np.zeros(count)
    power = int(np.frexp(np.abs(matrix).max())[1])
    scaled = np.ldexp(matrix, -power)
    left, values, right = np.linalg.svd(scaled, full_matrices=False)
    miss = _miss_up(scaled, left, values, right)
    spread = [_defect_up(left), _defect_up(right.T)]
    shrink = down(math.sqrt(down(max(0.0, down(1.0 - spread[0])) * max(0.0, down(1.0 - spread[1])))))
    stretch = up(math.sqrt(up(up(1.0 + spread[0]) * up(1.0 + spread[1]))))
    low = np.array([max(0.0, down(down(s * max(shrink, 0.0)) - miss)) for s in values.tolist()])
    high = np.array([up(up(s * stretch) + miss) for s in values.tolist()])
    # powers of two are exact but for underflow, which the neighbours pay
    low, high = np.ldexp(low, power), np.ldexp(high, power)
    return np.where(low > 0.0, np.maximum(0.0, np.nextafter(low, -np.inf)), 0.0), np.nextafter(high, np.inf)


def _defect_up(basis: np.ndarray) -> float:
    """Bound ‖QᵀQ − I‖₂ from above by its Frobenius norm."""
    size = np.abs(basis)
    gram = np.abs(basis.T @ basis - np.eye(basis.shape[1]))
    gram = gram + gamma(len(basis) + 3) * (size.T @ size + np.eye(basis.shape[1]))
    return _frobenius_up(gram)


def _miss_up(matrix: np.ndarray, left: np.ndarray, values: np.ndarray, right: np.ndarray) -> float:
    """Bound ‖A − U S Vᵀ‖₂ from above by its Frobenius norm."""
    error = np.abs(matrix - (left * values) @ right)
    size = np.abs(matrix) + (np.abs(left) * values) @ np.abs(right)
    return _frobenius_up(error + gamma(2 * len(values) + 10) * size)


def _frobenius_up(matrix: np.ndarray) -> float:
    """Bound the Frobenius norm of a matrix whose entries are not negative."""
    total = float((matrix * matrix).sum())
    return up(
        math.sqrt(up(total + allowance(matrix.size + 2, total) + matrix.size * TINY)) * (1.0 + 4.0 * UNIT)
    )
