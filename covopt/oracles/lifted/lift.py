r"""The lifted cone of a neuron: products of the linear inequalities that a direction and its activations obey.

A unit direction w has the length t = 1 and on the rows R that are left undecided the activations

    p = σ(Z_R w) ≥ 0,      q = p − Z_R w = σ(−Z_R w) ≥ 0,      p∘q = 0,      p + q ≤ t  (rows of length one).

On the other rows the sign is given: the direction lies in their cone, d = ±z·w ≥ 0, and their activation is
linear in w. Products of these inequalities are linear in the second moments of u = (t, w, p), which turns
the maximum over neurons into a semidefinite program (theory: the doubly-nonnegative relaxation; eliminating q is the
facial reduction). This file knows which lines and products there are; it solves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from covopt.exact.definite import product_error_up
from covopt.exact.rounding import allowance, down, up

LEVELS = ("plain", "signed", "length", "cone")
SHORT = 0.25  # the lines t − p − q are scaled by it: first-order methods take half as many steps


@dataclass(frozen=True)
class Region:
    """A cone of directions, and the sign of the outputs that are looked at there.

    Attributes
    ----------
    signs : ndarray of shape (n + e,), int8
        1 and −1 where the side of a row is given, 0 where it is open; the last e belong to extra hyperplanes.
    sign : int
        1 or −1: F, resp. −F, of a scalar dual is bounded; 0: the norm of F, both signs at once.
    """

    signs: np.ndarray
    sign: int

    @property
    def key(self) -> tuple[bytes, int]:
        """Equal for equal regions, however many further hyperplanes there are by now."""
        return self.signs.tobytes().rstrip(b"\0"), self.sign

    def split(self, row: int) -> list[Region]:
        """Return the two halves on either side of a row."""
        halves = []
        for side in (1, -1):
            signs = self.signs.copy()
            signs[row] = side
            halves.append(Region(signs, self.sign))
        return halves


class Lift:
    """Lines of one region, as linear forms of u = (t, w, p), and the products that are known to be nonnegative.

    Parameters
    ----------
    rows : ndarray of shape (n + e, r)
        Of length one; the last e are extra hyperplanes that carry no dual.
    n_rows : int
        n.
    region : Region
    level : {"plain", "signed", "length", "cone"}
        Products among p, q and d only; also t·p and t·q, one sign of F at a time; also the lines t − p − q;
        also the second-order cone ‖w‖ ≤ t times every line.

    Attributes
    ----------
    forms : ndarray of shape (L, 1 + r + m)
        The lines, in the order t, p, q, d, t − p − q (t without weight and the last only where the level has them).
    activation : ndarray of shape (n, 1 + r + m)
        σ(z_i·w) as a linear form of u.
    line_of : ndarray of shape (n,)
        The line that is the activation of row i; −1 where it vanishes.
    products : ndarray of shape (L, L), bool
        Pairs whose product is nonnegative.
    needed : ndarray of shape (L, L), bool
        Those of them that are not sums of others.
    pairs : (ndarray, ndarray)
        Lines p_i and q_i, whose product is zero.

    Examples
    --------
    >>> lift = Lift(np.eye(2), 2, Region(np.array([0, 1], dtype=np.int8), 1), "length")
    >>> lift.forms.shape, lift.line_of
    ((5, 4), array([1, 3]))
    """

    def __init__(self, rows: np.ndarray, n_rows: int, region: Region, level: str):
        self.rows, self.region, self.level, self.rank = rows, region, level, rows.shape[1]
        rank, signs = self.rank, region.signs
        self.open = np.flatnonzero(signs[:n_rows] == 0)
        given = np.flatnonzero(signs)
        m = len(self.open)
        self.size = 1 + rank + m
        length = np.zeros((1, self.size))
        length[0, 0] = 1.0
        self.has_length = level in ("length", "cone") or region.sign != 0
        p = np.zeros((m, self.size))
        p[np.arange(m), 1 + rank + np.arange(m)] = 1.0
        q = p.copy()
        q[:, 1 : 1 + rank] -= rows[self.open]
        d = np.zeros((len(given), self.size))
        d[:, 1 : 1 + rank] = signs[given, None] * rows[given]
        lines = [length, p, q, d]
        if level in ("length", "cone"):
            lines.append(SHORT * (length - p - q))
        self.forms = np.concatenate(lines)
        self.pairs = 1 + np.arange(m), 1 + m + np.arange(m)
        self.products = ~np.eye(len(self.forms), dtype=bool)
        self.products[self.pairs] = False
        self.products[self.pairs[::-1]] = False
        if not self.has_length:
            self.products[0, :] = self.products[:, 0] = False
        self.needed = self.products.copy()
        if level in ("length", "cone"):
            # products of two short lines, and of t with p, q or a short line, are sums of others
            short, both = slice(len(self.forms) - m, None), slice(1, 1 + 2 * m)
            self.needed[short, short] = False
            for block in (short, both):
                self.needed[0, block] = self.needed[block, 0] = False
        self.line_of = np.full(n_rows, -1)
        self.line_of[self.open] = self.pairs[0]
        active = np.flatnonzero((signs[given] > 0) & (given < n_rows))
        self.line_of[given[active]] = 1 + 2 * m + active
        self.activation = np.where(self.line_of[:, None] >= 0, self.forms[self.line_of], 0.0)

    @property
    def n_lines(self) -> int:
        """L."""
        return len(self.forms)


def is_empty(rows: np.ndarray, signs: np.ndarray) -> bool:
    """Whether {w ≠ 0 : signs_i z_i·w ≥ 0 where a sign is given} is empty, beyond the reach of rounding.

    By Farkas it is when weights c ≥ 1 balance the signed rows, Aᵀc = 0, and A has full column rank. If the
    balance is off by r, a unit w in the cone has Σ c_i a_i·w ≤ ‖r‖ with no negative term, so ‖Sw‖ ≤ ‖r‖ for
    S = diag(c) A: impossible where σ_min(S) ≥ (1 − ‖1 − GS‖)/‖G‖ is above ‖r‖, G any matrix. What the products round
    is in both sides (S as rounded: each row moves by half a unit in its last place). False says nothing.

    Examples
    --------
    >>> triangle = np.array([[1.0, 0.0], [-0.6, 0.8], [-0.6, -0.8]])
    >>> is_empty(triangle, np.array([1, 1, 1])), is_empty(triangle, np.array([1, 1, -1]))
    (True, False)
    """
    given = np.flatnonzero(signs)
    if len(given) <= rows.shape[1]:
        return False
    normals = signs[given, None] * rows[given]
    try:
        more, _ = nnls(normals.T, -normals.sum(axis=0))
    except RuntimeError:  # too many steps
        return False
    scaled = (1.0 + more)[:, None] * normals
    size = float(np.abs(scaled).sum())
    residual = float(np.linalg.norm(scaled.sum(axis=0))) + allowance(len(given) + 8, size)
    inverse = np.linalg.pinv(scaled)
    reach = float(np.linalg.norm(inverse))
    apart = float(np.linalg.norm(inverse @ scaled - np.eye(rows.shape[1])))
    apart += product_error_up(inverse.T, scaled) + allowance(8, reach * size)
    return up(up(residual) * up(reach)) < down(1.0 - up(apart))


def covers(rows: np.ndarray, patterns: list[np.ndarray]) -> bool:
    """Whether the cones of these partial sign patterns leave out no direction, as far as :func:`is_empty` proves it.

    Examples
    --------
    >>> covers(np.eye(2), [np.array([1, 0]), np.array([-1, 1]), np.array([-1, -1])])
    True
    >>> covers(np.eye(2), [np.array([1, 0]), np.array([-1, 1])])
    False
    """

    def covered(known: np.ndarray, left: list[np.ndarray]) -> bool:
        left = [pattern for pattern in left if not np.any(pattern * known < 0)]
        extra = [np.flatnonzero((pattern != 0) & (known == 0)) for pattern in left]
        if any(len(rest) == 0 for rest in extra):
            return True
        if is_empty(rows, known):
            return True
        if not left:
            return False
        counts = np.bincount(np.concatenate(extra), minlength=len(known))
        row = int(counts.argmax())
        for side in (1, -1):
            half = known.copy()
            half[row] = side
            if not covered(half, left):
                return False
        return True

    return covered(np.zeros(len(rows), dtype=np.int8), patterns)
