"""The oracle by boxes on optimal duals: how many boxes prove the gauge, and in what time, beside the faces.

    python benchmarks/micro/bench_boxes.py [--quick] [--demo]

Standard normal points and targets, bias 1, D counts it: noise, the hardest targets that there are for bounds, at the
dual that covopt's own solve ends with. ``S/h`` is the sum of norms over the gauge, what a bound without boxes says.
``proof`` knows the gauge and proves it to the tolerance; ``gauge`` starts from nothing, at 1e-9. One thread.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import covopt
from covopt.oracles.cones import box_gauge
from covopt.oracles.faces import FaceOracle

CASES = ((50, 3), (100, 3), (300, 3), (1000, 3), (50, 4), (100, 4), (50, 5), (100, 5), (50, 6))
QUICK = ((50, 3), (100, 3), (50, 4))
SOLVE_S = 120.0


def optimal_dual(X: np.ndarray, y: np.ndarray, bias: float) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Rows with their bias, the dual of covopt's solve, its gap and its seconds."""
    began = time.perf_counter()
    solution = covopt.min_norm(X, y, bias=bias, tol=1e-6, time_limit_s=SOLVE_S, random_state=0)
    spent = time.perf_counter() - began
    rows = np.column_stack([X, np.full(len(X), bias)])
    return rows, np.asarray(solution.dual).ravel(), float(solution.gap), spent


def report(name: str, rows: np.ndarray, dual: np.ndarray, gap: float, solving: float) -> None:
    """One line of the table."""
    began = time.perf_counter()
    found = box_gauge(rows, dual)
    whole = time.perf_counter() - began
    h = abs(found.best_value)
    cells = []
    for tolerance in (1e-2, 1e-6):
        began = time.perf_counter()
        proof = box_gauge(rows, dual, start=h * (1 + tolerance), rtol=1e-3 * tolerance)
        cells.append(f"{proof.nodes:8d} {time.perf_counter() - began:8.3f}")
    faces = "       –"
    if rows.shape[1] <= 3 and len(rows) <= 1000:
        oracle = FaceOracle(rows, n_threads=1)
        began = time.perf_counter()
        oracle.price(dual, threshold=np.inf)
        faces = f"{time.perf_counter() - began:8.3f}"
    total = float(np.abs(dual) @ np.linalg.norm(rows, axis=1))
    print(
        f"{name:14s} {len(rows):5d} {rows.shape[1]:2d} {total / h:8.1e} {gap:8.1e} {solving:7.1f} "
        f"{cells[0]} {cells[1]} {found.nodes:8d} {whole:8.3f} {found.upper_bound / h - 1:8.1e} {faces}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="three small cases")
    parser.add_argument(
        "--demo", action="store_true", help="also the table of covopt demo, 432 rows of integers"
    )
    arguments = parser.parse_args()
    box_gauge(np.eye(3), np.ones(3))  # compile
    FaceOracle(np.random.default_rng(0).standard_normal((6, 3))).price(np.ones(6))
    print(f"{'':42s}{'proof at 1 %':>18s} {'proof at 1e-6':>17s} {'gauge':>17s}")
    head = "  boxes        s"
    print(
        f"{'table':14s} {'N':>5s}  D {'S/h':>8s} {'gap':>8s} solve s  {head}  {head}  {head}    slack  faces s"
    )
    for n, D in QUICK if arguments.quick else CASES:
        rng = np.random.default_rng(n + D)
        X, y = rng.standard_normal((n, D - 1)), rng.standard_normal(n)
        report("normal", *optimal_dual(X, y, 1.0))
    if arguments.demo:
        from covopt.datasets import load_diabetes_table

        X, Y, _, _ = load_diabetes_table()
        report("demo", *optimal_dual(X, Y, 1.0))


if __name__ == "__main__":
    main()
