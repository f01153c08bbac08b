"""Ordinary tables: objective and gap over processor seconds, of covopt, descent and scikit-learn's MLP.

    python -m benchmarks.ordinary [ROW ...] [--seconds 3 10 30] [--starts 1] [--times 1]

A row is a table, or a table and a share of λ_max as in "diabetes 0.1". The default is all fourteen rows: seven
tables, from scikit-learn or simulated, standardised, at 0.1 and 0.01 of λ_max. The objective is mean loss + λ‖W‖²
with hidden biases and no output bias. ``covopt.fit`` with time limits is compared with Adam, SGD and L-BFGS of
``covopt.training``, which get ``times`` its time for all starts together (the learning rates of Adam and SGD fall to
zero by a cosine), and with scikit-learn's MLP, whose training does not penalise biases; the objective here does.
Times are processor seconds of one thread; limits are wall time: run it on an idle machine.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.neural_network import MLPClassifier, MLPRegressor

import covopt
from benchmarks.tables import MADE, ORDINARY, ordinary
from covopt.training import Phase, TrainingRun, train

SHARES = 0.1, 0.01
WIDTH, TRIAL = 100, 100  # neurons; steps whose time determines how many steps fit into the limit
DESCENTS: dict[str, tuple[tuple[float, ...], dict[str, Any]]] = {  # learning rates; the best one counts
    "Adam": ((0.01,), {"optimiser": "adam", "decay": "cosine"}),
    "SGD": ((0.1, 0.01), {"optimiser": "sgd", "decay": "cosine", "momentum": 0.9, "batch_size": 64}),
    "L-BFGS": ((1.0,), {"optimiser": "lbfgs"}),
}


def descents(
    X: np.ndarray, y: np.ndarray, loss: str, lam: float, seconds: float, starts: int
) -> Iterator[tuple[str, float]]:
    """Yield the best objectives of Adam, SGD and L-BFGS on both layers after ``seconds`` processor seconds."""
    for name, (rates, options) in DESCENTS.items():

        def trained(steps: int, rates: Any = rates, options: Any = options) -> TrainingRun:
            end = time.process_time() + seconds
            return train(
                X, y, widths=WIDTH, loss=loss, lam=lam, seeds=starts, learning_rate=rates, tol_gradient=0.0,
                schedule=Phase(steps=steps, **options), callback=lambda _: time.process_time() > end,
            )  # fmt: skip

        began = time.process_time()
        trained(TRIAL)
        run = trained(max(TRIAL, int(TRIAL * seconds / (time.process_time() - began))))
        yield name, float(np.nanmin(run.objectives))


def mlp(loss: Any, X: np.ndarray, y: np.ndarray, lam: float) -> float:
    """Return the objective of scikit-learn's network, balanced, with its output bias as an additional neuron."""
    squared = loss.name == "squared"  # scikit-learn minimises half the squared error
    kind, factor = (MLPRegressor, 1.0) if squared else (MLPClassifier, 2.0)
    model = kind(
        hidden_layer_sizes=(60,), alpha=factor * lam * len(X), solver="lbfgs", max_iter=400, random_state=0
    ).fit(X, y)
    (W, V), (b, c) = model.coefs_, model.intercepts_
    masses = np.linalg.norm(np.vstack([W, b]), axis=0) * np.linalg.norm(V, axis=1)
    outputs = np.maximum(X @ W + b, 0.0) @ V + c
    return float(loss.value(outputs) + 2.0 * lam * (masses.sum() + np.linalg.norm(c)))


def fits(name: str, share: float, chosen: argparse.Namespace) -> Iterator[tuple[str, float, float, float]]:
    """Yield method, processor seconds, objective and gap (NaN if unknown)."""
    X, y, loss = ordinary(name)
    lam = share * (covopt.lambda_max(X, y, loss=loss) if name != "digits" else 0.255300)
    limits = chosen.seconds
    for limit in limits:
        began = time.process_time()
        found = covopt.fit(X, y, lam=lam, loss=loss, time_limit_s=limit)
        yield f"covopt {limit:g} s", time.process_time() - began, found.objective, found.gap
    for seconds in sorted({limits[0], limits[-1]}):
        for method, objective in descents(X, y, loss, lam, chosen.times * seconds, chosen.starts):
            yield method, chosen.times * seconds, objective, np.nan
    began = time.process_time()
    value = mlp(found.loss, X, y, lam)
    yield "MLP", time.process_time() - began, value, np.nan


def main() -> None:
    names = [*(name for name in ORDINARY if "," not in name), MADE]
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("rows", nargs="*", default=names, metavar="ROW", help=f"of {', '.join(names)}")
    parser.add_argument("--seconds", nargs="+", type=float, default=[3.0, 10.0, 30.0])
    parser.add_argument("--starts", type=int, default=1, help="of each descent, the best one counts")
    parser.add_argument("--times", type=float, default=1.0, help="the seconds of covopt that a descent has")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
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
