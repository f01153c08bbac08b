"""Peak memory of every command against its limit: ``python -m benchmarks.scale.memory [--only WORD]``.

It is what a command takes beside the interpreter and its libraries.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path

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


LIMIT = 0.05  # GiB
SHORT = {
    "@": "--target y",
    "~": "--time-limit 10",
    "FW": "--solver frank-wolfe",
    "T": "--depth 3 --time-limit 20",
}
# each: what it is | the command | the same command on a table that needs little | the limit where it is another
CASES = Path(__file__).with_name("memory.txt")


def words(text: str) -> list[str]:
    """Return the words of a command."""
    for short, long in SHORT.items():
        text = text.replace(short, long)
    return text.split()


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


def _peak(words: Sequence[str]) -> tuple[float, int, str]:
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


def main() -> None:
    """Print a table of the commands whose names have a word in them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", metavar="WORD", help="commands whose names have it in them")
    only = parser.parse_args().only
    print("| command | limit, MiB | peak beyond that of the same command on little | exit | what it said |")
    print("| --- " * 5 + "|")
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        _write_tables()
        for line in CASES.read_text(encoding="utf-8").splitlines():
            name, command, little, *limit = line.split(" | ")
            if only not in name:
                continue
            read = [word.split(" --out ")[0] for word in (command, little)]
            for file in set(" ".join(read).split()) & set(MADE):
                _peak((*MADE[file], "--out", file))
            gib = float(limit[0]) if limit else LIMIT
            bare = _peak(words(little))[0]
            peak, code, said = _peak((*words(command), "--memory-limit", str(gib)))
            print(
                f"| {name} | {gib * 1024:.0f} | {max(peak - bare, 0.0):.0f} | {code} | {said[:150]} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
