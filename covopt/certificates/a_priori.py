r"""Lower bounds on the norm of every shallow network through the points, at the cost of reading the data.

Each is the value of an explicit dual point Λ whose h(Λ) = max_{‖w‖=1} ‖Λᵀσ(X̃w)‖ is bounded by hand:

- two points: Λ = ±(e_i − e_j) uᵀ has h ≤ ‖x_i − x_j‖, since the ReLU is 1-Lipschitz and the bias cancels;
- one point: Λ = e_i uᵀ has h = ‖x̃_i‖;
- nuclear norm: Y = UΣVᵀ, Λ = UVᵀ has h ≤ max ‖σ(X̃w)‖ ≤ ‖X̃‖ (linear networks attain 2‖Y‖_*/‖X̃‖ where X̃ is a
  multiple of an isometry);
- the targets themselves, Λ = Y, with the bound of :func:`covopt.oracles.bounds.gauge_bound`.

The first is the root of a fraction. The values of the others are those of dual points in doubles, enclosed as in all
certificates (:mod:`covopt.certificates.conjugate`): targets far from zero, whose products with a centred Λ cancel,
cost what they lose.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from covopt.exact.rounding import below, gamma, lengths_up, operator_norm_up, root_down, up
from covopt.losses import Interpolation
from covopt.oracles.bounds import gauge_bound
from covopt.problems.problem import Problem


@dataclass(frozen=True)
class APrioriBound:
    """A lower bound on ‖W‖².

    Attributes
    ----------
    name : str
    value : float
        In the user's units, rounding taken off.
    source : str
        The statement behind it, with the rows that it is attained at.
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
    lifted, within, raised = _exponent(data.lifted), _exponent(data.X), _exponent(data.Y)
    rows, targets, inputs = (
        np.ldexp(part[kept], -by) for part, by in ((data.lifted, lifted), (data.Y, raised), (data.X, within))
    )
    offset_cost = {"none": np.inf, "free": 0.0}.get(output_bias)
    if offset_cost is None:
        offset_cost = _offset_cost(data.bias, raised + lifted)
    problem = Problem.through(rows, targets, offset_cost)
    if not targets.any():
        return [APrioriBound("zero", 0.0, "the targets vanish")]
    steep = _two_points(inputs, targets, kept)
    bounds = []
    if output_bias != "free":
        bounds.append(_one_point(problem, kept))
    bounds.append(_nuclear(problem))
    centred = problem.project_dual(targets)
    if centred.any():
        gauge = gauge_bound(rows, centred[:, 0] if targets.shape[1] == 1 else centred)
        source = "the dual point Λ = Y with a relaxed bound on h(Λ)"
        bounds.append(APrioriBound("targets", _of_dual(problem, centred, gauge), source))
    found = [_in_units(steep, raised - within), *(_in_units(bound, raised - lifted) for bound in bounds)]
    return sorted(found, key=lambda bound: -bound.value)


def _in_units(bound: APrioriBound, exponent: int) -> APrioriBound:
    """Multiply by a power of two; a bound beyond the largest double becomes that."""
    with np.errstate(over="ignore", under="ignore"):
        value = min(float(np.ldexp(bound.value, exponent)), float(np.finfo(float).max))
    return replace(bound, value=value)


def _offset_cost(bias: float, exponent: int) -> float:
    """Return 1/β² times a power of two, far from over- and underflow: what is beyond 1e±300 makes no difference."""
    if bias == 0:
        return np.inf
    mantissa, shift = np.frexp(bias)
    with np.errstate(over="ignore", under="ignore"):
        return float(np.clip(np.ldexp(1.0 / mantissa**2, exponent - 2 * int(shift)), 1e-300, 1e300))


def _exponent(values: np.ndarray) -> int:
    return int(np.frexp(np.abs(values).max(initial=0.0))[1])


def _of_dual(problem: Problem, point: np.ndarray, gauge: float) -> float:
    """Bound twice the value of the best multiple of a dual point from below; h(Λ) is at most ``gauge``."""
    loss = Interpolation.of(problem.targets)
    free = problem.has_offset and problem.offset_cost == 0
    if free:
        given, point = point, balanced(point)
        every, reach = np.arange(len(point)), lengths_up(problem.rows)
        gauge = up(gauge + moving_up((given, None), 1.0, (point, None), every, reach))
    bias = 0.0
    if problem.has_offset and not free:
        bias = up(float(1.0 / np.sqrt(problem.offset_cost)) * (1.0 + gamma(8)))
    return below(2 * dual_bound(loss, point, 1.0, gauge, bias=bias))


def _two_points(inputs: np.ndarray, targets: np.ndarray, kept: np.ndarray) -> APrioriBound:
    best, pair = 0.0, (0, 0)
    for block in blocks(inputs, inputs.T):
        apart, change = cdist(inputs[block], inputs), cdist(targets[block], targets)
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


def _one_point(problem: Problem, kept: np.ndarray) -> APrioriBound:
    lengths, sizes = (np.linalg.norm(table, axis=1) for table in (problem.rows, problem.targets))
    with np.errstate(all="ignore"):  # chosen in floats; what it proves is computed below
        steps = 1.0 / lengths
        if problem.has_offset:
            steps = np.minimum(steps, problem.offset_cost * sizes)
        values = steps * sizes - 0.5 * steps**2 / problem.offset_cost
    best = int(np.argmax(np.where(np.isfinite(values), values, 0.0)))
    point = np.zeros_like(problem.targets)
    point[best] = problem.targets[best]
    gauge = up(float(lengths_up(point)[best] * lengths_up(problem.rows)[best]))
    return APrioriBound(
        "one point", _of_dual(problem, point, gauge), f"a network through row {int(kept[best])} alone"
    )


def _nuclear(problem: Problem) -> APrioriBound:
    targets = problem.targets
    source = "2 ‖Y‖_* / ‖X̃‖" + (" with centred targets" if problem.has_offset else "")
    if problem.has_offset:  # Λᵀ1 = 0 suits the penalised and the free offset
        targets = targets - targets.mean(axis=0)
    left, sizes, right = np.linalg.svd(targets, full_matrices=False)
    rank = numerical_rank(sizes, COMPUTED)
    if not rank:
        return APrioriBound("nuclear norm", 0.0, source)
    left, right = left[:, :rank], right[:rank]
    size = up(operator_norm_up(left) * operator_norm_up(right.T)) + product_error_up(left.T, right)
    value = _of_dual(problem, left @ right, up(up(size) * float(singular_values_between(problem.rows)[1][0])))
    return APrioriBound("nuclear norm", value, source)
