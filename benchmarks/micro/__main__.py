"""Time one part of covopt at a time: ``python -m benchmarks.micro [WORD …] [--repeats N] [--before COMMIT]``.

Runs the tasks whose names contain one of the words, by default all. Each task is called once for compilation; the
least processor seconds of the later calls are printed with its answer. To measure the cost of a change, ``--before``
also runs the tasks of a commit, or of the folder of a checkout, whose kernels may be compiled already.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import networkx as nx
import numpy as np
from sklearn.datasets import load_iris
from threadpoolctl import threadpool_limits

import covopt
from benchmarks.tables import standardised
from covopt.arrangement import count_cells, enumerate_cells
from covopt.completely_positive import graphs
from covopt.datasets import make_random_plane
from covopt.oracles.boxes.quadratic_search import quadratic_dual_norm
from covopt.oracles.boxes.search import box_dual_norm
from covopt.oracles.cascade import exact_oracle
from covopt.oracles.faces import FaceOracle
from covopt.oracles.sign_tree import sign_dual_norm

ROOT = Path(__file__).resolve().parents[2]
Task = Callable[[], str]
TASKS: dict[str, Task] = {}


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Return standard normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape)


@cache
def optimal_dual(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with bias and the dual point of a solve: many neurons are nearly tight, the hardest case."""
    solution = covopt.min_norm(normal(n, d), normal(n, seed=1), time_limit_s=60.0)
    return np.column_stack([normal(n, d), np.ones(n)]), solution.dual.ravel()


def dual_norm(method: str, n: int, d: int) -> str:
    """Bound the dual norm at an optimal dual point; return the excess over the best neuron found."""
    rows, dual = optimal_dual(n, d)
    if method == "faces":
        found = FaceOracle(rows, n_threads=1).price(dual, threshold=np.inf)
        return f"{found.upper_bound / abs(found.values[0]) - 1.0:.0e} above the best neuron"
    bound = {"signs": sign_dual_norm, "boxes": box_dual_norm, "quadratics": quadratic_dual_norm}[method]
    proof = bound(rows, dual, rtol=1e-7, max_nodes=200_000)
    return f"{proof.upper_bound / abs(proof.best_value) - 1.0:.0e} above the best neuron, {proof.nodes} boxes"


def pricing(n: int, r: int, k: int) -> str:
    """Find the best neuron of a random dual point over all cells."""
    oracle = exact_oracle(normal(n, r), k, n_threads=1)
    found = oracle.price(normal(n, k, seed=1) if k > 1 else normal(n, seed=1), threshold=np.inf)
    return f"{found.upper_bound / abs(found.values[0]) - 1.0:.0e} above the best neuron"


def told(solution: Any) -> str:
    """Verify; return status, gap and neurons."""
    if not covopt.verify(solution).ok:
        raise SystemExit("verification failed")
    found = f"{solution.status.code}, gap {solution.gap:.0e}, {len(solution.network)} neurons"
    return f"{found}, {len(solution.history)} rounds"


def solved(n: int, d: int, k: int = 1, target: str = "noise", **options: Any) -> str:
    """Solve for standard normal targets (noise), or for sin(2 x₁) cos(x₂), summed over neighbours (smooth)."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((n, d)), rng.standard_normal((n, k))
    if target == "smooth":
        Y = sum(np.sin(2 * X[:, [i]]) * np.cos(X[:, [i + 1]]) for i in range(d - 1))
    return told(covopt.min_norm(X, Y, random_state=0, **options))


def lambdas(loss: str, *, exact: bool = True, warm: bool = True) -> str:
    """Solve for thirty λ down to λ_max/1000, N = 200 in the plane, noise: as a path, or each from scratch."""
    X, y = normal(200, 2), normal(200, seed=1)
    y = y if loss in ("squared", "huber") else np.sign(y)
    steps = patch("covopt.solvers.generation.applies", lambda problem: False)
    with nullcontext() if exact else steps:
        found = covopt.path(X, y, loss=loss, n_lams=30)
        if not warm:
            found = [covopt.fit(X, y, lam=point.lam, loss=loss) for point in found]
    return f"{sum(len(s.history) for s in found)} rounds, largest gap {max(s.gap for s in found):.0e}"


def frank_wolfe(variant: str) -> str:
    """Run Frank-Wolfe over the covariance cone, N = 30, d = 2, k = 2."""
    found = covopt.frank_wolfe(normal(30, 2), normal(30, 2, seed=1), variant=variant, time_limit_s=60.0)
    return f"gap {found.gap:.0e}, {len(found.history)} rounds"


def cells(X: np.ndarray, method: Callable[..., Any], **options: Any) -> str:
    """Enumerate or count cells."""
    found = method(X, **options)
    return f"{found if isinstance(found, int) else len(found)} cells"


def rank(A: Any) -> str:
    """Bracket the CP-rank and verify the certificate."""
    found = covopt.cp_rank(A)
    if not all(check.ok for check in found.verify()):
        raise SystemExit("verification failed")
    return f"{found.status.code}: {found.lower} to {found.upper}"


def circulant(row: list[int]) -> np.ndarray:
    """Return a symmetric circulant; the last entry is the diagonal."""
    row = [row[-1], *row[:-1]]
    return np.array([[row[(j - i) % len(row)] for j in range(len(row))] for i in range(len(row))])


def estimator(n: int, d: int, lam: str) -> str:
    """Fit the scikit-learn estimator to many columns."""
    X = normal(n, d)
    model = covopt.ReLURegressor(lam).fit(X, X[:, 0] + 0.3 * normal(n, seed=1))
    return f"{model.solution_.status.code}, gap {model.solution_.gap:.0e}"


def trained(count: int, *, looped: bool = False) -> str:
    """Train networks by 1000 steps of Adam: all in one batch, or one after another in plain PyTorch."""
    import torch

    from covopt.training import Phase, train

    X, y = make_random_plane(50, 2, random_state=0)
    if not looped:
        adam = Phase("adam", 1000, learning_rate=0.01)
        run = train(X, y, widths=64, seeds=count, lam=1e-4, tol_gradient=0.0, schedule=adam)
        return f"least objective {run.objectives.min():.4g}"
    inputs, targets, layer = torch.tensor(X), torch.tensor(y[:, None]), torch.nn.Linear
    for _ in range(count):
        model = torch.nn.Sequential(layer(2, 64), torch.nn.ReLU(), layer(64, 1, bias=False)).double()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=2e-4, fused=True)
        for _ in range(1000):
            optimizer.zero_grad()
            value = torch.nn.functional.mse_loss(model(inputs), targets)
            value.backward()
            optimizer.step()
    return f"loss {value.item():.4g}"


def spent(command: list[str], **options: Any) -> float:
    """Run a command; return its processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def command(*words: str, compiles: bool = False) -> str:
    """Start a new interpreter, on request with no kernels compiled; return its processor and wall seconds."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        cache = {"NUMBA_CACHE_DIR": folder} if compiles else {}
        seconds = spent([sys.executable, *words], env={**os.environ, **cache})
    return f"{seconds:.2f} s of the processor, {time.perf_counter() - began:.2f} s of wall"


STAMPS = {"seconds": (1.6e9, 3e7), "milliseconds": (1.6e12, 3e10), "nanoseconds": (1.6e18, 3e16)}


def newcomer() -> Iterator[tuple[str, Task]]:
    """Yield name and task for tables like a newcomer's: targets with a kink, an interaction and noise."""
    for n, d, seed in (
        (100, 8, 0), (100, 10, 1), (150, 12, 2), (200, 10, 0), (200, 10, 1), (200, 10, 2), (300, 8, 3), (300, 10, 4)
    ):  # fmt: skip
        rng = np.random.default_rng(seed)
        year = rng.integers(1950, 2021, n).astype(float)
        income = np.round(np.exp(10.3 + 0.5 * rng.standard_normal(n) + 0.005 * (year - 1985)), -1)
        rooms = rng.integers(1, 8, n).astype(float)
        mixing = 0.5 * rng.standard_normal((d - 3, d - 3)) + np.eye(d - 3)
        others = np.round(rng.standard_normal((n, d - 3)) @ mixing, 3)
        price = 120.0 + 1.2 * np.maximum(year - 1990, 0.0) + 30.0 * np.log(income / 3e4) + 9.0 * rooms
        price += 6.0 * others[:, 0] * (rooms > 4) + 5.0 * np.abs(others[:, 1]) + 10.0 * rng.standard_normal(n)
        X, y = np.column_stack([year, income, rooms, others]), np.round(price, 1)
        for name, own in (("as it is", False), ("standardised", True)):
            solve = partial(covopt.fit, X, y, standardise=own, time_limit_s=300.0)
            yield f"newcomer {n} x {d}, seed {seed}, {name}", lambda solve=solve: told(solve())


def far(n: int = 100) -> Iterator[tuple[str, Task]]:
    """Yield name and task for one to three inputs, the first far from the origin."""
    for inputs in (1, 2, 3):
        for kind in ("year", "income", *STAMPS):
            rng = np.random.default_rng(n)
            if kind == "year":
                first = rng.permutation(1871.0 + np.arange(n))
            elif kind == "income":
                first = np.exp(rng.uniform(np.log(1e4), np.log(1e6), n)).round(2)
            else:
                first = (STAMPS[kind][0] + STAMPS[kind][1] * rng.random(n)).round()
            X = np.column_stack([first, rng.standard_normal((n, inputs - 1))])
            unit = standardised(X)
            y = np.sin(2.0 * unit[:, 0]) + unit[:, -1] * unit[:, 0] + 0.1 * rng.standard_normal(n)
            solve = partial(covopt.min_norm, X, y, time_limit_s=300.0)
            yield f"far: {kind}, {inputs} inputs", lambda solve=solve: told(solve())


def _tasks() -> None:
    iris = np.rint(load_iris().data * 10).astype(int)
    for method, sizes in {
        "faces": ((100, 2), (1000, 2)), "signs": ((20, 10), (30, 15)), "boxes": ((100, 2), (50, 3), (50, 4)),
        "quadratics": ((50, 4), (40, 7)),
    }.items():  # fmt: skip
        for n, d in sizes:
            TASKS[f"dual norm by {method}, N = {n}, d = {d}"] = partial(dual_norm, method, n, d)
    for n, r, k in ((1000, 3, 1), (1000, 2, 3), (200, 3, 3), (60, 4, 3), (20, 5, 3)):
        TASKS[f"pricing, {n} x {r}, k = {k}"] = partial(pricing, n, r, k)
    for n, d, k in ((400, 1, 1), (50, 2, 3), (30, 3, 5), (40, 20, 1)):
        TASKS[f"solve N = {n}, d = {d}, k = {k}"] = partial(solved, n, d, k, time_limit_s=900.0)
    for n, d, target, tol in (
        (60, 2, "noise", 1e-6), (250, 2, "noise", 1e-6), (500, 2, "noise", 1e-6), (1000, 2, "noise", 1e-6),
        (250, 2, "smooth", 1e-6), (1000, 2, "smooth", 1e-6), (500, 2, "noise", 1e-9), (100, 3, "noise", 1e-6),
        (200, 3, "noise", 1e-6), (50, 4, "noise", 1e-6),
    ):  # fmt: skip
        TASKS[f"points {n}, d = {d}, {target}, tol {tol:g}"] = partial(solved, n, d, 1, target, tol=tol)
    for n in (30, 60):
        TASKS[f"points {n}, all cells"] = partial(solved, n, 2, solver="conic:CLARABEL")
    for loss in ("squared", "logistic", "huber", "squared-hinge", "hinge"):
        TASKS[f"path of 30, {loss}"] = partial(lambdas, loss)
    for loss in ("squared", "logistic"):
        TASKS[f"path of 30, {loss}, interior-point steps"] = partial(lambdas, loss, exact=False)
        TASKS[f"path of 30, {loss}, and 30 solves"] = partial(lambdas, loss, warm=False)
    TASKS["relaxation N = 12, d = 2"] = partial(solved, 12, 2, solver="relaxation")
    for variant in ("sliding", "fully-corrective", "pairwise", "vanilla"):
        TASKS[f"frank-wolfe, {variant}"] = partial(frank_wolfe, variant)
    for n, d in ((30, 5), (40, 6), (200, 3), (1000, 3)):
        TASKS[f"cells of {n} x {d}"] = partial(cells, normal(n, d), enumerate_cells)
    TASKS["cells of iris, integers"] = partial(cells, iris, enumerate_cells)
    TASKS["cells of iris, counted"] = partial(cells, iris, count_cells)
    matrices = {
        "K50,50": graphs.complete_bipartite(50, 50), "octahedron": nx.octahedral_graph(),
        "random 30": normal(60, 30).clip(0).T @ normal(60, 30).clip(0),
        "M7": circulant([531, 81, 150, 150, 81, 531, 926]), "M7~": circulant([108, 27, 4, 4, 27, 108, 163]),
    }  # fmt: skip
    for name, A in matrices.items():
        TASKS[f"cp-rank of {name}"] = partial(rank, A)
    for n, d, lam in ((50, 10, "0.1max"), (200, 10, "0.03max")):
        TASKS[f"estimator {n} x {d}, λ = {lam}"] = partial(estimator, n, d, lam)
    TASKS.update([*newcomer(), *far()])
    TASKS["training, 1000 networks in one batch"] = partial(trained, 1000)
    TASKS["training, 20 networks in turn"] = partial(trained, 20, looped=True)
    first = "import covopt; from covopt.datasets import make_smooth; covopt.min_norm(*make_smooth(60))"
    for compiles in (True, False):
        state = "nothing compiled" if compiles else "kernels on disk"
        TASKS[f"start: min_norm of 60 x 2, {state}"] = partial(command, "-c", first, compiles=compiles)
    TASKS["start: import covopt"] = partial(command, "-c", "import covopt")
    TASKS["start: covopt --help"] = partial(command, "-m", "covopt", "--help")


def run_before(commit: str, words: list[str]) -> None:
    """Run the tasks of another version in a separate process, with the same options."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(commit).resolve() if Path(commit).is_dir() else Path(folder) / "before"
        tree = ["git", "-C", str(ROOT), "worktree"]
        if not place.exists():
            subprocess.run([*tree, "add", "--quiet", "--detach", str(place), commit], check=True)
        try:
            environment = {**os.environ, "PYTHONPATH": str(place)}
            subprocess.run(
                [sys.executable, "-m", "benchmarks.micro", *words], cwd=place, env=environment, check=False
            )
        finally:
            if place.parent == Path(folder):
                subprocess.run([*tree, "remove", "--force", str(place)], check=True)


def main() -> None:
    """Run the tasks whose names contain a given word."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("words", nargs="*", default=[""])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument(
        "--before", metavar="COMMIT", help="run another version too, or the folder of a checkout"
    )
    chosen = parser.parse_args()
    if chosen.before:
        run_before(chosen.before, [*chosen.words, f"--repeats={chosen.repeats}"])
        print("-- now")
    _tasks()
    with threadpool_limits(1):
        for name, call in TASKS.items():
            if not any(word in name for word in chosen.words):
                continue
            answer, seconds = call(), []
            for _ in range(chosen.repeats):
                began = time.process_time()
                answer = call()
                seconds.append(time.process_time() - began)
            print(f"{name:<45} {min(seconds):9.4f} s   {answer}", flush=True)


if __name__ == "__main__":
    main()
