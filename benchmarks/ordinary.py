"""Ordinary tables: objective and bracket over processor seconds, covopt against descent and scikit-learn's network.

    python -m benchmarks.ordinary [ROW ...] [--seconds 3 10 30] [--starts 1] [--times 1] [--figure FILE]

A row is a table, or a table and a share of λ_max as in "diabetes 0.1". Without any it is all fourteen: seven tables
of scikit-learn or made, standardised, at 0.1 and 0.01 of λ_max; mean loss + λ‖W‖² with
hidden biases and no output bias. Beside ``covopt.fit`` with time limits stand Adam, SGD and L-BFGS on both layers
from the same random neurons, in NumPy, with ``times`` its time for all starts together (the rates of Adam and SGD
fall to zero by then, by a cosine), and scikit-learn's MLP, which was trained with biases that cost nothing: here they
do.
All seconds are of the processor, one thread; limits are of the clock: run it on an idle machine.
"""

from __future__ import annotations

import argparse
import contextlib
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn import datasets
from sklearn.neural_network import MLPClassifier, MLPRegressor

import covopt
from covopt.api.task import Task
from covopt.limits import TimeUp
from covopt.problems.problem import Problem
from covopt.solvers.both_layers import balanced, value_and_slope
from covopt.solvers.descent import Descent

SHARES = 0.1, 0.01
LEAST = 1e-7  # what is drawn of smaller numbers
BATCH, BATCHES = 64, 16  # rows of one step of SGD, and steps between two looks at the objective
LOADERS: dict[str, Any] = {
    "diabetes": (datasets.load_diabetes, {}, "squared"),
    "cancer": (datasets.load_breast_cancer, {}, "logistic"),
    "wine": (datasets.load_wine, {}, "softmax-cross-entropy"),
    "iris": (datasets.load_iris, {}, "softmax-cross-entropy"),
    "digits 0/1": (datasets.load_digits, {"n_class": 2}, "logistic"),
    "digits": (datasets.load_digits, {}, "softmax-cross-entropy"),
}
MADE = "made 10000 x 8"


def table(name: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Return standardised columns, targets and the loss."""
    if name == MADE:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((10_000, 8))
        y = np.maximum(X[:, 0], 0.0) - np.abs(X[:, 1] + 0.5 * X[:, 2]) + np.sin(X[:, 3])
        y, loss = y + 0.3 * rng.standard_normal(len(y)), "squared"
    else:
        load, options, loss = LOADERS[name]
        X, y = load(return_X_y=True, **options)
    spread = X.std(axis=0)
    X = ((X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0))[:, spread > 0.0]
    return X, (y - y.mean()) / y.std() if loss == "squared" else y, loss


def descents(problem: Problem, seconds: float, starts: int = 1) -> Iterator[tuple[str, float]]:
    """Yield the best objectives of Adam, SGD and L-BFGS on both layers, after so many processor seconds."""
    best = end = np.inf

    def objective(x: np.ndarray, part: Problem = problem) -> tuple[float, np.ndarray]:
        nonlocal best
        first, second, third = np.split(x, ends)
        value, *slopes = value_and_slope(part, first.reshape(W.shape), second.reshape(V.shape), third)
        if part is problem:
            best = min(best, value)
        if time.process_time() > end:
            raise TimeUp
        return value, np.concatenate([slope.ravel() for slope in slopes])

    def cosine() -> float:
        left = (end - time.process_time()) * starts / seconds
        return 0.5 - 0.5 * float(np.cos(np.pi * min(max(left, 0.0), 1.0)))

    def adam(x: np.ndarray) -> None:
        mean, square, count = np.zeros_like(x), np.zeros_like(x), 0
        while True:
            slope, count = objective(x)[1], count + 1
            mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
            step = (mean / (1.0 - 0.9**count)) / (np.sqrt(square / (1.0 - 0.999**count)) + 1e-8)
            x = x - 0.01 * cosine() * step

    def sgd(x: np.ndarray) -> None:
        batches, move, rate = [descent.sampled(problem, BATCH) for _ in range(BATCHES)], np.zeros_like(x), 0.1
        last = objective(x)[0]
        while True:
            begun = x, last
            for batch in batches:
                move = 0.9 * move - rate * cosine() * problem.strength * objective(x, batch)[1]
                x = x + move
            last = objective(x)[0]
            if not last < 2.0 * begun[1]:  # the rate is too large
                (x, last), move, rate = begun, np.zeros_like(x), 0.5 * rate

    def lbfgs(x: np.ndarray) -> None:
        options = {"maxiter": 10**6, "maxfun": 10**6, "maxcor": 30, "ftol": 0.0, "gtol": 0.0}
        minimize(objective, x, jac=True, method="L-BFGS-B", options=options)

    methods: tuple[tuple[str, Callable[[np.ndarray], None]], ...] = (
        ("Adam", adam),
        ("SGD", sgd),
        ("L-BFGS", lbfgs),
    )
    for name, method in methods:
        best = np.inf
        for number in range(starts):
            descent = Descent(problem, random_state=number)
            start = descent.random_network()
            (W, V), B = balanced(start), start.offset
            ends, end = np.cumsum([W.size, V.size]), time.process_time() + seconds / starts
            with contextlib.suppress(TimeUp), np.errstate(all="ignore"):
                method(np.concatenate([W.ravel(), V.ravel(), B]))
        yield name, best * problem.strength


def mlp(task: Task, X: np.ndarray, y: np.ndarray, lam: float) -> float:
    """Objective of scikit-learn's network with each neuron balanced; its output bias is one more neuron."""
    squared = task.loss.name == "squared"  # scikit-learn has half the squared error
    kind, factor = (MLPRegressor, 1.0) if squared else (MLPClassifier, 2.0)
    model = kind(
        hidden_layer_sizes=(60,), alpha=factor * lam * len(X), solver="lbfgs", max_iter=400, random_state=0
    ).fit(X, y)
    (W, V), (b, c) = model.coefs_, model.intercepts_
    masses = np.linalg.norm(np.vstack([W, b]), axis=0) * np.linalg.norm(V, axis=1)
    outputs = np.maximum(X @ W + b, 0.0) @ V + c
    return float(task.loss.value(outputs) + 2.0 * lam * (masses.sum() + np.linalg.norm(c)))


def fits(name: str, share: float, chosen: argparse.Namespace) -> Iterator[tuple[str, float, float, float]]:
    """Yield method, processor seconds, objective and gap (NaN where none is known)."""
    X, y, loss = table(name)
    lam = share * (covopt.lambda_max(X, y, loss=loss) if name != "digits" else 0.255300)
    task = Task(X, y, loss, 1.0, "none", None, "variation", "auto", 1e-6, None)
    problem, _ = task.reduced(lam)
    limits = chosen.seconds
    for limit in limits:
        began = time.process_time()
        found = covopt.fit(X, y, lam=lam, loss=loss, time_limit_s=limit)
        yield f"covopt {limit:g} s", time.process_time() - began, found.objective, found.gap
    for seconds in sorted({limits[0], limits[-1]}):
        for method, objective in descents(problem, chosen.times * seconds, chosen.starts):
            yield method, chosen.times * seconds, objective, np.nan
    began = time.process_time()
    value = mlp(task, X, y, lam)
    yield "MLP", time.process_time() - began, value, np.nan


def draw(rows: list[tuple[str, float, str, float, float, float]], file: str) -> None:
    """Draw the excess over the best objective and the gap over processor seconds, one panel for each fit."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys((row[0], row[1]) for row in rows))
    styles = {"covopt": "o-", "Adam": "^--", "SGD": "d:", "L-BFGS": "v-.", "MLP": "s"}
    figure = Figure(figsize=(13.0, 2.4 * -(-len(names) // 4) + 0.8), layout="constrained")
    for place, (name, share) in enumerate(names):
        axis = figure.add_subplot(-(-len(names) // 4), 4, place + 1)
        own = [row for row in rows if row[:2] == (name, share)]
        best = min(row[4] for row in own)
        for label, style in styles.items():
            points = sorted(
                (row[3], max(row[4] / best - 1.0, LEAST)) for row in own if row[2].startswith(label)
            )
            axis.plot(
                *zip(*points, strict=True), style, ms=4, mfc="none", label=f"{label}: objective over the best"
            )
        gaps = sorted((row[3], max(row[5], LEAST)) for row in own if row[5] == row[5])
        axis.plot(*zip(*gaps, strict=True), "k:", label="covopt: relative gap of its bracket")
        axis.set(
            title=f"{name}, {share:g} λ_max",
            xscale="log",
            yscale="log",
            ylim=(0.7 * LEAST, 2.0),
            xlim=(0.02, 60.0),
        )
        axis.grid(alpha=0.3)
    figure.supxlabel("processor seconds")
    figure.supylabel(f"relative excess and gap ({LEAST:g}: that or less)")
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=5, fontsize="small"
    )
    figure.savefig(file)


def main() -> None:
    names = [*LOADERS, MADE]
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("rows", nargs="*", default=names, metavar="ROW", help=f"of {', '.join(names)}")
    parser.add_argument("--seconds", nargs="+", type=float, default=[3.0, 10.0, 30.0])
    parser.add_argument("--starts", type=int, default=1, help="of each descent, the best one counts")
    parser.add_argument("--times", type=float, default=1.0, help="the seconds of covopt that a descent has")
    parser.add_argument("--figure", help="file of a picture")
    chosen = parser.parse_args()
    rows = []
    print("| table | share | method | processor s | objective | gap |\n| --- | --- | --- | --- | --- | --- |")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in chosen.rows:
            name, _, only = (row, "", "") if row in names else row.rpartition(" ")
            for share in [float(only)] if only else SHARES:
                for method, seconds, objective, gap in fits(name, share, chosen):
                    rows.append((name, share, method, seconds, objective, gap))
                    bracket = "" if np.isnan(gap) else f"{gap:.1e}"
                    print(
                        f"| {name} | {share:g} | {method} | {seconds:.1f} | {objective:.6g} | {bracket} |",
                        flush=True,
                    )
    if chosen.figure:
        draw(rows, chosen.figure)


if __name__ == "__main__":
    main()
