"""``python -m benchmarks.scale speedup|simulate|messages|cells|memory|kills``: see the README beside."""

from __future__ import annotations

import argparse

from benchmarks.scale import cells, kills, memory, messages, speedup
from benchmarks.scale.trace import Network
from benchmarks.scale.work import WORK


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, workers in (("speedup", [1, 2]), ("simulate", [1, 2, 4, 10, 100, 1000])):
        command = commands.add_parser(name)
        command.add_argument("--only", nargs="*", choices=list(WORK), default=list(WORK))
        command.add_argument("--workers", nargs="*", type=int, default=workers)
        command.add_argument("--size", choices=["small", "medium", "full"], default="full")
        if name == "simulate":
            command.add_argument("--bytes-per-s", type=float, default=1e9, help="at the client")
            command.add_argument(
                "--dispatch-s", type=float, default=5e-3, help="of a message, at client and scheduler"
            )
    command = commands.add_parser("cells")
    command.add_argument("--cells", type=float, default=1e8, help="1e9 take 8 GiB of disk as .npy")
    command.add_argument("--only", nargs="*", choices=["npy", "parquet"], default=["npy", "parquet"])
    command.add_argument("--folder", help="where the files go, for a while")
    command = commands.add_parser("memory")
    command.add_argument("--only", default="", metavar="WORD", help="commands whose names have it in them")
    commands.add_parser("messages")
    command = commands.add_parser("kills")
    command.add_argument("--only", nargs="*", choices=list(kills.CASES), default=list(kills.CASES))
    command.add_argument("--kills", type=int, default=50)
    asked = parser.parse_args()
    if asked.command == "speedup":
        speedup.run(asked.only, asked.workers, asked.size)
    elif asked.command == "cells":
        cells.run(asked.cells, asked.only, asked.folder)
    elif asked.command == "memory":
        memory.run(asked.only)
    elif asked.command == "messages":
        messages.run()
    elif asked.command == "kills":
        kills.run(asked.only, asked.kills)
    else:
        speedup.predict(
            asked.only, asked.workers, asked.size, Network(asked.dispatch_s, bytes_per_s=asked.bytes_per_s)
        )


if __name__ == "__main__":
    main()
