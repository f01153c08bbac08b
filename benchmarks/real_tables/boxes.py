"""Boxes held against faces, and what they cost.

    python benchmarks/real_tables/boxes.py --agree 1000
    python benchmarks/real_tables/boxes.py --figure boxes.png [--iris]

``--agree`` compares h(λ) by boxes with h(λ) by faces on random, integer, degenerate and gridded tables in two to four
dimensions. ``--figure`` solves normal tables with normal targets in three to six dimensions (the bias counts), proves
the gauge of the dual that each solve ends with to 1e-6, and draws boxes and processor seconds of the proof, and the
gap over time of solves by boxes.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from covopt.solvers.box_generation import solve_by_boxes
from sklearn.datasets import load_iris

from covopt.exact.rounding import relative_gap
from covopt.oracles.cones import box_gauge
from covopt.oracles.vector_faces import VectorFaceOracle
from covopt.problems.problem import Problem
from covopt.solvers.loop import RoundState

KINDS = ("normal", "integers", "lines", "grid")
SIZES = {3: (25, 50, 100, 200), 4: (25, 50, 100), 5: (25, 50, 100), 6: (25, 50)}
NODES = 300_000
ALLOWED = 2e-9  # twice the oracle's own tolerance


def table(random: np.random.Generator, n: int, d: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows of full rank, or nearly always, and a dual point."""
    dual = random.standard_normal(n)
    if kind == "normal":
        return random.standard_normal((n, d)), dual
    if kind == "grid":
        rows = np.round(random.standard_normal((n, d)) * np.geomspace(1.0, 0.1, d) + 3.0, 1)
        rows[:, -1] = 1.0
        return rows, dual
    rows = random.integers(-2, 3, (n, d)).astype(float)
    rows[~rows.any(axis=1)] = 1.0
    if kind == "lines":
        return rows * random.choice([-3.0, 0.1, 1.0, 2.0], (n, 1)), dual
    return rows, random.integers(-2, 3, n).astype(float)


def agree(count: int) -> None:
    """Print how far boxes and faces are apart."""
    for kind in KINDS:
        random, worst, low, left = np.random.default_rng(KINDS.index(kind)), 0.0, 0, 0
        compared, nodes = 0, []
        for trial in range(count // len(KINDS)):
            d = 2 + trial % 3
            rows, dual = table(random, int(random.integers(d + 3, 16)), d, kind)
            if np.linalg.matrix_rank(rows) < d or not dual.any():
                continue
            h = float(VectorFaceOracle(rows, n_threads=1).price(dual[:, None]).values[0])
            found = box_gauge(rows, dual, max_nodes=NODES, random_state=trial)
            compared += 1
            nodes.append(found.nodes)
            low += found.upper_bound < h * (1.0 - 1e-12)
            left += not found.closed or found.upper_bound > h * (1.0 + ALLOWED)
            worst = max(worst, abs(found.upper_bound / h - 1.0))
        print(
            f"{kind:9s} {compared:5d} tables: {low} bounds below, {left} not within {ALLOWED:g}, "
            f"largest distance {worst:.1e}, boxes {int(np.median(nodes))} (median) to {max(nodes)}",
            flush=True,
        )


def costs() -> list[tuple[int, int, int, float]]:
    """Dimension, rows, boxes and processor seconds of a proof to 1e-6."""
    found = []
    for d, sizes in SIZES.items():
        for n in sizes:
            problem = normal(n, d)[1]
            point = solve_by_boxes(problem, tol=1e-4)
            began = time.process_time()
            proof = box_gauge(problem.rows, problem.asked(point.dual), rtol=1e-6)
            found.append((d, n, proof.nodes, time.process_time() - began))
            print(
                f"D = {d}, N = {n:3d}: gap {point.gap:.0e}, {proof.nodes:8d} boxes, {found[-1][3]:.2f} s",
                flush=True,
            )
    return found


def normal(n: int, d: int) -> tuple[str, Problem]:
    """Name and problem of a table of d − 1 normal features with normal targets."""
    random = np.random.default_rng(0)
    rows = np.column_stack([random.standard_normal((n, d - 1)), np.ones(n)])
    targets = random.standard_normal(n)
    return f"normal, N = {n}, D = {d}", Problem.through(rows, targets / np.abs(targets).max())


def iris(scaled: bool) -> tuple[str, Problem]:
    """Name and problem of the iris table, of mean 0 and variance 1 or as it is; equal rows take their mean label."""
    values, target = load_iris(return_X_y=True)
    if scaled:
        values = (values - values.mean(axis=0)) / values.std(axis=0)
    values, place = np.unique(values, axis=0, return_inverse=True)
    means = np.bincount(place.ravel(), weights=target) / np.bincount(place.ravel())
    rows = np.column_stack([values, np.ones(len(values))])
    name = "iris, standardised" if scaled else "iris, raw"
    return name, Problem.through(rows / np.abs(rows).max(), means / 2.0)


def bracket(name: str, problem: Problem) -> list[tuple[float, float]]:
    """Processor seconds and proved gap after every round."""
    began, seen = time.process_time(), []

    def look(state: RoundState) -> bool:
        seen.append((time.process_time() - began, relative_gap(state.upper_bound, state.lower_bound)))
        return False

    point = solve_by_boxes(problem, tol=1e-6, callback=look)
    seen.append((time.process_time() - began, point.gap))
    print(f"{name}: {point.status.code}, gap {point.gap:.1e}, {seen[-1][0]:.0f} s", flush=True)
    return [entry for entry in seen if np.isfinite(entry[1])]


def draw(path: str, with_iris: bool) -> None:
    """Write the figure."""
    from matplotlib.figure import Figure

    problems = [normal(50, 5), normal(50, 6), *([iris(True), iris(False)] if with_iris else [])]
    gaps = [(name, bracket(name, problem)) for name, problem in problems]
    measured = costs()
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for marker, d in zip("osD^", SIZES, strict=True):
        own = [entry for entry in measured if entry[0] == d]
        left.plot([e[1] for e in own], [e[2] for e in own], marker=marker, label=f"D = {d}")
        middle.plot([e[1] for e in own], [e[3] for e in own], marker=marker, label=f"D = {d}")
    left.set(xscale="log", yscale="log", xlabel="rows N", ylabel="boxes", title="Proof of the gauge to 1e-6")
    middle.set(
        xscale="log", yscale="log", xlabel="rows N", ylabel="processor seconds", title="Its time, one thread"
    )
    for axes in (left, middle):
        axes.set_xticks([25, 50, 100, 200], ["25", "50", "100", "200"])
        axes.minorticks_off()
    left.set_ylim(top=2e7)  # room for the legend
    left.legend(frameon=False, loc="upper left", ncols=2)
    for name, seen in gaps:
        right.plot(*zip(*seen, strict=True), drawstyle="steps-post", label=name)
    right.set(yscale="log", xlabel="processor seconds", ylabel="gap, proved", title="Interpolation by boxes")
    right.set_ylim(top=1e3)
    right.legend(frameon=False, loc="upper right")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agree", type=int, metavar="TABLES")
    parser.add_argument("--figure", metavar="FILE")
    parser.add_argument("--iris", action="store_true", help="both iris tables beside the normal ones")
    arguments = parser.parse_args()
    if arguments.agree:
        agree(arguments.agree)
    if arguments.figure:
        draw(arguments.figure, arguments.iris)


if __name__ == "__main__":
    main()
