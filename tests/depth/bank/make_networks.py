"""Find the networks of ``networks.json``: ``python -m tests.depth.bank.make_networks [--seeds N] [name ...]``.

For each table the search of ``representation_cost``, or of ``fit``, from several seeds. What is stored stays where it
costs less, so more seeds only lower the costs.
"""

from __future__ import annotations

import argparse
import json

import numpy as np

import covopt
from tests.depth.bank.exact import ExactNetwork, Layers, fractions
from tests.depth.bank.tables import NETWORKS, TABLES, DeepTable


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
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    for given in TABLES:
        if asked.names and not any(name in given.name for name in asked.names):
            continue
        stored = json.loads(NETWORKS.read_text())
        best = exact_cost(given, stored[given.name]) if given.name in stored else np.inf
        solve, options = (covopt.fit, {"lam": given.lam}) if given.lam else (covopt.representation_cost, {})
        for seed in range(asked.seeds):
            found = solve(
                given.X, given.Y, depth=given.depth, bias=given.bias, output_bias=given.output_bias,
                random_state=seed, time_limit_s=asked.seconds, **options,
            )  # fmt: skip
            layers = [(w if b is None else np.column_stack([w, b])).tolist() for w, b in found.network.layers]
            cost = exact_cost(given, layers)
            if cost < best:
                best, stored[given.name] = cost, layers
        print(f"{given.name}: {best:.9f}", flush=True)
        lines = [f"{json.dumps(name)}: {json.dumps(stored[name])}" for name in sorted(stored)]
        NETWORKS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
