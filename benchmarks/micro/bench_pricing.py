"""Pricing every cell of points in the plane with bias: the exact oracle against evaluating cells one by one.

    python benchmarks/micro/bench_pricing.py [--points N] [--cells M]

For a dual point λ the oracle finds the neuron that violates it most, over all cells. The comparison takes
random directions in NumPy (activation pattern, gradient of its cell, value at the direction: less than the
oracle does in a cell) and is scaled to all cells. One thread each.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import numpy as np
from threadpoolctl import threadpool_limits

from covopt.oracles.faces import FaceOracle


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--cells", type=int, default=20000, help="cells in the NumPy sample")
    arguments = parser.parse_args()
    n = arguments.points
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.standard_normal((n, 2)), np.ones(n)])
    dual = rng.standard_normal(n)
    dual -= (
        rows @ np.linalg.lstsq(rows, dual, rcond=None)[0]
    )  # as at an optimum: orthogonal to linear functions
    n_cells = n * (n - 1) + 2

    FaceOracle(rows[:5], n_threads=1).price(dual[:5])  # compile
    began = time.perf_counter()
    oracle = FaceOracle(rows, n_threads=1)
    setup = time.perf_counter() - began
    times = []
    for _ in range(5):
        began = time.perf_counter()
        pricing = oracle.price(dual, threshold=np.inf)
        times.append(time.perf_counter() - began)
    oracle_s = median(times)

    m = arguments.cells
    with threadpool_limits(1):
        directions = rng.standard_normal((m, 3))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        began = time.perf_counter()
        patterns = directions @ rows.T > 0
        gradients = (patterns * dual) @ rows
        sampled = float(np.abs((gradients * directions).sum(axis=1)).max())
        numpy_s = time.perf_counter() - began

    print(f"{n} points in the plane with bias, {n_cells} cells, one thread")
    print(f"sorting the crossings, once  {setup:8.3f} s")
    print(f"pricing all cells            {oracle_s:8.3f} s   {n_cells / oracle_s:.3g} cells/s")
    print(f"NumPy, {m:6d} directions     {numpy_s:8.3f} s   {m / numpy_s:.3g} cells/s")
    print(f"ratio                        {n_cells / oracle_s * numpy_s / m:8.0f}")
    print(f"max |F| over all neurons {pricing.upper_bound:.12g}, over the NumPy sample {sampled:.12g}")


if __name__ == "__main__":
    main()
