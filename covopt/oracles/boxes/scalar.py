r"""One output in few coordinates of size one: the change of coordinates, a bound on its error, and the best point.

For ‖w‖ ≤ 1 put u = Vᵀw. The rows are brought to size one by powers of two, x_i of weight λ_i, and row i is replaced,
x_i ≈ V f_i c_g(i): V has r ≤ D nearly orthonormal columns, rows on one line share c and have a factor f_i each,
negative on the opposite ray. σ is 1-Lipschitz, so

.. math::
    \Bigl| \sum_i \lambda_i \sigma(x_i \cdot w) - \sum_i \lambda_i \sigma(f_i\, c_{g(i)} \cdot u) \Bigr|
    \le \sum_i |\lambda_i| \bigl\lVert x_i - V f_i c_{g(i)} \bigr\rVert .

On one line, σ(ft) = fσ(t) for f > 0 and |f|(σ(t) − t) for f < 0: with P the sum of λ_i|f_i| over the line and M the
part of it with f_i < 0, the line is Pσ(c·u) − M c·u. G(u) = linear·u + Σ_g signs_g σ(y_g·u) therefore differs by at
most ‖u‖ (Σ_g ‖P_g c_g − signs_g y_g‖ + ‖linear + Σ_g M_g c_g‖), where ‖u‖ ≤ ‖V‖. Both sums, with every rounding, are
the ``residual``, and

.. math:: h(\lambda) \le 2^{e} (\lVert V \rVert \max_{\lVert u \rVert \le 1} |G(u)| + \text{residual}).

The sum contains the error of dropped directions, rounded rows and rows nearly on one line, so any choice is valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import frexp, fsum, inf, ldexp

import numpy as np

from covopt.errors import InputError
from covopt.exact.rank import merge_lines, numerical_rank, of_given
from covopt.exact.rounding import (
    EPS,
    SLIP,
    TINY,
    UNIT,
    above,
    exponents,
    lengths_up,
    operator_norm_up,
    total_up,
    transfer_up,
    up,
)
from covopt.oracles.base import heights, remember
from covopt.oracles.boxes.kernel import margin
from covopt.oracles.local_search import climb, starts_for

NOISE = 8 * EPS  # rows and directions that contribute less than this share of Σ|λ_i|‖x_i‖ are dropped


def to_size_one(rows: np.ndarray, dual: np.ndarray) -> tuple[np.ndarray, np.ndarray, int, np.ndarray] | None:
    """Bring every row to size one and the products of rows and duals to at most one, by powers of two.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N,) or (N, k)

    Returns
    -------
    (units, weights, power, kept) or None
        Rows of shape (n, r), duals of shape (n, k), the p for which h of the given ones is 2ᵖ times theirs, and the
        indices of the rows kept; None when no row is left.

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


def narrow(vectors: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Write vectors in as few orthonormal coordinates as they need, up to rounding.

    Any choice is valid: it changes a dual norm by at most Σ w_i ‖x_i − V y_i‖, which the caller adds
    (:func:`covopt.exact.rounding.transfer_up`).

    Parameters
    ----------
    vectors : ndarray of shape (n, d)
        x_i.
    weights : ndarray of shape (n,)
        w_i ≥ 0, the weight of each vector.

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
    # orthonormal to double precision, so that projecting the vectors loses only rounding error
    basis = np.linalg.qr(right[:rank].T)[0]
    # aligned with the first axes, as classification needs: relaxations with several outputs depend on the basis
    first = np.linalg.qr(basis @ basis[:rank].T)[0]
    if np.abs(first - basis @ (basis.T @ first)).max() <= NOISE:
        basis = first
    return basis, vectors @ basis


@dataclass(frozen=True)
class DualNormBound:
    """What was proved about h(λ).

    Attributes
    ----------
    upper_bound : float
        Upper bound on h(λ), in exact arithmetic for the floats given.
    best_neuron : ndarray of shape (D,)
        Unit direction with the largest |F| found; zeros when there is none.
    best_value : float
        F there, signed, in floating point.
    nodes : int
        Boxes visited.
    closed : bool
        True when the bound is within ``rtol`` of the best value.
    basis : ndarray of shape (D, r)
        V, the coordinates of the boxes.
    """

    upper_bound: float
    best_neuron: np.ndarray
    best_value: float
    nodes: int
    closed: bool
    basis: np.ndarray


class Scalar:
    """The function G on R^r that replaces F on R^D, with the rows that count.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        The rows as given, of any scale.
    dual : ndarray of shape (N,)

    Attributes
    ----------
    V : ndarray of shape (D, r)
    y : ndarray of shape (n, r)
    signs : ndarray of shape (n,)
        1.0 or −1.0; lines whose rows cancel are left out.
    linear : ndarray of shape (r,)
    exponent : int
        e: everything here is in units of 2^e.
    norm : float
        Upper bound on ‖V‖₂.
    residual : float
        Upper bound on the change of F by the replacement, for ‖w‖ ≤ 1.
    best, point : float, ndarray of shape (r,) or None
        Largest |G(u)|/‖u‖ found, and its u.

    Raises
    ------
    InputError
        For arrays of the wrong shape, infinite or missing numbers.

    Examples
    --------
    >>> made = Scalar(np.array([[1.0, 2.0], [2.0, 4.0], [0.0, 1.0]]), np.array([1.0, -0.25, 3.0]))
    >>> made.y.shape, made.signs, made.residual < 1e-14
    ((2, 2), array([1., 1.]), True)
    """

    def __init__(self, rows: np.ndarray, dual: np.ndarray):
        self.rows = rows = np.ascontiguousarray(rows, dtype=float)
        self.dual = dual = np.ascontiguousarray(dual, dtype=float)
        if rows.ndim != 2 or dual.shape != (len(rows),):
            raise InputError(
                f"rows must have shape (N, D) and dual shape (N,); received {rows.shape} and {dual.shape}: "
                "give one multiplier per row."
            )
        if not (np.isfinite(rows).all() and np.isfinite(dual).all()):
            raise InputError(
                "rows and dual must be finite; received infinite or missing numbers: remove those rows."
            )
        self.best, self.proved = 0.0, inf
        self.point: np.ndarray | None = None
        scaled = to_size_one(rows, dual) if len(rows) else None
        if scaled is None:
            self.V, self.y, self.signs = np.zeros((rows.shape[1], 0)), np.zeros((0, 0)), np.zeros(0)
            self.linear, self.exponent, self.norm, self.residual = np.zeros(0), 0, 1.0, 0.0
        else:
            units, weights, self.exponent, _ = scaled
            self._reduce(units, weights[:, 0])
        self.sizes = np.abs(self.y).sum(axis=0) + np.abs(self.linear)

    def _reduce(self, units: np.ndarray, weights: np.ndarray) -> None:
        """Choose V and the lines, and bound the error."""
        sizes = np.abs(weights)
        counts = len(sizes) * sizes > NOISE * sizes.sum()
        # entries below 2⁻¹⁰⁷⁴ of the largest are lost
        paid = total_up(sizes[~counts], lengths_up(units[~counts])) + 4.0 * self.rows.size * TINY
        units, weights, sizes = units[counts], weights[counts], sizes[counts]
        self.V = principal_axes(sizes[:, None] * units)
        self.norm = operator_norm_up(self.V)
        lines, own, ratio = merge_lines(units)
        near = lines @ self.V
        rounded = ratio[:, None] * near[own]
        paid = up(paid + transfer_up(units, sizes, self.V, rounded))
        y, signs, self.linear, lost = merge(near, own, ratio * sizes, np.sign(weights))
        lost = up(lost + total_up(sizes, 2.0 * UNIT * lengths_up(rounded)))
        self.residual = up(paid + up(self.norm * lost))
        self.y, self.signs = np.ascontiguousarray(y[signs != 0.0]), signs[signs != 0.0]

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Return G at each point."""
        return np.maximum(points @ self.y.T, 0.0) @ self.signs + points @ self.linear

    def lift(self, bound: float) -> float:
        """Return and remember the bound on h(λ) in the user's units, rounded up, if |G(u)| ≤ bound·‖u‖."""
        total = Fraction(bound) * Fraction(self.norm) + Fraction(self.residual)
        found = above(total * Fraction(2) ** self.exponent)
        if found < self.proved:
            self.proved = found
            remember(self.rows, self.dual, found)
        return found

    def lower(self, level: float) -> float:
        """Return about the largest H for which :meth:`lift` gives a level, clipped to what a search can prove."""
        fraction, power = frexp(level)
        reduced = ldexp(fraction, min(power - self.exponent, 1000)) / self.norm * (1.0 - 4.0 * EPS)
        return min(max(reduced - self.residual, SLIP * self.norms()), 2.0 * self.norms())

    def rounding(self, H: float) -> float:
        """Return how close to the maximum rounding lets a search end, at the best point if there is one."""
        u = np.ones(len(self.sizes)) if self.point is None else self.point / np.abs(self.point).max()
        return 2.0 * float(margin(len(u), self.sizes, u, np.zeros(len(u)), H))

    def norms(self) -> float:
        """Bound |G(u)|/‖u‖ by sums of norms."""
        lengths = np.linalg.norm(self.y, axis=1)
        sums = [float(lengths[self.signs == sign].sum()) for sign in (1.0, -1.0)]
        return (max(sums) + float(np.linalg.norm(self.linear))) * (1.0 + (len(lengths) + 16) * EPS)

    def search(self, neurons: np.ndarray | None = None, random_state: int = 0) -> None:
        """Climb on |G| from the heaviest rows, from random directions, plain and scaled, and from neurons."""
        count, r = starts_for(self.y) // 8, self.y.shape[1]
        heavy = self.y[np.argsort(-np.linalg.norm(self.y, axis=1))[:count]]
        normal = np.random.default_rng(random_state).standard_normal((count, r))
        width = np.linalg.norm(self.y, axis=0)
        width = np.where(width > 0.0, width, 1.0)
        lead = (self.signs @ self.y)[None] + self.linear
        given = np.zeros((0, r)) if neurons is None else np.asarray(neurons, dtype=float) @ self.V
        starts = np.concatenate([heavy, normal, normal * (width.max() / width), lead])
        self.offer(self.ascend(np.concatenate([given, starts, -starts])))

    def ascend(self, starts: np.ndarray) -> np.ndarray:
        """Climb on |G| from points, each with the sign of G there; return unit points."""
        norms = np.linalg.norm(starts, axis=1)
        starts = starts[norms > 0.0] / norms[norms > 0.0, None]
        own = self(starts) >= 0.0
        ends = [np.eye(1, self.y.shape[1])]
        for sign, chosen in ((1.0, own), (-1.0, ~own)):
            points = climb(self.y, sign * self.signs, sign * self.linear, starts[chosen], n_threads=1)[0]
            ends.append(points / np.linalg.norm(points, axis=1, keepdims=True))
        return np.concatenate(ends)

    def offer(self, points: np.ndarray) -> None:
        """Store the best of some points if it improves."""
        lengths = np.linalg.norm(points, axis=1)
        points = points[lengths > 0.0] / lengths[lengths > 0.0, None]
        if len(points):
            values = np.abs(self(points))
            top = int(values.argmax())
            if values[top] > self.best:
                self.best, self.point = float(values[top]), points[top]

    def answer(self, bound: float, nodes: int, rtol: float) -> DualNormBound:
        """Return a bound on |G(u)|/‖u‖ and the best point in the user's coordinates and units."""
        upper, neuron, value = self.lift(bound), np.zeros(len(self.V)), 0.0
        if self.point is not None:
            neuron = self.V @ self.point
            neuron /= np.linalg.norm(neuron)
            with np.errstate(over="ignore", invalid="ignore"):
                value = float(heights(self.rows, self.dual, neuron[None])[0])
                if not np.isfinite(value):
                    value = float(np.ldexp(self(self.point[None])[0], self.exponent))
        return DualNormBound(upper, neuron, value, nodes, upper <= (1.0 + rtol) * abs(value), self.V)


def principal_axes(rows: np.ndarray) -> np.ndarray:
    """Return right singular vectors, without those along which all rows together are rounding noise."""
    V = np.linalg.svd(rows, full_matrices=False)[2].T
    total = float(np.linalg.norm(rows, axis=1).sum())
    lengths = np.sqrt(np.cumsum((rows @ V[:, ::-1]) ** 2, axis=1)).sum(axis=0)
    drop = int(np.searchsorted(lengths, NOISE * total, side="right"))
    return np.ascontiguousarray(V[:, : max(V.shape[1] - drop, 1)])


def merge(
    lines: np.ndarray, own: np.ndarray, factor: np.ndarray, signs: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Sum rows on lines; return y, a sign per line (zero where they cancel), the linear part and an error bound.

    Parameters
    ----------
    lines : ndarray of shape (n, r)
    own : ndarray of shape (N,)
        The line of each row.
    factor : ndarray of shape (N,)
        Row = factor · line, up to one rounding.
    signs : ndarray of shape (N,)
        Signs of the rows' weights.

    Examples
    --------
    >>> y, signs, linear, lost = merge(np.eye(2), np.array([0, 0, 1]), np.array([1.0, -2.0, 3.0]), np.ones(3))
    >>> y, signs, linear, lost < 1e-13
    (array([[3., 0.],
           [0., 3.]]), array([1., 1.]), array([-2.,  0.]), True)
    """
    n, sizes = len(lines), np.abs(factor)
    weight = np.bincount(own, weights=signs * sizes, minlength=n)
    size, count = np.bincount(own, weights=sizes, minlength=n), np.bincount(own, minlength=n)
    opposite = np.bincount(own, weights=np.where(factor < 0.0, signs * sizes, 0.0), minlength=n)
    cancels = np.abs(weight) <= 4.0 * EPS * size
    y = lines * np.where(cancels, 1.0, np.abs(weight))[:, None]
    linear = np.array([fsum((-opposite * column).tolist()) for column in lines.T])
    off = 4.0 * (count + 8) * UNIT * size + np.where(cancels, np.abs(weight), 0.0)
    return y, np.where(cancels, 0.0, np.sign(weight)), linear, total_up(off, lengths_up(lines))
