r"""Branch and bound for one output: best-first over the signs of the rows that make F convex.

The function is G(u) = Σ ±σ(y_i·u) + linear·u of :mod:`covopt.oracles.boxes.scalar`, written F(w) = Σ μ_i σ(z_i·w)
with μ_i = ±1 and a last row of weight ±1 for the linear part, if there is one.
For a row of negative weight, μ_i σ(z_i·w) is a minimum of linear functions, so only the other rows are branched on:
at most 2^p nodes for p of them, whatever the dimension. Compiled code bounds tens of thousands of
nodes a second.

**The bound of a node**, over a cone: a row of negative weight is a minimum of linear functions,
μσ(t) = min_{θ∈[0,1]} θμt, and needs no decision. A row of positive weight is on (weight at least μ: t ≥ 0 there), off
(weight at most 0), or undecided, where σ(t) ≤ t/2 + t²/(4τ) + τ/4 for every τ > 0. So for all weights c within these
limits, τ > 0 and ν above the spectrum of Q = Σ_U μ_i z_i z_iᵀ/(4τ_i),

.. math::
    \max_{\|w\| = 1} F(w) \le ν + \tfrac14 b^T (ν - Q)^{-1} b + \tfrac14 \sum_U μ_i τ_i, \qquad b = \sum_i c_i z_i

with c_i = μ_i/2 on the undecided rows; the rounding error is added (``share``, which is
:func:`covopt.exact.definite.descent_share`). A node starts from its parent's (c, τ, ν), descends by coordinates in c
and updates τ, ν from the maximiser. When all rows are decided Q = 0 and the minimum over ν is ‖b‖: the norm of the
projection of the gradient on the cone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from covopt.exact.definite import descent_share
from covopt.exact.rank import ATOMS
from covopt.exact.rounding import TINY, up
from covopt.oracles.ascent import MOST_STEPS, height, inner, least_norm, put
from covopt.oracles.base import affords
from covopt.oracles.best_first import BestFirst, search_dual_norm
from covopt.oracles.boxes.quadratic_search import ROOT_ROUNDS, ROUNDS
from covopt.oracles.boxes.scalar import DualNormBound, Scalar
from covopt.oracles.boxes.sphere_form import Sign

SPREAD = 0.02


@njit(cache=True, nogil=True)
def _limit(state, mu, low, high, coef):
    """Write the limits of the weights and clip the weights to them; return how many rows are undecided."""
    undecided = 0
    for i in range(len(mu)):
        low[i] = high[i] = 0.5 * mu[i]
        if state[i] == Sign.FREE:
            undecided += 1
        else:
            low[i] = -np.inf if state[i] == Sign.OFF else mu[i]
            high[i] = np.inf if state[i] == Sign.ON else mu[i] if state[i] == Sign.LINEAR else 0.0
        coef[i] = min(high[i], max(low[i], coef[i]))
    return undecided


@njit(cache=True, nogil=True)
def _factor(rows, mu, state, tau, nu, chol):
    """Write the Cholesky factor of ν − Q to the lower triangle; return False when it is not safely positive."""
    n, r = rows.shape
    for a in range(r):
        for b in range(a + 1):
            chol[a, b] = 0.0
        chol[a, a] = nu
    for i in range(n):
        if state[i] == Sign.FREE:
            f = mu[i] / (4.0 * tau[i])
            for a in range(r):
                fa = f * rows[i, a]
                for b in range(a + 1):
                    chol[a, b] -= fa * rows[i, b]
    for a in range(r):
        for b in range(a + 1):
            s = chol[a, b]
            for e in range(b):
                s -= chol[a, e] * chol[b, e]
            if a == b:
                if s <= 1e-7 * nu:
                    return False
                chol[a, a] = np.sqrt(s)
            else:
                chol[a, b] = s / chol[b, b]
    return True


@njit(cache=True, nogil=True)
def _forward(chol, vector, out):
    r = len(vector)
    for a in range(r):
        s = vector[a]
        for e in range(a):
            s -= chol[a, e] * out[e]
        out[a] = s / chol[a, a]


@njit(cache=True, nogil=True)
def _combine(rows, coef, ell):
    n, r = rows.shape
    ell[:] = 0.0
    for i in range(n):
        if coef[i] != 0.0:
            for c in range(r):
                ell[c] += coef[i] * rows[i, c]


@njit(cache=True, nogil=True)
def _leaf(rows, squares, low, high, coef, target, share, ell, newton):
    """Bound the norm of the projection of the gradient on a decided cone; write the direction to ``ell``."""
    sweeps = np.int64(MOST_STEPS)  # a literal would compile the callee once more
    for _ in range(2):  # the second pass removes the rounding of the first
        _combine(rows, coef, ell)
        least_norm(rows, squares, low, high, coef, ell, target, sweeps, newton)
    _combine(rows, coef, ell)
    length, spent = np.sqrt(inner(ell, ell)), 0.0
    for i in range(len(coef)):
        spent += abs(coef[i]) * np.sqrt(squares[i])
    return length + share * (length + spent)


@njit(cache=True, nogil=True)
def bound_node(rows, mu, state, coef, tau, nu, squares, target, rounds, share, work):
    """Bound one node, improving (coef, tau) in place; return the bound, ν and the row to branch on (−1: none)."""
    n, r = rows.shape
    chol, moved, ell, best_w, gram, w, low, high, lengths, best_c, best_t, newton = work
    if _limit(state, mu, low, high, coef) == 0:
        bound = _leaf(rows, squares, low, high, coef, target, share, ell, newton)
        put(ell, best_w)
        return bound, nu, -1
    best, best_nu = np.inf, nu
    branch = -1
    stalled, sweeps, no_goal = 0, np.int64(2), 0.0  # a sweep, and one with a Newton step
    for turn in range(rounds):
        while not _factor(rows, mu, state, tau, nu, chol):
            nu *= 1.3
        for i in range(n):
            _forward(chol, rows[i], moved[i])
            s = inner(moved[i], moved[i])
            lengths[i] = s
        _combine(moved, coef, ell)
        least_norm(moved, lengths, low, high, coef, ell, no_goal, sweeps, newton)
        _combine(moved, coef, ell)
        constant = spectrum = spent = 0.0
        for i in range(n):
            spent += abs(coef[i]) * np.sqrt(lengths[i])
            if state[i] == Sign.FREE:
                constant += 0.25 * mu[i] * tau[i]
                spectrum += mu[i] / (4.0 * tau[i]) * squares[i]
        height = 0.25 * inner(ell, ell)
        bound = nu + height + constant
        bound += share * ((r + 1) * nu + spectrum + np.sqrt(r * nu) * spent + height + constant)
        for a in range(r - 1, -1, -1):
            s = 0.5 * ell[a]
            for e in range(a + 1, r):
                s -= chol[e, a] * w[e]
            w[a] = s / chol[a, a]
        # moments of the maximiser: w wᵀ and a share of (ν − Q)⁻¹, whose trace should be one
        stalled = stalled + 1 if bound > best - 0.02 * max(best - target, 0.0) else 0
        trace = inner(w, w)
        slope = 0.0
        spread = SPREAD * bound / r
        inverse_trace = inverse_square = 0.0
        for a in range(r):
            gram[0, :] = 0.0
            gram[0, a] = 1.0
            _forward(chol, gram[0], gram[1])
            s = inner(gram[1], gram[1])
            inverse_trace += s
            inverse_square += s * s
        _forward(chol, w, gram[1])
        for c in range(r):
            slope -= 2.0 * gram[1, c] * gram[1, c]
        total = trace + spread * inverse_trace
        slope -= spread * inverse_square
        if bound < best:
            best, best_nu = bound, nu
            put(coef, best_c)
            put(tau, best_t)
            put(w, best_w)
            most = -1.0
            for i in range(n):
                if state[i] == Sign.FREE:
                    t = inner(rows[i], w)
                    second = np.sqrt(t * t + spread * lengths[i])
                    score = mu[i] * (0.5 * (second + t) - max(t, 0.0))
                    score += 0.1 * mu[i] * second
                    if score > most:
                        most, branch = score, i
        if best <= target or stalled >= 3:
            break
        for i in range(n):
            if state[i] == Sign.FREE:
                t = inner(rows[i], w)
                second = np.sqrt((t * t + spread * lengths[i]) / total)
                floor = 1e-4 * np.sqrt(squares[i])
                tau[i] = max(floor, np.sqrt(tau[i] * second) if turn < 2 else 0.5 * (tau[i] + second))
        if slope < 0.0:
            nu = max(0.3 * nu, min(3.0 * nu, nu + 2.0 * total * (1.0 - np.sqrt(total)) / slope))
    put(best_c, coef)
    put(best_t, tau)
    return best, best_nu, branch


@njit(cache=True, nogil=True)
def workspace(n, r):
    """Allocate the arrays that :func:`bound_node` writes to; the fourth then holds the maximiser's direction."""
    return (
        np.empty((r, r)), np.empty((n, r)), np.empty(r), np.empty(r), np.empty((2, r)), np.empty(r),
        np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty((4, r, r)),
    )  # fmt: skip


@dataclass
class Node:
    """A cone for one sign of G: its bound, the signs of the rows, the multipliers, and the row to branch on."""

    bound: float
    mu: np.ndarray
    state: np.ndarray
    coef: np.ndarray
    tau: np.ndarray
    nu: float
    cut: int = -1

    def halves(self) -> Iterator[Node]:
        """Yield the parts of the node where the row is on and off, with copies of the multipliers."""
        for sign in (Sign.ON, Sign.OFF):
            state = self.state.copy()
            state[self.cut] = sign
            yield Node(self.bound, self.mu, state, self.coef.copy(), self.tau.copy(), self.nu)


class SignTree(BestFirst):
    """Best-first search over the signs of the rows.

    Parameters
    ----------
    scalar, goal
        As in :class:`~covopt.oracles.best_first.BestFirst`.

    Examples
    --------
    >>> tree = SignTree(Scalar(np.eye(2), np.array([0.3, 0.4])))
    >>> round(tree.run(1e-9, 100) * 2.0**tree.scalar.exponent, 9)
    0.5
    """

    def __init__(self, scalar: Scalar, goal: float = 0.0):
        super().__init__(scalar, goal)
        self.rows = np.vstack([scalar.y, scalar.linear]) if scalar.linear.any() else scalar.y
        self.squares = (self.rows**2).sum(axis=1)
        self._share, self._work = descent_share(*self.rows.shape), workspace(*self.rows.shape)

    def roots(self) -> Iterator[Node]:
        """Yield both signs of G, without assumptions on rows."""
        n, r = self.scalar.y.shape
        for side in (1.0, -1.0):
            mu = np.full(len(self.rows), side)
            # rows whose squares are zero have no sign; :meth:`measure` adds more than their lengths
            mu[:n] *= self.scalar.signs * (self.squares[:n] > 0.0)
            state = np.where(mu > 0.0, Sign.FREE, Sign.CONCAVE).astype(np.int8)
            state[n:] = Sign.LINEAR
            coef, tau = np.where(mu > 0.0, 0.5 * mu, 0.0), np.sqrt(self.squares / r)
            yield Node(self.proved, mu, state, coef, tau, 0.5 * self.proved)

    def measure(self, parts: list[Node], level: float) -> None:
        """See the base class."""
        n, point = len(self.scalar.y), self._work[3]
        rounds = ROOT_ROUNDS if self.is_new else ROUNDS
        for node in parts:
            found, node.nu, node.cut = bound_node(
                self.rows, node.mu, node.state, node.coef, node.tau, node.nu, self.squares, level, rounds,
                self._share, self._work,
            )  # fmt: skip
            node.bound = min(node.bound, up(found + len(self.rows) * np.sqrt(TINY)))
            side = node.mu[n] if len(node.mu) > n else 1.0
            value = height(self.scalar.y, node.mu[:n], side * self.scalar.linear, point)
            if value > self.scalar.best * np.sqrt(point @ point):
                self.scalar.offer(point[None])


def sign_limit(n_rows: int, rank: int, effort: float = 1.0) -> int:
    """Return the node limit of branch and bound over signs for an effort, at least one.

    Examples
    --------
    >>> sign_limit(40, 21, 1 / 30), sign_limit(200, 11), sign_limit(40, 8)
    (2013, 37375, 61724)
    """
    return max(affords(4.0 * (n_rows + rank) ** 2, effort), 1)


def sign_dual_norm(
    rows: np.ndarray, dual: np.ndarray, *, max_nodes: int | None = None, **options: Any
) -> DualNormBound:
    """Bound h(λ) from above by branch and bound over the signs of the rows.

    Times on one core, for standard normal points with bias and standard normal targets. An optimal dual is the
    hardest one: many of its maxima are equal. N = 20, d = 10 takes 120 nodes, N = 30, d = 7 takes 600, N = 40,
    d = 20 takes 3000 and about a second, where there are 10²¹ faces.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
    dual : ndarray of shape (N,)
    max_nodes : int, optional
        Most nodes, :func:`sign_limit` by default.
    **options
        Of :func:`~covopt.oracles.best_first.search_dual_norm`.

    Examples
    --------
    >>> answer = sign_dual_norm(np.eye(3), np.array([3.0, 4.0, -6.0]))
    >>> round(answer.best_value, 9), round(answer.upper_bound, 8), answer.closed
    (-6.0, 6.0, True)
    """
    most = sign_limit(*rows.shape) if max_nodes is None else max_nodes
    return search_dual_norm(SignTree, rows, dual, **{"rtol": ATOMS, "max_nodes": most, **options})
