"""Kernels of the sweep: zero tests with a record, exact for integer rows, and the exchange of one basis row."""

from __future__ import annotations

from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from covopt.exact.rank import COMPUTED, NEAR

# lets maxima vectorise; no flag that reorders arithmetic
FAST = {"nnan", "nsz"}

# what only kernels call needs no way in from Python: that takes a tenth of the compilation
internal: Any = partial(njit, cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


class Stat(IntEnum):
    """Indices of ``stats``."""

    LARGEST_ZERO = 0
    SMALLEST_NONZERO = 1
    UNRESOLVED = 2
    COUNT = 3


class State(IntEnum):
    """State of a row on a flat P: free; in cl(P); only in cl(P, c₀); in the basis of P; crossing here; padding."""

    FREE = 0
    INSIDE = 1
    PARALLEL = 2
    BASIS = 3
    HERE = 4
    PADDING = 5


class ZeroTest(NamedTuple):
    """Parameters and record of the zero tests.

    ``zero_below`` is the relative threshold in floating mode. With ``residues`` (t, n, D) of integer rows
    modulo ``primes`` (t,) doubtful quantities are decided exactly instead. ``stats`` is the record:
    largest zero, smallest nonzero, doubtful signs, cells found.
    """

    zero_below: float
    residues: Any
    primes: Any
    work: Any
    stats: Any


class Problem(NamedTuple):
    """A central arrangement in flag coordinates.

    ``rows`` (D, n) has the coefficients of the rows on the flag; ``first`` is the flag vector at infinity
    (columns before it are ignored; 0 means that c₀ is itself a row, not among the n, and that it decides
    ties); ``masks`` (n, W) and ``base`` (W,) are the bits that flip with each row and the pattern of
    all-positive signs; ``ids`` are the indices of the rows among the integer rows (index 0 is c₀).
    """

    rows: Any
    first: int
    masks: Any
    base: Any
    ids: Any


class Stack(NamedTuple):
    """Storage of a depth-first search over bases; entry d belongs to the flat of the first d chosen rows."""

    tableaux: Any
    scales: Any
    states: Any
    used: Any
    column_of: Any
    chosen: Any
    following: Any
    ids: Any


@internal
def padded(n):
    """Return the length of a loop over n entries: padded to whole vectors, four at a time, unless n is small."""
    return n if n < 16 else (n + 31) // 32 * 32


@internal
def make_stack(n_columns, n):
    """Allocate a search stack for n rows in ``n_columns`` dimensions."""
    width = padded(n + 1)
    return Stack(
        np.zeros((n_columns, n_columns, width)),
        np.ones((n_columns, width)),
        np.full((n_columns, width), State.PADDING, dtype=np.int8),
        np.zeros(n_columns, dtype=np.int8),
        np.zeros(n_columns, dtype=np.int64),
        np.zeros(n_columns, dtype=np.int64),
        np.zeros(n_columns + 1, dtype=np.int64),
        np.zeros(n_columns + 3, dtype=np.int64),
    )


@njit(cache=True)
def eliminate_mod(matrix, p):
    """Reduce ``matrix`` (entries in [0, p), p < 2³¹) to echelon form in place; return its pivot columns."""
    n_rows, n_columns = matrix.shape
    pivots = np.empty(min(n_rows, n_columns), dtype=np.int64)
    rank = 0
    for c in range(n_columns):
        if rank == n_rows:
            break
        found = -1
        for i in range(rank, n_rows):
            if matrix[i, c] != 0:
                found = i
                break
        if found < 0:
            continue
        if found != rank:
            for k in range(n_columns):
                held = matrix[found, k]
                matrix[found, k] = matrix[rank, k]
                matrix[rank, k] = held
        pivot = matrix[rank, c]
        for i in range(rank + 1, n_rows):
            factor = matrix[i, c]
            if factor != 0:
                for k in range(c, n_columns):
                    matrix[i, k] = (matrix[i, k] * pivot - factor * matrix[rank, k]) % p
        pivots[rank] = c
        rank += 1
    return pivots[:rank]


@njit(cache=True)
def dependent(residues, primes, ids, q, work):
    """Return whether rows ``ids[:q]`` are linearly dependent; ``residues`` is (primes, rows, columns)."""
    r = residues.shape[2]
    if q > r:
        return True
    for t in range(primes.size):
        for i in range(q):
            for c in range(r):
                work[i, c] = residues[t, ids[i], c]
        if eliminate_mod(work[:q], primes[t]).size == q:
            return False
    return True


@internal
def is_zero(ratio, test, ids, q):
    """Return whether a quantity is zero that vanishes iff rows ``ids[:q]`` are dependent; update the record."""
    if test.primes.size > 0 and ratio < NEAR:  # integers decide; above, floating point is reliable
        zero = dependent(test.residues, test.primes, ids, q, test.work)
        if not zero and ratio < COMPUTED:  # the sign is in doubt
            test.stats[Stat.UNRESOLVED] += 1
    else:
        zero = ratio <= test.zero_below
    if zero:
        test.stats[Stat.LARGEST_ZERO] = max(test.stats[Stat.LARGEST_ZERO], ratio)
    else:
        test.stats[Stat.SMALLEST_NONZERO] = min(test.stats[Stat.SMALLEST_NONZERO], ratio)
    return zero


# Whole arrays and indices, not views: a view costs two reference counts, and these run once per line.
@internal(inline="always")
def pivot(tableaux, states, scales, used, d, b, width, level, first, rest, doubt):
    """Write tableau d + 1, with row ``b`` in the basis; return its column, and how many rows may lie in the flat.

    ``rest`` receives the distance of each row from the flat, relative to the numbers that cancelled in it. The count
    is of free rows with at most ``doubt``, without ``b``.
    """
    column, largest = -1, 0.0
    for c in range(level + 1, tableaux.shape[1]):
        if used[c] == 0 and abs(tableaux[d, c, b]) > largest:
            column, largest = c, abs(tableaux[d, c, b])
    over = 1.0 / tableaux[d, column, b]
    for j in range(width):
        tableaux[d + 1, column, j] = tableaux[d, column, j] * over
    for j in range(width):
        scales[d + 1, j] = max(1.0, abs(tableaux[d + 1, column, j]))
        rest[j] = 0.0
    for c in range(tableaux.shape[1]):
        if c == column or (c < level and not (c == 0 and first == 0)):
            continue
        factor = tableaux[d, c, b]
        for j in range(width):
            tableaux[d + 1, c, j] = tableaux[d, c, j] - factor * tableaux[d + 1, column, j]
        if c <= level:
            continue
        if used[c] == 1:
            for j in range(width):
                scales[d + 1, j] = max(scales[d + 1, j], abs(tableaux[d + 1, c, j]))
        else:
            for j in range(width):
                rest[j] = max(rest[j], abs(tableaux[d + 1, c, j]))
    rest[b] = 1e300
    # a count, since a minimum would not be vectorised
    small = 0
    for j in range(width):
        rest[j] /= scales[d + 1, j]
        states[d + 1, j] = states[d, j]
        small += (rest[j] <= doubt) & (states[d, j] == State.FREE)
    states[d + 1, b] = State.BASIS
    return column, small


@internal(fastmath=FAST)
def _pivot_alone(tableaux, states, scales, used, d, b, width, level, first, rest, doubt):
    return pivot(tableaux, states, scales, used, d, b, width, level, first, rest, doubt)


@internal
def _place(problem, stack, d, b, rest, test):
    """Find the free rows in the flat of the basis with ``b``; return False if one of them comes before ``b``."""
    state, new_state, ids = stack.states[d], stack.states[d + 1], stack.ids
    n = problem.masks.shape[0]
    least = np.inf
    for j in range(n):
        if state[j] == State.FREE:
            least = min(least, rest[j])
    if least > NEAR:
        test.stats[Stat.SMALLEST_NONZERO] = min(test.stats[Stat.SMALLEST_NONZERO], least)
        return True
    for i in range(d):
        ids[i] = problem.ids[stack.chosen[i]]
    ids[d] = problem.ids[b]
    at_infinity = 1 if problem.first == 0 else 0
    for j in range(n):
        if state[j] != State.FREE or j == b or rest[j] > NEAR:
            continue
        ids[d + 1] = problem.ids[j]
        ids[d + 2] = 0
        if not is_zero(rest[j], test, ids, d + 2 + at_infinity):
            continue
        ratio = abs(stack.tableaux[d + 1, 0, j]) / stack.scales[d + 1, j]
        if at_infinity and not is_zero(ratio, test, ids, d + 2):
            new_state[j] = State.PARALLEL
            continue
        if j < b:
            return False
        new_state[j] = State.INSIDE
    return True


@internal(inline="always")
def exchange(problem, stack, d, b, level, rest, test):
    """Put row ``b`` into the basis; return False if ``b`` is not the first choice of its flat."""
    doubt = max(NEAR, test.stats[Stat.SMALLEST_NONZERO])
    column, small = _pivot_alone(
        stack.tableaux, stack.states, stack.scales, stack.used, d, b, padded(problem.masks.shape[0] + 1), level,
        problem.first, rest, doubt,
    )  # fmt: skip
    if small > 0 and not _place(problem, stack, d, b, rest, test):
        return False
    stack.used[column] = 1
    stack.column_of[d] = column
    stack.chosen[d] = b
    return True


@internal
def sort_pairs(key, order, m):
    """Sort ``order[:m]`` and ``key[:m]`` by the keys (Shell sort: no calls, no storage)."""
    gap = 1
    while gap < m // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, m):
            k, o = key[i], order[i]
            j = i - gap
            while j >= 0 and key[j] > k:
                key[j + gap] = key[j]
                order[j + gap] = order[j]
                j -= gap
            key[j + gap] = k
            order[j + gap] = o
        gap //= 3


@internal
def wholly_opposite(half, full):
    """Return the complements (within ``full``) of the patterns whose complement is not in ``half``."""
    count, n_words = half.shape
    mark = np.empty(count, dtype=np.uint64)
    # fold each pattern so that it and its complement share a value: neighbours after sorting
    for i in range(count):
        h, g = np.uint64(0), np.uint64(0)
        for w in range(n_words):
            h = (h ^ half[i, w]) * np.uint64(0x9E3779B97F4A7C15)
            h ^= h >> np.uint64(29)
            g = (g ^ half[i, w] ^ full[w]) * np.uint64(0x9E3779B97F4A7C15)
            g ^= g >> np.uint64(29)
        mark[i] = h + g
    order = np.arange(count)
    sort_pairs(mark, order, count)
    paired = np.zeros(count, dtype=np.bool_)
    n_paired = 0
    for i in range(count):
        a = order[i]
        k = i + 1
        while k < count and mark[k] == mark[i]:
            b = order[k]
            same = True
            for w in range(n_words):
                same = same and half[a, w] ^ half[b, w] == full[w]
            if same:
                paired[a] = True
                paired[b] = True
                n_paired += 2
            k += 1
    kept = np.empty((count - n_paired, n_words), dtype=np.uint64)
    k = 0
    for i in range(count):
        if not paired[i]:
            for w in range(n_words):
                kept[k, w] = half[i, w] ^ full[w]
            k += 1
    return kept
