"""Rows of three numbers against all faces in integers: the maximum itself, and not only what some neuron reaches.

``covopt.proofs.checker.faces`` shares no line with the oracles. With one output it returns the maximum, rounded up by
nothing; with several by 1e-12 of itself at most.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

import covopt
from benchmarks.adversary import tables
from benchmarks.adversary.exactly import lifted
from benchmarks.adversary.outcome import Outcome, held, refuted
from covopt.proofs.checker.faces import square_above

Rng = np.random.Generator
ROUNDED = Fraction(1, 1 << 36)  # by which the square of the maximum over several outputs is too large


def lattice(rng: Rng, n: int) -> np.ndarray:
    """A corner of a lattice, of any width and anywhere."""
    corner = np.stack(np.meshgrid(np.arange(4.0), np.arange(4.0)), axis=-1).reshape(-1, 2)[:n]
    places = corner * 10.0 ** rng.uniform(-8, 8) + 10.0 ** rng.uniform(-3, 9) * rng.integers(0, 2)
    return np.column_stack([places, np.ones(len(places))])


def opposite(rng: Rng, n: int) -> np.ndarray:
    """Rows and their opposites, some off by the last digit."""
    half = rng.standard_normal((max(1, n // 2), 3))
    last = 1.0 + rng.integers(-1, 2, (len(half), 1)) * 2.0**-52
    return np.vstack([half, -half * rng.choice([1.0, 3.0, 1.0 / 3.0]) * last])


def coplanar(rng: Rng, n: int) -> np.ndarray:
    """Rows in a plane but for one."""
    rows = rng.integers(-3, 4, (n, 2)) @ rng.standard_normal((2, 3))
    rows[0] += rng.standard_normal(3) * 10.0 ** rng.uniform(-17, 0)
    return rows


def narrow(rng: Rng, n: int) -> np.ndarray:
    """Few directions, a line beside them, all moved by 1e-12 to 1e-5: ranks that rounding can hardly tell."""
    rows = np.vstack([tables.near_rays(rng, (n + 1) // 2, 3)[0], tables.near_line(rng, (n + 1) // 2, 3)[0]])
    return rows + 10.0 ** rng.uniform(-12, -5) * rng.standard_normal(rows.shape)


def any_table(rng: Rng, n: int) -> np.ndarray:
    """One of the tables that have been a trouble."""
    rows = lifted(*tables.ALL_TABLES[str(rng.choice(list(tables.ALL_TABLES)))](rng, n, 2))
    return rows if rows.shape[1] <= 3 else rows[:, :3]


KINDS: dict[str, Callable[[Rng, int], np.ndarray]] = {
    "lattice": lattice, "opposite": opposite, "coplanar": coplanar, "narrow": narrow, "any": any_table,
}  # fmt: skip


def whole(kind: str) -> Callable[[Rng], Outcome]:
    """A bound on the largest activation is not below the maximum over all faces, for one output and for several."""

    def ask(rng: Rng) -> Outcome:
        rows = KINDS[kind](rng, int(rng.choice([1, 2, 3, 4, 6, 8, 12, 20])))
        dual = tables.dual(rng, rows, int(rng.choice([1, 1, 2, 3])))
        bound = covopt.price(rows, dual).upper_bound
        square = square_above(rows, dual)
        least = square if dual.ndim == 1 else square * (1 - ROUNDED)
        if not bound >= 0 or (bound < np.inf and Fraction(bound) ** 2 < least):
            return refuted(f"upper bound {bound:.17g}, the maximum is {float(square) ** 0.5:.17g}")
        return held(float(Fraction(bound) ** 2 / square) ** 0.5 - 1 if square and bound < np.inf else np.inf)

    return ask
