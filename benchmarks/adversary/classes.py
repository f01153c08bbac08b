"""The classes of instances: a name, the function that runs an instance, and the share of a long run."""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

import numpy as np

from benchmarks.adversary import claims, deep, dual_norms, files, forged, hostile, matrices, proved, solves
from benchmarks.adversary.outcome import Outcome, judge
from benchmarks.adversary.tables import ALL_TABLES

Instance = Callable[[np.random.Generator], Outcome]
Task = tuple[str, int]
# with these shares 100 000 instances take half an hour on two cores: pricing takes milliseconds, a solve seconds
QUESTION_SHARE, VECTOR_SHARE, BOX_SHARE, SOLVE_SHARE = 8.0, 1.0, 0.5, 0.2

CLASSES: dict[str, tuple[Instance, float]] = {
    **{f"price/{name}": (dual_norms.price(name, several=False), QUESTION_SHARE) for name in ALL_TABLES},
    **{f"price-vector/{name}": (dual_norms.price(name, several=True), VECTOR_SHARE) for name in ALL_TABLES},
    **{f"bounds/{name}": (dual_norms.bounds(name), 5 * BOX_SHARE) for name in dual_norms.BOUNDS},
    **{f"min-norm/{name}": (solves.interpolation(name), SOLVE_SHARE / 3) for name in ALL_TABLES},
    **{f"label-noise/{name}": (solves.label_noise(name), SOLVE_SHARE / 2) for name in ALL_TABLES},
    **{f"frank-wolfe/{name}": (solves.frank_wolfe(name), SOLVE_SHARE / 4) for name in ALL_TABLES},
    **{f"fit/{loss}": (solves.fit(loss), SOLVE_SHARE) for loss in solves.LOSSES},
    "path": (solves.path, SOLVE_SHARE / 2),
    **{f"cp-rank/{name}": (ask, SOLVE_SHARE) for name, ask in matrices.CLASSES.items()},
    **{f"depth/{name}": (deep.below(name), SOLVE_SHARE / 3) for name in ALL_TABLES},
    **{f"depth/{name}": (ask, SOLVE_SHARE / 2) for name, ask in deep.CLASSES.items()},
    **{f"forged/{name}": (ask, SOLVE_SHARE) for name, ask in forged.CLASSES.items()},
    **{f"proof/{name}": (ask, SOLVE_SHARE) for name, ask in proved.CLASSES.items()},
    **{f"claims/{name}": (ask, SOLVE_SHARE / 2) for name, ask in claims.CLASSES.items()},
    **{f"hostile/{name}": (ask, SOLVE_SHARE / 2) for name, ask in hostile.CLASSES.items()},
    **{f"file/{kind}": (files.damaged(kind), SOLVE_SHARE) for kind in files.KINDS},
    "file/table": (files.damaged_table, SOLVE_SHARE),
}


def run_one(task: Task) -> Outcome:
    """Run one instance in this process; its random numbers depend only on the class and the seed."""
    name, seed = task
    return judge(CLASSES[name][0], np.random.default_rng([crc32(name.encode()), seed]))


def plan(count: int, seed: int, wanted: list[str]) -> list[Task]:
    """Return (class, seed) for ``count`` instances, by share, of the classes whose names begin with a wanted word."""
    names = [n for n in CLASSES if not wanted or any(n.startswith(word) for word in wanted)]
    if not names:
        raise SystemExit(f"no class begins with {', '.join(wanted)}; there are {', '.join(CLASSES)}")
    shares = np.array([CLASSES[n][1] for n in names])
    numbers = np.maximum(1, np.floor(count * shares / shares.sum()).astype(int))
    while numbers.sum() < count:
        numbers[int(np.argmax(shares / numbers))] += 1
    # classes alternate, so that an interrupted run has covered all of them
    tasks = [
        ((i + 0.5) / n, name, seed * 1_000_000 + i)
        for name, n in zip(names, numbers, strict=True)
        for i in range(n)
    ]
    return [(name, each) for _, name, each in sorted(tasks)][: max(count, len(names))]
