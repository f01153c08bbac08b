"""Twenty random tables, N = 3 … 6, d ≤ 2, L = 3 … 6: bounds on R_L, and plain training beside them."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from covopt.depth import DeepSolution, representation_cost
from covopt.depth.descent import meet, norm_of
from covopt.depth.layers import Layout
from covopt.network import DeepReLUNetwork

COUNT = 20
WIDTH = 8
LAMS = (1e-2, 1e-3, 1e-4, 1e-5)
STEPS = (1500, 500, 500, 500)  # of Adam, then 100 of L-BFGS
REPAIRED = 30  # of the trained networks: those with the least norm among the ones that fit


@dataclass(frozen=True)
class Table:
    """One instance."""

    X: np.ndarray
    y: np.ndarray
    depth: int
    bias: float


def table(i: int) -> Table:
    """Return the i-th: standard normal; every third plane without biases."""
    rng = np.random.default_rng(100 + i)
    n, d, depth = 3 + i % 4, 1 + (i + i // 4) % 2, 3 + (i // 4) % 4
    bias = 0.0 if i % 3 == 0 and d == 2 else 1.0
    return Table(rng.standard_normal((n, d)), rng.standard_normal(n), depth, bias)


def plain_training(given: Table, seeds: int) -> float:
    """Return the least squared norm that training with weight decay reaches, λ falling; repaired to interpolate."""
    from covopt.training import Phase, train

    run = None
    widths = (WIDTH,) * (given.depth - 1)
    for lam, steps in zip(LAMS, STEPS, strict=True):
        run = train(
            given.X, given.y, widths=widths, lam=lam, bias=given.bias, seeds=seeds, start=run,
            schedule=[Phase("adam", steps, learning_rate=0.01, decay="cosine"), Phase("lbfgs", 100)],
        )  # fmt: skip
    assert run is not None
    order = np.argsort(run.table.objective.to_numpy())[:REPAIRED]
    best = np.inf
    for k in order.tolist():
        network = run.network(k)
        layers = [w if b is None else np.column_stack([w, b]) for w, b in network.layers]
        layout, theta = Layout.of_layers(layers, given.X.shape[1], given.bias, "none")
        found = meet(layout, theta, given.X, given.y[:, None])
        if found is not None:
            best = min(best, norm_of(layout, found))
    return best


def bracket(given: Table) -> tuple[DeepSolution, float]:
    """Return the bracket of a table and its processor seconds."""
    began = time.process_time()
    found = representation_cost(given.X, given.y, depth=given.depth, bias=given.bias, time_limit_s=None)
    return found, time.process_time() - began


def run_training(only: list[int] | None, seeds: int) -> None:
    """Print what plain training reaches on each table: the least of all seeds, to lay beside the brackets."""
    print(f" i N d L β   best of {seeds} trained networks   CPU s")
    for i in range(COUNT) if only is None else only:
        given, began = table(i), time.process_time()
        least = plain_training(given, seeds)
        print(
            f"{i:2d} {len(given.X)} {given.X.shape[1]} {given.depth} {given.bias:g} {least:30.5f} "
            f"{time.process_time() - began:7.1f}",
            flush=True,
        )


def run(only: list[int] | None, seeds: int) -> None:
    """Print a line for each table."""
    print(
        " i N d L β      lower      upper  ratio  CPU s"
        + ("   training" if seeds else "")
        + "  lower bound by"
    )
    ratios = []
    for i in range(COUNT) if only is None else only:
        given = table(i)
        found, seconds = bracket(given)
        ratios.append(found.lower_bound / found.cost)
        beside = f" {plain_training(given, seeds):10.4f}" if seeds else ""
        print(
            f"{i:2d} {len(given.X)} {given.X.shape[1]} {given.depth} {given.bias:g} {found.lower_bound:10.4f} "
            f"{found.cost:10.4f} {ratios[-1]:6.3f} {seconds:6.1f}{beside}  {found.bounds[0].title}",
            flush=True,
        )
    print(f"mean ratio {np.mean(ratios):.3f}, least {np.min(ratios):.3f}")


def run_pieces(count: int) -> None:
    """Print pieces, rank and seconds of random networks of widths 16, 16, 16 on the square."""
    from covopt.depth import jacobian_rank

    for seed in range(count):
        rng = np.random.default_rng(seed)
        shapes = ((16, 2), (16, 16), (16, 16), (2, 16))
        layers = [rng.standard_normal(shape) for shape in shapes]
        network = DeepReLUNetwork(layers, [0.5 * rng.standard_normal(shape[0]) for shape in shapes])
        began = time.process_time()
        found = jacobian_rank(network, -1.0, 1.0)
        print(
            f"seed {seed}: {found.n_pieces} pieces, rank {found.rank}, complete {found.complete}, "
            f"{time.process_time() - began:.2f} s"
        )
