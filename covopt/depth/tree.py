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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from operator import mul

import numpy as np

from covopt.checks import memory
from covopt.depth.tree_boxes import least_over_boxes
from covopt.exact.rounding import above, allowance, below, dot_bounds, down, gamma, lengths_up, root_down, up
from covopt.oracles.pricing import price

MOST_CORNERS = 2**10  # of a box of c: beyond it the bound is not computed
MOST_NUMBERS = 2**26  # held at once
LAYER_BYTES = 40.0  # of a number of a layer and what is made of it
_LOST = 1e-300  # more than the products of a layer lose where they underflow
_EXP_ROOM = 1.0 - 2.0**-44  # exp, log and pow err by less than 4 units each, some thirty of them in a row


@dataclass(frozen=True)
class Child:
    """One choice of μ for all T from ``on`` to ``on`` with ``maybe``, which are rows as bits.

    ±members[parent] on ``on`` and half of it on ``maybe``, minus μ, is scale·members[member] plus a rest.
    """

    parent: int
    sign: int
    on: int
    mu: tuple[float, ...]
    member: int
    scale: float
    maybe: int = 0


@dataclass(frozen=True)
class Family:
    """Vectors over a few rows of the table, closed under taking children; the first N are the unit vectors.

    Attributes
    ----------
    rows : tuple of int
        Of the table: the others have multiplier zero.
    direction : tuple of float or None
        The unit vector u of the outputs, Yu being what is bounded; None for one output.
    members : ndarray of shape (m, n)
    children : list of Child
    root : int
        λ among the members.
    """

    rows: tuple[int, ...]
    direction: tuple[float, ...] | None
    members: np.ndarray
    children: list[Child]
    root: int


class Recursion:
    """h_{L−1}(λ; c) from above, for many c at once.

    Parameters
    ----------
    family : Family
    lifted : ndarray of shape (n, D)
        The rows (x, β) that the family speaks of.
    bias : float
    depth : int
    roots : sequence of int, optional
        More members whose heights are asked for.

    Raises
    ------
    ValueError
        Where a child is missing, or is none. Members that are reached in L − 2 steps and not before need none.
    """

    def __init__(
        self, family: Family, lifted: np.ndarray, bias: float, depth: int, roots: Sequence[int] = ()
    ) -> None:
        self.family, self.depth = family, depth
        n = len(lifted)
        used = self._check(n, (family.root, *roots))
        self.first = np.array([_gauge(lifted, member) for member in family.members])
        self._targets = np.array([c.member for c in used], dtype=int)
        self._scales = np.array([abs(c.scale) for c in used])
        rests, sums, charges = [], [], []
        for child in used:
            member = child.sign * family.members[child.parent]
            vector = child_of(member, child.on, child.maybe, np.array(child.mu))
            charges.append(0.5 * np.where(rows_of(child.maybe, n), member, 0.0))
            matched = child.scale * family.members[child.member]
            size = np.abs(vector) + np.abs(matched)
            # two roundings in each difference, one in the vector
            rests.append(np.abs(vector - matched) + 4.0 * gamma(1) * size)
            low, high = dot_bounds(vector, np.ones(n))
            sums.append(up(bias * up(max(abs(low), abs(high)) + allowance(n, float(np.abs(vector).sum())))))
        self._rests = np.array(rests).reshape(len(used), n)
        self._shifts = np.array(sums)
        self._charges = np.array(charges).reshape(len(used), n)
        self._charged = bool(self._charges.any())
        self._bias = bias
        parents = np.array([c.parent for c in used], dtype=int)
        order = np.argsort(parents, kind="stable")
        self._order = order
        present, starts = np.unique(parents[order], return_index=True)
        self._present, self._starts = present, starts
        self._n = n

    def _check(self, n: int, roots: tuple[int, ...]) -> list[Child]:
        """Return the children of members that have them all: all signs and all sets of positive rows."""
        members = self.family.members
        if members.shape[1] != n or len(members) < n or not np.array_equal(members[:n], np.eye(n)):
            raise ValueError("the first members must be the unit vectors of the rows")
        if not all(0 <= root < len(members) for root in roots):
            raise ValueError("the root is none of the members")
        found: list[list[Child]] = [[] for _ in members]
        positive = {sign: [bits(sign * member > 0.0) for member in members] for sign in (1, -1)}
        for child in self.family.children:
            k, sign = child.parent, child.sign
            if sign not in positive or not 0 <= k < len(members) or not 0 <= child.member < len(members):
                continue
            mu, rows = np.array(child.mu), child.on | child.maybe
            if child.on < 0 or child.maybe < 0 or rows & ~positive[sign][k] or mu.shape != (n,):
                continue
            room = np.maximum(-sign * members[k], 0.0)
            if (mu >= 0.0).all() and (mu <= room).all() and np.isfinite(child.scale):
                found[k].append(child)

        def complete(k: int) -> bool:
            sides = ([c for c in found[k] if c.sign == sign] for sign in (1, -1))
            return all(
                covers([(c.on, c.maybe) for c in side], positive[sign][k])
                for sign, side in zip((1, -1), sides, strict=True)
            )

        layer, seen = {*range(n), *roots}, set[int]()
        for _ in range(self.depth - 2):
            lacking = [k for k in sorted(layer) if not complete(k)]
            if lacking:
                raise ValueError(f"children are missing or invalid, those of {len(lacking)} vectors")
            seen |= layer
            layer = {child.member for k in layer for child in found[k]} - seen
        self._endless = np.array([k not in seen for k in range(len(members))])
        return [child for k in sorted(seen) for child in found[k]]

    @property
    def size(self) -> int:
        """Numbers of one layer of the recursion at one point."""
        return len(self._order) + len(self.first)

    def gauge(self, c: np.ndarray) -> np.ndarray:
        """Bound h_{L−1}(λ; c) from above.

        Parameters
        ----------
        c : ndarray of shape (L − 2, m)
            A column for each point.

        Returns
        -------
        ndarray of shape (m,)
        """
        return self.heights(c, np.array([self.family.root]))[0]

    def heights(self, c: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Bound h_{L−1}(ν; c) from above for some members, a row for each.

        Parameters
        ----------
        c : ndarray of shape (L − 2, m)
        which : ndarray of int
            Unit vectors, the root, or among the ``roots``.
        """
        count = c.shape[1]
        whole = LAYER_BYTES * self.size * count
        step = max(1, count * int(memory.room(whole)) // max(int(whole), 1))
        if step < count:  # what a machine has no room for goes in pieces
            parts = [self.heights(c[:, at : at + step], which) for at in range(0, count, step)]
            return np.concatenate(parts, axis=1)
        heights = np.repeat(self.first[:, None], count, axis=1)
        room = 1.0 + gamma(2 * self._n + 16)
        shifts = self._shifts[:, None]
        for ell in range(self.depth - 2):
            with np.errstate(over="ignore", invalid="ignore"):
                values = self._scales[:, None] * heights[self._targets] + self._rests @ heights[: self._n]
                root = np.sqrt(c[ell])
                sizes = np.hypot(root * values, shifts)
                if self._charged:
                    sizes = sizes + self._charges @ np.hypot(root * heights[: self._n], self._bias)
            # 0·∞ is not known to be small; what underflowed is above zero
            sizes = np.where(np.isnan(sizes), np.inf, sizes) + _LOST
            # a member that nothing is known of any more
            fresh = np.where(self._endless[:, None], np.inf, np.zeros_like(heights))
            fresh[self._present] = np.maximum.reduceat(sizes[self._order], self._starts, axis=0) * room
            heights = fresh
        return np.where(np.isnan(heights[which]), np.inf, heights[which])


def bits(rows: np.ndarray) -> int:
    """Return the rows as bits of one number."""
    return sum(1 << int(i) for i in np.flatnonzero(rows))


def needs(member: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield the signs and the sets T (as bits) for which a vector must have a child."""
    for sign in (1, -1):
        positive = np.flatnonzero(sign * member > 0.0)
        for chosen in product((0, 1), repeat=len(positive)):
            on = sum(1 << int(i) for i, bit in zip(positive, chosen, strict=True) if bit)
            if on:
                yield sign, on


def rows_of(on: int, n: int) -> np.ndarray:
    """Return which of n rows are among the bits of a number."""
    return np.array([on >> i & 1 for i in range(n)], dtype=bool)


def child_of(vector: np.ndarray, on: int, maybe: int, mu: np.ndarray) -> np.ndarray:
    """Return ν on the rows ``on`` and half of it on ``maybe``, minus μ."""
    n = len(vector)
    return np.where(rows_of(on, n), vector, np.where(rows_of(maybe, n), 0.5 * vector, 0.0)) - mu


def covers(cubes: list[tuple[int, int]], rows: int) -> bool:
    """Return whether every nonempty set of ``rows`` lies between ``on`` and ``on`` with ``maybe`` of some cube.

    Examples
    --------
    >>> covers([(0b01, 0b10), (0b10, 0)], 0b11), covers([(0b01, 0b10)], 0b11)
    (True, False)
    """
    stack = [(cubes, rows, True)]
    left = 4 * (len(cubes) + 1) * (rows.bit_count() + 1)  # more than any list needs that was cut row by row
    while stack:
        left -= 1
        here, rest, empty = stack.pop()  # sets that agree on the rows that are not in the rest
        if any(rest & ~maybe == 0 for _, maybe in here) or (rest == 0 and empty):
            continue
        if not here or left < 0:
            return False
        row = rest & -rest
        stack.append(([cube for cube in here if not cube[0] & row], rest & ~row, empty))
        stack.append(([cube for cube in here if (cube[0] | cube[1]) & row], rest & ~row, False))
    return True


def exactly(values: np.ndarray) -> list[Fraction]:
    """Return doubles as fractions."""
    return [Fraction(value) for value in values.tolist()]


def _gauge(lifted: np.ndarray, member: np.ndarray) -> float:
    """h_1 from above, by the public oracle."""
    return price(lifted, member).upper_bound


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
    if corners > MOST_CORNERS or corners * max(t.recursion.size for t in terms) > MOST_NUMBERS:
        return 0.0
    return least_over_boxes(terms, depth - 2, cutoff, tol, max_boxes)


def tree_curve(
    family: Family,
    X: np.ndarray,
    depth: int,
    bias: float,
    output_bias: str,
    *,
    cutoff: float,
    tol: float = 3e-3,
    max_boxes: int = 400,
) -> Callable[[float], float] | None:
    """Return the function s ↦ lower bound on ‖W‖² of networks with ⟨λ, f(X)u⟩ ≥ s‖u‖ > 0; None where there is none.

    Parameters
    ----------
    family : Family
        Its root is λ.
    X : ndarray of shape (N, d)
    depth : int
        L ≥ 3.
    bias : float
    output_bias : {"none", "penalized", "free"}
    cutoff : float
        No larger value is looked for.
    tol, max_boxes : float, int
        As in :func:`tree_bound`.

    Raises
    ------
    ValueError
        Where the family is damaged.
    """
    outputs = 1 if family.direction is None else len(family.direction)
    targets = np.zeros((len(X), outputs))
    rows = [i for i in family.rows if 0 <= i < len(X)]
    root = family.members[family.root]
    if len(rows) != len(root):
        raise ValueError("the rows are not rows of the table")
    targets[rows] = root[:, None] * (1.0 if family.direction is None else np.array(family.direction))
    term = _Term.of(family, X, targets, depth, bias, output_bias)
    corners = 2.0 ** (depth - 2)
    if term is None or corners > MOST_CORNERS or corners * term.recursion.size > MOST_NUMBERS:
        return None

    def at(s: float) -> float:
        asked = replace(term, inner=s)
        if bias == 0.0:
            return min(cutoff, asked.closed_form())
        return least_over_boxes([asked], depth - 2, cutoff, tol, max_boxes)

    return at


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
        weights, length = exactly(root), 1.0
        if family.direction is None:
            if Y.shape[1] != 1:
                raise ValueError("a direction of the outputs is missing")
            along = exactly(Y[rows, 0])
        else:
            u = np.array(family.direction)
            if u.shape != (Y.shape[1],) or not np.isfinite(u).all() or not u.any():
                raise ValueError(f"the direction is none of {Y.shape[1]} outputs")
            u = np.ldexp(u, -int(np.frexp(np.abs(u).max())[1]))
            length = float(lengths_up(u[None])[0])
            along = [sum(map(mul, exactly(row), exactly(u)), Fraction(0)) for row in Y[rows]]
        inner = down(below(sum(map(mul, weights, along), Fraction(0))) / length)
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
