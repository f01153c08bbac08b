"""Folded products against plain ones."""

from __future__ import annotations

import numpy as np
import pytest

from covopt.solvers.master.columns import Columns
from covopt.solvers.master.folding import Folding

N_ROWS = 100


def _columns(seed: int, r: int, pairs: int, singles: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows, some = rng.standard_normal((N_ROWS, r)), rng.standard_normal((pairs + singles, r))
    some /= np.linalg.norm(some, axis=1, keepdims=True)
    neurons = np.concatenate([some, -some[:pairs]])[rng.permutation(2 * pairs + singles)]
    return rows, neurons, np.maximum(neurons @ rows.T, 0.0)


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


def test_columns_without_neurons_and_nearly_opposite_ones_are_no_pairs():
    rows, neurons, atoms = _columns(3, 3, 100, 0)
    assert len(Folding(atoms, 0.0 * neurons, rows, np.ones(len(atoms))).atoms) == len(atoms)
    moved = neurons + 1e-12 * np.random.default_rng(0).standard_normal(neurons.shape)
    assert len(Folding(atoms, moved, rows, np.ones(len(atoms))).atoms) == len(atoms)
