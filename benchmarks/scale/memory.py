"""Peak memory of every command against its limit: what it takes beside the interpreter and its libraries."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

MIB = 1024.0  # of ru_maxrss, KiB


class Case(NamedTuple):
    """A command, and the limit in GiB that is given to it; without one, the machine's."""

    name: str
    words: tuple[str, ...]
    limit: float | None


LIMIT = 0.05
TIME = ("--time-limit", "10")
CASES = (
    Case("solve, 1500 points", ("solve", "plane.csv", "--target", "y", *TIME), LIMIT),
    Case("fit, 1500 points", ("fit", "plane.csv", "--target", "y", "--lam", "0.1max", *TIME), LIMIT),
    Case("path, 1500 points", ("path", "plane.csv", "--target", "y", "--n-lams", "3", *TIME), LIMIT),
    Case("solve, 60 × 3", ("solve", "space.csv", "--target", "y", *TIME), LIMIT),
    Case("cells to .npz, refused", ("cells", "cells.csv", "--target", "y", "--out", "c.npz"), LIMIT),
    Case("cells to .npy, streamed", ("cells", "cells.csv", "--target", "y", "--out", "c.npy"), LIMIT),
    Case("cells to .parquet", ("cells", "cells.csv", "--target", "y", "--out", "c.parquet"), LIMIT),
    Case("cells --count-only", ("cells", "cells.csv", "--target", "y", "--count-only"), None),
    Case("solve, 60 × 3, to a file", ("solve", "space.csv", "--target", "y", "--out", "s.json"), None),
    Case("verify of it", ("verify", "s.json"), None),
    Case("prove of it", ("prove", "s.json", "--out", "p.json"), None),
    Case("verify --exact of it", ("verify", "s.json", "--proof", "p.json"), None),
    Case("train, 64 networks", ("train", "plane.csv", "--target", "y", "--widths", "32", "--seeds", "64",
                                "--steps", "100"), None),
    Case("cp-rank, 7 × 7", ("cp-rank", "matrix.csv", "--time-limit", "5"), None),
)  # fmt: skip


def _write_tables() -> None:
    rng = np.random.default_rng(0)
    for name, n, d in (("plane", 1500, 2), ("space", 60, 3), ("cells", 60, 6)):
        X = rng.standard_normal((n, d))
        table = np.column_stack([X, np.abs(X).sum(axis=1)])
        head = ",".join([*"abcdef"[:d], "y"])
        np.savetxt(f"{name}.csv", table, delimiter=",", header=head, comments="", fmt="%.17g")
    B = rng.integers(0, 3, (9, 7))
    np.savetxt("matrix.csv", B.T @ B, delimiter=",", fmt="%d")


def _peak(words: tuple[str, ...]) -> tuple[float, int, str]:
    """Return the peak in MiB, the exit code and the last line of a command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH") or str(Path(__file__).parents[2])}
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen([sys.executable, *words], stdout=said, stderr=said, env=environment)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        lines = said.read().decode().strip().splitlines()
    told = [line for line in lines if line.startswith(("error", "warning", "status"))]
    return used.ru_maxrss / MIB, child.returncode, (told or lines or [""])[0]


def run() -> None:
    """Print a table."""
    own = os.getcwd()
    print("| command | limit, MiB | peak, MiB | of it beyond libraries | exit | what it said |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            _write_tables()
            np.savetxt(
                "few.csv", np.random.default_rng(1).random((4, 3)), delimiter=",", header="a,b,y", comments=""
            )
            for case in CASES:
                few = tuple("few.csv" if word.endswith(".csv") and case.words[0] not in ("cp-rank",) else word
                            for word in case.words[:2])  # fmt: skip
                kind = few if few[0] in ("solve", "fit", "path", "cells") else ("solve", "few.csv")
                bare = _peak(("-m", "covopt", *kind, "--target", "y"))[0]
                limit = () if case.limit is None else ("--memory-limit", str(case.limit))
                peak, code, said = _peak(("-m", "covopt", *case.words, *limit))
                given = "—" if case.limit is None else f"{case.limit * 1024:.0f}"
                print(
                    f"| {case.name} | {given} | {peak:.0f} | {max(peak - bare, 0.0):.0f} | {code} | {said[:110]} |",
                    flush=True,
                )
        finally:
            os.chdir(own)
