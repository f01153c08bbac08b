"""Run instances in worker processes, some hundred in each, so that one that hangs or dies does not end the run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.adversary.classes import Task, run_one
from benchmarks.adversary.outcome import CRASHED, Outcome

SECONDS = 120  # processor time for one instance; most take milliseconds, some seconds
TOGETHER = 500  # instances per process


def _work(pipe: Connection, tasks: list[Task]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")

    def stop(*_: Any) -> None:
        raise TimeoutError(f"not done after {SECONDS} s of processor time")

    signal.signal(signal.SIGPROF, stop)
    for task in tasks:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        outcome = run_one(task)
        signal.setitimer(signal.ITIMER_PROF, 0)
        pipe.send(outcome)


def _together(tasks: list[Task]) -> list[Outcome]:
    """Run some instances in a worker process; if one kills it, only that instance is lost."""
    context, outcomes = get_context("spawn"), []
    while len(outcomes) < len(tasks):
        pipe, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(theirs, tasks[len(outcomes) :]), daemon=True)
        process.start()
        theirs.close()
        try:
            while True:
                outcomes.append(pipe.recv())
        except EOFError:
            process.join()
        if len(outcomes) < len(tasks):
            outcomes.append(Outcome(CRASHED, f"the process ended with code {process.exitcode}"))
    return outcomes


def run_all(tasks: list[Task], jobs: int) -> Iterator[tuple[Task, Outcome]]:
    """Yield tasks with their outcomes, some hundred at a time."""
    size = min(TOGETHER, -(-len(tasks) // jobs))
    parts = [tasks[i : i + size] for i in range(0, len(tasks), size)]
    with ThreadPoolExecutor(jobs) as pool:
        for part, outcomes in zip(parts, pool.map(_together, parts), strict=True):
            yield from zip(part, outcomes, strict=True)
