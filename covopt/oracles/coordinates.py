r"""Coordinates in which rows are few, narrow and of size one, and the price of every rounding on the way there.

For boxes (:func:`transfer`): for ‖w‖ ≤ 1 put u = Vᵀw. Row i of the raw table is replaced,
|λ_i| x_i ≈ V f_i y_{g(i)}: V has r ≤ D nearly
orthonormal columns, rows on one line share a y and have a factor f_i each, negative on the opposite ray. σ is
1-Lipschitz, so with s_i = sign λ_i

.. math::
    \Bigl| \sum_i \lambda_i \sigma(x_i \cdot w) - \sum_i s_i \sigma(f_i\, y_{g(i)} \cdot u) \Bigr|
    \le \sum_i \bigl\lVert\, |\lambda_i| x_i - V f_i y_{g(i)} \bigr\rVert .

On one line, σ(ft) = fσ(t) for f > 0 and |f|(σ(t) − t) for f < 0: with P the sum of s_i|f_i| over the line and M the
part of it with f_i < 0, the line is Pσ(y·u) − M y·u. G(u) = linear·u + Σ_g signs_g σ(y_g·u) therefore differs by at
most ‖u‖ (Σ_g |P_g − signs_g| ‖y_g‖ + ‖linear + Σ_g M_g y_g‖), where ‖u‖ ≤ ‖V‖. Both sums, computed with error-free
products and rounded up, are the ``residual``, and

.. math:: h(\lambda) \le 2^{e} (\lVert V \rVert \max_{\lVert u \rVert \le 1} |G(u)| + \text{residual}).

Dropped directions, rounded rows, rows nearly on one line: all of it is in this sum, so the choices may be careless.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import fsum, inf

import numpy as np

from covopt.exact.parallel_rows import merge_lines
from covopt.exact.rank import numerical_rank, of_given, row_span
from covopt.exact.rounding import EPS, exponents, two_product, two_sum

NEGLIGIBLE = 2.0**-200  # rows below this times the largest are dropped
NOISE = 8 * EPS  # directions that cost less than this of Σ|λ_i|‖x_i‖ are dropped


@dataclass(frozen=True)
class Transfer:
    """The scalar function G on R^r that stands for F on R^D.

    Attributes
    ----------
    V : ndarray of shape (D, r)
    y : ndarray of shape (n, r)
    signs : ndarray of shape (n,), int8
        1, −1, or 0 for a line whose rows cancel.
    linear : ndarray of shape (r,)
    group : ndarray of shape (N,)
        g(i), and −1 for rows that are left out: the residual then has all of |λ_i|‖x_i‖, which mostly is 0.
    factor : ndarray of shape (N,)
        f_i; 1.0 for rows on a line of their own.
    exponent : int
        e: everything here is in units of 2^e.
    norm : float
        Upper bound on ‖V‖₂.
    residual : float
        Upper bound on what the replacement changes F by, for ‖w‖ ≤ 1.
    """

    V: np.ndarray
    y: np.ndarray
    signs: np.ndarray
    linear: np.ndarray
    group: np.ndarray
    factor: np.ndarray
    exponent: int
    norm: float
    residual: float

    def lift(self, bound: float) -> float:
        """Bound on h(λ) in the user's units, rounded up, when |G(u)| ≤ bound·‖u‖."""
        total = Fraction(bound) * Fraction(self.norm) + Fraction(self.residual)
        return round_up(total * Fraction(2) ** self.exponent)


def round_up(value: Fraction) -> float:
    """Smallest double that is not below ``value``."""
    try:
        nearest = float(value)
    except OverflowError:
        return inf
    return nearest if Fraction(nearest) >= value else float(np.nextafter(nearest, inf))


def transfer(rows: np.ndarray, dual: np.ndarray) -> Transfer:
    r"""Choose V, y and the lines, and bound what they cost.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        The rows as given, of any scale.
    dual : ndarray of shape (N,)

    Examples
    --------
    >>> import numpy as np
    >>> made = transfer(np.array([[1.0, 2.0], [2.0, 4.0], [0.0, 1.0]]), np.array([1.0, -0.25, 3.0]))
    >>> made.y.shape, made.group, made.signs
    ((2, 2), array([0, 0, 1]), array([1, 1], dtype=int8))
    >>> made.residual < 1e-14
    True
    """
    rows = np.asarray(rows, dtype=float)
    dual = np.asarray(dual, dtype=float)
    n, d = rows.shape
    live = np.flatnonzero((dual != 0.0) & (rows != 0.0).any(axis=1))
    group, factor = np.full(n, -1), np.ones(n)
    if len(live) == 0:
        V, y, signs, linear = np.zeros((d, 0)), np.zeros((0, 0)), np.zeros(0, np.int8), np.zeros(0)
        return Transfer(V, y, signs, linear, group, factor, 0, 1.0, 0.0)

    high, low, exponent = _products(rows[live], dual[live])
    counts = np.abs(high).max(axis=1) > NEGLIGIBLE
    dropped = fsum(np.abs(high[~counts]).sum(axis=1).tolist()) * (1 + (d + 4) * EPS)
    live, high, low = live[counts], high[counts], low[counts]
    V = _basis(high)
    y = high @ V
    own = merge_lines(rows[live])[1]
    first = np.unique(own, return_index=True)[1][own]
    squares = np.einsum("ij,ij->i", y, y)[first]
    f = np.einsum("ij,ij->i", y, y[first]) / np.where(squares > 0.0, squares, 1.0)
    f[first] = 1.0
    s = np.sign(dual[live])
    y, signs, linear, f = _merge(y, s, own, f)
    norm = _norm(V)
    residual = dropped + _rows_residual(high, low, V, y[own], f)
    residual += norm * _lines_residual(y, signs, linear, own, f, s)
    group[live], factor[live] = own, f
    return Transfer(V, y, signs, linear, group, factor, exponent, norm, residual * (1 + 4 * EPS))


def _products(rows: np.ndarray, dual: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """|λ_i| x_i as sums of two doubles in units of a power of two, the largest entry between 1/4 and 1."""
    weight, by_dual = np.frexp(np.abs(dual))
    by_row = np.frexp(np.abs(rows).max(axis=1))[1]
    exponent = int((by_dual + by_row).max())
    scaled = np.ldexp(rows, -by_row[:, None])
    high, low = two_product(weight[:, None], scaled)
    shift = (by_dual + by_row - exponent)[:, None]
    return np.ldexp(high, shift), np.ldexp(low, shift), exponent


def _basis(high: np.ndarray) -> np.ndarray:
    """Right singular vectors, without those along which all rows together are rounding noise."""
    V = np.linalg.svd(high, full_matrices=False)[2].T
    total = float(np.linalg.norm(high, axis=1).sum())
    lengths = np.sqrt(np.cumsum((high @ V[:, ::-1]) ** 2, axis=1)).sum(axis=0)
    drop = int(np.searchsorted(lengths, NOISE * total, side="right"))
    return np.ascontiguousarray(V[:, : max(V.shape[1] - drop, 1)])


def _merge(y, s, own, f):
    """One y, sign and part of the linear term per line; the factors are rescaled to the new y."""
    n = int(own.max()) + 1
    if n == len(y):
        return y[np.argsort(own)], s[np.argsort(own)].astype(np.int8), np.zeros(y.shape[1]), f
    first = np.full(n, len(y))
    np.minimum.at(first, own, np.arange(len(y)))
    weight = np.bincount(own, weights=s * np.abs(f))
    size = np.bincount(own, weights=np.abs(f))
    cancels = np.abs(weight) <= 4 * EPS * size
    signs = np.where(cancels, 0.0, np.sign(weight)).astype(np.int8)
    length = np.where(cancels, 1.0, np.abs(weight))
    alone = np.bincount(own) == 1
    length[alone] = 1.0
    merged = y[first] * length[:, None]
    f = f / length[own]
    opposite = np.bincount(own, weights=np.where(f < 0.0, s * np.abs(f), 0.0), minlength=n)
    return merged, signs, -(opposite @ merged), f


def _norm(V: np.ndarray) -> float:
    """Bound ‖V‖₂ from above: its square is at most the largest row sum of |VᵀV|."""
    d, r = V.shape
    rounding = 2 * r * (d + 2) * EPS  # columns have length 1 to far better than a factor of 2
    return float(np.sqrt(np.abs(V.T @ V).sum(axis=1).max() + rounding) * (1 + 4 * EPS))


def _rows_residual(high, low, V, y, f):
    """Σ_i ‖(high + low)_i − V f_i y_i‖, rounded up.

    The products of two doubles are exact. The low parts stay below rε times the sum of the sizes, and r additions of
    them round by less than (r² + 4r + 16)ε² of it; underflow leaves 2⁻¹⁰⁷⁴ per operation.
    """
    d = high.shape[1]
    r = V.shape[1]
    size = np.abs(high)
    f_high, f_low = two_product(f[:, None], y)
    for j in range(r):
        product, error = two_product(-V[None, :, j], f_high[:, j, None])
        error = error - V[None, :, j] * f_low[:, j, None]
        high, carry = two_sum(high, product)
        low = low + (carry + error)
        size = size + np.abs(product)
    gap = np.abs(high + low) + (r * r + 4 * r + 16) * EPS**2 * size + (8 * r + 8) * 2.0**-1070
    return fsum(np.sqrt((gap**2).sum(axis=1)).tolist()) * (1 + (d + 8) * EPS)


def _lines_residual(y, signs, linear, own, f, s):
    """Σ_g |P_g − signs_g| ‖y_g‖ + ‖linear + Σ_g M_g y_g‖, rounded up."""
    r = y.shape[1]
    members: dict[int, list[int]] = {}
    for i in np.flatnonzero(np.bincount(own)[own] > 1).tolist():
        members.setdefault(int(own[i]), []).append(i)
    total = []
    terms: list[list[float]] = [[float(linear[j])] for j in range(r)]
    for g, rows in members.items():
        off = abs(fsum([*(float(s[i] * abs(f[i])) for i in rows), -float(signs[g])]))
        total.append(off * float(np.linalg.norm(y[g])))
        for i in rows:
            if f[i] < 0.0:
                high, low = two_product(s[i] * abs(f[i]), y[g])
                for j in range(r):
                    terms[j] += [float(high[j]), float(low[j])]
    missing = [fsum(terms[j]) for j in range(r)]
    return fsum([*total, *map(abs, missing)]) * (1 + (r + 8) * EPS) + (r + 1) * 2.0**-1000


def to_size_one(rows: np.ndarray, dual: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, np.ndarray] | None:
    """Bring every row to size one and the products of rows and duals to at most one, by powers of two.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N,) or (N, k)

    Returns
    -------
    (units, weights, power, kept) or None
        Rows of shape (n, r), duals of shape (n, k), p such that h of the given ones is 2ᵖ times theirs, and which
        rows they are; None when nothing is left.

    Examples
    --------
    >>> rows, dual = np.array([[1e300], [0.0], [1e-300]]), np.array([1e-300, 1.0, 1e300])
    >>> units, weights, power, kept = to_size_one(rows, dual)
    >>> bool(np.all(units > 0.5)), len(weights), kept
    (True, 2, array([0, 2]))
    """
    outputs = dual.reshape(len(dual), -1)
    kept = np.flatnonzero(rows.any(axis=1) & outputs.any(axis=1))
    if len(kept) == 0:
        return None
    power = exponents(rows[kept])
    units = np.ldexp(rows[kept], -power[:, None])
    top = int((power + exponents(outputs[kept])).max())
    weights = np.ldexp(outputs[kept], (power - top)[:, None])
    heard = weights.any(axis=1)
    return units[heard], weights[heard], top, kept[heard]


def restrict(rows: np.ndarray, subset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reduce the rows of a subset to their rank.

    F of a dual supported on S depends on w through its projection on the span V of the rows in S
    only, and shortening w lowers |F|. So its gauge is the one of the reduced rows Z_S V, in
    dimension rank Z_S, and a neuron u of the reduced problem is V u in the full one. The rank is the
    numerical one: Σ |λ_i| ‖z_i − V Vᵀ z_i‖ is what this may change F by.

    Returns
    -------
    reduced : ndarray of shape (len(subset), k)
        Z_S V, of full column rank.
    basis : ndarray of shape (r, k)
        V, with orthonormal columns.

    Examples
    --------
    >>> import numpy as np
    >>> restrict(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]]), np.array([0]))[0].shape
    (1, 1)
    """
    chosen = rows[subset]
    # rows of length one: a short row with a large dual counts like any other
    units = chosen / np.linalg.norm(chosen, axis=1, keepdims=True)
    basis = row_span(units).T
    if basis.shape[1] == chosen.shape[1]:
        return chosen, np.eye(chosen.shape[1])
    return chosen @ basis, basis


def narrow(vectors: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Write vectors in as few orthonormal coordinates as they need, to rounding.

    Nothing rests on the choice: Σ w_i ‖x_i − V y_i‖ is what it may change a gauge by, and whoever asks pays it
    (:func:`covopt.exact.rounding.transfer_up`).

    Parameters
    ----------
    vectors : ndarray of shape (n, d)
        x_i.
    weights : ndarray of shape (n,)
        What each of them counts; not negative.

    Returns
    -------
    basis : ndarray of shape (d, r)
        V; the identity where r = d.
    coordinates : ndarray of shape (n, r)
        y_i, the vectors themselves where r = d.

    Examples
    --------
    >>> basis, coordinates = narrow(np.array([[3.0, 4.0], [6.0, 8.0]]), np.ones(2))
    >>> basis.shape, coordinates.round(9).ravel().tolist() in ([5.0, 10.0], [-5.0, -10.0])
    ((2, 1), True)
    """
    n, d = vectors.shape
    if d == 1:
        return np.eye(1), vectors
    scaled = vectors * weights[:, None]
    _, singular, right = np.linalg.svd(scaled, full_matrices=False)
    rank = max(1, numerical_rank(singular, of_given((n, d))))
    if rank == d:
        return np.eye(d), vectors
    # as sharp as doubles allow: what two passes of projection leave of the vectors is rounding
    basis = np.linalg.qr(right[:rank].T)[0]
    # by the first axes, as problems of classes have it: relaxations of several outputs depend on the choice
    first = np.linalg.qr(basis @ basis[:rank].T)[0]
    if np.abs(first - basis @ (basis.T @ first)).max() <= NOISE:
        basis = first
    return basis, vectors @ basis
