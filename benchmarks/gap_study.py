"""How far trained networks are from the best one: optimisers, widths, weight decay, on ordinary tables.

    python -m benchmarks.gap_study [--tables NAME ...] [--seeds 5] [--seconds 60] [--json FILE]

Networks of 5, 50 and 500 neurons are trained by SGD with momentum (batches of 32) and Adam, each at the better of two
learning rates, by L-BFGS, and by scikit-learn's MLP (50 neurons, its own defaults, ``alpha`` of the same λ); λ is
half the weight decay. For the squared loss, Frank-Wolfe is added.
Each network is measured by the ladder of ``covopt.gap``; the best network and the lower bound of a problem are those
of one ``covopt.fit``. Times are processor seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.neural_network import MLPClassifier, MLPRegressor

import covopt
from benchmarks.tables import ordinary
from covopt.meter.ladder import objective, rungs
from covopt.meter.networks import read_network
from covopt.network import DeepReLUNetwork
from covopt.training import Phase, train

TABLES = "diabetes, 2 columns", "diabetes", "iris", "wine", "cancer", "digits 0/1"
DECAYS = 1e-2, 1e-3, 1e-1, 1e-4
WIDTHS = 5, 50, 500
SCHEDULES = {
    "SGD, momentum": (Phase("sgd", 2000, momentum=0.9, batch_size=32, decay="cosine"),),
    "Adam": (Phase("adam", 1000, decay="cosine"),),
    "L-BFGS": (Phase("lbfgs", 300),),
}
RATES = {"SGD, momentum": (0.01, 0.001), "Adam": (0.01, 0.003)}  # the better rate counts, for each seed
RUNGS = "as given", "balanced", "merged", "refitted"
WITHIN = 0.01, 0.1, 1.0


def networks(
    X: np.ndarray, y: np.ndarray, loss: str, lam: float, seeds: int, seconds: float
) -> Iterator[tuple[str, int, int, Any, float]]:
    """Yield optimiser, width, seed, network, and its share of the batch's processor seconds."""
    for name, schedule in SCHEDULES.items():
        for width in WIDTHS:
            began, rates = time.process_time(), RATES.get(name, (1.0,))
            run = train(
                X, y, widths=width, loss=loss, lam=lam, seeds=seeds, schedule=schedule, dtype="float32",
                learning_rate=rates if name in RATES else None, tol_gradient=1e-5,
            )  # fmt: skip
            took = (time.process_time() - began) / len(run)
            reached = run.objectives.reshape(len(rates), seeds)
            for seed, rate in enumerate(np.nan_to_num(reached, nan=np.inf).argmin(axis=0)):
                yield name, width, seed, run.network(int(rate) * seeds + seed), took
    kind = MLPRegressor if loss == "squared" else MLPClassifier
    outputs = 0.5 if loss == "squared" else 1.0
    for seed in range(seeds):
        began = time.process_time()
        mlp = kind(hidden_layer_sizes=(50,), alpha=2.0 * lam * outputs * min(200, len(X)), random_state=seed)
        mlp.fit(X, y)
        yield "scikit-learn", 50, seed, mlp, time.process_time() - began
    if loss == "squared":
        began = time.process_time()
        with contextlib.suppress(covopt.errors.BudgetError):  # raised without an exact oracle
            found = covopt.frank_wolfe(X, y, lam=lam * len(X), time_limit_s=seconds, random_state=0)
            yield "Frank-Wolfe", len(found.network), 0, found.network, time.process_time() - began


def ladder(network: Any, X: np.ndarray, loss: Any, lam: float) -> dict[str, float]:
    """Return the objectives of one network and of its rungs, without output biases that training did not penalise."""
    given = read_network(network, X.shape[1], 1.0)
    counts = given.mlp is None
    layers = DeepReLUNetwork(
        [w for w, _ in given.layers], [np.zeros(len(w)) if b is None else b for w, b in given.layers],
        counts_output_bias=counts,
    )  # fmt: skip
    if counts:
        layers = DeepReLUNetwork(layers.weights, [layers.layers[0][1], None])
    found = {"as given": objective(layers, X, loss, lam)}
    found |= {name: objective(rung, X, loss, lam) for name, rung in rungs(layers, X, loss, lam)}
    return found


def study(names: list[str], seeds: int, seconds: float) -> pd.DataFrame:
    """Return a row for each trained network: its ladder, the best objective, the lower bound."""
    rows = []
    for decay, name in itertools.product(DECAYS, names):
        X, y, loss = ordinary(name)
        lam = decay / 2.0
        best = {}
        for output_bias in ("none", "free"):
            began = time.process_time()
            found = covopt.fit(
                X, y, lam=lam, loss=loss, output_bias=output_bias, time_limit_s=seconds, tol=1e-4, random_state=0
            )  # fmt: skip
            best[output_bias] = found, time.process_time() - began
        own = best["none"][0].network, best["none"][1]
        for optimiser, width, seed, network, took in (
            *networks(X, y, loss, lam, seeds, seconds), ("covopt", len(own[0]), 0, *own),
        ):  # fmt: skip
            solution, spent = best["free" if optimiser == "scikit-learn" else "none"]
            steps = ladder(network, X, solution.loss, lam)
            rows.append(
                {
                    "table": name, "weight decay": decay, "optimiser": optimiser, "width": width, "seed": seed,
                    **steps, "best": solution.objective, "lower bound": solution.lower_bound,
                    "seconds": took, "seconds of fit": spent,
                }
            )  # fmt: skip
        print(name, decay, f"gap {best['none'][0].gap:.1e}", flush=True)
    return pd.DataFrame(rows)


def best_known(runs: pd.DataFrame) -> pd.Series:
    """Return, for each network, the least objective that any method found for its problem."""
    problem = [runs["table"], runs["weight decay"], runs["optimiser"] == "scikit-learn"]
    return runs[["best", *RUNGS]].groupby(problem).transform("min").min(axis=1)


def shares(runs: pd.DataFrame) -> pd.DataFrame:
    """Return, for each rung, the share of networks within 1, 10 and 100 % of the best objective known."""
    known, rows = best_known(runs), []
    for optimiser, part in runs.groupby("optimiser", sort=False):
        for rung in RUNGS:
            excess = part[rung] / known[part.index] - 1.0
            rows.append(
                {
                    "optimiser": optimiser, "rung": rung, "median excess": excess.median(),
                    **{f"within {100 * at:g} %": (excess <= at).mean() for at in WITHIN},
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the clock, for each fit")
    parser.add_argument("--json", help="where to write a row for each network")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    runs = study(asked.tables, asked.seeds, asked.seconds)
    if asked.json:
        runs.to_json(asked.json, orient="records")
    print(shares(runs).to_string(index=False, float_format=lambda value: f"{value:.3f}"))


if __name__ == "__main__":
    main()
