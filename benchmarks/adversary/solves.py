"""Whole solves against explicit neurons and networks: interpolation, fits, paths, Frank–Wolfe, label noise."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np

import covopt
from benchmarks.adversary import tables
from benchmarks.adversary.exactly import direction, fractions, lifted, outputs, squared_norm
from benchmarks.adversary.neurons import best_neuron, good_neurons
from benchmarks.adversary.objectives import objective, rival_objective
from benchmarks.adversary.outcome import Outcome, held, refuted, worst
from benchmarks.adversary.rivals import cheapest

SECONDS = 3.0  # of a solve, which then returns its bracket: that has to hold as well
LOSSES = ("squared", "huber", "logistic", "softmax-cross-entropy", "hinge", "squared-hinge")
OUTPUT_BIASES = ("none", "penalized", "free")


def _shape(rng: np.random.Generator, most: int = 7) -> tuple[int, int]:
    return int(rng.integers(1, most + 1)), int(rng.integers(1, 3))


def random_output_bias(rng: np.random.Generator, bias: float) -> str:
    return str(rng.choice(OUTPUT_BIASES, p=(0.5, 0.25, 0.25))) if bias > 0 else "none"


def quiet(call, *args: Any, **options: Any) -> Any:
    """Call without covopt's warnings: they are answers, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **options)


# ---------------------------------------------------------------------- interpolation
def interpolation(table: str):
    """``min_norm`` with any number of outputs and any output bias."""

    def ask(rng: np.random.Generator) -> Outcome:
        n, d = _shape(rng)
        X, bias = tables.ALL_TABLES[table](rng, n, d)
        k = int(rng.choice([1, 1, 1, 2, 3]))
        Y = tables.targets(rng, X, k)
        output_bias, tol = random_output_bias(rng, bias), float(rng.choice([1e-6, 1e-9, 1e-3]))
        solution = quiet(
            covopt.min_norm,
            X,
            Y,
            bias=bias,
            output_bias=output_bias,
            tol=tol,
            duplicates="mean",
            time_limit_s=SECONDS,
        )
        return worst([_interpolates(solution, rng), verifies(solution)])

    return ask


def label_noise(table: str):
    """``min_norm`` with the two label-noise potentials."""

    def ask(rng: np.random.Generator) -> Outcome:
        n, d = _shape(rng, 6)
        X, bias = tables.ALL_TABLES[table](rng, n, d)
        potential = str(rng.choice(["label-noise", "label-noise-exact"]))
        output_bias = "free" if bias > 0 and rng.random() < 0.3 else "none"
        solution = quiet(
            covopt.min_norm, X, tables.targets(rng, X), bias=bias, output_bias=output_bias, potential=potential,
            duplicates="mean", time_limit_s=SECONDS,
        )  # fmt: skip
        return worst([gauge_holds(solution, rng), verifies(solution)])

    return ask


def frank_wolfe(table: str):
    """``frank_wolfe``, interpolation and least squares."""

    def ask(rng: np.random.Generator) -> Outcome:
        n, d = _shape(rng, 6)
        X, bias = tables.ALL_TABLES[table](rng, n, d)
        Y = tables.targets(rng, X, int(rng.integers(1, 3)))
        lam = float(rng.choice([0.0, 0.0, 10.0 ** rng.uniform(-4, 1)]))
        output_bias = random_output_bias(rng, bias)
        result = quiet(
            covopt.frank_wolfe, X, Y, bias=bias, output_bias=output_bias, lam=lam, max_iter=200, duplicates="mean",
            time_limit_s=SECONDS,
        )  # fmt: skip
        if len(result.dual) != len(X):
            return held()
        if lam > 0:
            own = _square_objective(result.network, X, Y, lam, output_bias)
            return worst([_below(result.lower_bound, own, "its own network"), verifies(result)])
        return worst([
            gauge_holds(result, rng),
            bound_holds(X, Y, bias, output_bias, result.network, result.lower_bound, rng),
            verifies(result),
        ])  # fmt: skip

    return ask


def _square_objective(network: Any, X: np.ndarray, Y: np.ndarray, lam: float, output_bias: str) -> Fraction:
    total = Fraction(lam) * squared_norm(network, output_bias)
    for row, goal in zip(outputs(X, network), fractions(np.reshape(Y, (len(X), -1))), strict=True):
        total += sum(((v - y) ** 2 for v, y in zip(row, goal, strict=True)), Fraction(0))
    return total


def _interpolates(solution: Any, rng: np.random.Generator) -> Outcome:
    data = solution.data
    return worst([
        gauge_holds(solution, rng),
        bound_holds(
            data.X, data.Y, data.bias, solution.output_bias, solution.network, solution.lower_bound, rng
        ),
    ])  # fmt: skip


def gauge_holds(solution: Any, rng: np.random.Generator) -> Outcome:
    """The stated gauge of the stated dual against explicit neurons."""
    rows = solution.data.lifted
    if solution.sample_weight is not None:
        live = solution.sample_weight > 0
        if solution.potential != "variation":
            return held()  # weighted means: left to the objective
        rows = rows * live[:, None]
    gauge, dual = float(solution.certificate.gauge), solution.dual
    if solution.dual_low is not None:  # sums of two doubles: the same rows twice
        rows, dual = np.concatenate([rows, rows]), np.concatenate([dual, solution.dual_low])
    return _dual_feasible(rows, dual, gauge, solution.output_bias, rng, solution.potential)


def _dual_feasible(
    rows: np.ndarray,
    dual: np.ndarray,
    gauge: float,
    output_bias: str,
    rng: np.random.Generator,
    potential: str,
) -> Outcome:
    witness = best_neuron(rows, dual, rng, potential)
    if witness is None or not witness.square:
        return held()
    if potential == "variation" and witness.exceeds(gauge):
        return refuted(f"gauge {gauge:.9g}, a neuron reaches {witness.value:.9g} (N, D = {rows.shape})")
    if potential != "variation" and output_bias == "none" and witness.exceeds(gauge * (1 + 1e-12)):
        return refuted(f"gauge {gauge:.9g} ({potential}), a neuron reaches {witness.value:.9g}")
    return held(gauge / witness.value - 1 if witness.value else np.inf)


def bound_holds(
    X: np.ndarray,
    Y: np.ndarray,
    bias: float,
    output_bias: str,
    network: Any,
    lower: float,
    rng: np.random.Generator,
) -> Outcome:
    """The lower bound on ‖W‖² against an explicit network through the points."""
    rows = lifted(X, bias)
    cost = Fraction(0)
    own = np.array([direction(w) for w in network.hidden_weights if np.any(w)], dtype=object)
    for column in np.reshape(Y, (len(X), -1)).T:
        if not column.any():
            continue
        rival = cheapest(rows, column, own, lambda dual: good_neurons(rows, dual, rng))
        if rival.cost is None:
            return held()
        cost += 2 * rival.cost
    if not cost:
        return _below(lower, cost, "the network without neurons")
    return _below(lower, cost, "an exact network")


def _below(lower: float, cost: Fraction, what: str) -> Outcome:
    if Fraction(float(lower)) > cost:
        over = float(Fraction(float(lower)) / cost) if cost else np.inf
        return refuted(f"lower bound {lower:.9g} is {over:.9g} times the cost of {what}")
    return held(float(1 - Fraction(float(lower)) / cost) if cost else 0.0)


def verifies(solution: Any) -> Outcome:
    """A result has to pass its own verification."""
    checked = quiet(covopt.verify, solution)
    if checked.ok:
        return held()
    failed = next(check for check in checked.checks if not check.ok)
    return refuted(
        f"fails its own verification: {failed.name}: {failed.detail} (status {solution.status.code})"
    )


# ---------------------------------------------------------------------- with a loss
def fit(loss: str):
    """``fit`` on tables of every kind."""

    def ask(rng: np.random.Generator) -> Outcome:
        n, d = _shape(rng)
        X, bias = tables.ALL_TABLES[str(rng.choice(list(tables.ALL_TABLES)))](rng, n, d)
        Y = random_targets(loss, rng, X)
        weights = tables.sample_weight(rng, n)
        output_bias, lam = random_output_bias(rng, bias), 10.0 ** rng.uniform(-5, 1)
        if loss in ("squared", "huber") and rng.random() < 0.1:
            lam *= 10.0 ** rng.uniform(-9, 9)
        solution = quiet(
            covopt.fit, X, Y, lam=lam, loss=loss, bias=bias, output_bias=output_bias, sample_weight=weights,
            time_limit_s=SECONDS,
        )  # fmt: skip
        return worst([fit_bound_holds(solution, rng), gauge_holds(solution, rng), verifies(solution)])

    return ask


def path(rng: np.random.Generator) -> Outcome:
    """Every point of ``path``."""
    n, d = _shape(rng, 6)
    X, bias = tables.ALL_TABLES[str(rng.choice(list(tables.ALL_TABLES)))](rng, n, d)
    loss = str(rng.choice(LOSSES))
    solutions = quiet(
        covopt.path, X, random_targets(loss, rng, X), loss=loss, n_lams=3, bias=bias,
        output_bias=random_output_bias(rng, bias), time_limit_s=SECONDS,
    )  # fmt: skip
    return worst([held()] + [o for s in solutions for o in (fit_bound_holds(s, rng), verifies(s))])


def random_targets(loss: str, rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    if loss == "softmax-cross-entropy":
        Y = rng.integers(0, 3, len(X))
        Y[0] = (Y[-1] + 1) % 3
        return Y
    if loss in ("squared", "huber"):
        return tables.targets(rng, X, 2 if rng.random() < 0.2 else 1)
    return tables.labels(rng, len(X))


def fit_bound_holds(solution: Any, rng: np.random.Generator) -> Outcome:
    """The lower bound on the objective against explicit networks: its own, and the best of many neurons."""
    lower = Fraction(float(solution.lower_bound))
    own = objective(solution, solution.network)
    if lower > own * (1 + Fraction(1, 10**25)):
        return refuted(
            f"lower bound {float(lower):.12g} is above its own network's objective {float(own):.12g}"
        )
    other = rival_objective(solution, rng)
    if other is not None and lower > other * (1 + Fraction(1, 10**25)):
        return refuted(f"lower bound {float(lower):.12g}, an explicit network has {float(other):.12g}")
    best = own if other is None else min(own, other)
    return held(float(1 - lower / best) if best else 0.0)
