"""From a numerical minimiser over K¹ to an exact integer matrix: sharpen its zeros, name them, solve for S."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
from scipy.optimize import nnls

from covopt.completely_positive.face_parrilo import ParriloPoint
from covopt.completely_positive.face_rational import as_integers
from covopt.exact.elimination import row_reduce

SINGULAR = 1e-3  # smallest eigenvalue of a block of S (unit diagonal) that holds a zero
POSITIVE = 1e-3
NEWTON_STEPS = 12
LARGEST_DENOMINATOR = 5000
NAMED = 1e-8  # a zero within this of a rational with a small denominator is taken for it
GRIDS = (4, 16, 64, 1024, 2**16)


def candidate_matrices(A: Sequence[Sequence[Fraction]], point: ParriloPoint) -> Iterator[list[list[int]]]:
    """Yield integer matrices near the minimiser that vanish on its zeros and on A; each has to be checked.

    The zeros u of S satisfy (Su)_i = 0 on their supports. Known supports turn this into equations for S and the u
    together; Gauss–Newton sharpens both to rounding, the u are then recognised as rationals, and what is left is
    linear in S: solved over the rationals, its free entries rounded to a finer and finer grid.

    Parameters
    ----------
    A : sequence of sequence of Fraction
    point : ParriloPoint

    Yields
    ------
    list of list of int

    Examples
    --------
    >>> from covopt.completely_positive.face_parrilo import minimise_over_k1
    >>> A = [[1, 1], [1, 1]]
    >>> next(candidate_matrices(A, minimise_over_k1(np.array(A, dtype=float))))
    [[1, -1], [-1, 1]]
    """
    scaled, zeros = _sharpen(np.array(A, dtype=float), point)
    named = [_name(u, point.scaling) for u in zeros]
    rational = [u for u in named if u is not None]
    if not rational:
        return
    n = len(scaled)
    upper = [(i, j) for i in range(n) for j in range(i, n)]
    place = {pair: k for k, pair in enumerate(upper)}
    rows: list[list[Fraction]] = [[A[i][j] * (1 if i == j else 2) for i, j in upper]]
    for u in rational:
        for i in range(n):
            if u[i]:
                row = [Fraction(0)] * len(upper)
                for j in range(n):
                    if u[j]:
                        row[place[min(i, j), max(i, j)]] += u[j]
                rows.append(row)
    reduced, pivots = row_reduce(rows, len(upper))
    free = [k for k in range(len(upper)) if k not in pivots]
    if not free:
        return
    target = scaled * np.outer(point.scaling, point.scaling)
    target /= np.abs(target).max()
    wanted = [float(target[upper[k]]) for k in free]
    lead = max(range(len(free)), key=lambda f: abs(wanted[f]))
    for grid in GRIDS:
        if len(free) == 1:
            values = [Fraction(1 if wanted[0] > 0 else -1)]
        else:
            values = [Fraction(w / abs(wanted[lead])).limit_denominator(grid) for w in wanted]
        entries = [Fraction(0)] * len(upper)
        for k, value in zip(free, values, strict=True):
            entries[k] = value
        for row, pivot in zip(reduced, pivots, strict=False):
            entries[pivot] = -sum(
                (row[k] * v for k, v in zip(free, values, strict=True) if row[k]), Fraction(0)
            )
        if not any(entries):
            continue
        yield as_integers([[entries[place[min(i, j), max(i, j)]] for j in range(n)] for i in range(n)])
        if len(free) == 1:
            return


def _sharpen(A: np.ndarray, point: ParriloPoint) -> tuple[np.ndarray, list[np.ndarray]]:
    """Gauss–Newton on S u_k = 0 (rows of the support), 1ᵀu_k = 1, Σ w_k u_k u_kᵀ = A, Tr S = n, of least norm.

    Without the equation of A the zeros could drift: (S, u) → (DSD, D⁻¹u) keeps all others.
    """
    S = point.scaled.copy()
    n = len(S)
    A = A * np.outer(point.scaling, point.scaling)
    A = A / np.abs(A).max()
    zeros = _zeros_of(S)
    if not zeros:
        return S, zeros
    inside = np.triu_indices(n)
    place = np.zeros((n, n), dtype=int)
    place[inside] = np.arange(len(inside[0]))
    place = np.maximum(place, place.T)
    supports = [np.flatnonzero(u) for u in zeros]
    starts = len(inside[0]) + np.cumsum([0] + [len(support) for support in supports])
    masses = nnls(np.array([np.outer(u, u)[inside] for u in zeros]).T, A[inside])[0]
    n_unknowns = starts[-1] + len(zeros)
    for _ in range(NEWTON_STEPS):
        rows: list[np.ndarray] = []
        residual: list[float] = []
        fit = np.zeros((len(inside[0]), n_unknowns))
        left = A.copy()
        for k, (u, support, start) in enumerate(zip(zeros, supports, starts, strict=False)):
            for i in support:
                row = np.zeros(n_unknowns)
                np.add.at(row, place[i, support], u[support])
                row[start : start + len(support)] = S[i, support]
                rows.append(row)
                residual.append(S[i, support] @ u[support])
            row = np.zeros(n_unknowns)
            row[start : start + len(support)] = 1
            rows.append(row)
            residual.append(u.sum() - 1)
            for offset, i in enumerate(support):
                change = np.zeros((n, n))
                change[i] += masses[k] * u
                change[:, i] += masses[k] * u
                fit[:, start + offset] = change[inside]
            fit[:, starts[-1] + k] = np.outer(u, u)[inside]
            left -= masses[k] * np.outer(u, u)
        trace = np.zeros(n_unknowns)
        trace[place[np.arange(n), np.arange(n)]] = 1
        matrix = np.vstack([rows, fit, trace])
        goal = -np.concatenate([residual, -left[inside], [np.trace(S) - n]])
        step = np.linalg.lstsq(matrix, goal, rcond=1e-10)[0]
        S = S + step[place]
        for u, support, start in zip(zeros, supports, starts, strict=False):
            u[support] += step[start : start + len(support)]
        masses = masses + step[starts[-1] :]
        if np.max(np.abs(step)) < 1e-14:
            break
    return S, zeros


def _zeros_of(S: np.ndarray) -> list[np.ndarray]:
    """Return the positive near-kernel vectors of the principal submatrices, of sum one."""
    n = len(S)
    zeros = []
    for size in range(1, n + 1):
        for support in combinations(range(n), size):
            values, vectors = np.linalg.eigh(S[np.ix_(support, support)])
            u = vectors[:, 0] * np.sign(vectors[:, 0].sum())
            alone = size == 1 or values[1] > 10 * max(values[0], 1e-6)
            if values[0] < SINGULAR and alone and u.min() > POSITIVE:
                full = np.zeros(n)
                full[list(support)] = u / u.sum()
                zeros.append(full)
    return zeros


def _name(zero: np.ndarray, scaling: np.ndarray) -> list[Fraction] | None:
    """Return the zero as rationals in the caller's coordinates, None where it does not look rational."""
    u = zero / scaling
    support = np.flatnonzero(zero)
    u = u / u[support[np.argmax(u[support])]]
    exact = [Fraction(float(x)).limit_denominator(LARGEST_DENOMINATOR) for x in u]
    if min(exact) < 0 or max(abs(float(e) - x) for e, x in zip(exact, u, strict=True)) > NAMED:
        return None
    return exact
