"""Pricing all faces of random points: pytest benchmarks/micro/bench_flats.py --benchmark-enable."""

import numpy as np
import pytest

from covopt.oracles.scalar.flats import FlatSweep


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(("n", "r"), [(50, 4), (100, 4), (30, 5), (50, 5), (25, 6)])
def test_full_pricing(benchmark, n, r, n_threads):
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.standard_normal((n, r - 1)), np.ones(n)])
    sweep = FlatSweep(rows)
    mu = rng.standard_normal(n)
    FlatSweep(np.eye(r)).price(np.ones(r), np.zeros(r), 0.0)  # compile outside the clock
    benchmark.extra_info["arcs"] = sweep.n_faces
    benchmark.pedantic(
        sweep.price, args=(mu, np.zeros(r), 0.0), kwargs={"n_threads": n_threads}, rounds=3, iterations=1
    )
