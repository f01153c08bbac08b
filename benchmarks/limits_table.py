"""The table of limits and signals: every command on tables of three sizes, ended by a limit, by Ctrl-C, by two.

    python -m benchmarks.limits_table [--only solve fit] [--tables 120x6] [--ends limit once twice]

Commands count the seconds of the processor in place of the clock's, so that a busy machine tells nearly the same; a
signal is sent after three of them, a second one a second later. Importing comes first and is not counted. Printed are
processor and clock seconds beyond the limit, or after the last signal, the exit code, and the bracket; what is wrong
is in capitals.
Two commands run at a time, about eight minutes in all; after eleven nothing more is begun, which the table says.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
CHECKER = ROOT / "checkers" / "covopt_check.py"
LIMIT, AFTER, MOST = 4.0, 3.0, 40.0  # seconds; beyond the last a run is ended by force
CHECK = 4.0  # seconds for looking at a file that was left
LATE, AT_ONCE = 2.0, 1.0  # beyond the limit and after one signal, and after two
ENOUGH = 660.0  # seconds of the clock, from which on nothing is begun
JOBS = 2
SIZES = {
    "120x6": (120, 6, 9),
    "300x10": (300, 10, 14),
    "3000x12": (3000, 12, 40),
}  # rows, columns, of the matrix
OUT = ("--out", "o.json")
TABLE = ("T.csv", "--target", "y")
COMMANDS = {
    "solve": ("solve", *TABLE, "--standardise", *OUT),
    "fit": ("fit", *TABLE, "--lam", "0.01max", *OUT),
    "path": ("path", *TABLE, *OUT),
    "gap": ("gap", "T.pt", *TABLE, "--lam", "0.01", *OUT),
    "cells": ("cells", *TABLE, "--out", "o.npy"),
    "cp-rank": ("cp-rank", "T-matrix.csv", *OUT),
    "train": ("train", *TABLE, "--lam", "0.01", "--widths", "16", "--seeds", "4", "--steps", "1000000"),
    "depth": ("depth", *TABLE, "--depth", "3", *OUT),
    "reduce": ("reduce", "T-deep.pt", *TABLE, "--out", "o.pt"),
    "prove": ("prove", "T.json", "--out", "o.json"),
    "verify": ("verify", "T.json", "T.csv"),
    "verify --exact": ("verify", "T.json", "--exact"),
    "explore": ("explore", "T.json", "--out", "o.html"),
}  # fmt: skip
SIGNALS = {"limit": 0, "once": 1, "twice": 2}
CLOCK = (
    "import sys, time; from types import SimpleNamespace; from covopt import limits; from covopt.cli import main; "
    "import covopt.api.run, covopt.meter, covopt.verification, covopt.depth, covopt.proofs, pandas; "
    "sys.argv[1] in ('gap', 'train', 'reduce') and __import__('torch')\n"
    "limits.time = SimpleNamespace(perf_counter=time.process_time)\n"
    "open('loaded', 'w').write(str(time.process_time())); main()"
)


def covopt(*words: str) -> list[str]:
    """Return a command line whose limits count seconds of the processor."""
    return [sys.executable, "-c", CLOCK, *words]


def environment() -> dict[str, str]:
    """Return one thread for everything, and this working tree."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    return {**os.environ, **one, "PYTHONPATH": str(ROOT)}


def write_inputs(folder: Path, name: str) -> None:
    """Write a table, a fit of it that a limit has cut short, models as torch keeps them, and a matrix."""
    import torch
    from torch.nn import Linear, ReLU, Sequential

    n, d, size = SIZES[name]
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    X = rng.standard_normal((n, d))
    y = np.abs(X).sum(axis=1) + 0.3 * rng.standard_normal(n)
    head = ",".join([*"abcdefghijkl"[:d], "y"])
    np.savetxt(
        folder / f"{name}.csv", np.column_stack([X, y]), delimiter=",", header=head, comments="", fmt="%.9g"
    )
    factor = rng.integers(0, 5, (size + 3, size))
    np.savetxt(folder / f"{name}-matrix.csv", factor.T @ factor, delimiter=",", fmt="%d")
    layers = [Linear(d, 64), ReLU(), Linear(64, 64), ReLU(), Linear(64, 1)]
    torch.save(Sequential(*layers).state_dict(), folder / f"{name}-deep.pt")
    torch.save(Sequential(*layers[:2], layers[-1]).state_dict(), folder / f"{name}.pt")
    words = ("fit", f"{name}.csv", "--target", "y", "--time-limit", "5", "--out", f"{name}.json", "--quiet")
    subprocess.run(covopt(*words), cwd=folder, env=environment(), check=False, capture_output=True)


def spent(process: subprocess.Popen[bytes]) -> float:
    """Return the processor seconds of a process that runs."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def loaded(folder: Path) -> float:
    """Return the processor seconds that importing took, infinite until it is done."""
    try:
        return float((folder / "loaded").read_text())
    except (OSError, ValueError):
        return float("inf")


def run(folder: Path, words: tuple[str, ...], signals: int) -> str:
    """Run a command, send it signals, and return a cell of the table."""
    for left in (*folder.glob("o.*"), *folder.glob("loaded")):
        left.unlink()
    sent: list[tuple[float, float]] = []
    before, began = {*folder.iterdir(), folder / "loaded"}, time.perf_counter()
    killed = False
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        process = subprocess.Popen(
            covopt(*words, "--json"), stdout=out, stderr=error, env=environment(), cwd=folder
        )
        while True:
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            seconds = spent(process) - loaded(folder)
            due = len(sent) < signals and seconds > AFTER
            if due and (not sent or time.perf_counter() > sent[-1][1] + 1.0):
                sent.append((seconds, time.perf_counter()))
                process.send_signal(signal.SIGINT)
            if max(seconds, (time.perf_counter() - began) / JOBS) > MOST and not killed:
                process.kill()
                killed = True
            time.sleep(0.01)
        process.returncode = code = os.waitstatus_to_exitcode(status)
        ended = time.perf_counter()
        texts = []
        for file in (out, error):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    total = used.ru_utime + used.ru_stime - loaded(folder)
    if signals:
        if not sent:
            return f"ended before, exit {code}"
        late, clock = total - sent[-1][0], ended - sent[-1][1]
    else:
        late, clock = total - LIMIT, ended - began - LIMIT
    faults = ["LATE"] * (min(late, clock) > (AT_ONCE if len(sent) > 1 else LATE))
    faults += ["TRACEBACK"] * ("Traceback" in texts[1]) + ["KILLED"] * killed
    faults += [f"LEFT {path.name}" for path in sorted(set(folder.iterdir()) - before) if not is_whole(path)]
    after = f" after {len(sent)}" if 0 < len(sent) < signals else ""
    return " ".join([f"{late:+.1f} ({clock:.1f}){after}, exit {code}", bracket(texts[0]), *faults])


def is_whole(path: Path) -> bool:
    """Whether what was left is a file that can be read."""
    if path.suffix != ".json":
        return path.name.startswith("o.") and path.stat().st_size > 0
    if b"covopt-proof" in path.read_bytes()[:1000]:
        return (
            subprocess.run(
                [sys.executable, str(CHECKER), str(path)], check=False, capture_output=True
            ).returncode
            == 0
        )
    done = subprocess.run(
        covopt("verify", str(path), "--time-limit", f"{CHECK:g}", "--quiet"),
        env=environment(), check=False, capture_output=True,
    )  # fmt: skip
    return done.returncode in (0, 3)


def bracket(text: str) -> str:
    """Return what the command says of its bounds."""
    try:
        record = json.loads(text.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return ""
    if "error" in record:
        return f"“{record['error'][:60]}”"
    lower = next((record[key] for key in ("lower_bound", "lower") if key in record), None)
    upper = next(
        (record[key] for key in ("objective", "cost", "upper_bound", "upper") if key in record), None
    )
    if lower is None:
        return ""
    return f"{lower:.3g} ≤ {upper:.3g}" if upper is not None else f"≥ {lower:.3g}"


def row(name: str, command: str, ends: list[str], until: float) -> str:
    """Return a row of the table: one command on one table, in a folder of its own."""
    cells = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for path in Path(name).iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        words = tuple(name + word[1:] if word.startswith("T") else word for word in COMMANDS[command])
        for end in ends:
            limit = ("--time-limit", f"{LIMIT:g}") if end == "limit" else ()
            is_late = time.perf_counter() > until
            cells.append("NOT RUN" if is_late else run(folder, (*words, *limit), SIGNALS[end]))
    return f"| `{command}` | {name.replace('x', ' × ')} | " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=list(COMMANDS), choices=COMMANDS)
    parser.add_argument("--tables", nargs="*", default=list(SIZES), choices=SIZES)
    parser.add_argument("--ends", nargs="*", default=list(SIGNALS), choices=SIGNALS)
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background shells have it ignored
    until = time.perf_counter() + ENOUGH
    heads = {"limit": f"limit of {LIMIT:g} s", "once": "one signal", "twice": "two signals"}
    lines = ["| command | table | " + " | ".join(heads[end] for end in options.ends) + " |"]
    lines.append("| --- " * (2 + len(options.ends)) + "|")
    print(*lines, sep="\n")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(JOBS) as pool:
        os.chdir(folder)
        for name in options.tables:
            Path(name).mkdir()
            write_inputs(Path(name), name)
        asked = [(name, command) for command in options.only for name in options.tables]
        for line in pool.map(lambda pair: row(pair[0], pair[1], options.ends, until), asked):
            print(line, flush=True)


if __name__ == "__main__":
    main()
