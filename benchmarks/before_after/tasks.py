"""The tasks: each builds its data, and returns what is timed and what it must answer with.

    PYTHONPATH=CHECKOUT python tasks.py NAME REPEATS

runs one of them in a process of its own, after once for compilation, and prints a line of JSON. Public names of the
first release only, so that every version can run it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Task = Callable[[], Callable[[], float]]
TASKS: dict[str, Task] = {}


def task(name: str) -> Callable[[Task], Task]:
    def put(make: Task) -> Task:
        TASKS[name] = make
        return make

    return put


def plane(
    n: int, d: int = 2, target: str = "noise", k: int = 1, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal points; targets standard normal or sin(2 x₁) cos(x₂), summed over neighbours."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    noise = rng.standard_normal((n, k))
    smooth = sum(np.sin(2 * X[:, i]) * np.cos(X[:, i + 1]) for i in range(d - 1))
    return X, np.asarray(smooth) if target == "smooth" else noise[:, 0] if k == 1 else noise


def interpolate(
    n: int, d: int = 2, target: str = "noise", k: int = 1, tables: int = 1, **options: Any
) -> Task:
    def make() -> Callable[[], float]:
        import covopt

        data = [plane(n, d, target, k, seed) for seed in range(tables)]
        return lambda: max(covopt.min_norm(X, Y, random_state=0, **options).gap for X, Y in data)

    return make


def regularise(n: int, loss: str, along: bool, k: int = 1) -> Task:
    def make() -> Callable[[], float]:
        import covopt

        X, Y = plane(n, 2, "smooth", k)
        noisy = np.asarray(Y) + 0.3 * np.random.default_rng(1).standard_normal(np.shape(Y))
        Y = np.where(noisy > 0, 1.0, -1.0) if loss in ("logistic", "hinge", "squared-hinge") else noisy
        if along:
            return lambda: max(one.gap for one in covopt.path(X, Y, loss=loss, n_lams=30))
        lam = 0.05 * covopt.lambda_max(X, Y, loss=loss)
        return lambda: covopt.fit(X, Y, lam=lam, loss=loss, random_state=0).gap

    return make


for n, target, tol in (
    (60, "noise", 1e-6), (60, "smooth", 1e-6), (60, "noise", 1e-9), (250, "noise", 1e-6), (250, "smooth", 1e-6),
):  # fmt: skip
    TASKS[f"min_norm N={n} d=2 {target} {tol:g}"] = interpolate(n, 2, target, tol=tol)
TASKS["min_norm N=60 d=3 noise 1e-06"] = interpolate(60, 3)
TASKS["min_norm N=30 d=2 k=2 1e-06"] = interpolate(30, 2, k=2)
TASKS["min_norm N=60 d=2 free output bias"] = interpolate(60, output_bias="free")
TASKS["min_norm N=20 d=2 label noise, 6 tables"] = interpolate(20, tables=6, potential="label-noise")
for loss in ("squared", "huber", "logistic", "squared-hinge"):
    TASKS[f"fit {loss} N=100"] = regularise(100, loss, along=False)
for loss in ("squared", "logistic"):
    TASKS[f"path {loss} N=60, 30 points"] = regularise(60, loss, along=True)
TASKS["fit squared N=30 k=2"] = regularise(30, "squared", along=False, k=2)


@task("frank_wolfe sliding N=20 k=2, 8 tables")
def _frank_wolfe() -> Callable[[], float]:
    import covopt

    # which round is the last one is luck on a single table
    tables = [plane(20, k=2, seed=seed) for seed in range(8)]
    return lambda: max(covopt.frank_wolfe(X, Y, random_state=0).gap for X, Y in tables)


@task("count_cells (40, 6)")
def _count() -> Callable[[], float]:
    import covopt

    X = np.random.default_rng(0).standard_normal((40, 6))
    return lambda: float(covopt.count_cells(X))


@task("enumerate_cells (24, 5)")
def _enumerate() -> Callable[[], float]:
    import covopt

    X = np.random.default_rng(0).standard_normal((24, 5))
    return lambda: float(len(covopt.enumerate_cells(X).patterns))


@task("cell_lp N=12 d=2")
def _cell_lp() -> Callable[[], float]:
    import covopt

    X, y = plane(12)
    neurons = np.random.default_rng(0).standard_normal((400, 3))
    return lambda: float(covopt.cell_lp(X, y, neurons).cost)


@task("cp_rank K(3,4)")
def _cp_rank() -> Callable[[], float]:
    import covopt
    from covopt.completely_positive.graphs import complete_bipartite

    return lambda: float(covopt.cp_rank(complete_bipartite(3, 4)).upper)


@task("cp_rank random 6 x 6")
def _cp_rank_random() -> Callable[[], float]:
    import covopt

    factor = np.random.default_rng(3).integers(0, 4, (5, 6))
    return lambda: float(covopt.cp_rank(factor.T @ factor, random_state=0).lower)


@task("sparsest of six, N=20")
def _sparsest() -> Callable[[], float]:
    """Six programs: how long HiGHS branches on one of them is chance."""
    import covopt

    tables = [plane(20, target="smooth", seed=seed) for seed in range(6)]
    solutions = [covopt.min_norm(X, y, random_state=0) for X, y in tables]
    return lambda: float(sum(len(solution.sparsest().network) for solution in solutions))


@task("train 100 networks, 200 steps")
def _train() -> Callable[[], float]:
    from covopt.training import Phase, train

    X, y = plane(30)
    options = {"widths": 50, "lam": 1e-4, "seeds": 100, "learning_rate": 1e-2, "random_state": 0}
    return lambda: float(train(X, y, schedule=Phase("adam", 200), **options).table["objective"].median())


@task("save, load N=250")
def _files() -> Callable[[], float]:
    import covopt

    X, y = plane(250)
    solution = covopt.min_norm(X, y, tol=1e-2, random_state=0)
    path = Path(tempfile.mkdtemp()) / "solution.json"

    def call() -> float:
        for _ in range(10):
            solution.save(path)
            covopt.load(path)
        return 0.0

    return call


@task("verify N=60")
def _verify() -> Callable[[], float]:
    import covopt

    X, y = plane(60)
    solution = covopt.min_norm(X, y, random_state=0)
    return lambda: float(covopt.verify(solution).certificate.gap)


def main() -> None:
    name, repeats = sys.argv[1], int(sys.argv[2])
    call = TASKS[name]()
    answer = call()
    processor, wall = [], []
    for _ in range(repeats):
        began, clock = time.process_time(), time.perf_counter()
        answer = call()
        processor.append(time.process_time() - began)
        wall.append(time.perf_counter() - clock)
    print(json.dumps({"answer": answer, "processor": min(processor), "wall": min(wall)}))


if __name__ == "__main__":
    main()
