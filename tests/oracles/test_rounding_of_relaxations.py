"""Relaxations on hostile numbers, against explicit neurons in fractions: multipliers prove no less than they say."""

from fractions import Fraction

import numpy as np
import pytest

from covopt.oracles.lifted.gauge_certificate import check_gauge
from covopt.oracles.lifted.lift import is_empty
from covopt.oracles.relaxation import relaxation_bound
from tests.oracles.test_rounding_of_bounds import KINDS, fractions, hostile


def exact_norms(rows, dual, neurons):
    """The largest ‖Λᵀσ(Zw)‖²/‖w‖² of explicit neurons, in fractions."""
    best = Fraction(0)
    exact, weights = fractions(rows), fractions(dual)
    for neuron in neurons:
        w = [Fraction(float(x)) for x in neuron]
        active = [
            max(sum((a * b for a, b in zip(row, w, strict=True)), Fraction(0)), Fraction(0)) for row in exact
        ]
        pulled = [
            sum((a * d[c] for a, d in zip(active, weights, strict=True)), Fraction(0))
            for c in range(dual.shape[1])
        ]
        best = max(best, sum(p * p for p in pulled) / sum(x * x for x in w))
    return best


@pytest.mark.parametrize("kind", KINDS)
def test_relaxations_hold_against_exact_neurons(kind):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rows = hostile(rng, kind, 6, 3) * 10.0 ** rng.uniform(-5, 5, (6, 1))
        dual = rng.standard_normal((6, 1 + seed % 2)) * 10.0 ** rng.uniform(-8, 8, (6, 1))
        found = relaxation_bound(
            rows, dual, level=("length", "plain", "cone")[seed % 3], splits=1, max_steps=200
        )
        # neurons of one active row, where hardly anything is left between bound and value
        heavy = int((np.linalg.norm(dual, axis=1) * np.linalg.norm(rows, axis=1)).argmax())
        neurons = [rows[heavy], *rows, *-rows, *rng.standard_normal((20, 3))]
        assert Fraction(found.value) ** 2 >= exact_norms(rows, dual, neurons)
        # the multipliers of another dual prove less, not something wrong
        other = dual + rng.standard_normal(dual.shape) * np.abs(dual)
        assert Fraction(check_gauge(rows, other, found.certificate)) ** 2 >= exact_norms(rows, other, neurons)


def test_one_row_leaves_a_relaxation_no_room():
    """h(λ) = |λ|‖z‖ of one row: bounds are that, to rounding, and never below."""
    rng = np.random.default_rng(3)
    for power in (-200, -9, 0, 9, 100):
        row, dual = rng.standard_normal((1, 3)) * 10.0**power, rng.standard_normal((1, 1)) * 10.0**-power
        found = relaxation_bound(row, dual)
        truth = exact_norms(row, dual, [row[0] / np.abs(row).max()])
        square = Fraction(float(dual[0, 0])) ** 2 * sum(Fraction(float(x)) ** 2 for x in row[0])
        assert Fraction(found.value) ** 2 >= square >= truth
        assert found.value <= float(square) ** 0.5 * (1 + 1e-6)


def test_an_empty_cone_is_empty_in_fractions():
    """Whatever :func:`is_empty` calls empty has Farkas weights in fractions, near the ones that were found."""
    rng, proved = np.random.default_rng(4), 0
    for _ in range(60):
        rows = hostile(rng, KINDS[int(rng.integers(4))], 5, 2)
        signs = rng.choice([-1, 1], 5)
        if not is_empty(rows, signs):
            continue
        proved += 1
        sides = [[int(s) * x for x in row] for s, row in zip(signs, fractions(rows), strict=True)]
        # in the plane a cone that is not {0} holds a ray along one of its sides, or is a half plane
        rays = [[-row[1], row[0]] for row in sides] + [[row[1], -row[0]] for row in sides]
        assert all(any(a[0] * ray[0] + a[1] * ray[1] < 0 for a in sides) for ray in rays)
    assert proved >= 5
