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
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from covopt.depth.exactly import dot, exactly
from covopt.depth.families import Family, Recursion, along_direction
from covopt.depth.tree_boxes import least_over_boxes
from covopt.exact.rounding import above, below, root_down, up

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
