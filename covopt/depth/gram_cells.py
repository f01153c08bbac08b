r"""Cells of 2 × 2 covariances: lower bounds on the cost of a step into a cell, of second order in its size.

For two rows, M = σ(Z)σ(Z)ᵀ + β²11ᵀ after a layer is the Gram matrix of two points at distance D. Their line has
squared distance 1/v − β² from the origin, and the foot of its normal is c·D from their midpoint. With α = 1/D²,

.. math::
    \operatorname{Tr} \bar M' M^{-1} = \frac{\alpha}{\alpha'} + v\,\Bigl(\frac{1}{v'} - \beta^2
        + \frac{(c' - c)^2}{\alpha'}\Bigr) = u\,m_1 + 2 w\,m_2 + v\,(m_3 - \beta^2),

linear in (u, v, w) = (α + c²v, v, cv), the coordinates of B = M⁻¹, and convex in those of B′. The cost-to-go at B is
concave in B (an infimum of linear functions) and increasing. So on a polytope that covers a cell of (α, c, v), the
step is bounded below by its tangent and the cost-to-go by its interpolation from the vertices; the minimum of their
sum is at a vertex, with an error of second order. The vertices are the (α, c, v) at the ends of the cell, the lower
ones with α reduced by v(c₁ − c₀)²/4, since the parabola α + c²v lies above its chord minus that.

σ ≥ 0 requires M̄₁₂ ≥ 0, that is g = u − v/4 − β²uv + β²w² ≥ 0: linear on a cell up to a bounded remainder, this cuts
off part of the polytope.
"""

from __future__ import annotations

import math
from enum import IntEnum

import numpy as np
from numba import njit

from covopt.exact.rounding import SLIP, TINY

NOTHING = 1.0 / TINY
CELL = np.dtype(
    [
        ("low", float, 3),  # ends of (α, c, v)
        ("high", float, 3),
        ("points", float, (8, 3)),  # vertices as (u, v, w)
        (
            "slopes",
            float,
            (8, 3),
        ),  # at a vertex the tangent of the step from (u, v, w) is slopes·(u, v, w)
        ("sizes", float, 3),  # sums of the absolute terms of the slopes
        ("room", float, 8),  # upper bounds on g at the vertices
        ("left", float, 8),  # lower bounds on the cost-to-go at the vertices
        ("kind", int),
        ("child", int),  # index of the first of its two halves, the second follows it; 0 for a leaf
        ("parent", int),  # index of the cell of which it is a half, −1 for the root
        ("axis", int),  # axis along which it is halved: 0 for α, 1 for c, 2 for v
    ],
    align=True,
)


class Kind(IntEnum):
    """Kinds of cells: M̄₁₂ = 0 inside, M̄₁₂ > 0 throughout, α < 0 at a vertex, no feasible state."""

    CUT = 0
    INSIDE = 1
    WILD = 2
    INFEASIBLE = 3


@njit(cache=True, nogil=True)
def fill(cells: np.ndarray, first: int, beta2: float) -> None:
    """Compute the fields that :func:`step` needs, for all cells from ``first`` on.

    Parameters
    ----------
    cells : ndarray of CELL, of shape (n,)
    first : int
    beta2 : float
        β².
    """
    for i in range(first, len(cells)):
        cell = cells[i]
        low, high, points = cell.low, cell.high, cell.points
        slopes, sizes, room = cell.slopes, cell.sizes, cell.room
        a0, c0, v0 = low[0], low[1], low[2]
        a1, c1, v1 = high[0], high[1], high[2]
        far = max(c0 * c0, c1 * c1) - 0.25
        near = (0.0 if c0 * c1 <= 0.0 else min(c0 * c0, c1 * c1)) - 0.25
        most = (1.0 / v0 if v0 > 0.0 else NOTHING) - beta2 + far / (a0 if far > 0.0 else a1)
        least = 1.0 / v1 - beta2 + near / (a1 if near > 0.0 else a0)
        slack = 1e-9 * (1.0 / v1 + beta2 + 1.0 / a0)
        cell.kind = Kind.INFEASIBLE if most < -slack else (Kind.INSIDE if least > slack else Kind.CUT)
        # tangent at the centre; at the upper end of v for cells that begin near v = 0, where they cost least
        a, c, v = math.sqrt(a0 * a1), 0.5 * (c0 + c1), (math.sqrt(v0 * v1) if v0 > 0.1 * v1 else v1)
        u, w = a + c * c * v, c * v
        m1, m2, m3 = 1.0 / a, -c / a, u / (a * v)
        bend = 0.25 * (c1 - c0) ** 2
        at_u, at_v, at_w = 1.0 - beta2 * v, -0.25 - beta2 * u, 2.0 * beta2 * w
        level = u - 0.25 * v - beta2 * u * v + beta2 * w * w
        reach_u = reach_v = reach_w = 0.0
        sizes[0], sizes[1], sizes[2] = 0.0, 0.0, 0.0
        scale = abs(u) + v + beta2 * (u * v + w * w)
        for j in range(8):
            vj, cj = v1 if j & 1 else v0, c1 if j & 2 else c0
            square = cj * cj * vj
            # reduced by more than the rounding error, which is valid as the cost-to-go increases with B
            aj = (a1 if j & 4 else a0 - vj * bend) * (1.0 - SLIP) - 2.0**-46 * (square + vj * bend)
            if aj <= 2.0**-44 * square and cell.kind != Kind.INFEASIBLE:
                cell.kind = Kind.WILD
            uj, wj = aj + square, cj * vj
            vj *= 1.0 - 2.0**-46
            points[j, 0], points[j, 1], points[j, 2] = uj, vj, wj
            du, dv, dw = uj - u, vj - v, wj - w
            reach_u, reach_v, reach_w = max(reach_u, abs(du)), max(reach_v, abs(dv)), max(reach_w, abs(dw))
            # M(B) ⪰ M − M·dB·M
            x11, x12 = m1 * du + m2 * dw, m1 * dw + m2 * dv
            x21, x22 = m2 * du + m3 * dw, m2 * dw + m3 * dv
            slopes[j, 0] = m1 - x11 * m1 - x12 * m2
            slopes[j, 1] = m3 - beta2 - x21 * m2 - x22 * m3
            slopes[j, 2] = 2.0 * (m2 - x11 * m2 - x12 * m3)
            pu, pv, pw = abs(uj) + u, vj + v, abs(wj) + abs(w)
            y11, y12 = m1 * pu + abs(m2) * pw, m1 * pw + abs(m2) * pv
            y21, y22 = abs(m2) * pu + m3 * pw, abs(m2) * pw + m3 * pv
            sizes[0] = max(sizes[0], m1 + y11 * m1 + y12 * abs(m2))
            sizes[1] = max(sizes[1], m3 + beta2 + y21 * abs(m2) + y22 * m3)
            sizes[2] = max(sizes[2], 2.0 * (abs(m2) + y11 * abs(m2) + y12 * m3))
            room[j] = level + at_u * du + at_v * dv + at_w * dw
            scale = max(scale, abs(uj) + vj + beta2 * (pu * pv + pw * pw))
        if cell.kind == Kind.WILD:  # no tangent: bound the terms of the step one by one
            slopes[0, 0], slopes[0, 1] = 1.0 / a1, 1.0 / v1 - beta2 - SLIP * beta2
            slopes[1, 0], slopes[1, 1] = c0, c1
        rest = beta2 * (reach_w * reach_w + reach_u * reach_v) + SLIP * scale
        for j in range(8):
            room[j] += rest


@njit(cache=True, nogil=True)
def step(at: np.ndarray, cells: np.ndarray, i: int, ends: np.ndarray) -> float:
    """Return a lower bound on the step from B = ``at`` into cell i plus the cost-to-go there.

    Parameters
    ----------
    at : ndarray of shape (3,)
        (u, v, w).
    cells : ndarray of CELL
    i : int
    ends : ndarray of shape (8,)
        Scratch memory.
    """
    cell = cells[i]
    slopes, room, left = cell.slopes, cell.room, cell.left
    if cell.kind == Kind.INFEASIBLE:
        return NOTHING
    u, v, w = at[0], at[1], at[2]
    if cell.kind == Kind.WILD:
        if v <= 0.0:
            return 0.0
        c = w / v
        apart = max(0.0, slopes[1, 0] - c, c - slopes[1, 1]) * (1.0 - SLIP) - SLIP * abs(c)
        across = max(0.0, u - w * c - SLIP * u) + v * max(0.0, apart) ** 2
        return max(0.0, (across * slopes[0, 0] + v * max(0.0, slopes[0, 1])) * (1.0 - SLIP))
    best, most = NOTHING, 0.0
    for j in range(8):
        value = u * slopes[j, 0] + v * slopes[j, 1] + w * slopes[j, 2] + left[j]
        ends[j] = value
        most = max(most, left[j])
        if value < best and (cell.kind != Kind.CUT or room[j] >= 0.0):
            best = value
    if cell.kind == Kind.CUT:
        for j in range(8):
            if room[j] >= 0.0 or ends[j] >= best:
                continue
            for k in range(8):
                if room[k] > 0.0:
                    share = -room[j] / (room[k] - room[j])
                    best = min(best, ends[j] + share * (ends[k] - ends[j]))
    if best >= NOTHING:
        return NOTHING
    lost = SLIP * (u * cell.sizes[0] + v * cell.sizes[1] + abs(w) * cell.sizes[2] + most)
    return max(0.0, best - 4.0 * lost)


@njit(cache=True, nogil=True)
def cheapest(at: np.ndarray, cells: np.ndarray, above: float) -> float:
    """Return the minimum of :func:`step` over the leaves of a tree of cells, capped at ``above``.

    Parameters
    ----------
    at : ndarray of shape (3,)
    cells : ndarray of CELL
    above : float
    """
    best = above
    ends = np.empty(8)
    stack, costs = np.empty(256, dtype=np.int64), np.empty(256)
    stack[0] = 0  # a literal argument would make numba compile the call below twice
    costs[0] = step(at, cells, stack[0], ends)
    size = 1
    while size > 0:
        size -= 1
        i, cost = stack[size], costs[size]
        if cost >= best:
            continue
        k = cells[i].child
        if k == 0:
            best = cost
            continue
        first = max(cost, step(at, cells, k, ends))
        second = max(cost, step(at, cells, k + 1, ends))
        if first < second:
            stack[size], costs[size], stack[size + 1], costs[size + 1] = k + 1, second, k, first
        else:
            stack[size], costs[size], stack[size + 1], costs[size + 1] = k, first, k + 1, second
        size += 2
    return best


@njit(cache=True, nogil=True)
def refill(which: np.ndarray, cells: np.ndarray, beyond: np.ndarray, asked: np.ndarray) -> None:
    """Raise the lower bounds on the cost-to-go at the vertices of some cells, from the cells of the next layer.

    A vertex shared with the preceding cell or with the parent is computed once: the value found there is reused.

    Parameters
    ----------
    which : ndarray of shape (m,)
        Indices of cells, parents first.
    cells, beyond : ndarray of CELL
        The cells of this layer and of the next.
    asked : ndarray of shape (n, 8)
        Value at each vertex up to which the bound is raised.
    """
    known = np.zeros((len(cells), 8), dtype=np.bool_)
    for i in which:
        points, left = cells[i].points, cells[i].left
        for j in range(8):
            for near in (i, cells[i].parent, i - 1):
                if near < 0 or known[i, j]:
                    continue
                there = cells[near].points
                for k in range(j if near == i else 8):
                    if (
                        points[j, 0] == there[k, 0]
                        and points[j, 1] == there[k, 1]
                        and points[j, 2] == there[k, 2]
                    ):
                        left[j] = max(left[j], cells[near].left[k])
                        known[i, j] = known[near, k]
                        break
            if known[i, j] or left[j] >= asked[i, j]:
                continue
            found = cheapest(points[j], beyond, asked[i, j])
            left[j] = max(left[j], found)
            known[i, j] = found < asked[i, j]


@njit(cache=True, nogil=True)
def mark(
    at: np.ndarray, asked: np.ndarray, cells: np.ndarray, beta2: float, missing: np.ndarray, own: np.ndarray
) -> None:
    """Find the cells that keep the cost-to-go at some B below a required value, and the error of their tangents.

    Parameters
    ----------
    at : ndarray of shape (m, 3)
        B as (u, v, w).
    asked : ndarray of shape (m,)
    cells : ndarray of CELL, of shape (n,)
    beta2 : float
        β².
    missing, own : ndarray of shape (n,)
        Updated to larger values: the shortfall of each cell, and the largest error of the tangent at its vertices.
    """
    ends, stack = np.empty(8), np.empty(256, dtype=np.int64)
    for p in range(len(at)):
        u, v, w = at[p, 0], at[p, 1], at[p, 2]
        stack[0] = 0
        size = 1
        while size > 0:
            size -= 1
            i = stack[size]
            less = asked[p] - step(at[p], cells, i, ends)
            if less <= 0.0:
                continue
            missing[i] = max(missing[i], less)
            k = cells[i].child
            if k > 0:
                stack[size], stack[size + 1] = k, k + 1
                size += 2
                continue
            if cells[i].kind == Kind.WILD:
                own[i] = NOTHING
                continue
            points, slopes = cells[i].points, cells[i].slopes
            for j in range(8):
                U, V, W = points[j, 0], points[j, 1], points[j, 2]
                det = U * V - W * W
                if det <= 0.0:
                    own[i] = NOTHING
                    break
                true = (u * V - 2.0 * w * W + v * U) / det - v * beta2
                tangent = u * slopes[j, 0] + v * slopes[j, 1] + w * slopes[j, 2]
                own[i] = max(own[i], true - tangent)


MOST_CELLS = 60_000  # cells of a layer beyond which no more are halved
MOST_HALVED = 120  # depth of a tree of cells
_LEAF = "."


class Cells:
    """A tree of cells of one layer, with lower bounds on the cost-to-go at their vertices.

    Parameters
    ----------
    low, high : ndarray of shape (3,)
        Ends of the root.
    beta2 : float
        β².
    """

    def __init__(self, low: np.ndarray, high: np.ndarray, beta2: float) -> None:
        self.beta2 = beta2
        self.cells = np.zeros(0, dtype=CELL)
        self._add(low[None], high[None], np.full(1, -1))

    def _add(self, low: np.ndarray, high: np.ndarray, parent: np.ndarray) -> None:
        """Append leaves."""
        known, more = len(self.cells), np.zeros(len(low), dtype=CELL)
        more["low"], more["high"], more["parent"], more["axis"] = low, high, parent, -1
        self.cells = np.concatenate([self.cells, more])
        fill(self.cells, known, self.beta2)

    def open(self, which: np.ndarray) -> np.ndarray:
        """Return which of the given cells have feasible states and a valid tangent."""
        kinds = self.cells["kind"][which]
        return (kinds != Kind.INFEASIBLE) & (kinds != Kind.WILD)

    def halve(self, which: np.ndarray, axes: np.ndarray) -> np.ndarray:
        """Halve leaves, each along its axis, and return the indices of the halves."""
        n, cells, every = len(self.cells), self.cells, np.arange(len(which))
        cells["child"][which], cells["axis"][which] = n + 2 * every, axes
        low, high = cells["low"][which], cells["high"][which]
        a, b = low[every, axes], high[every, axes]
        middle = np.where(axes == 0, np.sqrt(np.abs(a * b)), 0.5 * (a + b))
        first, second = high.copy(), low.copy()
        first[every, axes], second[every, axes] = middle, middle
        self._add(
            np.stack([low, second], axis=1).reshape(-1, 3), np.stack([first, high], axis=1).reshape(-1, 3),
            np.repeat(which, 2),
        )  # fmt: skip
        return np.arange(n, len(self.cells))

    def pay(self, which: np.ndarray, beyond: Cells, asked: np.ndarray) -> None:
        """Raise the cost-to-go at the vertices of some cells; see :func:`covopt.depth.gram_cells.refill`."""
        refill(which[self.open(which)], self.cells, beyond.cells, asked)

    def cheapest(self, at: np.ndarray, above: float) -> float:
        """Return a lower bound on the cost from B on; see :func:`covopt.depth.gram_cells.cheapest`."""
        return float(cheapest(at, self.cells, above))

    def written(self) -> str:
        """Return the tree as text, level by level: the axis of each halved cell, a point for each leaf."""
        out, here = [], np.zeros(1, dtype=int)
        while len(here):
            out += [_LEAF if axis < 0 else str(axis) for axis in self.cells["axis"][here].tolist()]
            first = self.cells["child"][here[self.cells["axis"][here] >= 0]]
            here = np.stack([first, first + 1], axis=1).ravel()
        return "".join(out)

    def read(self, text: str) -> None:
        """Rebuild the tree that :meth:`written` returned.

        Raises
        ------
        ValueError
            If the text is not a tree, or the tree is too large.
        """
        most = 2 * MOST_CELLS + 1  # the last round may halve every leaf
        if len(text) > most:
            raise ValueError(f"a layer has more than {most} cells")
        if set(text) - set("012" + _LEAF):
            raise ValueError(f"a tree of cells holds {min(set(text) - set('012' + _LEAF))!r}")
        here = np.zeros(1, dtype=int)
        for _ in range(MOST_HALVED + 1):
            level, text = text[: len(here)], text[len(here) :]
            if len(level) < len(here):
                raise ValueError("a tree of cells ends too soon")
            halved = [
                (cell, int(sign)) for cell, sign in zip(here.tolist(), level, strict=True) if sign != _LEAF
            ]
            if not halved:
                break
            here = self.halve(*np.array(halved).T)
        else:
            raise ValueError(f"a cell is halved more than {MOST_HALVED} times")
        if text:
            raise ValueError("a tree of cells goes on after its end")
