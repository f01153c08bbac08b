"""Brackets of deep networks, a line for each table: ``python -m benchmarks.depth.brackets [SET …] [--only WORD]``.

``random``: the twenty tables of docs/depth.md, N = 3 … 6, d ≤ 2, L = 3 … 6, with ``--seeds`` beside the best of so
many networks of plain training. ``pairs`` and ``biases``: one and two rows, without and with biases, at ``--depths``.
``fits``: training with weight decay. Seconds are of the processor.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import covopt
from covopt.depth.descent import meet, norm_of
from covopt.depth.layers import Layout

COUNT = 20
WIDTH = 8
LAMS = (1e-2, 1e-3, 1e-4, 1e-5)
STEPS = (1500, 500, 500, 500)  # of Adam, then 100 of L-BFGS
REPAIRED = 30  # of the trained networks: those with the least norm among the ones that fit
ACUTE, OBTUSE = 1.0, 2.2  # angles of two rows


@dataclass(frozen=True)
class Table:
    """One instance."""

    X: np.ndarray
    y: np.ndarray
    depth: int
    bias: float = 1.0
    name: str = ""
    options: tuple[tuple[str, Any], ...] = ()


def table(i: int) -> Table:
    """Return the i-th random one: standard normal; every third plane without biases."""
    rng = np.random.default_rng(100 + i)
    n, d, depth = 3 + i % 4, 1 + (i + i // 4) % 2, 3 + (i // 4) % 4
    bias = 0.0 if i % 3 == 0 and d == 2 else 1.0
    return Table(rng.standard_normal((n, d)), rng.standard_normal(n), depth, bias, f"random {i}")


def rows(angle: float) -> np.ndarray:
    """Return two rows at an angle."""
    return np.array([[1.0, 0.0], [1.3 * np.cos(angle), 1.3 * np.sin(angle)]])


def pairs() -> Iterator[tuple[str, Any, Any]]:
    """Yield name, X, Y of tables without biases that have closed forms, or convex ones in a few numbers."""
    yield "one row, k = 2", [[3.0, 4.0]], [[1.0, 2.0]]
    yield "X = (1, -1), Y = (1, 1)", [[1.0], [-1.0]], [1.0, 1.0]
    yield "X = I, Y >= 0: a linear map", np.eye(2), [[1.0, 0.3], [0.2, 0.8]]
    for name, angle in (("acute", ACUTE), ("obtuse", OBTUSE)):
        yield f"{name}, k = 1, same sign", rows(angle), [1.0, 0.7]
        yield f"{name}, k = 1, opposite signs", rows(angle), [1.0, -0.7]
        yield f"{name}, k = 2, y1.y2 > 0", rows(angle), [[1.0, 0.2], [0.7, 1.1]]
        yield f"{name}, k = 2, y1.y2 = 0", rows(angle), [[1.0, 0.2], [-0.2, 1.0]]
        yield f"{name}, k = 2, y1.y2 < 0", rows(angle), [[1.0, 0.2], [-0.9, 0.5]]
    yield "obtuse, k = 1, sizes 1 and 0.03", rows(OBTUSE), [1.0, 0.03]
    yield "acute, k = 2, y1.y2 < 0, little", rows(ACUTE), [[1.0, 0.2], [-0.3, 1.0]]


def biases() -> Iterator[tuple[str, Any, Any]]:
    """Yield name, X, Y of one or two rows, for networks with biases of weight one."""
    yield "one row, biases", [[1.0, 2.0]], [1.5]
    yield "acute, one target, biases", rows(ACUTE), [1.2, 1.2]
    yield "obtuse, one target, biases", 1.5 * rows(OBTUSE), [1.2, 1.2]
    yield "acute, same sign, biases", rows(ACUTE), [0.7, 1.0]
    rng = np.random.default_rng(8)
    yield "(seed 8), same sign, biases", rng.standard_normal((2, 1)), rng.standard_normal(2)
    yield "acute, opposite signs, biases", rows(ACUTE), [1.0, -0.7]
    yield "acute, k = 2, biases", rows(ACUTE), [[1.0, 0.2], [-0.3, 0.8]]
    yield "obtuse, opposite signs, biases", 1.5 * rows(OBTUSE), [1.0, -0.7]


def fits() -> Iterator[Table]:
    """Yield |x₁| with noise, λ as a share of the shallow λ_max, and classes."""
    for n, d, depth, lam in (
        (4, 1, 3, "0.05max"), (5, 2, 3, "0.05max"), (6, 1, 3, "0.05max"), (6, 2, 4, "0.05max"), (6, 2, 6, "0.05max"),
        (12, 1, 3, "0.05max"), (12, 1, 3, "0.3max"), (30, 1, 3, "0.05max"), (30, 1, 3, "0.3max"),
    ):  # fmt: skip
        rng = np.random.default_rng(n)
        X = rng.standard_normal((n, d))
        y = np.abs(X[:, 0]) + 0.3 * rng.standard_normal(n)
        yield Table(X, y, depth, name=f"squared, {lam}", options=(("lam", lam),))
    X = np.random.default_rng(6).standard_normal((6, 2))
    for loss, y in (
        ("logistic", np.prod(X, axis=1) > 0),
        ("softmax-cross-entropy", np.array(list("abcabc"))),
    ):
        yield Table(X, y, 3, name=loss, options=(("lam", 0.02), ("loss", loss)))


def tables(kind: str, depths: list[int]) -> Iterator[Table]:
    """Yield the tables of a set."""
    if kind == "random":
        yield from map(table, range(COUNT))
    elif kind == "fits":
        yield from fits()
    else:
        for name, X, Y in pairs() if kind == "pairs" else biases():
            for depth in depths:
                yield Table(np.array(X), np.array(Y), depth, float(kind == "biases"), name)


def plain_training(given: Table, seeds: int) -> float:
    """Return the least squared norm that training with weight decay reaches, λ falling; repaired to interpolate."""
    from covopt.training import Phase, train

    run = None
    for lam, steps in zip(LAMS, STEPS, strict=True):
        run = train(
            given.X, given.y, widths=(WIDTH,) * (given.depth - 1), lam=lam, bias=given.bias, seeds=seeds, start=run,
            schedule=[Phase("adam", steps, learning_rate=0.01, decay="cosine"), Phase("lbfgs", 100)],
        )  # fmt: skip
    assert run is not None
    best = np.inf
    for k in np.argsort(run.table.objective.to_numpy())[:REPAIRED].tolist():
        layers = [w if b is None else np.column_stack([w, b]) for w, b in run.network(k).layers]
        layout, theta = Layout.of_layers(layers, given.X.shape[1], given.bias, "none")
        found = meet(layout, theta, given.X, given.y[:, None])
        if found is not None:
            best = min(best, norm_of(layout, found))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "sets", nargs="*", default=["random"], metavar="SET", help="random, pairs, biases, fits"
    )
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
    for given in (each for kind in asked.sets for each in tables(kind, asked.depths)):
        if asked.only not in given.name:
            continue
        began, options = time.process_time(), dict(given.options)
        solve = covopt.fit if options else covopt.representation_cost
        found: Any = solve(
            given.X, given.y, depth=given.depth, bias=given.bias, time_limit_s=asked.seconds, **options
        )
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
