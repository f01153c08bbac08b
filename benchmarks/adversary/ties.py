"""Several outputs where eigenvectors mean nothing: repeated singular values, supports and faces side by side."""

from __future__ import annotations

import numpy as np

import covopt
from benchmarks.adversary import tables
from benchmarks.adversary.exactly import lifted
from benchmarks.adversary.neurons import best_neuron
from benchmarks.adversary.outcome import Outcome, held, refuted
from covopt.oracles.vector_faces import VectorFaceOracle

KINDS = ("isotropic", "supports", "proved-faces")


def tied(kind: str):
    """A question of one kind."""
    make = {"isotropic": _isotropic, "supports": _supports, "proved-faces": _proved_faces}[kind]

    def ask(rng: np.random.Generator) -> Outcome:
        rows, dual, bound = make(rng)
        if bound is None:
            return held()
        witness = best_neuron(rows, dual, rng)
        if witness is None or not witness.square:
            return held()
        if witness.exceeds(bound):
            return refuted(
                f"upper bound {bound:.9g}, a neuron reaches {witness.value:.9g} "
                f"(N, D = {rows.shape}, {dual.shape[1]} outputs)"
            )
        return held(bound / witness.value - 1)

    return ask


def _noise(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return 10.0 ** rng.uniform(-18, -6) * rng.standard_normal(shape) * rng.choice([0.0, 1.0])


def _isotropic(rng: np.random.Generator):
    """On one cell the map is the identity of as many outputs as rows span, nearly."""
    D = int(rng.integers(2, 5))
    n = D + int(rng.integers(0, 4))
    rows = rng.integers(-2, 3, (n, D)) + 0.0 if rng.random() < 0.3 else rng.standard_normal((n, D))
    active = rows @ rng.standard_normal(D) > 0
    dual = np.zeros((n, D))
    if active.sum() >= D:
        dual[active] = np.linalg.pinv(rows[active]).T
    dual += _noise(rng, dual.shape)
    dual = dual[:, : max(2, int(rng.integers(2, D + 1)))]
    return rows, dual, covopt.price(rows, dual).upper_bound


def _supports(rng: np.random.Generator):
    """Orthogonal rows: supports of nearly equal values, entries beside zero, sizes that differ."""
    D, k = int(rng.integers(2, 7)), int(rng.integers(2, 5))
    rows = np.eye(D)
    if rng.random() < 0.3:
        rows = np.linalg.qr(rng.standard_normal((D, D)))[0]
    rows = rows * 10.0 ** (rng.uniform(-7, 7, (D, 1)) * rng.choice([0.0, 1.0]))
    dual = rng.choice([-1.0, 0.0, 1.0], (D, k)) + _noise(rng, (D, k))
    dual = dual / np.linalg.norm(rows, axis=1)[:, None]
    if rng.random() < 0.3:
        dual = dual * 10.0 ** rng.uniform(-9, 0, (D, 1))
    return rows, dual, covopt.price(rows, dual).upper_bound


def _proved_faces(rng: np.random.Generator):
    """The oracle by faces alone, wherever it says that its bound is proved."""
    d = int(rng.integers(1, 4))
    n = d + int(rng.integers(1, 6))
    name = str(rng.choice(list(tables.ALL_TABLES)))
    X, bias = tables.ALL_TABLES[name](rng, n, d)
    rows = lifted(X, bias)
    rows = rows[rows.any(axis=1)]
    dual = tables.dual(rng, rows, int(rng.integers(2, 5))) if len(rows) else rows
    if len(rows) < rows.shape[1] or np.linalg.matrix_rank(rows) < rows.shape[1]:
        return rows, dual, None
    try:
        oracle = VectorFaceOracle(rows)
    except ArithmeticError:  # ranks that rounding hides
        return rows, dual, None
    return rows, dual, oracle.price(dual).upper_bound if oracle.proved else None
