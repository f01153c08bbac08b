"""Pricing with vector outputs: the oracle by faces in several dimensions.

    python benchmarks/micro/bench_vector_pricing.py [--repeats N]

For a random dual point Λ the oracle finds the neuron with the largest ‖Λᵀσ(Zw)‖ and a bound that differs from its
value by rounding only. ``peaks`` asks for all local maxima (threshold 0), ``bound`` for the best one. Times are CPU
seconds of one thread, the median of the repeats. The comparison takes random directions in NumPy.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import numpy as np
from threadpoolctl import threadpool_limits

from covopt.oracles.choose import exact_oracle
from covopt.oracles.vector_faces import VectorFaceOracle

CASES = [
    (1000, 2, 3),
    (40, 3, 3),
    (200, 3, 3),
    (200, 3, 10),
    (30, 4, 5),
    (60, 4, 3),
    (20, 5, 3),
    (12, 8, 3),
]
DIRECTIONS = 20_000


def seconds(action, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        began = time.process_time()
        action()
        times.append(time.process_time() - began)
    return median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    rng = np.random.default_rng(0)
    VectorFaceOracle(np.eye(3)).price(np.eye(3))  # compile
    print(
        "rows  dim  outputs    setup s   peaks s   bound s  maxima  bound/value − 1   20000 directions reach"
    )
    with threadpool_limits(1):
        for n, r, k in CASES:
            rows, dual = rng.standard_normal((n, r)), rng.standard_normal((n, k))
            began = time.process_time()
            oracle = exact_oracle(rows, k, n_threads=1)
            setup = time.process_time() - began
            answer = oracle.price(dual)
            peaks = seconds(lambda o=oracle, d=dual: o.price(d), repeats)
            bound = seconds(lambda o=oracle, d=dual: o.price(d, threshold=np.inf), repeats)
            drawn = rng.standard_normal((DIRECTIONS, r))
            drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
            reached = np.linalg.norm(np.maximum(drawn @ rows.T, 0.0) @ dual, axis=1).max()
            excess = answer.upper_bound / answer.values[0] - 1.0
            print(
                f"{n:4d}  {r:3d}  {k:7d}  {setup:9.3f} {peaks:9.3f} {bound:9.3f}  {len(answer.values):6d}  "
                f"{excess:15.1e}  {reached / answer.values[0]:22.6f}"
            )


if __name__ == "__main__":
    main()
