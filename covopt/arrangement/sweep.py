"""The compiled sweep: every cell of a central arrangement once, without linear programs.

Rows are written in a flag c₀, c₁, …, c_{D−1}: c₀ is the row put at infinity, the others are random. A point
with c₀·w > 0 is compared through the chart c_ℓ·w = 1 with c₀·w ≪ … ≪ c_{ℓ−1}·w ≪ 1; at level ℓ the cells
that are bounded above in the direction c_{ℓ+1} are exactly those with a top vertex, and the vertices of
level ℓ are the flats F of rank D − 1 − ℓ that do not contain c₀. Over all levels every cell with c₀·w > 0
has exactly one top vertex (Zaslavsky: half the cells are Σ_F |μ(F)|).

Vertices are visited by walking lines. A flat of rank one less is a line; every other row crosses it at one
parameter t = −p/q, and after one sort the sign pattern changes by one bit per crossing. Each line is walked
once, from the lexicographically first basis of its flat, and likewise each vertex is processed once.

At a simple vertex (as many rows as its rank) one cell has its top there. Otherwise F is a smaller
arrangement of its own, and its cells on which c_{ℓ+1} is negative are needed. The same sweep, with c_{ℓ+1} at
infinity and the rest of the flag, lists the cells that meet c_{ℓ+1} > 0; those whose opposite is not
listed lie wholly on that side, and their opposites are the cells needed.

A quantity counts as zero if it is small relative to the numbers that cancelled in it. In exact mode every
doubtful quantity is decided by linear dependence of integer rows (:func:`covopt.arrangement.tableau.dependent`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from covopt.arrangement.lines import Filled, make_line, make_output, room, walk
from covopt.arrangement.short_lines import MOST, make_short, use_short_lines
from covopt.arrangement.tableau import (
    Problem,
    Stat,
    State,
    ZeroTest,
    exchange,
    internal,
    make_stack,
    padded,
    wholly_opposite,
)


@internal
def _top_level(problem, level, output, keep):
    """Add the one cell of the last level, a flat of rank 0."""
    out, count = output.out, output.counters[Filled.CELLS]
    output.counters[Filled.CELLS] = count + 1
    if not keep:
        return
    for w in range(problem.base.size):
        out[count, w] = problem.base[w]
    for j in range(problem.masks.shape[0]):
        if problem.rows[level, j] < 0:
            for w in range(problem.base.size):
                out[count, w] ^= problem.masks[j, w]


@internal
def _sweep_levels(problem, low, high, prefix, stack, line, test, keep):
    """Sweep levels ``low`` to ``high``; list, without resolving them, vertices on more rows than their rank."""
    n_columns, n = problem.rows.shape
    pattern = np.empty_like(problem.base)
    short, is_short = make_short(problem.masks, problem.base), n <= MOST
    output = make_output(8192 if low == 0 and n > 16 else 32, 4, pattern.size)
    none, one = np.int64(0), np.int64(1)  # a literal would compile the callees once more
    for level in range(low, high):
        k = n_columns - 1 - level
        if k == 0:
            output = room(output, one, none, none)
            _top_level(problem, level, output, keep)
            continue
        for c in range(n_columns):
            for j in range(n):
                stack.tableaux[0, c, j] = problem.rows[c, j]
            stack.tableaux[0, c, n] = 1.0 if c == level + 1 else 0.0
        for j in range(n):
            stack.states[0, j] = State.FREE
            stack.scales[0, j] = 1.0
        for j in range(n, padded(n + 1)):
            stack.states[0, j] = State.PADDING
            for c in range(n_columns):
                if j > n:
                    stack.tableaux[0, c, j] = 0.0
        for c in range(n_columns):
            stack.used[c] = 0
        stack.following[0] = 0
        d = none
        while d >= 0:
            if d == k - 1:
                output = walk(problem, stack, d, level, line, pattern, test, output, keep)
                b = n
            else:
                b = stack.following[d]
                if d < prefix.size:
                    b = prefix[d] if b <= prefix[d] else n
                elif is_short and d == k - 2:
                    output = room(output, (n - b) * (n - b + 1) // 2, none, none)
                    b, output.counters[Filled.CELLS] = use_short_lines(
                        stack.tableaux, stack.states, stack.scales, stack.used, stack.column_of, stack.chosen, d, b,
                        level, problem.first, n, line.error, short.t, short.low, short.high, short.inverse,
                        short.below, short.bit, short.tables, test.stats, output.out, output.counters[Filled.CELLS],
                        keep,
                    )  # fmt: skip
            if b > n - k + d:
                d -= 1
                if d >= 0:
                    stack.used[stack.column_of[d]] = 0
                continue
            stack.following[d] = b + 1
            if stack.states[d, b] == State.FREE and exchange(problem, stack, d, b, level, line.error, test):
                d += 1
                stack.following[d] = b + 1
    return output


@internal
def _restrict(problem, members, first):
    """Return the arrangement of some rows of a problem, with one bit for each."""
    f = members.size
    n_columns = problem.rows.shape[0]
    n_words = (f + 63) // 64
    rows = np.empty((n_columns, f))
    masks = np.zeros((f, n_words), dtype=np.uint64)
    base = np.zeros(n_words, dtype=np.uint64)
    ids = np.empty(f, dtype=np.int64)
    for i in range(f):
        bit = np.uint64(1) << np.uint64(i % 64)
        masks[i, i // 64] = bit
        base[i // 64] |= bit
        ids[i] = problem.ids[members[i]]
        for c in range(first, n_columns):
            rows[c, i] = problem.rows[c, members[i]]
    return Problem(rows, first, masks, base, ids)


@internal
def _write_inner(out, count, cell, tops, members, masks):
    """Write ``cell`` with the signs of ``members`` replaced by each pattern of ``tops``."""
    n_words = cell.size
    for s in range(len(tops)):
        for w in range(n_words):
            out[count + s, w] = cell[w]
        for i in range(members.size):
            if (tops[s, i // 64] >> np.uint64(i % 64)) & np.uint64(1) == 0:
                for w in range(n_words):
                    out[count + s, w] ^= masks[members[i], w]


@internal(inline="always")
def _sweep(problem, low, high, prefix, test, keep):
    n_columns, n = problem.rows.shape
    stack, line = make_stack(n_columns, n), make_line(n)
    none = np.int64(0)
    # an explicit stack of arrangements within arrangements (compiled recursion cannot be cached on disk)
    problems, outputs = [problem], [_sweep_levels(problem, low, high, prefix, stack, line, test, keep)]
    done = np.zeros(n_columns + 1, dtype=np.int64)
    at = 0
    while True:
        problem, output, i = problems[at], outputs[at], done[at]
        if i < output.counters[Filled.LATER]:
            inner = output.members[output.offsets[i] : output.offsets[i + 1]]
            local = _restrict(problem, inner, output.levels[i])
            at += 1
            # not True: a literal would compile the call once more
            found = _sweep_levels(local, local.first, n_columns, prefix[:0], stack, line, test, at > 0)
            problems.append(local)
            outputs.append(found)
            done[at] = 0
            continue
        if at == 0:
            return output
        tops = wholly_opposite(output.out[: output.counters[Filled.CELLS]], problem.base)
        problems.pop()
        outputs.pop()
        at -= 1
        problem, output, i = problems[at], outputs[at], done[at]
        done[at] = i + 1
        count = output.counters[Filled.CELLS]
        if keep or at > 0:
            output = room(output, len(tops), none, none)
            outputs[at] = output
            inner = output.members[output.offsets[i] : output.offsets[i + 1]]
            _write_inner(output.out, count, output.cells[i], tops, inner, problem.masks)
        output.counters[Filled.CELLS] = count + len(tops)


@njit(cache=True)
def sweep(rows, low, high, prefix, masks, base, zero_below, residues, primes, stats, keep):
    """List the cells on the positive side of c₀, levels ``low`` to ``high`` (excluded), as packed patterns.

    Parameters
    ----------
    rows : ndarray of shape (D, n)
        Coefficients, on the flag, of the rows other than c₀.
    low, high : int
        Levels.
    prefix : ndarray of int
        Visit only vertices whose first basis starts with these rows (meant for one level at a time).
    masks, base : ndarray, uint64
        Bits that flip with each row, (n, W); pattern when every row is positive.
    zero_below : float
        Relative quantities up to this count as zero; not used in exact mode.
    residues, primes : ndarray
        Integer rows modulo primes for exact mode, c₀ first; no primes mean floating mode.
    stats : ndarray of shape (4,)
        Updated in place: largest zero, smallest nonzero, doubtful signs, cells found.
    keep : bool
        If False count cells without storing them.

    Returns
    -------
    ndarray of shape (S, W), uint64
    """
    n_columns, n = rows.shape
    work = np.empty((n_columns + 3, residues.shape[2]), dtype=np.int64)
    test = ZeroTest(zero_below, residues, primes, work, stats)
    problem = Problem(rows, 0, masks, base, np.arange(1, n + 1))
    output = _sweep(problem, low, high, prefix, test, keep)
    count = output.counters[Filled.CELLS]
    stats[Stat.COUNT] += count
    return output.out[: count if keep else 0]
