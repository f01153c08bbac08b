"""What is certified, and how fast: the table of docs/limits.md.

    python -m benchmarks.reach [--only WORD …] [--limit 30] [--write]

Each row is one call of ``covopt.min_norm`` or ``covopt.fit``, verified by ``covopt.verify``. Times and the limit are
processor seconds of one thread, so that a busy machine gives nearly the same table; kernels are compiled before the
timing. ``--write`` puts the table into docs/limits.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
from threadpoolctl import threadpool_limits

import covopt
from benchmarks.tables import Table, bundled
from covopt import limits

PAGE = Path(__file__).parents[1] / "docs" / "limits.md"
BEGIN, END = "<!-- reach: begin -->\n", "<!-- reach: end -->\n"


def normal(n: int, d: int, k: int = 1) -> Table:
    """Return standard normal points and targets."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.standard_normal((n, k)).squeeze(axis=1 if k == 1 else ())


def kinks(n: int, d: int) -> Table:
    """Return standard normal points, and targets with two kinks, a wave and noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.maximum(X[:, 0], 0.0) - np.abs(X[:, 1] + 0.5 * X[:, -1]) + np.sin(2.0 * X[:, 0])
    return X, y + 0.3 * rng.standard_normal(n)


def iris_numbers() -> Table:
    """Return the iris table with its classes as numbers 0, 1, 2."""
    X, y = bundled("iris")
    return X, y.astype(float)


Row = tuple[str, Callable[[], Table], str, list[float]]  # table, its maker, loss, shares of λ_max
ROWS: list[Row] = [
    *(("normal points", lambda n=n, d=d: normal(n, d), "interpolation", []) for n, d in (
        (1000, 1), (250, 2), (1000, 2), (2000, 2), (100, 3), (200, 3), (100, 4), (50, 7), (16, 8), (60, 10),
    )),
    ("normal points, 3 outputs", lambda: normal(50, 2, 3), "interpolation", []),
    ("iris, classes as numbers", iris_numbers, "interpolation", []),
    ("diabetes", lambda: bundled("diabetes", rows=60), "interpolation", []),
    ("diabetes", lambda: bundled("diabetes"), "interpolation", []),
    ("kinks and noise", lambda: kinks(300, 30), "interpolation", []),
    ("kinks and noise", lambda: kinks(1000, 2), "squared", [0.03]),
    ("kinks and noise", lambda: kinks(200, 3), "squared", [0.03]),
    ("kinks and noise", lambda: kinks(200, 6), "squared", [0.1, 0.03]),
    ("kinks and noise", lambda: kinks(300, 7), "squared", [0.03]),
    ("kinks and noise", lambda: kinks(10_000, 8), "squared", [0.5]),
    ("kinks and noise", lambda: kinks(400, 30), "squared", [0.03]),
    ("diabetes, bmi and s5", lambda: bundled("diabetes", columns=[2, 8]), "squared", [0.03]),
    ("diabetes", lambda: bundled("diabetes"), "squared", [0.5, 0.1, 0.03]),
    ("breast cancer", lambda: bundled("breast_cancer"), "logistic", [0.5, 0.1]),
    ("digits 0 and 1", lambda: bundled("digits", n_class=2), "logistic", [0.1]),
    ("iris, 3 classes", lambda: bundled("iris"), "softmax-cross-entropy", [0.1, 0.03]),
    ("wine, 3 classes", lambda: bundled("wine"), "softmax-cross-entropy", [0.1, 0.03]),
    ("digits, 10 classes", lambda: bundled("digits"), "softmax-cross-entropy", [0.1]),
]  # fmt: skip


def solved(X: np.ndarray, y: np.ndarray, loss: str, share: float | None, limit: float) -> covopt.Solution:
    """Interpolate, or fit at a share of λ_max."""
    options: dict[str, Any] = {"time_limit_s": limit, "random_state": 0}
    if share is None:
        return covopt.min_norm(X, y, **options)
    return covopt.fit(X, y, lam=f"{share}max", loss=loss, **options)


def said(solution: covopt.Solution) -> str:
    """Return what is proved, in the words of the table."""
    if solution.status.code == "certified":
        return "**certified**"
    if solution.gap > 0.5:
        return f"no useful bound ({100.0 * solution.gap:.0f} %)"
    return f"bracket of {100.0 * solution.gap:.2g} %"


def lines(words: list[str], limit: float) -> Iterator[str]:
    """Solve, verify and yield the table, row by row."""
    yield "| rows × columns | loss | answer | seconds |"
    yield "| --- | --- | --- | --- |"
    for name, make, loss, shares in ROWS:
        X, y = make()
        for share in shares or [None]:
            decay = f", λ = {share} λ_max" if share else ""
            head = f"| {len(X)} × {X.shape[1]}, {name} | {loss}{decay} |"
            if not any(word in head for word in words):
                continue
            began = time.process_time()
            solution = solved(X, y, loss, share, limit)
            seconds = time.process_time() - began
            check = covopt.verify(solution, time_limit_s=limit)
            if check.in_time and not check.ok:
                raise SystemExit(f"not verified: {head}\n{check.summary()}")
            late = "" if check.in_time else "; `verify` needs longer"
            yield f"{head} {said(solution)}{late} | {seconds:.2g} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--only", nargs="+", default=[""], help="rows that have one of these in them")
    parser.add_argument("--limit", type=float, default=30.0, help="processor seconds of a row (default 30)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/limits.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore", covopt.errors.NotCertifiedWarning)
    limits.time = SimpleNamespace(perf_counter=time.process_time)  # type: ignore[assignment]
    numba.set_num_threads(1)
    table = []
    with threadpool_limits(1):
        for d, k in ((2, 1), (3, 1), (6, 1), (9, 1), (2, 3)):  # compile
            solved(*normal(12, d, k), "squared", None, 20.0)
            solved(*normal(12, d, k), "squared", 0.1, 20.0)
        for line in lines(options.only, options.limit):
            print(line, flush=True)
            table.append(line)
    if options.write:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(before + BEGIN + "\n".join(table) + "\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
