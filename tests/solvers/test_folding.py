"""Folded products against plain ones, and rows in memory that is used again."""

from __future__ import annotations

import numpy as np
import pytest

from covopt.solvers.master.columns import Columns
from covopt.solvers.master.folding import WORTH, Folding

N_ROWS = 100


def _columns(seed: int, r: int, pairs: int, singles: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows, some = rng.standard_normal((N_ROWS, r)), rng.standard_normal((pairs + singles, r))
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
    folding = Folding(atoms, neurons, rows, weights)
    assert len(folding.atoms) == len(atoms) - (pairs if len(atoms) >= WORTH else 0)
    x, y = rng.standard_normal((N_ROWS, 2)), rng.standard_normal((len(atoms), 2))
    assert np.allclose(folding.times(x), atoms @ x, rtol=0, atol=1e-12)
    assert np.allclose(folding.transposed(y), atoms.T @ y, rtol=0, atol=1e-11)
    beside = rng.standard_normal((3, N_ROWS))
    plain = (atoms * weights[:, None]).T @ atoms
    found = np.tril(folding.gram(weights, beside))
    assert np.allclose(found, np.tril(plain + beside.T @ beside), rtol=0, atol=1e-13 * plain.max())
    signed = weights * rng.choice([-1.0, 1.0], len(weights))
    plain, size = (atoms * signed[:, None]).T @ atoms, np.abs(signed).max() * (atoms**2).sum(axis=1).max()
    assert np.allclose(np.tril(folding.gram(signed)), np.tril(plain), rtol=0, atol=1e-12 * size)


@pytest.mark.parametrize("r", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_products_by_groups_are_the_plain_ones(monkeypatch, r, seed):
    monkeypatch.setattr("covopt.solvers.master.folding.GROUPED", 0)
    rows, neurons, _ = _columns(seed, r, 90, 40)
    columns = Columns(rows)
    columns.append_different(neurons)
    columns.append_different(np.concatenate([_vertices(rows, r), -_vertices(rows, r)]))
    m, rng = len(columns), np.random.default_rng(seed)
    dual, weights = rng.standard_normal((len(rows), 1)), 10.0 ** rng.uniform(-8.0, 8.0, m)
    weights[::7] = 0.0
    chosen = np.flatnonzero(columns.dims > 1)[::3]
    tangents = columns.tangents(dual, columns.atoms @ dual, chosen)
    scales = rng.uniform(size=len(tangents))
    beside = np.empty((len(tangents), len(rows)))
    columns.tangent_rows(tangents, scales, beside)
    folding = Folding(columns.atoms, columns.neurons, rows, weights)
    x, y = rng.standard_normal((len(rows), 2)), rng.standard_normal((m, 2))
    assert np.allclose(folding.times(x), columns.atoms @ x, rtol=0, atol=1e-12)
    assert np.allclose(folding.transposed(y), columns.atoms.T @ y, rtol=0, atol=1e-11)
    plain = (columns.atoms * weights[:, None]).T @ columns.atoms
    size = plain.max()
    moves = tangents.owner, tangents.directions * scales[:, None]
    assert np.allclose(np.tril(folding.gram(weights)), np.tril(plain), rtol=0, atol=1e-14 * size)
    found = folding.gram(weights, beside, moves)
    assert np.allclose(np.tril(found), np.tril(plain + beside.T @ beside), rtol=0, atol=1e-14 * size)


def _vertices(rows: np.ndarray, r: int) -> np.ndarray:
    """Neurons that rows are silent at: their atoms vanish where rounding says nothing."""
    found = np.linalg.svd(np.stack([rows[i : i + r - 1] for i in range(0, 40, 2)]))[2][:, -1]
    return np.ascontiguousarray(found)


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
