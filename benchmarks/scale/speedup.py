"""One worker against two and four, each a process on this machine."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.scale.work import WORK

WARM_S = 60.0


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


def run(names: list[str], workers: list[int], size: str) -> None:
    """Print a table for each kind of work."""
    for name in names:
        work, small = WORK[name](size), WORK[name]("small")
        small()
        began, own = time.perf_counter(), time.process_time()
        alone = work()
        wall, cpu = time.perf_counter() - began, time.process_time() - own
        print(f"\n{name}: alone {wall:.2f} s wall, {cpu:.2f} s of processors\n")
        print("| workers | wall | speed-up | client | busiest worker | speed-up by processors |")
        print("| --- | --- | --- | --- | --- | --- |")
        first: dict[str, Any] | None = None
        for count in workers:
            found = _with_workers(count, small, work)
            assert found["answer"] == alone, "another answer on the cluster"
            first = first or found
            # the client works while workers do, unless it waits: its time is counted in full
            by_processors = (first["here"] + max(first["there"])) / (found["here"] + max(found["there"]))
            print(
                f"| {count} | {found['wall']:.2f} s | {first['wall'] / found['wall']:.2f} | {found['here']:.2f} s | "
                f"{max(found['there']):.2f} s | {by_processors:.2f} |",
                flush=True,
            )
