"""Enumeration of the activation patterns of a table of points, each exactly once."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from math import comb
from typing import Any, NamedTuple

import numpy as np

from covopt.arrangement.reduction import Reduced, flag_coordinates, lift, reduce
from covopt.arrangement.sweep import sweep
from covopt.arrangement.tableau import Stat
from covopt.checks.log import log_event
from covopt.checks.memory import memory_left, plan
from covopt.checks.validation import check_count
from covopt.errors import InputError, PrecisionWarning
from covopt.exact.rank import ATOMS, COMPUTED, FOUND
from covopt.limits import PIECE, checkpoint
from covopt.parallel import check_n_jobs, map_tasks

_NO_PREFIX: tuple[int, ...] = ()
_TOO_LARGE = (
    "X: double precision cannot tell on which side of each other these integers are; give columns with fewer digits "
    "(count_cells takes them)"
)
_STREAM = "covopt.arrangement.iter_cells gives them in blocks, covopt cells --out FILE.npy writes them."


class Separation(NamedTuple):
    """Relative size of the largest quantity counted as zero, and of the smallest counted as nonzero."""

    largest_zero: float
    smallest_nonzero: float


@dataclass(frozen=True, eq=False)
class Arrangement:
    """The cells of a central arrangement, as activation patterns.

    Attributes
    ----------
    packed : ndarray of shape (S, ceil(N / 8)), uint8
        One cell per row, bits in the order of ``numpy.packbits``.
    n_samples : int
        N.
    rank : int
        Rank of the lifted table.
    separation : Separation
        The relative gap between what counted as zero and as nonzero.
    exact : bool
        Whether zero tests were exact: the columns are integers after scaling.
    """

    packed: np.ndarray
    n_samples: int
    rank: int
    separation: Separation
    exact: bool

    def __len__(self) -> int:
        return len(self.packed)

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.packed)

    @property
    def patterns(self) -> np.ndarray:
        """Boolean patterns, (S, N); unpacked at every access."""
        return np.unpackbits(self.packed, axis=1, count=self.n_samples).view(bool)

    def __repr__(self) -> str:
        return (
            f"Arrangement(n_cells={self.n_cells}, n_samples={self.n_samples}, rank={self.rank}, "
            f"exact={self.exact})"
        )


class Run:
    """A reduced arrangement in flag coordinates, and the record of the zero tests made so far."""

    def __init__(self, reduced: Reduced):
        self.reduced = reduced
        self.rows = np.ascontiguousarray(flag_coordinates(reduced.rows)[:, 1:])
        self.masks = np.ascontiguousarray(reduced.masks[1:])
        self.largest_zero = reduced.largest_zero
        self.smallest_nonzero = reduced.smallest_nonzero
        self.unresolved = float(reduced.blurred)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The arguments of :func:`run_task` shared by all parts."""
        r = self.reduced
        return self.rows, self.masks, r.base, r.residues, r.primes

    def record(self, stats: np.ndarray) -> None:
        """Add the record of one part."""
        self.largest_zero = max(self.largest_zero, float(stats[Stat.LARGEST_ZERO]))
        self.smallest_nonzero = min(self.smallest_nonzero, float(stats[Stat.SMALLEST_NONZERO]))
        self.unresolved += float(stats[Stat.UNRESOLVED])

    @property
    def separation(self) -> Separation:
        """The gap between zero and nonzero so far."""
        return Separation(self.largest_zero, self.smallest_nonzero)

    def warn(self) -> None:
        """Warn if float data leave no clear gap."""
        if self.reduced.exact:
            return
        if self.largest_zero > COMPUTED or self.smallest_nonzero < FOUND or self.unresolved:
            why = "rows that differ by rounding were taken for one"
            if not self.reduced.blurred:
                why = f"relative quantities up to {self.largest_zero:.2g} were counted as zero and from "
                why += f"{self.smallest_nonzero:.2g} as nonzero, too close to tell degenerate from nearly degenerate"
            warnings.warn(
                f"the cells are in doubt: {why}; give the table as integers or short decimals for exact "
                "tests, or merge nearly equal points",
                PrecisionWarning,
                stacklevel=4,
            )


def run_task(
    rows: np.ndarray,
    masks: np.ndarray,
    base: np.ndarray,
    residues: np.ndarray,
    primes: np.ndarray,
    low: int,
    high: int,
    prefix: tuple[int, ...],
    keep: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Sweep one part of an arrangement; return its half of the cells, packed in words, and the record."""
    stats = np.array([0.0, np.inf, 0.0, 0.0])
    fixed = np.array(prefix, dtype=np.int64)
    return sweep(rows, low, high, fixed, masks, base, ATOMS, residues, primes, stats, keep), stats


def tasks(n: int, rank: int, size: int) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Split a sweep over n rows (and one at infinity) into parts of at most about ``size`` half-cells.

    A part is a range of levels without a prefix, or one level with the first rows of the bases as prefix.
    """

    def split(level: int, prefix: tuple[int, ...]) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        left = rank - 1 - level - len(prefix)
        start = prefix[-1] + 1 if prefix else 0
        if left <= 1 or comb(n - start, left) <= size:
            yield level, level + 1, prefix
            return
        for b in range(start, n - left + 1):
            yield from split(level, (*prefix, b))

    low = rank
    while low > 0 and sum(comb(n, rank - 1 - level) for level in range(low - 1, rank)) <= size:
        low -= 1
    for level in range(low):
        yield from split(level, _NO_PREFIX)
    if low < rank:
        yield low, rank, _NO_PREFIX


def _as_bytes(half: np.ndarray, reduced: Reduced) -> np.ndarray:
    """Return the half-cells and their mirror images as packed bytes."""
    both = np.empty((2 * len(half), half.shape[1]), dtype=np.uint64)
    both[: len(half)] = half
    np.bitwise_xor(half, reduced.live, out=both[len(half) :])
    return _trim(both, reduced)


def _trim(words: np.ndarray, reduced: Reduced) -> np.ndarray:
    """Return packed words without the bytes that hold no sample."""
    n_bytes, size = -(-reduced.n_samples // 8), 8 * words.shape[1]
    if n_bytes == size:
        return np.ascontiguousarray(words).view(np.uint8)
    # the bytes of a row as one element: copied whole, not byte by byte
    rows = np.dtype({"names": ["row"], "formats": [f"V{n_bytes}"], "offsets": [0], "itemsize": size})
    kept = np.ascontiguousarray(np.ascontiguousarray(words).view(rows)["row"][:, 0])
    return kept.view(np.uint8).reshape(len(words), n_bytes)


def _nothing_to_cut(reduced: Reduced) -> np.ndarray:
    return np.zeros((1, -(-reduced.n_samples // 8)), dtype=np.uint8)


def half_blocks(run: Run, *, size: int, n_jobs: int, keep: bool) -> Iterator[tuple[np.ndarray, int]]:
    """Yield words of half-cells and their number; add the record to ``run``.

    Raises
    ------
    InputError
        For integers that double precision cannot distinguish.
    """
    calls = ((*part, keep) for part in tasks(run.rows.shape[1], run.reduced.rank, size))
    found = 0
    for part, (half, stats) in enumerate(map_tasks(run_task, calls, n_jobs=n_jobs, shared=run.arrays)):
        checkpoint()  # alarms do not reach compiled code
        run.record(stats)
        if run.reduced.exact and run.unresolved:
            raise InputError(_TOO_LARGE)
        found += 2 * int(stats[-1])
        log_event(logging.DEBUG, f"part {part}: {found:,} cells", "part", part=part, n_cells=found)
        yield half, int(stats[-1])


def cell_bytes(n_cells: int, n_samples: int) -> float:
    """Return the bytes needed to build that many cells in memory: words of the halves twice, packed bytes.

    Examples
    --------
    >>> cell_bytes(10, 65)
    410.0
    """
    return n_cells * (2.0 * 8 * -(-n_samples // 64) + -(-n_samples // 8))


def enumerate_cells(X: Any, *, bias: float = 0.0, n_jobs: int = 1) -> Arrangement:
    r"""Enumerate the activation patterns of a table of points.

    The patterns are the sign vectors :math:`s_i = [\tilde x_i \cdot w > 0]` of the points w that lie on none
    of the hyperplanes :math:`\tilde x_i \cdot w = 0`, with :math:`\tilde x = (x, \beta)` (the bias is dropped
    when it is 0): one for each full-dimensional cell of the arrangement. Each is returned exactly once, on
    degenerate data as on generic data, and without linear programs.

    Parameters
    ----------
    X : array of shape (N, d)
        One point per row. Zero rows (after lifting) are False in every pattern; parallel and antiparallel
        rows are allowed.
    bias : float
        β.
    n_jobs : int
        Workers, through joblib (-1: all cores); parts of the sweep are independent. Within
        ``joblib.parallel_config(backend="dask")`` they are those of the cluster.

    Returns
    -------
    Arrangement
        Patterns are in no particular order.

    Raises
    ------
    InputError
        If X is not a finite table with at least one row, ``bias`` or ``n_jobs`` is invalid, the cells need more
        memory than the limit (four fifths of what is free), or integers have so many digits that double
        precision cannot determine signs.

    Warns
    -----
    PrecisionWarning
        If the gap between what counted as zero and as nonzero is too small to trust, or rows on different lines were
        merged. Columns of integers or short decimals are tested exactly and never warn. In other tables a dependence
        up to 1e-12 counts as exact without a warning, since rounding causes such.

    See Also
    --------
    iter_cells : The same in blocks, in bounded memory.
    covopt.arrangement.counting.count_cells : Their number.

    Notes
    -----
    For points in general position there are :math:`2 \sum_{i<D} \binom{N-1}{i}` cells; see "Sparsest
    interpolating shallow networks" (2020), section 4, for their use.

    Examples
    --------
    >>> cells = enumerate_cells([[0], [1], [2]], bias=1.0)
    >>> cells
    Arrangement(n_cells=6, n_samples=3, rank=2, exact=True)
    >>> sorted(map(tuple, cells.patterns.astype(int).tolist()))
    [(0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 1, 0), (1, 1, 1)]
    """
    n_jobs = check_n_jobs(n_jobs)
    reduced = reduce(*lift(X, bias))
    if reduced.rank == 0:
        none = Separation(0.0, np.inf)
        return Arrangement(_nothing_to_cut(reduced), reduced.n_samples, 0, none, reduced.exact)
    half_cells = sum(comb(len(reduced.masks) - 1, i) for i in range(reduced.rank))
    shared = n_jobs != 1  # then each worker gets several parts
    size = max(1 << 12, min(half_cells // 16, PIECE)) if shared else 2 * half_cells
    needed = cell_bytes(2 * half_cells, reduced.n_samples)
    limit = memory_left(needed)
    if needed > limit:
        if not reduced.exact:  # usually in general position; integers may have far fewer cells
            plan(needed, _STREAM, limit=limit)
        size = min(size, PIECE)
    run, blocks, found = Run(reduced), [], 0
    for half, count in half_blocks(run, size=size, n_jobs=n_jobs, keep=True):
        found += 2 * count
        plan(cell_bytes(found, reduced.n_samples), _STREAM, limit=limit)
        blocks.append(half)
    packed = _as_bytes(blocks[0] if len(blocks) == 1 else np.concatenate(blocks), reduced)
    run.warn()
    return Arrangement(packed, reduced.n_samples, reduced.rank, run.separation, reduced.exact)


def iter_cells(
    X: Any, *, bias: float = 0.0, chunk_size: int = PIECE, n_jobs: int = 1
) -> Iterator[np.ndarray]:
    """Yield the activation patterns in packed blocks, in bounded memory.

    Parameters
    ----------
    X, bias, n_jobs
        As in :func:`enumerate_cells`.
    chunk_size : int
        Most patterns in a block; working memory is proportional to it.

    Yields
    ------
    ndarray of shape (at most chunk_size, ceil(N / 8)), uint8
        Bits in the order of ``numpy.packbits``.

    Raises
    ------
    InputError
        As in :func:`enumerate_cells`; raised at once, not at the first block, except for integers of too many digits.

    Examples
    --------
    >>> sum(len(block) for block in iter_cells([[1, 0], [0, 1], [1, 1]], chunk_size=4))
    6
    """
    n_jobs = check_n_jobs(n_jobs)
    chunk_size = check_count("chunk_size", chunk_size)
    return _blocks(reduce(*lift(X, bias)), chunk_size, n_jobs)


def _blocks(reduced: Reduced, chunk_size: int, n_jobs: int) -> Iterator[np.ndarray]:
    if not reduced.rank:
        yield _nothing_to_cut(reduced)
        return
    run = Run(reduced)
    step = max(1, chunk_size // 2)
    for half, _ in half_blocks(run, size=step, n_jobs=n_jobs, keep=True):
        for i in range(0, len(half), step):
            packed = _as_bytes(half[i : i + step], reduced)
            yield from (packed[k : k + chunk_size] for k in range(0, len(packed), chunk_size))
    run.warn()
