"""Minimal-norm networks through random planes: covopt against one program over all cells, and covopt alone.

    python benchmarks/micro/bench_solving.py [--quick]
    python benchmarks/micro/bench_solving.py --steps [60 250 500 1000] [--targets noise smooth] [--tol 1e-6]

Points are standard normal, bias 1. Targets: "noise" is standard normal, "smooth" is sin(2 x₁) cos(x₂),
summed over neighbouring coordinates beyond the plane. Against all cells processor seconds count, one BLAS
thread. The gaps of covopt are those that covopt.verify recomputes from the raw data; of the reference the
cost it found is printed beside covopt's. Compilation is not timed. ``--steps`` prints rounds, the systems of
equations solved in them, processor and wall seconds, and the largest memory so far (``--steps 5000 --targets noise``
is the largest).
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from unittest.mock import patch

import numba
import numpy as np
from threadpoolctl import threadpool_limits

import covopt
from covopt.conic.all_cells import solve_conic
from covopt.data import Data
from covopt.problems.reduction import reduce_data
from covopt.solvers.master.system import System


def make_plane(n: int, d: int, target: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    noise = rng.standard_normal(n)
    smooth = sum(np.sin(2 * X[:, i]) * np.cos(X[:, i + 1]) for i in range(d - 1))
    return X, noise if target == "noise" else smooth


def solve(
    X: np.ndarray, y: np.ndarray, tol: float, limit: float, clock: Callable[[], float] = time.perf_counter
) -> tuple[covopt.Solution, float, float]:
    """Return the solution, the seconds it took, and the verified gap."""
    began = clock()
    solution = covopt.min_norm(X, y, tol=tol, random_state=0, time_limit_s=limit)
    seconds = clock() - began
    verification = covopt.verify(solution)
    if not verification.ok or verification.certificate is None:
        raise SystemExit(f"verification failed:\n{verification.summary()}")
    return solution, seconds, verification.certificate.gap


def against_all_cells(n: int, tol: float, naive: bool, repeats: int) -> None:
    X, y = make_plane(n, 2, "noise")
    problem, reduction = reduce_data(Data.validate(X, y, bias=1.0), "none")
    clock = time.process_time
    began = clock()
    patterns = covopt.enumerate_cells(problem.rows).patterns
    enumeration = clock() - began
    runs = [solve(X, y, tol, 600.0, clock) for _ in range(repeats)]
    seconds = float(np.median([run[1] for run in runs]))
    solution, _, gap = runs[-1]
    print(f"\nN = {n}, d = 2, noise, tol {tol:g}: {len(patterns)} cells, enumerated in {enumeration:.3f} s")
    print(f"  {'covopt':<34} {seconds:9.3f} s   gap {gap:.1e}   cost {solution.cost:.9g}")
    variants = [("all cells, facets only", True)] + [("all cells, every row in every cell", False)] * naive
    for name, complete in variants:
        began = clock()
        found = solve_conic(problem, patterns, complete=complete)
        theirs = clock() - began
        cost = problem.network_value(found.weights[:, None], np.array([found.offset]))
        cost *= 2 * reduction.value_scale
        print(
            f"  {name:<34} {theirs:9.3f} s   {found.backend} {found.status}, "
            f"cost {cost:.9g} ({cost / solution.cost - 1:+.1e})   ratio {theirs / seconds:8.0f}",
            flush=True,
        )


def alone(n: int, d: int, target: str, tol: float, limit: float) -> None:
    X, y = make_plane(n, d, target)
    solution, seconds, gap = solve(X, y, tol, limit)
    rounds = len(solution.history)
    print(
        f"{n:6d} {d:3d}  {target:<7} {tol:7.0e} {seconds:9.2f} {rounds:7d} {gap:10.1e} "
        f"{len(solution.network):8d}  {solution.status.code}",
        flush=True,
    )


def steps(sizes: list[int], targets: list[str], tol: float, limit: float) -> None:
    """Print rounds, systems, seconds and memory, row by row."""
    print("| points | targets | rounds | systems | processor s | wall s | gap | neurons | peak MiB |")
    print("| --- |" + " --- |" * 8)
    for n in sizes:
        for target in targets:
            X, y = make_plane(n, 2, target)
            with patch.object(System, "__init__", autospec=True, side_effect=System.__init__) as systems:
                solution, processor, gap = solve(X, y, tol, limit, time.process_time)
            wall = sum(solution.timings.values())
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            counts = (
                f"{len(solution.history)} | {systems.call_count} | {processor:.2f} | {wall:.2f} | {gap:.0e}"
            )
            print(f"| {n} | {target} | {counts} | {len(solution.network)} | {peak:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="small sizes only, half a minute")
    parser.add_argument(
        "--limit", type=float, default=600.0, metavar="S", help="seconds a solve may take (default 600)"
    )
    parser.add_argument(
        "--steps", type=int, nargs="*", metavar="N", help="rounds, systems, time and memory at these sizes"
    )
    parser.add_argument("--targets", nargs="+", choices=["noise", "smooth"], default=["noise", "smooth"])
    parser.add_argument("--tol", type=float, default=1e-6, help="tolerance of --steps (default 1e-6)")
    arguments = parser.parse_args()
    for d in (2, 3, 4):  # compile
        solve(*make_plane(10, d, "noise", seed=1), 1e-6, 600.0)
    if arguments.steps is not None:
        numba.set_num_threads(1)
        with threadpool_limits(1):
            steps(
                arguments.steps or [60, 120, 250, 500, 1000],
                arguments.targets,
                arguments.tol,
                arguments.limit,
            )
        return

    for n in (30,) if arguments.quick else (30, 60):
        with threadpool_limits(1):
            against_all_cells(n, 1e-6, naive=True, repeats=9)

    print("\n     N   d  target      tol   seconds  rounds        gap  neurons  status")
    sizes = (120, 250) if arguments.quick else (120, 250, 500, 1000)
    for target in ("noise", "smooth"):
        for n in sizes:
            alone(n, 2, target, 1e-6, arguments.limit)
    alone(60 if arguments.quick else 250, 2, "noise", 1e-9, arguments.limit)
    if not arguments.quick:
        alone(250, 2, "smooth", 1e-9, arguments.limit)
        alone(100, 3, "noise", 1e-6, arguments.limit)
        alone(50, 4, "noise", 1e-6, arguments.limit)


if __name__ == "__main__":
    main()
