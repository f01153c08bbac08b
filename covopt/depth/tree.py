r"""The tree bound: a relaxation in which every neuron has its own copy of the layers below.

With a(w) = σ(X̃w), let B_1(c) = {√c r g + βs1 : r² + s² ≤ 1, g ∈ conv ±a(w), ‖w‖ ≤ 1} and B_{ℓ+1}(c) likewise with
conv ±σ(B_ℓ(c)). By induction, the pre-activations of a neuron u of layer ℓ + 1 lie in ‖u‖ B_ℓ(c) for c_ℓ = ‖W_ℓ‖².
With ‖u‖² + v² ≥ 2‖u‖|v| for the last two layers, for one output

.. math::
    R_L \ge \min_{c \in \mathbb{R}_+^{L-2}} \sum_\ell c_\ell + 2\,\tilde\gamma(c), \qquad
    \tilde\gamma(c) = \max_\lambda \langle\lambda, y\rangle / h_{L-1}(\lambda; c),

where h_1(ν) = max_{‖w‖ ≤ 1} |⟨ν, a(w)⟩| is the shallow oracle and h_{ℓ+1}(ν) = max |⟨ν, σ(z)⟩| over z ∈ B_ℓ(c). (The
path norm of E and Wojtowytsch 2020; the Lagrangian dual of Wang, Ergen and Pilanci 2021.)

**Certificate, for every depth at once.** For ±ν and z let T be the rows with ν_i > 0 and z_i > 0. For any 0 ≤ μ ≤ ν⁻,

.. math:: \langle\nu, \sigma(z)\rangle \le \langle\nu_T - \mu, z\rangle, \qquad
    \max_{z \in B_\ell(c)} \langle\nu', z\rangle^2 \le c_\ell\, h_\ell(\nu')^2 + \beta^2 (\nu' \cdot 1)^2,

so one vector μ for each sign and each T bounds h_{ℓ+1}(ν) by h_ℓ of the children ν_T − μ. Take a family of vectors
whose children are multiples of its members, up to a remainder δ that adds Σ|δ_i| h_ℓ(e_i). Then h_1 of the members
gives h_2, h_3, … at every c. log h_ℓ is convex in log c (like products, sums, maxima and powers of posynomials), so
its values at the corners of a box give an affine upper bound in log c, and the minimum over c is bounded on each box.

With a penalised output bias the value is 2⟨λ, y⟩ − β²(λ·1)² for feasible λ; with a free one λ ⟂ 1.

The minimum over the layer norms c is certified by branch and bound over boxes of log c, here and for fits
(:mod:`covopt.depth.dual_trees`). Interpolation is the case with weight decay 1 and D(p) = p⟨λ, y⟩, minus
p²β²(λ·1)²/4 if the output bias is penalised.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Protocol

import numpy as np

from covopt.exact.rounding import SLIP, down, up
from covopt.limits import checkpoint

LEAST_SHARE = 1e-7  # least c relative to the upper bound, smaller c count as zero; files depend on it
MOST_LAYERS = 12  # largest depth for which the bound is computed: a box of c has 2^{L−2} corners


def corners_of(dim: int) -> np.ndarray:
    """Return the corners of the unit cube, as columns."""
    return np.array(list(product((0.0, 1.0), repeat=dim))).T


def branch_and_bound(
    box: Callable[[np.ndarray, np.ndarray], tuple[float, float]],
    low: np.ndarray,
    high: np.ndarray,
    best: float,
    *,
    tol: float,
    most: int,
) -> float:
    """Minimise over boxes of log c by branch and bound, best bound first, and return the final lower bound.

    Parameters
    ----------
    box : callable
        Returns a lower bound on a box, and a value in it.
    low, high : ndarray of shape (dim,)
    best : float
        A known upper bound on the minimum.
    tol : float
        Relative gap between the least bound and the least value, at which the search ends.
    most : int
        Maximal number of boxes.
    """
    bound, value = box(low, high)
    heap: list[tuple[float, int, Any]] = [(bound, 0, (low, high))]
    best, count = min(best, value), 1
    while count < most and heap[0][0] < best * (1.0 - tol):
        checkpoint()
        bound, _, (low, high) = heapq.heappop(heap)
        axis = int(np.argmax((high - low) * (1.0 + np.exp(0.5 * (low + high)))))
        middle = 0.5 * (low[axis] + high[axis])
        for side in (0, 1):
            lower, upper = low.copy(), high.copy()
            (upper if side == 0 else lower)[axis] = middle
            found, value = box(lower, upper)
            best, count = min(best, value), count + 1
            heapq.heappush(heap, (max(bound, found), count, (lower, upper)))
    return heap[0][0]


class Dual(Protocol):
    """Interface of a dual vector: upper bounds on H(c), lower bounds on D(p) for p = 2λ/H, and a maximiser of D."""

    @property
    def best(self) -> float:
        """An approximate maximiser of D."""

    def heights(self, c: np.ndarray) -> np.ndarray:
        """Return upper bounds on H at the columns of c."""

    def at(self, p: float) -> float:
        """Return a lower bound on D(p); D is concave."""


class Search:
    """Minimise λΣc + D(2λ/H(c)) over c, with the best of several dual vectors on each box of log c.

    Without biases all c_ℓ may be taken equal, by the inequality of arithmetic and geometric means.

    Parameters
    ----------
    duals : sequence of Dual
    lam : float
    depth : int
    bias : float
    upper : float
        The lower bound is not raised beyond it.
    """

    def __init__(self, duals: Sequence[Dual], lam: float, depth: int, bias: float, upper: float) -> None:
        self.duals, self.lam, self.upper = duals, lam, upper
        self.layers = depth - 2
        self.dim = self.layers if bias > 0.0 else 1
        self.weight = self.layers / self.dim  # multiplicity of each coordinate in Σc
        self.corners = corners_of(self.dim)

    def run(self, tol: float, most: int) -> float:
        """Return a lower bound on the minimum over c.

        Parameters
        ----------
        tol : float
            Relative gap between the least bound and the least value, at which the search ends.
        most : int
            Maximal number of boxes.
        """
        cutoff = self.upper / self.lam
        least = LEAST_SHARE * cutoff
        start = np.full(self.dim, math.log(least)), np.full(self.dim, math.log(cutoff) + 1e-9)
        found = branch_and_bound(self._box, *start, self.upper, tol=tol, most=most)
        # smaller c count as zero, which ``lost`` accounts for; beyond the cutoff λΣc exceeds the upper bound
        lost = up(2.0 * self.layers * up(least * self.lam))
        return max(0.0, down(min(self.upper, found) - lost))

    def _box(self, low: np.ndarray, high: np.ndarray) -> tuple[float, float]:
        """Return a lower bound on a box, and a value in it."""
        x = low[:, None] + (high - low)[:, None] * self.corners
        middle = 0.5 * (low + high)
        c = np.exp(np.column_stack([x, middle]))
        if self.dim < self.layers:
            c = np.repeat(c, self.layers, axis=0)
        price = self.lam * self.weight
        best = value = -math.inf
        for dual in self.duals:
            tops = dual.heights(c)
            if not (tops > 0.0).all() or not np.isfinite(tops).all():
                best = max(best, price * float(np.exp(low).sum()) * (1.0 - SLIP) + dual.at(0.0))
                continue
            here = dual.at(min(2.0 * self.lam / float(tops[-1]), dual.best))
            value = max(value, price * float(np.exp(middle).sum()) + here)
            best = max(best, self._bound(dual, x, tops[:-1], low, high))
        return best, value if math.isfinite(value) else math.inf

    def _bound(self, dual: Dual, x: np.ndarray, tops: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
        """Return a lower bound on λΣc + D(2λ/h) on a box for one dual, by its corner value or the chord of D."""
        price = self.lam * self.weight
        least = 2.0 * self.lam / float(tops.max()) * (1.0 - SLIP)
        found = price * float(np.exp(low).sum()) * (1.0 - SLIP) + dual.at(min(least, dual.best))
        s, r = affine_majorant(np.log(tops), x, low, high)
        first = 2.0 * self.lam * math.exp(-float(s @ high) - r) * (1.0 - SLIP)
        last = 2.0 * self.lam * math.exp(-float(s @ low) - r) * (1.0 + SLIP)
        begin, end = dual.at(first), dual.at(last)
        if not (math.isfinite(begin) and end > begin):
            return found
        slope = (end - begin) / (last - first) * (1.0 - SLIP)
        if not slope > 0.0:
            return found
        value, size = least_on_box(s, math.log(2.0 * slope / self.weight) - r, low, high)
        value = price * value + begin - slope * first
        return max(found, value - SLIP * (price * size + abs(begin) + slope * first))


def least_on_box(s: np.ndarray, log_gain: float, low: np.ndarray, high: np.ndarray) -> tuple[float, float]:
    """Return a lower bound on Σe^x + e^{log_gain − s·x} over a box, and the scale of its rounding error.

    The function is convex, so its tangent at any point is a lower bound.
    """
    at = minimise(s, log_gain, low, high)
    rest = math.exp(log_gain - float(s @ at))
    slope = np.exp(at) - s * rest
    tangent = float(np.where(slope > 0, slope * (low - at), slope * (high - at)).sum())
    value = float(np.exp(at).sum()) + rest
    return value + tangent, value + abs(tangent)


def affine_majorant(
    logs: np.ndarray, x: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return s ≥ 0 and r such that s·x + r majorises a convex function on a box, from its values at the corners x."""
    dim = len(low)
    # slope of the majorant: the mean rise along each axis
    grid = logs.reshape((2,) * dim)
    rises = [float((grid.take(1, axis=i) - grid.take(0, axis=i)).mean()) for i in range(dim)]
    s = np.maximum(np.array(rises) / (high - low), 0.0)
    return s, float((logs - s @ x).max()) + 1e-13 * (1.0 + float(np.abs(logs).max()))


def minimise(s: np.ndarray, log_gain: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return an approximate minimiser of Σe^x + e^{log_gain − s·x} over a box, by bisection on the last term."""
    floor, ceiling = log_gain - float(s @ high), log_gain - float(s @ low)
    with np.errstate(divide="ignore"):
        logs = np.log(s)
    for _ in range(60):
        guess = 0.5 * (floor + ceiling)
        x = np.clip(logs + guess, low, high)
        if log_gain - float(s @ x) > guess:
            floor = guess
        else:
            ceiling = guess
    return np.clip(logs + 0.5 * (floor + ceiling), low, high)
