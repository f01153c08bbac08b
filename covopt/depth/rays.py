r"""Lower bounds on training with weight decay by a transport of residuals: one number s = ⟨ν, F⟩ of the outputs.

A network is Lipschitz with ℓ = Π‖W_ℓ‖, and ‖W‖² ≥ Lℓ^{2/L}. Where ν = Σ t_ij (e_i − e_j) with t ≥ 0,
s ≤ ℓ Σ t_ij ‖x_i − x_j‖, so ‖W‖² ≥ R(s) = L(s/Σ t_ij ‖x_i − x_j‖)^{2/L}. Without biases f(0) = 0, and mass may also
go to the origin. The loss is at least C_ν(s) = max_p ps − C*(pν), convex. So

.. math:: \min_W C(f_W) + \lambda\|W\|^2 \ge \min_s \max_p\; ps - C^*(p\nu) + \lambda R(s).

R is concave (L ≥ 2), so on a grid of s it lies above its chords. On each piece any p is valid; the checker looks for
good ones itself. Duals on many rows and outputs are bounded in :mod:`covopt.depth.dual_trees`.
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
from covopt.depth.dual_trees import DualTree, conjugate_at, dual_bound
from covopt.depth.structs import from_json
from covopt.exact.rounding import lengths_up, up
from covopt.losses import Loss

ORIGIN = -1
_FINE = 120  # points of a grid of s, of p
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
    trees : tuple of DualTree
        Duals with a tree for the height of each.

    With none of them it is what the loss alone must be.
    """

    value: float
    flows: tuple[tuple[int, int, float], ...] = ()
    direction: tuple[float, ...] | None = None
    trees: tuple[DualTree, ...] = ()

    @property
    def title(self) -> str:
        """What it is, in words."""
        if self.trees:
            seen = {i for tree in self.trees for i in tree.family.rows}
            return f"tree bound on {len(seen)} rows: copies of the lower layers for each neuron"
        if self.flows:
            rows = len({i for flow in self.flows for i in flow[:2] if i != ORIGIN})
            return f"Lipschitz bound by a transport of residuals between {rows} rows"
        return "what the loss alone must be"


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
    if not bound.flows:
        return floor
    if (
        loss.domain_box() is None and bound.direction is not None
    ):  # C* of the softmax is infinite beside that plane
        bound = replace(bound, direction=tuple(balanced(np.array(bound.direction)).tolist()))
    plan = _nu_of_flows(bound, data)
    if plan is None or plan[0][~counted].any() or not plan[0].any():
        return floor
    nu, work = plan[0][counted], plan[1]
    # up to where the norm alone is more than enough
    top = work * (2.0 * upper / lam / depth) ** (depth / 2.0)
    grid = np.concatenate([[0.0], top * np.geomspace(1e-9, 1.0, _FINE)])
    found, where = least(loss, nu, grid, _curve(grid, work, depth), lam)
    for _ in range(_ZOOMS):  # closer to where the minimum is
        k = int(np.searchsorted(grid, where))
        near = np.linspace(grid[max(k - 2, 0)], grid[min(k + 2, len(grid) - 1)], 30)
        grid = np.union1d(grid, near)
        found, where = least(loss, nu, grid, _curve(grid, work, depth), lam)
    return max(floor, found)


def _curve(s: np.ndarray, work: float, depth: int) -> np.ndarray:
    """L(s/w)^{2/L} from below."""
    return depth * (s / work) ** (2.0 / depth) * (1.0 - 2.0**-44)


def least(loss: Loss, nu: np.ndarray, s: np.ndarray, r: np.ndarray, lam: float) -> tuple[float, float]:
    """Return min over s of max over p of ps − C*(pν) + λR(s) from below, and the s where it is.

    Parameters
    ----------
    loss : Loss
    nu : ndarray of shape (N, k)
    s, r : ndarray
        R from below at a grid of s from 0 on; it is concave, and at least the last value beyond it.
    lam : float
    """
    low, high, begin, end = s[:-1], s[1:], lam * r[:-1], lam * r[1:]
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
            last = p * s[-1] + lam * r[-1]
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
        place = 0.5 * (low[k - 1] + high[k - 1])
        heights = [
            -math.inf if (c := conjugate_at(loss, p * nu)) is None else p * place - c for p in grid.tolist()
        ]
        center = float(grid[int(np.argmax(heights))])
        for p in np.linspace(center - 2 * span, center + 2 * span, 40).tolist():
            use(p)
    k = int(np.argmin(best))
    where = 0.0 if k == 0 else float(s[-1]) if k == len(best) - 1 else float(low[k - 1])
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


def bound_from_dict(content: dict[str, Any]) -> FitBound:
    """Return a bound from what :func:`covopt.depth.structs.to_json` made of it.

    Raises
    ------
    ValueError, TypeError, LookupError
        Where the content is something else.
    """
    if content.get("family") is not None:
        raise ValueError("a bound rests on one family, which is no longer read: fit again")
    bound: FitBound = from_json(FitBound, content)
    return bound


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
