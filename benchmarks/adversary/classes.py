"""The classes of instances: a name, what it runs, and its share of a long run."""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

import numpy as np

from benchmarks.adversary import (
    claims,
    deep,
    files,
    forged,
    hostile,
    matrices,
    proved,
    questions,
    solves,
    spheres,
    tables,
    ties,
)
from benchmarks.adversary.outcome import Outcome

Instance = Callable[[np.random.Generator], Outcome]
# so that a hundred thousand take half an hour on two cores: questions are milliseconds, solves up to seconds
QUESTION_SHARE, VECTOR_SHARE, BOX_SHARE, SOLVE_SHARE = 8.0, 1.0, 0.5, 0.2

CLASSES: dict[str, tuple[Instance, float]] = {
    **{f"price/{name}": (questions.scalar(name), QUESTION_SHARE) for name in tables.ALL_TABLES},
    **{f"price-vector/{name}": (questions.vector(name), VECTOR_SHARE) for name in tables.ALL_TABLES},
    **{f"ties/{kind}": (ties.tied(kind), BOX_SHARE) for kind in ties.KINDS},
    **{f"spheres/{kind}": (spheres.whole(kind), BOX_SHARE) for kind in spheres.KINDS},
    **{f"boxes/{name}": (questions.boxes(name), BOX_SHARE) for name in tables.ALL_TABLES},
    **{f"fans/{name}": (questions.fans(name), BOX_SHARE) for name in tables.ALL_TABLES},
    **{f"min-norm/{name}": (solves.interpolation(name), SOLVE_SHARE / 3) for name in tables.ALL_TABLES},
    **{f"label-noise/{name}": (solves.label_noise(name), SOLVE_SHARE / 2) for name in tables.ALL_TABLES},
    **{f"frank-wolfe/{name}": (solves.frank_wolfe(name), SOLVE_SHARE / 4) for name in tables.ALL_TABLES},
    **{f"fit/{loss}": (solves.fit(loss), SOLVE_SHARE) for loss in solves.LOSSES},
    "path": (solves.path, SOLVE_SHARE / 2),
    "cp-rank/product": (matrices.product, SOLVE_SHARE),
    "cp-rank/near-singular": (matrices.near_singular, SOLVE_SHARE),
    "cp-rank/floats": (matrices.floats, SOLVE_SHARE),
    **{f"depth/{name}": (deep.below(name), SOLVE_SHARE / 3) for name in tables.ALL_TABLES},
    "depth/chains": (deep.chains, BOX_SHARE),
    "depth/fit": (deep.decayed, SOLVE_SHARE / 2),
    "depth/forged": (deep.forged, SOLVE_SHARE),
    "depth/bracket": (deep.bracket, SOLVE_SHARE / 4),
    "forged/dual": (forged.any_dual, 2 * SOLVE_SHARE),
    "forged/false": (forged.false_claim, SOLVE_SHARE),
    "forged/open": (forged.open_claim, SOLVE_SHARE),
    "proof/troubled": (proved.troubled, SOLVE_SHARE),
    "proof/forged": (proved.forged, SOLVE_SHARE),
    "proof/overstated": (proved.overstated, SOLVE_SHARE / 2),
    **{f"claims/{name}": (ask, SOLVE_SHARE / 2) for name, ask in claims.CLASSES.items()},
    **{f"hostile/{name}": (ask, SOLVE_SHARE / 2) for name, ask in hostile.CLASSES.items()},
    **{f"file/{kind}": (files.damaged(kind), SOLVE_SHARE) for kind in files.KINDS},
    "file/table": (files.damaged_table, SOLVE_SHARE),
}


def generator(name: str, seed: int) -> np.random.Generator:
    """The random numbers of one instance; they depend on the class and the seed alone."""
    return np.random.default_rng([crc32(name.encode()), seed])


def plan(count: int, seed: int, wanted: list[str]) -> list[tuple[str, int]]:
    """Return (class, seed) for ``count`` instances of the classes whose names begin with a wanted word, by share."""
    names = [n for n in CLASSES if not wanted or any(n.startswith(word) for word in wanted)]
    if not names:
        raise SystemExit(f"no class begins with {', '.join(wanted)}; there are {', '.join(CLASSES)}")
    shares = np.array([CLASSES[n][1] for n in names])
    numbers = np.maximum(1, np.floor(count * shares / shares.sum()).astype(int))
    while numbers.sum() < count:
        numbers[int(np.argmax(shares / numbers))] += 1
    # one of each class after the other, so that an interrupted run has seen them all
    tasks = [
        ((i + 0.5) / n, name, seed * 1_000_000 + i)
        for name, n in zip(names, numbers, strict=True)
        for i in range(n)
    ]
    return [(name, each) for _, name, each in sorted(tasks)][: max(count, len(names))]
