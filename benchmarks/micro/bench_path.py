"""A path of 30 points against 30 solves from scratch, and one fit against all cells as a cone program.

    python benchmarks/micro/bench_path.py [--n 200] [--points 30] [--cells 60]
    python benchmarks/micro/bench_path.py --steps [--n 200] [--points 30]

Processor time is measured: other work on the machine does not count. Every point is certified to 1e-6.

``--steps`` times the paths of all losses and of two outputs instead, for one output and a smooth strictly convex loss
twice: with the exact steps of an active set, and with the interior-point steps that all others take. The first stay
only as long as this shows what they are good for.
"""

from __future__ import annotations

import argparse
import time
from unittest.mock import patch

import numpy as np

import covopt
from covopt.arrangement.enumeration import enumerate_cells
from covopt.conic.all_cells import atom_matrix, cell_matrix, facets


def all_cells_squared(X: np.ndarray, y: np.ndarray, lam: float) -> tuple[float, float]:
    """Return optimum and seconds of the squared loss over all cells, by cvxpy and Clarabel."""
    import cvxpy as cp

    began = time.process_time()
    rows = np.column_stack([X, np.ones(len(X))])
    patterns = enumerate_cells(X, bias=1.0).patterns
    directions = cp.Variable((2 * len(patterns), 3))
    flat = cp.reshape(directions, (directions.size,), order="C")
    residual = atom_matrix(rows, patterns) @ flat - y
    inside = cell_matrix(rows, patterns, facets(rows, patterns)) @ flat >= 0
    cost = cp.sum(cp.norm(directions, 2, axis=1))
    program = cp.Problem(cp.Minimize(cp.sum_squares(residual) / len(y) + 2 * lam * cost), [inside])
    program.solve(solver=cp.CLARABEL)
    return float(program.value), time.process_time() - began


def compare_steps(X: np.ndarray, y: np.ndarray, second: np.ndarray, points: int) -> None:
    """Print seconds, rounds and the largest gap of paths, with exact steps and without."""

    def measure(name: str, targets: np.ndarray, loss: str) -> None:
        best = np.inf
        for _ in range(2):
            began = time.process_time()
            path = covopt.path(X, targets, loss=loss, n_lams=points)
            best = min(best, time.process_time() - began)
        rounds, worst = sum(len(s.history) for s in path), max(s.gap for s in path)
        print(f"{name}: {best:.2f} s, {rounds} rounds, largest gap {worst:.1e}", flush=True)

    smooth = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.3 * y
    for loss in ("squared", "logistic"):
        for kind, values in (("noise", y), ("smooth", smooth)):
            targets = np.sign(values) if loss == "logistic" else values
            measure(f"{loss}, {kind}, exact steps", targets, loss)
            with patch("covopt.solvers.regularised.generation.applies", lambda problem: False):
                measure(f"{loss}, {kind}, interior-point steps", targets, loss)
    for loss in ("huber", "squared-hinge", "hinge"):
        measure(loss, np.sign(y) if "hinge" in loss else y, loss)
    measure("squared, two outputs", np.column_stack([y, second]), "squared")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--points", type=int, default=30)
    parser.add_argument("--cells", type=int, default=60)
    parser.add_argument("--steps", action="store_true", help="compare the steps of paths, all losses")
    chosen = parser.parse_args()
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((chosen.n, 2)), rng.standard_normal(chosen.n)
    covopt.path(X[:20], y[:20], n_lams=4)  # compilation
    if chosen.steps:
        second = rng.standard_normal(chosen.n)
        covopt.path(X[:20], np.column_stack([y, second])[:20], n_lams=4)
        compare_steps(X, y, second, chosen.points)
        return
    for loss, targets in (("squared", y), ("logistic", np.sign(y))):
        began = time.process_time()
        path = covopt.path(X, targets, loss=loss, n_lams=chosen.points)
        warm = time.process_time() - began
        began = time.process_time()
        cold = [covopt.fit(X, targets, lam=s.lam, loss=loss) for s in path]
        single = time.process_time() - began
        worst = max(s.gap for s in path)
        differ = max(abs(a.objective / b.objective - 1) for a, b in zip(path, cold, strict=True))
        print(
            f"{loss}, N = {chosen.n}: path {warm:.2f} s, {chosen.points} solves {single:.2f} s, "
            f"ratio {single / warm:.2f}; largest gap {worst:.1e}, objectives agree to {differ:.1e}; "
            f"rounds {sum(len(s.history) for s in path)} and {sum(len(s.history) for s in cold)}"
        )
    X, y = X[: chosen.cells], y[: chosen.cells]
    for lam in (1e-1, 1e-3):
        began = time.process_time()
        found = covopt.fit(X, y, lam=lam)
        mine = time.process_time() - began
        value, theirs = all_cells_squared(X, y, lam)
        print(
            f"all cells, N = {len(X)}, lam = {lam:g}: {theirs:.2f} s against {mine:.2f} s, "
            f"ratio {theirs / mine:.0f}; objectives {value:.10g} and {found.objective:.10g}, "
            f"relative difference {found.objective / value - 1:.1e}"
        )


if __name__ == "__main__":
    main()
