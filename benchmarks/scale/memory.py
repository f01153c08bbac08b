"""Peak memory of every command against its limit: what it takes beside the interpreter and its libraries."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from safetensors.numpy import save_file

MIB = 1024.0  # KiB
# not what wait4 says: a new process inherits the peak of the one that started it
MEASURED = """
import atexit, re, runpy, sys
def told():
    with open("/proc/self/status") as status, open("peak", "w") as file:
        file.write(re.search(r"VmHWM:\\s+(\\d+)", status.read())[1])
atexit.register(told)
runpy.run_module("covopt", run_name="__main__", alter_sys=True)
"""
MADE = {  # files that commands read, and the commands that make them
    "f.json": ("solve", "few.csv", "--target", "y"),
    "s.json": ("solve", "space.csv", "--target", "y"),
    "more.json": ("solve", "more.csv", "--target", "y"),
    "path.json": ("path", "mid.csv", "--target", "y", "--n-lams", "10"),
}


class Case(NamedTuple):
    """A command, the limit in GiB that is given to it, and the same command on a table that needs little."""

    name: str
    words: tuple[str, ...]
    limit: float
    little: tuple[str, ...]


LIMIT = 0.05
TIME, Y = ("--time-limit", "10"), ("--target", "y")
FIT = ("--lam", "0.01max", *TIME)
FRANK_WOLFE = ("--solver", "frank-wolfe:sliding", *TIME)
VANILLA = ("--solver", "frank-wolfe:vanilla", *TIME)
CELLS, NOISE = ("--solver", "conic:CLARABEL"), ("--potential", "label-noise")
DEEP = ("--depth", "3", "--time-limit", "20")
CASES = (
    Case("solve, 1500 points", ("solve", "plane.csv", *Y, *TIME), LIMIT, ("solve", "few.csv", *Y)),
    Case("solve, 700 points", ("solve", "less.csv", *Y, *TIME), 0.2, ("solve", "few.csv", *Y)),
    Case("solve, 300 × 8", ("solve", "wide.csv", *Y, *TIME), LIMIT, ("solve", "few.csv", *Y, *TIME)),
    Case("fit, 1500 points", ("fit", "plane.csv", *Y, *FIT), LIMIT, ("fit", "few.csv", *Y, *FIT)),
    Case("fit, 1000 points", ("fit", "more.csv", *Y, *FIT), 0.1, ("fit", "few.csv", *Y, *FIT)),
    Case("fit, 300 × 8", ("fit", "wide.csv", *Y, *FIT), LIMIT, ("fit", "few.csv", *Y, *FIT)),
    Case("fit, 400 points, 3 outputs", ("fit", "three.csv", "--target", "y,z,v", *FIT), 0.1,
         ("fit", "few.csv", *Y, *FIT)),
    Case("path, 1500 points", ("path", "plane.csv", *Y, "--n-lams", "3", *TIME), LIMIT,
         ("path", "few.csv", *Y, "--n-lams", "3")),
    Case("solve, 60 × 3, to a file", ("solve", "space.csv", *Y, "--out", "s.json", *TIME), LIMIT,
         ("solve", "few.csv", *Y, "--out", "f.json")),
    Case("cells to .npz (needs 2.3 GiB)", ("cells", "cells.csv", *Y, "--out", "c.npz"), LIMIT,
         ("cells", "few.csv", *Y, "--out", "f.npz")),
    Case("cells to .npy", ("cells", "cells.csv", *Y, "--out", "c.npy"), LIMIT,
         ("cells", "few.csv", *Y, "--out", "f.npy")),
    Case("cells to .parquet", ("cells", "cells.csv", *Y, "--out", "c.parquet"), LIMIT,
         ("cells", "few.csv", *Y, "--out", "f.parquet")),
    Case("verify of the file", ("verify", "s.json"), LIMIT, ("verify", "f.json")),
    Case("prove of it", ("prove", "s.json", "--out", "p.json"), LIMIT, ("prove", "f.json", "--out", "q.json")),
    Case("verify --proof of it", ("verify", "s.json", "--proof", "p.json"), LIMIT,
         ("verify", "f.json", "--proof", "q.json")),
    Case("train, 64 networks of width 32 on 1500 points",
         ("train", "plane.csv", *Y, "--widths", "32", "--seeds", "64", "--steps", "100"), LIMIT,
         ("train", "few.csv", *Y, "--widths", "4", "--seeds", "2", "--steps", "100")),
    Case("cp-rank, 7 × 7", ("cp-rank", "matrix.csv", "--time-limit", "5"), LIMIT, ("cp-rank", "small.csv")),
    Case("cp-rank, 8 × 8 (moments need 0.17 GiB)",
         ("cp-rank", "edge.csv", "--time-limit", "20"), LIMIT, ("cp-rank", "small.csv")),
    Case("solve by Frank–Wolfe, 1500 points", ("solve", "plane.csv", *Y, *FRANK_WOLFE), LIMIT,
         ("solve", "few.csv", *Y, *FRANK_WOLFE)),
    Case("solve by Frank–Wolfe, 300 points", ("solve", "mid.csv", *Y, *FRANK_WOLFE), LIMIT,
         ("solve", "few.csv", *Y, *FRANK_WOLFE)),
    Case("solve by vanilla Frank–Wolfe, 300 points", ("solve", "mid.csv", *Y, *VANILLA), LIMIT,
         ("solve", "few.csv", *Y, *VANILLA)),
    Case("solve over all cells, 300 points", ("solve", "mid.csv", *Y, *CELLS), LIMIT,
         ("solve", "tiny.csv", *Y, *CELLS)),
    Case("solve over all cells, 30 points", ("solve", "less-cells.csv", *Y, *CELLS), LIMIT,
         ("solve", "tiny.csv", *Y, *CELLS)),
    Case("solve, label noise, 300 points", ("solve", "mid.csv", *Y, *NOISE), LIMIT,
         ("solve", "tiny.csv", *Y, *NOISE)),
    Case("solve, label noise, 50 points", ("solve", "half.csv", *Y, *NOISE), LIMIT,
         ("solve", "tiny.csv", *Y, *NOISE)),
    Case("fit, label noise, 50 points", ("fit", "half.csv", *Y, *NOISE, *FIT), LIMIT,
         ("fit", "tiny.csv", *Y, *NOISE, *FIT)),
    Case("depth 3, 1500 points", ("depth", "plane.csv", *Y, *DEEP), LIMIT, ("depth", "few.csv", *Y, *DEEP)),
    Case("depth 3, 1500 points, more room", ("depth", "plane.csv", *Y, *DEEP), 0.2, ("depth", "few.csv", *Y, *DEEP)),
    Case("depth 12, 5 points", ("depth", "five.csv", *Y, "--depth", "12", *TIME), LIMIT,
         ("depth", "five.csv", *Y, *DEEP)),
    Case("fit of depth 3, 1500 points", ("fit", "plane.csv", *Y, "--lam", "0.001max", *DEEP), LIMIT,
         ("fit", "few.csv", *Y, "--lam", "0.001max", *DEEP)),
    Case("verify --exact of the file", ("verify", "s.json", "--exact"), LIMIT, ("verify", "f.json", "--exact")),
    Case("train --cross-check", ("train", "mid.csv", *Y, "--widths", "32", "--seeds", "8", "--steps", "100",
                                 "--cross-check"), 0.1,
         ("train", "few.csv", *Y, "--widths", "4", "--seeds", "2", "--steps", "100", "--cross-check")),
    Case("predict, 1 000 000 rows (52 MB)", ("predict", "f.json", "rows.csv", "--out", "p.csv"), LIMIT,
         ("predict", "f.json", "few.csv", "--out", "q.csv")),
    Case("predict, the same as Parquet", ("predict", "f.json", "rows.parquet", "--out", "p.csv"), LIMIT,
         ("predict", "f.json", "few.csv", "--out", "q.csv")),
    Case("predict, the same to Parquet", ("predict", "f.json", "rows.csv", "--out", "p.parquet"), LIMIT,
         ("predict", "f.json", "few.csv", "--out", "q.parquet")),
    Case("solve of them", ("solve", "rows.csv", *Y, *TIME), LIMIT, ("solve", "few.csv", *Y, *TIME)),
    Case("reduce, 100 neurons on 20 000 rows",
         ("reduce", "wide.safetensors", "some.csv", *Y, "--out", "r.safetensors"),
         LIMIT, ("reduce", "narrow.safetensors", "few.csv", *Y, "--out", "n.safetensors")),
    Case("reduce, 100 neurons on 5000 rows", ("reduce", "wide.safetensors", "part.csv", *Y, "--out", "r.safetensors"),
         LIMIT, ("reduce", "narrow.safetensors", "few.csv", *Y, "--out", "n.safetensors")),
    Case("reduce --preserve outputs, the same",
         ("reduce", "wide.safetensors", "part.csv", *Y, "--out", "r.safetensors", "--preserve", "outputs"),
         LIMIT, ("reduce", "narrow.safetensors", "few.csv", *Y, "--out", "n.safetensors", "--preserve", "outputs")),
    Case("explore, 1000 points", ("explore", "more.json", "--out", "e.html"), LIMIT,
         ("explore", "f.json", "--out", "g.html")),
    Case("explore, a path of 10 through 300 points", ("explore", "path.json", "--out", "e.html"), LIMIT,
         ("explore", "f.json", "--out", "g.html")),
    Case("count of cells", ("cells", "cells.csv", *Y, "--count-only"), LIMIT,
         ("cells", "few.csv", *Y, "--count-only")),
)  # fmt: skip


def _write_tables() -> None:
    rng = np.random.default_rng(0)
    shapes = (
        ("plane", 1500, 2, 1), ("less", 700, 2, 1), ("more", 1000, 2, 1), ("wide", 300, 8, 1), ("three", 400, 2, 3),
        ("space", 60, 3, 1), ("cells", 60, 6, 1), ("few", 40, 2, 1), ("mid", 300, 2, 1), ("half", 50, 2, 1),
        ("less-cells", 30, 2, 1), ("tiny", 10, 2, 1), ("five", 5, 2, 1), ("part", 5000, 2, 1), ("some", 20_000, 2, 1),
        ("rows", 1_000_000, 2, 1),
    )  # fmt: skip
    for name, n, d, k in shapes:
        X = rng.standard_normal((n, d))
        Y = np.abs(X).sum(axis=1) if name != "more" else rng.standard_normal(n)
        table = np.column_stack([X, Y, rng.standard_normal((n, k - 1))])
        head = ",".join([*"abcdefgh"[:d], *"yzv"[:k]])
        np.savetxt(f"{name}.csv", table, delimiter=",", header=head, comments="", fmt="%.17g")
    Path("rows.parquet").write_bytes(pd.read_csv("rows.csv").to_parquet())
    for name, width in (("wide", 100), ("narrow", 10)):
        weights = {"0.weight": rng.standard_normal((width, 2)), "0.bias": rng.standard_normal(width)}
        save_file({**weights, "2.weight": rng.standard_normal((1, width))}, f"{name}.safetensors")
    for name, size in (("matrix", 7), ("small", 5)):
        B = rng.integers(0, 3, (size + 2, size))
        np.savetxt(f"{name}.csv", B.T @ B, delimiter=",", fmt="%d")
    first, more = [531, 81, 150, 150, 81, 531, 926], np.array([3, 1, 4, 1, 5, 9, 2, 6])
    edge = np.outer(more, more)  # whose bounds stay apart: every one is tried
    edge[:7, :7] += [[first[(j - i - 1) % 7] for j in range(7)] for i in range(7)]
    np.savetxt("edge.csv", edge, delimiter=",", fmt="%d")


def _peak(words: tuple[str, ...]) -> tuple[float, int, str]:
    """Return the peak in MiB, the exit code and the last line of a command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH") or str(Path(__file__).parents[2])}
    with tempfile.TemporaryFile() as said:
        code = subprocess.run(
            [sys.executable, "-c", MEASURED, *words], stdout=said, stderr=said, env=environment, check=False
        ).returncode
        said.seek(0)
        lines = said.read().decode().strip().splitlines()
    told = [line for line in lines if line.startswith(("error", "warning", "status"))]
    return float(Path("peak").read_text()) / MIB, code, (told or lines or [""])[0]


def run(only: str = "") -> None:
    """Print a table of the commands whose names have a word in them."""
    own = os.getcwd()
    print("| command | limit, MiB | peak beyond that of the same command on little | exit | what it said |")
    print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            _write_tables()
            for case in CASES:
                if only not in case.name:
                    continue
                for file in {*case.words[1:], *case.little[1:]} & set(MADE):
                    if "--out" not in case.words or file not in case.words[case.words.index("--out") :]:
                        _peak((*MADE[file], "--out", file))
                bare = _peak(case.little)[0]
                peak, code, said = _peak((*case.words, "--memory-limit", str(case.limit)))
                beyond = max(peak - bare, 0.0)
                print(
                    f"| {case.name} | {case.limit * 1024:.0f} | {beyond:.0f} | {code} | {said[:150]} |",
                    flush=True,
                )
        finally:
            os.chdir(own)
