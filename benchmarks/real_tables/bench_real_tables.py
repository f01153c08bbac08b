"""Brackets on tables of four features and more: ``python benchmarks/real_tables/bench_real_tables.py [--only iris]``.

Each instance is solved once; upper and lower bound and gap are those that ``covopt.verify`` recomputes. Kernels are
compiled before the clock starts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_diabetes, load_iris

import covopt


def instances() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, X and y of each table."""
    for d in (4, 5, 6):
        generator = np.random.default_rng(0)
        yield f"normal 50 x {d}", generator.standard_normal((50, d)), generator.standard_normal(50)
    iris = load_iris()
    X, y = iris.data, iris.target.astype(float)
    yield "iris standardised", (X - X.mean(axis=0)) / X.std(axis=0), y
    yield "iris raw", X, y
    diabetes = load_diabetes()
    yield "diabetes 60 x 10", diabetes.data[:60], diabetes.target[:60]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of the instance's name")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for each instance")
    arguments = parser.parse_args()
    generator = np.random.default_rng(1)
    covopt.min_norm(generator.standard_normal((30, 6)), generator.standard_normal(30), time_limit_s=20.0)
    heads = f"{'upper':>13s} {'lower':>13s} {'gap':>8s} {'wall s':>7s} {'cpu s':>7s}"
    print(f"{'instance':20s} {'status':10s} {heads}  verified")
    for name, X, y in instances():
        if arguments.only not in name:
            continue
        wall, cpu = time.perf_counter(), time.process_time()
        solution = covopt.min_norm(X, y, duplicates="mean", time_limit_s=arguments.limit)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        check = covopt.verify(solution)
        print(
            f"{name:20s} {solution.status.code:10s} {solution.cost:13.8g} {solution.lower_bound:13.8g} "
            f"{solution.gap:8.1e} {wall:7.1f} {cpu:7.1f}  {check.ok}",
            flush=True,
        )


if __name__ == "__main__":
    main()
