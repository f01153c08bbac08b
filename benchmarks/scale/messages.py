"""What a message of a part's size costs the client and the scheduler, in one process and in two."""

from __future__ import annotations

import operator
import os
import socket
import subprocess
import sys
import time
from typing import Any

from covopt.parallel.cluster import Cluster

SENT, TIMES = 30_000, 2  # bytes of a path to a box; as much again comes back
COUNT = 400
WAIT_S = 60.0


def _spent_by(process: subprocess.Popen[bytes] | None) -> float:
    """Processor seconds of a process so far (Linux)."""
    if process is None:
        return 0.0
    with open(f"/proc/{process.pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _measure(client: Any, scheduler: subprocess.Popen[bytes] | None) -> tuple[float, float]:
    client.wait_for_workers(1, timeout=WAIT_S)
    cluster, one = Cluster(client), (b"x" * SENT, TIMES)
    list(cluster.map(operator.mul, (one for _ in range(50))))  # connections are made
    own, other = time.process_time(), _spent_by(scheduler)
    list(cluster.map(operator.mul, (one for _ in range(COUNT))))
    return (time.process_time() - own) / COUNT, (_spent_by(scheduler) - other) / COUNT


def run() -> None:
    """Print a table."""
    import distributed

    print("| scheduler | client, ms | scheduler, ms |")
    print("| --- | --- | --- |")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
        ) as machine,
        distributed.Client(machine, set_as_default=False) as client,
    ):
        print(f"| in the client's process | {1e3 * _measure(client, None)[0]:.1f}, both | |", flush=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    started = []
    try:
        for words in (
            ("scheduler", "--host", "127.0.0.1", "--port", port, "--no-show"),
            ("worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-nanny", "--death-timeout", "60"),
        ):
            command = [
                sys.executable, "-m", f"distributed.cli.dask_{words[0]}", *words[1:], "--no-dashboard",
            ]  # fmt: skip
            silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            started.append(subprocess.Popen(command, **silent))
        with distributed.Client(f"tcp://127.0.0.1:{port}", timeout=WAIT_S, set_as_default=False) as client:
            client_s, scheduler_s = _measure(client, started[0])
        print(f"| a process of its own | {1e3 * client_s:.1f} | {1e3 * scheduler_s:.1f} |")
    finally:
        for process in started:
            process.kill()
            process.wait()
