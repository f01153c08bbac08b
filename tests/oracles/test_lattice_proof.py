"""Faces of several outputs as a theorem: what is proved holds in integers, and wrong faces are not proved."""

from dataclasses import replace

import numpy as np
import pytest

from covopt.exact.parallel_rows import merge_lines
from covopt.oracles.vector.face_lattice import build_lattice
from covopt.oracles.vector.lattice_proof import prove_lattice
from covopt.oracles.vector_faces import VectorFaceOracle


def table(rng, kind, n, r):
    rows = rng.standard_normal((n, r))
    if kind == "clusters":
        rows = rows[rng.integers(0, 3, n)] + 10.0 ** rng.uniform(-9, -3) * rng.standard_normal((n, r))
    if kind == "near":  # one row nearly depends on the others
        rows[-1] = rows[: r - 1].sum(axis=0) + 10.0 ** rng.uniform(-15, -6) * rng.standard_normal(r)
    if kind == "units":
        rows *= 10.0 ** np.linspace(-7, 7, r)
    if kind == "bias":
        rows[:, -1] = 10.0 ** rng.uniform(-9, -4)
    if kind == "integers":
        rows = rng.integers(-2, 3, (n, r)).astype(float)
    return np.where(rows.any(axis=1)[:, None], rows, 1.0)


def spread(rows):
    """Whether the rows span their space by more than rounding."""
    values = np.linalg.svd(rows, compute_uv=False)
    return values[-1] > 1e-14 * values[0]


@pytest.mark.parametrize("kind", ["plain", "integers"])
@pytest.mark.parametrize("r", [2, 3, 4])
def test_faces_are_proved_where_rows_are_clear_or_exactly_dependent(kind, r):
    rng = np.random.default_rng(r)
    for _ in range(4):
        rows = merge_lines(table(rng, kind, 2 * r + 2, r))[0]
        if len(rows) < r or not spread(rows):
            continue
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


def test_ties_are_paid_for():
    """Where a map is the identity on a cell, eigenvectors mean nothing and all its faces are in doubt."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        rows = rng.standard_normal((5, 3))
        active = rows @ rng.standard_normal(3) > 0
        if active.sum() < 3:
            continue
        dual = np.zeros((5, 3))
        dual[active] = np.linalg.pinv(rows[active]).T
        oracle = VectorFaceOracle(rows)
        answer = oracle.price(dual)
        w = rng.standard_normal((20_000, 3))
        w /= np.linalg.norm(w, axis=1, keepdims=True)
        reached = np.linalg.norm(np.maximum(w @ rows.T, 0.0) @ dual, axis=1).max()
        assert oracle.proved
        assert reached <= answer.upper_bound <= answer.values[0] * (1 + 1e-9)
