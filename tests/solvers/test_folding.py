"""Folded products against plain ones, and memory that is used again."""

from __future__ import annotations

import numpy as np
import pytest

from covopt.solvers.master.columns import Columns
from covopt.solvers.master.folding import WORTH, Folding
from covopt.solvers.master.store import Room, Store


def _columns(seed: int, r: int, pairs: int, singles: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows, some = rng.standard_normal((40, r)), rng.standard_normal((pairs + singles, r))
    some /= np.linalg.norm(some, axis=1, keepdims=True)
    neurons = np.concatenate([some, -some[:pairs]])[rng.permutation(2 * pairs + singles)]
    return rows, neurons, np.maximum(neurons @ rows.T, 0.0)


@pytest.mark.parametrize(
    ("r", "pairs", "singles"), [(3, 100, 0), (3, 80, 50), (5, 70, 1), (3, 0, 200), (3, 5, 5)]
)
def test_folded_products_are_the_plain_ones(r, pairs, singles):
    rows, neurons, atoms = _columns(r, r, pairs, singles)
    rng = np.random.default_rng(0)
    weights = 10.0 ** rng.uniform(-8.0, 8.0, len(atoms))
    folding = Folding(atoms, neurons, rows, weights, (Room(), Room()))
    folds = pairs if 2 * pairs + singles >= WORTH else 0
    assert len(folding.atoms) == len(atoms) - folds
    x, y = rng.standard_normal((40, 2)), rng.standard_normal((len(atoms), 2))
    assert np.allclose(folding.times(x), atoms @ x, rtol=0, atol=1e-12)
    assert np.allclose(folding.transposed(y), atoms.T @ y, rtol=0, atol=1e-11)
    beside = rng.standard_normal((3, 40))
    plain = (atoms * weights[:, None]).T @ atoms
    found = np.tril(folding.gram(weights, beside))
    assert np.allclose(found, np.tril(plain + beside.T @ beside), rtol=0, atol=1e-13 * plain.max())
    signed = weights * rng.choice([-1.0, 1.0], len(weights))
    plain, size = (atoms * signed[:, None]).T @ atoms, np.abs(signed).max() * (atoms**2).sum(axis=1).max()
    assert np.allclose(np.tril(folding.gram(signed)), np.tril(plain), rtol=0, atol=1e-12 * size)


def test_of_a_pair_the_heavier_column_stays():
    rows, neurons, atoms = _columns(1, 3, 100, 0)
    weights = np.random.default_rng(2).uniform(size=len(atoms))
    folding = Folding(atoms, neurons, rows, weights)
    for j in np.setdiff1d(np.arange(len(atoms)), folding.kept):
        other = int(np.flatnonzero((neurons == -neurons[j]).all(axis=1))[0])
        assert weights[other] >= weights[j] and other in folding.kept


def test_columns_without_neurons_and_nearly_opposite_ones_are_no_pairs():
    rows, neurons, atoms = _columns(3, 3, 100, 0)
    assert len(Folding(atoms, 0.0 * neurons, rows, np.ones(len(atoms))).atoms) == len(atoms)
    moved = neurons + 1e-12 * np.random.default_rng(0).standard_normal(neurons.shape)
    assert len(Folding(atoms, moved, rows, np.ones(len(atoms))).atoms) == len(atoms)


def test_stored_atoms_are_those_of_fresh_memory():
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((20, 3))
    columns = Columns(rows)
    plain = np.zeros((0, 3))
    for _ in range(12):
        fresh = rng.standard_normal((int(rng.integers(1, 30)), 3))
        fresh /= np.linalg.norm(fresh, axis=1, keepdims=True)
        columns.append(fresh)
        plain = np.concatenate([plain, fresh])
        kept = rng.random(len(plain)) < 0.6
        columns.keep(kept)
        plain = plain[kept]
        assert np.array_equal(columns.neurons, plain)
        assert np.allclose(columns.atoms, np.maximum(plain @ rows.T, 0.0), rtol=0, atol=1e-13)


def test_a_store_copies_rows_that_are_not_its_own():
    store, rows = Store(2), np.arange(6.0).reshape(3, 2)
    found = store.extended(rows, np.array([[9.0, 9.0]]))
    rows[:] = 0.0
    assert found.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [9.0, 9.0]]
    assert store.taken(found, np.array([3, 0])).tolist() == [[9.0, 9.0], [0.0, 1.0]]
