"""Faces of several outputs as a theorem: what is proved holds in integers, and wrong faces are not proved.

Tables of few digits that rounding has moved are proved, too, and what they were moved by is paid for.
"""

from dataclasses import replace

import numpy as np
import pytest
from covopt.oracles.vector.grids import grid_of

from benchmarks.adversary.neurons import best_neuron
from covopt.exact.parallel_rows import merge_lines
from covopt.oracles import vector_faces
from covopt.oracles.support import bound_gauge
from covopt.oracles.vector.face_lattice import build_lattice
from covopt.oracles.vector.lattice_proof import prove_lattice
from covopt.oracles.vector_faces import VectorFaceOracle
from tests.oracles.table import CLEAR


@pytest.mark.parametrize("kind", ["normal", "integers"])
@pytest.mark.parametrize("r", [2, 3, 4])
def test_faces_are_proved_where_rows_are_clear_or_exactly_dependent(kind, r):
    rows = merge_lines(CLEAR[kind](np.random.default_rng(r), 2 * r + 2, r))[0]
    found = prove_lattice(rows, build_lattice(rows))
    assert found.proved
    assert found.widest < 1e-10
    assert 0 < found.slack.max() < 1e-13


def test_wrong_faces_are_not_proved():
    rows = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 2], [1, -1, 0], [2, 1, -1]], float)
    lattice = build_lattice(rows)
    assert prove_lattice(rows, lattice).proved

    def changed(position, **fields):
        levels = list(lattice.levels)
        levels[position] = replace(levels[position], **fields)
        return replace(lattice, levels=tuple(levels))

    rays, planes, _ = lattice.levels
    # a ray on the other side of a row, both rays of a line alike
    signs = lattice.cells.copy()
    signs[rays.cell[0]] ^= ~rays.members[rays.flat[0]] & np.uint64(31)
    assert not prove_lattice(rows, replace(lattice, cells=signs)).proved
    assert not prove_lattice(rows, changed(0, cell=rays.cell[np.arange(len(rays.cell)) // 2 * 2])).proved
    # a row that is said to vanish and does not, and one that vanishes and is not said to
    assert not prove_lattice(rows, changed(1, members=planes.members | np.uint64(16))).proved
    simple = np.bitwise_count(rays.members)[:, 0] == 2
    fewer = np.where(simple, rays.members[:, 0], rays.members[:, 0] & (rays.members[:, 0] - np.uint64(1)))
    assert not simple.all()
    assert not prove_lattice(rows, changed(0, members=fewer[:, None])).proved
    # a basis that is off, or not orthonormal
    turned = planes.bases + 1e-6
    assert not prove_lattice(rows, changed(1, bases=turned)).proved
    assert not prove_lattice(rows, changed(1, bases=planes.bases * (1 + 1e-9))).proved
    # rows that vanish together and change sign differently
    shared = planes.shared
    assert len(shared.upper)
    flipped = replace(shared, positive=shared.kink & ~shared.positive)
    assert not prove_lattice(rows, changed(1, shared=flipped)).proved
    # dependent to rounding only
    near = rows.copy()
    near[2, 2] += 1e-15
    assert not prove_lattice(near, build_lattice(near)).proved


def standardised(table):
    return (table - table.mean(axis=0)) / table.std(axis=0)


def grid_rows(rng, n, d, kind):
    points = rng.permutation(np.arange(3**d))[:n]
    table = np.column_stack([points // 3**j % 3 for j in range(d)]).astype(float)
    table = {"standardised": standardised(table), "tenths": table / 10.0, "raw": table}[kind]
    return np.column_stack([table, np.ones(n)])


@pytest.mark.thinned(3)
@pytest.mark.parametrize("kind", ["standardised", "tenths", "raw"])
@pytest.mark.parametrize("d", [2, *(pytest.param(d, marks=pytest.mark.slow) for d in (3, 4))])
def test_faces_of_grids_are_proved_and_hold_in_integers(kind, d):
    rng = np.random.default_rng(d)
    rows = grid_rows(rng, 8, d, kind)
    oracle = VectorFaceOracle(rows)
    assert oracle.proved
    for _ in range(4):
        dual = rng.standard_normal((8, 2))
        answer = oracle.price(dual)
        assert answer.exact and not best_neuron(rows, dual, rng).exceeds(answer.upper_bound)


def test_a_grid_is_one_to_rounding_only():
    rng = np.random.default_rng(0)
    rows = grid_rows(rng, 12, 3, "standardised")
    found = grid_of(rows)
    exact = found.integers @ np.linalg.lstsq(found.integers, rows, rcond=None)[0]
    assert np.allclose(exact, rows, atol=1e-14) and (found.integers == np.rint(found.integers)).all()
    assert (np.linalg.norm(exact - rows, axis=1) <= found.moved + 1e-15).all() and found.moved.max() < 1e-13
    rows[3, 1] += 1e-9
    assert grid_of(rows) is None
    assert grid_of(rng.standard_normal((9, 4))) is None


def test_rows_scaled_one_by_one_keep_their_grid():
    rng = np.random.default_rng(1)
    rows = grid_rows(rng, 10, 3, "standardised")
    found = grid_of(rows * np.exp2(rng.integers(-9, 9, 10))[:, None])
    assert (found.integers == grid_of(rows).integers).all()


def test_what_rounding_has_moved_is_paid_for(monkeypatch):
    """With the distance ν a thousand times as large, the bound grows by Σ ‖Λ_i‖ ν_i at least."""
    rng = np.random.default_rng(2)
    rows, dual = grid_rows(rng, 9, 3, "standardised"), rng.standard_normal((9, 2))
    monkeypatch.setattr(
        vector_faces, "grid_of", lambda rows: grid_of(rows)._replace(moved=np.full(len(rows), 1e-12))
    )
    oracle = VectorFaceOracle(rows)
    assert oracle.proved
    answer = oracle.price(dual)
    assert answer.upper_bound - answer.values[0] >= 1e-12 * np.linalg.norm(dual, axis=1).sum()
    assert bound_gauge(rows, dual).value >= answer.values[0]
