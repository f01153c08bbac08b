"""The oracle's question put to ``covopt.price``: is its upper bound below an explicit neuron?"""

from __future__ import annotations

import numpy as np

import covopt
from benchmarks.adversary import tables
from benchmarks.adversary.exactly import lifted
from benchmarks.adversary.neurons import Witness, best_neuron, value_of
from benchmarks.adversary.outcome import Outcome, held, refuted, worst
from covopt.oracles.bounds import gauge_bound
from covopt.oracles.cones.fan import fan_gauge
from covopt.oracles.cones.gauge import box_gauge
from covopt.oracles.support import bound_gauge

LOOSE = 1e-9  # reported values of neurons are floating point: they may be this far off


def scalar(table: str):
    """One output."""

    def ask(rng: np.random.Generator) -> Outcome:
        n, d = int(rng.integers(1, rng.choice([5, 7, 12]))), int(rng.integers(1, 4))
        X, bias = tables.ALL_TABLES[table](rng, n, d)
        return _compare(X, bias, tables.dual(rng, lifted(X, bias)), rng)

    return ask


def vector(table: str):
    """Two or three outputs."""

    def ask(rng: np.random.Generator) -> Outcome:
        n, d, k = int(rng.integers(1, 7)), int(rng.integers(1, 3)), int(rng.integers(2, 4))
        X, bias = tables.ALL_TABLES[table](rng, n, d)
        return _compare(X, bias, tables.dual(rng, lifted(X, bias), k), rng)

    return ask


def boxes(table: str):
    """The bounds by boxes alone, for one output and for several; few boxes, so that the unfinished ones are seen."""

    def ask(rng: np.random.Generator) -> Outcome:
        n, d, k = int(rng.integers(1, 9)), int(rng.integers(1, 4)), int(rng.choice([1, 1, 2]))
        X, bias = tables.ALL_TABLES[table](rng, n, d)
        rows = lifted(X, bias)
        dual = tables.dual(rng, rows, k)
        nodes = int(rng.choice([10, 1000, 20000]))
        if k == 1:
            return _against(rows, dual, box_gauge(rows, dual, max_nodes=nodes).upper_bound, rng)
        found = fan_gauge(
            rows, dual, lambda one: box_gauge(rows, one, max_nodes=nodes).upper_bound, best=0.0,
            max_calls=int(rng.choice([2, 8, 30])),
        )  # fmt: skip
        return _against(rows, dual, found.upper_bound, rng)

    return ask


def fans(table: str):
    """Several outputs beyond the budget of the faces: a fan of their directions, often cut short."""

    def ask(rng: np.random.Generator) -> Outcome:
        n, d, k = int(rng.integers(1, 16)), int(rng.integers(1, 4)), int(rng.integers(2, 4))
        X, bias = tables.ALL_TABLES[table](rng, n, d)
        rows = lifted(X, bias)
        dual = tables.dual(rng, rows, k)
        if rng.random() < 0.3:
            rows = np.abs(rows)
            # in the cone where all rows are on only rounding is left of the sum
            dual = dual - rows @ np.linalg.lstsq(rows, dual, rcond=None)[0]
        kept = rows.any(axis=1) & dual.any(axis=1)
        if not kept.any():
            return held()
        rows, dual = rows[kept], dual[kept]
        fan = fan_gauge(
            rows, dual, lambda one: bound_gauge(rows, one, effort=0.02).value, best=0.0,
            max_calls=int(rng.choice([1, 8, 30])),
        )  # fmt: skip
        return worst(
            [_against(rows, dual, fan.upper_bound, rng), _against(rows, dual, gauge_bound(rows, dual), rng)]
        )

    return ask


def _against(rows: np.ndarray, dual: np.ndarray, upper: float, rng: np.random.Generator) -> Outcome:
    witness = best_neuron(rows, dual, rng)
    if not upper >= 0:
        return refuted(f"the upper bound is {upper}")
    if witness is None or not witness.square:
        return held()
    if witness.exceeds(upper):
        return refuted(f"upper bound {upper:.9g}, a neuron reaches {witness.value:.9g} (N, D = {rows.shape})")
    return held(upper / witness.value - 1 if witness.value else np.inf)


def _compare(X: np.ndarray, bias: float, dual: np.ndarray, rng: np.random.Generator) -> Outcome:
    found = covopt.price(X, dual, bias=bias)
    rows = lifted(X, bias)
    witness = best_neuron(rows, dual, rng)
    if not found.upper_bound >= 0:
        return refuted(f"the upper bound is {found.upper_bound}")
    if witness is None or not witness.square:
        return held()
    if witness.exceeds(found.upper_bound):
        return refuted(
            f"upper bound {found.upper_bound:.9g}, a neuron reaches {witness.value:.9g}"
            f" (exact={found.exact}, N, D = {rows.shape})"
        )
    if found.exact and len(found.neurons):
        best = max(value_of(rows, dual, w) for w in found.neurons[:4] if np.any(w))
        reached = Witness(witness.neuron, best).value
        if reached < found.upper_bound * (1 - 1e-6) and reached < witness.value * (1 - LOOSE):
            return refuted(
                f"called exact, but its best neuron reaches {reached:.9g} and another {witness.value:.9g}"
            )
    return held(found.upper_bound / witness.value - 1 if witness.value else np.inf)
