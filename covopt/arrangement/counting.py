"""Counting cells without enumerating them."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
from numba import njit

from covopt.arrangement.enumeration import Run, half_blocks
from covopt.arrangement.reduction import Reduced, lift, reduce
from covopt.errors import BudgetError
from covopt.exact.elimination import primes_below
from covopt.limits import PIECE, checkpoint


@njit(cache=True)
def _times(a, b, p, inverse_p):
    # exact for p < 2⁵⁰: the error of the quotient is at most one, and the product is needed only modulo 2⁶⁴
    q = np.int64(np.float64(a) * np.float64(b) * inverse_p)
    r = a * b - q * p
    if r < 0:
        r += p
    elif r >= p:
        r -= p
    return r


@njit(cache=True)
def _inverse(a, p):
    x0, x1, r0, r1 = 0, 1, p, a
    while r1 > 0:
        q = r0 // r1
        x0, x1 = x1, x0 - q * x1
        r0, r1 = r1, r0 - q * r1
    return x0 % p


@njit(cache=True)
def _restrict(old, i, c, new, probe, p, table, stamps, stamp, keys):
    """Restrict the rows before ``i`` to the hyperplane of row ``i``; write one row per line, return their number.

    Rows on one line agree in (u·y)/(v·y) for the two probes u, v; others agree with probability 2/p.
    """
    inverse_p = 1.0 / p
    at = 0
    while old[i, at] == 0:
        at += 1
    scale = p - _inverse(old[i, at], p)
    product = np.int64(1)
    for j in range(i):
        factor = _times(old[j, at], scale, p, inverse_p)
        above, below = np.int64(0), np.int64(0)
        k = 0
        for e in range(c):
            if e == at:
                continue
            value = old[j, e] + _times(factor, old[i, e], p, inverse_p)
            if value >= p:
                value -= p
            new[j, k] = value
            above += _times(value, probe[0, k], p, inverse_p)
            below += _times(value, probe[1, k], p, inverse_p)
            k += 1
        below %= p
        if below == 0:
            below = np.int64(1)
        keys[j, 0] = above % p
        keys[j, 1] = product
        keys[j, 2] = below
        product = _times(product, below, p, inverse_p)
    # one inversion for all denominators
    tail = _inverse(product, p)
    for j in range(i - 1, -1, -1):
        keys[j, 0] = _times(keys[j, 0], _times(tail, keys[j, 1], p, inverse_p), p, inverse_p)
        tail = _times(tail, keys[j, 2], p, inverse_p)
    m = 0
    for j in range(i):
        key = keys[j, 0]
        slot = (key ^ (key >> 21)) & (table.size - 1)
        while stamps[slot] == stamp and table[slot] != key:
            slot = (slot + 1) & (table.size - 1)
        if stamps[slot] != stamp:
            stamps[slot] = stamp
            table[slot] = key
            if m < j:
                for k in range(c - 1):
                    new[m, k] = new[j, k]
            m += 1
    return m


@njit(cache=True)
def _count(held, number, following, total, state, p, probe, table, stamps, keys, until):
    """Count the cells of distinct hyperplanes modulo p until the row operations exceed ``until``; return if done.

    One arrangement per dimension: rows ``held``, their ``number``, the next row to restrict to, the ``total`` so far.
    ``state`` holds the current dimension, the stamp of the hash table and the operations so far; another call
    continues the count.
    """
    r = held.shape[0] - 1
    c, stamp, work = state
    done = False
    while not done and work <= until:
        i = following[c]
        if i == number[c]:
            if c == r:
                done = True
                continue
            c += 1
            total[c] += total[c - 1]
            following[c] += 1
            continue
        stamp += 1
        work += i + 1
        m = _restrict(held[c], i, c, held[c - 1], probe, p, table, stamps, stamp, keys)
        if c == 3:
            # lines through the origin of a plane: two cells each
            total[c] += max(2 * m, 1)
            following[c] += 1
        else:
            c -= 1
            number[c] = m
            following[c] = 0
            total[c] = 1
    state[0], state[1], state[2] = c, stamp, work
    return done


def _count_modulo(rows: np.ndarray, p: int, probe: np.ndarray, budget: float) -> tuple[int, int]:
    """Return the number of cells modulo p and the row operations used; −1 if they exceed the budget."""
    n, r = rows.shape
    size = 1 << max(2, (2 * n - 1).bit_length())
    held = np.empty((r + 1, n, r), dtype=np.int64)
    number, following, total = (np.zeros(r + 1, dtype=np.int64) for _ in range(3))
    held[r], number[r], total[r] = rows, n, 1
    state = np.array([r, 0, 0])
    table, stamps = np.empty(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    keys = np.empty((n, 3), dtype=np.int64)
    done = False
    while not done and state[2] <= budget:
        checkpoint()
        until = min(budget, state[2] + PIECE)
        done = _count(held, number, following, total, state, p, probe, table, stamps, keys, until)
    return int(total[r]) if done else -1, int(state[2])


def _count_exactly(reduced: Reduced, budget: float) -> int:
    rows = reduced.integers
    assert rows is not None
    best, work = 0, 0
    for p in primes_below(2**50, 2):
        probe = np.random.default_rng(p).integers(1, p, size=(2, reduced.rank))
        count, work = _count_modulo(rows % p, p, probe, budget)
        if count < 0:
            n, r = rows.shape
            bound = 2 * sum(comb(n - 1, i) for i in range(r))
            raise BudgetError(
                f"counting the cells of {n} distinct hyperplanes of rank {r} takes more than {budget:.2g} "
                f"row operations; there are at most {bound:.4g} cells, with equality in general position"
            )
        # a prime can only make rows look more dependent, which only lowers the count
        best = max(best, int(count))
        if work > PIECE:
            break
    return best


def count_cells(X: Any, *, bias: float = 0.0, budget: float = 3e9) -> int:
    r"""Count the activation patterns of a table of points without enumerating them.

    Columns of integers or short decimals are counted by deletion and restriction,

    .. math:: r(A) = 1 + \sum_i r(A_{<i} \text{ restricted to } H_i),

    modulo a 50-bit prime; if that takes at most a tenth of a second, again with a second prime. With probability
    about 10⁻¹⁵ a prime identifies two different lines, which lowers the count: the larger count is returned.
    Other floating-point tables are swept as in :func:`~covopt.arrangement.enumeration.enumerate_cells`, without
    storing the cells.

    Parameters
    ----------
    X : array of shape (N, d)
        One point per row.
    bias : float
        β, appended to every row when it is not 0.
    budget : float
        Most row operations, or vertices of a floating-point table. For n distinct hyperplanes of rank D the
        cost is at most :math:`\binom{n}{D-1}` operations of D multiplications each, about 10⁷ per second,
        and far less on degenerate tables.

    Returns
    -------
    int

    Raises
    ------
    InputError
        If X is not a finite table with at least one row, or ``bias`` is invalid.
    BudgetError
        If the count would take more than ``budget`` operations.

    Warns
    -----
    PrecisionWarning
        As in :func:`~covopt.arrangement.enumeration.enumerate_cells`.

    Notes
    -----
    In general position there are :math:`2 \sum_{i<D} \binom{N-1}{i}` (Cover 1965); the identity above is
    Zaslavsky's (1975).

    Examples
    --------
    >>> from itertools import product
    >>> count_cells(list(product((0, 1), repeat=4))[1:])
    370
    >>> count_cells([[0.1, 0.2], [0.3, 0.1], [0.2, 0.4]], bias=1.0)
    8
    """
    table = lift(X, bias)
    reduced = reduce(*table, patterns=False)
    n, r = len(reduced.masks), reduced.rank
    if r == 0:
        return 1
    if r in (2, n):  # independent hyperplanes, or lines through the origin of a plane
        Run(reduced).warn()
        return 2**n if n == r else 2 * n
    if reduced.exact:
        return _count_exactly(reduced, budget)
    vertices = sum(comb(n - 1, i) for i in range(r))
    if vertices > budget:
        raise BudgetError(
            f"counting the cells of {n} distinct hyperplanes of rank {r} sweeps up to {vertices:.4g} "
            f"vertices, more than the budget of {budget:.2g}; there are at most twice as many cells, with "
            "equality in general position"
        )
    run = Run(reduce(*table))
    count = 2 * sum(half for _, half in half_blocks(run, size=PIECE, n_jobs=1, keep=False))
    run.warn()
    return count
