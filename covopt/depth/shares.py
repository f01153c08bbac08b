r"""Three layers: a bound that sees what the tree does not, that all neurons of a sign share the layer below.

Let M = Σ_i a(w_i)a(w_i)ᵀ + β²11ᵀ be the covariance of the first hidden layer, c = Σ‖w_i‖² its cost, u_j and v_j the
weights of neuron j of the second, p_j = |v_j| z_j. Neurons are sorted into groups g by the sign of v_j and, where one
likes, by the rows on which z_j > 0; S_g = Σ_{j∈g} ‖u_j‖|v_j|. Scaled in balance, the network has the norm c + 2ΣS_g,
and ‖W_2‖² without its biases is c, so c ≤ ΣS_g. On a box l ≤ S ≤ u, c_l ≤ c ≤ c_u, with κ_g ≥ (l_g + u_g)/2:

- the chord, 2S_g ≥ (S_g² + l_g u_g)/κ_g, quadratically close as the box shrinks;
- with π_j = ‖u_j‖|v_j|/S_g, S_g²/κ_g ≥ Σ_j p_jᵀM⁻¹p_j/(π_j κ_g) ≥ Σ_j 2⟨ν_j, p_j⟩ − κ_g π_j ν_jᵀMν_j for any ν_j;
- Σ_j ±⟨λ, σ(p_j)⟩ = ⟨λ, y⟩. Let P be the rows with λ ≥ 0 (for neurons with v_j < 0 read −λ). One vector ν_T for each
  T ⊂ P serves all z with {i ∈ P : z_i > 0} = T if ν_i ≥ λ_i on T, ν_i ≤ 0 on P∖T, λ_i ≤ ν_i ≤ 0 elsewhere: then
  ⟨ν_T, p⟩ ≥ ⟨λ, σ(p)⟩. Where T is empty ν = 0 does, in whatever group these neurons are counted.

Σ_j π_j ν_jᵀMν_j is at most the largest of ν_TᵀMν_T over T ∈ g, so with one T_g of each group

.. math::
    \|W\|^2 \ge \sum_g \frac{l_g u_g}{\kappa_g} + 2\langle\lambda, y\rangle + \min_{(T_g)}\ \min_{c \in \{c_l, c_u\}}
    \Bigl[c\,(1 - h^2) - \beta^2 \sum_g \kappa_g (\nu_{T_g} \cdot 1)^2\Bigr], \qquad
    h = \max_{\|w\| \le 1} \bigl\|\bigl(\sqrt{\kappa_g}\,\langle\nu_{T_g}, a(w)\rangle\bigr)_g\bigr\|_2,

h being the shallow oracle for several outputs: M costs c, so Σ_g κ_g ν_gᵀMν_g ≤ c h² + β²Σ_g κ_g (ν_g·1)². The
certificate is a tree of boxes with (λ, ν) at each leaf. Nothing in it is believed. With one group for each sign the
bound may keep a gap; with a group for each sign and T it has none in the limit of small boxes. A penalised output
bias costs β²(λ·1)².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from covopt.depth.exactly import dot, exactly
from covopt.depth.families import along_direction
from covopt.depth.structs import Listed
from covopt.exact.rounding import above, below, lengths_up, total_up
from covopt.limits import checkpoint
from covopt.oracles.support import bound_gauge

DEPTH = 3
MOST_TUPLES = 256
MOST_NODES = 20_000
MOST_ROWS = 6


@dataclass(frozen=True)
class Multipliers(Listed):
    """λ of shape (n,) and one ν for each class, of shape (classes, n)."""

    weights: np.ndarray
    bends: np.ndarray


@dataclass(frozen=True)
class Split(Listed):
    """A box cut in two: along S of a group, or c where ``axis`` is the number of groups."""

    axis: int
    at: float
    left: int
    right: int


@dataclass(frozen=True)
class Shares:
    """A tree of boxes, the first node its root; a leaf is the number of its multipliers, or −1 for none.

    Attributes
    ----------
    rows : tuple of int
        Of the table: the others have multiplier zero.
    direction : tuple of float or None
        The unit vector u of the outputs, Yu being what is bounded; None for one output.
    positive : tuple of bool
        The rows on which λ ≥ 0; on the others λ ≤ 0.
    groups : tuple of tuple of int
        Numbers of classes, in the order of :func:`classes_of`.
    points : list of Multipliers
    nodes : list of Split or int
    """

    rows: tuple[int, ...]
    direction: tuple[float, ...] | None
    positive: tuple[bool, ...]
    groups: tuple[tuple[int, ...], ...]
    points: list[Multipliers]
    nodes: list[Split | int]


@dataclass(frozen=True)
class Box:
    """l ≤ S ≤ u for each group, and an interval of c."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    least: float
    most: float

    @classmethod
    def root(cls, groups: int, cutoff: float) -> Box:
        """Return the box of all networks of norm up to a cutoff: c ≤ ΣS and c + 2ΣS ≤ cutoff."""
        return cls((0.0,) * groups, (above(Fraction(cutoff) / 2),) * groups, 0.0, above(Fraction(cutoff) / 3))

    def halves(self, axis: int, at: float) -> tuple[Box, Box]:
        """Return the two parts of a cut."""
        if axis == len(self.low):
            return (
                Box(self.low, self.high, self.least, min(self.most, at)),
                Box(self.low, self.high, max(self.least, at), self.most),
            )
        high, low = list(self.high), list(self.low)
        high[axis], low[axis] = min(high[axis], at), max(low[axis], at)
        return Box(self.low, tuple(high), self.least, self.most), Box(
            tuple(low), self.high, self.least, self.most
        )

    def clipped(self, cutoff: float) -> Box | None:
        """Return the part with c ≤ ΣS and c + 2ΣS ≤ cutoff; None where there is none."""
        lows = [Fraction(s) for s in self.low]
        room = (Fraction(cutoff) - Fraction(self.least)) / 2 - sum(lows, Fraction(0))
        if room < 0:
            return None
        high = tuple(min(s, above(room + low)) for s, low in zip(self.high, lows, strict=True))
        most = min(
            self.most,
            above(sum(map(Fraction, high), Fraction(0))),
            above(Fraction(cutoff) - 2 * sum(lows, Fraction(0))),
        )
        if most < self.least or any(s < low for s, low in zip(high, self.low, strict=True)):
            return None
        return Box(self.low, high, self.least, most)

    def trivial(self) -> Fraction:
        """Return 2Σl + c_l."""
        return 2 * sum(map(Fraction, self.low), Fraction(0)) + Fraction(self.least)


def classes_of(positive: tuple[bool, ...]) -> list[tuple[int, int]]:
    """Return the pairs (sign of v, T as bits) that need a ν: T a nonempty part of the rows with ±λ ≥ 0."""
    found = []
    for sign in (1, -1):
        own = [i for i, up in enumerate(positive) if up == (sign > 0)]
        for chosen in product((0, 1), repeat=len(own)):
            bits = sum(1 << i for i, bit in zip(own, chosen, strict=True) if bit)
            if bits:
                found.append((sign, bits))
    return found


def limits_of(positive: tuple[bool, ...], weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest ν that a class may have, of shape (classes, n)."""
    kinds = classes_of(positive)
    low, high = np.full((2, len(kinds), len(positive)), np.inf)
    low *= -1.0
    for k, (sign, bits) in enumerate(kinds):
        for i, up in enumerate(positive):
            if bits >> i & 1:
                low[k, i] = sign * weights[i]
            else:
                high[k, i] = 0.0
                if up != (sign > 0):
                    low[k, i] = sign * weights[i]
    return low, high


class Checker:
    """What a certificate's leaves are worth on a table.

    Parameters
    ----------
    shares : Shares
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N, k)
    bias : float
    output_bias : {"none", "penalized"}

    Raises
    ------
    ValueError
        Where the certificate is damaged, or too large.
    """

    def __init__(self, shares: Shares, X: np.ndarray, Y: np.ndarray, bias: float, output_bias: str) -> None:
        rows, n = list(shares.rows), len(shares.rows)
        if any(not 0 <= i < len(X) for i in rows) or len(set(rows)) != n:
            raise ValueError("the rows are not rows of the table")
        if not 0 < n <= MOST_ROWS or len(shares.positive) != n:
            raise ValueError(f"the signs must be those of one to {MOST_ROWS} rows")
        if output_bias not in ("none", "penalized"):
            raise ValueError("shares bound no networks with a free output bias")
        kinds = classes_of(shares.positive)
        if sorted(k for group in shares.groups for k in group) != list(range(len(kinds))):
            raise ValueError("the groups must hold each class once")
        if not all(shares.groups) or math.prod(map(len, shares.groups)) > MOST_TUPLES:
            raise ValueError("the groups are empty or too many")
        for point in shares.points:
            _check_point(point, shares.positive, len(kinds))
        self.shares, self.bias, self.output_bias = shares, bias, output_bias
        self.lifted = X[rows] if bias == 0.0 else np.column_stack([X[rows], np.full(n, bias)])
        self.tuples = list(product(*shares.groups))
        self._lengths = lengths_up(self.lifted)
        self._along, self._length = along_direction(shares.direction, Y[rows])

    def value(self, box: Box, point: Multipliers) -> Fraction:
        """Return a lower bound on the norms of the networks in a box."""
        beta, groups = Fraction(self.bias), len(self.shares.groups)
        roots = [_root_above((Fraction(a) + Fraction(b)) / 2) for a, b in zip(box.low, box.high, strict=True)]
        kappas = [Fraction(d) ** 2 for d in roots]
        chords = zip(box.low, box.high, kappas, strict=True)
        total = sum((Fraction(a) * Fraction(b) / kappa for a, b, kappa in chords if kappa > 0), Fraction(0))
        exact = exactly(point.weights)
        inner = dot(exact, self._along)
        # a length from above makes less of what is positive, and must not of what is negative
        total += 2 * (inner / self._length if inner > 0 else inner)
        if self.output_bias == "penalized":
            total -= (beta * sum(exact, Fraction(0))) ** 2
        shifts = [(beta * sum(exactly(bend))) ** 2 for bend in point.bends]
        worst = None
        for chosen in self.tuples:
            checkpoint()
            height = Fraction(self._height(point.bends[list(chosen)], roots))
            factor = 1 - height**2
            low = min(Fraction(box.least) * factor, Fraction(box.most) * factor)
            low -= sum((kappas[g] * shifts[chosen[g]] for g in range(groups)), Fraction(0))
            worst = low if worst is None else min(worst, low)
        assert worst is not None
        return max(total + worst, box.trivial())

    def _height(self, bends: np.ndarray, roots: list[float]) -> float:
        """Bound h from above."""
        with np.errstate(over="ignore", under="ignore"):
            asked = bends.T * np.array(roots)
        if not np.isfinite(asked).all():
            raise ValueError("the multipliers overflow")
        if not asked.any() and not bends.any():
            return 0.0
        # each product is rounded once, or underflows
        error = total_up(np.maximum(lengths_up(asked) * 2.0**-52, 1e-300), self._lengths)
        return above(Fraction(bound_gauge(self.lifted, asked).value) + Fraction(error))


def shares_bound(
    shares: Shares, X: np.ndarray, Y: np.ndarray, bias: float, output_bias: str, *, cutoff: float
) -> float:
    """Return a lower bound on R_3 by a tree of boxes, valid whatever it holds.

    Parameters
    ----------
    shares : Shares
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N, k)
    bias : float
    output_bias : {"none", "penalized"}
    cutoff : float
        Networks of a larger norm need not be looked at: the bound returned is at most this.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        Where the certificate is damaged.
    """
    if len(shares.nodes) > MOST_NODES or not shares.nodes:
        raise ValueError(f"the tree must have between one and {MOST_NODES} boxes")
    checker = Checker(shares, X, Y, bias, output_bias)
    groups = len(shares.groups)
    least, met = Fraction(cutoff), 0
    waiting = [(0, Box.root(groups, cutoff))]
    while waiting:
        index, whole = waiting.pop()
        met += 1
        if met > len(shares.nodes):
            raise ValueError("a box of the tree is met twice")
        node, box = shares.nodes[index], whole.clipped(cutoff)
        if box is None:
            continue
        if isinstance(node, Split):
            if not (index < node.left < len(shares.nodes) and index < node.right < len(shares.nodes)):
                raise ValueError("the tree of boxes is none")
            if not 0 <= node.axis <= groups or not math.isfinite(node.at):
                raise ValueError("a box is cut nowhere")
            first, second = box.halves(node.axis, node.at)
            waiting += [(node.left, first), (node.right, second)]
        elif 0 <= node < len(shares.points):
            least = min(least, checker.value(box, shares.points[node]))
        else:
            least = min(least, box.trivial())
    return below(least)


def _check_point(point: Multipliers, positive: tuple[bool, ...], kinds: int) -> None:
    n = len(positive)
    if point.weights.shape != (n,) or point.bends.shape != (kinds, n):
        raise ValueError("multipliers are of another shape")
    if not np.isfinite(point.weights).all() or not np.isfinite(point.bends).all():
        raise ValueError("multipliers must be finite")
    if (np.where(positive, point.weights, -point.weights) < 0.0).any():
        raise ValueError("multipliers have other signs than they say")
    low, high = limits_of(positive, point.weights)
    if (point.bends < low).any() or (point.bends > high).any():
        raise ValueError("the multipliers of a class do not bound its part of the outputs")


def _root_above(value: Fraction) -> float:
    """Return a double whose square is not below a number that is not negative."""
    found = math.sqrt(above(value))
    while Fraction(found) ** 2 < value:
        found = math.nextafter(found, math.inf)
    return found
