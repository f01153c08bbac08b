"""Kernels that walk one line of the arrangement, its crossings sorted, and process each of its vertices."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from covopt.arrangement.tableau import FAST, Stat, State, internal, is_zero, padded, sort_pairs
from covopt.exact.rank import COMPUTED, NEAR


class Line(NamedTuple):
    """Crossings of a line: ``key`` (parameters) and ``order`` (rows), sorted; ``error`` of each row's t."""

    key: Any
    order: Any
    error: Any
    key2: Any
    order2: Any
    group_end: Any


@internal
def make_line(n):
    """Allocate the storage of one line among n rows."""
    return Line(
        np.empty(n),
        np.empty(n, dtype=np.int64),
        np.empty(padded(n + 1)),
        np.empty(n),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
    )


class Output(NamedTuple):
    """Results of a sweep.

    ``out`` has the cells with their top at a simple vertex. Every other vertex is deferred: the signs
    of the rows that miss it are in ``cells``, the rows through it in ``members``, split by ``offsets``, and the
    flag vector that is at infinity for them in ``levels``. ``counters`` holds how many of each there are.
    """

    out: Any
    cells: Any
    members: Any
    offsets: Any
    levels: Any
    counters: Any


class Filled(IntEnum):
    """Indices of ``counters``."""

    CELLS = 0
    LATER = 1


@internal
def make_output(size, later, n_words):
    """Allocate an output."""
    return Output(
        np.empty((size, n_words), dtype=np.uint64),
        np.empty((later, n_words), dtype=np.uint64),
        np.empty(8 * later, dtype=np.int64),
        np.zeros(later + 1, dtype=np.int64),
        np.empty(later, dtype=np.int64),
        np.zeros(2, dtype=np.int64),
    )


# loops, not slices: slice assignments cost seconds of compilation
@internal
def _grow(vector, count, size):
    grown = np.empty(size, dtype=np.int64)
    for i in range(count):
        grown[i] = vector[i]
    return grown


@internal
def _grow_words(rows, count, size):
    n_words = rows.shape[1]
    grown = np.empty((size, n_words), dtype=np.uint64)
    for i in range(count):
        for w in range(n_words):
            grown[i, w] = rows[i, w]
    return grown


@internal
def room(output, more, later, members):
    """Return the output, or a larger copy, with room for ``more`` cells, ``later`` vertices and ``members``."""
    count, left = output.counters[Filled.CELLS], output.counters[Filled.LATER]
    filled = output.offsets[left]
    if (
        count + more <= len(output.out)
        and left + later <= len(output.levels)
        and filled + members <= len(output.members)
    ):
        return output
    out, cells, rows, offsets, levels = (
        output.out,
        output.cells,
        output.members,
        output.offsets,
        output.levels,
    )
    if count + more > len(out):
        out = _grow_words(out, count, max(2 * len(out), count + more))
    if left + later > len(levels):
        size = max(2 * len(levels), left + later)
        cells = _grow_words(cells, left, size)
        levels = _grow(levels, left, size)
        offsets = _grow(offsets, left + 1, size + 1)
    if filled + members > len(rows):
        rows = _grow(rows, filled, max(2 * len(rows), filled + members))
    return Output(out, cells, rows, offsets, levels, output.counters)


@internal
def _start(problem, tableau, state, scale, level, free, up, line, pattern):
    """Set ``pattern`` to the signs before the first crossing and list the crossings; return their number and
    the number of rows that contain the line.
    """
    n_words = pattern.size
    for w in range(n_words):
        pattern[w] = problem.base[w]
    m, n_inside = 0, 0
    for j in range(problem.masks.shape[0]):
        if state[j] == State.FREE:
            q = tableau[free, j] * up
            inverse = 1.0 / q
            t = -tableau[level, j] * inverse
            line.key[m] = t
            line.order[m] = j
            m += 1
            line.error[j] = scale[j] * (1.0 + abs(t)) * abs(inverse)
            negative = q > 0
        elif state[j] == State.PARALLEL:
            negative = tableau[0, j] < 0
        else:
            n_inside += state[j] == State.INSIDE
            negative = False
        # no branch: the signs are random for the branch predictor
        flip = np.uint64(0) - np.uint64(negative)
        for w in range(n_words):
            pattern[w] ^= problem.masks[j, w] & flip
    return m, n_inside


@internal(fastmath=FAST)
def _closest(line, m):
    least = np.inf
    for i in range(m - 1):
        far = line.error[line.order[i]] + line.error[line.order[i + 1]]
        least = min(least, (line.key[i + 1] - line.key[i]) / far)
    return least


@internal(fastmath=FAST)
def _write_tops(
    out, count, tableau, free, slope, column_of, chosen, d, order, start, stop, masks, pattern, stats, keep
):
    """Cross the simple vertices ``order[start:stop]``; write the cell below each new one.

    ``pattern`` has the signs just below the next vertex; the signs of the chosen rows follow from the dual of the
    objective: −sign(y) with c_{ℓ+1} = Σ y_i x_i modulo the flag vectors before it.
    """
    n_words = pattern.size
    n = masks.shape[0]
    last = chosen[d - 1] if d > 0 else -1
    for i in range(start, stop):
        b = order[i]
        if b > last and keep:
            for w in range(n_words):
                out[count, w] = pattern[w]
            ratio = slope / tableau[free, b]
            for k in range(d):
                c = column_of[k]
                part = ratio * tableau[c, b]
                dual = tableau[c, n] - part
                if abs(dual) <= COMPUTED * (abs(part) + 1.0):
                    stats[Stat.UNRESOLVED] += 1
                # no branch, as above
                flip = np.uint64(0) - np.uint64(dual > 0)
                for w in range(n_words):
                    out[count, w] ^= masks[chosen[k], w] & flip
        count += b > last
        for w in range(n_words):
            pattern[w] ^= masks[b, w]
    return count


@internal
def _tie_group(problem, tableau, scale, free, up, line, m, start, d, by_infinity, ids, test):
    """Split the crossings at one parameter, from ``start``, into vertices; return their number.

    Rows that cross together may still differ by an infinitesimal of c₀ when it is at infinity.
    """
    key, order, error = line.key, line.order, line.error
    stop = start + 1
    while stop < m:
        a, b = order[stop - 1], order[stop]
        ids[d] = problem.ids[a]
        ids[d + 1] = problem.ids[b]
        ids[d + 2] = 0
        ratio = (key[stop] - key[stop - 1]) / (error[a] + error[b])
        if ratio > NEAR or not is_zero(ratio, test, ids, d + 2 + by_infinity):
            break
        stop += 1
    size = stop - start
    line.group_end[0] = stop
    if by_infinity == 0 or size == 1:
        return 1
    for i in range(size):
        j = order[start + i]
        line.order2[i] = j
        line.key2[i] = -tableau[0, j] / (tableau[free, j] * up)
    sort_pairs(line.key2, line.order2, size)
    n_groups = 0
    for i in range(size):
        a = line.order2[i]
        order[start + i] = a
        if i + 1 < size:
            b = line.order2[i + 1]
            ids[d] = problem.ids[a]
            ids[d + 1] = problem.ids[b]
            far = scale[a] * (1 + abs(line.key2[i])) / abs(tableau[free, a])
            far += scale[b] * (1 + abs(line.key2[i + 1])) / abs(tableau[free, b])
            if is_zero((line.key2[i + 1] - line.key2[i]) / far, test, ids, d + 2):
                continue
        line.group_end[n_groups] = start + i + 1
        n_groups += 1
    return n_groups


@internal
def _leave(output, tableau, state, n, free, up, order, start, stop, level, masks, pattern):
    """Defer the vertex ``order[start:stop]``."""
    left = output.counters[Filled.LATER]
    n_words = pattern.size
    for w in range(n_words):
        output.cells[left, w] = pattern[w]
    for i in range(start, stop):
        j = order[i]
        state[j] = State.HERE
        if tableau[free, j] * up > 0:
            for w in range(n_words):
                output.cells[left, w] ^= masks[j, w]
    filled = output.offsets[left]
    for j in range(n):
        if state[j] == State.INSIDE or state[j] == State.BASIS or state[j] == State.HERE:
            output.members[filled] = j
            filled += 1
    for i in range(start, stop):
        state[order[i]] = State.FREE
    output.levels[left] = level + 1
    output.offsets[left + 1] = filled
    output.counters[Filled.LATER] = left + 1


@internal(inline="always")
def walk(problem, stack, d, level, line, pattern, test, output, keep):
    """Walk the line of the first ``d`` chosen rows and process its vertices; return the output."""
    tableau, state, scale = stack.tableaux[d], stack.states[d], stack.scales[d]
    masks, order = problem.masks, line.order
    n = masks.shape[0]
    n_words = pattern.size
    free = level + 1
    while stack.used[free] == 1:
        free += 1
    slope = tableau[free, n]
    if abs(slope) < COMPUTED:
        test.stats[Stat.UNRESOLVED] += 1
    up = 1.0 if slope > 0 else -1.0
    last = stack.chosen[d - 1] if d > 0 else -1
    m, n_inside = _start(problem, tableau, state, scale, level, free, up, line, pattern)
    sort_pairs(line.key, order, m)
    closest = _closest(line, m)
    if closest > NEAR:
        test.stats[Stat.SMALLEST_NONZERO] = min(test.stats[Stat.SMALLEST_NONZERO], closest)
        output = room(output, m, m if n_inside else 0, m * (d + n_inside + 1) if n_inside else 0)
    else:
        output = room(output, m, m, m * (d + n_inside + 1))
    counters = output.counters
    start = np.int64(0)  # a literal would compile the callees once more
    if closest > NEAR and n_inside == 0:
        counters[Filled.CELLS] = _write_tops(
            output.out, counters[Filled.CELLS], tableau, free, slope, stack.column_of, stack.chosen, d, order, start,
            m, masks, pattern, test.stats, keep,
        )  # fmt: skip
        return output
    for i in range(d):
        stack.ids[i] = problem.ids[stack.chosen[i]]
    by_infinity = 1 if problem.first == 0 and level > 0 else 0
    while start < m:
        n_groups = _tie_group(
            problem, tableau, scale, free, up, line, m, start, d, by_infinity, stack.ids, test
        )
        for g in range(n_groups):
            stop = line.group_end[g]
            if stop == start + 1 and n_inside == 0:
                counters[Filled.CELLS] = _write_tops(
                    output.out, counters[Filled.CELLS], tableau, free, slope, stack.column_of, stack.chosen, d,
                    order, start, stop, masks, pattern, test.stats, keep,
                )  # fmt: skip
                start = stop
                continue
            leader = order[start]
            for i in range(start + 1, stop):
                leader = min(leader, order[i])
            if leader > last:
                _leave(output, tableau, state, n, free, up, order, start, stop, level, masks, pattern)
            for i in range(start, stop):
                for w in range(n_words):
                    pattern[w] ^= masks[order[i], w]
            start = stop
    return output
