"""Claims other than the bounds of a solve: λ_max, numbers of cells and of neurons, a priori bounds."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np

import covopt
from benchmarks.adversary import tables
from benchmarks.adversary.exactly import lifted
from benchmarks.adversary.neurons import best_neuron
from benchmarks.adversary.outcome import Outcome, held, refuted, worst
from benchmarks.adversary.solves import SECONDS, below_interpolants, quiet, random_output_bias
from covopt.certificates.a_priori import a_priori_bounds
from covopt.errors import PrecisionWarning

BEYOND = (1.0 + 1e-6, 3.0, 30.0, 1e3, 1e5)  # multiples of λ_max at which no neuron may reduce the objective


def _table(rng: np.random.Generator, most: int = 7) -> tables.Table:
    X, bias = tables.small(rng, most=most)
    return X * 10.0 ** rng.integers(-3, 5) if rng.random() < 0.3 else X, bias


def largest_lambda(rng: np.random.Generator) -> Outcome:
    """Check that for λ ≥ λ_max no neuron improves on the best constant, whose penalty depends on λ."""
    X, _ = _table(rng)
    bias = float(rng.choice([0.1, 1.0, 30.0]))
    y = rng.choice([0.0, 1.0, 20.0]) + 10.0 ** rng.integers(-3, 2) * rng.standard_normal(len(X))
    top = quiet(covopt.lambda_max, X, y, bias=bias, output_bias="penalized")
    rows = lifted(X, bias)
    for lam in (top * factor for factor in BEYOND if top > 0.0):
        slope = 2.0 * (y - bias**2 / (bias**2 + lam) * y.mean()) / len(y)
        witness = best_neuron(rows, slope, rng)
        if witness is not None and witness.square and witness.exceeds(2.0 * lam * (1.0 + 1e-9)):
            return refuted(
                f"lambda_max {top:.9g}, at {lam:.9g} a neuron pays: {witness.value / (2.0 * lam):.9g}"
            )
    return held()


def cells(rng: np.random.Generator) -> Outcome:
    """Compare the number of cells with deletion and restriction in fractions, unless covopt warns of precision."""
    X, bias = _table(rng)
    if rng.random() < 0.3:
        X = X + 10.0 ** -rng.integers(5, 17) * rng.standard_normal(X.shape)
    rows = [tuple(map(Fraction, row)) for row in lifted(X, bias).tolist()]
    lines = list(dict.fromkeys(line for line in map(_line, rows) if line is not None))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = covopt.enumerate_cells(X, bias=bias)
        count = covopt.count_cells(X, bias=bias)
    doubted = any(issubclass(each.category, PrecisionWarning) for each in said)
    if count != len(found) and not doubted:
        return refuted(f"{count} cells counted, {len(found)} enumerated")
    true = _regions(lines)
    if count != true and not doubted and (found.exact or len(lines[0]) == 2):
        return refuted(f"{count} cells of {true} (exact={found.exact})")
    if len(np.unique(found.packed, axis=0)) != len(found) and not doubted:
        return refuted("a cell is enumerated twice")
    return held()


def _line(row: tuple[Fraction, ...]) -> tuple[Fraction, ...] | None:
    lead = next((entry for entry in row if entry), None)
    return None if lead is None else tuple(entry / lead for entry in row)


def _regions(lines: list[tuple[Fraction, ...]]) -> int:
    """Return the number of cells of distinct hyperplanes, by deletion and restriction (Zaslavsky)."""
    if not lines:
        return 1
    *rest, last = lines
    at = next(k for k, entry in enumerate(last) if entry)
    inside = [
        tuple(row[k] - row[at] * last[k] / last[at] for k in range(len(last)) if k != at) for row in rest
    ]
    kept = dict.fromkeys(line for line in map(_line, inside) if line is not None)
    return _regions(rest) + _regions(list(kept))


def neurons(rng: np.random.Generator) -> Outcome:
    """Check that bounds on the number of neurons are ordered and agree with the networks found."""
    X, bias = _table(rng, 6)
    Y = tables.targets(rng, X, int(rng.choice([1, 1, 2])))
    output_bias = random_output_bias(rng, bias)
    options = {"bias": bias, "output_bias": output_bias}
    solution = quiet(covopt.min_norm, X, Y, duplicates="mean", time_limit_s=SECONDS, **options)
    data = solution.data
    bounds = quiet(covopt.sparsity_bounds, data.X, data.Y, **options)
    if bounds.lower > bounds.upper:
        return refuted(f"{bounds.lower} ≤ neurons ≤ {bounds.upper}")
    if solution.status != "certified":
        return held()
    fewest = quiet(solution.sparsest, time_limit_s=SECONDS)
    if fewest.n_neurons < bounds.lower or fewest.lower_bound > bounds.upper:
        said = f"{fewest.lower_bound} ≤ {fewest.n_neurons}"
        return refuted(f"sparsest {said}, bounds {bounds.lower} and {bounds.upper}")
    return held()


def without_a_solve(rng: np.random.Generator) -> Outcome:
    """Compare ``a_priori_bounds`` with explicit networks through the points."""
    X, bias = _table(rng, 6)
    if rng.random() < 0.2:
        X = X * np.where(rng.random(X.shape) < 0.5, math.ldexp(1.0, -int(rng.integers(400, 540))), 1.0)
    Y = tables.targets(rng, X, int(rng.choice([1, 1, 2])))
    data = covopt.Data.validate(X, Y, bias=bias, duplicates="mean")
    output_bias = random_output_bias(rng, bias)
    bounds = quiet(a_priori_bounds, data.X, data.Y, bias=bias, output_bias=output_bias)
    network = covopt.ReLUNetwork(rng.standard_normal((8, data.lifted.shape[1])), np.ones((8, data.n_outputs)))
    return worst(
        [below_interpolants(data.X, data.Y, bias, network, each.value, rng) for each in bounds] or [held()]
    )


CLASSES = {
    "lambda-max": largest_lambda, "cells": cells, "neurons": neurons, "a-priori": without_a_solve,
}  # fmt: skip
