"""The solves that stand beside the one restricted master, against the master on the same problem.

    python benchmarks/micro/bench_masters.py [--points N] [--rows N]

One input: a sparse linear program over the rays (``covopt.solvers.one_input``) against column generation with the
oracle of arcs. Masses of a few neurons on a large table: descent (``covopt.solvers.descent``) against the
master, whose systems have a row for each sample. Processor seconds, one thread; compilation is not timed. What the
exact steps along paths gain is told by ``bench_path.py --steps``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from covopt.losses import make_loss
from covopt.oracles.choose import exact_oracle
from covopt.problems.half_plane import HalfPlane
from covopt.problems.regularised import RegularisedProblem
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.descent import Descent
from covopt.solvers.generation import generate
from covopt.solvers.master.newton import solve_restricted
from covopt.solvers.master.objective import Fit
from covopt.solvers.one_input import solve_one_input


def timed(solve: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    found = solve()
    return time.process_time() - began, found


def one_input(n: int, rng: np.random.Generator) -> None:
    rows = np.column_stack([np.sort(rng.standard_normal(n)), np.ones(n)])
    problem = ShallowProblem(rows / np.linalg.norm(rows, axis=1).max(), rng.standard_normal(n))
    plane = HalfPlane.of(problem)
    assert plane is not None
    lone, point = timed(lambda: solve_one_input(plane, tol=1e-6))
    together, other = timed(lambda: generate(problem, exact_oracle(problem.rows, 0), tol=1e-6))
    print(
        f"one input, {n} points: sparse program {lone:.3f} s, gap {point.gap:.0e}, {len(point.neurons)} neurons"
    )
    print(
        f"  the master {together:.3f} s, gap {other.gap:.0e}, {len(other.neurons)} neurons before the last pass"
    )


def few_neurons(n: int, rng: np.random.Generator) -> None:
    inputs = rng.standard_normal((n, 5))
    rows = np.column_stack([inputs, np.ones(n)])
    loss = make_loss("squared")
    loss.encode_targets(np.abs(inputs[:, 0]) + 0.1 * rng.standard_normal(n))
    problem = RegularisedProblem(rows / np.linalg.norm(rows, axis=1).max(), loss, 0.01)
    quick, point = timed(lambda: list(Descent(problem).run())[-1])
    atoms = np.ascontiguousarray(problem.atoms(point.neurons).T)
    start = np.zeros((n, 1))
    master, found = timed(lambda: solve_restricted(Fit(problem), atoms, start, tol=1e-4))
    weights = found.cones.weights
    value = problem.primal_value(
        problem.fitted(point.neurons, weights, found.shift()), weights, found.shift()
    )
    print(f"few neurons, {n} rows: descent on both layers {quick:.2f} s, {point.upper_bound:.6f}")
    print(f"  its {len(atoms)} last columns alone by the master {master:.2f} s, {value:.6f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--points", type=int, default=400, help="of the table with one input (default 400)")
    parser.add_argument("--rows", type=int, default=5000, help="of the large table (default 5000)")
    chosen = parser.parse_args()
    with threadpool_limits(1):
        for n in (20, chosen.points):  # the first is compilation
            one_input(n, np.random.default_rng(0))
        for n in (50, chosen.rows):
            few_neurons(n, np.random.default_rng(0))


if __name__ == "__main__":
    main()
