"""Faces of several outputs: degenerate rows, ties, counts, and faces as a theorem: wrong ones are not proved."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import special_ortho_group

from benchmarks.adversary import dual_norms, tables
from benchmarks.adversary.neurons import best_neuron
from covopt.errors import BudgetError
from covopt.exact.rank import merge_lines
from covopt.oracles import vector_faces
from covopt.oracles.face_lattice import build_lattice, count_lattice
from covopt.oracles.faces import FaceOracle
from covopt.oracles.lattice_proof import prove_lattice
from covopt.oracles.local_search import climb_outputs
from covopt.oracles.vector_faces import VectorFaceOracle, count_vector_faces
from tests.cases import normal
from tests.oracles import table
from tests.oracles.table import CLEAR


def check(rows, dual):
    """What has to hold for any input, and that a search from below comes close; returns the answer."""
    answer = VectorFaceOracle(rows).price(dual)
    assert answer.exact
    table.check(rows, dual, answer)
    witness = best_neuron(rows, dual, np.random.default_rng(0))
    assert not witness.exceeds(answer.upper_bound) and witness.value >= 0.9 * answer.values[0]
    return answer


def test_a_dense_angular_grid_in_the_plane():
    rows, dual = normal(3, (15, 2), (15, 4))
    angle = np.linspace(0, 2 * np.pi, 200_001)[:-1]
    values = table.functions(rows, dual, np.column_stack([np.cos(angle), np.sin(angle)]))
    answer = check(rows, dual)
    assert values.max() == pytest.approx(answer.values[0], rel=1e-8)
    peaks = ((values > np.roll(values, 1)) & (values > np.roll(values, -1))).sum()
    assert len(answer.values) == peaks


def test_rank_one_repeated_and_zero_duals():
    rows, column = normal(1, (9, 3), 9)
    best = np.abs(FaceOracle(rows).price(column).values[0])
    twice = check(rows, np.stack([column, column], axis=1))
    assert twice.values[0] == pytest.approx(np.sqrt(2.0) * best, rel=1e-12)
    turned = check(rows, np.outer(column, [0.6, 0.0, -0.8]))
    assert turned.values[0] == pytest.approx(best, rel=1e-12)
    nothing = VectorFaceOracle(rows).price(np.zeros((9, 2)))
    assert nothing.values[0] == 0.0 == nothing.upper_bound
    few = np.zeros((9, 2))
    few[4] = 3.0, 4.0
    assert check(rows, few).values[0] == pytest.approx(5.0 * np.linalg.norm(rows[4]), rel=1e-12)


def test_ties_of_top_eigenvalues():
    for n in (2, 3, 5):
        answer = check(np.eye(n), np.eye(n))
        assert answer.values[0] == pytest.approx(1.0, abs=1e-14)
    # ‖(w₊, (−w)₊)‖ is constant: every point is a maximiser
    rows = np.concatenate([np.eye(3), -np.eye(3)])
    assert check(rows, np.eye(6)).values[0] == pytest.approx(1.0, abs=1e-14)


def test_ties_are_settled_without_trusting_an_eigenvector():
    # nearly equal eigenvalues in a cell whose top eigenvector is meaningless
    rng = np.random.default_rng(0)
    for size in (1e-16, 1e-14, 1e-9):
        for r in (2, 3, 4):
            rows = special_ortho_group.rvs(r, random_state=rng)
            check(rows, np.eye(r) + size * rng.standard_normal((r, r)))
    for _ in range(6):  # a map that is the identity on a cell: all its faces are in doubt
        rows = rng.standard_normal((5, 3))
        active = rows @ rng.standard_normal(3) > 0
        dual = np.zeros((5, 3))
        dual[active] = np.linalg.pinv(rows[active]).T
        check(rows, dual)


@pytest.mark.parametrize("noise", [1e-14, 1e-11, 1e-9, 1e-6])
def test_rows_nearly_in_special_position(noise):
    rng = np.random.default_rng(1)
    for r in (3, 4, 5):
        rows = rng.integers(-1, 2, (9, r)) + noise * rng.standard_normal((9, r))
        dual = rng.standard_normal((9, 2))
        try:
            answer = VectorFaceOracle(rows).price(dual)
        except BudgetError:
            assert noise == 1e-9, "parts of rows as small as the tolerance are refused, no others"
            continue
        most = np.linalg.norm(dual, axis=1) @ np.linalg.norm(rows, axis=1)
        assert answer.values[0] <= answer.upper_bound <= answer.values[0] + 1e-7 * most
        starts = np.linalg.qr(rng.standard_normal((r, r)))[0]
        assert climb_outputs(rows, dual, starts)[1].max() <= answer.upper_bound


@pytest.mark.parametrize(
    ("rows", "n_cells"),
    [
        ([c for c in product((0.0, 1.0), repeat=3) if any(c)], 32),
        ([c for c in product((0.0, 1.0), repeat=4) if any(c)], 370),
        ([(1.0, *c) for c in product((0.0, 1.0), repeat=3)], 104),
        ([(1.0, *c) for c in product((0.0, 1.0), repeat=4)], 1882),
        ([(1.0, *(s * e)) for e in np.eye(3) for s in (1, -1)], 2 * 3**3 - 2**3),
    ],
)
def test_known_numbers_of_cells(rows, n_cells):
    lattice = build_lattice(np.array(rows))
    assert len(lattice.cells) == n_cells
    assert lattice.slack.max() < 1e-14


def test_counts_in_general_position():
    rng = np.random.default_rng(0)
    for n, r in [(3, 1), (7, 2), (11, 3), (9, 4), (8, 6)]:
        lattice = build_lattice(rng.standard_normal((n if r > 1 else 1, r)))
        assert sum(len(level.flat) for level in lattice.levels) == count_lattice(n if r > 1 else 1, r)
        assert len(lattice.levels) == r
    assert count_vector_faces(6, 3) > count_lattice(6, 3) == 122
    assert count_lattice(5, 5) == 3**5 - 1
    assert count_lattice(3000, 1500) == count_vector_faces(3000, 1500) == np.inf


def test_the_last_faces_serve_rows_in_the_same_directions_only(monkeypatch):
    rng, built = np.random.default_rng(3), []
    monkeypatch.setattr(vector_faces, "build_lattice", lambda rows: built.append(1) or build_lattice(rows))
    rows, dual = rng.standard_normal((9, 4)), rng.standard_normal((9, 2))
    first, again = VectorFaceOracle(rows), VectorFaceOracle(rows / 3.0)
    assert len(built) == 1 and again.proved
    assert again.price(3.0 * dual).upper_bound == pytest.approx(first.price(dual).upper_bound, rel=1e-12)
    for other in (rows + 1e-9, rows[::-1]):
        before = len(built)
        VectorFaceOracle(other)
        assert len(built) == before + 1


def test_a_dual_that_cancels_leaves_the_zero_function():
    oracle = VectorFaceOracle(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]))
    for threshold in (0.0, np.inf):
        answer = oracle.price(np.array([[2.0, 0.0], [-1.0, 0.0], [0.0, 0.0]]), threshold=threshold)
        assert answer.values.tolist() == [0.0]
        assert answer.upper_bound < 1e-12


def test_ranks_that_rounding_hides_are_refused_or_not_proved():
    # ten to twelve rows of few directions, moved a little: no tolerance tells parts that vanish from others
    rng = np.random.default_rng(151)
    assert not VectorFaceOracle(dual_norms.narrow(rng, 12)).proved
    rng = np.random.default_rng(83)
    rows = tables.near_rays(rng, 10, 4)[0] + 10.0 ** rng.uniform(-12, -5) * rng.standard_normal((10, 4))
    with pytest.raises(BudgetError, match="ranks"):
        VectorFaceOracle(rows)


# ---- faces of several outputs as a theorem: what is proved holds in integers, and wrong faces are not proved.
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
    assert not prove_lattice(rows, changed(1, bases=planes.bases * (1 + 2.0**-43))).proved
    # rows that vanish together and change sign differently
    shared = planes.shared
    assert len(shared.upper)
    flipped = replace(shared, positive=shared.kink & ~shared.positive)
    assert not prove_lattice(rows, changed(1, shared=flipped)).proved
    # dependent to rounding only
    near = rows.copy()
    near[2, 2] += 1e-15
    assert not prove_lattice(near, build_lattice(near)).proved
