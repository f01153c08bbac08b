"""Brackets on tables as they come: ``python -m benchmarks.real_tables [SET …] [--only NAME] [--limit S]``.

``newcomer``: a year, an income, an integer and noise, as they are and standardised; ``far``: years, incomes and
stamps beside standard normal columns. Kernels are compiled before the clock starts; seconds are of the processor, of
the solve and of the verification.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import covopt

Solve = Callable[..., Any]
STAMPS = {"seconds": (1.6e9, 3e7), "milliseconds": (1.6e12, 3e10), "nanoseconds": (1.6e18, 3e16)}


def standardised(values: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and standard deviation 1."""
    return (values - values.mean(axis=0)) / values.std(axis=0)


def newcomer() -> Iterator[tuple[str, Solve]]:
    """Yield name and solve of a newcomer's own tables: targets with a kink, an interaction and noise."""
    for n, d, seed in (
        (100, 8, 0), (100, 10, 1), (150, 12, 2), (200, 10, 0), (200, 10, 1), (200, 10, 2), (300, 8, 3), (300, 10, 4)
    ):  # fmt: skip
        rng = np.random.default_rng(seed)
        year = rng.integers(1950, 2021, n).astype(float)
        income = np.round(np.exp(10.3 + 0.5 * rng.standard_normal(n) + 0.005 * (year - 1985)), -1)
        rooms = rng.integers(1, 8, n).astype(float)
        mixing = 0.5 * rng.standard_normal((d - 3, d - 3)) + np.eye(d - 3)
        others = np.round(rng.standard_normal((n, d - 3)) @ mixing, 3)
        price = 120.0 + 1.2 * np.maximum(year - 1990, 0.0) + 30.0 * np.log(income / 3e4) + 9.0 * rooms
        price += 6.0 * others[:, 0] * (rooms > 4) + 5.0 * np.abs(others[:, 1]) + 10.0 * rng.standard_normal(n)
        call = partial(covopt.fit, np.column_stack([year, income, rooms, others]), np.round(price, 1))
        yield f"newcomer {n} x {d}, seed {seed}", call
        yield f"newcomer {n} x {d}, seed {seed}, standardised", partial(call, standardise=True)


def far(n: int = 100) -> Iterator[tuple[str, Solve]]:
    """Yield name and solve of one to three inputs, the first far from the origin."""
    for inputs in (1, 2, 3):
        for kind in ("year", "income", *STAMPS):
            rng = np.random.default_rng(n)
            if kind == "year":
                first = rng.permutation(1871.0 + np.arange(n))
            elif kind == "income":
                first = np.exp(rng.uniform(np.log(1e4), np.log(1e6), n)).round(2)
            else:
                first = (STAMPS[kind][0] + STAMPS[kind][1] * rng.random(n)).round()
            X = np.column_stack([first, rng.standard_normal((n, inputs - 1))])
            unit = standardised(X)
            y = np.sin(2.0 * unit[:, 0]) + unit[:, -1] * unit[:, 0] + 0.1 * rng.standard_normal(n)
            yield f"{kind}, {inputs} inputs", partial(covopt.min_norm, X, y)


SETS = {"newcomer": newcomer, "far": far}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("sets", nargs="*", default=list(SETS), metavar="SET", help=", ".join(SETS))
    parser.add_argument("--only", nargs="*", default=[""], help="parts of the tables' names")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for each table")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(1)
    covopt.min_norm(rng.standard_normal((30, 6)), rng.standard_normal(30), time_limit_s=20.0)
    covopt.fit(rng.standard_normal((30, 9)), rng.standard_normal(30), lam=0.1, time_limit_s=20.0)
    print(f"{'table':38s} status            upper         lower      gap neurons   cpu s check s  verified")
    for name, solve in (each for kind in asked.sets for each in SETS[kind]()):
        if not any(part in name for part in asked.only):
            continue
        began = time.process_time()
        solution = solve(time_limit_s=asked.limit)
        seconds, began = time.process_time() - began, time.process_time()
        checked = covopt.verify(solution)
        upper = solution.cost if solution.lam is None else solution.objective
        print(
            f"{name:38s} {solution.status.code:10s} {upper:13.8g} {solution.lower_bound:13.8g} {solution.gap:8.1e} "
            f"{len(solution.network):7d} {seconds:7.1f} {time.process_time() - began:7.1f}  {checked.ok}",
            flush=True,
        )


if __name__ == "__main__":
    main()
