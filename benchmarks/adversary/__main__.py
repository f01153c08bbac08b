"""Try to refute covopt on instances of kinds that have caused errors, checked in independent exact arithmetic.

    python -m benchmarks.adversary --instances 100000 --seed 0 --jobs 2
    python -m benchmarks.adversary --instances 2000 --classes price min-norm/clusters
    python -m benchmarks.adversary --only price/clusters:25

Prints one line for every instance that is refuted or crashes, with the name that reproduces it, and then a table.
``slack`` is the median relative distance of the claim from the adversary's bound. Ctrl-C prints the table so far. The
exit code is 1 if any instance was refuted or crashed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict

import numpy as np

from benchmarks.adversary.classes import CLASSES, plan, run_one
from benchmarks.adversary.outcome import CRASHED, HELD, REFUSED, REFUTED
from benchmarks.adversary.pool import run_all

KINDS = (HELD, REFUTED, REFUSED, CRASHED)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.adversary", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--instances", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--classes", nargs="*", default=[], help="beginnings of class names; all by default")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", metavar="CLASS:SEED", help="run one instance again")
    given = parser.parse_args()
    if given.only:
        name, _, seed = given.only.rpartition(":")
        outcome = run_one((name, int(seed)))
        print(f"{outcome.kind}: {outcome.detail or f'slack {outcome.slack:.1e}'}")
        return int(outcome.kind in (REFUTED, CRASHED))
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    slacks: dict[str, list[float]] = defaultdict(list)
    began = time.perf_counter()
    try:
        for (name, seed), outcome in run_all(plan(given.instances, given.seed, given.classes), given.jobs):
            for group in (name.partition("/")[0], "all"):
                counts[group][outcome.kind] += 1
                slacks[group] += [outcome.slack] * bool(np.isfinite(outcome.slack))
            if outcome.kind in (REFUTED, CRASHED):
                print(f"{outcome.kind.upper():<8} --only {name}:{seed}  {outcome.detail}", flush=True)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    print("| class | tried | held | refuted | refused | crashed | median slack |\n| --- |" + " ---: |" * 6)
    for group in [*dict.fromkeys(name.partition("/")[0] for name in CLASSES if name), "all"]:
        if group in counts:
            slack = f"{np.median(slacks[group]):.0e}" if slacks[group] else "–"
            row = " | ".join(str(counts[group][kind]) for kind in KINDS)
            print(f"| {group} | {counts[group].total()} | {row} | {slack} |")
    print(f"{time.perf_counter() - began:.0f} s, {given.jobs} process{'es' * (given.jobs > 1)}")
    return int(counts["all"][REFUTED] + counts["all"][CRASHED] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
