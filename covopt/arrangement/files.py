"""Activation patterns in files: written block by block, in bounded memory, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import comb
from pathlib import Path
from typing import IO, Any

import numpy as np

from covopt.arrangement.enumeration import iter_cells
from covopt.arrangement.reduction import lift, reduce
from covopt.checks import required
from covopt.errors import InputError
from covopt.files import write_atomically
from covopt.limits import PIECE

STREAMED = (".npy", ".parquet")

Report = Callable[[int], object]


def most_cells(X: Any, *, bias: float = 0.0) -> int:
    r"""Return an upper bound on the cells of a table, :math:`2 \sum_{i<D} \binom{n-1}{i}`: that of general position.

    Parameters
    ----------
    X : array of shape (N, d)
    bias : float
        β.

    Examples
    --------
    >>> most_cells([[0], [1], [2]], bias=1.0)
    6
    """
    reduced = reduce(*lift(X, bias), patterns=False)
    n = len(reduced.masks)
    return 2 * sum(comb(n - 1, i) for i in range(reduced.rank)) if reduced.rank else 1


def write_cells(
    X: Any,
    path: Path,
    *,
    bias: float = 0.0,
    n_jobs: int = 1,
    report: Report | None = None,
) -> int:
    """Write the cells of a table to a file.

    An ``.npy`` file holds the packed bits, (S, ceil(N / 8)) bytes in the order of ``numpy.packbits``, and can be
    mapped into memory (``numpy.load(path, mmap_mode="r")``); a ``.parquet`` file holds the same bytes in one column,
    ``pattern``, of fixed-size binary.

    Parameters
    ----------
    X : array of shape (N, d)
    path : Path
        Its suffix determines the format.
    bias : float
        β.
    n_jobs : int
        As in :func:`covopt.enumerate_cells`.
    report : callable, optional
        Called with the number of cells so far after every block.

    Returns
    -------
    int
        Number of cells.

    Raises
    ------
    InputError
        For another suffix, and as in :func:`covopt.enumerate_cells`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "cells.npy"
    >>> write_cells([[0], [1], [2]], file, bias=1.0)
    6
    >>> int(np.unpackbits(np.load(file), axis=1, count=3).sum())
    9
    """
    if path.suffix not in STREAMED:
        raise InputError(f"cells are streamed to {' or '.join(STREAMED)}; received {path.name}.")
    width = -(-len(np.asarray(X)) // 8)
    size = max(1, PIECE // max(width, 8))
    blocks = iter_cells(X, bias=bias, chunk_size=size, n_jobs=n_jobs)
    write = _write_parquet if path.suffix == ".parquet" else _write_npy
    found: list[int] = []
    try:
        write_atomically(path, lambda stream: found.append(write(stream, _counted(blocks, report), width)))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; nothing is left of it.") from None
    return found[0]


def _counted(blocks: Iterator[np.ndarray], report: Report | None) -> Iterator[np.ndarray]:
    count = 0
    for block in blocks:
        yield block
        count += len(block)
        if report is not None:
            report(count)


def _write_npy(stream: IO[bytes], blocks: Iterator[np.ndarray], width: int) -> int:
    """Write blocks behind a header, which has room for the count that is filled in at the end."""
    header: dict[str, Any] = {"descr": "|u1", "fortran_order": False, "shape": (0, width)}
    np.lib.format.write_array_header_1_0(stream, header)
    count = 0
    for block in blocks:
        stream.write(np.ascontiguousarray(block).data)
        count += len(block)
    stream.seek(0)
    np.lib.format.write_array_header_1_0(stream, header | {"shape": (count, width)})
    return count


def _write_parquet(stream: IO[bytes], blocks: Iterator[np.ndarray], width: int) -> int:
    pa = required("pyarrow", "writing Parquet", "parquet")
    pq = required("pyarrow.parquet", "writing Parquet", "parquet")

    kind = pa.binary(width)
    count = 0
    with pq.ParquetWriter(stream, pa.schema([("pattern", kind)]), compression="zstd") as writer:
        for block in blocks:
            values = pa.FixedSizeBinaryArray.from_buffers(
                kind, len(block), [None, pa.py_buffer(np.ascontiguousarray(block))]
            )
            writer.write_table(pa.table({"pattern": values}))
            count += len(block)
    return count
