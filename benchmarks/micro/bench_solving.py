"""Minimal-norm networks through random planes: covopt against one program over all cells, and covopt alone.

    python benchmarks/micro/bench_solving.py [--quick]

Points are standard normal, bias 1. Targets: "noise" is standard normal, "smooth" is sin(2 x₁) cos(x₂),
summed over neighbouring coordinates beyond the plane. The gaps of covopt are those that covopt.verify
recomputes from the raw data; of the reference the cost it found is printed beside covopt's. Compilation is
not timed.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import covopt
from covopt.data import Data
from covopt.problems.reduction import reduce_data
from covopt.solvers.conic import solve_conic


def make_plane(n: int, d: int, target: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    noise = rng.standard_normal(n)
    smooth = sum(np.sin(2 * X[:, i]) * np.cos(X[:, i + 1]) for i in range(d - 1))
    return X, noise if target == "noise" else smooth


def solve(X: np.ndarray, y: np.ndarray, tol: float, limit: float) -> tuple[covopt.Solution, float, float]:
    """Return the solution, the seconds it took, and the verified gap."""
    began = time.perf_counter()
    solution = covopt.min_norm(X, y, tol=tol, random_state=0, time_limit_s=limit)
    seconds = time.perf_counter() - began
    verification = covopt.verify(solution)
    if not verification.ok or verification.certificate is None:
        raise SystemExit(f"verification failed:\n{verification.summary()}")
    return solution, seconds, verification.certificate.gap


def against_all_cells(n: int, tol: float, naive: bool, repeats: int) -> None:
    X, y = make_plane(n, 2, "noise")
    problem, reduction = reduce_data(Data.validate(X, y, bias=1.0), "none")
    began = time.perf_counter()
    patterns = covopt.enumerate_cells(problem.rows).patterns
    enumeration = time.perf_counter() - began
    runs = [solve(X, y, tol, 600.0) for _ in range(repeats)]
    seconds = float(np.median([run[1] for run in runs]))
    solution, _, gap = runs[-1]
    print(f"\nN = {n}, d = 2, noise, tol {tol:g}: {len(patterns)} cells, enumerated in {enumeration:.3f} s")
    print(f"  {'covopt':<34} {seconds:9.3f} s   gap {gap:.1e}   cost {solution.cost:.9g}")
    variants = [("all cells, facets only", True)] + [("all cells, every row in every cell", False)] * naive
    for name, complete in variants:
        found = solve_conic(problem, patterns, complete=complete)
        cost = 2 * problem.primal_value(found.weights, found.offset) * reduction.value_scale
        print(
            f"  {name:<34} {found.time_s:9.3f} s   {found.backend} {found.status}, "
            f"cost {cost:.9g} ({cost / solution.cost - 1:+.1e})   ratio {found.time_s / seconds:8.0f}",
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="small sizes only, half a minute")
    parser.add_argument(
        "--limit", type=float, default=600.0, metavar="S", help="seconds a solve may take (default 600)"
    )
    arguments = parser.parse_args()
    for d in (2, 3, 4):  # compile
        solve(*make_plane(10, d, "noise", seed=1), 1e-6, 600.0)

    for n in (30,) if arguments.quick else (30, 60):
        against_all_cells(n, 1e-6, naive=True, repeats=3)

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
