"""Instances in worker processes: one that hangs or dies costs itself, not the run."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from benchmarks.adversary.outcome import CRASHED, Outcome, judge

SECONDS = 120  # of processor time for one instance; most take milliseconds, some of them seconds
Task = tuple[str, int]


class _TooSlow(Exception):
    pass


def run_one(task: Task) -> Outcome:
    """Run one instance in this process."""
    from benchmarks.adversary.classes import CLASSES, generator

    name, seed = task
    return judge(CLASSES[name][0], generator(name, seed))


def _work(pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")

    def stop(*_: Any) -> None:
        raise _TooSlow(f"not done after {SECONDS} s of processor time")

    signal.signal(signal.SIGPROF, stop)
    while (task := pipe.recv()) is not None:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        outcome = run_one(task)
        signal.setitimer(signal.ITIMER_PROF, 0)
        pipe.send(outcome)


class _Worker:
    def __init__(self) -> None:
        self.task: Task | None = None
        self.start()

    def start(self) -> None:
        """Start a process, after one that died as well."""
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def begin(self, task: Task) -> None:
        self.task = task
        self.pipe.send(task)

    def result(self) -> Outcome | None:
        """Return the outcome; None where the process died."""
        try:
            return self.pipe.recv()
        except (EOFError, ConnectionResetError):
            return None

    def close(self) -> None:
        self.process.terminate()
        self.process.join()


def run_all(tasks: list[Task], jobs: int) -> Iterator[tuple[Task, Outcome]]:
    """Yield the outcomes as they come."""
    waiting = iter(tasks)
    workers = [_Worker() for _ in range(min(jobs, len(tasks)))]
    try:
        busy = []
        for worker, task in zip(workers, waiting, strict=False):
            worker.begin(task)
            busy.append(worker)
        while busy:
            ready = wait([worker.pipe for worker in busy])
            for worker in [w for w in busy if w.pipe in ready]:
                task, outcome = worker.task, worker.result()
                assert task is not None
                if outcome is None:
                    worker.process.join()
                    outcome = Outcome(CRASHED, f"the process ended with code {worker.process.exitcode}")
                    worker.start()
                yield task, outcome
                following = next(waiting, None)
                if following is None:
                    busy.remove(worker)
                else:
                    worker.begin(following)
    finally:
        for worker in workers:
            worker.close()
