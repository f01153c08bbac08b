"""Ordinary tables: objective and bracket over processor seconds, covopt against descent and scikit-learn's network.

    python -m benchmarks.ordinary [ROW ...] [--seconds 3 10 30] [--starts 1] [--times 1]

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

import numpy as np
from scipy.optimize import minimize
from sklearn.neural_network import MLPClassifier, MLPRegressor

import covopt
from benchmarks.tables import MADE, ORDINARY, ordinary
from covopt.api.task import Task
from covopt.limits import TimeUp
from covopt.problems.problem import Problem
from covopt.solvers.both_layers import balanced, value_and_slope
from covopt.solvers.descent import Descent

SHARES = 0.1, 0.01
BATCH, BATCHES = 64, 16  # rows of one step of SGD, and steps between two looks at the objective


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
    X, y, loss = ordinary(name)
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


def main() -> None:
    names = [*(name for name in ORDINARY if "," not in name), MADE]
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("rows", nargs="*", default=names, metavar="ROW", help=f"of {', '.join(names)}")
    parser.add_argument("--seconds", nargs="+", type=float, default=[3.0, 10.0, 30.0])
    parser.add_argument("--starts", type=int, default=1, help="of each descent, the best one counts")
    parser.add_argument("--times", type=float, default=1.0, help="the seconds of covopt that a descent has")
    chosen = parser.parse_args()
    print("| table | share | method | processor s | objective | gap |\n| --- | --- | --- | --- | --- | --- |")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in chosen.rows:
            name, _, only = (row, "", "") if row in names else row.rpartition(" ")
            for share in [float(only)] if only else SHARES:
                for method, seconds, objective, gap in fits(name, share, chosen):
                    bracket = "" if np.isnan(gap) else f"{gap:.1e}"
                    print(
                        f"| {name} | {share:g} | {method} | {seconds:.1f} | {objective:.6g} | {bracket} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
