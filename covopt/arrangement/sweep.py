"""The compiled sweep: every cell of a central arrangement once, without linear programs.

Rows are written in a flag c₀, c₁, …, c_{D−1}: c₀ is the row put at infinity, the others are random. A point
with c₀·w > 0 is compared through the chart c_ℓ·w = 1 with c₀·w ≪ … ≪ c_{ℓ−1}·w ≪ 1; at level ℓ the cells
that are bounded above in the direction c_{ℓ+1} are exactly those with a top vertex, and the vertices of
level ℓ are the flats F of rank D − 1 − ℓ that do not contain c₀. Over all levels every cell with c₀·w > 0
has exactly one top vertex (Zaslavsky: half the cells are Σ_F |μ(F)|).

Vertices are met by walking lines. A flat of rank one less is a line; every other row crosses it at one
parameter t = −p/q, and after one sort the sign pattern changes by one bit per crossing. Each line is walked
once, from the lexicographically first basis of its flat, and each vertex is used once, likewise.

At a simple vertex (as many rows as its rank) one cell has its top there. Otherwise F is a smaller
arrangement of its own: its cells on which c_{ℓ+1} is negative are wanted. The same sweep, with c_{ℓ+1} at
infinity and the rest of the flag, lists the cells that meet c_{ℓ+1} > 0; those whose opposite is not
listed lie wholly on that side, and their opposites are the answer.

A quantity counts as zero relative to the size of the numbers that cancelled in it. In exact mode every
doubtful quantity is decided by linear dependence of integer rows.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from covopt.arrangement.exact import dependent

# In exact mode anything below this is decided by integers; above, floating point cannot be wrong.
DOUBT = 1e-6
# A nonzero quantity below this has a doubtful sign.
SIGN_DOUBT = 1e-12
# A generic combination below this has a doubtful sign.
_GENERIC_DOUBT = 1e-13

# stats
LARGEST_ZERO, SMALLEST_NONZERO, UNRESOLVED, COUNT = 0, 1, 2, 3
# state of a row on a flat P: free; in cl(P); in cl(P, c₀) only; chosen for the basis of P
_FREE, _INSIDE, _PARALLEL, _BASIS = 0, 1, 2, 3


@njit(cache=True, inline="always")
def _is_zero(ratio, zero_below, exact, residues, primes, ids, q, work, stats):
    """Decide a relative quantity that vanishes iff rows ``ids[:q]`` are dependent; keep the record."""
    if exact and ratio < DOUBT:
        zero = dependent(residues, primes, ids, q, work)
        if not zero and ratio < SIGN_DOUBT:
            stats[UNRESOLVED] += 1
    else:
        zero = ratio <= zero_below
    if zero:
        stats[LARGEST_ZERO] = max(stats[LARGEST_ZERO], ratio)
    else:
        stats[SMALLEST_NONZERO] = min(stats[SMALLEST_NONZERO], ratio)
    return zero


@njit(cache=True)
def _exchange(
    old,
    new,
    scale,
    state,
    new_state,
    used,
    chosen,
    d,
    b,
    first,
    level,
    zero_below,
    residues,
    primes,
    ids,
    ids_q,
    work,
    stats,
):
    """Put row ``b`` into the basis. Return its column, or −1 when ``b`` is not the first choice of its flat.

    ``old`` and ``new`` are tableaux: coefficients of every row on the flag, chosen rows replacing flag vectors.
    ``first`` is 0 where column 0 is a row of the arrangement, else the level at which the flag starts.
    """
    n_columns, width = old.shape
    n = state.size
    exact = primes.size > 0
    column, best = -1, 0.0
    for c in range(level + 1, n_columns):
        if used[c] == 0 and abs(old[c, b]) > best:
            column, best = c, abs(old[c, b])
    pivot = old[column, b]
    for j in range(width):
        new[column, j] = old[column, j] / pivot
    for c in range(n_columns):
        if c == column or (c < level and not (c == 0 and first == 0)):
            continue
        factor = old[c, b]
        for j in range(width):
            new[c, j] = old[c, j] - factor * new[column, j]
    for j in range(n):
        scale[j] = 1.0
    for c in range(level + 1, n_columns):
        if used[c] == 1 or c == column:
            for j in range(n):
                scale[j] = max(scale[j], abs(new[c, j]))
    for i in range(d):
        ids_q[i] = ids[chosen[i]]
    ids_q[d] = ids[b]
    for j in range(n):
        new_state[j] = state[j]
        if state[j] != _FREE:
            continue
        if j == b:
            new_state[j] = _BASIS
            continue
        rest = 0.0
        for c in range(level + 1, n_columns):
            if used[c] == 0 and c != column:
                rest = max(rest, abs(new[c, j]))
        ids_q[d + 1] = ids[j]
        q = d + 2
        if first == 0:
            ids_q[q] = 0
            q += 1
        if not _is_zero(rest / scale[j], zero_below, exact, residues, primes, ids_q, q, work, stats):
            continue
        if first == 0 and not _is_zero(
            abs(new[0, j]) / scale[j], zero_below, exact, residues, primes, ids_q, d + 2, work, stats
        ):
            new_state[j] = _PARALLEL
            continue
        if j < b:
            return -1
        new_state[j] = _INSIDE
    return column


@njit(cache=True)
def _sort(key, order, m):
    """Sort ``order[:m]`` by ``key`` (both moved along)."""
    if m > 64:
        by = np.argsort(key[:m])
        key[:m] = key[:m][by]
        order[:m] = order[:m][by]
        return
    for i in range(1, m):
        k, o = key[i], order[i]
        j = i - 1
        while j >= 0 and key[j] > k:
            key[j + 1] = key[j]
            order[j + 1] = order[j]
            j -= 1
        key[j + 1] = k
        order[j + 1] = o


@njit(cache=True)
def _wholly_opposite(half, full):
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
    order = np.argsort(mark)
    paired = np.zeros(count, dtype=np.bool_)
    for i in range(count):
        a = order[i]
        k = i + 1
        while k < count and mark[order[k]] == mark[a]:
            b = order[k]
            same = True
            for w in range(n_words):
                if half[a, w] ^ half[b, w] != full[w]:
                    same = False
                    break
            if same:
                paired[a] = True
                paired[b] = True
            k += 1
    kept = np.empty((count - paired.sum(), n_words), dtype=np.uint64)
    k = 0
    for i in range(count):
        if not paired[i]:
            for w in range(n_words):
                kept[k, w] = half[i, w] ^ full[w]
            k += 1
    return kept


@njit(cache=True)
def _room(out, count, more):
    if count + more <= len(out):
        return out
    grown = np.empty((max(2 * len(out), count + more), out.shape[1]), dtype=np.uint64)
    grown[:count] = out[:count]
    return grown


@njit(cache=True)
def sweep(rows, first, low, high, prefix, masks, base, zero_below, residues, primes, ids, stats, keep):
    """List the cells with c_first·w > 0, levels ``low`` to ``high`` (excluded), as packed patterns.

    Parameters
    ----------
    rows : ndarray of shape (D, n)
        Coefficients of the rows on the flag.
    first : int
        Flag vector at infinity; columns before it are ignored. 0 means that c₀ is itself a row (not among
        the n) and infinitesimals of c₀ decide ties.
    prefix : ndarray of int
        Only vertices whose first basis starts with these rows (one level at a time then).
    masks, base : ndarray, uint64
        Bits that flip with each row, (n, W); pattern when every row is positive.
    zero_below : float
        Relative quantities that count as zero; not used in exact mode.
    residues, primes, ids : ndarray
        Integer rows modulo primes for exact mode (no primes: floating mode), and where each row is in them;
        index 0 is c₀.
    stats : ndarray of shape (4,)
        Updated: largest zero, smallest nonzero, doubtful signs, cells met.
    keep : bool
        False counts without storing.

    Returns
    -------
    ndarray of shape (S, W), uint64
    """
    n_columns, n = rows.shape
    n_words = base.size
    exact = primes.size > 0
    out = np.empty((1024 if n > 16 else 64, n_words), dtype=np.uint64)
    count = 0
    tableaux = np.empty((n_columns, n_columns, n + 1))
    scales = np.ones((n_columns, n))
    states = np.zeros((n_columns, n), dtype=np.int8)
    used = np.zeros(n_columns, dtype=np.int8)
    column_of = np.zeros(n_columns, dtype=np.int64)
    chosen = np.zeros(n_columns, dtype=np.int64)
    following = np.zeros(n_columns + 1, dtype=np.int64)
    key = np.empty(n)
    key2 = np.empty(n)
    error = np.empty(n)
    order = np.empty(n, dtype=np.int64)
    order2 = np.empty(n, dtype=np.int64)
    group_end = np.empty(n, dtype=np.int64)
    pattern = np.empty(n_words, dtype=np.uint64)
    cell = np.empty(n_words, dtype=np.uint64)
    ids_q = np.empty(n_columns + 3, dtype=np.int64)
    work = np.empty((n_columns + 3, residues.shape[2]), dtype=np.int64)

    for level in range(low, high):
        k = n_columns - 1 - level
        if k == 0:
            pattern[:] = base
            for j in range(n):
                if rows[level, j] < 0:
                    for w in range(n_words):
                        pattern[w] ^= masks[j, w]
            if keep:
                out = _room(out, count, 1)
                out[count] = pattern
            count += 1
            continue
        tableaux[0, :, :n] = rows
        tableaux[0, :, n] = 0.0
        tableaux[0, level + 1, n] = 1.0
        states[0] = _FREE
        scales[0] = 1.0
        used[:] = 0
        d = 0
        following[0] = 0
        ties_by_infinity = first == 0 and level > 0
        while d >= 0:
            if d < k - 1:
                b = following[d]
                if d < prefix.size:
                    b = prefix[d] if b <= prefix[d] else n
                if b > n - k + d:
                    d -= 1
                    if d >= 0:
                        used[column_of[d]] = 0
                    continue
                following[d] = b + 1
                if states[d, b] != _FREE:
                    continue
                column = _exchange(
                    tableaux[d], tableaux[d + 1], scales[d + 1], states[d], states[d + 1], used, chosen, d, b,
                    first, level, zero_below, residues, primes, ids, ids_q, work, stats,
                )  # fmt: skip
                if column >= 0:
                    used[column] = 1
                    column_of[d] = column
                    chosen[d] = b
                    d += 1
                    following[d] = b + 1
                continue

            # a line: flat of the k - 1 chosen rows
            tableau, state, scale = tableaux[d], states[d], scales[d]
            free = level + 1
            while used[free] == 1:
                free += 1
            slope = tableau[free, n]
            if abs(slope) < _GENERIC_DOUBT:
                stats[UNRESOLVED] += 1
            up = 1.0 if slope > 0 else -1.0
            slope *= up
            last = chosen[d - 1] if d > 0 else -1
            pattern[:] = base
            m = 0
            n_inside = 0
            for j in range(n):
                if state[j] == _FREE:
                    q = tableau[free, j] * up
                    t = -tableau[level, j] / q
                    key[m] = t
                    order[m] = j
                    m += 1
                    error[j] = scale[j] * (1.0 + abs(t)) / abs(q)
                    negative = q > 0
                elif state[j] == _PARALLEL:
                    negative = tableau[0, j] < 0
                else:
                    n_inside += state[j] == _INSIDE
                    negative = False
                if negative:
                    for w in range(n_words):
                        pattern[w] ^= masks[j, w]
            _sort(key, order, m)
            for i in range(d):
                ids_q[i] = ids[chosen[i]]
            start = 0
            while start < m:
                stop = start + 1
                while stop < m:
                    a, c = order[stop - 1], order[stop]
                    ids_q[d] = ids[a]
                    ids_q[d + 1] = ids[c]
                    ids_q[d + 2] = 0
                    ratio = (key[stop] - key[stop - 1]) / (error[a] + error[c])
                    if not _is_zero(
                        ratio,
                        zero_below,
                        exact,
                        residues,
                        primes,
                        ids_q,
                        d + 2 + ties_by_infinity,
                        work,
                        stats,
                    ):
                        break
                    stop += 1
                n_groups = 1
                group_end[0] = stop
                if ties_by_infinity and stop - start > 1:
                    size = stop - start
                    for i in range(size):
                        j = order[start + i]
                        order2[i] = j
                        key2[i] = -tableau[0, j] / (tableau[free, j] * up)
                    _sort(key2, order2, size)
                    n_groups = 0
                    for i in range(size):
                        order[start + i] = order2[i]
                        if i + 1 < size:
                            a, c = order2[i], order2[i + 1]
                            ids_q[d] = ids[a]
                            ids_q[d + 1] = ids[c]
                            far = scale[a] * (1 + abs(key2[i])) / abs(tableau[free, a])
                            far += scale[c] * (1 + abs(key2[i + 1])) / abs(tableau[free, c])
                            ratio = (key2[i + 1] - key2[i]) / far
                            if _is_zero(
                                ratio, zero_below, exact, residues, primes, ids_q, d + 2, work, stats
                            ):
                                continue
                        group_end[n_groups] = start + i + 1
                        n_groups += 1
                for g in range(n_groups):
                    stop = group_end[g]
                    size = stop - start
                    least = order[start]
                    for i in range(start + 1, stop):
                        least = min(least, order[i])
                    if least > last:
                        if size == 1 and n_inside == 0:
                            if keep:
                                cell[:] = pattern
                                ratio = slope / (tableau[free, least] * up)
                                for i in range(d):
                                    c = column_of[i]
                                    part = ratio * tableau[c, least]
                                    dual = tableau[c, n] - part
                                    if abs(dual) <= _GENERIC_DOUBT * (abs(part) + 1.0):
                                        stats[UNRESOLVED] += 1
                                    if dual > 0:
                                        for w in range(n_words):
                                            cell[w] ^= masks[chosen[i], w]
                                out = _room(out, count, 1)
                                out[count] = cell
                            count += 1
                        else:
                            # the rows through this vertex, an arrangement of their own
                            members = np.empty(d + n_inside + size, dtype=np.int64)
                            f = 0
                            for j in range(n):
                                if state[j] == _INSIDE or state[j] == _BASIS:
                                    members[f] = j
                                    f += 1
                            members[f:] = order[start:stop]
                            members.sort()
                            f = members.size
                            local_words = (f + 63) // 64
                            local_masks = np.zeros((f, local_words), dtype=np.uint64)
                            local_base = np.zeros(local_words, dtype=np.uint64)
                            local_rows = np.empty((n_columns, f))
                            local_ids = np.empty(f, dtype=np.int64)
                            for i in range(f):
                                bit = np.uint64(1) << np.uint64(i % 64)
                                local_masks[i, i // 64] = bit
                                local_base[i // 64] |= bit
                                local_ids[i] = ids[members[i]]
                                for c in range(n_columns):
                                    local_rows[c, i] = rows[c, members[i]]
                            half = sweep(
                                local_rows, level + 1, level + 1, n_columns, np.empty(0, dtype=np.int64), local_masks,
                                local_base, zero_below, residues, primes, local_ids, stats, True,
                            )  # fmt: skip
                            tops = _wholly_opposite(half, local_base)
                            if keep:
                                out = _room(out, count, len(tops))
                                cell[:] = pattern
                                for i in range(start, stop):
                                    j = order[i]
                                    if tableau[free, j] * up > 0:
                                        for w in range(n_words):
                                            cell[w] ^= masks[j, w]
                                for s in range(len(tops)):
                                    out[count + s] = cell
                                    for i in range(f):
                                        if (tops[s, i // 64] >> np.uint64(i % 64)) & np.uint64(1) == 0:
                                            for w in range(n_words):
                                                out[count + s, w] ^= masks[members[i], w]
                            count += len(tops)
                    for i in range(start, stop):
                        for w in range(n_words):
                            pattern[w] ^= masks[order[i], w]
                    start = stop
            d -= 1
            if d >= 0:
                used[column_of[d]] = 0
    stats[COUNT] = count
    return out[:count] if keep else out[:0]
