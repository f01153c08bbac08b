r"""The tree bound: every neuron gets its own copy of the layers below, and the network becomes a convex problem.

With a(w) = σ(X̃w), let B_1(c) = {√c r g + βs1 : r² + s² ≤ 1, g ∈ conv ±a(w), ‖w‖ ≤ 1} and B_{ℓ+1}(c) likewise with
conv ±σ(B_ℓ(c)). The pre-activations of a neuron u of layer ℓ + 1 lie in ‖u‖ B_ℓ(c) when c_ℓ = ‖W_ℓ‖², by
induction, and ‖u‖² + v² ≥ 2‖u‖|v| for the last two layers, so for one output

.. math::
    R_L \ge \min_{c \in \mathbb{R}_+^{L-2}} \sum_\ell c_\ell + 2\,\tilde\gamma(c), \qquad
    \tilde\gamma(c) = \max_\lambda \langle\lambda, y\rangle / h_{L-1}(\lambda; c),

where h_1(ν) = max_{‖w‖ ≤ 1} |⟨ν, a(w)⟩| is the shallow oracle and h_{ℓ+1}(ν) = max |⟨ν, σ(z)⟩| over z ∈ B_ℓ(c). (The
path norm of E and Wojtowytsch 2020; the Lagrangian dual of Wang, Ergen and Pilanci 2021.)

**Certificate, for every depth at once.** For ±ν and z let T be the rows with ν_i > 0 and z_i > 0. For any 0 ≤ μ ≤ ν⁻,

.. math:: \langle\nu, \sigma(z)\rangle \le \langle\nu_T - \mu, z\rangle, \qquad
    \max_{z \in B_\ell(c)} \langle\nu', z\rangle^2 \le c_\ell\, h_\ell(\nu')^2 + \beta^2 (\nu' \cdot 1)^2,

so one vector μ for each sign and each T bounds h_{ℓ+1}(ν) by h_ℓ of the children ν_T − μ. In a family of
vectors whose
children are multiples of its members, up to a rest δ that costs Σ|δ_i| h_ℓ(e_i), h_1 of the members gives
h_2, h_3, … at every c. log h_ℓ is convex in log c (products, sums, maxima and powers of posynomials are), so
on a box its values at the corners bound it by one exponential, and the minimum over c is bounded box by box.

With a penalised output bias the value is 2⟨λ, y⟩ − β²(λ·1)², λ scaled into the constraint; with a free one λ ⟂ 1.

The least of the tree bound over the sizes c of the layers, certified by branch and bound over boxes of log c.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from covopt.depth.exactly import dot, exactly
from covopt.depth.families import Family, Recursion, along_direction
from covopt.exact.rounding import above, below, down, root_down, up
from covopt.limits import checkpoint

LEAST_SHARE = 1e-7  # of the upper bound: smaller c are charged nothing


def least_over_boxes(terms: list[Any], dim: int, cutoff: float, tol: float, max_boxes: int) -> float:
    """Bound min over c ≥ 0 of Σc + max over terms, by branch and bound over log c."""
    least = LEAST_SHARE * cutoff
    corners = corners_of(dim)

    def below(low: np.ndarray, high: np.ndarray) -> tuple[float, float]:
        """Return a bound on the box, and a value in it."""
        x = low[:, None] + (high - low)[:, None] * corners
        middle = np.exp(0.5 * (low + high))
        best, value = 0.0, 0.0
        for term in terms:
            tops = term.recursion.gauge(np.column_stack([np.exp(x), middle]))
            bottom = term.over(tops[-1:])
            value = max(value, float(middle.sum() + bottom[0]))
            best = max(best, _box_bound(term, x, tops[:-1], low, high))
        return best, value

    start = np.full(dim, math.log(least)), np.full(dim, math.log(cutoff))
    total = branch_and_bound(below, *start, cutoff, tol=tol, most=max_boxes)
    # c below the least is charged nothing; Σc above the cutoff is above it
    return max(0.0, down(min(cutoff, total) - up(2.0 * dim * least)))


def corners_of(dim: int) -> np.ndarray:
    """Return the corners of the unit cube, a column for each."""
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
    """Halve boxes of log c, the one with the least bound first, and return the least bound in the end.

    Parameters
    ----------
    box : callable
        Returns a bound on a box, and a value in it.
    low, high : ndarray of shape (dim,)
    best : float
        Nothing above it is looked for.
    tol : float
        Relative, between the least bound and the least value.
    most : int
        Boxes.
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


def _box_bound(term: Any, x: np.ndarray, tops: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """Σe^x + 2⟨λ, y⟩e^{−log h} − penalty/h² on a box, log h ≤ s·x + r by its corners."""
    if not (tops > 0.0).all():
        return float(np.exp(low).sum()) if term.inner <= 0 else math.inf
    found = 0.0
    if np.isfinite(tops).all():  # a corner of infinite height proves nothing
        s, r = affine_majorant(np.log(tops), x, low, high)
        loss = 0.0
        if term.penalty > 0.0:
            loss = up(term.penalty / down(float(tops.min()) * (1.0 - 1e-12)) ** 2)
        value, size = least_on_box(s, math.log(2.0 * term.inner) - r, low, high)
        found = max(0.0, value - loss - 2.0**-44 * (size + loss))
    if term.penalty > 0.0:  # a smaller multiple of λ, the same on the whole box, pays less for its sum
        fixed = down(float(np.exp(low).sum()) * (1.0 - 2.0**-44) + float(term.over(tops.max()[None])[0]))
        found = max(found, fixed)
    return found


def least_on_box(s: np.ndarray, log_gain: float, low: np.ndarray, high: np.ndarray) -> tuple[float, float]:
    """Bound Σe^x + e^{log_gain − s·x} on a box from below, to rounding of the size that is returned with it.

    The function is convex, so any point gives a lower bound by its tangent.
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
    """Return s ≥ 0 and r with s·x + r above a convex function of x on a box, given its values at the corners x."""
    dim = len(low)
    # the mean rise along each axis is the slope of the majorant
    grid = logs.reshape((2,) * dim)
    rises = [float((grid.take(1, axis=i) - grid.take(0, axis=i)).mean()) for i in range(dim)]
    s = np.maximum(np.array(rises) / (high - low), 0.0)
    return s, float((logs - s @ x).max()) + 1e-13 * (1.0 + float(np.abs(logs).max()))


def minimise(s: np.ndarray, log_gain: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return nearly the minimiser of Σe^x + e^{log_gain − s·x} over a box: bisection on the last term's size."""
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


MOST_LAYERS = 12  # a box of c has 2^{L−2} corners: beyond, the bound is not computed
MOST_NUMBERS = 2**26  # held at once
_EXP_ROOM = 1.0 - 2.0**-44  # exp, log and pow err by less than 4 units each, some thirty of them in a row


def tree_bound(
    families: list[Family],
    X: np.ndarray,
    Y: np.ndarray,
    depth: int,
    bias: float,
    output_bias: str,
    *,
    cutoff: float,
    tol: float = 1e-3,
    max_boxes: int = 20_000,
) -> float:
    """Return a lower bound on R_L by families of multipliers, valid whatever they are.

    Parameters
    ----------
    families : list of Family
        On each box of c the best of them counts.
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N, k)
    depth : int
        L ≥ 2.
    bias : float
    output_bias : {"none", "penalized", "free"}
    cutoff : float
        Σc beyond it need not be looked at: the bound returned is at most this.
    tol : float
        How close to the minimum over c, relatively.
    max_boxes : int

    Returns
    -------
    float

    Raises
    ------
    ValueError
        Where a family is damaged.
    """
    terms = [t for t in (_Term.of(f, X, Y, depth, bias, output_bias) for f in families) if t is not None]
    if not terms:
        return 0.0
    if depth == 2:
        return min(cutoff, max(t.value(np.zeros((0, 1)), np.zeros((0, 1))) for t in terms))
    if bias == 0.0:
        return min(cutoff, max(t.closed_form() for t in terms))
    corners = 2.0 ** (depth - 2)
    if depth > MOST_LAYERS or corners * max(t.recursion.size for t in terms) > MOST_NUMBERS:
        return 0.0
    return least_over_boxes(terms, depth - 2, cutoff, tol, max_boxes)


@dataclass(frozen=True)
class _Term:
    """⟨λ, y⟩ from below, β²(λ·1)² from above, and the recursion of one family."""

    inner: float
    penalty: float
    recursion: Recursion

    @classmethod
    def of(
        cls, family: Family, X: np.ndarray, Y: np.ndarray, depth: int, bias: float, output_bias: str
    ) -> _Term | None:
        rows = list(family.rows)
        if any(not 0 <= i < len(X) for i in rows) or len(set(rows)) != len(rows):
            raise ValueError("the rows are not rows of the table")
        lifted = X[rows] if bias == 0.0 else np.column_stack([X[rows], np.full(len(rows), bias)])
        root = family.members[family.root]
        if len(root) != len(rows):
            raise ValueError("the members speak of another number of rows")
        weights = exactly(root)
        along, length = along_direction(family.direction, Y[rows])
        inner = below(dot(weights, along) / length)
        if not inner > 0.0:
            return None
        total = abs(sum(weights, Fraction(0)))
        if output_bias == "free" and bias > 0.0 and total != 0:
            return None  # what λ·1 misses by, any offset could exploit
        shift = above(total * Fraction(bias))
        penalty = up(shift * shift) if output_bias == "penalized" else 0.0
        return cls(inner, penalty, Recursion(family, lifted, bias, depth))

    def value(self, low: np.ndarray, high: np.ndarray) -> float:
        """Return the bound at depth two, where there is no c."""
        return float(self.over(self.recursion.gauge(high))[0])

    def over(self, tops: np.ndarray) -> np.ndarray:
        """Max of 2t⟨λ, y⟩ − t²·penalty over 0 ≤ t ≤ 1/h from below, h ≤ tops: multiples tλ are multipliers, too."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            t = np.where(tops > 0.0, 1.0 / tops, np.inf)
            if self.penalty > 0.0:
                t = np.minimum(t, self.inner / self.penalty)
            gain = 2.0 * self.inner * t
            loss = t * t * self.penalty if self.penalty > 0.0 else np.zeros_like(t)
        return np.maximum(np.nan_to_num(gain - loss, nan=0.0, neginf=0.0) * _EXP_ROOM - 2.0**-45 * loss, 0.0)

    def closed_form(self) -> float:
        """Min over c of Σc + 2⟨λ, y⟩/(h√Πc) = L(⟨λ, y⟩/h)^{2/L}, where there are no biases."""
        depth = self.recursion.depth
        height = float(self.recursion.gauge(np.ones((depth - 2, 1)))[0])
        if not 0.0 < height < math.inf:
            return 0.0
        return below(depth * Fraction(root_down((Fraction(self.inner) / Fraction(height)) ** 2, depth)))
