"""One worker against two and four, each a process on this machine; and what the cost model says of them."""

from __future__ import annotations

import os
import time
from typing import Any

from benchmarks.scale.trace import Network, Trace, simulate
from benchmarks.scale.work import WORK

WARM_S = 60.0
LONG = 400  # rounds, an hour of one core


def _with_workers(count: int, small: Any, work: Any) -> dict[str, Any]:
    """Run on so many workers; wall seconds, processor seconds of the client and of each worker."""
    import distributed
    from joblib import parallel_config

    with (
        distributed.LocalCluster(
            n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None
        ) as machines,
        distributed.Client(machines, set_as_default=False) as client,
        parallel_config("dask", client=client),
    ):
        client.wait_for_workers(count, timeout=WARM_S)
        small()  # compiled code is loaded
        before, began, own = client.run(time.process_time), time.perf_counter(), time.process_time()
        answer = work()
        wall, here = time.perf_counter() - began, time.process_time() - own
        there = [after - before[name] for name, after in client.run(time.process_time).items()]
    return {"answer": answer, "wall": wall, "here": here, "there": there}


def _expected(trace: Trace, count: int, cores: int) -> float:
    """Seconds that the model gives so many workers, which share so many cores with their client."""
    network = Network()
    messages = sum(len(sizes) for sizes in trace.messages(count))
    everything = trace.here + network.dispatch_s * messages + sum(part.seconds for part in trace.parts)
    return max(simulate(trace, count, network), everything / cores)


def run(names: list[str], workers: list[int], size: str) -> None:
    """Print a table for each kind of work."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for name in names:
        work, small = WORK[name](size), WORK[name]("small")
        small()
        began, own = time.perf_counter(), time.process_time()
        alone = work()
        wall, cpu = time.perf_counter() - began, time.process_time() - own
        trace = Trace()
        assert trace.record(work) == alone
        parts = trace.parts
        if not parts:
            print(f"\n{name}: nothing is large enough to be sent at this size")
            continue
        longest = max(part.seconds for part in parts)
        moved = sum(part.sent + part.returned for part in parts)
        print(f"\n{name}: alone {wall:.2f} s wall, {cpu:.2f} s of processors; {trace.here:.2f} s outside of")
        print(f"{len(parts)} parts in {len(trace.rounds)} rounds, the longest {longest:.2f} s;")
        print(
            f"{moved / 2**20:.1f} MiB moved, {trace.shared / 2**20:.2f} MiB sent once; {cores} cores here\n"
        )
        print(
            "| workers | wall | model | speed-up | model | client | busiest worker | speed-up by processors |"
        )
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        first: dict[str, Any] | None = None
        for count in workers:
            found = _with_workers(count, small, work)
            assert found["answer"] == alone, "another answer on the cluster"
            first = first or found
            # the client works while workers do, unless it waits: its time is counted in full
            by_processors = (first["here"] + max(first["there"])) / (found["here"] + max(found["there"]))
            expected = _expected(trace, count, cores)
            print(
                f"| {count} | {found['wall']:.2f} s | {expected:.2f} s | {first['wall'] / found['wall']:.2f} | "
                f"{_expected(trace, workers[0], cores) / expected:.2f} | {found['here']:.2f} s | "
                f"{max(found['there']):.2f} s | {by_processors:.2f} |",
                flush=True,
            )


def predict(names: list[str], workers: list[int], size: str, network: Network) -> None:
    """Print the simulated speed-up to many workers."""
    print("| work | parts | alone | " + " | ".join(str(count) for count in workers) + " |")
    print("| --- " * (3 + len(workers)) + "|")
    for name in names:
        trace = Trace()
        trace.record(WORK[name](size))
        _print_row(name, trace, workers, network)
        if name == "boxes":  # what a search of hours is made of
            longest = max(trace.rounds, key=lambda parts: sum(part.seconds for part in parts))
            trace.rounds = [longest] * LONG
            _print_row(f"boxes, {LONG} rounds like the longest of these", trace, workers, network)


def _print_row(name: str, trace: Trace, workers: list[int], network: Network) -> None:
    alone = trace.here + sum(part.seconds for part in trace.parts)
    told = [alone / simulate(trace, count, network) for count in workers]
    numbers = " | ".join(f"{value:.2f}" for value in told)
    print(f"| {name} | {len(trace.parts)} | {alone:.0f} s | {numbers} |", flush=True)
