"""Numbers for the leaves of a closed proof, chosen in doubles: lines for small boxes, quadratics for few large ones.

The choices decide how many boxes a file needs, not its validity: :mod:`covopt.proofs.closing` checks every leaf.

**Lines** (:class:`Advisor`). The reader accepts any slope a in [0, 1] and any |p| ≤ 1. On a box the best lines meet
the concave rest at the maximiser of the sum (:mod:`covopt.oracles.boxes.leaf`): slopes are updated for one maximiser
after the other, the best are kept and rounded, and p is chosen for the rounded slopes.

**Quadratics** (:class:`Curves`), the worst box cut first: the game of :mod:`covopt.oracles.boxes.quadratic` with the
moves alone that a file has leaves for, σ(t) ≤ t/2 + t²/4τ + τ/4 for rows that count positively, σ(t) ≥ (c + k·w) t,
|k| ≤ min(c, 1 − c), for those that count negatively, and multiples of (z_j − l_j m)(h_j m − z_j) ≥ 0 and of
m (1 − ℓ·w) ≥ 0, |ℓ| ≤ 1: without the last, smaller boxes have larger bounds. Quadratics serve tables where few large
boxes suffice and hundreds of rows change sign on each. :func:`curve` rounds the multipliers and raises H until every
leaf closes by the reader's rule.
"""

from __future__ import annotations

import copy
import heapq
import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from covopt.exact.rank import ATOMS, ROUGH
from covopt.exact.rounding import TINY
from covopt.limits import HALF, now, seconds_left
from covopt.oracles.ascent import height, inner, make_room, put
from covopt.oracles.boxes.kernel import SMALLEST
from covopt.oracles.boxes.leaf import affine_bound, relax, tighten, touch
from covopt.oracles.boxes.quadratic import DELAY, GROWTH, STEEPEST
from covopt.oracles.boxes.quadratic_search import ROOT_ROUNDS, ROUNDS
from covopt.oracles.boxes.sphere_form import on_sphere
from covopt.proofs.checker.covopt_check import MAGNITUDE, curved, rows_of
from covopt.proofs.closing import Choice, Node, packed, planted, raise_until


class Advisor:
    """Choose slopes, normals and cuts of boxes for the H of ``own``.

    Parameters
    ----------
    own : namespace
        As :func:`covopt.proofs.checker.covopt_check.read` returns it.
    rows : list of list of int
        In its coordinates.
    """

    def __init__(self, own: Any, rows: list[list[int]]):
        self.own, self.rows = own, rows
        self.place = {id(r): i for i, r in enumerate(rows)}
        largest = float(max(abs(x) for column in own.basis for x in column))
        basis = np.array([[x / largest for x in column] for column in own.basis])
        length = float(np.sqrt((basis**2).sum() / len(basis)))
        self.unit, self.basis = largest * length, basis / length

    def __call__(self, nodes: list[Node]) -> tuple[list[Choice], float]:
        """Return the choice for each box and the largest value found of σG/(H|u|): above 1, H is too small."""
        own, D, unit = self.own, len(self.basis), self.unit
        states = [node.state for node in nodes]
        count = np.array([len(rows) for _, rows, _ in states])
        entries = [row for _, rows, _ in states for row in rows]
        sigma = np.array([sign for sign, _, _, _ in entries], dtype=float)
        place = np.array([self.place[id(r)] for _, r, _, _ in entries], dtype=np.int64)
        # integers of any length have a quotient in doubles
        real = np.array([[x / own.H for x in r] for r in self.rows])[place] / unit
        middle = np.array([(row[3] + row[2]) / (2 * own.H * own.corner) for row in entries]) / unit
        reach = np.array([(row[3] - row[2]) / (2 * own.H * own.corner) for row in entries]) / unit
        linear = np.array([[x / own.H for x in line] for _, _, line in states]).reshape(-1, D) / unit
        centres = np.array([[(high + low) / (2 * own.corner) for low, high in box] for box, _, _ in states])
        half = np.array([[(high - low) / (2 * own.corner) for low, high in box] for box, _, _ in states])
        slopes, points, bounds = np.zeros(len(place)), np.zeros(half.shape), np.zeros(len(count))
        axes = np.full(len(count), -1)
        value = _advise(
            real, count, sigma, middle, reach, linear, centres, half, float(own.one), slopes, points, axes, bounds,
        )  # fmt: skip
        normals = points @ self.basis
        normals *= (1.0 - 1e-15) / np.linalg.norm(normals, axis=1, keepdims=True)
        whole = np.rint(slopes * own.one).astype(np.int64).tolist()
        short = np.trunc(normals * float(own.unit)).astype(np.int64).tolist()
        lasts = np.cumsum(count).tolist()
        parts = [whole[end - size : end] for end, size in zip(lasts, count.tolist(), strict=True)]
        may = (bounds <= ATOMS).tolist()
        return [Choice(*choice) for choice in zip(short, parts, axes.tolist(), may, strict=True)], value


@njit(cache=True, nogil=True, error_model="numpy")
def _advise(real, count, weight, middle, reach, linear, centres, half, one, slopes, points, axes, bounds):
    """Set the slope of every undecided row; of every box the direction of p, the cut and a bound on σG(u) − |u|.

    Parameters
    ----------
    real : ndarray of shape (entries, r)
        The undecided rows of all boxes, in coordinates that are orthonormal but for rounding; H is one.
    count : ndarray of shape (boxes,)
        How many of them belong to each box.
    weight, middle, reach : ndarray of shape (entries,)
        Their signs σ s_i, and centre and half-width of their range on the box.
    linear, centres, half : ndarray of shape (boxes, r)
        Of each box: the sum of the rows that are decided, its centre and half-widths.
    one : float
        Slopes are rounded to multiples of its inverse.
    slopes : ndarray of shape (entries,)
        Output, as all that follow.
    points : ndarray of shape (boxes, r)
        Direction of p.
    axes : ndarray of shape (boxes,) of int
        The cut; unchanged (−1) for a box that is too small.
    bounds : ndarray of shape (boxes,)
        The bound, up to rounding.

    Returns
    -------
    float
        The largest σG(u)/|u| at a centre.
    """
    # loops where a slice or an expression of arrays would compile for seconds
    D, H, best, end, most = linear.shape[1], 1.0, 0.0, 0, count.max()
    room, q = make_room(most + 1, D), np.empty(D)
    every_theta, every_index = np.empty(most), np.empty(most, np.int32)
    for box in range(len(count)):
        begin, end = end, end + count[box]
        rows, weights, chosen = real[begin:end], weight[begin:end], slopes[begin:end]
        centre, radius = middle[begin:end], reach[begin:end]
        u0, s, g, u = centres[box], half[box], linear[box], points[box]
        theta, index, least = every_theta[: count[box]], every_index[: count[box]], np.inf
        for k in range(len(index)):
            theta[k], index[k] = 0.5, k
        for turn in range(ROOT_ROUNDS):
            f = relax(rows, weights, index, centre, radius, theta, g, u0, q)
            bound = affine_bound(f, q, u0, s, H, u, touch(q, u0, s, H, u))
            if bound < least:
                least = bound
                put(theta, chosen)
            if least <= 0.0:
                break
            if turn == 0:
                tighten(rows, weights, index, theta, f, q, u0, s.argmin(), H, room)
            else:
                for k in range(len(index)):
                    theta[k] += ((1.0 if inner(rows[k], u) > 0.0 else 0.0) - theta[k]) / (turn + 2.0)
        for k in range(len(index)):
            if weights[k] > 0.0:
                chosen[k] = 0.5 * (centre[k] + radius[k]) / radius[k]
            chosen[k] = np.rint(chosen[k] * one) / one
        f = relax(rows, weights, index, centre, radius, chosen, g, u0, q)
        bounds[box] = affine_bound(f, q, u0, s, H, u, touch(q, u0, s, H, u))
        best, most_wanted = max(best, height(rows, weights, g, u0) / np.sqrt(inner(u0, u0))), 0.0
        for j in range(D):
            wanted = s[j]
            for k in range(len(index)):
                wanted += abs(rows[k, j])
            if s[j] > SMALLEST and s[j] * wanted > most_wanted:
                axes[box], most_wanted = j, s[j] * wanted
    return best


class Moves(NamedTuple):
    """Multipliers of a leaf, in units of the bound: ν, d, those of m and ℓ; of rows τ, c and k."""

    nu: float
    d: np.ndarray
    lead: float
    arm: np.ndarray
    tau: np.ndarray
    slope: np.ndarray
    vector: np.ndarray


class Box:
    """A box in doubles, with the moments and multipliers at start and end of its game, and its best moves."""

    __slots__ = ("after", "before", "bound", "chart", "cut", "high", "low", "moves", "parts", "side", "sign")

    def __init__(self, sign: float, chart: int, side: float, low: np.ndarray, high: np.ndarray, before: Any):
        self.sign, self.chart, self.side, self.low, self.high = sign, chart, side, low, high
        self.before, self.after, self.bound, self.cut = before, before, math.inf, -1
        self.moves: Moves | None = None
        self.parts: list[Box] = []

    def halves(self) -> list[Box]:
        """Return the lower half and the upper."""
        middle = 0.5 * (self.low[self.cut] + self.high[self.cut])
        low, high = self.low.copy(), self.high.copy()
        low[self.cut] = high[self.cut] = middle
        self.after[2][self.cut] *= 2.0  # the multiplier of a half has twice the size
        ends = (self.low, high), (low, self.high)
        self.parts = [Box(self.sign, self.chart, self.side, *pair, self.after) for pair in ends]
        return self.parts


class Curves:
    """Boxes of both signs of G(u) = Σ signs_i σ(y_i·u) on all facets of the cube of a basis, the worst cut first.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
        y_i, in units of the largest known value of |G(u)|/|u|.
    signs : ndarray of shape (n,)
    basis : ndarray of shape (D, D)
        Its rows are the basis vectors of the coordinates.
    most : int
        Most cuts.
    wanted : float
        A bound at which to stop.

    Attributes
    ----------
    bound : float
        On |G(u)|/|u|, in doubles.
    roots : list of Box
        In the order of a file.
    """

    def __init__(
        self, rows: np.ndarray, signs: np.ndarray, basis: np.ndarray, most: int, wanted: float = 0.0
    ):
        D = len(basis)
        self.size = float(np.sqrt((basis**2).sum() / D))
        self.rows, self.signs = rows, signs
        self.heights = rows @ basis.T / self.size
        self.forms = np.linalg.inv(basis.T / self.size)  # z is this times u
        self.roots = []
        for k in range(4 * D):
            low, high, chart, side = -np.ones(D), np.ones(D), k // 2 % D, 1.0 - 2.0 * (k % 2)
            low[chart] = high[chart] = side
            before = np.zeros(D), np.eye(D) / D, np.zeros(D), 0.0
            self.roots.append(Box(1.0 - 2.0 * (k // (2 * D)), chart, side, low, high, before))
        end, waiting, made, above = now() + HALF * seconds_left(), list(self.roots), 0, -math.inf
        open_: list[tuple[float, int, Box]] = []
        whole: list[Box] = []
        while True:
            for k, box in enumerate(waiting):
                self.play(box, now() + max(0.0, end - now()) / (len(waiting) - k))
                made += 1
                heapq.heappush(open_, (max(above, -box.bound), made, box))
            if now() > end or len(whole) >= most or open_[0][2].cut < 0 or -open_[0][0] <= wanted:
                break
            above, _, worst = heapq.heappop(open_)
            waiting = worst.halves()
            whole.append(worst)
        for box in reversed(whole):
            parts = max(part.bound for part in box.parts)
            if parts < box.bound:
                box.bound = parts
            else:
                box.parts = []
        self.bound = max(box.bound for box in self.roots)

    def play(self, box: Box, end: float) -> None:
        """Set the bound of a box, the moves that prove it, its cut and the start of its halves."""
        a, low, high, (D, B) = box.chart, box.low, box.high, (len(box.low), self.forms)
        centre, s, m = 0.5 * (low + high), 0.5 * (high - low), box.side * B[a]
        free = s > 0.0
        x, X, d, lead = copy.deepcopy(box.before)
        first = float(ROUNDS) if x.any() else 2.0
        middle, reach = self.heights @ centre, np.abs(self.heights) @ s
        signs = box.sign * self.signs
        linear = (signs * (middle >= reach)) @ self.rows
        undecided = np.abs(middle) < reach
        above, below = np.flatnonzero(undecided & (signs > 0)), np.flatnonzero(undecided & (signs < 0))
        Yp, Yn = self.rows[above], self.rows[below]
        point = np.linalg.solve(B, centre)
        sides = np.linalg.solve(B.T, point / np.linalg.norm(point))
        shortest = np.minimum(sides * low, sides * high).sum()  # |u| is at least that
        largest = (np.abs(middle) + reach)[above] / max(shortest, ROUGH * np.linalg.norm(point))
        slope, vector, arm = np.zeros(len(below)), np.zeros((len(below), D)), np.zeros(D)
        F, width = B - np.outer(centre, m), np.where(free, s, 1.0)
        top, nu = point / np.linalg.norm(point), -np.inf
        (w, v, scratch), factors = np.empty((3, D)), np.empty((D, D))
        best, box.bound = None, math.inf
        for turn in range(ROOT_ROUNDS):
            tau = np.sqrt(np.maximum(((Yp @ X) * Yp).sum(axis=1), 0.0))
            tau = np.maximum(np.minimum(tau, largest), ROUGH * largest)
            t, Z = Yn @ x, Yn @ X
            length = np.sqrt((Z * Z).sum(axis=1))
            bent = 0.5 * (t + length)
            is_bent = (bent > 0.0) & (bent > t)
            step = 1.0 if turn == 0 else 1.0 / (turn + DELAY)
            slope += step * (np.where(is_bent, 0.5, 1.0 * (t > 0.0)) - slope)
            vector += step * ((0.5 * is_bent / (length + TINY))[:, None] * Z - vector)
            pull = X @ m
            arm += step * (pull / (np.linalg.norm(pull) + TINY) - arm)
            b = linear + 0.5 * Yp.sum(axis=0) - slope @ Yn + lead * m
            M = (Yp.T * (0.25 / tau)) @ Yp - Yn.T @ vector - (F.T * d) @ F
            M += np.outer(m, (d @ s**2) * m - lead * arm)
            M = 0.5 * (M + M.T)
            nu, mu = on_sphere(M, b, w, v, top, nu, factors, scratch)
            value = nu + mu + 0.25 * tau.sum()
            if nu >= 0.0 and value < box.bound:
                box.bound, best = value, (nu, d.copy(), lead, arm.copy(), tau, slope.copy(), vector.copy())
            step = 1.0 / (turn + first)
            moments = np.outer(w, w) + np.outer(v, v)
            x += step * (w - x)
            X += step * (moments - X)
            square = m @ moments @ m
            excess = np.where(free, ((F @ moments) * F).sum(axis=1) / width**2 - square, 0.0)
            growth = GROWTH * d * np.minimum(excess / (square + TINY), STEEPEST)
            d = np.where(free, np.maximum(0.0, d + step * (excess + growth)), 0.0)
            lead = max(0.0, lead + step * float(arm @ moments @ m - w @ m))
            if best is not None and now() > end:
                break
        box.after = x, X, d, lead
        score = np.abs(self.heights[undecided]) * (1.0 - (middle[undecided] / reach[undecided]) ** 2)[:, None]
        inside = np.minimum(np.maximum(((F @ X) * F).sum(axis=1), 0.0), s**2 * (m @ X @ m))
        gain = np.where(free, np.sqrt(inside) * (score.sum(axis=0) + s), -1.0)
        box.cut = int(gain.argmax()) if gain.max() > 0.0 else -1
        nu, d, lead, arm, tau, slope, vector = best or (1.0, d, lead, arm, tau, slope, vector)
        moves = Moves(nu, d, lead, arm, np.ones(len(signs)), np.zeros(len(signs)), np.zeros(self.rows.shape))
        moves.tau[above], moves.slope[below], moves.vector[below] = tau, slope, vector
        box.moves = moves


def curve(own: Any, curves: Any) -> bool:
    """Give ``own`` the tree of a search with integer multipliers, and raise its H where a leaf needs it.

    Return False, without a tree, if a leaf does not close with twice that H: its multipliers have too few bits.

    Parameters
    ----------
    own : namespace
        As :func:`covopt.proofs.checker.covopt_check.read` returns it; ``H``, ``corner`` and ``tree`` are set.
    curves : Curves
        The search; H is its bound.
    """
    unit, stack, narrowest = own.H / curves.bound, list(curves.roots), 2.0
    while stack:
        box = stack.pop()
        width = box.high - box.low
        narrowest = min(narrowest, float(width[width > 0.0].min()))
        stack += box.parts
    own.corner = 1 << round(2.0 - math.log2(narrowest))  # corners are exact, and multipliers of m have room
    rows = rows_of(own)
    place = {id(r): i for i, (_, r) in enumerate(rows)}
    roots, leaves = planted(own, rows), []
    pairs = list(zip(roots, curves.roots, strict=True))
    while pairs:
        node, box = pairs.pop()
        if box.parts:
            upper, lower = node.cut(box.cut)
            pairs += [(upper, box.parts[1]), (lower, box.parts[0])]
        else:
            leaves.append((node, box.moves, box.chart))
    most = 2 * own.H

    def closed(leaf: tuple[Node, Any, int]) -> bool:
        return closes(own, *leaf, place, unit, curves.size)

    while left := [leaf for leaf in leaves if not closed(leaf)]:
        if not raise_until(own, own.slope_bits, left, closed, most):
            return False
    own.tree = packed(roots, own)
    return True


def closes(
    own: Any, node: Node, moves: Any, chart: int, place: dict[int, int], unit: float, size: float
) -> bool:
    """Return whether a leaf closes with these multipliers, rounded, and store them. In their units H is H/unit."""
    box, rows, linear = node.state
    A, D = own.one, len(box)
    whole = 2 * A * own.H
    pulls = moves.d * size**2
    pulls[chart] = 2.0**MAGNITUDE * size**2  # the constraint is an equality there
    lead = moves.lead * size * own.corner / (A // 2)
    numbers = [(field(whole, unit * x), MAGNITUDE) for x in (moves.nu, *pulls.tolist(), lead)]
    arm = np.trunc(moves.arm * (0.5 * A - 2.0)).astype(int).tolist()
    numbers += [(A // 2 - x, own.slope_bits) for x in arm]
    for sign, r, _, _ in rows:
        i = place[id(r)]
        if sign > 0:
            numbers.append((field(whole, 0.25 / (float(moves.tau[i]) * unit)), MAGNITUDE))
            continue
        vector = np.trunc(moves.vector[i] * (A - 4.0)).astype(int).tolist()
        length = math.isqrt(sum(x * x for x in vector)) + 1
        first = min(max(round(float(moves.slope[i]) * A), length), A - length)
        numbers += [(x, own.slope_bits) for x in (first, *(x + A // 2 for x in vector))]
    if not curved(box, rows, linear, [number for number, _ in numbers], own):
        return False
    node.axis = D
    node.keep(numbers)
    return True


def field(whole: int, share: float) -> int:
    """Encode ``whole`` times a positive double as a multiplier, rounded down to its bits."""
    top, bottom = share.as_integer_ratio()
    value = whole * top // bottom
    places = max(value.bit_length() - 16, 0)
    return min(places << 16 | value >> places, (1 << MAGNITUDE) - 1)
