"""``python -m benchmarks.scale speedup|memory|kills``: see the README beside."""

from __future__ import annotations

import argparse

from benchmarks.scale import kills, memory, speedup
from benchmarks.scale.work import WORK


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("speedup")
    command.add_argument("--only", nargs="*", choices=list(WORK), default=list(WORK))
    command.add_argument("--workers", nargs="*", type=int, default=[1, 2])
    command.add_argument("--size", choices=["small", "medium", "full"], default="full")
    command = commands.add_parser("memory")
    command.add_argument("--only", default="", metavar="WORD", help="commands whose names have it in them")
    command = commands.add_parser("kills")
    command.add_argument("--only", nargs="*", choices=list(kills.CASES), default=list(kills.CASES))
    command.add_argument("--kills", type=int, default=50)
    asked = parser.parse_args()
    if asked.command == "speedup":
        speedup.run(asked.only, asked.workers, asked.size)
    elif asked.command == "memory":
        memory.run(asked.only)
    else:
        kills.run(asked.only, asked.kills)


if __name__ == "__main__":
    main()
