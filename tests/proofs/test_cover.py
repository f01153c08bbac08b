"""Covers of the sphere by boxes, in integers: closed forms, brute force, and trees that are no trees."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covopt.proofs.checker import cover as checker
from covopt.proofs.checker.arithmetic import on_grid
from covopt.proofs.checker.cover import check_cover
from tests.proofs.simple import brute_force


def cover(y, signs, H, *, linear=None, code=None, extra=20_000, wide=False):
    y = np.asarray(y, dtype=float)
    linear = np.zeros(y.shape[1]) if linear is None else linear
    (whole, line), unit = on_grid(y, linear)
    code = bytes(4 * y.shape[1]) if code is None else code
    found = check_cover(
        whole, np.asarray(signs, dtype=np.int64), line, Fraction(H) / unit, code, extra=extra, wide=wide
    )
    return found, float(found.excess * unit)


def test_a_linear_part_is_counted():
    y, linear = np.array([[1.0, 0.0]]), np.array([0.0, 2.0])
    assert cover(y, [1], 5**0.5 + 1e-12, linear=linear)[1] == 0
    assert cover(y, [1], 5**0.5 - 1e-9, linear=linear)[1] > 0
    # max(t, 0) - t = max(-t, 0): the linear part of a merged line
    assert cover([[3.0, 4.0]], [1], 5.0 + 1e-12, linear=np.array([-3.0, -4.0]))[1] == 0


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_random_rows_agree_with_brute_force(dimension):
    rng = np.random.default_rng(dimension)
    for _ in range(1):
        y, signs = rng.standard_normal((7, dimension)), rng.choice([-1, 1], 7)
        below = brute_force(y, signs, np.zeros(dimension), 50_000)
        assert cover(y, signs, below * (1 - 1e-6))[1] > 0
        assert cover(y, signs, below * (1 + 1e-2))[1] == 0
        _, excess = cover(y, signs, 0.5 * below)  # what it finds is the maximum
        assert below * (1 - 1e-12) <= 0.5 * below + excess <= below * (1 + 1e-2)


@given(st.integers(0, 10**6), st.floats(0.3, 1.5))
def test_what_is_left_open_raises_the_bound(seed, factor):
    """Whatever H and however few boxes: H + excess is at least the value at every direction."""
    rng = np.random.default_rng(seed)
    y, signs = rng.integers(-4, 5, (6, 3)).astype(float), rng.choice([-1, 1], 6)
    below = brute_force(y, signs, np.zeros(3), 2000)
    if below > 0:
        found, excess = cover(y, signs, factor * below, extra=int(rng.integers(0, 200)))
        assert factor * below + excess >= below * (1 - 1e-14)
        assert found.extra <= 200


def test_integers_of_64_bits_and_python_integers_agree():
    rng = np.random.default_rng(3)
    y, signs = rng.standard_normal((12, 3)).round(6), rng.choice([-1, 1], 12)
    below = brute_force(y, signs, np.zeros(3))
    for H in (0.9 * below, 1.01 * below):
        short, long = (cover(y, signs, H, extra=100, wide=wide) for wide in (False, True))
        assert short[1] == pytest.approx(long[1], rel=1e-9)
        assert short[0].boxes == long[0].boxes


def test_numbers_of_many_orders_take_python_integers():
    y = np.array([[3e20, 0.0], [0.0, 4e-20]])
    assert cover(y, [1, 1], 3e20 * (1 + 1e-12))[1] == 0
    assert cover(y, [1, 1], 3e20 * (1 - 1e-12))[1] > 0


def test_the_tree_is_used_and_may_be_cut_further():
    rng = np.random.default_rng(5)
    y, signs = rng.standard_normal((8, 2)), rng.choice([-1, 1], 8)
    H = brute_force(y, signs, np.zeros(2)) * (1 + 1e-6)
    free, _ = cover(y, signs, H)
    # cut every root into 64 along its free coordinate
    root = [0]
    for _ in range(6):
        root = [9, *root, *root]
    code = bytes(b and (2 if k // 2 % 2 == 0 else 1) for k in range(8) for b in root)
    found, excess = cover(y, signs, H, code=code)
    assert excess == 0
    assert found.extra < free.extra
    assert found.boxes >= len(code)


def test_a_missing_cut_shows_where_no_cuts_may_be_added():
    y, signs = np.array([[1.0, 0.2], [0.2, 1.0], [-0.5, 1.0]]), [1, -1, 1]
    H = brute_force(y, np.array(signs), np.zeros(2)) * (1 + 1e-4)
    root = [0]
    for _ in range(8):
        root = [9, *root, *root]
    code = bytes(b and (2 if k // 2 % 2 == 0 else 1) for k in range(8) for b in root)
    assert cover(y, signs, H, code=code, extra=0)[1] == 0
    assert cover(y, signs, H, code=bytes(8), extra=0)[1] > 0


def test_a_tree_deeper_than_the_grid_is_refused():
    code = bytes([2] * 121 + [0] * 122 + [0] * 7)
    with pytest.raises(ValueError, match="more than 120 times"):
        cover([[1.0, 0.0]], [1], 2.0, code=code)


def test_no_rows_and_no_directions():
    assert cover(np.zeros((0, 2)), [], 1.0)[1] == 0
    assert (
        check_cover(
            np.zeros((0, 0), dtype=object),
            np.zeros(0, int),
            np.zeros(0, dtype=object),
            Fraction(1),
            b"",
            extra=0,
        ).boxes
        == 0
    )


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("slope", "length"), [(0.0, 1.0), (1.0, 1.0), (0.5, 3.0), (2.0, 0.0), (-1.0, 1.5)])
def test_no_choice_of_slopes_and_normals_proves_too_much(monkeypatch, slope, length):
    """Slopes beyond [0, 1] and normals longer than one are advice that the checker must not follow."""
    honest = checker.choose

    def choose(rows, boxes):
        slopes, normals, advice, value = honest(rows, boxes)
        one = 1 << checker.BITS
        bent = np.array([int(length * 2**20) * int(entry) >> 20 for entry in normals.ravel()], dtype=object)
        return (
            np.full(len(slopes), int(slope * one), dtype=object),
            bent.reshape(normals.shape),
            advice,
            value,
        )

    monkeypatch.setattr(checker, "choose", choose)
    rng = np.random.default_rng(2)
    for _ in range(3):
        y, signs = rng.integers(-4, 5, (5, 2)).astype(float), rng.choice([-1, 1], 5)
        below = brute_force(y, signs, np.zeros(2), 20_000)
        for factor in (0.5, 0.9, 1.1):
            _, excess = cover(y, signs, factor * below, extra=500)
            assert factor * below + excess >= below * (1 - 1e-12)
