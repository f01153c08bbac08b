"""Limits and interrupts of every long command: how late it ends, and where no signal is heard.

    python benchmarks/micro/bench_interrupts.py limits
        with --time-limit 3: seconds beyond it, those of importing, which no limit counts, and the longest stretches
        without a look at signals, with their lines
    python benchmarks/micro/bench_interrupts.py signals
        SIGINT, SIGTERM and both after 3 s: seconds to the end, exit code, whether what was saved can be read, what is
        said of the bracket; --kinds leaves some out
    python benchmarks/micro/bench_interrupts.py limits --only cells fit --tables large --limit 2

Tables of 100 000 x 2, 1000 x 2, 442 x 10, and sizes between: 120 x 6, 300 x 10, 3000 x 12.

Seconds are those of the processor (one thread), and limits are made to
count them too, so that a busy machine tells the same; those of importing and of reading the table are in them. A
signal waits in CPython until compiled code returns: the stretch is measured by a timer of the processor's time, every
10 ms, whose handler notes what has passed since it last ran and which line it interrupts. Imports and numba's loading
of kernels are left out: they end before a deadline or an interrupt is raised.
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
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
LIMIT, AFTER = 3.0, 3.0  # seconds
MOST = 40.0  # seconds of processor beyond which a run is ended by force
HEARD = 0.2  # seconds: longer stretches are told
ROWS = {
    "large": (100_000, 2), "thousand": (1000, 2), "patients": (442, 10),
    "120x6": (120, 6), "300x10": (300, 10), "3000x12": (3000, 12),
}  # fmt: skip
Y = ("--target", "y")
CASES = {
    "solve": ("solve", "T.csv", *Y, "--tol", "1e-14", "--out", "o.json"),
    "solve --standardise": ("solve", "T.csv", *Y, "--standardise", "--tol", "1e-14", "--out", "o.json"),
    "solve, relaxation": ("solve", "T.csv", *Y, "--solver", "relaxation", "--out", "o.json"),
    "solve, label noise": ("solve", "T.csv", *Y, "--potential", "label-noise", "--out", "o.json"),
    **{
        f"solve, {name}": ("solve", "T.csv", *Y, "--solver", name, "--tol", "1e-14", "--out", "o.json")
        for name in ("conic:CLARABEL", "conic:SCS", "frank-wolfe:sliding", "frank-wolfe:fully-corrective",
                     "frank-wolfe:pairwise", "frank-wolfe:vanilla")
    },
    **{
        f"fit, {loss}": ("fit", "T.csv", *Y, "--loss", loss, "--lam", "0.001max", "--tol", "1e-14", "--out", "o.json")
        for loss in ("squared", "huber")
    },
    **{
        f"fit, {loss}": ("fit", "T-classes.csv", *Y, "--loss", loss, "--lam", "0.001max", "--tol", "1e-14",
                         "--out", "o.json")
        for loss in ("logistic", "hinge", "squared-hinge", "softmax-cross-entropy")
    },
    "fit --depth 3": ("fit", "T.csv", *Y, "--depth", "3", "--out", "o.json"),
    "path": ("path", "T.csv", *Y, "--tol", "1e-10", "--out", "o.json"),
    "cells": ("cells", "T.csv", *Y, "--out", "o.npy"),
    "cells --count-only": ("cells", "T.csv", *Y, "--count-only"),
    "cp-rank": ("cp-rank", "T-matrix.csv", "--out", "o.json"),
    "prove": ("prove", "T.json", "--out", "o.json"),
    "verify": ("verify", "T.json", "T.csv"),
    "verify --exact": ("verify", "T.json", "--exact"),
    "train": ("train", "T.csv", *Y, "--widths", "16", "--seeds", "4"),
    "train, deep": ("train", "T.csv", *Y, "--widths", "8x8", "--seeds", "4"),
    "train --cross-check": ("train", "T.csv", *Y, "--lam", "0.01", "--widths", "16", "--cross-check"),
    "depth": ("depth", "T.csv", *Y, "--depth", "3", "--out", "o.json"),
    "reduce": ("reduce", "T.pt", "T.csv", *Y, "--out", "o.pt"),
    "reduce, outputs": ("reduce", "T.pt", "T.csv", *Y, "--preserve", "outputs", "--out", "o.pt"),
    "explore": ("explore", "T.json", "--out", "o.html"),
    "predict": ("predict", "T.json", "T.csv", "--out", "o.csv"),
    "demo": ("demo",),
    "bench": ("bench", "--benchmark", str(ROOT / "benchmarks" / "interpolation"), "--out", "o.parquet"),
}  # fmt: skip
KINDS = {"SIGINT": (signal.SIGINT,), "SIGTERM": (signal.SIGTERM,), "both": (signal.SIGTERM, signal.SIGINT)}
SAYING = ("error", "Traceback", "status", "lower", "relative gap", "rank", "proved", "cells", "NOT VERIFIED")
UNLIMITED = ("predict", "demo", "bench")  # they have no --time-limit


def write_tables(names: list[str]) -> None:
    """Write the tables, a solution of each that a limit has cut short, a trained-like model and a matrix."""
    rng = np.random.default_rng(0)
    for name in names:
        n, d = ROWS[name]
        X = rng.standard_normal((n, d))
        if name == "patients":
            from sklearn.datasets import load_diabetes

            X, y = load_diabetes(return_X_y=True)
        else:
            y = np.abs(X).sum(axis=1) + 0.3 * rng.standard_normal(n)
        head = ",".join([*"abcdefghijkl"[:d], "y"])
        for suffix, targets in (("", y), ("-classes", y > np.median(y))):
            table = np.column_stack([X, targets])
            np.savetxt(f"{name}{suffix}.csv", table, delimiter=",", header=head, comments="", fmt="%.9g")
        size = {"large": 40, "thousand": 9, "120x6": 9}.get(name, 14)
        factor = rng.integers(0, 5, (size + 3, size))
        np.savetxt(f"{name}-matrix.csv", factor.T @ factor, delimiter=",", fmt="%d")
        write_model(f"{name}.pt", d)
        subprocess.run(
            command(("fit", f"{name}.csv", *Y, "--time-limit", "5", "--out", f"{name}.json", "--quiet")),
            env=environment(), check=False, capture_output=True,
        )  # fmt: skip


def write_model(path: str, d: int) -> None:
    """Write a ReLU network of two hidden layers with 64 neurons, as torch keeps it."""
    import torch

    torch.manual_seed(0)
    layers = [torch.nn.Linear(d, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU()]
    torch.save(torch.nn.Sequential(*layers, torch.nn.Linear(64, 1)).state_dict(), path)


def environment() -> dict[str, str]:
    """Return one thread for everything, and this working tree."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    return {**os.environ, **one, "PYTHONPATH": str(ROOT)}


def command(words: tuple[str, ...], listen: str = "") -> list[str]:
    """Return a command line of covopt, which notes its stretches in the file ``listen``."""
    head = [sys.executable, __file__, "listen", listen] if listen else [sys.executable, "-m", "covopt"]
    return [*head, *words]


def listen(path: str, words: list[str]) -> None:
    """Run a command of covopt and write the longest stretch without a look at signals at each place."""
    from covopt import limits
    from covopt.cli import app

    limits.time = SimpleNamespace(perf_counter=time.process_time)  # type: ignore[assignment]
    longest: dict[str, float] = {}
    last = loading = time.process_time()

    def heard(number: int, frame: FrameType | None) -> None:
        nonlocal last, loading
        passed, last = time.process_time() - last, time.process_time()
        if limits.is_loading(frame):
            loading += passed
        elif passed > HEARD:
            place = place_of(frame)
            longest[place] = max(longest.get(place, 0.0), passed)
        last = time.process_time()

    def raised(number: int, frame: FrameType | None) -> None:
        heard(number, frame)
        on_alarm(number, frame)

    on_alarm, limits.on_alarm = limits.on_alarm, raised
    signal.signal(signal.SIGPROF, heard)
    signal.setitimer(signal.ITIMER_PROF, 0.01, 0.01)
    try:
        app(words)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        Path(path).write_text(json.dumps({"stretches": longest, "loading": loading}))


def place_of(frame: FrameType | None) -> str:
    """Return the line of covopt that is running."""
    inner = frame
    while frame is not None:
        name = Path(frame.f_code.co_filename)
        if name.is_relative_to(ROOT / "covopt"):
            return f"{name.relative_to(ROOT)}:{frame.f_lineno} {frame.f_code.co_name}"
        frame = frame.f_back
    return f"{Path(inner.f_code.co_filename).name} {inner.f_code.co_name}" if inner is not None else "?"


def spent(process: subprocess.Popen[bytes]) -> float:
    """Return the processor seconds of a process that runs."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(words: tuple[str, ...], numbers: tuple[int, ...] = (), listening: str = "") -> dict[str, Any]:
    """Run a command, send the signals, and tell the seconds of processor, the exit code and the last line."""
    for left in Path().glob("o.*"):
        left.unlink()
    sent, began = None, time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command(words, listening), stdout=said, stderr=said, env=environment())
        killed = False
        while True:
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            seconds = spent(process)
            if numbers and sent is None and seconds > AFTER:
                sent = seconds, time.perf_counter()
                for number in numbers:
                    process.send_signal(number)
                    time.sleep(0.1)
            if seconds > MOST + (AFTER if numbers else 0.0) and not killed:
                process.kill()
                killed = True
            time.sleep(0.02)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines()
    total = used.ru_utime + used.ru_stime
    told = [line for line in lines if line.startswith(SAYING)] or lines[-1:]
    return {
        "seconds": total, "wall": time.perf_counter() - began, "code": process.returncode,
        "after": None if sent is None else (total - sent[0], time.perf_counter() - sent[1]),
        "said": "; ".join(" ".join(line.split())[:90] for line in told[:3]), "saved": saved(),
    }  # fmt: skip


def saved() -> str:
    """Return what became of the output, read again."""
    for path in Path().glob("o.*"):
        if path.suffix == ".checkpoint":
            continue
        if path.suffix != ".json":
            return f"{path.name} {path.stat().st_size} bytes"
        done = subprocess.run(command(("verify", str(path), "--time-limit", "20", "--quiet")), env=environment(),
                              check=False, capture_output=True)  # fmt: skip
        return f"{path.name}, verify exits {done.returncode}"
    return "checkpoint" if any(Path().glob("o.*.checkpoint")) else "none"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("limits", "signals"))
    parser.add_argument(
        "--only", nargs="*", default=[""], help="commands whose names begin with one of these"
    )
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of processor for a command")
    parser.add_argument("--tables", nargs="*", default=list(ROWS), choices=ROWS)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=KINDS, help="of signals")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tables(options.tables)
        if options.what == "limits":
            print(
                "| command | table | beyond the limit | of it loading | longest stretch | exit | saved | said |\n"
                + "| --- " * 8
                + "|"
            )
        else:
            print(
                "| command | table | signal | to the end (wall) | exit | saved | said |\n"
                + "| --- " * 7
                + "|"
            )
        for name, words in CASES.items():
            for table in options.tables:
                if not name.startswith(tuple(options.only)) or (
                    name in ("demo", "bench") and table != options.tables[0]
                ):
                    continue
                told = tuple(word.replace("T", table, 1) if word.startswith("T") else word for word in words)
                if options.what == "limits":
                    measure_limit(name, table, told, options.limit)
                else:
                    measure_signals(name, table, told, options.kinds)


def measure_limit(name: str, table: str, words: tuple[str, ...], limit: float) -> None:
    """Print the row of a command with a limit."""
    limited = words if name in UNLIMITED else (*words, "--time-limit", f"{limit:g}")
    found = run(limited, listening="stretches")
    heard = json.loads(Path("stretches").read_text()) if Path("stretches").exists() else {}
    stretches, loading = heard.get("stretches", {}), heard.get("loading", 0.0)
    ended = f"{found['code']} | {found['saved']} | {found['said']}"
    longest = sorted(stretches.items(), key=lambda pair: -pair[1])[:3]
    told = "; ".join(f"{seconds:.2f} {place}" for place, seconds in longest) or f"below {HEARD}"
    late = found["seconds"] - limit
    beyond = f"{late:+.1f}" if name not in UNLIMITED else f"({found['seconds']:.1f} s in all)"
    print(
        f"| {name} | {table} | {beyond} | {loading:.1f} | {told} | {ended} |",
        flush=True,
    )
    Path("stretches").unlink(missing_ok=True)


def measure_signals(name: str, table: str, words: tuple[str, ...], kinds: list[str]) -> None:
    """Print the rows of a command that is interrupted."""
    for kind in kinds:
        found = run(words, KINDS[kind])
        after = (
            "ended before" if found["after"] is None else f"{found['after'][0]:.1f} ({found['after'][1]:.1f})"
        )
        print(f"| {name} | {table} | {kind} | {after} | {found['code']} | {found['saved']} | {found['said']} |",
              flush=True)  # fmt: skip
        if found["after"] is None:
            break


if __name__ == "__main__":
    if sys.argv[1:2] == ["listen"]:
        listen(sys.argv[2], sys.argv[3:])
    else:
        main()
