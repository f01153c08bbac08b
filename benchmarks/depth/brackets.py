"""Brackets of deep networks, a line for each table: ``python -m benchmarks.depth.brackets [SET …] [--only WORD]``.

``random``: the twenty tables of docs/depth.md, N = 3 … 6, d ≤ 2, L = 3 … 6; ``--seeds`` adds the best of that many
trained networks. ``pairs`` and ``biases``: one and two rows, without and with biases, at ``--depths``. These tables
are those of ``tests/depth/bank``. ``fits``: training with weight decay. Times are processor seconds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import covopt
from covopt.depth.descent import meet, norm_of
from covopt.depth.layers import Layout
from tests.depth.bank.tables import SETS, DeepTable

WIDTH = 8
LAMS = (1e-2, 1e-3, 1e-4, 1e-5)
STEPS = (1500, 500, 500, 500)  # steps of Adam for each λ, followed by 100 of L-BFGS
REPAIRED = 30  # trained networks, those with the least objective, that are repaired to interpolate
Asked = tuple[DeepTable, dict[str, Any]]  # a table, and options of a fit


def fits() -> Iterator[Asked]:
    """Yield fits: |x₁| with noise, with λ as a multiple of the shallow λ_max, and classes."""
    for n, d, depth, lam in (
        (4, 1, 3, "0.05max"), (5, 2, 3, "0.05max"), (6, 1, 3, "0.05max"), (6, 2, 4, "0.05max"), (6, 2, 6, "0.05max"),
        (12, 1, 3, "0.05max"), (12, 1, 3, "0.3max"), (30, 1, 3, "0.05max"), (30, 1, 3, "0.3max"),
    ):  # fmt: skip
        rng = np.random.default_rng(n)
        X = rng.standard_normal((n, d))
        y = np.abs(X[:, 0]) + 0.3 * rng.standard_normal(n)
        yield DeepTable(f"squared, {lam}", X, y, depth), {"lam": lam}
    X = np.random.default_rng(6).standard_normal((6, 2))
    for loss, y in (
        ("logistic", np.prod(X, axis=1) > 0),
        ("softmax-cross-entropy", np.array(list("abcabc"))),
    ):
        yield DeepTable(loss, X, y, 3), {"lam": 0.02, "loss": loss}


def tables(kind: str, depths: list[int]) -> Iterator[Asked]:
    """Yield the tables of a set."""
    if kind == "fits":
        yield from fits()
        return
    for given in SETS[kind]:
        if kind == "random":
            yield given, {}
        elif given.depth == 3:
            name = given.name.removesuffix(", L = 3")
            yield from ((replace(given, name=name, depth=depth), {}) for depth in depths)


def plain_training(given: DeepTable, seeds: int) -> float:
    """Return the least squared norm of networks trained with decreasing weight decay and repaired to interpolate."""
    from covopt.training import Phase, train

    run = None
    for lam, steps in zip(LAMS, STEPS, strict=True):
        run = train(
            given.X, given.Y, widths=(WIDTH,) * (given.depth - 1), lam=lam, bias=given.bias, seeds=seeds, start=run,
            schedule=[Phase("adam", steps, learning_rate=0.01, decay="cosine"), Phase("lbfgs", 100)],
        )  # fmt: skip
    assert run is not None
    best = np.inf
    for k in np.argsort(run.table.objective.to_numpy())[:REPAIRED].tolist():
        layers = [w if b is None else np.column_stack([w, b]) for w, b in run.network(k).layers]
        layout, theta = Layout.of_layers(layers, given.X.shape[1], given.bias, "none")
        found = meet(layout, theta, given.X, given.Y)
        if found is not None:
            best = min(best, norm_of(layout, found))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("sets", nargs="*", default=["random"], help="random, pairs, biases, fits")
    parser.add_argument("--only", default="", metavar="WORD", help="tables whose names have it in them")
    parser.add_argument("--depths", type=int, nargs="*", default=list(range(2, 11)))
    parser.add_argument("--seconds", type=float, help="of each bracket, by the clock")
    parser.add_argument(
        "--seeds", type=int, default=0, help="networks of plain training beside each random one"
    )
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'table':32s}  N d  L β        lower        upper  ratio    status  verified  CPU s  best bound")
    ratios = []
    for given, options in (each for kind in asked.sets for each in tables(kind, asked.depths)):
        if asked.only not in given.name:
            continue
        began = time.process_time()
        solve = covopt.fit if options else covopt.representation_cost
        terms = {"depth": given.depth, "bias": given.bias, "output_bias": given.output_bias}
        found: Any = solve(given.X, given.Y, time_limit_s=asked.seconds, **terms, **options)
        seconds = time.process_time() - began
        upper = found.objective if options else found.cost
        ratios.append(found.lower_bound / upper)
        best = found.bounds[0].title if given.depth > 2 else "that of min_norm"
        beside = f"  trained {plain_training(given, asked.seeds):.4f}" if asked.seeds else ""
        print(
            f"{given.name:32s} {len(given.X):2d} {given.X.shape[1]} {given.depth:2d} {given.bias:g} "
            f"{found.lower_bound:12.7f} {upper:12.7f} {ratios[-1]:6.3f} {found.status.code:>9s}  "
            f"{covopt.verify(found).ok!s:8s} {seconds:6.1f}  {best}{beside}",
            flush=True,
        )
    if ratios:
        print(f"mean ratio {np.mean(ratios):.3f}, least {np.min(ratios):.3f}")


if __name__ == "__main__":
    main()
