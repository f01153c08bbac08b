"""How long ``import covopt`` and ``covopt --help`` take, from a cold interpreter.

    python benchmarks/micro/bench_import.py
    python benchmarks/micro/bench_import.py --first

``--first`` runs a solve of 432 random rows and ``covopt demo``, each three times, with a cache of compiled code
that is empty at first: processor and wall seconds of the whole process.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from statistics import median

COMMANDS = (
    ("python -c pass", ["-c", "pass"]),
    ("import covopt", ["-c", "import covopt"]),
    ("covopt --help", ["-m", "covopt.cli", "--help"]),
)
REPEATS = 5


def seconds(arguments: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


SOLVE = (
    "import covopt, numpy as np; rng = np.random.default_rng(0); "
    "covopt.min_norm(rng.standard_normal((432, 2)), rng.standard_normal(432))"
)


def first_calls() -> None:
    """Print what the first call in a fresh installation takes, and the next two."""
    for name, arguments in (("min_norm, 432 rows", ["-c", SOLVE]), ("covopt demo", ["-m", "covopt", "demo"])):
        with tempfile.TemporaryDirectory() as folder:
            for turn in ("first", "second", "third"):
                before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
                subprocess.run(
                    [sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    cwd=folder, env={**os.environ, "NUMBA_CACHE_DIR": folder},
                )  # fmt: skip
                wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
                spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                print(f"{name:<20} {turn:<8} {spent:6.2f} s processor {wall:6.2f} s wall", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", action="store_true", help="the first call of a fresh installation")
    if parser.parse_args().first:
        first_calls()
        return
    for name, arguments in COMMANDS:
        seconds(arguments)  # bytecode and disk cache
        print(f"{name:<16} {median(seconds(arguments) for _ in range(REPEATS)):.3f} s")


if __name__ == "__main__":
    main()
