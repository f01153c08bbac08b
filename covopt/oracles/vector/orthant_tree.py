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

**Rounding.** The bound holds for the doubles M. No eigenvalue is believed: where a node is closed, LAPACK's are off
by the δ of :func:`~covopt.exact.definite.spectrum_error_up`, and X by what its products and sums are rounded by. β
enters the conditions as β − γ(16(n + 8)), below what its point attains: the sums over \|u\|ᵀ\|M\|\|u\| ≤ tr M = 1 go
through no more roundings. A support is left out only where its top eigenvector has a negative entry beyond its own
error, and the gap of one in doubt is taken 2δ wider.
"""

from __future__ import annotations

import heapq
from itertools import combinations, count
from math import comb

import numpy as np

from covopt.exact.definite import product_error_up, spectrum_error_up
from covopt.exact.rounding import UNIT, gamma
from covopt.oracles.vector.doubts import settle_doubts

TOLERANCE = 2e-13  # nodes are closed when what is computed is not above β by more, relative to the trace
STEPS = 80
SHARP = 1e-11  # a bound within this of a value counts as attained; said so, and valid in any case
ROOT_STEPS = 400
SCANNED_ROOT = 12  # rows up to which all supports are looked at when the root stays open
SCANNED = 8  # undecided rows up to which a node is closed that way


def _value(form: np.ndarray, point: np.ndarray) -> float:
    """Value of a nonnegative point, scaled to length one."""
    return float(point @ form @ point) / float(point @ point)


def _below(beta: float, n: int) -> float:
    """Less than what the point of value β attains, whatever β was rounded by."""
    return beta - gamma(16 * (n + 8))


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
        rows[np.arange(len(kept)), kept] -= _below(beta, len(form)) - 4.0 * UNIT
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

    def matrix_error(self):
        """Bound what X is rounded by."""
        cut = np.abs(self.y).T @ np.abs(self.rows)
        size = float(np.linalg.norm(self.form) + np.linalg.norm(self.p) + np.linalg.norm(cut))
        return product_error_up(self.y, self.rows) + 8.0 * UNIT * size

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


def descend(node: _Multipliers, beta: float, goal: float, steps: int) -> tuple[float, float, np.ndarray]:
    """Lower λ_max(X) to ``goal`` if possible; return it as computed and as proved, and the eigenvector."""
    best, where, kept = np.inf, np.zeros(len(node.form)), None
    since = 0
    for _ in range(steps):
        x = node.matrix()
        values, vectors = np.linalg.eigh(x)
        top = float(values[-1])
        if top < best - 1e-4 * max(best - goal, 0.0):
            since = 0
        since += 1
        if top < best:
            best, where, kept = top, vectors[:, -1], (x, values, vectors, node.p, node.y)
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
    if kept is None:
        return best, np.inf, where
    x, values, vectors, node.p, node.y = kept
    return best, best + float(spectrum_error_up(x, values, vectors)[0]) + node.matrix_error(), where


def scan_supports(
    form: np.ndarray, inside: np.ndarray, included: np.ndarray, beta: float
) -> tuple[float, np.ndarray | None, float, list[tuple[float, float]]]:
    """Look at every support between ``included`` and ``inside`` for a value above ``beta``.

    A maximiser with support T is the top eigenvector of M_T; how far the computed one is off is measured.

    Returns
    -------
    best : float
        The largest value that is attained, at least ``beta``.
    point : ndarray of shape (n,) or None
        Where, if above ``beta``.
    closed : float
        Not exceeded on the supports that are not in doubt.
    doubts : list of (float, float)
        Eigenvalue and gap where rounding leaves open whether the eigenvector is nonnegative.

    Examples
    --------
    >>> best, point, closed, doubts = scan_supports(np.diag([0.25, 0.75]), np.arange(2), np.arange(0), 0.0)
    >>> best, point, 0.75 <= closed < 0.75 + 1e-13, doubts
    (0.75, array([0., 1.]), True, [])
    """
    n = len(form)
    free = np.setdiff1d(inside, included)
    best, point, closed, doubts = beta, None, beta, []
    for size in range(len(free) + 1):
        chosen = np.array(list(combinations(free, size)), dtype=np.int64).reshape(comb(len(free), size), size)
        supports = np.concatenate([np.tile(included, (len(chosen), 1)), chosen], axis=1)
        if supports.shape[1] == 0:
            continue
        blocks = form[supports[:, :, None], supports[:, None, :]]
        values, vectors = np.linalg.eigh(blocks)
        delta, turn = spectrum_error_up(blocks, values, vectors)
        top = values[:, -1] + delta
        gap = values[:, -1] - values[:, -2] if values.shape[1] > 1 else np.full(len(top), np.inf)
        vector = vectors[:, :, -1]
        least = np.maximum(vector.min(axis=1), (-vector).min(axis=1))
        attained = least >= 0.0
        closed = max(closed, float(top[attained].max(initial=0.0)))
        if attained.any() and values[attained, -1].max() > best:
            p = np.flatnonzero(attained)[values[attained, -1].argmax()]
            found = np.zeros(n)
            found[supports[p]] = np.abs(vector[p])
            if (value := _value(form, found)) > best:
                best, point = value, found
        with np.errstate(invalid="ignore", divide="ignore"):
            reach = np.where(gap > 8.0 * delta, 2.0 * delta / gap, np.inf) + turn
        open_ = (top > best) & ~attained & (least >= -reach)
        wide = gap + 2.0 * delta
        doubts += [(float(t), float(g)) for t, g in zip(top[open_], wide[open_], strict=True)]
    return best, point, closed, doubts


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
    beta = _value(form, points[0])
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
    return better, bound, finished and bound <= _value(form, best) + SHARP


def _grow(
    form: np.ndarray, points: np.ndarray, node_limit: int, *, cuts: bool
) -> tuple[np.ndarray | None, float, list[tuple[float, float]], bool]:
    """Grow the tree: a better point, the bound over all that is not in doubt, the doubts, and whether it ended."""
    n = len(form)
    heights = np.einsum("mi,ij,mj->m", points, form, points)
    beta, better = _value(form, points[0]), None
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
        block = form[np.ix_(inside, inside)]
        values, vectors = np.linalg.eigh(block)
        vector = vectors[:, -1] * (np.sign(vectors[:, -1].sum()) or 1.0)
        computed = min(-above, float(values[-1]))
        bound = min(-above, float(values[-1]) + float(spectrum_error_up(block, values, vectors)[0]))
        if vector.min() >= 0.0 and values[-1] > beta:
            found = np.zeros(n)
            found[inside] = vector
            if (value := _value(form, found)) > beta:
                beta, better, maxima = value, found, found[None]
        if computed > beta + TOLERANCE:
            known = None
            for u in maxima:
                support = np.flatnonzero(u)
                if np.isin(support, inside).all() and np.isin(included, support).all():
                    known = u
                    break
            node = _Multipliers(form, inside, included, beta, known, cuts)
            steps = ROOT_STEPS if visited == 1 else STEPS
            lower, proved, where = descend(node, beta, beta + 0.5 * TOLERANCE, steps)
            if lower < computed:
                computed, vector = lower, where * (np.sign(where.sum()) or 1.0)
            bound = min(bound, proved)
        if computed <= beta + TOLERANCE:  # what is proved exceeds it by rounding only, which no branch lowers
            closed = max(closed, bound)
            continue
        if len(inside) - len(included) <= (SCANNED_ROOT if visited == 1 else SCANNED):
            value, point, seen, open_ = scan_supports(form, inside, included, beta)
            closed = max(closed, min(bound, seen))
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
