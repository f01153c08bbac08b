"""What each tightening of the semidefinite relaxation buys, and what it costs, on noise.

    python benchmarks/micro/bench_relaxation.py [--instances M] [--large]

Standard normal points and targets. The table gives the certified lower bound as a share of the optimum (mean and
worst over the instances) and the seconds per instance, one thread, rounding and checking included. ``--large``
adds points beyond the exact oracle, as a share of the best network that local search finds.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

from covopt.certificates.a_priori import a_priori_bounds
from covopt.data import Data
from covopt.oracles.choose import exact_oracle
from covopt.problems.reduction import reduce_data
from covopt.solvers.column_generation import ColumnGeneration
from covopt.solvers.heuristic import solve_heuristic
from covopt.solvers.relaxation import solve_relaxation

TIGHTENINGS = [
    ("plain: p, q and their products", "plain", 0),
    ("+ one sign of the output at a time", "signed", 0),
    ("+ p + q ≤ ‖w‖", "length", 0),
    ("+ second-order cone times every line", "cone", 0),
    ("plain, 2 rounds of splits", "plain", 2),
    ("p + q ≤ ‖w‖, 1 round of splits", "length", 1),
    ("p + q ≤ ‖w‖, 2 rounds of splits", "length", 2),
    ("p + q ≤ ‖w‖, 3 rounds of splits", "length", 3),
    ("p + q ≤ ‖w‖, 4 rounds of splits", "length", 4),
]
SMALL = [(8, 2, 0.0), (8, 2, 1.0), (12, 2, 0.0), (12, 2, 1.0), (12, 5, 1.0)]
LARGE = [(40, 20, 1.0), (60, 30, 1.0), (40, 10, 1.0)]


def draw(n: int, d: int, bias: float, seed: int) -> Data:
    rng = np.random.default_rng(seed)
    return Data.validate(rng.standard_normal((n, d)), rng.standard_normal(n), bias=bias)


def small(instances: int) -> None:
    for n, d, bias in SMALL:
        print(f"\nN = {n}, d = {d}, bias {bias:g}: share of the optimum over {instances} instances")
        print(f"{'tightening':42} {'mean':>7} {'worst':>7} {'seconds':>8} {'regions':>8}")
        cases = []
        for seed in range(instances):
            data = draw(n, d, bias, seed)
            problem, reduction = reduce_data(data, "none")
            best = ColumnGeneration(problem, exact_oracle(problem.rows, 0), tol=1e-6).solve().upper_bound
            cases.append((data, problem, reduction, best))
        began = time.perf_counter()
        shares = [a_priori_bounds(c[0])[0].value / (2 * c[2].value_scale * c[3]) for c in cases]
        report("best a-priori bound", shares, time.perf_counter() - began, 0)
        for name, level, splits in TIGHTENINGS:
            began = time.perf_counter()
            points = [solve_relaxation(case[1], level=level, splits=splits) for case in cases]
            spent = time.perf_counter() - began
            shares = [p.lower_bound / c[3] for p, c in zip(points, cases, strict=True)]
            report(name, shares, spent, float(np.mean([p.n_regions for p in points])))


def report(name: str, shares: list[float], spent: float, regions: float) -> None:
    row = f"{np.mean(shares):7.4f} {np.min(shares):7.4f} {spent / len(shares):8.2f} {regions:8.1f}"
    print(f"{name:42} {row}", flush=True)


def large() -> None:
    for n, d, bias in LARGE:
        problem, _ = reduce_data(draw(n, d, bias, 0), "none")
        began = time.perf_counter()
        point = solve_heuristic(problem, tol=1e-4, time_limit_s=60.0)
        spent = time.perf_counter() - began
        print(f"\nN = {n}, d = {d}, bias {bias:g}: share of the best network of local search ({spent:.0f} s)")
        print(f"{'tightening':42} {'share':>7} {'seconds':>8} {'regions':>8}")
        print(f"{'lower bound of the heuristic solver':42} {point.lower_bound / point.upper_bound:7.4f}")
        for level, splits in (("plain", 0), ("signed", 0), ("length", 0), ("length", 1)):
            found = solve_relaxation(problem, level=level, splits=splits)
            name = f"{level}, {splits} rounds of splits"
            share = found.lower_bound / point.upper_bound
            print(f"{name:42} {share:7.4f} {found.time_s:8.1f} {found.n_regions:8d}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--instances", type=int, default=10)
    parser.add_argument("--large", action="store_true")
    arguments = parser.parse_args()
    with threadpool_limits(1):
        small(arguments.instances)
        if arguments.large:
            large()


if __name__ == "__main__":
    main()
