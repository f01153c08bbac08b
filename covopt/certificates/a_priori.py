r"""Lower bounds on the norm of every shallow network through the points, at the cost of reading the data.

Each is the value of an explicit dual point Λ whose h(Λ) = max_{‖w‖=1} ‖Λᵀσ(X̃w)‖ is bounded by hand:

- two points: Λ = ±(e_i − e_j) uᵀ has h ≤ ‖x_i − x_j‖, since the ReLU is 1-Lipschitz and the bias cancels;
- one point: Λ = e_i uᵀ has h = ‖x̃_i‖;
- nuclear norm: Y = UΣVᵀ, Λ = UVᵀ has h ≤ max ‖σ(X̃w)‖ ≤ ‖X̃‖ (linear networks attain 2‖Y‖_*/‖X̃‖ where X̃ is a
  multiple of an isometry);
- the targets themselves, Λ = Y, with the bound of :func:`covopt.oracles.bounds.gauge_bound`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from covopt.checks.validation import check_choice
from covopt.data import Data
from covopt.exact.rounding import allowance
from covopt.oracles.bounds import gauge_bound
from covopt.problems.shallow import ShallowProblem

CHUNK = 512


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
    down, within, up = _exponent(data.lifted), _exponent(data.X), _exponent(data.Y)
    rows, targets, inputs = (
        np.ldexp(part[kept], -by) for part, by in ((data.lifted, down), (data.Y, up), (data.X, within))
    )
    offset_cost = {"none": np.inf, "free": 0.0}.get(output_bias)
    if offset_cost is None:
        offset_cost = _offset_cost(data.bias, up + down)
    problem = ShallowProblem(rows, targets, offset_cost)
    if not targets.any():
        return [APrioriBound("zero", 0.0, "the targets vanish")]
    steep = _two_points(inputs, targets, kept)
    bounds = []
    if output_bias != "free":
        bounds.append(_one_point(rows, targets, kept, offset_cost))
    bounds.append(_nuclear(problem))
    centred = problem.project_dual(targets)
    if centred.any():
        value = problem.scale_dual(
            centred, gauge_bound(rows, centred[:, 0] if targets.shape[1] == 1 else centred)
        )[1]
        bounds.append(_bound("targets", value, targets, "the dual point Λ = Y with a relaxed bound on h(Λ)"))
    found = [_in_units(steep, up - within), *(_in_units(bound, up - down) for bound in bounds)]
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


def _bound(name: str, value: float, targets: np.ndarray, source: str) -> APrioriBound:
    """Double the primal value, take the rounding of sums of the targets' size off."""
    rounding = 16.0 * (targets.size + 16) * float(np.finfo(float).eps)
    return APrioriBound(name, max(0.0, 2.0 * value * (1.0 - rounding)), source)


def _two_points(inputs: np.ndarray, targets: np.ndarray, kept: np.ndarray) -> APrioriBound:
    best, pair = 0.0, (0, 0)
    for start in range(0, len(inputs), CHUNK):
        stop = start + CHUNK
        apart = cdist(inputs[start:stop], inputs)
        change = cdist(targets[start:stop], targets)
        slopes = np.divide(change, apart, out=np.zeros_like(apart), where=apart > 0)
        i, j = np.unravel_index(int(slopes.argmax()), slopes.shape)
        if slopes[i, j] > best:
            best, pair = float(slopes[i, j]), (int(kept[start + i]), int(kept[j]))
    source = (
        f"2 |y_i − y_j| / |x_i − x_j| at rows {pair[0]} and {pair[1]}: the network is that steep somewhere"
    )
    return _bound("two points", best, targets[:1], source)


def _one_point(rows: np.ndarray, targets: np.ndarray, kept: np.ndarray, offset_cost: float) -> APrioriBound:
    lengths, sizes = np.linalg.norm(rows, axis=1), np.linalg.norm(targets, axis=1)
    steps = 1.0 / lengths
    values = sizes * steps
    if not np.isinf(offset_cost):
        steps = np.minimum(steps, offset_cost * sizes)
        values = steps * sizes - 0.5 * steps**2 / offset_cost
    best = int(values.argmax())
    source = f"a network through row {int(kept[best])} alone"
    return _bound("one point", float(values[best]), targets[:1], source)


def _nuclear(problem: ShallowProblem) -> APrioriBound:
    targets = problem.targets
    if problem.has_offset:  # Λᵀ1 = 0 suits the penalised and the free offset
        targets = targets - targets.mean(axis=0)
    largest = float(np.linalg.norm(problem.rows, 2))
    # centring is rounded in units of the targets as they were
    moved = allowance(len(targets), float(np.linalg.norm(problem.targets))) * np.sqrt(targets.size)
    value = max(0.0, float(np.linalg.norm(targets, "nuc")) - moved) / largest
    source = "2 ‖Y‖_* / ‖X̃‖" + (" with centred targets" if problem.has_offset else "")
    return _bound("nuclear norm", value, targets, source)
