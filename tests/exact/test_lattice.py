"""Lattices of whole numbers against all small multiples."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from covopt.exact.lattice import Lattice


@pytest.mark.parametrize("seed", range(4))
def test_bases_span_the_same_and_are_short(seed):
    rng = np.random.default_rng(seed)
    given = rng.integers(-(10**6), 10**6, (3, 3)).tolist()
    lattice = Lattice(given)
    turn = np.linalg.solve(np.array(given, dtype=float).T, np.array(lattice.basis, dtype=float).T)
    assert np.abs(turn - np.rint(turn)).max() < 1e-6
    assert abs(abs(np.linalg.det(turn)) - 1.0) < 1e-6
    least = min(
        float(np.linalg.norm(np.array(times) @ np.array(lattice.basis, dtype=float)))
        for times in product(range(-2, 3), repeat=3)
        if any(times)
    )
    assert np.linalg.norm(np.array(lattice.basis[0], dtype=float)) <= 2.0 * least


@pytest.mark.parametrize("seed", range(4))
def test_points_are_next_to_the_goal(seed):
    rng = np.random.default_rng(seed)
    lattice = Lattice([[1 << 200, 0, 5], *rng.integers(-100, 100, (2, 3)).tolist()])
    goal = rng.integers(-1000, 1000, 3).tolist()
    found = np.array([float(x) for x in lattice.nearest(goal)])
    basis = np.array([[float(x) for x in vector] for vector in lattice.basis[:2]])
    centre = np.linalg.lstsq(basis.T, np.array(goal, dtype=float), rcond=None)[0].round()
    near = min(
        float(np.linalg.norm(np.array(goal) - (centre + np.array(shift)) @ basis))
        for shift in product(range(-3, 4), repeat=2)
    )
    assert np.linalg.norm(found - goal) <= 2.0 * near


def test_vectors_that_depend_on_each_other_are_refused():
    with pytest.raises(ValueError, match="depend"):
        Lattice([[1, 2], [2, 4]])
