"""Upper bounds on the dual norm, max |F(w)|/‖w‖, are compared with explicit neurons.

For rows of up to three numbers the maximum is also computed over all faces in integers, by
``covopt.proofs.checker.faces``, which shares no line with the oracles: exactly for one output, rounded up by a
relative 1e-12 for several. In addition to the tables: corners of lattices, opposite rows, planes, few directions, and
dual points with repeated singular values, whose eigenvectors are not unique.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

import covopt
from benchmarks.adversary import tables
from benchmarks.adversary.exactly import lifted
from benchmarks.adversary.neurons import Witness, best_neuron, value_of
from benchmarks.adversary.outcome import Outcome, held, refuted, worst
from covopt.errors import BudgetError
from covopt.oracles.bounds import relaxed_dual_norm
from covopt.oracles.boxes.fan import fan_dual_norm
from covopt.oracles.boxes.search import box_dual_norm
from covopt.oracles.certified import certified_dual_norm
from covopt.oracles.vector_faces import VectorFaceOracle
from covopt.proofs.checker.faces import square_above

Rng = np.random.Generator
LOOSE = 1e-9  # relative tolerance for reported values of neurons, which are floats
ROUNDED = Fraction(1, 1 << 36)  # relative rounding of the squared maximum over several outputs


# ---------------------------------------------------------------------- rows and duals
def lattice(rng: Rng, n: int) -> np.ndarray:
    """Return a corner of a lattice, of any width and at any place."""
    corner = np.stack(np.meshgrid(np.arange(4.0), np.arange(4.0)), axis=-1).reshape(-1, 2)[:n]
    places = corner * 10.0 ** rng.uniform(-8, 8) + 10.0 ** rng.uniform(-3, 9) * rng.integers(0, 2)
    return np.column_stack([places, np.ones(len(places))])


def opposite(rng: Rng, n: int) -> np.ndarray:
    """Return rows and their negatives, some differing in the last digit."""
    half = rng.standard_normal((max(1, n // 2), 3))
    last = 1.0 + rng.integers(-1, 2, (len(half), 1)) * 2.0**-52
    return np.vstack([half, -half * rng.choice([1.0, 3.0, 1.0 / 3.0]) * last])


def coplanar(rng: Rng, n: int) -> np.ndarray:
    """Return rows in a plane, except for one."""
    rows = rng.integers(-3, 4, (n, 2)) @ rng.standard_normal((2, 3))
    rows[0] += rng.standard_normal(3) * 10.0 ** rng.uniform(-17, 0)
    return rows


def narrow(rng: Rng, n: int) -> np.ndarray:
    """Return few directions and a line, all perturbed by 1e-12 to 1e-5: ranks are hard to decide in doubles."""
    rows = np.vstack([tables.near_rays(rng, (n + 1) // 2, 3)[0], tables.near_line(rng, (n + 1) // 2, 3)[0]])
    return rows + 10.0 ** rng.uniform(-12, -5) * rng.standard_normal(rows.shape)


def any_table(rng: Rng, n: int) -> np.ndarray:
    """Return one of the tables of kinds that have caused errors."""
    kind = str(rng.choice(list(tables.ALL_TABLES)))
    return lifted(*tables.ALL_TABLES[kind](rng, n, int(rng.integers(1, 4))))


def _noise(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    return 10.0 ** rng.uniform(-18, -6) * rng.standard_normal(shape) * rng.choice([0.0, 1.0])


def isotropic(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and a dual point whose map is, up to noise, the identity on one cell."""
    D = int(rng.integers(2, 5))
    n = D + int(rng.integers(0, 4))
    rows = rng.integers(-2, 3, (n, D)) + 0.0 if rng.random() < 0.3 else rng.standard_normal((n, D))
    active, dual = rows @ rng.standard_normal(D) > 0, np.zeros((n, D))
    if active.sum() >= D:
        dual[active] = np.linalg.pinv(rows[active]).T
    return rows, (dual + _noise(rng, dual.shape))[:, : max(2, int(rng.integers(2, D + 1)))]


def supports(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Return orthogonal rows and a dual point: supports with nearly equal values, entries near zero, mixed sizes."""
    D, k = int(rng.integers(2, 7)), int(rng.integers(2, 5))
    rows = np.eye(D) if rng.random() < 0.7 else np.linalg.qr(rng.standard_normal((D, D)))[0]
    rows = rows * 10.0 ** (rng.uniform(-7, 7, (D, 1)) * rng.choice([0.0, 1.0]))
    dual = (rng.choice([-1.0, 0.0, 1.0], (D, k)) + _noise(rng, (D, k))) / np.linalg.norm(rows, axis=1)[
        :, None
    ]
    return rows, dual * 10.0 ** (rng.uniform(-9, 0, (D, 1)) * (rng.random() < 0.3))


def question(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and a dual point of any kind, (N,) or (N, k)."""
    kind = int(rng.integers(10))
    if kind < 2:
        rows, dual = (isotropic, supports)[kind](rng)
    else:
        make = (lattice, opposite, coplanar, narrow, *[any_table] * 4)[kind - 2]
        rows = make(rng, int(rng.choice([1, 2, 3, 4, 6, 8, 12, 16])))
        dual = tables.dual(rng, rows, int(rng.choice([1, 1, 2, 3])))
    if kind > 1 and dual.ndim > 1 and rng.random() < 0.2:
        rows = np.abs(rows)
        # the sum cancels up to rounding errors on the cone where all rows are active
        dual = dual - rows @ np.linalg.lstsq(rows, dual, rcond=None)[0]
    kept = rows.any(axis=1) & dual.reshape(len(dual), -1).any(axis=1)
    return (rows[kept], dual[kept]) if kept.any() else (rows, dual)


# ---------------------------------------------------------------------- bounds
def _fan(rows: np.ndarray, dual: np.ndarray, rng: Rng, bound: Callable[[np.ndarray], float]) -> float:
    """Return a bound for one output, or by a fan for several, stopped early."""
    if dual.ndim == 1:
        return bound(dual)
    return fan_dual_norm(rows, dual, bound, best=0.0, max_calls=int(rng.choice([1, 2, 8, 30])))


def _boxes(rows: np.ndarray, dual: np.ndarray, rng: Rng) -> float:
    """Return the bound of few boxes, to test unfinished bounds."""
    nodes = int(rng.choice([10, 1000, 20000]))
    return _fan(rows, dual, rng, lambda one: box_dual_norm(rows, one, max_nodes=nodes).upper_bound)


def _effort(rows: np.ndarray, dual: np.ndarray, rng: Rng) -> float:
    """Return the bound of the certificates' policy, stopped early."""
    return _fan(rows, dual, rng, lambda one: certified_dual_norm(rows, one, effort=0.02).value)


def _faces(rows: np.ndarray, dual: np.ndarray, rng: Rng) -> float | None:
    """Return the bound of the face oracle, if it says that the bound is proved."""
    if len(rows) < rows.shape[1] or np.linalg.matrix_rank(rows) < rows.shape[1]:
        return None
    try:
        oracle = VectorFaceOracle(rows)
    except (ArithmeticError, BudgetError):  # ranks that cannot be decided in doubles
        return None
    return oracle.price(dual.reshape(len(rows), -1)).upper_bound if oracle.proved else None


BOUNDS: dict[str, Callable[[np.ndarray, np.ndarray, Rng], float | None]] = {
    "price": lambda rows, dual, _: covopt.price(rows, dual).upper_bound,
    "quick": lambda rows, dual, _: relaxed_dual_norm(rows, dual),
    "boxes": _boxes, "effort": _effort, "faces": _faces,
}  # fmt: skip


def bounds(name: str) -> Callable[[Rng], Outcome]:
    """Check one of the bounds alone, on rows and dual points of any kind."""

    def ask(rng: Rng) -> Outcome:
        rows, dual = question(rng)
        upper = BOUNDS[name](rows, dual, rng) if rows.any() and dual.any() else None
        if upper is None:
            return held()
        return worst([_above_all(rows, dual, upper), _against(rows, dual, upper, rng)])

    return ask


def _above_all(rows: np.ndarray, dual: np.ndarray, upper: float) -> Outcome:
    if rows.shape[1] > 3:
        return held()
    square = square_above(rows, dual) * (1 if dual.ndim == 1 else 1 - ROUNDED)
    if upper < np.inf and Fraction(upper) ** 2 < square:
        return refuted(f"upper bound {upper:.17g}, the maximum is {float(square) ** 0.5:.17g}")
    return held()


def _against(rows: np.ndarray, dual: np.ndarray, upper: float, rng: Rng) -> Outcome:
    witness = best_neuron(rows, dual, rng)
    if not upper >= 0:
        return refuted(f"the upper bound is {upper}")
    if witness is None or not witness.square:
        return held()
    if witness.exceeds(upper):
        return refuted(f"upper bound {upper:.9g}, a neuron reaches {witness.value:.9g} (N, D = {rows.shape})")
    return held(upper / witness.value - 1 if witness.value else np.inf)


def price(table: str, *, several: bool) -> Callable[[Rng], Outcome]:
    """Check ``covopt.price`` on tables of one kind, and that values marked exact are attained."""

    def ask(rng: Rng) -> Outcome:
        if several:
            n, d, k = int(rng.integers(1, 7)), int(rng.integers(1, 3)), int(rng.integers(2, 4))
        else:
            n, d, k = int(rng.integers(1, rng.choice([5, 7, 12]))), int(rng.integers(1, 4)), 1
        X, bias = tables.ALL_TABLES[table](rng, n, d)
        rows = lifted(X, bias)
        dual = tables.dual(rng, rows, k)
        found = covopt.price(X, dual, bias=bias)
        outcome = _against(rows, dual, found.upper_bound, rng)
        if outcome.kind == "refuted" or not (found.exact and len(found.neurons)):
            return outcome
        witness = best_neuron(rows, dual, rng)
        if witness is None or not witness.square:
            return held()
        best = max(value_of(rows, dual, w) for w in found.neurons[:4] if np.any(w))
        reached = Witness(witness.neuron, best).value
        if reached < found.upper_bound * (1 - 1e-6) and reached < witness.value * (1 - LOOSE):
            return refuted(
                f"called exact, but its best neuron reaches {reached:.9g} and another {witness.value:.9g}"
            )
        return outcome

    return ask
