r"""Branch and bound for one output: best-first over the signs of the rows that make F convex.

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

import heapq
from dataclasses import dataclass

import numpy as np
from numba import njit

from covopt.exact.definite import descent_share
from covopt.exact.rounding import lengths_up, total_up
from covopt.oracles.ascent import MOST_STEPS, height, inner, least_norm, put
from covopt.oracles.boxes.narrowing import Sign
from covopt.oracles.boxes.quadratic_search import ROOT_ROUNDS, ROUNDS

SPREAD = 0.02
SWEEPS = 3


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
            high[i] = np.inf if state[i] == Sign.ON else 0.0
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
    stalled, sweeps, no_goal = 0, np.int64(SWEEPS), 0.0
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
    """The assumed signs of the rows for one of the duals ±μ, the multipliers, and the row to branch on."""

    mu: np.ndarray
    state: np.ndarray
    coef: np.ndarray
    tau: np.ndarray
    nu: float
    row: int = -1

    def child(self, state: int) -> Node:
        """Return the part of the node where the row is on or off, with copies of the multipliers."""
        states = self.state.copy()
        states[self.row] = state
        return Node(self.mu, states, self.coef.copy(), self.tau.copy(), self.nu)


class SignTree:
    """Branch and bound over both signs of a dual; the search may stop after any node.

    Parameters
    ----------
    rows : ndarray of shape (n, r)
        Scaled to size one.
    mu : ndarray of shape (n,)
        Weights, zeros allowed; the sum of |μ| should be neither tiny nor huge.
    best : float
        A known value of |F|.

    Attributes
    ----------
    best, point : float, ndarray of shape (r,)
        The incumbent: |F(point / ‖point‖)| = best; zeros while nothing better than the known value was found.
    n_nodes : int
        Nodes that were bounded.

    Examples
    --------
    >>> tree = SignTree(np.eye(2), np.array([0.3, 0.4]))
    >>> while tree.bound > tree.best + 1e-9:
    ...     tree.branch(0.0)
    >>> round(tree.best, 9), tree.upper < 0.5 + 1e-9
    (0.5, True)
    """

    def __init__(self, rows: np.ndarray, mu: np.ndarray, best: float = 0.0):
        n, r = rows.shape
        self.rows, self.zero = np.ascontiguousarray(rows), np.zeros(r)
        self.squares = (self.rows**2).sum(axis=1)
        self.share, self._work = descent_share(n, r), workspace(n, r)
        self.best, self.point, self.n_nodes = best, np.zeros(r), 0
        self.open: list[tuple[float, int, Node]] = []
        self._settled = self._held = 0.0  # largest bound pruned; bound of the node being branched on
        for side in (mu, -mu):
            convex = side > 0
            trivial = total_up(side[convex], lengths_up(self.rows[convex]))
            state = np.where(convex, Sign.FREE, Sign.CONCAVE).astype(np.int8)
            coef, tau = np.where(convex, 0.5 * side, 0.0), np.sqrt(self.squares / r)
            self._look(
                Node(np.ascontiguousarray(side), state, coef, tau, 0.5 * trivial), trivial, 0.0, ROOT_ROUNDS
            )

    def _look(self, node: Node, above: float, level: float, rounds: int = ROUNDS) -> None:
        """Bound a node with a known bound of its parent; prune it if the bound is at most ``level``."""
        found, node.nu, node.row = bound_node(
            self.rows, node.mu, node.state, node.coef, node.tau, node.nu, self.squares, level, rounds, self.share,
            self._work,
        )  # fmt: skip
        self.n_nodes += 1
        point = self._work[3]
        size = float(np.sqrt(point @ point))
        if size > 0.0 and (value := height(self.rows, node.mu, self.zero, point) / size) > self.best:
            self.best, self.point = value, point.copy()
        found = min(found, above)
        if found <= level or node.row < 0:
            self._settled = max(self._settled, found)
        else:
            heapq.heappush(self.open, (-found, self.n_nodes, node))

    @property
    def bound(self) -> float:
        """Largest bound of an open node."""
        return -self.open[0][0] if self.open else 0.0

    @property
    def upper(self) -> float:
        """Upper bound on the maximum of |F|, valid also after an interrupt."""
        return max(self.bound, self._held, self._settled, self.best)

    def branch(self, margin: float) -> None:
        """Branch on the node of largest bound; prune its children at bounds up to ``best + margin``."""
        self._held = self.bound
        node = heapq.heappop(self.open)[2]
        for state in (Sign.ON, Sign.OFF):
            self._look(node.child(state), self._held, self.best + margin)
        self._held = 0.0
