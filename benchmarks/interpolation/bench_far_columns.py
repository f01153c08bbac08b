"""Years, incomes and stamps as they come: gap and processor seconds of ``min_norm`` for one, two and three inputs.

Run: ``python benchmarks/interpolation/bench_far_columns.py [--points 100] [--inputs 1 2 3] [--limit 120]``. Beside
the column of each row stand standard normal ones. Every solution is verified, from the table alone.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import covopt

COLUMNS = ("year", "income", "seconds", "milliseconds", "nanoseconds", "yes/no beside seconds")


def column(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return the columns of a kind, shape (n, 1) or (n, 2)."""
    stamps = {"seconds": (1.6e9, 3e7), "milliseconds": (1.6e12, 3e10), "nanoseconds": (1.6e18, 3e16)}
    if kind == "year":
        return rng.permutation(1871.0 + np.arange(n))[:, None]
    if kind == "income":
        return np.exp(rng.uniform(np.log(1e4), np.log(1e6), n)).round(2)[:, None]
    if kind in stamps:
        middle, spread = stamps[kind]
        return (middle + spread * rng.random(n)).round()[:, None]
    return np.column_stack([column("seconds", n, rng), rng.integers(0, 2, n)])


def table(kind: str, n: int, inputs: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return points and targets, None where the kind has more columns than there are inputs."""
    rng = np.random.default_rng(n)
    first = column(kind, n, rng)
    if first.shape[1] > inputs:
        return None
    X = np.column_stack([first, rng.standard_normal((n, inputs - first.shape[1]))])
    unit = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, np.sin(2.0 * unit[:, 0]) + unit[:, -1] * unit[:, 0] + 0.1 * rng.standard_normal(n)


def main() -> None:
    """Print a row for each table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--inputs", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for each solve")
    arguments = parser.parse_args()
    covopt.min_norm(np.random.default_rng(0).standard_normal((8, 2)), np.arange(8.0))  # compile
    print(f"{'column':24s}inputs  status       gap      seconds  neurons  verified")
    for inputs in arguments.inputs:
        for kind in COLUMNS:
            made = table(kind, arguments.points, inputs)
            if made is None:
                continue
            began = time.process_time()
            found = covopt.min_norm(*made, time_limit_s=arguments.limit)
            took = time.process_time() - began
            verified = covopt.verify(found).ok
            print(
                f"{kind:24s}{inputs:6d}  {found.status.code:11s}  {found.gap:.1e}  {took:7.1f}  "
                f"{len(found.network):7d}  {verified}",
                flush=True,
            )


if __name__ == "__main__":
    main()
