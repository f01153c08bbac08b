"""All faces in integers: closed forms, at rows that meet; beside all other bounds in ``tests/oracles``."""

from __future__ import annotations

import math

import numpy as np
import pytest

from covopt.proofs.checker.faces import square_above


def gauge(rows: np.ndarray, dual: np.ndarray) -> float:
    return math.sqrt(square_above(np.asarray(rows, dtype=float), np.asarray(dual, dtype=float)))


def test_squares_of_whole_numbers_are_exact():
    assert square_above(np.eye(3), np.array([3.0, 4.0, 12.0])) == 169
    assert square_above(np.array([[2.0], [-1.0]]), np.array([3.0, 8.0])) == 64
    assert square_above(np.zeros((2, 3)), np.ones(2)) == square_above(np.eye(3), np.zeros((3, 2))) == 0


def test_a_turn_by_whole_numbers_and_the_order_of_rows_change_nothing():
    rng = np.random.default_rng(1)
    rows, dual = rng.integers(-9, 10, (7, 3)).astype(float), rng.integers(-9, 10, 7).astype(float)
    turn = np.array([[3.0, 4.0, 0.0], [-4.0, 3.0, 0.0], [0.0, 0.0, 5.0]])
    one, order = square_above(rows, dual), rng.permutation(7)
    assert square_above((rows @ turn)[order], dual[order]) == 25 * one
    assert square_above(np.ldexp(rows, 400), np.ldexp(-dual, -700)) == one / 4**300


@pytest.mark.parametrize("d", [1, 2])
def test_one_circle_is_as_good_as_all_faces(d):
    rng = np.random.default_rng(d)
    rows, dual = rng.standard_normal((7, d)), rng.integers(-2, 3, (7, 2)).astype(float)
    assert gauge(rows, dual) == pytest.approx(gauge(np.pad(rows, ((0, 0), (0, 3 - d))), dual), rel=1e-11)
