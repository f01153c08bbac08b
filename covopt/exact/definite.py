r"""Rigorous bounds from computed factorisations: eigenvalues and singular values with their rounding errors.

A sixth fact is added to the five of :mod:`covopt.exact.rounding`. If Cholesky's factorisation of a symmetric A
succeeds, it is that of A + E with \|E_ij| ≤ γ(n + 2)√(b_i b_j), b_i = a_ii/(1 − γ(n + 2)), in whatever order its
sums are formed (Higham, Theorem 10.3; a product by a reciprocal for a division costs one rounding more). So A + δI is
positive semidefinite with δ = γ(n + 2)/(1 − γ(n + 2)) tr A (Rump, Verification of positive definiteness, 2006).

Singular values are enclosed from LAPACK's A ≈ U S Vᵀ (:func:`singular_values_between`). With E = A − U S Vᵀ and
α(Q) = ‖QᵀQ − I‖₂, both bounded a posteriori,

.. math::
    s_i \sqrt{(1 - \alpha(U))_+ (1 - \alpha(V))_+} - \|E\|
        \le s_i(A) \le s_i \sqrt{(1 + \alpha(U)) (1 + \alpha(V))} + \|E\|:

Weyl's inequality for the sum, and s_i(BCD) between s_i(C) times the extreme singular values of B and D.
"""

from __future__ import annotations

import math

import numpy as np

from covopt.exact.rounding import TINY, UNIT, allowance, down, gamma, lengths_up, scaled_up, up

ROOM = 1.0 + 2.0**-20  # exceeds the relative error of a few sums and products of nonnegative numbers


def product_error_up(first: np.ndarray, second: np.ndarray) -> float:
    """Bound ‖fl(AᵀB) − AᵀB‖₂ from above: fact 2 entry by entry, and the Frobenius norm.

    Examples
    --------
    >>> product_error_up(np.eye(3), np.eye(3)) < 1e-13
    True
    """
    return allowance(len(first) + 2, float(np.linalg.norm(np.abs(first).T @ np.abs(second))))


def definite_up(matrix: np.ndarray) -> float:
    """Return a δ ≥ 0 such that A + δI is positive semidefinite, in exact arithmetic.

    With s on the diagonal, b_i = fl(a_ii + s) off by u b_i, fact 6 gives δ = s + γ' tr B + u max b; s grows until the
    factorisation runs through. Entries are below one after a power of two, so n is always enough.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        A, finite; its lower triangle is read.

    Examples
    --------
    >>> definite_up(np.eye(2)) < 1e-14, 1.0 <= definite_up(-np.eye(2)) < 4.0
    (True, True)
    """
    n, size = len(matrix), float(np.abs(matrix).max(initial=0.0))
    if size == 0.0:
        return 0.0
    power = math.frexp(size)[1]
    scaled = np.ldexp(matrix, -power)
    diagonal = np.diag(scaled).copy()
    share = gamma(2 * n + 8)
    shift = up(share * float(np.abs(diagonal).sum()))
    while shift < n:
        moved = diagonal + shift
        np.fill_diagonal(scaled, moved)
        try:
            np.linalg.cholesky(scaled)
        except np.linalg.LinAlgError:
            np.fill_diagonal(scaled, diagonal)
            shift = 4.0 * shift + share
            continue
        paid = allowance(n, float(np.abs(moved).sum())) + 4 * UNIT * float(np.abs(moved).max()) + n * n * TINY
        return scaled_up(up(up(shift) + up(paid)), power)
    return scaled_up(float(n), power)


def top_eigenvalue_up(matrix: np.ndarray, top: float) -> float:
    """Bound the largest eigenvalue of a symmetric matrix from above: ν + δ, where ν − A + δ is definite.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
    top : float
        ν, an approximation.

    Examples
    --------
    >>> 2.0 <= top_eigenvalue_up(np.diag([1.0, 2.0]), 2.0) < 2.0 + 1e-13
    True
    """
    below_top = np.negative(matrix)
    np.fill_diagonal(below_top, top - np.diag(matrix))
    rounded = 2 * UNIT * float(np.abs(np.diag(below_top)).max())
    return up(up(top + definite_up(below_top)) + rounded)


def spectrum_error_up(
    matrices: np.ndarray, values: np.ndarray, vectors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""Bound the errors of computed eigenvalues and eigenvectors by their residuals.

    Let τ = \|VᵀV − I\| and let Q be the orthogonal polar factor of V, so that \|V − Q\| ≤ τ. Then

    .. math::
        \|A - Q \Lambda Q^T\| \le \|A V - V \Lambda\| + \tau (\|A\| + |\Lambda|) =: \delta,

    and the k-th eigenvalue of A is within δ of the k-th of Λ (Weyl). Where λ − λ' > 8δ is the distance of the top one
    to the others, its eigenvector is off by at most 2δ/(λ − λ') + τ (Davis and Kahan). Norms are Frobenius'; the
    rounding of the products is added (fact 2).

    Parameters
    ----------
    matrices, vectors : ndarray of shape (..., n, n)
        A, symmetric, and V.
    values : ndarray of shape (..., n)
        Λ.

    Returns
    -------
    delta, turn : ndarray of shape (...)
        δ and τ; infinite where τ is not below one.

    Examples
    --------
    >>> matrix = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> delta, turn = spectrum_error_up(matrix, *np.linalg.eigh(matrix))
    >>> bool(0.0 < delta < 1e-13), bool(0.0 < turn < 1e-13)
    (True, True)
    """
    n = matrices.shape[-1]
    size = np.linalg.norm(matrices, axis=(-2, -1)) + np.linalg.norm(values, axis=-1)
    gram = np.swapaxes(vectors, -1, -2) @ vectors - np.eye(n)
    share = gamma(n + 8)
    turn = np.linalg.norm(gram, axis=(-2, -1)) * ROOM + 2.0 * (n + 1.0) * share
    rest = np.linalg.norm(matrices @ vectors - vectors * values[..., None, :], axis=(-2, -1)) * ROOM
    delta = rest + (2.0 * np.sqrt(n) * share + turn) * size * ROOM + TINY
    lost = ~(turn < 1.0)  # the entries of V have squares of at most 2n in all
    return np.where(lost, np.inf, delta), np.where(lost, np.inf, turn)


def quadratic_up(matrix: np.ndarray, linear: np.ndarray, level: float, height: float) -> float:
    """Bound wᵀMw + b·w over unit w from above, near ν + t where [[ν − M, −b/2], [−bᵀ/2, t]] is nearly definite.

    The block matrix plus δ, at (w, 1), says ν − wᵀMw − b·w + t + 2δ ≥ 0.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        M, symmetric.
    linear : ndarray of shape (n,)
        b.
    level, height : float
        ν and t; best is t = ¼ bᵀ(ν − M)⁻¹b.

    Examples
    --------
    >>> 2.0 <= quadratic_up(np.zeros((1, 1)), np.array([2.0]), 1.0, 1.0) < 2.0 + 1e-13
    True
    """
    n = len(matrix)
    block = np.zeros((n + 1, n + 1))
    block[:n, :n] = -matrix
    block[n, :n] = -0.5 * linear
    np.fill_diagonal(block, np.append(level - np.diag(matrix), height))
    rounded = 4 * UNIT * float(np.abs(np.diag(block)).max())
    return up(up(up(level + height) + 2.0 * definite_up(block)) + rounded)


def descent_share(n: int, r: int) -> float:
    r"""Return the g that rounds a bound by a triangular factor and a combination of rows upwards.

    F(w) ≤ wᵀQw + b·w + k over unit w with Q = Σ f_i z_i z_iᵀ, b = Σ c_i z_i, for the doubles f, c, z, k. Computed are
    L, Cholesky's factor of ν − Q; x_i, the solutions of L x_i = z_i; and y = Σ c_i x_i. Then in exact arithmetic

    .. math::
        F(w) \le \nu + \tfrac14 |y|^2 + k + |E| + |e|, \qquad E = \nu - Q - L L^T, \quad e = b - L y,

    since b·w = y·Lᵀw + e·w and y·v − \|v\|² ≤ ¼\|y\|². The errors: \|E\| ≤ γ(n + r + 2)(ν + tr Q + tr LLᵀ) by fact 6
    and the sums that made Q, where tr LLᵀ ≤ rν(1 + γ); \|e\| ≤ γ(n + 2r + 2) \|L\|_F Σ\|c_i\|\|x_i\| by substitution
    (Higham, Theorem 8.5) and the sum of y, with \|L\|_F ≤ √(rν)(1 + γ). Without L (Q = 0, ν = 0) the error of b is
    γ(n + 2) Σ\|c_i\|\|z_i\|. The caller adds g times

    .. math::
        (r + 1) \nu + \operatorname{tr} Q + \sqrt{r \nu} \sum_i |c_i| |x_i| + \tfrac14 |y|^2 + |k|,

    with γ of four times the roundings, which covers those of this sum.

    Examples
    --------
    >>> descent_share(20, 5) < 2e-13
    True
    """
    return gamma(4 * (n + 2 * r + 16))


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
    error = np.abs(scaled - (left * values) @ right)
    error += gamma(2 * count + 10) * (np.abs(scaled) + (np.abs(left) * values) @ np.abs(right))
    miss = float(lengths_up(error.reshape(1, -1))[0])
    spread = [_defect_up(left), _defect_up(right.T)]
    shrink = down(math.sqrt(down(max(0.0, down(1.0 - spread[0])) * max(0.0, down(1.0 - spread[1])))))
    stretch = up(math.sqrt(up(up(1.0 + spread[0]) * up(1.0 + spread[1]))))
    low = np.array([max(0.0, down(down(s * max(shrink, 0.0)) - miss)) for s in values.tolist()])
    high = np.array([up(up(s * stretch) + miss) for s in values.tolist()])
    # powers of two are exact except for underflow, which moving to the neighbours covers
    low, high = np.ldexp(low, power), np.ldexp(high, power)
    return np.where(low > 0.0, np.maximum(0.0, np.nextafter(low, -np.inf)), 0.0), np.nextafter(high, np.inf)


def _defect_up(basis: np.ndarray) -> float:
    """Bound ‖QᵀQ − I‖₂ from above by its Frobenius norm."""
    size = np.abs(basis)
    gram = np.abs(basis.T @ basis - np.eye(basis.shape[1]))
    gram = gram + gamma(len(basis) + 3) * (size.T @ size + np.eye(basis.shape[1]))
    return float(lengths_up(gram.reshape(1, -1))[0])
