r"""The representation cost of a linear map, and its expansion in the depth.

The least cost of a linear network of depth L that computes x ↦ Ax is

.. math:: R_L(A) = \min_{W_L \cdots W_1 = A} \sum_\ell \|W_\ell\|_F^2 = L\,\|A\|_{2/L}^{2/L} = L \sum_i s_i(A)^{2/L}

(Schatten's quasi-norm; Dai, Karzand and Srebro 2021, RK23 §2.2). It is also a lower bound for every ReLU network with
Jacobian A at some x: R_L(f) ≥ L ‖Jf(x)‖^{2/L}_{2/L} (RK23 Prop 7). Expanding s^{2/L} = exp((2 log s)/L) in 1/L gives

.. math:: R_L(A) = L R^{(0)} + R^{(1)} + R^{(2)}/L + O(L^{-2}),\quad
    R^{(0)} = \mathrm{Rank} A,\; R^{(1)} = 2\log|A|_+,\; R^{(2)} = \tfrac12\|\log_+ A^TA\|_F^2

(BN23 Theorem 3, Proposition 4; |A|₊ is the product of the nonzero singular values).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from covopt.checks.validation import as_doubles, check_count, check_positive
from covopt.errors import InputError
from covopt.exact.definite import singular_values_between
from covopt.exact.rank import numerical_rank, of_given
from covopt.exact.rounding import down, up
from covopt.files.schema import shown


@dataclass(frozen=True)
class Expansion:
    """The expansion L R⁽⁰⁾ + R⁽¹⁾ + R⁽²⁾/L of a representation cost in the depth.

    Attributes
    ----------
    r0, r1, r2 : float
    """

    r0: float
    r1: float
    r2: float

    def at(self, depth: int) -> float:
        """Return the sum of the three terms at a depth.

        Parameters
        ----------
        depth : int
        """
        return depth * self.r0 + self.r1 + self.r2 / depth


def check_matrix(name: str, A: Any) -> np.ndarray:
    """Return a matrix of doubles, after checking that it is finite.

    Raises
    ------
    InputError
        If it is not two-dimensional, or has an entry that is not finite.
    """
    try:
        matrix = as_doubles(A)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a matrix of numbers; received {type(A).__name__}.") from error
    if matrix.ndim != 2:
        raise InputError(
            f"{name} must be a matrix, (outputs, inputs); received an array of shape {matrix.shape}."
        )
    bad = np.argwhere(~np.isfinite(matrix))
    if len(bad):
        i, j = (int(n) for n in bad[0])
        raise InputError(f"{name}[{i}, {j}] is {matrix[i, j]}; every entry must be finite.")
    return matrix


def check_depth(depth: Any, least: int = 2, most: float = math.inf) -> int:
    """Return the number of weight layers L, after checking it.

    Raises
    ------
    InputError
        If it is not an integer, below ``least`` or above ``most``.
    """
    L = check_count("depth", depth, least)
    if most < L:
        raise InputError(f"depth must be at most {most}; received {shown(L)}. Use a smaller depth.")
    return L


def schatten(A: Any, p: float) -> float:
    r"""Return :math:`\sum_i s_i(A)^p`, the p-th power of Schatten's (quasi-)norm.

    Singular values below max(m, n)·ε times the largest count as zero: for small p their rounding errors would
    contribute, (1e-16)^{1/5} = 6e-4.

    Parameters
    ----------
    A : array_like of shape (m, n)
    p : float
        Positive.

    Returns
    -------
    float

    Raises
    ------
    InputError
        If A is not a finite matrix or p is not positive.

    Examples
    --------
    >>> schatten([[4.0, 0.0], [0.0, 9.0]], 0.5)
    5.0
    """
    matrix, power = check_matrix("A", A), check_positive("p", p)
    values = _kept(matrix)
    return float((values**power).sum())


def schatten_between(A: Any, p: float) -> tuple[float, float]:
    r"""Return rigorous lower and upper bounds on :math:`\sum_i s_i(A)^p`, rounding errors included.

    Parameters
    ----------
    A : array_like of shape (m, n)
    p : float
        Positive.

    Returns
    -------
    low, high : float
        A singular value that may be zero within rounding counts as zero in ``low`` only, so for small p and a
        rank-deficient A the bounds are far apart.

    Examples
    --------
    >>> low, high = schatten_between([[4.0, 0.0], [0.0, 9.0]], 0.5)
    >>> low <= 5.0 <= high, high - low < 1e-12
    (True, True)
    """
    matrix, power = check_matrix("A", A), check_positive("p", p)
    low, high = singular_values_between(matrix)
    return power_sum(low, power, down), power_sum(high, power, up)


def power_sum(values: np.ndarray, power: float, outward: Any) -> float:
    """Return Σ v^p for v ≥ 0, moved outward by the rounding error of the powers and the sum.

    It is assumed that ``pow`` of the C library errs by less than four units in the last place; each addition by one.

    Parameters
    ----------
    values : ndarray
    power : float
    outward : callable
        :func:`covopt.exact.rounding.up` or ``down``.
    """
    terms = [value for value in values.tolist() if value > 0.0]
    if not terms:
        return 0.0
    try:
        total = math.fsum(value**power for value in terms)
    except OverflowError:
        total = math.inf
    for _ in range(6):
        total = outward(total)
    # powers that underflow have an absolute error, in units of the least double
    lost = 4.0 * len(terms) * math.ulp(0.0)
    return max(outward(total + lost if outward is up else total - lost), 0.0)


def linear_cost(A: Any, depth: int) -> float:
    r"""Return :math:`R_L(A) = L \sum_i s_i(A)^{2/L}`, the least squared norm of a linear network that computes A.

    Parameters
    ----------
    A : array_like of shape (d_out, d_in)
    depth : int
        L ≥ 1, the number of weight layers.

    Returns
    -------
    float

    Raises
    ------
    InputError
        If A is not a finite matrix or the depth is below one.

    Examples
    --------
    >>> linear_cost([[4.0, 0.0], [0.0, 9.0]], 2)
    26.0
    >>> linear_cost([[4.0, 0.0], [0.0, 9.0]], 4)
    20.0
    """
    L = check_depth(depth, 1)
    return L * schatten(A, 2.0 / L)


def linear_network(A: Any, depth: int) -> list[np.ndarray]:
    r"""Return W_1 … W_L of least squared norm with W_L ⋯ W_1 = A: balanced, :math:`s_i(W_\ell) = s_i(A)^{1/L}`.

    Parameters
    ----------
    A : array_like of shape (d_out, d_in)
    depth : int
        L ≥ 1.

    Returns
    -------
    list of ndarray
        The hidden widths are Rank A.

    Examples
    --------
    >>> layers = linear_network([[4.0, 0.0], [0.0, 9.0]], 4)
    >>> round(sum(float((w**2).sum()) for w in layers), 9)
    20.0
    """
    matrix, L = check_matrix("A", A), check_depth(depth, 1)
    if L == 1:
        return [matrix.copy()]
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    rank = max(1, len(_kept(matrix)))
    root = values[:rank] ** (1.0 / L)
    middle = [np.diag(root) for _ in range(L - 2)]
    return [root[:, None] * right[:rank], *middle, left[:, :rank] * root]


def linear_expansion(A: Any) -> Expansion:
    r"""Return R⁽⁰⁾, R⁽¹⁾, R⁽²⁾ of a linear map.

    They are also the coefficients of x ↦ Ax for ReLU networks on a domain Ω if the projection of Ω on Im Aᵀ and A Ω
    (for R⁽²⁾ also AᵖΩ, 0 < p < 1) are completely positive, that is, embed isometrically into an orthant
    (BN23 Thm 3 (3), Prop 4 (3)).

    Parameters
    ----------
    A : array_like of shape (d_out, d_in)

    Returns
    -------
    Expansion

    Examples
    --------
    >>> linear_expansion([[2.0, 0.0], [0.0, 0.5]])
    Expansion(r0=2.0, r1=0.0, r2=1.9218120556728056)
    """
    logs = np.log(_kept(check_matrix("A", A)))
    return Expansion(float(len(logs)), 2.0 * float(logs.sum()), 2.0 * float((logs**2).sum()))


def _kept(matrix: np.ndarray) -> np.ndarray:
    """Return the singular values that count as nonzero."""
    values = np.linalg.svd(matrix, compute_uv=False)
    return values[: numerical_rank(values, of_given(matrix.shape))] if values.size else values
