"""Minimal-norm networks with several outputs: certified solves, and one cone program over sampled neurons.

    python benchmarks/micro/bench_vector_solving.py [--quick]

Points and targets are standard normal, bias 1. The gap is the one that covopt.verify recomputes. The comparison is
what one can do without an oracle: a group basis pursuit over 2000 random neurons by Clarabel. Its cost is an upper
bound that says nothing about the optimum; the table shows how far above the certified optimum it stays.
"""

from __future__ import annotations

import argparse
import time

import cvxpy as cp
import numpy as np

import covopt

CASES = [(30, 2, 2), (50, 2, 3), (100, 2, 3), (30, 3, 5), (20, 4, 3)]
QUICK = [(20, 2, 2)]
SAMPLES = 2000


def sampled(X: np.ndarray, Y: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """Cost over sampled neurons, and seconds."""
    rows = np.column_stack([X, np.ones(len(X))])
    neurons = rng.standard_normal((SAMPLES, rows.shape[1]))
    neurons /= np.linalg.norm(neurons, axis=1, keepdims=True)
    atoms = np.maximum(rows @ neurons.T, 0.0)
    began = time.perf_counter()
    weights = cp.Variable((SAMPLES, Y.shape[1]))
    program = cp.Problem(cp.Minimize(2 * cp.sum(cp.norm(weights, 2, axis=1))), [atoms @ weights == Y])
    program.solve(solver="CLARABEL")
    return float(program.value), time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    rng = np.random.default_rng(0)
    covopt.min_norm(rng.standard_normal((8, 2)), rng.standard_normal((8, 2)))  # compile
    covopt.min_norm(rng.standard_normal((45, 2)), rng.standard_normal((45, 2)), tol=0.1)
    print("  N  d  k  covopt s  rounds  neurons  verified gap   sampled s  sampled cost / optimum")
    for n, d, k in QUICK if quick else CASES:
        X, Y = rng.standard_normal((n, d)), rng.standard_normal((n, k))
        began = time.perf_counter()
        solution = covopt.min_norm(X, Y)
        seconds = time.perf_counter() - began
        verification = covopt.verify(solution)
        if not verification.ok or verification.certificate is None:
            raise SystemExit(f"verification failed:\n{verification.summary()}")
        cost, other = sampled(X, Y, rng)
        print(
            f"{n:3d} {d:2d} {k:2d}  {seconds:8.2f}  {len(solution.history):6d}  {len(solution.network):7d}  "
            f"{verification.certificate.gap:12.1e}  {other:10.2f}  {cost / solution.lower_bound:10.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
