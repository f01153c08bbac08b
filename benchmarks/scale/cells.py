"""Cells streamed to disk against cells in memory: cells a second, by processor and by clock, and memory taken."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from math import comb
from pathlib import Path

import numpy as np

import covopt
from covopt.arrangement.files import write_cells

DIMENSION = 8
IN_MEMORY = 1e7  # cells of the run that holds them all
MIB = 1 << 20


def rows_for(cells: float) -> int:
    """Return how many rows in general position have so many cells or more.

    >>> rows_for(1e9)
    63
    """
    n = DIMENSION
    while 2 * sum(comb(n - 1, i) for i in range(DIMENSION)) < cells:
        n += 1
    return n


def _table(cells: float) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((rows_for(cells), DIMENSION))


def _measure(kind: str, cells: float, folder: str) -> None:
    """Print cells, wall and processor seconds, and the growth of the peak; in a process of its own."""
    X = _table(cells)
    path = Path(folder) / f"cells.{kind}"
    covopt.enumerate_cells(X[: DIMENSION + 2])  # compiled code is loaded
    before, began, own = _peak(), time.perf_counter(), time.process_time()
    found = len(covopt.enumerate_cells(X)) if kind == "memory" else write_cells(X, path)
    spent, wall = time.process_time() - own, time.perf_counter() - began
    size = path.stat().st_size if path.exists() else 0
    print(found, wall, spent, _peak() - before, size)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(cells: float, kinds: list[str], folder: str | None) -> None:
    """Print a table; files are removed."""
    print(
        "| where to | cells | seconds | processor s | million cells a processor second | MiB taken | GiB on disk |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(dir=folder) as own:
        for kind in ["memory", *kinds]:
            asked = min(cells, IN_MEMORY) if kind == "memory" else cells
            code = f"from benchmarks.scale.cells import _measure; _measure({kind!r}, {asked!r}, {own!r})"
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
            )
            found, wall, spent, taken, size = map(float, done.stdout.split())
            print(
                f"| {kind} | {found:.3g} | {wall:.1f} | {spent:.1f} | {found / spent / 1e6:.2f} | {taken:.0f} | "
                f"{size / 2**30:.2f} |",
                flush=True,
            )
            (Path(own) / f"cells.{kind}").unlink(missing_ok=True)
