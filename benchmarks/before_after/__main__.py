"""Time every task in two versions, turn by turn, and print one table.

    python -m benchmarks.before_after COMMIT [--only WORD …] [--repeats 2] [--turns 2]

COMMIT is checked out beside the working tree, or is the folder of a checkout, where kernels may be compiled already.
Each task runs in processes of its own, one BLAS and one compiled
thread, before and after in turn. Figures are the least processor seconds of all turns (wall seconds with ``--wall``);
"answer" is the gap, the count or the rank, so that a faster answer that is another answer shows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.before_after.tasks import TASKS

ROOT = Path(__file__).resolve().parents[2]
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


def run(checkout: Path, name: str, repeats: int) -> dict[str, float] | str:
    """Return what the task printed, or the last line of what went wrong."""
    command = [sys.executable, str(Path(__file__).with_name("tasks.py")), name, str(repeats)]
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(checkout)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["no output"])[-1]
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def compare(before: Path, names: list[str], repeats: int, turns: int, clock: str) -> None:
    print(f"{'task':<38} {'before':>10} {'after':>10} {'ratio':>7}   answer before, after")
    for name in names:
        best: list[dict[str, float] | str] = ["", ""]
        for _ in range(turns):
            for side, checkout in enumerate((before, ROOT)):
                found, kept = run(checkout, name, repeats), best[side]
                if isinstance(found, str) or isinstance(kept, str) or found[clock] < kept[clock]:
                    best[side] = found
        old, new = best
        if isinstance(old, str) or isinstance(new, str):
            print(f"{name:<38} {old if isinstance(old, str) else new}", flush=True)
            continue
        ratio = new[clock] / max(old[clock], 1e-9)
        print(
            f"{name:<38} {old[clock]:8.4f} s {new[clock]:8.4f} s {ratio:7.2f}   "
            f"{old['answer']:.4g}, {new['answer']:.4g}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "commit", help="the version to compare the working tree with, or the folder of a checkout"
    )
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="WORD", help="tasks whose name has one of these"
    )
    parser.add_argument("--repeats", type=int, default=2, help="calls in one process (default 2)")
    parser.add_argument("--turns", type=int, default=2, help="processes of each side (default 2)")
    parser.add_argument("--wall", action="store_true", help="wall seconds instead of the processor's")
    arguments = parser.parse_args()
    names = [name for name in TASKS if any(word in name for word in arguments.only)]
    if not names:
        parser.error(f"no task has {' or '.join(arguments.only)} in its name; there are: {', '.join(TASKS)}")
    clock = "wall" if arguments.wall else "processor"
    if Path(arguments.commit).is_dir():
        compare(Path(arguments.commit).resolve(), names, arguments.repeats, arguments.turns, clock)
        return
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "before"
        subprocess.run(
            ["git", "-C", str(ROOT), "worktree", "add", "--quiet", "--detach", str(before), arguments.commit],
            check=True,
        )
        try:
            compare(before, names, arguments.repeats, arguments.turns, clock)
        finally:
            subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(before)], check=True)


if __name__ == "__main__":
    main()
