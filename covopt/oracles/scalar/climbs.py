"""Climbs on the dual function from many starts, compiled, in turns short enough for deadlines and interrupts."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit

from covopt.limits import checkpoint
from covopt.oracles.scalar.concave import descend, evaluate

MAX_TANGENTS = 100
MAX_ROUNDS, LEAST_ROUNDS = 200, 8  # of a tangent
MAX_TURNS = 300
GAIN = 1e-14
ENDED = -1  # instead of the steps of a climb
WORK = (
    3.5e7  # rows looked at between two looks at deadlines, times their numbers: some hundredths of a second
)
MANY_STARTS = 64  # from which on threads share them


@njit(cache=True, nogil=True)
def _ascend(
    rows, mu, linear, w, value, squares, concave, theta, ell, scratch, free, shift, max_tangents, budget
):
    """Follow tangents from w, in place; return F there, how many, whether that is the end, and the rows looked at.

    ``concave`` and ``theta`` hold the rows with μ < 0 first. After ``budget`` rows no tangent is begun, and none by
    itself looks at more than twice as many.
    """
    n, r = rows.shape
    count = 0
    for i in range(n):
        if mu[i] < 0.0:
            concave[count] = i
            count += 1
    max_rounds = min(MAX_ROUNDS, max(LEAST_ROUNDS, 2 * budget // max(count, 1)))
    looked = 0
    for tangents in range(max_tangents):
        if looked > budget:
            return value, tangents, False, looked
        for c in range(r):
            ell[c] = linear[c]
        j = 0
        for i in range(n):
            s = 0.0
            for c in range(r):
                s += rows[i, c] * w[c]
            active = s > 0.0
            if mu[i] < 0.0:
                theta[j] = 1.0 if active else 0.0
                j += 1
            if active:
                for c in range(r):
                    ell[c] += mu[i] * rows[i, c]
        norm, rounds = descend(
            ell, rows, mu, squares, concave[:count], theta[:count], max_rounds, scratch, free, shift
        )
        looked += 2 * n + rounds * count
        if not norm > 0.0:
            return value, tangents + 1, True, looked
        for c in range(r):
            ell[c] /= norm
        found = evaluate(rows, mu, linear, ell)
        if not found > value + GAIN * abs(found):
            return value, tangents + 1, True, looked
        gained = found > value + 1e-9 * abs(found)
        value = found
        for c in range(r):
            w[c] = ell[c]
        if not gained:
            return value, tangents + 1, True, looked
    return value, max_tangents, False, looked


@njit(cache=True, nogil=True)
def climb_on(rows, mu, linear, starts, values, steps, budget):
    """Climb from every start, in place, until about ``budget`` rows were looked at; return whether that was all.

    ``steps`` says how many tangents each climb has taken so far, ENDED where it is over; the next call goes on.
    """
    n, r = rows.shape
    squares = (rows**2).sum(axis=1)
    concave, theta = np.empty(n, np.int64), np.empty(n)
    ell, scratch, free, shift = np.empty(r), np.empty((r, 2 * r)), np.empty(r, np.int64), np.empty(r)
    left = budget
    for p in range(len(starts)):
        if steps[p] == ENDED:
            continue
        if left <= 0:
            return False
        if steps[p] == 0:
            values[p] = evaluate(rows, mu, linear, starts[p])
        value, tangents, is_end, looked = _ascend(
            rows,
            mu,
            linear,
            starts[p],
            values[p],
            squares,
            concave,
            theta,
            ell,
            scratch,
            free,
            shift,
            np.int64(MAX_TANGENTS - steps[p]),  # a literal would compile the callee once more
            budget,
        )
        values[p] = value
        steps[p] += tangents
        if is_end or steps[p] >= MAX_TANGENTS:
            steps[p] = ENDED
        left -= looked + n
    return (steps == ENDED).all()


@njit(cache=True, nogil=True)
def climb_outputs_on(rows, dual, starts, values, steps, budget):
    """Climb on ‖Λᵀσ(Zw)‖ from every start, in place: turn the output direction, then follow one tangent.

    ``steps`` and ``budget`` are those of :func:`climb_on`; a step is a turn.
    """
    n, r = rows.shape
    k = dual.shape[1]
    squares = (rows**2).sum(axis=1)
    concave, theta = np.empty(n, np.int64), np.empty(n)
    ell, scratch, free, shift = np.empty(r), np.empty((r, 2 * r)), np.empty(r, np.int64), np.empty(r)
    mu, output, zero = np.empty(n), np.empty(k), np.zeros(r)
    left = budget
    for p in range(len(starts)):
        if steps[p] == ENDED:
            continue
        w = starts[p]
        last = values[p] if steps[p] > 0 else 0.0
        while steps[p] < MAX_TURNS:
            if left <= 0:
                values[p] = last
                return False
            output[:] = 0.0
            for i in range(n):
                s = 0.0
                for c in range(r):
                    s += rows[i, c] * w[c]
                if s > 0.0:
                    for c in range(k):
                        output[c] += s * dual[i, c]
            norm = np.sqrt((output**2).sum())
            if not norm > last + 1e-8 * norm:
                last = max(norm, last)
                break
            last = norm
            for i in range(n):
                s = 0.0
                for c in range(k):
                    s += dual[i, c] * output[c]
                mu[i] = s / norm
            _, _, _, looked = _ascend(
                rows,
                mu,
                zero,
                w,
                norm,
                squares,
                concave,
                theta,
                ell,
                scratch,
                free,
                shift,
                np.int64(1),
                budget,
            )
            left -= looked + 2 * n
            steps[p] += 1
        values[p] = last
        steps[p] = ENDED
    return True


def in_turns(
    kernel: Callable[..., bool],
    problem: tuple[np.ndarray, ...],
    points: np.ndarray,
    values: np.ndarray,
    n_threads: int,
) -> None:
    """Climb from all points, in place, a tenth of a second at a time: one climb through many rows takes seconds.

    Parameters
    ----------
    kernel : callable
        ``climb_on`` or ``climb_outputs_on``.
    problem : tuple of ndarray
        Its first arguments, the rows first.
    points : ndarray of shape (m, r)
        Where the climbs start, and end.
    values : ndarray of shape (m,)
        Heights at the ends.
    n_threads : int
    """
    n_parts = n_threads if len(points) >= MANY_STARTS else 1
    shares = [
        (
            points[part::n_parts].copy(),
            np.empty(len(points[part::n_parts])),
            np.zeros(len(points[part::n_parts]), int),
        )
        for part in range(n_parts)
    ]
    budget = np.int64(WORK / (1 + problem[0].shape[1]))

    def turn(share: tuple[np.ndarray, ...]) -> bool:
        return kernel(*problem, *share, budget)

    pool = ThreadPoolExecutor(n_parts) if n_parts > 1 else None
    try:
        ended = False
        while not ended:
            checkpoint()
            ended = all(list(map(turn, shares) if pool is None else pool.map(turn, shares)))
    finally:
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)
    for part, (ends, reached, _) in enumerate(shares):
        points[part::n_parts], values[part::n_parts] = ends, reached
