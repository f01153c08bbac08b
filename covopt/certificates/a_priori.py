r"""Lower bounds on the norm of every shallow network through the points, at the cost of reading the data.

Each is the value of an explicit dual point Λ whose h(Λ) = max_{‖w‖=1} ‖Λᵀσ(X̃w)‖ is bounded by hand:

- two points: Λ = ±(e_i − e_j) uᵀ has h ≤ ‖x_i − x_j‖, since the ReLU is 1-Lipschitz and the bias cancels;
- one point: Λ = e_i uᵀ has h = ‖x̃_i‖;
- nuclear norm: Y = UΣVᵀ, Λ = UVᵀ has h ≤ max ‖σ(X̃w)‖ ≤ ‖X̃‖ (linear networks attain 2‖Y‖_*/‖X̃‖ where X̃ is a
  multiple of an isometry);
- the targets themselves, Λ = Y, with the bound of :func:`covopt.oracles.bounds.relaxed_dual_norm`.

The first is the root of a fraction. The others are values of dual points in doubles, rounded down as in all
certificates (:mod:`covopt.certificates.conjugate`): if targets are far from zero, their products with a centred Λ
cancel and the bound loses what rounding may have added.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from covopt.certificates.conjugate import balanced, dual_bound, moving_up
from covopt.checks.validation import check_choice
from covopt.data import Data
from covopt.exact.definite import product_error_up, singular_values_between
from covopt.exact.far_rows import blocks
from covopt.exact.rank import COMPUTED, numerical_rank
from covopt.exact.rounding import below, lengths_up, operator_norm_up, root_down, scaled_up, up
from covopt.losses import Interpolation
from covopt.oracles.bounds import relaxed_dual_norm


@dataclass(frozen=True)
class APrioriBound:
    """A lower bound on ‖W‖².

    Attributes
    ----------
    name : str
    value : float
        In the user's units, rounded down.
    source : str
        The argument, with the rows that attain the maximum.
    """

    name: str
    value: float
    source: str


def a_priori_bounds(X: Any, Y: Any, *, bias: float = 1.0, output_bias: str = "none") -> list[APrioriBound]:
    r"""Bound R₂(X, Y) from below without solving anything, in O(N²) operations.

    .. math::
        R_2(X, Y) \ge \max_{\Lambda} \; 2\langle \Lambda, Y\rangle - \beta^2\|\Lambda^\top 1\|^2
        \quad\text{over a few } \Lambda \text{ with } h(\Lambda) \le 1,

    without the square where there is no output bias, and over Λᵀ1 = 0 where it is free.

    Parameters
    ----------
    X : array_like, pandas or polars frame, of shape (N, d)
    Y : array_like of shape (N,) or (N, k)
    bias : float
        β ≥ 0.
    output_bias : {"none", "penalized", "free"}

    Returns
    -------
    list of APrioriBound
        Largest first. "two points" and "targets" hold for every output bias, "nuclear norm" with centred targets
        where it is not "none", "one point" where it is not free.

    Raises
    ------
    InputError
        When the table cannot be used, or ``output_bias`` is not one of the three.

    References
    ----------
    Jacot et al., FL22 (the bounds for pairs and single points, any depth); the dual of the representation cost.

    Examples
    --------
    >>> best = a_priori_bounds([[0.0], [1.0]], [0.0, 1.0])[0]
    >>> best.name, round(best.value, 6)
    ('two points', 2.0)
    """
    check_choice("output_bias", output_bias, ("none", "penalized", "free"))
    data = Data.validate(X, Y, bias=bias)
    kept = np.flatnonzero(data.lifted.any(axis=1))
    # bounds are linear in Y and in 1/X̃: units of a power of two change no digit, and no square over- or underflows
    inner, outer = _exponent(data.lifted), _exponent(data.Y)
    outer += (inner + outer) % 2  # a penalised offset costs its square
    rows, targets = np.ldexp(data.lifted[kept], -inner), np.ldexp(data.Y[kept], -outer)
    if not targets.any():
        return [APrioriBound("zero", 0.0, "the targets vanish")]
    free = output_bias == "free"
    beta = scaled_up(data.bias, -(inner + outer) // 2) if output_bias == "penalized" else 0.0
    reach = lengths_up(rows)

    def value(point: np.ndarray, dual_norm: float) -> float:
        """Bound twice the value of the best multiple of a dual point from below; h(Λ) is at most ``dual_norm``."""
        given = point
        if free:
            point = balanced(given)
            every = np.arange(len(point))
            dual_norm = up(dual_norm + moving_up((given, None), 1.0, (point, None), every, reach))
        if beta == np.inf:
            return 0.0
        found = dual_bound(Interpolation.of(targets), point, 1.0, dual_norm, bias=beta)
        return below(2 * found * Fraction(2) ** (outer - inner))

    bounds = [_two_points(data.X[kept], data.Y[kept], kept)]
    if not free:
        best = _dearest(rows, targets, beta)
        point = np.zeros_like(targets)
        point[best] = targets[best]
        source = f"a network through row {int(kept[best])} alone"
        bounds.append(
            APrioriBound("one point", value(point, up(float(lengths_up(point)[best] * reach[best]))), source)
        )
    centred = targets - targets.mean(axis=0)
    source = "2 ‖Y‖_* / ‖X̃‖" + (" with centred targets" if free or beta else "")
    point, size = _polar_factor(centred if free or beta else targets)  # Λᵀ1 = 0 suits every offset
    dual_norm = up(size * float(singular_values_between(rows)[1][0]))
    bounds.append(APrioriBound("nuclear norm", value(point, dual_norm), source))
    point = centred if free else targets
    if point.any():
        dual_norm = relaxed_dual_norm(rows, point[:, 0] if point.shape[1] == 1 else point)
        source = "the dual point Λ = Y with a relaxed bound on h(Λ)"
        bounds.append(APrioriBound("targets", value(point, dual_norm), source))
    return sorted(bounds, key=lambda bound: -bound.value)


def _exponent(values: np.ndarray) -> int:
    return int(np.frexp(np.abs(values).max(initial=0.0))[1])


def _two_points(inputs: np.ndarray, targets: np.ndarray, kept: np.ndarray) -> APrioriBound:
    best, pair = 0.0, (0, 0)
    near, tall = np.ldexp(inputs, -_exponent(inputs)), np.ldexp(targets, -_exponent(targets))
    for block in blocks(near, near.T):
        apart, change = cdist(near[block], near), cdist(tall[block], tall)
        slopes = np.divide(change, apart, out=np.zeros_like(apart), where=apart > 0)
        i, j = np.unravel_index(int(slopes.argmax()), slopes.shape)
        if slopes[i, j] > best:
            best, pair = float(slopes[i, j]), (block.start + int(i), int(j))
    rows = f"rows {kept[pair[0]]} and {kept[pair[1]]}"
    source = f"2 |y_i − y_j| / |x_i − x_j| at {rows}: the network is that steep somewhere"
    run, rise = (_squared_apart(*table[list(pair)]) for table in (inputs, targets))  # floats chose the pair
    value = below(2 * Fraction(root_down(rise / run, 2))) if run else 0.0
    return APrioriBound("two points", value, source)


def _squared_apart(one: np.ndarray, other: np.ndarray) -> Fraction:
    """Return ‖one − other‖²."""
    pairs = zip(one.tolist(), other.tolist(), strict=True)
    return sum(((Fraction(a) - Fraction(b)) ** 2 for a, b in pairs), Fraction(0))


def _dearest(rows: np.ndarray, targets: np.ndarray, bias: float) -> int:
    """Return the row with the largest bound of its own, in doubles."""
    lengths, sizes = (np.linalg.norm(table, axis=1) for table in (rows, targets))
    with np.errstate(all="ignore"):
        steps = np.minimum(1.0 / lengths, sizes / bias**2) if bias else 1.0 / lengths
        values = 2.0 * steps * sizes - (bias * steps) ** 2
    return int(np.argmax(np.where(np.isfinite(values), values, 0.0)))


def _polar_factor(targets: np.ndarray) -> tuple[np.ndarray, float]:
    """Return UVᵀ of Y = UΣVᵀ, and a bound on its norm from above."""
    left, sizes, right = np.linalg.svd(targets, full_matrices=False)
    rank = numerical_rank(sizes, COMPUTED)
    left, right = left[:, :rank], right[:rank]
    size = up(operator_norm_up(left) * operator_norm_up(right.T)) + product_error_up(left.T, right)
    return left @ right, up(size)
