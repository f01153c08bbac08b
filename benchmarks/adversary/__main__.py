"""Try to refute covopt: instances of every kind that has been a trouble, judged by exact arithmetic of its own.

    python -m benchmarks.adversary --instances 100000 --seed 0 --jobs 2 --json out.json
    python -m benchmarks.adversary --instances 2000 --classes price min-norm/clusters
    python -m benchmarks.adversary --only price/clusters:25

One line for every instance that is refuted or crashes, with what reproduces it; then a table. ``slack`` is the median
distance of the claim from the adversary's bound, relative. Ctrl-C prints the table so far. Exit code 1 when anything
was refuted or crashed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections import defaultdict

import numpy as np

from benchmarks.adversary.classes import CLASSES, plan
from benchmarks.adversary.outcome import CRASHED, HELD, REFUSED, REFUTED, Outcome
from benchmarks.adversary.pool import run_all, run_one

KINDS = (HELD, REFUTED, REFUSED, CRASHED)


class Tally:
    """Counts, slacks and failures by class."""

    def __init__(self) -> None:
        self.counts: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(KINDS, 0))
        self.slacks: dict[str, list[float]] = defaultdict(list)
        self.failures: list[dict[str, str]] = []

    def add(self, name: str, seed: int, outcome: Outcome) -> None:
        self.counts[name][outcome.kind] += 1
        if np.isfinite(outcome.slack):
            self.slacks[name].append(outcome.slack)
        if outcome.kind in (REFUTED, CRASHED):
            line = f"{name}:{seed}"
            self.failures.append({"only": line, "kind": outcome.kind, "detail": outcome.detail})
            print(f"{outcome.kind.upper():<8} --only {line}  {outcome.detail}", flush=True)

    def total(self, kind: str) -> int:
        return sum(counts[kind] for counts in self.counts.values())

    def table(self, short: bool = False) -> str:
        """Markdown: one row per class, or per kind of class, and their sum."""
        lines = [
            "| class | tried | held | refuted | refused | crashed | median slack |",
            "| --- |" + " ---: |" * 6,
        ]
        groups: dict[str, list[str]] = defaultdict(list)
        for name in [n for n in CLASSES if n in self.counts]:
            groups[name.partition("/")[0] if short else name].append(name)
        for group, names in groups.items():
            row = [sum(self.counts[n][kind] for n in names) for kind in KINDS]
            slacks = [slack for n in names for slack in self.slacks[n]]
            slack = f"{np.median(slacks):.0e}" if slacks else "–"
            lines.append(f"| {group} | {sum(row)} | " + " | ".join(map(str, row)) + f" | {slack} |")
        sums = [self.total(kind) for kind in KINDS]
        lines.append(f"| all | {sum(sums)} | " + " | ".join(map(str, sums)) + " | |")
        return "\n".join(lines)

    def save(self, path: str | None) -> None:
        """Write counts, slacks and failures, where a file is named."""
        if path is None:
            return
        rows = {n: {**row, "median_slack": _median(self.slacks[n])} for n, row in self.counts.items()}
        content = {"table": self.table().splitlines(), "classes": rows, "failures": self.failures}
        with open(path, "w") as stream:
            json.dump(content, stream, indent=1)


def _median(values: list[float]) -> float | None:
    return float(np.median(values)) if values else None


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.adversary", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--instances", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--classes", nargs="*", default=[], help="beginnings of class names; all by default")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", help="write counts and failures to this file, every thousand")
    parser.add_argument("--short", action="store_true", help="a row for all tables together")
    parser.add_argument("--only", metavar="CLASS:SEED", help="run one instance again")
    given = parser.parse_args()
    if given.only:
        name, _, seed = given.only.rpartition(":")
        outcome = run_one((name, int(seed)))
        print(f"{outcome.kind}: {outcome.detail or f'slack {outcome.slack:.1e}'}")
        return int(outcome.kind in (REFUTED, CRASHED))
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell started it with SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    began, tally = time.perf_counter(), Tally()
    try:
        tasks = plan(given.instances, given.seed, given.classes)
        for count, ((name, seed), outcome) in enumerate(run_all(tasks, given.jobs), start=1):
            tally.add(name, seed, outcome)
            if count % 1000 == 0:
                tally.save(given.json)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    print(tally.table(given.short))
    print(f"{time.perf_counter() - began:.0f} s, {given.jobs} process{'es' * (given.jobs > 1)}")
    tally.save(given.json)
    return int(tally.total(REFUTED) + tally.total(CRASHED) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
