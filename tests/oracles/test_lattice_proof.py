"""Faces of several outputs as a theorem: what is proved holds in integers, and wrong faces are not proved."""

from dataclasses import replace

import numpy as np
import pytest

from covopt.exact.parallel_rows import merge_lines
from covopt.oracles.vector.face_lattice import build_lattice
from covopt.oracles.vector.lattice_proof import prove_lattice
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
