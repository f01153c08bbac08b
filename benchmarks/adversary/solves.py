"""Compare whole solves with explicit neurons and networks: interpolation, fits, paths, Frank–Wolfe, label noise."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np

import covopt
from benchmarks.adversary import tables
from benchmarks.adversary.exactly import direction, exact, fractions, lifted
from benchmarks.adversary.neurons import best_neuron, good_neurons
from benchmarks.adversary.objectives import objective, rival_objective
from benchmarks.adversary.outcome import Outcome, held, refuted, worst
from benchmarks.adversary.rivals import cheapest

SECONDS = 3.0  # time limit of a solve, whose bracket then has to hold as well
LOSSES = ("squared", "huber", "logistic", "softmax-cross-entropy", "hinge", "squared-hinge")
OUTPUT_BIASES = ("none", "penalized", "free")


def random_output_bias(rng: np.random.Generator, bias: float) -> str:
    return str(rng.choice(OUTPUT_BIASES, p=(0.5, 0.25, 0.25))) if bias > 0 else "none"


def quiet(call, *args: Any, **options: Any) -> Any:
    """Call a function without covopt's warnings, which are valid answers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **options)


# ---------------------------------------------------------------------- interpolation
def interpolation(table: str):
    """Check ``min_norm`` with any number of outputs and any output bias."""

    def ask(rng: np.random.Generator) -> Outcome:
        X, bias = tables.small(rng, table)
        k = int(rng.choice([1, 1, 1, 2, 3]))
        Y = tables.targets(rng, X, k)
        output_bias, tol = random_output_bias(rng, bias), float(rng.choice([1e-6, 1e-9, 1e-3]))
        solution = quiet(
            covopt.min_norm, X, Y, bias=bias, output_bias=output_bias, tol=tol, duplicates="mean",
            time_limit_s=SECONDS,
        )  # fmt: skip
        return true(solution, rng)

    return ask


def label_noise(table: str):
    """Check ``min_norm`` with the two label-noise potentials."""

    def ask(rng: np.random.Generator) -> Outcome:
        X, bias = tables.small(rng, table, most=6)
        potential = str(rng.choice(["label-noise", "label-noise-exact"]))
        output_bias = "free" if bias > 0 and rng.random() < 0.3 else "none"
        solution = quiet(
            covopt.min_norm, X, tables.targets(rng, X), bias=bias, output_bias=output_bias, potential=potential,
            duplicates="mean", time_limit_s=SECONDS,
        )  # fmt: skip
        return worst([dual_norm_holds(solution, rng), verifies(solution)])

    return ask


def frank_wolfe(table: str):
    """Check ``frank_wolfe``, for interpolation and least squares."""

    def ask(rng: np.random.Generator) -> Outcome:
        X, bias = tables.small(rng, table, most=6)
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
            goals = fractions(np.reshape(Y, (len(X), -1)))
            own = exact(result.network, output_bias).objective(fractions(X), goals, Fraction(lam) / len(X))
            return worst([below_cost(result.lower_bound, own * len(X), "its own network"), verifies(result)])
        return worst([
            dual_norm_holds(result, rng),
            below_interpolants(X, Y, bias, result.network, result.lower_bound, rng),
            verifies(result),
        ])  # fmt: skip

    return ask


def true(solution: Any, rng: np.random.Generator) -> Outcome:
    """Check the claims of a solution: its dual norm, its bound, and its verification."""
    return worst([dual_norm_holds(solution, rng), bound_holds(solution, rng), verifies(solution)])


def dual_norm_holds(solution: Any, rng: np.random.Generator) -> Outcome:
    """Check the stated dual norm of the stated dual point against explicit neurons."""
    rows = solution.data.lifted
    if solution.sample_weight is not None:
        live = solution.sample_weight > 0
        if solution.potential != "variation":
            return held()  # weighted means: checked by the objective
        rows = rows * live[:, None]
    dual_norm, dual = float(solution.certificate.gauge), solution.dual
    if solution.dual_low is not None:  # sums of two doubles: the same rows twice
        rows, dual = np.concatenate([rows, rows]), np.concatenate([dual, solution.dual_low])
    witness = best_neuron(rows, dual, rng, solution.potential)
    if witness is None or not witness.square:
        return held()
    allowed = dual_norm if solution.potential == "variation" else dual_norm * (1 + 1e-12)
    if (solution.potential == "variation" or solution.output_bias == "none") and witness.exceeds(allowed):
        return refuted(f"gauge {dual_norm:.9g} ({solution.potential}), a neuron reaches {witness.value:.9g}")
    return held(dual_norm / witness.value - 1 if witness.value else np.inf)


def bound_holds(solution: Any, rng: np.random.Generator, lower: float | None = None) -> Outcome:
    """Check a lower bound, by default the stated one, against explicit networks."""
    lower = solution.lower_bound if lower is None else lower
    if solution.loss is not None:
        return _below_fits(solution, lower, rng)
    data = solution.data
    return below_interpolants(data.X, data.Y, data.bias, solution.network, lower, rng)


def below_interpolants(
    X: np.ndarray, Y: np.ndarray, bias: float, network: Any, lower: float, rng: np.random.Generator
) -> Outcome:
    """Check the lower bound on ‖W‖² against an explicit network through the points."""
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
    return below_cost(lower, cost, "an exact network" if cost else "the network without neurons")


def below_cost(lower: float, cost: Fraction, what: str) -> Outcome:
    if Fraction(float(lower)) > cost:
        over = float(Fraction(float(lower)) / cost) if cost else np.inf
        return refuted(f"lower bound {lower:.9g} is {over:.9g} times the cost of {what}")
    return held(float(1 - Fraction(float(lower)) / cost) if cost else 0.0)


def verifies(solution: Any) -> Outcome:
    """Check that a result passes its own verification."""
    checked = quiet(covopt.verify, solution)
    if checked.ok:
        return held()
    failed = next(check for check in checked.checks if not check.ok)
    return refuted(
        f"fails its own verification: {failed.name}: {failed.detail} (status {solution.status.code})"
    )


# ---------------------------------------------------------------------- with a loss
def fit(loss: str):
    """Check ``fit`` on tables of every kind."""

    def ask(rng: np.random.Generator) -> Outcome:
        X, bias = tables.small(rng)
        Y = random_targets(loss, rng, X)
        weights = tables.sample_weight(rng, len(X))
        output_bias, lam = random_output_bias(rng, bias), 10.0 ** rng.uniform(-5, 1)
        if loss in ("squared", "huber") and rng.random() < 0.1:
            lam *= 10.0 ** rng.uniform(-9, 9)
        solution = quiet(
            covopt.fit, X, Y, lam=lam, loss=loss, bias=bias, output_bias=output_bias, sample_weight=weights,
            time_limit_s=SECONDS,
        )  # fmt: skip
        return true(solution, rng)

    return ask


def path(rng: np.random.Generator) -> Outcome:
    """Check every point of ``path``."""
    X, bias = tables.small(rng, most=6)
    loss = str(rng.choice(LOSSES))
    solutions = quiet(
        covopt.path, X, random_targets(loss, rng, X), loss=loss, n_lams=3, bias=bias,
        output_bias=random_output_bias(rng, bias), time_limit_s=SECONDS,
    )  # fmt: skip
    return worst([held()] + [o for s in solutions for o in (bound_holds(s, rng), verifies(s))])


def random_targets(loss: str, rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    if loss == "softmax-cross-entropy":
        Y = rng.integers(0, 3, len(X))
        Y[0] = (Y[-1] + 1) % 3
        return Y
    if loss in ("squared", "huber"):
        return tables.targets(rng, X, 2 if rng.random() < 0.2 else 1)
    return tables.labels(rng, len(X))


def _below_fits(solution: Any, stated: float, rng: np.random.Generator) -> Outcome:
    """Check a lower bound on the objective against explicit networks: its own, and the best of many neurons."""
    lower = Fraction(float(stated))
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
