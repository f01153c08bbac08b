r"""Rows far from the origin relative to their spread: coordinates that bring them closer at nearly the same cost.

Seconds since 1970 make rows x̃ = (x, β) of length 1.6·10⁹ that differ little across. With v₀ along the middle of the
rows and V' across, x̃ = z₀ v₀ + V' z', every neuron with a kink among the points lies in the span of V' but for a part
|w₀| ≤ ρ‖w'‖, ρ = max_i ‖z'_i‖ / z_{i0} ≪ 1, and its cost depends on w₀ only to order ρ²: the common length of the
rows does not matter, as long as it is large. So rows may be brought closer: B = (v₀/κ, V'), κ a power of two,
ŷ_i = Bᵀx̃_i, neurons w = B u. There are three kinds of neurons (‖w‖ = 1, and F(w) = Λᵀσ(X̃w)):

- all rows active: F(w) = Λᵀ X̃ w, at most ‖Λᵀ X̃‖;
- no row active: F(w) = 0;
- rows of both signs, or on the hyperplane: for some row ŷ_i·u is zero or has not the sign of u₀, so that
  ŷ_{i0} |u₀| ≤ |ŷ'_i·u'| and |u₀| ≤ ρ_y ‖u'‖ with ρ_y = max_i ‖ŷ'_i‖ / ŷ_{i0}. With G = BᵀB,
  1 = uᵀGu ≥ ‖u'‖² (1 − δ), δ = ‖G' − I‖ + 2ρ_y ‖G'₀‖, and ‖u‖² ≤ (1 + ρ_y²)/(1 − δ).

ŷ is rounded to y; for u this costs at most ‖u'‖ Σ_i ‖Λ_i‖ (ρ_y |ŷ_{i0} − y_{i0}| + ‖ŷ'_i − y'_i‖), which is ``paid``
for the largest ‖u'‖. Hence

.. math::
    h_x(\Lambda) \le \max\Bigl(\|\Lambda^\top \tilde X\|,\
      \sqrt{\tfrac{1 + \rho_y^2}{1 - \delta}}\, h_y(\Lambda) + \text{paid}\Bigr),

and a network of neurons B u costs at most as much as that of the u, up to ‖G' − I‖, since κ ≥ 1. The bound loses a
share of order ρ_y² and the cost of constants, which is negligible for long rows.

**Multipliers of two doubles**, Λ = high + low, serve sums Λᵀ X̃ in which more digits cancel than one double has.
Where all rows are active, Λᵀσ(X̃w) = (Λᵀ X̃) w. Far from the origin Λ is large and nearly everything cancels in Λᵀ X̃:
with one double for every multiplier the error is 2⁻⁵³ Σ‖Λ_i‖‖x_i‖, with two it is 2⁻¹⁰⁶ of that size. Certificates
enclose the exact sums and do not assume that they are small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from covopt.exact.rank import FOUND
from covopt.exact.rounding import (
    SLIP,
    TINY,
    UNIT,
    allowance,
    dot_bounds,
    exponents,
    gamma,
    lengths_up,
    total_up,
    two_product,
    two_sum,
    up,
)

SLACK = 1.0 + SLIP
NEAR = 4096.0  # 1/ρ after rows are brought closer; the relative error of costs is half its inverse square
BLOCK = 2**16  # entries at a time: a product with its error takes ten numbers
MOST = 1e7  # pairs of points and neurons whose outputs are computed to twice the digits: about a second


@dataclass(frozen=True)
class FarRows:
    """Rows far from the origin and the coordinates that bring them closer; made by :meth:`of`.

    Attributes
    ----------
    basis : ndarray of shape (D, D)
        B.
    rows : ndarray of shape (N, D)
        y.
    stretch : float
        At least the root of (1 + ρ_y²)/(1 − δ).
    across : float
        At least ρ_y.
    slips : ndarray of shape (N, D)
        At least |ŷ − y|.
    """

    basis: np.ndarray
    rows: np.ndarray
    stretch: float
    across: float
    slips: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, near: float = NEAR) -> FarRows | None:
        """Return the coordinates for rows that are further away than 1/ρ = ``near``, None for all others.

        Parameters
        ----------
        rows : ndarray of shape (N, D)
            Of full column rank.
        near : float
            1/ρ in the new coordinates.

        Examples
        --------
        >>> seconds = 1.6e9 + 1e6 * np.arange(5.0)
        >>> far = FarRows.of(np.column_stack([seconds, np.arange(5.0) ** 2, np.ones(5)]))
        >>> bool(4096 < far.rows[:, 0].max() / far.rows[:, 1].max() < 16384), far.stretch < 1 + 1e-7
        (True, True)
        >>> FarRows.of(np.eye(3)) is None
        True
        """
        n, dimension = rows.shape
        if n == 0 or dimension < 2:
            return None
        power = int(exponents(np.abs(rows).max(axis=0, initial=0.0)[None])[0])
        scaled = np.ldexp(rows, -power)
        lengths = np.sqrt((scaled * scaled).sum(axis=1))
        if not lengths.min() > 0.0:
            return None
        middle = (scaled / lengths[:, None]).mean(axis=0)
        middle /= max(float(np.linalg.norm(middle)), TINY)
        if (scaled @ middle < 0.9 * lengths).any():
            return None
        basis = frame(middle)
        kept = coordinates(rows, basis)
        ratio = float((np.linalg.norm(kept[:, 1:], axis=1) / kept[:, 0]).max())
        if not 0.0 < ratio < 0.25 / near:
            return None
        basis[:, 0] = np.ldexp(basis[:, 0], math.frexp(ratio * near)[1])
        found, size = coordinates(rows, basis), np.abs(basis)
        second = (2.0 * (dimension + 2) * UNIT) ** 2
        slips = (UNIT * np.abs(found) + second * (np.abs(rows) @ size) + math.ldexp(TINY, power)) * SLACK
        lengths = lengths_up(found[:, 1:]) + lengths_up(slips[:, 1:])
        across = up(float((lengths / (found[:, 0] - slips[:, 0])).max()) * SLACK)
        off = np.abs(basis.T @ basis - np.eye(dimension)) + gamma(dimension + 4) * (size.T @ size)
        loss = float(np.linalg.norm(off[1:, 1:])) + 2.0 * across * float(np.linalg.norm(off[0, 1:]))
        loss = up(loss) * SLACK
        if not loss < FOUND:
            return None
        stretch = up(math.sqrt(up(up(1.0 + up(across * across)) / (1.0 - 2.0 * loss))) * SLACK)
        return cls(basis, found, stretch, across, slips)

    def paid(self, sizes: np.ndarray) -> float:
        """Bound the change of F by rounding the rows, for ‖Λ_i‖ of these sizes."""
        each = (self.slips[:, 0] * self.across + lengths_up(self.slips[:, 1:])) * SLACK
        return up(self.stretch * total_up(sizes, each))

    def linear_up(self, rows: np.ndarray, dual: np.ndarray, low: np.ndarray) -> float:
        """Bound ‖Λᵀ X̃‖ from above, from the rows as given and the dual of two doubles, each of shape (N, k)."""
        twice, both = np.concatenate([rows, rows]), np.concatenate([dual, low])
        sums = np.array([[max(map(abs, dot_bounds(part, column))) for column in twice.T] for part in both.T])
        return float(lengths_up(sums.reshape(1, -1))[0])


def without_middle(
    rows: np.ndarray, dual: np.ndarray, *, keep_sums: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return a dual of two doubles whose Λᵀ X̃ has no part along the middle of the rows.

    Where all rows are active F(w) = Λᵀ X̃ w. A dual that is feasible for rows brought closer may have a part of size κ
    along the middle. Removing it hardly changes the dual value: every row takes its share, and the second doubles of
    one row or two take the rounding error.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
    dual : ndarray of shape (N,) or (N, k)
        Rows of zeros stay zero.
    keep_sums : bool
        Whether Λᵀ1 is to be zero, to 2⁻¹⁰⁰.

    Returns
    -------
    (high, low) : ndarrays of the dual's shape

    Examples
    --------
    >>> rows = np.column_stack([1e9 + np.arange(4.0), np.arange(4.0) ** 2, np.ones(4)])
    >>> high, low = without_middle(rows, np.array([[1.0], [-2.0], [1.0], [1e-5]]))
    >>> bool(np.abs(high.T @ rows).max() < 10.0), bool(0.0 < np.abs(low).max() < 1e-10)
    (True, True)
    """
    found = dual.reshape(len(dual), -1).copy()
    low, live = np.zeros_like(found), np.flatnonzero(found.any(axis=1) & rows.any(axis=1))
    far = FarRows.of(rows[live])
    if far is None:
        return dual, low.reshape(dual.shape)
    along, middle = far.rows[:, 0], [Fraction(value) for value in far.basis[:, 0].tolist()]
    away = along - along.mean() if keep_sums else along
    i, j = live[along.argmin()], live[along.argmax()]
    ends = [sum(Fraction(x) * v for x, v in zip(rows[k].tolist(), middle, strict=True)) for k in (i, j)]
    for column, rest in zip(found.T, low.T, strict=True):
        for _ in range(2):
            ahead, behind = dot_bounds(column[live], along)
            column[live] -= 0.5 * (ahead + behind) / max(float(away @ away), TINY) * away
        values = [Fraction(value) for value in column[live].tolist()]
        sums = [
            sum(v * Fraction(x) for v, x in zip(values, part.tolist(), strict=True)) for part in rows[live].T
        ]
        left = sum(part * v for part, v in zip(sums, middle, strict=True))
        if keep_sums and ends[0] != ends[1]:
            total = sum(values)
            rest[i] = float((left - ends[1] * total) / (ends[1] - ends[0]))
            rest[j] = float((ends[0] * total - left) / (ends[1] - ends[0]))
        elif not keep_sums:
            rest[j] = float(-left / ends[1])
    return found.reshape(dual.shape), low.reshape(dual.shape)


def coordinates(rows: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Return X B, every entry to about one rounding, however much cancels.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
    basis : ndarray of shape (D, r)

    Examples
    --------
    >>> found = coordinates(np.array([[1e9, 1.0]]), np.array([[-1e-9], [1.0]]))[0, 0]
    >>> bool(abs(found / -6.2281591457779856e-17 - 1.0) < 1e-15)
    True
    """
    found = np.empty((len(rows), basis.shape[1]))
    for block in blocks(rows, basis):
        found[block] = np.add(*in_two_parts(rows[block], basis))
    return found


def blocks(rows: np.ndarray, basis: np.ndarray) -> list[slice]:
    """Return the blocks of rows of X whose products with B are computed together."""
    step = max(1, BLOCK // max(basis.shape[1], 1))
    return [slice(first, first + step) for first in range(0, len(rows), step)]


def in_two_parts(rows: np.ndarray, basis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return X B in two parts of shape (N, r): the computed products and their rounding errors."""
    total = rest = np.zeros((len(rows), basis.shape[1]))
    for column, entries in zip(rows.T, basis, strict=True):
        product, error = two_product(column[:, None], entries[None, :])
        total, slip = two_sum(total, product)
        rest = rest + (slip + error)
    return two_sum(total, rest)


def outputs_of_far(
    rows: np.ndarray, hidden: np.ndarray, weights: np.ndarray, bias: float, shift: np.ndarray, targets: np.ndarray
) -> np.ndarray | None:  # fmt: skip
    """Return Σ_j v_j σ(w_j·x̃_i) + βb to twice the digits, if double precision cannot resolve the residuals.

    For points far from the origin, w·x̃ is a small difference of large products: in doubles the outputs may equal the
    targets although the network, evaluated exactly, misses them by 1e-7 of the largest.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
    hidden : ndarray of shape (m, D)
    weights : ndarray of shape (m, k)
    bias : float
    shift : ndarray of shape (k,)
        b.
    targets : ndarray of shape (N, k)

    Returns
    -------
    ndarray of shape (N, k) or None
        None if rounding in doubles is below 5e-10 of the largest target, and for more than ``MOST`` pairs of points
        and neurons: outputs are then believed as doubles compute them. If a product overflows, outputs are as far
        from the targets as rounding allows.

    Examples
    --------
    >>> rows, hidden, shift = np.array([[1e9 + 0.25, 1.0]]), np.array([[0.1, -1e8]]), np.zeros(1)
    >>> float(np.maximum(rows @ hidden.T, 0.0)[0, 0])
    0.025000005960464478
    >>> float(outputs_of_far(rows, hidden, np.ones((1, 1)), 1.0, shift, np.zeros((1, 1)))[0, 0])
    0.025000005551115125
    """
    if len(rows) * len(hidden) > MOST:
        return None
    with np.errstate(all="ignore"):
        sizes = (np.abs(rows) @ np.abs(hidden).T) @ np.abs(weights) + np.abs(bias * shift)
        size = float(sizes.max(initial=0.0))
        hides = allowance(len(hidden) + rows.shape[1], size) if np.isfinite(size) else np.inf
        if hides <= 0.5 * FOUND * (float(np.abs(targets).max(initial=0.0)) or 1.0):
            return None
        product, error = two_product(np.full(shift.shape, bias), shift)
        last, found = np.column_stack([product, error]), np.full(targets.shape, np.inf)
        for block in blocks(rows, hidden.T):
            parts = in_two_parts(rows[block], hidden.T)
            high, low = np.where(np.add(*parts) <= 0.0, 0.0, parts)  # what is no number stays none
            for k, column in enumerate(weights.T):
                product, error = two_product(high, column)
                wide = np.tile(last[k], (len(product), 1))
                terms = np.column_stack([product, error + low * column, wide, -targets[block, k]])
                if not np.isfinite(terms).all():
                    return targets + hides
                found[block, k] = targets[block, k] + [math.fsum(line) for line in terms.tolist()]
    return found


def frame(first: np.ndarray) -> np.ndarray:
    """Return orthonormal columns that begin with a unit vector, each entry to full relative accuracy.

    Examples
    --------
    >>> frame(np.array([0.6, 0.8])).round(9)
    array([[ 0.6,  0.8],
           [ 0.8, -0.6]])
    """
    largest = int(np.argmax(np.abs(first)))
    side = math.copysign(1.0, first[largest])
    mirror = side * first
    mirror[largest] += 1.0
    others = np.eye(len(first)) - np.outer(mirror, side * first / mirror[largest])
    return np.column_stack([first, np.delete(others, largest, axis=1)])


def whole(high: np.ndarray, low: np.ndarray | None = None) -> np.ndarray:
    """Return the sums as fractions, an array of objects.

    Examples
    --------
    >>> whole(np.array([1.0]), np.array([2.0**-60]))[0] - 1 == Fraction(1, 2**60)
    True
    """
    parts = [np.ravel(part).tolist() for part in (high, low) if part is not None]
    found = np.array([*(sum(map(Fraction, pair)) for pair in zip(*parts, strict=True)), None], dtype=object)[
        :-1
    ]
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
    """Return :func:`rounded` multipliers with unchanged Λᵀ Z: the two smallest compensate the rounding of the others.

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
    z, goal = whole(rows), values.copy()
    for column in goal.T:
        live = np.flatnonzero(column != 0)
        if len(live) > 1:
            i, j = live[np.argsort(np.abs(column[live]).astype(float), kind="stable")[:2]]
            lost = (column - whole(*rounded(column))) @ z
            cross = z[i, 0] * z[j, 1] - z[i, 1] * z[j, 0]
            column[i] += (lost[0] * z[j, 1] - lost[1] * z[j, 0]) / cross
            column[j] += (lost[1] * z[i, 0] - lost[0] * z[i, 1]) / cross
    return rounded(goal)
