"""One worker against two and four, each a process on this machine: ``python -m benchmarks.scale.speedup``.

Equal answers, wall seconds, processor seconds of the client and of the busiest worker, which the cost model asks for.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import covopt
from covopt.arrangement.enumeration import iter_cells
from covopt.oracles.cones import box_gauge

WARM_S = 60.0


def noise(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.standard_normal(n)


def boxes(full: bool) -> Callable[[], Any]:
    """A dual that is nearly optimal, where many neurons are nearly the best: the hard case for boxes."""
    X, y = noise(40, 8) if full else noise(30, 5)
    found = covopt.fit(X, y, lam="0.02max" if full else "0.01max", tol=0.1 if full else 0.05, random_state=0)
    rows = np.column_stack([X, np.ones(len(X))])
    return lambda: box_gauge(rows, found.dual.ravel(), rtol=1e-6, max_nodes=200_000_000).upper_bound


def cells(full: bool) -> Callable[[], Any]:
    n = 150 if full else 80
    X = np.column_stack([noise(n, 4)[0], np.ones(n)])
    return lambda: sum(len(block) for block in iter_cells(X, chunk_size=1 << 20))


WORK = {"boxes": boxes, "cells": cells}


def with_workers(count: int, small: Any, work: Any) -> dict[str, Any]:
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
        there = max(after - before[name] for name, after in client.run(time.process_time).items())
    return {"answer": answer, "wall": wall, "here": here, "there": there}


def main() -> None:
    """Print a table for each kind of work."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--only", nargs="*", choices=list(WORK), default=list(WORK))
    parser.add_argument("--workers", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    for name in asked.only:
        work, small = WORK[name](not asked.small), WORK[name](False)
        small()
        began, own = time.perf_counter(), time.process_time()
        alone = work()
        wall, cpu = time.perf_counter() - began, time.process_time() - own
        print(f"\n{name}: alone {wall:.2f} s wall, {cpu:.2f} s of processors\n")
        print("| workers | wall | speed-up | client | busiest worker | speed-up by processors |")
        print("| --- " * 6 + "|")
        first: dict[str, Any] = {}
        for count in asked.workers:
            found = with_workers(count, small, work)
            assert found["answer"] == alone, "another answer on the cluster"
            first = first or found
            # the client works while workers do, unless it waits: its time is counted in full
            by_processors = (first["here"] + first["there"]) / (found["here"] + found["there"])
            print(
                f"| {count} | {found['wall']:.2f} s | {first['wall'] / found['wall']:.2f} | {found['here']:.2f} s | "
                f"{found['there']:.2f} s | {by_processors:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
