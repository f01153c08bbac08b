"""Brackets on tables of four features and more.

    python benchmarks/real_tables/bench_real_tables.py [--only iris wine] [--trace traces.json]
    python benchmarks/real_tables/bench_real_tables.py --trace traces.json --figure docs/pictures/brackets.png

Each instance is solved once; upper and lower bound and gap are those that ``covopt.verify`` recomputes. Kernels are
compiled before the clock starts. Seconds are of the processor: of the solve, and of the verification. ``--trace``
keeps the bounds of every round; ``--figure`` only draws them, upper and lower bound over the last upper bound, and
the gap that is left.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

import covopt
from covopt import Solution
from covopt.errors import NotCertifiedWarning
from covopt.solvers.loop import RoundState

Look = Callable[[RoundState], bool]
Solve = Callable[[float, Look], Solution]


def standardised(values: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and standard deviation 1."""
    return (values - values.mean(axis=0)) / values.std(axis=0)


def housing(n: int = 5000) -> tuple[np.ndarray, np.ndarray]:
    """A table like California's districts: place, age, skewed rooms, people and incomes; log price with noise."""
    generator = np.random.default_rng(0)
    town = generator.integers(0, 6, n)
    centres = generator.uniform(-2.0, 2.0, (6, 2))
    place = centres[town] + 0.4 * generator.standard_normal((n, 2))
    income = np.exp(0.45 * generator.standard_normal(n) + 0.1 * centres[town, 0])
    age = generator.uniform(1.0, 52.0, n)
    rooms = 4.0 + income + np.exp(0.6 * generator.standard_normal(n))
    bedrooms = 0.2 * rooms + 0.1 * generator.standard_normal(n)
    people = np.exp(7.0 + 0.7 * generator.standard_normal(n))
    household = 2.0 + np.exp(0.4 * generator.standard_normal(n))
    X = np.column_stack([income, age, rooms, bedrooms, people, household, place])
    price = (
        0.8 * np.log(income)
        + 0.5 * np.cos(1.5 * place[:, 0])
        - 0.3 * np.abs(place[:, 1])
        - 0.2 * np.log(household)
    )
    return X, np.minimum(price + 0.3 * generator.standard_normal(n), 1.0)


def interpolations() -> Iterator[tuple[str, Solve]]:
    """Name and solve of each table to pass through."""

    def solve(X: np.ndarray, y: np.ndarray) -> Solve:
        return lambda limit, look: covopt.min_norm(X, y, duplicates="mean", time_limit_s=limit, callback=look)

    for d in (4, 5, 6, 7):
        generator = np.random.default_rng(0)
        yield f"normal 50 x {d}", solve(generator.standard_normal((50, d)), generator.standard_normal(50))
    iris = load_iris()
    y = iris.target.astype(float)
    yield "iris standardised", solve(standardised(iris.data), y)
    yield "iris raw", solve(iris.data, y)
    diabetes = load_diabetes()
    yield "diabetes 60 x 10", solve(diabetes.data[:60], diabetes.target[:60])


def fits() -> Iterator[tuple[str, Solve]]:
    """Name and solve of each table to fit, λ as a share of λ_max; features are standardised."""

    def solve(X: np.ndarray, y: np.ndarray, loss: str, share: float) -> Solve:
        def run(limit: float, look: Look) -> Solution:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotCertifiedWarning)
                top = covopt.lambda_max(X, y, loss=loss)
            return covopt.fit(
                X, y, lam=share * top, loss=loss, time_limit_s=limit, random_state=0, callback=look
            )

        return run

    diabetes = load_diabetes()
    for share in (0.5, 0.1, 0.01):
        yield (
            f"fit diabetes 442 x 10, {share:g}",
            solve(standardised(diabetes.data), standardised(diabetes.target), "squared", share),
        )
    wine, cancer = load_wine(), load_breast_cancer()
    yield "fit wine 178 x 13, 0.1", solve(standardised(wine.data), wine.target == 0, "logistic", 0.1)
    yield "fit cancer 569 x 30, 0.1", solve(standardised(cancer.data), cancer.target, "logistic", 0.1)
    X, y = housing()
    for share in (0.5, 0.1):
        yield f"fit housing 5000 x 8, {share:g}", solve(standardised(X), standardised(y), "squared", share)


def draw(traces: dict[str, list[list[float]]], path: str) -> None:
    """Upper and lower bounds over time, one panel for each instance, told apart without colours."""
    from matplotlib.figure import Figure

    order = [name for name, _ in (*interpolations(), *fits()) if name in traces]
    columns = 4
    lines = -(-len(order) // columns)
    figure = Figure(figsize=(2.9 * columns, 1.8 * lines + 0.4), layout="constrained")
    panels = figure.subplots(lines, columns, sharey=True, squeeze=False).ravel()
    for axes, name in zip(panels, order, strict=False):
        seconds, upper, lower = np.array(traces[name]).T
        best = np.minimum.accumulate(np.where(np.isfinite(upper), upper, np.inf)) / upper[-1]
        proved = np.maximum.accumulate(np.maximum(lower, 0.0)) / upper[-1]
        top = np.minimum(best, 2.0)
        marker = "o" if len(seconds) == 1 else None  # solves in one step have no bounds before
        axes.fill_between(seconds, proved, top, step="post", color="0.85", linewidth=0)
        for values, dashes, label in ((top, "-", "best network"), (proved, "--", "proved bound")):
            axes.plot(
                seconds, values, color="black", linestyle=dashes, marker=marker, markersize=3,
                drawstyle="steps-post", linewidth=1.1, label=label,
            )  # fmt: skip
        gap = 1.0 - proved[-1]
        axes.set_title(
            f"{name.removeprefix('fit ')}: {f'{100 * gap:.2g} %' if gap > 1e-4 else f'{gap:.0e}'}", fontsize=8
        )
        axes.set_xlim(0.0, 1.05 * seconds[-1])
        axes.set_ylim(0.0, 1.5)
        axes.tick_params(labelsize=8)
    for axes in panels[len(order) :]:
        axes.set_visible(False)
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=9, frameon=False
    )
    figure.supxlabel("processor seconds", fontsize=9)
    figure.supylabel("bounds / last upper bound", fontsize=9)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[""], help="parts of the instances' names")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for each instance")
    parser.add_argument(
        "--trace", metavar="FILE", help="where bounds over time are kept, instance by instance"
    )
    parser.add_argument("--figure", metavar="FILE", help="draw what --trace holds, and solve nothing")
    arguments = parser.parse_args()
    kept = Path(arguments.trace) if arguments.trace else None
    traces = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    if arguments.figure:
        draw(traces, arguments.figure)
        return
    generator = np.random.default_rng(1)
    covopt.min_norm(generator.standard_normal((30, 6)), generator.standard_normal(30), time_limit_s=20.0)
    covopt.fit(generator.standard_normal((30, 9)), generator.standard_normal(30), lam=0.1, time_limit_s=20.0)
    heads = f"{'upper':>13s} {'lower':>13s} {'gap':>8s} {'wall s':>7s} {'cpu s':>7s} {'check s':>7s}"
    print(f"{'instance':26s} {'status':10s} {heads}  verified")
    for name, solve in (*interpolations(), *fits()):
        if not any(part in name for part in arguments.only):
            continue
        wall, cpu = time.perf_counter(), time.process_time()
        trace: list[list[float]] = []

        def look(state: RoundState, trace: list[list[float]] = trace, began: float = cpu) -> bool:
            trace.append([time.process_time() - began, state.upper_bound, state.lower_bound])
            return False

        solution = solve(arguments.limit, look)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        check_cpu = time.process_time()
        check = covopt.verify(solution)
        check_cpu = time.process_time() - check_cpu
        upper = solution.cost if solution.lam is None else solution.objective
        print(
            f"{name:26s} {solution.status.code:10s} {upper:13.8g} {solution.lower_bound:13.8g} "
            f"{solution.gap:8.1e} {wall:7.1f} {cpu:7.1f} {check_cpu:7.1f}  {check.ok}",
            flush=True,
        )
        if kept is not None:
            traces[name] = [*trace, [cpu, upper, solution.lower_bound]]
            kept.write_text(json.dumps(traces))


if __name__ == "__main__":
    main()
