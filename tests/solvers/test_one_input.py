"""One input in any units: years, incomes, seconds since 1970, against other solvers and against integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import covopt
from covopt.oracles.support import in_integers
from covopt.problems.half_plane import HalfPlane, Points
from covopt.problems.problem import Problem
from covopt.solvers.one_input import solve_one_input
from tests.solvers.units import COLUMNS, check, targets

KINDS = [kind for kind in COLUMNS if kind not in ("yes/no", "plain")]


@pytest.mark.thinned(8)
@pytest.mark.parametrize("n", [5, 30, 100])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("output_bias", ["none", "penalized", "free"])
def test_every_column_is_certified(kind, n, output_bias):
    x = COLUMNS[kind](np.random.default_rng(n), n)[:, None]
    check(x, targets(n), output_bias=output_bias)
    if n == 30 and kind in ("year", "income", "seconds", "every day", "standard"):
        check(x, np.column_stack([targets(n), np.cos(np.arange(n) / 5.0)]), output_bias=output_bias)


@pytest.mark.thinned(30)
@pytest.mark.parametrize("seed", range(10, 40))
@pytest.mark.parametrize("kind", [*KINDS[3:6], "days of nanoseconds", "the last of 63 bits", "fractions"])
def test_random_stamps_are_certified(kind, seed):
    rng = np.random.default_rng(seed)
    x = np.unique(COLUMNS[kind](rng, int(rng.integers(5, 60))))
    for output_bias in ("none", "penalized", "free"):
        check(rng.permutation(x)[:, None], targets(len(x)), output_bias=output_bias)


@pytest.mark.parametrize("kind", ["year", "every day"])
def test_far_away_the_cost_is_the_variation_of_the_slope(kind):
    """Kinks among points at x ≫ 1 cost √(1 + t²) each; the line that is left costs at most its own norm."""
    n = 40
    x, y = np.sort(COLUMNS[kind](np.random.default_rng(n), n)), targets(n)
    bends = np.diff(np.diff(y) / np.diff(x))
    least = 2.0 * float(np.abs(bends) @ np.hypot(1.0, x[1:-1]))
    cost = covopt.min_norm(x[:, None], y).cost
    # kinks may face left or right, which is the line's slope to choose; merging kinks in a cell gains less than this
    room = 2.0 * (np.ptp(x) / x[0]) ** 2 * least
    assert least - room <= cost <= least * (1.0 + 1e-9) + 2.0 * np.abs(bends).max() * x[-1] + 1.0


def test_rows_that_are_no_half_plane_are_left_to_others():
    rows = np.array([[1.0, 0.0], [-1.0, 0.2], [-1.0, -0.2]])
    assert HalfPlane.of(Problem.through(rows, np.ones(3))) is None
    assert covopt.min_norm(rows, [1.0, 2.0, 3.0], bias=0.0).status.code == "certified"


def test_equations_are_the_outputs():
    rng = np.random.default_rng(3)
    x = np.sort(rng.standard_normal(8))
    plane = HalfPlane.of(Problem.through(np.column_stack([x, np.ones(8)]), rng.standard_normal(8)))
    assert plane is not None
    point = solve_one_input(plane, tol=1e-8)
    assert plane.problem.missed(*point.network) < 1e-12
    # neurons inside arcs, of both kinds, in the equations and in their outputs
    share = np.sin(0.5 * plane.angles) / plane.sines
    parts = np.column_stack([share, share])
    inside = Points.join(*(Points(np.full(7, kind), np.arange(7), parts) for kind in (0, 1)))
    outputs = np.maximum(plane.rows @ plane.neurons(inside).T, 0.0)
    np.testing.assert_allclose(plane.outputs(inside)[0].toarray(), plane.local(outputs), atol=1e-11)
    # a dual is known by its values: the local form gives what the sums over rows give
    unknowns = rng.standard_normal((8, 1))
    dual = plane.dual(unknowns)
    angles = np.linspace(0.0, 2.0 * np.pi, 4001)
    sums = np.maximum(np.column_stack([np.cos(angles), np.sin(angles)]) @ plane.problem.rows.T, 0.0) @ dual
    assert plane.price(unknowns)[0] == pytest.approx(np.abs(sums).max(), rel=1e-3)
    assert np.vdot(dual, plane.problem.targets) == pytest.approx(
        float(np.vdot(unknowns, plane.demands)), rel=1e-9
    )


def test_arcs_see_what_cancels():
    """Two rows that agree to sixteen digits: the exact maximum is at the gradient of both, or between them."""
    rows = np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52]])
    total = (
        Fraction(2) ** 60
        * (rows[1, 1] - 1.0).as_integer_ratio()[0]
        / (rows[1, 1] - 1.0).as_integer_ratio()[1]
    )
    found = in_integers(rows, np.array([-(2.0**60), 2.0**60])).value
    assert float(total) <= found <= float(total) * (1.0 + 1e-12)


@pytest.mark.parametrize("seed", [0, 2])
def test_directions_that_are_nearly_opposite_may_cancel(seed):
    """Two points and a bias of 1e-11: a neuron's parts are 1e11 long, and their sum's length is rounding."""
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((2, 1)), rng.standard_normal(2)
    solution = covopt.min_norm(x, y, bias=10.0 ** rng.uniform(-12, -9))
    assert solution.status.code == "certified"
    assert all(check.ok for check in covopt.verify(solution).checks)


@pytest.mark.parametrize("gap", [256.0, 1e9, 1e14])
def test_two_stamps_alone(gap):
    """With a free output bias the cost is the slope of a line; without one a neuron turns active at a point."""
    x, y = 1.6e18 + np.array([0.0, gap]), np.array([0.0, 1.0])
    gap = x[1] - x[0]
    for bias, cost in (("free", 2.0 / gap), ("none", 2.0 * x[0] / gap)):
        solution = covopt.min_norm(x[:, None], y, output_bias=bias)
        assert solution.lower_bound <= cost * (1.0 + 1e-12)
        assert covopt.verify(solution).ok
        if gap > 1e9 and bias == "none":  # a day
            assert solution.status.code == "certified"
            assert solution.cost == pytest.approx(cost, rel=1e-6)


def test_a_small_bias_beside_inputs_of_both_signs():
    """The rays of such rows are nearly opposite: a solve ended without a neuron."""
    rng = np.random.default_rng(5)
    found = covopt.min_norm(10.0 * rng.standard_normal((4, 1)), rng.standard_normal(4), bias=1e-5)
    assert found.status.code == "certified"
    assert 0 < len(found.network) <= 4
    # faces alone left a gap of 7e-6
    found = covopt.min_norm(rng.standard_normal((40, 1)), rng.standard_normal((40, 2)), bias=1e-4)
    assert found.status.code == "certified"


def test_few_points_that_a_neuron_passes_through_alone():
    # a refinement with more equations than neurons was kept though it missed more than what it began with
    for x, y in (([1.0, 3.0], [2.0, 4.0]), ([1.0, 3.0, 4.0], [2.0, 4.0, 4.0])):
        assert covopt.min_norm(np.array(x)[:, None], y).status == "certified"
