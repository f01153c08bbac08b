"""Generators of tables, dual points and targets of kinds that have caused errors, each from a seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Rng = np.random.Generator
Table = tuple[np.ndarray, float]


def plain(rng: Rng, n: int, d: int) -> Table:
    """Return standard normal points."""
    return rng.standard_normal((n, d)), float(rng.choice([0.0, 1.0, 1.0]))


def near_line(rng: Rng, n: int, d: int) -> Table:
    """Return points on a line, and one off it by 1e-15 to 1e-6."""
    base, way = rng.standard_normal(d) * rng.choice([0.0, 1.0]), rng.standard_normal(d)
    X = base + np.outer(rng.choice([rng.standard_normal(n), np.arange(n) / n]), way)
    X[rng.integers(n)] += 10.0 ** rng.uniform(-17, -6) * rng.standard_normal(d)
    return X, float(rng.choice([0.0, 1.0, 1.0]))


def clusters(rng: Rng, n: int, d: int) -> Table:
    """Return points within 1e-15 to 1e-2 of few centres."""
    centres = rng.standard_normal((rng.integers(1, 4), d))
    spread = 10.0 ** rng.uniform(-17, -2)
    X = centres[rng.integers(len(centres), size=n)] + spread * rng.standard_normal((n, d))
    return X, float(rng.choice([0.0, 1.0, 1.0]))


def far(rng: Rng, n: int, d: int) -> Table:
    """Return points far from the origin: by 1e4 to 1e8 times their spread, or by 2^22 for integer points."""
    if rng.random() < 0.3:
        return rng.integers(-3, 4, (n, d)) + 2.0 ** rng.integers(15, 30), 1.0
    away = 10.0 ** rng.uniform(4, 8) * rng.standard_normal(d)
    return rng.standard_normal((n, d)) + away, float(rng.choice([0.0, 1.0, 1.0]))


def units(rng: Rng, n: int, d: int) -> Table:
    """Return columns whose units differ by up to 14 orders of magnitude."""
    low, high = rng.choice([(-7, 7), (-12, 0), (-1, 8)])
    return rng.standard_normal((n, d)) * 10.0 ** rng.uniform(low, high, d), float(rng.choice([0.0, 1.0, 1.0]))


def row_sizes(rng: Rng, n: int, d: int) -> Table:
    """Return rows of very different lengths."""
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-7, 7, (n, 1))
    return X, float(rng.choice([0.0, 0.0, 1.0]))


def odd_bias(rng: Rng, n: int, d: int) -> Table:
    """Return points with a tiny bias, such as 1e-7, or a huge one."""
    X = rng.standard_normal((n, d))
    return X, 10.0 ** (rng.uniform(-17, -3) if rng.random() < 0.8 else rng.uniform(3, 9))


def grid(rng: Rng, n: int, d: int) -> Table:
    """Return small integers: many rows through one vertex, parallel rows, repeated ones."""
    return rng.integers(-2, 3, (n, d)).astype(float), float(rng.choice([0.0, 1.0, 1.0]))


def near_rays(rng: Rng, n: int, d: int) -> Table:
    """Return rows without bias near few lines, up to angles of 1e-17 to 1e-6."""
    ways = rng.standard_normal((rng.integers(1, 4), d))
    X = ways[rng.integers(len(ways), size=n)] * rng.choice(
        [-1.0, 1.0, 0.5, 3.0, rng.standard_normal()], (n, 1)
    )
    return X + 10.0 ** rng.uniform(-17, -6) * rng.standard_normal((n, d)), 0.0


def mixed(rng: Rng, n: int, d: int) -> Table:
    """Return two of these tables, stacked."""
    first, second = (TABLES[name] for name in rng.choice(list(TABLES), 2))
    X, bias = first(rng, n, d)
    half = int(rng.integers(1, n)) if n > 1 else 1
    X[:half] = second(rng, half, d)[0]
    return X, bias


TABLES: dict[str, Callable[[Rng, int, int], Table]] = {
    make.__name__.replace("_", "-"): make
    for make in (plain, near_line, clusters, far, units, row_sizes, odd_bias, grid, near_rays)
}
ALL_TABLES = {**TABLES, "mixed": mixed}


def small(rng: Rng, *kinds: str, most: int = 7, least: int = 1) -> Table:
    """Return a table of few rows and one or two columns, of one of the named kinds, or of any kind by default."""
    n, d = int(rng.integers(least, most + 1)), int(rng.integers(1, 3))
    kind = kinds[0] if len(kinds) == 1 else str(rng.choice(list(kinds or ALL_TABLES)))
    return ALL_TABLES[kind](rng, n, d)


def dual(rng: Rng, X: np.ndarray, k: int = 1) -> np.ndarray:
    """Return a dual point (N,) or (N, k), any scale: random, sparse, mixed sizes, or differences over distances."""
    n = len(X)
    shape = (n,) if k == 1 else (n, k)
    values = rng.standard_normal(shape)
    kind = rng.integers(6)
    if kind == 1:
        values = np.sign(values)
    elif kind == 2 and n > 2:
        values[rng.permutation(n)[: n // 2]] = 0.0
    elif kind == 3:
        values *= 10.0 ** rng.uniform(-7, 7, shape)
    elif kind in (4, 5) and n > 1:
        # like optimal dual points for close rows: opposite signs, inversely proportional to the distance
        values *= 0.0 if kind == 5 else 1.0
        for _ in range(2):
            i, j = rng.choice(n, 2, replace=False)
            distance = float(np.linalg.norm(X[i] - X[j]))
            size = rng.standard_normal(shape[1:]) / (distance or 1.0)
            values[i] += size
            values[j] -= size
    if rng.random() < 0.1:
        values *= 10.0 ** rng.uniform(-80, 80)
    if not values.any():
        values[0] = 1.0
    return values


def targets(rng: Rng, X: np.ndarray, k: int = 1) -> np.ndarray:
    """Return targets (N,) or (N, k) of ordinary, tiny or huge size, smooth, in steps, or of low rank."""
    n = len(X)
    shape = (n,) if k == 1 else (n, k)
    kind = rng.integers(5)
    values = rng.standard_normal(shape)
    if kind == 1:
        values = np.sign(values)
    elif kind == 2:
        centred = (X - X.mean(axis=0)) / (np.abs(X - X.mean(axis=0)).max(axis=0) + 1e-300)
        values = np.sin(2 * centred @ rng.standard_normal((X.shape[1], k))).reshape(shape)
    elif kind == 3:
        values = rng.integers(-2, 3, shape).astype(float)
    elif kind == 4 and k > 1:
        values = np.outer(rng.standard_normal(n), rng.standard_normal(k))
    if rng.random() < 0.15:
        values *= 10.0 ** rng.choice([-87, -34, -20, -9, 9, 20, 34, 87])
    return values


def labels(rng: Rng, n: int) -> np.ndarray:
    """Return labels ±1, both present if n > 1."""
    values = rng.choice([-1.0, 1.0], n)
    if n > 1:
        values[0] = -values[-1]
    return values


def sample_weight(rng: Rng, n: int) -> np.ndarray | None:
    """Return None, or weights of which some are zero and some tiny."""
    kind = rng.integers(4)
    if kind < 2:
        return None
    weights = rng.random(n) * (10.0 ** rng.uniform(-9, 0, n) if kind == 3 else 1.0)
    weights[rng.random(n) < 0.3] = 0.0
    if not weights.any():
        weights[0] = 1.0
    return weights
