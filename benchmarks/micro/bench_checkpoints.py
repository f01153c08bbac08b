"""What a checkpoint costs, and what a run that was stopped still has to do.

    python benchmarks/micro/bench_checkpoints.py [--points 1000] [--every 2] [--repeats 3]

Minimal-norm networks through standard normal points of the plane and standard normal targets, to 1e-6: without a
checkpoint, with one every so many seconds, then stopped after two thirds of the rounds and gone on with. Processor
seconds, the least of all repeats, in turn; one BLAS and one compiled thread. Compilation is not timed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
from threadpoolctl import threadpool_limits

import covopt


def timed(solve: Callable[..., covopt.Solution], **options: Any) -> tuple[float, covopt.Solution]:
    began = time.process_time()
    solution = solve(**options)
    return time.process_time() - began, solution


def is_round(number: int, state: Any) -> bool:
    return state.round == number


def measure(points: int, every: float, repeats: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((points, 2))
    y = rng.standard_normal(points)

    def solve(**options: Any) -> covopt.Solution:
        return covopt.min_norm(X, y, random_state=0, **options)

    covopt.min_norm(X[:10], y[:10])  # compile
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.checkpoint"
        plain, kept, rest = [], [], []
        for _ in range(repeats):
            marks: list[float] = []
            began = time.process_time()
            seconds, whole = timed(
                solve, callback=lambda state, marks=marks: marks.append(time.process_time())
            )
            plain.append(seconds)
            rounds = len(whole.history)
            stop = max(2, 2 * rounds // 3)
            left = began + seconds - marks[stop]  # from the end of that round on
            seconds, solution = timed(solve, checkpoint=covopt.Checkpoint(file, every_s=every))
            kept.append((seconds, solution.timings.get("checkpoint", 0.0)))
            solve(checkpoint=covopt.Checkpoint(file, every_s=every), callback=partial(is_round, stop))
            size = file.stat().st_size
            seconds, second = timed(solve, checkpoint=covopt.Checkpoint(file, every_s=every))
            rest.append((seconds, seconds / left))
            if not covopt.verify(second).ok:
                raise SystemExit("what was gone on with fails its verification")
    with_one, writing = min(kept)
    seconds, share = min(rest)
    print(
        "| N | rounds | without | with one every | writing | stopped at round | the rest | of what it was | file |"
    )
    print("| --- |" + " --- |" * 8)
    print(
        f"| {points} | {rounds} | {min(plain):.2f} s | {with_one:.2f} s ({every:g} s) | {writing:.2f} s | {stop} "
        f"| {seconds:.2f} s | {share:.2f} | {size / 1e6:.1f} MB |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--points", type=int, default=1000, metavar="N")
    parser.add_argument("--every", type=float, default=2.0, metavar="S", help="seconds between checkpoints")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    numba.set_num_threads(1)
    with threadpool_limits(1):
        measure(arguments.points, arguments.every, arguments.repeats)


if __name__ == "__main__":
    main()
