"""Branch and bound on the gauge of hard duals: nodes, seconds, and what enumeration would have looked at.

    python benchmarks/micro/bench_branch_and_bound.py [--only-solve]

Standard normal points with bias and standard normal targets. The dual is that of a solve, close to optimal, so that
many maxima are nearly equal: the hardest kind. ``relaxed`` is gauge_bound / h. At the end one whole solve, wall clock
and processor seconds.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

import covopt
from covopt.oracles.bounds import gauge_bound
from covopt.oracles.branch_and_bound import BranchAndBoundOracle
from covopt.oracles.faces import count_faces
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.generation import generate

SIZES = [(20, 5), (20, 10), (30, 7), (30, 15), (40, 20)]
SOLVED = (40, 20)


def solve(n: int, d: int) -> None:
    """Print one whole solve."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    began, used = time.perf_counter(), time.process_time()
    solution = covopt.min_norm(X, y, time_limit_s=900)
    print(
        f"min_norm, N = {n}, d = {d}: {solution.status.code}, gap {solution.gap:.1e}, "
        f"{len(solution.history)} rounds, {time.perf_counter() - began:.0f} s "
        f"({time.process_time() - used:.0f} processor seconds)"
    )


def table() -> None:
    """Print the table."""
    print(f"{'N':>4} {'d':>4} {'faces':>9} {'nodes':>8} {'seconds':>8} {'exact':>6} {'relaxed':>8}")
    for n, d in SIZES:
        rng = np.random.default_rng(0)
        rows = np.column_stack([rng.standard_normal((n, d)), np.ones(n)])
        problem = ShallowProblem(rows / np.linalg.norm(rows, axis=1).max(), rng.standard_normal(n))
        steering = BranchAndBoundOracle(problem.rows, random_state=0, n_starts=256, slack=0.1)
        dual = generate(problem, steering, tol=1e-3, time_limit_s=60).dual
        oracle = BranchAndBoundOracle(problem.rows, random_state=0, n_starts=128)
        began = time.perf_counter()
        found = oracle.price(dual)
        seconds = time.perf_counter() - began
        relaxed = gauge_bound(problem.rows, dual) / found.upper_bound
        print(
            f"{n:4d} {d:4d} {count_faces(n, d + 1):9.1e} {oracle.n_nodes:8d} {seconds:8.2f} {found.exact!s:>6} "
            f"{relaxed:8.3f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only-solve", action="store_true", help="leave the table out")
    chosen = parser.parse_args()
    with threadpool_limits(1):
        if not chosen.only_solve:
            table()
        solve(*SOLVED)
