r"""An active-set method for the restricted problem of one output: exact, and quick from a good start.

    min over v   ½ ‖c − Aᵀv‖² + ‖v‖₁          (A: one atom per row)

Near the end of a path point few neurons come and go, and each costs one update of a Cholesky factor, where an
interior-point method factors anew for every step. The active columns keep their signs; the least-squares solution on
them is approached until a weight would change its sign, which leaves, and the columns that violate
|⟨a, c − Aᵀv⟩| ≤ 1 most enter, a few at a time. A column that depends on the active ones (a pair ±w may) enters by
exchange: the outputs stay and the norm falls until a weight vanishes, as in the simplex method.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.linalg.lapack import dpotrf

DEPENDENT = (
    1e-11  # share of a column's square outside the span of the active ones below which it counts as inside
)
VIOLATION = 1e-9  # |⟨a, c − Aᵀv⟩| − 1 that is let pass
BATCH = 5
MAX_STEPS = 3000
PATIENCE = 3  # rounds without progress after which rounding is all that is left


@dataclass(frozen=True)
class SparsePoint:
    """Solution of the restricted problem.

    Attributes
    ----------
    weights : ndarray of shape (M,)
        v, at most N of them not zero.
    residual : ndarray of shape (N,)
        c − Aᵀv, the dual point: at most 1 + VIOLATION in absolute value on every atom when ``solved``.
    steps : int
    solved : bool
        Whether no column violates its bound. Otherwise the weights are a point of the problem like any other: the
        steps ran out, or the columns that should enter depend on the active ones within rounding.
    """

    weights: np.ndarray
    residual: np.ndarray
    steps: int
    solved: bool


def solve_sparse(atoms: np.ndarray, targets: np.ndarray, weights: np.ndarray | None = None) -> SparsePoint:
    """Minimise ½‖c − Aᵀv‖² + ‖v‖₁.

    Parameters
    ----------
    atoms : ndarray of shape (M, N)
        A, C-contiguous.
    targets : ndarray of shape (N,)
        c.
    weights : ndarray of shape (M,), optional
        Where to start.

    Returns
    -------
    SparsePoint

    Examples
    --------
    >>> solve_sparse(np.eye(2), np.array([3.0, 0.5])).weights
    array([2., 0.])
    """
    v = np.zeros(len(atoms)) if weights is None else weights.astype(float)
    first = np.flatnonzero(v)
    first = first[np.argsort(-np.abs(v[first]), kind="stable")]
    size = min(atoms.shape) + 2
    factor = np.zeros((size, size))
    held = 0
    if 0 < len(first) <= size - 2:
        columns = atoms[first]
        gram = columns @ columns.T
        lower, failed = dpotrf(gram, lower=1, clean=1)
        if not failed and (np.diag(lower) ** 2 > DEPENDENT * np.diag(gram)).all():
            held = len(first)
            factor[:held, :held] = lower
    steps, residual, solved = _solve(atoms, targets, v, first, held, factor, VIOLATION, BATCH, MAX_STEPS)
    return SparsePoint(v, residual, steps, bool(solved))


@njit(cache=True, fastmath={"reassoc", "contract"})
def _products(rows, count, x, out):
    """Write the inner products of the first rows with x."""
    for i in range(count):
        total = 0.0
        for a in range(len(x)):
            total += rows[i, a] * x[a]
        out[i] = total


@njit(cache=True, fastmath={"reassoc", "contract"})
def _square(x, count):
    total = 0.0
    for a in range(count):
        total += x[a] * x[a]
    return total


@njit(cache=True, fastmath={"reassoc", "contract"})
def _forward(L, r, b):
    for i in range(r):
        t = b[i]
        for k in range(i):
            t -= L[i, k] * b[k]
        b[i] = t / L[i, i]


@njit(cache=True)
def _backward(L, r, b):
    for i in range(r - 1, -1, -1):
        t = b[i] / L[i, i]
        b[i] = t
        for k in range(i):
            b[k] -= L[i, k] * t


@njit(cache=True)
def _drop(L, B, active, signs, place, r, k):
    """Take column k out of the active ones; its factor is restored by rotations. Returns the new number."""
    place[active[k]] = -1
    for i in range(k, r - 1):
        for j in range(i + 2):
            L[i, j] = L[i + 1, j]
        active[i] = active[i + 1]
        signs[i] = signs[i + 1]
        place[active[i]] = i
        for j in range(B.shape[1]):
            B[i, j] = B[i + 1, j]
    for i in range(k, r - 1):
        a, b = L[i, i], L[i, i + 1]
        h = np.sqrt(a * a + b * b)
        c, s = a / h, b / h
        L[i, i] = h
        L[i, i + 1] = 0.0
        for m in range(i + 1, r - 1):
            p, q = L[m, i], L[m, i + 1]
            L[m, i] = c * p + s * q
            L[m, i + 1] = c * q - s * p
    return r - 1


@njit(cache=True)
def _exchange(L, B, active, signs, place, r, v, own, sign, inside):
    """Shift mass between a dependent column and the active ones: equal outputs, less norm, until one vanishes.

    Returns the new number of active columns, and whether column ``own`` may enter now.
    """
    u = inside
    _forward(L, r, u)
    _backward(L, r, u)
    rate = 1.0
    for i in range(r):
        rate -= signs[i] * sign * u[i]
    # by growing where that lowers the norm, else by giving back what the column has
    towards = 1.0 if rate < -1e-12 else -1.0
    if towards < 0.0 and v[own] == 0.0:
        return r, False
    longest = np.inf if towards > 0.0 else abs(v[own])
    leaving = -1
    for i in range(r):
        change = -towards * sign * u[i]
        if change * signs[i] < 0.0 and -v[active[i]] / change < longest:
            longest = -v[active[i]] / change
            leaving = i
    if longest == np.inf:
        return r, False
    for i in range(r):
        v[active[i]] -= towards * longest * sign * u[i]
    if leaving < 0:
        v[own] = 0.0
        return r, False
    v[own] += towards * longest * sign
    v[active[leaving]] = 0.0
    return _drop(L, B, active, signs, place, r, leaving), True


@njit(cache=True)
def _enter(A, L, B, active, signs, place, r, v, j, sign, square):
    """Make column j active; returns the new number of active columns and whether it is among them."""
    for _ in range(2):
        inside = np.empty(r)
        _products(B, r, A[j], inside)
        new = inside.copy()
        _forward(L, r, new)
        outside = square - _square(new, r)
        if outside > DEPENDENT * square and r < min(A.shape):
            for i in range(r):
                L[r, i] = new[i]
            L[r, r] = np.sqrt(outside)
            active[r], signs[r], place[j] = j, sign, r
            for a in range(A.shape[1]):
                B[r, a] = A[j, a]
            return r + 1, True
        r, goes_on = _exchange(L, B, active, signs, place, r, v, j, sign, inside)
        if not goes_on:
            break
    v[j] = 0.0
    return r, False


@njit(cache=True)
def _residual(B, active, r, v, c, x):
    """Write c less the outputs of the active columns to x."""
    for a in range(len(c)):
        x[a] = c[a]
    for i in range(r):
        weight = v[active[i]]
        for a in range(len(c)):
            x[a] -= weight * B[i, a]


@njit(cache=True)
def _step(L, B, active, signs, r, v, c, x):
    """Least-squares step on the active columns from the weights they have; leaves the residual in x."""
    _residual(B, active, r, v, c, x)
    step = np.empty(r)
    _products(B, r, x, step)
    for i in range(r):
        step[i] -= signs[i]
    _forward(L, r, step)
    _backward(L, r, step)
    return step


@njit(cache=True)
def _solve(A, c, v, first, held, L, tol, batch, max_steps):
    M, N = A.shape
    size = L.shape[0]
    B = np.zeros((size, N))
    active = np.empty(size, np.int64)
    signs = np.zeros(size)
    place = np.full(M, -1)
    squares = np.empty(M)
    for j in range(M):
        squares[j] = _square(A[j], N)
    r = np.int64(0)  # a literal would compile what it is handed to once more
    for t in range(held):
        j = first[t]
        active[r], signs[r], place[j] = j, np.sign(v[j]), r
        for a in range(N):
            B[r, a] = A[j, a]
        r += 1
    for t in range(held, len(first)):
        j = first[t]
        r, _ = _enter(A, L, B, active, signs, place, r, v, j, np.sign(v[j]), squares[j])
    x = c.copy()
    products = np.empty(M)
    steps, idle, last = 0, 0, np.inf
    solved = False
    barred = np.zeros(M, np.bool_)  # columns that could not enter, until something changes
    while steps < max_steps:
        while r > 0:
            steps += 1
            step = _step(L, B, active, signs, r, v, c, x)
            length, leaving = 1.0, -1
            for i in range(r):
                here = v[active[i]] * signs[i]
                there = here + step[i] * signs[i]
                if there <= 0.0:
                    fraction = max(here, 0.0) / max(here - there, 1e-300)
                    if fraction < length or leaving < 0:
                        length, leaving = min(fraction, 1.0), i
            for i in range(r):
                v[active[i]] += length * step[i]
            if leaving < 0:
                break
            for i in range(r - 1, -1, -1):
                if i == leaving or (v[active[i]] * signs[i] <= 0.0 and step[i] * signs[i] <= 0.0):
                    v[active[i]] = 0.0
                    r = _drop(L, B, active, signs, place, r, i)
        if r > 0:  # one refinement, where it does not change a sign
            step = _step(L, B, active, signs, r, v, c, x)
            fine = True
            for i in range(r):
                fine = fine and (v[active[i]] + step[i]) * signs[i] > 0.0
            if fine:
                for i in range(r):
                    v[active[i]] += step[i]
        _residual(B, active, r, v, c, x)
        value = 0.5 * _square(x, N)
        for i in range(r):
            value += abs(v[active[i]])
        progress = value < last - 1e-13 * abs(value)
        idle = 0 if progress else idle + 1
        last = min(value, last)
        if progress:
            barred[:] = False
        if idle >= PATIENCE:
            break
        _products(A, M, x, products)
        entered = False
        shut_out = False  # whether a column that violates its bound is barred
        chosen = np.full(batch, -1)
        excess = np.full(batch, tol)
        for j in range(M):
            beyond = abs(products[j]) - 1.0
            if beyond <= excess[batch - 1] or place[j] >= 0:
                continue
            if barred[j]:
                shut_out = True
                continue
            k = batch - 1
            while k > 0 and beyond > excess[k - 1]:
                excess[k], chosen[k] = excess[k - 1], chosen[k - 1]
                k -= 1
            excess[k], chosen[k] = beyond, j
        for k in range(batch):
            j = chosen[k]
            if j < 0 or excess[k] < 0.1 * excess[0]:
                break
            before = r
            r, inside = _enter(A, L, B, active, signs, place, r, v, j, np.sign(products[j]), squares[j])
            entered = entered or inside or r != before
            barred[j] = not inside
        if chosen[0] < 0:
            solved = not shut_out
            break
        if not entered and idle:
            break
    return steps, x, solved
