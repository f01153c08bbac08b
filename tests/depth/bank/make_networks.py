"""Find the networks of ``networks.json``: ``python -m tests.depth.bank.make_networks [--seeds N] [name ...]``.

For each table the search of ``representation_cost``, or of ``fit``, from several seeds, without its bounds. A network
that costs more than the one that is stored does not replace it, so more seeds only lower the costs.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import time
from collections.abc import Iterator

import numpy as np

import covopt
from covopt.depth.upper import UpperSearch
from covopt.errors import CovoptError
from covopt.limits import TimeUp, limited
from tests.depth.bank.exact import ExactNetwork, Layers, fractions
from tests.depth.bank.tables import NETWORKS, TABLES, DeepTable


def candidates(given: DeepTable, seed: int, seconds: float) -> Iterator[Layers]:
    """Yield the networks that a search finds, in the order in which it does."""
    if given.lam is not None:
        found = covopt.fit(
            given.X, given.Y, lam=given.lam, depth=given.depth, bias=given.bias, output_bias=given.output_bias,
            random_state=seed, time_limit_s=seconds,
        )  # fmt: skip
        yield [(w if b is None else np.column_stack([w, b])).tolist() for w, b in found.network.layers]
        return
    offered = []
    search = UpperSearch(
        given.data, given.depth, given.output_bias, None, seed,
        lambda layout, theta, _: offered.append((layout.depth, [w.tolist() for w in layout.split(theta)])),
    )  # fmt: skip
    try:
        with limited(seconds):
            search.begin()
            search.go_on()
    except TimeUp:
        pass
    yield from (layers for depth, layers in offered if depth == given.depth)


def exact_cost(given: DeepTable, layers: Layers) -> float:
    """Return what a network costs, through the points exactly, or with its squared loss."""
    network = ExactNetwork([fractions(w) for w in layers], given.bias, given.output_bias)
    X, Y = fractions(given.X), fractions(given.Y)
    if given.lam is None:
        return float(network.through(X, Y).cost())
    return float(network.objective(X, Y, given.lam))


def main() -> None:
    """Search, and store what is better."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    for given in TABLES:
        if options.names and not any(name in given.name for name in options.names):
            continue
        began, best = time.process_time(), None
        for seed in range(options.first, options.first + options.seeds):
            for layers in candidates(given, seed, options.seconds):
                try:
                    cost = exact_cost(given, layers)
                except (ValueError, CovoptError):
                    continue
                if best is None or cost < best[0]:
                    best = cost, layers
        if best is None:
            print(f"{given.name}: nothing met the points", flush=True)
            continue
        known = store(given, *best)
        print(
            f"{given.name}: {best[0]:.9f}, known {known:.9f}, {time.process_time() - began:.0f} s", flush=True
        )


def store(given: DeepTable, cost: float, layers: Layers) -> float:
    """Replace the network that is stored where it costs more; return what the best one costs."""
    with open(NETWORKS, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        stored = json.loads(NETWORKS.read_text() or "{}")
        before = exact_cost(given, stored[given.name]) if given.name in stored else float("inf")
        if cost < before:
            stored[given.name] = layers
            lines = [f"{json.dumps(name)}: {json.dumps(stored[name])}" for name in sorted(stored)]
            NETWORKS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return min(cost, before)


if __name__ == "__main__":
    main()
