"""Cells per second of the sweep, beside the HiGHS tree of linear programs in the same run.

python benchmarks/micro/bench_enumeration.py
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.datasets import load_iris
from threadpoolctl import threadpool_limits

from covopt.arrangement import count_cells, enumerate_by_lp, enumerate_cells

TREE_SECONDS = 10.0


def best_time(function, repeats):
    times = []
    for _ in range(repeats):
        start = time.process_time()
        result = function()
        times.append(time.process_time() - start)
    return result, min(times)


def tree_rate(X):
    """Cells per second of the tree on the part it reaches in the time allowed."""
    start = time.process_time()
    found = enumerate_by_lp(X, time_limit_s=TREE_SECONDS, half=True)
    return len(found) / (time.process_time() - start), len(found)


def main():
    rng = np.random.default_rng(0)
    iris = np.rint(load_iris().data * 10).astype(int)
    # compile outside the timing
    enumerate_cells(rng.standard_normal((5, 3)))
    enumerate_cells(iris[:20])
    count_cells(iris[:20])

    rates = {}
    print(f"{'table':<28}{'cells':>10}{'seconds':>11}{'cells/s':>12}")
    for n, d in [(30, 5), (40, 6), (200, 3), (1000, 3)]:
        X = rng.standard_normal((n, d))
        cells, seconds = best_time(lambda X=X: enumerate_cells(X), 300 if n * d < 200 else 5)
        rates[n, d] = len(cells) / seconds
        print(f"{f'generic ({n}, {d})':<28}{len(cells):>10}{seconds:>11.5f}{rates[n, d]:>12.3g}")
    cells, seconds = best_time(lambda: enumerate_cells(iris), 3)
    print(f"{'iris x 10, features 1-4':<28}{len(cells):>10}{seconds:>11.5f}{len(cells) / seconds:>12.3g}")
    count, counting = best_time(lambda: count_cells(iris), 3)
    print(f"{'  counted, not listed':<28}{count:>10}{counting:>11.5f}{count / counting:>12.3g}")

    print(f"\ntree of linear programs (HiGHS), {TREE_SECONDS:g} s each")
    for n, d in [(30, 5), (200, 3)]:
        rate, found = tree_rate(rng.standard_normal((n, d)))
        print(f"{f'generic ({n}, {d})':<28}{found:>10}{TREE_SECONDS:>11.5f}{rate:>12.3g}")
        rates[n, d, "tree"] = rate

    print("\nratios")
    print(f"(30, 5) against 1e7 cells/s: {rates[30, 5] / 1e7:.2f} (wanted: 1)")
    print(f"(30, 5) against the tree: {rates[30, 5] / rates[30, 5, 'tree']:,.0f}")
    print(f"(200, 3) against the tree: {rates[200, 3] / rates[200, 3, 'tree']:,.0f} (wanted: 10,000)")
    print(f"iris x 10: {len(cells)} cells (1066478 wanted), exact: {cells.exact}, {seconds:.2f} s")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
