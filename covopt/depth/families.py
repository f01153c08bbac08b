"""Families of multipliers that are closed under taking children, and the recursion that bounds their heights.

:mod:`covopt.depth.tree` has the proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from covopt.checks import memory
from covopt.depth.structs import Listed
from covopt.exact.rounding import TINY, allowance, dot_bounds, gamma, up
from covopt.oracles.pricing import price

LAYER_BYTES = 40.0  # bytes per entry of a layer, temporaries included


@dataclass(frozen=True)
class Child(Listed):
    """One choice of μ for all sets T of rows with ``on`` ⊂ T ⊂ ``on`` ∪ ``maybe`` (sets of rows as bits).

    ±members[parent] on ``on``, half of it on ``maybe``, minus μ, equals scale·members[member] up to a remainder.
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
    """Vectors on n rows of the table, closed under taking children; the first n are the unit vectors.

    Attributes
    ----------
    members : ndarray of shape (m, n)
    children : list of Child
    """

    members: np.ndarray
    children: list[Child]


@dataclass(frozen=True)
class DualTree:
    """Dual variables on some rows, and a family that bounds their height in all directions of the outputs.

    Attributes
    ----------
    rows : tuple of int
    dual : ndarray of shape (n, k)
        N on these rows; it is zero on the others.
    directions : ndarray of shape (m, k)
        The directions w_m.
    family : Family
        Has a multiple of each N w_m among its members, up to a remainder.
    places : tuple of (int, float)
        For each direction the index of that member and the factor.
    """

    rows: tuple[int, ...]
    dual: np.ndarray
    directions: np.ndarray
    family: Family
    places: tuple[tuple[int, float], ...]


class Recursion:
    """Upper bounds on h_{L−1}(ν; c) of the members ν of a family, for many c at once.

    Parameters
    ----------
    family : Family
    lifted : ndarray of shape (n, D)
        The rows (x, β) of the family.
    bias : float
    depth : int
    roots : sequence of int
        Indices of the members whose heights are needed, besides the unit vectors.

    Raises
    ------
    ValueError
        If a child is missing or invalid. Members that are first reached after L − 2 steps need no children.
    """

    def __init__(
        self, family: Family, lifted: np.ndarray, bias: float, depth: int, roots: Sequence[int]
    ) -> None:
        self.family, self.depth = family, depth
        n = len(lifted)
        used = self._check(n, roots)
        self.first = np.array([_dual_norm(lifted, member) for member in family.members])
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

    def _check(self, n: int, roots: Sequence[int]) -> list[Child]:
        """Return the children of the members that have a child for each sign and each set of positive rows."""
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
        """Number of entries that one layer of the recursion takes at one c."""
        return len(self._order) + len(self.first)

    def heights(self, c: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Return upper bounds on h_{L−1}(ν; c), one row for each member ν in ``which``.

        Parameters
        ----------
        c : ndarray of shape (L − 2, m)
        which : ndarray of int
            Indices of unit vectors or of ``roots``.
        """
        count = c.shape[1]
        whole = LAYER_BYTES * self.size * count
        step = max(1, count * int(memory.room(whole)) // max(int(whole), 1))
        if step < count:  # split columns that do not fit into memory together
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
            # treat 0·∞ as ∞; add TINY for underflow
            sizes = np.where(np.isnan(sizes), np.inf, sizes) + TINY
            # members without children have no bound from here on
            fresh = np.where(self._endless[:, None], np.inf, np.zeros_like(heights))
            fresh[self._present] = np.maximum.reduceat(sizes[self._order], self._starts, axis=0) * room
            heights = fresh
        return np.where(np.isnan(heights[which]), np.inf, heights[which])


def bits(rows: np.ndarray) -> int:
    """Return a set of rows as the bits of an integer."""
    return sum(1 << int(i) for i in np.flatnonzero(rows))


def needs(member: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield the pairs of a sign and a set T (as bits) for which a vector must have a child."""
    for sign in (1, -1):
        positive = np.flatnonzero(sign * member > 0.0)
        for chosen in product((0, 1), repeat=len(positive)):
            on = sum(1 << int(i) for i, bit in zip(positive, chosen, strict=True) if bit)
            if on:
                yield sign, on


def rows_of(on: int, n: int) -> np.ndarray:
    """Return the mask of n rows for a set of rows given as bits."""
    return np.array([on >> i & 1 for i in range(n)], dtype=bool)


def child_of(vector: np.ndarray, on: int, maybe: int, mu: np.ndarray) -> np.ndarray:
    """Return the child: ν on the rows ``on``, half of it on ``maybe``, minus μ."""
    n = len(vector)
    return np.where(rows_of(on, n), vector, np.where(rows_of(maybe, n), 0.5 * vector, 0.0)) - mu


def covers(cubes: list[tuple[int, int]], rows: int) -> bool:
    """Return whether each nonempty subset T of ``rows`` has a cube with ``on`` ⊂ T ⊂ ``on`` ∪ ``maybe``.

    Examples
    --------
    >>> covers([(0b01, 0b10), (0b10, 0)], 0b11), covers([(0b01, 0b10)], 0b11)
    (True, False)
    """
    stack = [(cubes, rows, True)]
    left = 4 * (len(cubes) + 1) * (rows.bit_count() + 1)  # enough for every list made by splitting row by row
    while stack:
        left -= 1
        here, rest, empty = stack.pop()  # the sets that agree on the rows outside of rest
        if any(rest & ~maybe == 0 for _, maybe in here) or (rest == 0 and empty):
            continue
        if not here or left < 0:
            return False
        row = rest & -rest
        stack.append(([cube for cube in here if not cube[0] & row], rest & ~row, empty))
        stack.append(([cube for cube in here if (cube[0] | cube[1]) & row], rest & ~row, False))
    return True


def _dual_norm(lifted: np.ndarray, member: np.ndarray) -> float:
    """Return an upper bound on h_1, by the public oracle."""
    return price(lifted, member).upper_bound
