r"""A bound on max uᵀMu over u ≥ 0, ‖u‖ = 1 by branch and bound over supports (M positive semidefinite).

A node asks whether the global maximiser u* has its support inside S, around I, outside E = complement of S.
With λ = u*ᵀMu* ≥ β (the best value known) the maximiser satisfies, for all i and j ∈ S,

    u_i u_j ≥ 0,     u_j((Mu)_i − βu_i) ≥ 0  for i ∈ I  (there (Mu)_i = λu_i),     −u_j(Mu)_i ≥ 0  for i ∈ E,

so for any multipliers P, Y ≥ 0 of these, λ ≤ λ_max(X),  X = M_S + P + Σ_{i,j} sym(Y_ij e_j a_iᵀ) with
a_i = M_i − βe_i, resp. −M_i. This is the doubly nonnegative relaxation, sharpened by the conditions of the two
branches; the multipliers descend on λ_max by a few steps.

**Nodes that hold a maximiser u with value β.** There λ_max(X) can reach β but not pass it, and steps only converge.
But multipliers with Xu = βu make u an eigenvector, and then all other eigenvalues have to be below β only, which
as a rule holds strictly and is reached after finitely many steps. Such P are known: with T the support of u,
P_TT = 0 and Σ_{i∈T} P_ji u_i = −(Mu)_j ≥ 0 for j ∉ T; the steps are projected on them.

A node is closed when λ_max(X) ≤ β; when few rows are undecided, by looking at all its supports T, as a maximiser
with support T is the top eigenvector of M_T. Where this is tied, eigenvectors mean nothing, but the maximum is met
on a smaller support as well (:mod:`covopt.oracles.vector.doubts`). Only up to the gap of the tie, so then the tree is
grown once more without the conditions on exact maximisers, with P alone.
"""

from __future__ import annotations

import heapq
from itertools import combinations, count
from math import comb

import numpy as np

from covopt.oracles.vector.doubts import settle_doubts

EPS = float(np.finfo(float).eps)
TOLERANCE = (
    2e-13  # nodes are closed when their bound is not above β by more than this (relative to the trace)
)
STEPS = 80
SHARP = 1e-11  # a bound within this of a value counts as attained
ROOT_STEPS = 400
SCANNED_ROOT = 12  # rows up to which all supports are looked at when the root stays open
SCANNED = 8  # undecided rows up to which a node is closed that way


def _largest(matrix: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    values, vectors = np.linalg.eigh(matrix)
    rounding = 4.0 * len(matrix) * EPS * float(np.abs(values).max())
    return float(values[-1]) + rounding, values, vectors


def _onto_weighted_simplex(points: np.ndarray, weights: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Project each row p on {p ≥ 0, p·weights = total}, weights > 0."""
    ratio = points / weights
    order = np.argsort(-ratio, axis=1)
    mass = np.cumsum(np.take_along_axis(points * weights, order, axis=1), axis=1) - totals[:, None]
    squares = np.take_along_axis(np.broadcast_to(weights**2, points.shape), order, axis=1)
    shift = mass / np.cumsum(squares, axis=1)
    active = np.take_along_axis(ratio, order, axis=1) > shift
    last = np.maximum(active.sum(axis=1) - 1, 0)
    theta = np.take_along_axis(shift, last[:, None], axis=1)
    return np.maximum(points - theta * weights, 0.0)


class _Multipliers:
    """P and Y of one node, and the matrix X that they make."""

    def __init__(self, form, inside, included, beta, known, cuts):
        self.inside = inside
        self.form = form[np.ix_(inside, inside)]
        outside = np.setdiff1d(np.arange(len(form)), inside)
        m = len(inside)
        self.p = np.zeros((m, m))
        self.known = None
        kept = np.searchsorted(inside, included)
        rows = self.form[kept].copy()
        # a hair below β, so that rounding cannot make the condition false
        rows[np.arange(len(kept)), kept] -= beta * (1.0 - 1e-12)
        self.rows = np.concatenate([rows, -form[np.ix_(outside, inside)]]) if cuts else np.empty((0, m))
        self.y = np.zeros((len(self.rows), m))
        if known is not None:
            u = known[inside]
            self.known = u
            self.support = u > 0
            self.idle = ~self.support
            self.totals = np.maximum(-(self.form @ u)[self.idle], 0.0)
            self.p = np.maximum(-self.form, 0.0)
            self.p[np.ix_(self.support, self.support)] = 0.0
            self._restore(np.outer(self.totals, u[self.support]))
            np.fill_diagonal(self.p, 0.0)

    def _restore(self, block):
        """Write the block (idle, support) of P so that Xu = βu."""
        if self.idle.any():
            assert self.known is not None
            block = _onto_weighted_simplex(block, self.known[self.support], self.totals)
            self.p[np.ix_(self.idle, self.support)] = block
            self.p[np.ix_(self.support, self.idle)] = block.T

    def matrix(self):
        """X, exactly symmetric."""
        cut = self.y.T @ self.rows
        return self.form + self.p + 0.5 * (cut + cut.T)

    def step(self, weight, length):
        """Move against the gradient ⟨∂X, weight⟩, scaled to fall by ``length`` to first order."""
        g = weight.copy()
        np.fill_diagonal(g, 0.0)
        g[(self.p <= 0.0) & (g > 0.0)] = 0.0
        if self.known is not None:
            g[np.ix_(self.support, self.support)] = 0.0
            slope = None
            square = float((g**2).sum())
        else:
            slope = self.rows @ weight
            slope[(self.y <= 0.0) & (slope > 0.0)] = 0.0
            square = float((g**2).sum() + (slope**2).sum())
        if square <= 0.0:
            return False
        t = length / square
        self.p = np.maximum(self.p - t * g, 0.0)
        if slope is not None:
            self.y = np.maximum(self.y - t * slope, 0.0)
        else:
            self._restore(self.p[np.ix_(self.idle, self.support)])
        return True


def descend(node: _Multipliers, beta: float, goal: float, steps: int) -> tuple[float, np.ndarray]:
    """Lower λ_max(X) to ``goal`` if possible; returns the best bound met and the eigenvector there."""
    best, where = np.inf, np.zeros(len(node.form))
    since = 0
    for _ in range(steps):
        x = node.matrix()
        top, values, vectors = _largest(x)
        if top < best - 1e-4 * max(best - goal, 0.0):
            since = 0
        since += 1
        if top < best:
            best, where = top, vectors[:, -1]
        if best <= goal or since > 40:
            break
        if node.known is not None:
            # u is an eigenvector with value β: push down the others
            u = node.known
            flat = x - np.outer(u, u) * (2.0 * beta)
            values, vectors = np.linalg.eigh(flat)
            where = vectors[:, -1]
        excess = max(float(values[-1]) - beta, 1e-3 * max(top - beta, 0.0))
        if excess <= 0.0:
            break
        # several eigenvalues near the top share the step, or it would zigzag between them
        share = np.exp((values - values[-1]) * (3.0 / excess))
        weight = (vectors * (share / share.sum())) @ vectors.T
        if not node.step(weight, 1.05 * excess):
            break
    return best, where


def scan_supports(
    form: np.ndarray, inside: np.ndarray, included: np.ndarray, beta: float
) -> tuple[float, np.ndarray | None, list[tuple[float, float]]]:
    """Look at every support between ``included`` and ``inside`` for a value above ``beta``.

    A maximiser with support T is the top eigenvector of M_T; where the gap to the next eigenvalue is γ, the computed
    one is off by 64nε/γ at most (M of trace one).

    Returns
    -------
    best : float
        The largest value that is attained, at least ``beta``.
    point : ndarray of shape (n,) or None
        Where, if above ``beta``.
    doubts : list of (float, float)
        Eigenvalue and gap where rounding leaves open whether the eigenvector is nonnegative.

    Examples
    --------
    >>> best, point, doubts = scan_supports(np.diag([0.25, 0.75]), np.arange(2), np.arange(0), 0.0)
    >>> float(best), point, doubts
    (0.75, array([0., 1.]), [])
    """
    n = len(form)
    free = np.setdiff1d(inside, included)
    best, point, doubts = beta, None, []
    for size in range(len(free) + 1):
        chosen = np.array(list(combinations(free, size)), dtype=np.int64).reshape(comb(len(free), size), size)
        supports = np.concatenate([np.tile(included, (len(chosen), 1)), chosen], axis=1)
        if supports.shape[1] == 0:
            continue
        values, vectors = np.linalg.eigh(form[supports[:, :, None], supports[:, None, :]])
        top = values[:, -1] + 4.0 * n * EPS
        gap = top - values[:, -2] if values.shape[1] > 1 else np.full(len(top), np.inf)
        vector = vectors[:, :, -1]
        least = np.maximum(vector.min(axis=1), (-vector).min(axis=1))
        attained = least >= 0.0
        if attained.any() and values[attained, -1].max() > best:
            p = np.flatnonzero(attained)[values[attained, -1].argmax()]
            best, point = float(values[p, -1]), np.zeros(n)
            point[supports[p]] = np.abs(vector[p])
        open_ = (top > best) & ~attained & (least >= -64.0 * n * EPS / gap)
        doubts += [(float(t), float(g)) for t, g in zip(top[open_], gap[open_], strict=True)]
    return best, point, doubts


def bound_form(
    form: np.ndarray, points: np.ndarray, *, node_limit: int = 20_000
) -> tuple[np.ndarray | None, float, bool]:
    """Bound max uᵀMu over u ≥ 0, ‖u‖ = 1.

    Parameters
    ----------
    form : ndarray of shape (n, n)
        M, positive semidefinite, of trace one.
    points : ndarray of shape (m, n)
        Nonnegative unit vectors, the best first.
    node_limit : int

    Returns
    -------
    better : ndarray of shape (n,) or None
        A point better than the given ones, if the tree met one.
    bound : float
        Not exceeded by the maximum (of this floating-point matrix), rounding included.
    exact : bool
        Whether the bound is the maximum to rounding; otherwise the tree was cut.

    Examples
    --------
    >>> form = np.array([[2.0, -1.0], [-1.0, 2.0]]) / 4.0
    >>> better, bound, exact = bound_form(form, np.eye(2))
    >>> better, float(round(bound, 9)), exact
    (None, 0.5, True)
    """
    better, closed, doubts, finished = _grow(form, points, node_limit, cuts=True)
    if better is not None:
        points = np.concatenate([better[None], points])
    beta = float(points[0] @ form @ points[0])
    bound = max([closed] + [top for top, _ in doubts])
    if finished and bound > beta + SHARP:
        # ties: descents to lower supports need nodes that hold for all points, not for exact maximisers only
        again, closed, doubts, done = _grow(form, points, node_limit, cuts=False)
        better = better if again is None else again
        if done:
            bound = min(bound, settle_doubts(closed, doubts, len(form)))
        else:
            bound = min(bound, max([closed] + [top for top, _ in doubts]))
    best = points[0] if better is None else better
    return better, bound, finished and bound <= float(best @ form @ best) + SHARP


def _grow(
    form: np.ndarray, points: np.ndarray, node_limit: int, *, cuts: bool
) -> tuple[np.ndarray | None, float, list[tuple[float, float]], bool]:
    """Grow the tree: a better point, the bound over all that is not in doubt, the doubts, and whether it ended."""
    n = len(form)
    heights = np.einsum("mi,ij,mj->m", points, form, points)
    beta, better = float(heights[0]), None
    maxima = points[heights >= heights[0] * (1.0 - 1e-12)]
    closed = beta
    doubts: list[tuple[float, float]] = []
    number = count()
    nobody = np.empty(0, dtype=np.int64)
    heap = [(-np.inf, next(number), np.arange(n), nobody)]
    visited = 0
    while heap and visited < node_limit:
        above, _, inside, included = heapq.heappop(heap)
        if -above <= beta + TOLERANCE:
            closed = max(closed, -above)
            continue
        visited += 1
        top, values, vectors = _largest(form[np.ix_(inside, inside)])
        vector = vectors[:, -1] * (np.sign(vectors[:, -1].sum()) or 1.0)
        bound = min(-above, top)
        if vector.min() >= 0.0 and values[-1] > beta:
            beta, better = float(values[-1]), np.zeros(n)
            better[inside] = vector
            maxima = better[None]
        if bound > beta + TOLERANCE:
            known = None
            for u in maxima:
                support = np.flatnonzero(u)
                if np.isin(support, inside).all() and np.isin(included, support).all():
                    known = u
                    break
            node = _Multipliers(form, inside, included, beta, known, cuts)
            lower, where = descend(node, beta, beta + 0.5 * TOLERANCE, ROOT_STEPS if visited == 1 else STEPS)
            if lower < bound:
                bound, vector = lower, where * (np.sign(where.sum()) or 1.0)
        if bound <= beta + TOLERANCE:
            closed = max(closed, bound)
            continue
        if len(inside) - len(included) <= (SCANNED_ROOT if visited == 1 else SCANNED):
            value, point, open_ = scan_supports(form, inside, included, beta)
            if point is not None:
                beta, better, maxima = value, point, point[None]
            doubts += [(min(bound, doubt), gap) for doubt, gap in open_]
            continue
        free = ~np.isin(inside, included)
        branch = inside[free][np.argmin(vector[free])]
        heapq.heappush(heap, (-bound, next(number), inside[inside != branch], included))
        heapq.heappush(heap, (-bound, next(number), inside, np.sort(np.append(included, branch))))
    closed = max([closed, beta] + [-node[0] for node in heap])
    return better, closed, [doubt for doubt in doubts if doubt[0] > closed], not heap
