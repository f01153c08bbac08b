"""Reduction of a table of points to an essential arrangement of distinct hyperplanes in good coordinates.

Zero rows are dropped, parallel and antiparallel rows merged, the columns reduced to the rank and whitened.
A bit mask stores, for each kept row, which samples flip with its sign. A point inside a cell is found by a
linear program on the original rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import linprog

from covopt.arrangement.tableau import eliminate_mod
from covopt.checks.validation import as_doubles, check_bias
from covopt.errors import InputError
from covopt.exact.elimination import as_integers, primes_below, primes_for
from covopt.exact.rank import ATOMS, COMPUTED, NEAR, numerical_rank


@dataclass(frozen=True)
class Reduced:
    """An essential arrangement of distinct hyperplanes, ready for the sweep.

    Attributes
    ----------
    n_samples : int
        Number of rows of the given table.
    rank : int
        Rank of the lifted table; 0 when every row is zero.
    rows : ndarray of shape (rank, n)
        Unit normals, one column each, in whitened coordinates.
    masks : ndarray of shape (n, W), uint64
        Packed samples whose sign depends on each normal.
    base : ndarray of shape (W,), uint64
        Packed pattern when every kept normal is positive.
    live : ndarray of shape (W,), uint64
        Packed samples that are not zero rows.
    integers : ndarray of shape (n, rank) or None
        The kept rows as integers on ``rank`` independent columns, if the data are that exact.
    residues, primes : ndarray
        The integers modulo each prime, (t, n, rank) and (t,); empty when ``integers`` is None.
    largest_zero, smallest_nonzero : float
        Relative quantities found in the rank decision and the merging.
    blurred : bool
        Whether rows on different lines were merged.
    """

    n_samples: int
    rank: int
    rows: np.ndarray
    masks: np.ndarray
    base: np.ndarray
    live: np.ndarray
    integers: np.ndarray | None
    residues: np.ndarray
    primes: np.ndarray
    largest_zero: float
    smallest_nonzero: float
    blurred: bool = False

    @property
    def exact(self) -> bool:
        """Whether zero tests are exact."""
        return self.integers is not None


def lift(X: Any, bias: float) -> tuple[np.ndarray, np.ndarray | None]:
    """Validate a table and return it lifted, as floats, and as integers if it is that exact.

    Raises
    ------
    InputError
        If X is not two-dimensional, not numeric, empty, or not finite; if bias is negative or not finite.
    """
    try:
        table = np.asarray(X)
        if table.dtype.kind not in "biuf":
            table = as_doubles(table)
    except (TypeError, ValueError) as error:
        raise InputError(f"X must be a table of numbers, one row per point: {error}") from None
    if table.ndim != 2:
        raise InputError(f"X must be two-dimensional, one row per point; got an array of shape {table.shape}")
    if table.shape[0] == 0:
        raise InputError("X has no rows: at least one point is needed")
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        row, column = bad[0]
        raise InputError(
            f"X must be finite: row {row}, column {column} is {table[row, column]}"
            f" ({len(bad)} such entries in all); remove or fill them"
        )
    bias = check_bias(bias)
    integers = as_integers(table)
    floats = table.astype(np.float64)
    if bias:
        floats = np.hstack([floats, np.full((len(floats), 1), bias)])
        if integers is not None:
            integers = np.hstack([integers, np.ones((len(integers), 1), dtype=np.int64)])
    return floats, integers


def _pack(bits: np.ndarray) -> np.ndarray:
    """Pack boolean rows (n, N) into words (n, W), bits in the order of ``numpy.packbits``."""
    n_words = -(-bits.shape[1] // 64)
    packed = np.zeros((len(bits), 8 * n_words), dtype=np.uint8)
    packed[:, : -(-bits.shape[1] // 8)] = np.packbits(bits, axis=1)
    return packed.view(np.uint64)


def _merge_integers(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return class and sign of each nonzero integer row; rows on one line share a class."""
    rows = rows // np.gcd.reduce(rows, axis=1)[:, None]
    first = rows[np.arange(len(rows)), (rows != 0).argmax(axis=1)]
    signs = np.where(first > 0, 1, -1)
    _, kept, classes = np.unique(rows * signs[:, None], axis=0, return_index=True, return_inverse=True)
    order = np.argsort(kept)
    rank_of = np.empty_like(order)
    rank_of[order] = np.arange(len(order))
    return rank_of[classes.ravel()], signs


def _merge_floats(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Return class and sign of each unit row, the largest distance merged and the smallest one kept apart."""
    n, r = rows.shape
    probe = np.random.default_rng(20).standard_normal(r)
    value = rows @ probe / np.linalg.norm(probe)
    signs = np.where(value > 0, 1, -1)
    rows, value = rows * signs[:, None], np.abs(value)
    order = np.argsort(value, kind="stable")
    zero, nonzero = 0.0, np.inf
    if (np.diff(value[order]) > NEAR).all():
        return np.arange(n), signs, zero, nonzero
    classes = np.full(n, -1)
    for position, i in enumerate(order):
        if classes[i] < 0:
            classes[i] = i
        for j in order[position + 1 :]:
            # unit rows are at least as far apart as their projections
            if value[j] - value[i] > NEAR:
                break
            distance = float(np.linalg.norm(rows[i] - rows[j]))
            if distance <= ATOMS:
                zero = max(zero, distance)
                classes[j] = classes[i]
            else:
                nonzero = min(nonzero, distance)
    _, kept, classes = np.unique(classes, return_index=True, return_inverse=True)
    rank_of = np.empty(len(kept), dtype=np.int64)
    rank_of[np.argsort(kept)] = np.arange(len(kept))
    return rank_of[classes.ravel()], signs, zero, nonzero


def _are_parallel(rows: np.ndarray, others: np.ndarray) -> bool:
    """Return whether each row is a multiple of the row of the same index in ``others``, in exact arithmetic."""
    apart = (rows != others).any(axis=1)
    for row, other in zip(rows[apart].tolist(), others[apart].tolist(), strict=True):
        lead = next(k for k, entry in enumerate(other) if entry)
        mine, its = Fraction(row[lead]), Fraction(other[lead])
        if any(Fraction(a) * its != Fraction(b) * mine for a, b in zip(row, other, strict=True)):
            return False
    return True


def _whiten(rows: np.ndarray, rank: int | None) -> tuple[np.ndarray, float, float]:
    """Return unit rows in nearly isotropic coordinates of the row space, and the two singular values
    (relative) on either side of the rank.
    """
    rows = rows / np.abs(rows).max(axis=1, keepdims=True)
    scale = np.abs(rows).max(axis=0)
    rows = rows[:, scale > 0] / scale[scale > 0]
    _, s, vt = np.linalg.svd(rows, full_matrices=False)
    relative = s / s[0]
    if rank is None:
        rank = numerical_rank(relative, ATOMS)
    map_ = vt[:rank].T / np.maximum(s[:rank], 1e-300)
    # extended precision keeps the map's condition number out of the rows; the map itself may be inexact
    wide = rows.astype(np.longdouble) if rows.size * rank < 10**8 else rows
    for _ in range(2):
        white = np.asarray(wide @ map_, dtype=np.float64)
        white /= np.maximum(np.linalg.norm(white, axis=1, keepdims=True), 1e-300)
        triangle = np.asarray(np.linalg.qr(white, mode="r"))
        least, largest = np.abs(np.diag(triangle)).min(), np.abs(triangle).max()
        if least < 1e-8 * largest:
            break
        map_ = np.linalg.solve(triangle.T, map_.T).T * np.sqrt(len(rows) / rank)
    white = wide @ map_
    white = white / np.sqrt((white * white).sum(axis=1, keepdims=True))
    zero = float(relative[rank]) if rank < len(relative) else 0.0
    return np.asarray(white, dtype=np.float64), zero, float(relative[rank - 1])


def _integer_rank(rows: np.ndarray) -> np.ndarray:
    """Return independent columns that span the column space (a prime only ever lowers the rank)."""
    best = np.empty(0, dtype=np.int64)
    for p in primes_below(2**31, 2):
        pivots = eliminate_mod(rows % p, p)
        if len(pivots) > len(best):
            best = pivots
    return best


def reduce(floats: np.ndarray, integers: np.ndarray | None, *, patterns: bool = True) -> Reduced:
    """Return the essential arrangement of a lifted table (see :func:`lift`).

    Parameters
    ----------
    floats : ndarray of shape (N, D)
    integers : ndarray of shape (N, D), int64, or None
        The same table with scaled columns.
    patterns : bool
        If False ``masks`` has no words: they take N²/8 bytes, and counting does not need them.
    """
    n_samples = len(floats)
    is_live = (floats != 0).any(axis=1)
    nonzero, live = np.flatnonzero(is_live), _pack(is_live[None])[0]
    no_residues = np.empty((0, 0, 0), dtype=np.int64)
    no_primes = np.empty(0, dtype=np.int64)
    if not len(nonzero):
        empty = np.empty((0, len(live)), dtype=np.uint64)
        kept = None if integers is None else np.empty((0, 0), dtype=np.int64)
        nothing = np.empty((0, 0))
        return Reduced(
            n_samples, 0, nothing, empty, np.zeros_like(live), live, kept, no_residues, no_primes, 0.0, np.inf
        )
    zero_distance, nonzero_distance, blurred = 0.0, np.inf, False
    if integers is not None:
        classes, signs = _merge_integers(integers[nonzero])
        first = np.unique(classes, return_index=True)[1]
        rows = integers[nonzero][first]
        rows = rows // np.gcd.reduce(rows, axis=1)[:, None]
        columns = _integer_rank(rows)
        white, _, _ = _whiten(rows.astype(np.float64), len(columns))
        kept = np.ascontiguousarray(rows[:, columns])
        primes = primes_for(kept, len(columns))
        residues = np.ascontiguousarray(kept[None] % primes[:, None, None])
    else:
        white, zero_distance, nonzero_distance = _whiten(floats[nonzero], None)
        classes, signs, zero, other = _merge_floats(white)
        zero_distance, nonzero_distance = max(zero, zero_distance), min(other, nonzero_distance)
        first = np.unique(classes, return_index=True)[1]
        entries = floats[nonzero]
        blurred = bool(
            ((entries / np.abs(entries).max(axis=1, keepdims=True) == 0.0) & (entries != 0.0)).any()
        )
        blurred = blurred or not _are_parallel(entries, entries[first][classes])
        white, kept, residues, primes = white[first], None, no_residues, no_primes
    signs = signs * signs[first][classes]
    n_kept, rank = white.shape
    masks = np.zeros((n_kept, 8 * len(live) if patterns else 0), dtype=np.uint8)
    if patterns:
        np.bitwise_or.at(masks, (classes, nonzero // 8), (128 >> (nonzero % 8)).astype(np.uint8))
    positive = np.zeros((1, n_samples), dtype=bool)
    positive[0, nonzero[signs > 0]] = True
    return Reduced(
        n_samples=n_samples,
        rank=rank,
        rows=np.ascontiguousarray(white.T),
        masks=masks.view(np.uint64),
        base=_pack(positive)[0],
        live=live,
        integers=kept,
        residues=residues,
        primes=primes,
        largest_zero=zero_distance,
        smallest_nonzero=nonzero_distance,
        blurred=blurred,
    )


def flag_coordinates(rows: np.ndarray) -> np.ndarray:
    """Return the rows in a random orthonormal flag whose first vector is the first row.

    ``rows`` is (rank, n), unit columns; so is the result, with first column (1, 0, …, 0).
    """
    rank = len(rows)
    frame = np.random.default_rng(0).standard_normal((rank, rank))
    frame[:, 0] = rows[:, 0]
    q, _ = np.linalg.qr(frame)
    q[:, 0] = rows[:, 0]
    coordinates = q.T @ rows
    coordinates[:, 0] = 0.0
    coordinates[0, 0] = 1.0
    return np.ascontiguousarray(coordinates)


def interior_point(X_lifted: Any, pattern: Any) -> np.ndarray:
    r"""Return a point strictly inside a cell, as deep as a linear program can place it.

    .. math:: \max_{t, w} t \quad \text{s.t.} \quad \pm x_i \cdot w \ge t \|x_i\|,\; |w_j| \le 1

    Parameters
    ----------
    X_lifted : array of shape (N, D)
        Rows with their bias coordinate, if any.
    pattern : array of shape (N,), bool
        Activation pattern; zero rows must be False.

    Returns
    -------
    ndarray of shape (D,)

    Raises
    ------
    InputError
        If the pattern has the wrong length or is not a cell of the rows.

    Examples
    --------
    >>> interior_point([[1.0, 0.0], [0.0, 1.0]], [True, False])
    array([ 1., -1.])
    """
    rows, _ = lift(X_lifted, 0.0)
    signs = np.asarray(pattern, dtype=bool)
    if signs.shape != (len(rows),):
        raise InputError(f"pattern must have one entry per row, {len(rows)}; got shape {signs.shape}")
    norms = np.linalg.norm(rows, axis=1)
    live = norms > 0
    if signs[~live].any():
        raise InputError(f"row {np.flatnonzero(~live & signs)[0]} is zero: no point activates it")
    if not live.any():
        return np.zeros(rows.shape[1])
    units = np.where(signs[live], 1.0, -1.0)[:, None] * rows[live] / norms[live, None]
    cost = np.append(np.zeros(units.shape[1]), -1.0)
    bounds = [*[(-1.0, 1.0)] * units.shape[1], (0.0, 1.0)]
    found = linprog(cost, np.column_stack([-units, np.ones(len(units))]), np.zeros(len(units)), bounds=bounds)
    if found.x is None or (units @ found.x[:-1]).min() <= COMPUTED:
        raise InputError("pattern is not a cell of these rows: no point has these signs")
    return np.asarray(found.x[:-1])
