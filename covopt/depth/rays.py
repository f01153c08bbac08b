r"""Lower bounds on training with weight decay, by one number s = ⟨ν, F⟩ of the outputs.

The norm of a deep network is at least R(s), R increasing; the loss is at least C_ν(s) = max_p ps − C*(pν), convex. So

.. math:: \min_W C(f_W) + \lambda\|W\|^2 \ge \min_s \max_p\; ps - C^*(p\nu) + \lambda R(s).

Two kinds of R are known:

- **Transport.** A network is Lipschitz with ℓ = Π‖W_ℓ‖, and ‖W‖² ≥ Lℓ^{2/L}. Where ν = Σ t_ij (e_i − e_j) with
  t ≥ 0, s ≤ ℓ Σ t_ij ‖x_i − x_j‖. Without biases f(0) = 0, and mass may also go to the origin.
- **Tree.** A family of multipliers with root ν (:mod:`covopt.depth.tree`) bounds ‖W‖² for every s. Files of before
  have it; now :mod:`covopt.depth.dual_trees` takes several ν, many rows and all outputs.

On a grid of s, R lies above its chords where it is concave (minimum over c of affine functions of s), above its steps
always. On each piece any p is valid; the checker looks for good ones itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from covopt.certificates.conjugate import balanced
from covopt.data import Data
from covopt.depth.dual_trees import DualTree, conjugate_at, dual_bound, dual_tree_from_dict, dual_tree_to_dict
from covopt.depth.families import Family
from covopt.depth.tree import tree_curve
from covopt.depth.tree_files import family_from_dict, family_to_dict, whole
from covopt.exact.rounding import down, lengths_up, up
from covopt.losses import Loss

ORIGIN = -1
_FINE = 120  # points of a grid of s, of p
_COARSE = 10  # of s, where each is a branch and bound
_ZOOMS = 3


@dataclass(frozen=True)
class FitBound:
    """One lower bound on C + λ‖W‖² over networks of depth L.

    Attributes
    ----------
    value : float
    flows : tuple of (int, int, float)
        t_ij of a transport plan; the origin is row −1.
    direction : tuple of float or None
        Unit vector u of the outputs: ν = (Σ t_ij (e_i − e_j))uᵀ. None for one output.
    family : Family or None
        Of the tree bound, in files of before.
    trees : tuple of DualTree
        Duals with a tree for the height of each.

    With none of them it is what the loss alone must be.
    """

    value: float
    flows: tuple[tuple[int, int, float], ...] = ()
    direction: tuple[float, ...] | None = None
    family: Family | None = None
    trees: tuple[DualTree, ...] = ()

    @property
    def title(self) -> str:
        """What it is, in words."""
        if self.family is not None or self.trees:
            seen = {
                i
                for family in (self.family, *(tree.family for tree in self.trees))
                if family
                for i in family.rows
            }
            return f"tree bound on {len(seen)} rows: copies of the lower layers for each neuron"
        if self.flows:
            rows = len({i for flow in self.flows for i in flow[:2] if i != ORIGIN})
            return f"Lipschitz bound by a transport of residuals between {rows} rows"
        return "what the loss alone must be"


@dataclass(frozen=True)
class Curve:
    """R at a grid of s from 0 on; R(s) ≥ the last value beyond it."""

    s: np.ndarray
    r: np.ndarray
    concave: bool


def evaluate(
    bound: FitBound, data: Data, loss: Loss, lam: float, depth: int, output_bias: str, upper: float
) -> float:
    """Return the value of a bound, computed from the data; what the loss alone must be where its conditions fail.

    Parameters
    ----------
    bound : FitBound
    data : Data
    loss : Loss
        With its targets.
    lam : float
    depth : int
    output_bias : {"none", "penalized", "free"}
    upper : float
        The objective of some network: nothing above it is looked for.

    Raises
    ------
    ValueError, IndexError
        Where a family is damaged.
    """
    counted = loss.weights[:, 0] > 0.0  # a row of weight zero costs nothing, whatever its output
    whole_loss, loss = loss, loss if counted.all() else loss.take(counted)
    floor = conjugate_at(loss, np.zeros(loss.targets.shape))
    floor = 0.0 if floor is None else max(0.0, -floor)
    if bound.trees:
        return max(floor, dual_bound(bound.trees, data, whole_loss, lam, depth, output_bias, upper=upper))
    if loss.domain_box() is None:
        bound = _balanced(bound)
    if bound.family is not None:
        family = _of_size_one(bound.family, data.n_outputs)
        nu = _nu_of_family(family, data)
    elif bound.flows:
        plan = _nu_of_flows(bound, data)
        if plan is None:
            return floor
        nu, work = plan
    else:
        return floor
    if nu[~counted].any() or not nu.any():
        return floor
    nu = nu[counted]
    if bound.family is None:  # the curve of a plan costs nothing: look closer where the minimum is
        curve = _closed_curve(work, depth, 2.0 * upper / lam)
        found = least(loss, nu, curve, lam)
        for _ in range(_ZOOMS):
            curve = _zoomed(curve, found[1], lambda s: _closed(s, work, depth))
            found = least(loss, nu, curve, lam)
        return max(floor, found[0])
    sampled = _tree_curve(family, data, nu, loss, lam, depth, output_bias, upper)
    return floor if sampled is None else max(floor, least(loss, nu, sampled, lam)[0])


def least(loss: Loss, nu: np.ndarray, curve: Curve, lam: float) -> tuple[float, float]:
    """Return min over s of max over p of ps − C*(pν) + λR(s) from below, and the s where it is.

    Parameters
    ----------
    loss : Loss
    nu : ndarray of shape (N, k)
    curve : Curve
    lam : float
    """
    low, high = curve.s[:-1], curve.s[1:]
    begin, end = lam * curve.r[:-1], lam * (curve.r[1:] if curve.concave else curve.r[:-1])
    best = np.full(len(low) + 2, -math.inf)

    def use(p: float) -> float:
        conjugate = conjugate_at(loss, p * nu)
        if conjugate is None:
            return -math.inf
        base = -conjugate
        pieces = np.minimum(p * low + begin, p * high + end)
        size = np.maximum(np.abs(p) * high + np.maximum(begin, end), abs(base))
        inner = base + pieces - 2.0**-48 * size
        best[1:-1] = np.maximum(best[1:-1], inner)
        if p <= 0.0:  # s ≤ 0 costs nothing
            best[0] = max(best[0], base)
        if p >= 0.0:  # the last s and beyond
            last = p * curve.s[-1] + lam * curve.r[-1]
            best[-1] = max(best[-1], base + last - 2.0**-48 * (last + abs(base)))
        return base

    use(0.0)
    steepest = _slope_at_zero(use, nu)
    grid = steepest * np.concatenate([np.linspace(0.0, 1.0, _FINE), np.geomspace(1e-6, 1.0, _FINE)])
    for p in grid.tolist():
        use(p)
    for zoom in range(_ZOOMS):  # closer to the p of the piece that is least
        k = int(np.argmin(best))
        span = abs(steepest) / _FINE / 4.0**zoom
        if not 0 < k < len(best) - 1 or span == 0.0:
            break
        s = 0.5 * (low[k - 1] + high[k - 1])
        heights = [
            -math.inf if (c := conjugate_at(loss, p * nu)) is None else p * s - c for p in grid.tolist()
        ]
        center = float(grid[int(np.argmax(heights))])
        for p in np.linspace(center - 2 * span, center + 2 * span, 40).tolist():
            use(p)
    k = int(np.argmin(best))
    where = 0.0 if k == 0 else float(curve.s[-1]) if k == len(best) - 1 else float(low[k - 1])
    return float(best[k]), where


def _slope_at_zero(use: Callable[[float], float], nu: np.ndarray) -> float:
    """Return a p < 0 where −C*(pν) is greatest, nearly: the slope of C_ν at 0; zero where it does not fall there."""
    unit = 1.0 / float(np.abs(nu).max())
    grid = -unit * np.geomspace(1e-12, 1e12, 97)
    for _ in range(4):
        values = [use(p) for p in grid.tolist()]
        k = int(np.argmax(values))
        if not math.isfinite(values[k]):
            return 0.0
        grid = -np.geomspace(-grid[max(k - 1, 0)], -grid[min(k + 1, len(grid) - 1)], 25)
    return float(grid[len(grid) // 2])


def _closed(s: np.ndarray, work: float, depth: int) -> np.ndarray:
    return depth * (s / work) ** (2.0 / depth) * (1.0 - 2.0**-44)


def _closed_curve(work: float, depth: int, most: float) -> Curve:
    """L(s/w)^{2/L} up to where it is ``most``."""
    top = work * (most / depth) ** (depth / 2.0)
    s = np.concatenate([[0.0], top * np.geomspace(1e-9, 1.0, _FINE)])
    return Curve(s, _closed(s, work, depth), True)


def _zoomed(curve: Curve, where: float, at: Callable[[np.ndarray], np.ndarray]) -> Curve:
    """Return a curve with more points about s."""
    k = int(np.searchsorted(curve.s, where))
    low, high = curve.s[max(k - 2, 0)], curve.s[min(k + 2, len(curve.s) - 1)]
    fresh = np.setdiff1d(np.linspace(low, high, 30), curve.s)
    s = np.concatenate([curve.s, fresh])
    order = np.argsort(s)
    return Curve(s[order], np.concatenate([curve.r, at(fresh)])[order], curve.concave)


def _tree_curve(
    family: Family,
    data: Data,
    nu: np.ndarray,
    loss: Loss,
    lam: float,
    depth: int,
    output_bias: str,
    upper: float,
) -> Curve | None:
    """Return the tree bound at some s, up to where λR alone is the objective of a known network."""
    bound_at = tree_curve(family, data.X, depth, data.bias, output_bias, cutoff=upper / lam)
    if bound_at is None:
        return None
    length = 1.0 if family.direction is None else float(lengths_up(np.array(family.direction)[None])[0])

    def evaluate_at(s: float) -> float:
        return bound_at(down(s / length))

    concave = not (output_bias == "penalized" and data.bias > 0.0)
    # up to where the norm alone is nearly all that a known network has
    top, enough = 1.0, 0.99 * upper / lam
    for step in (16.0, 2.0):
        while evaluate_at(top) < enough and top < 1e12:
            top *= step
        while evaluate_at(top / step) >= enough and top > 1e-12:
            top /= step
    s = np.concatenate([[0.0], top * np.geomspace(1e-3, 1.0, _COARSE if concave else 2 * _COARSE)])
    curve = Curve(s, np.array([0.0, *(evaluate_at(v) for v in s[1:].tolist())]), concave)
    for _ in range(_ZOOMS):
        where = least(loss, nu, curve, lam)[1]
        k = int(np.searchsorted(curve.s, where))
        ends = curve.s[max(k - 1, 0)], curve.s[min(k + 2, len(curve.s) - 1)]
        fresh = np.setdiff1d(np.linspace(*ends, 7)[1:-1], curve.s)
        s = np.concatenate([curve.s, fresh])
        order = np.argsort(s)
        r = np.concatenate([curve.r, [evaluate_at(v) for v in fresh.tolist()]])
        curve = Curve(s[order], r[order], concave)
    return curve


def _direction(given: tuple[float, ...] | None, n_outputs: int) -> np.ndarray:
    """Return u times a power of two, its largest entry in [1/2, 1): products with it neither over- nor underflow.

    Raises
    ------
    ValueError
        Where it is no direction of the outputs.
    """
    u = np.ones(1) if given is None else np.array(given)
    if u.shape != (n_outputs,) or not np.isfinite(u).all() or not u.any():
        raise ValueError(f"the direction is none of {n_outputs} outputs")
    return u if given is None else np.ldexp(u, -int(np.frexp(np.abs(u).max())[1]))


def _balanced(bound: FitBound) -> FitBound:
    """Return a bound whose directions sum to zero exactly: C* of the softmax is infinite beside that plane."""
    family, direction = bound.family, bound.direction
    if direction is not None:
        direction = tuple(balanced(np.array(direction)).tolist())
    if family is not None and family.direction is not None:
        family = replace(family, direction=tuple(balanced(np.array(family.direction)).tolist()))
    return replace(bound, family=family, direction=direction)


def _of_size_one(family: Family, n_outputs: int) -> Family:
    """Return a family whose direction is of size one; its λ must be, about."""
    size = float(np.abs(family.members[family.root]).max(initial=0.0))
    if not 1e-100 < size < 1e100:
        raise ValueError(f"the multipliers are of size {size:g}")
    if family.direction is None:
        return family
    return replace(family, direction=tuple(_direction(family.direction, n_outputs).tolist()))


def _nu_of_family(family: Family, data: Data) -> np.ndarray:
    root = family.members[family.root]
    u = _direction(family.direction, data.n_outputs)
    if any(not 0 <= i < data.n_samples for i in family.rows):
        raise ValueError("the rows are not of the table")
    nu = np.zeros((data.n_samples, data.n_outputs))
    nu[list(family.rows)] = root[:, None] * u
    return nu


def _nu_of_flows(bound: FitBound, data: Data) -> tuple[np.ndarray, float] | None:
    """Return ν, rounded once, and Σ t_ij ‖x_i − x_j‖ ‖u‖ from above; None where the plan is none."""
    exact: dict[int, Fraction] = {}
    work = 0.0
    most = max(amount for _, _, amount in bound.flows)
    if not 0.0 < most < math.inf:
        return None
    turns = -math.frexp(most)[1]
    points = np.vstack([data.X, np.zeros(data.n_features)])  # the last is the origin
    for i, j, given in bound.flows:
        if not all(ORIGIN <= end < data.n_samples for end in (i, j)) or not given > 0.0:
            return None
        if ORIGIN in (i, j) and data.bias > 0.0:
            return None
        amount = math.ldexp(given, turns)
        # a difference of doubles errs by a unit of itself
        gap = points[i] - points[j]
        work = up(work + up(amount * up(float(lengths_up(gap[None])[0]) * (1.0 + 2.0**-50))))
        exact[i] = exact.get(i, Fraction(0)) + Fraction(amount)
        exact[j] = exact.get(j, Fraction(0)) - Fraction(amount)
    column = np.zeros(data.n_samples)
    for i, mass in exact.items():
        if i != ORIGIN:
            column[i] = float(mass)
    u = _direction(bound.direction, data.n_outputs)
    if not 0.0 < work < math.inf:
        return None
    return column[:, None] * u, up(work * float(lengths_up(u[None])[0]))


def bound_to_dict(bound: FitBound) -> dict[str, Any]:
    """Return a bound as JSON types."""
    return {
        "value": bound.value,
        "flows": [list(flow) for flow in bound.flows],
        "direction": None if bound.direction is None else list(bound.direction),
        "family": None if bound.family is None else family_to_dict(bound.family),
        "trees": [dual_tree_to_dict(tree) for tree in bound.trees],
    }


def bound_from_dict(content: dict[str, Any]) -> FitBound:
    """Inverse of :func:`bound_to_dict`.

    Raises
    ------
    ValueError, TypeError, LookupError
        Where the content is something else.
    """
    flows = []
    for i, j, amount in content["flows"]:
        flows.append((whole(i), whole(j), float(amount)))
    direction, family = content["direction"], content["family"]
    return FitBound(
        float(content["value"]),
        tuple(flows),
        None if direction is None else tuple(float(u) for u in direction),
        None if family is None else family_from_dict(family),
        tuple(dual_tree_from_dict(tree) for tree in content.get("trees", ())),
    )


def round_flows(flows: list[tuple[int, int, float]]) -> tuple[tuple[int, int, float], ...]:
    """Round amounts to a grid of powers of two on which their sums are exact.

    Parameters
    ----------
    flows : list of (int, int, float)

    Examples
    --------
    >>> round_flows([(0, 1, 1.0), (1, 2, 1e-30)])
    ((0, 1, 1.0),)
    """
    most = max(amount for _, _, amount in flows)
    unit = math.ldexp(1.0, math.frexp(most)[1] - 38)
    rounded = ((i, j, round(amount / unit) * unit) for i, j, amount in flows)
    return tuple((i, j, amount) for i, j, amount in rounded if amount > 0.0)
