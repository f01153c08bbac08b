"""Columns in any units: years, incomes, seconds since 1970, alone and beside others, against integers."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import covopt
from covopt.certificates.rechecks import exact_checks
from covopt.exact.far_rows import whole, without_middle
from covopt.problems.half_plane import HalfPlane, Points
from covopt.problems.problem import Problem
from covopt.problems.reduction import reduce_rows
from covopt.solvers.one_input import solve_one_input
from covopt.solvers.postprocess import with_few_neurons
from covopt.solvers.quick import quick_network
from tests.cases import drawn
from tests.oracles.table import objects

EPS = np.finfo(float).eps


def _stamps(middle, spread):
    """Random stamps as doubles have them: numbers near 2⁶² are multiples of 512."""
    return lambda rng, n: (middle + spread * rng.random(n)).round()


COLUMNS = {
    "year": lambda rng, n: rng.permutation(1871.0 + np.arange(n)),
    "income": lambda rng, n: np.exp(rng.uniform(np.log(1e4), np.log(1e6), n)).round(),
    "yes/no": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "plain": lambda rng, n: rng.standard_normal(n),
    "standard": lambda rng, n: np.linspace(-1.7, 1.7, n),
    "seconds": _stamps(1.6e9, 3e7),
    "milliseconds": _stamps(1.6e12, 3e10),
    "microseconds": _stamps(1.7e15, 3e13),
    "nanoseconds": _stamps(1.6e18, 3e16),
    "days of nanoseconds": _stamps(1.7e18, 1e15),
    "the last of 63 bits": _stamps(2.0**62 - 1e16, 1e16),
    "fractions": lambda rng, n: 1.7e9 + 3e7 * 2**0.5 * rng.random(n),
    "every day": lambda rng, n: 1.6e9 + 86400.0 * np.arange(n),
    "every minute": lambda rng, n: 1.6e9 + 60.0 * np.arange(n),
    "half-seconds": lambda rng, n: 1.7e9 + 3600.0 * np.arange(n) + 0.5 * rng.integers(0, 2, n),
    "every hour in microseconds": lambda rng, n: 1.7e15 + 3.6e9 * np.arange(n),
    "every hour in nanoseconds": lambda rng, n: 1.7e18 + 3.6e12 * np.arange(n),
}


def targets(n):
    """A wave with noise."""
    return np.sin(np.arange(n) / 7.0) + 0.3 * np.random.default_rng(1).standard_normal(n)


def check(X, Y, gap=1e-6, **options):
    """Certified and verified, with few neurons; a gap that is allowed to stay may stay.

    Between points of one column that are g apart, x from zero, lie g/(x ε) doubles: what a network in doubles misses.
    """
    solution = covopt.min_norm(X, Y, **options)
    found = solution.certificate
    assert found.gap <= gap, (options, found.gap)
    if X.shape[1] == 1 and solution.status.code != "certified":
        coarse = EPS * np.abs(X).max() / np.diff(np.sort(X[:, 0])).min()
        assert solution.status.code == "gap" and 1e-9 < found.residual <= 4.0 * coarse, (options, coarse)
    else:
        assert solution.status.code == "certified" or gap > solution.tol
    assert len(solution.network) <= np.size(Y)
    assert covopt.verify(solution).ok
    return solution


# ---- one input in any units: years, incomes, seconds since 1970, against other solvers and against integers.
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
    linear = float(np.vdot(unknowns, plane.demands))
    assert np.vdot(dual, plane.problem.targets) == pytest.approx(linear, rel=1e-9)


@pytest.mark.parametrize("seed", [0, 2])
def test_directions_that_are_nearly_opposite_may_cancel(seed):
    """Two points and a bias of 1e-11: a neuron's parts are 1e11 long, and their sum's length is rounding."""
    rng, x, y = drawn(seed, (2, 1), 2)
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


# ---- several inputs in any units: years, incomes, seconds and milliseconds since 1970 beside ordinary columns.
def table(kinds: tuple[str, ...], n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    X = np.column_stack([COLUMNS[kind](rng, n) for kind in kinds])
    unit = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, np.sin(2.0 * unit[:, 0]) + unit[:, -1] * unit[:, 0] + 0.1 * rng.standard_normal(n)


PAIRS = [
    ("year", "plain"), ("income", "plain"), ("seconds", "plain"), ("milliseconds", "plain"), ("year", "income"),
    ("seconds", "income"), ("milliseconds", "seconds"), ("year", "yes/no"), ("seconds", "yes/no"),
]  # fmt: skip


# docs/limits.md: as they are, a gap may stay: beside one column for stamps, beside two for all
OF_NANOSECONDS = {"output_bias": "free", "gap": 1.0}  # here the bracket alone is valid
BESIDE_ONE, BESIDE_TWO, STAMPS_BESIDE_TWO = {"gap": 0.01}, {"gap": 0.1}, {"gap": 1.0}
NIGHT = [
    (("seconds", "year", "plain"), 20, STAMPS_BESIDE_TWO), *((kinds, n, {}) for kinds in PAIRS[:8] for n in (30, 60)),
    (PAIRS[8], 30, {}), (PAIRS[8], 60, BESIDE_ONE), *((kinds, 100, {}) for kinds in PAIRS[:3]),
    *((("nanoseconds", "plain"), n, options) for n in (20, 60, 100) for options in ({}, OF_NANOSECONDS)),
    *((("nanoseconds", other), n, BESIDE_ONE) for n in (20, 60) for other in ("yes/no", "seconds")),
    *(((*pair, "plain"), n, BESIDE_TWO) for n in (20, 30) for pair in (PAIRS[0], PAIRS[1], PAIRS[4])),
    *(((*pair, "plain"), n, STAMPS_BESIDE_TWO) for n in (20, 30) for pair in (PAIRS[2], PAIRS[3], PAIRS[8])),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kinds", "n", "options"),
    [
        (PAIRS[2], 20, {}), (PAIRS[7], 20, {}), (PAIRS[4], 60, {}),  # whose bound failed its own verification
        (("nanoseconds", "plain"), 8, {}),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in NIGHT),
    ],
)  # fmt: skip
def test_columns_in_any_units_are_certified(kinds, n, options):
    check(*table(kinds, n), **options)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", PAIRS)
@pytest.mark.parametrize("lam", ["0.1max", "1e-3max", "1e-6max"])
def test_fits_are_certified(kinds, lam):
    solution = covopt.fit(*table(kinds, 40), lam=lam)
    assert solution.status.code == "certified"
    assert covopt.verify(solution).ok


def test_order_of_rows_and_columns_and_powers_of_two_change_nothing():
    X, y = table(("seconds", "plain"), 8)
    one = covopt.min_norm(X, y)
    rows = np.random.default_rng(1).permutation(8)
    for other in (
        covopt.min_norm(X[rows][:, ::-1], y[rows]),
        covopt.min_norm(2.0**-20 * X, y, bias=2.0**-20),
    ):
        assert other.status.code == "certified"
        scale = 1.0 if other.data.bias == 1.0 else 2.0**-20
        assert other.cost * scale == pytest.approx(one.cost, rel=2e-6)


# ---------------------------------------------------------------------- the parts
def test_a_sum_is_taken_out_of_the_dual():
    rows = np.column_stack([1.6e9 + np.arange(6.0), np.arange(6.0) ** 2, np.ones(6)])
    dual = np.random.default_rng(0).standard_normal(6)
    moved, _ = without_middle(rows, dual)
    assert np.abs(moved @ rows).max() < 30.0 < np.abs(dual @ rows).max()
    plain = np.random.default_rng(0).standard_normal((6, 3))
    assert np.array_equal(without_middle(plain, dual)[0], dual)


@pytest.mark.parametrize("keep_sums", [False, True])
def test_sums_along_the_middle_go_to_the_last_digit(keep_sums):
    rng = np.random.default_rng(0)
    rows = np.column_stack([COLUMNS["nanoseconds"](rng, 9), rng.standard_normal(9), np.ones(9)])
    dual = rng.standard_normal((9, 2))
    dual = dual - dual.mean(axis=0) if keep_sums else dual
    high, low = without_middle(rows, dual, keep_sums=keep_sums)
    for one, exact in zip(objects(high).T, whole(high, low).T, strict=True):
        assert abs(exact @ objects(rows[:, 0])) < 1e-5
        assert abs(one @ objects(rows[:, 0])) > 1.0
        assert not keep_sums or abs(sum(exact)) < Fraction(1, 2**95)


def test_a_network_where_there_is_no_time_for_any_other():
    X, y = table(("milliseconds", "income"), 30)
    problem = Problem.through(reduce_rows(np.column_stack([X, np.ones(30)]), np.eye(3))[1] / 1e9, y)
    point = quick_network(problem, 0.0)
    assert 0 < len(point.neurons) <= 30
    assert problem.missed(*point.network) < 1e-9
    assert point.upper_bound == pytest.approx(float(np.abs(point.weights).sum()))


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_no_more_neurons_than_targets(n_outputs):
    rng = np.random.default_rng(n_outputs)
    rows = np.column_stack([rng.standard_normal((6, 2)), np.ones(6)])
    neurons = rng.standard_normal((40, 3))
    neurons /= np.linalg.norm(neurons, axis=1, keepdims=True)
    weights = rng.standard_normal((40, n_outputs))
    targets = np.maximum(rows @ neurons.T, 0.0) @ weights
    problem = Problem.through(rows, targets)
    network = with_few_neurons(problem, neurons, weights, np.zeros(n_outputs))
    assert 0 < len(network[0]) <= targets.size
    assert problem.missed(*network) < 1e-9
    # points that a network does not meet leave nothing to take apart: one along a line comes instead
    other = with_few_neurons(Problem.through(rows, 2.0 * targets), neurons, weights, network[2])
    assert 0 < len(other[0]) <= targets.size


@pytest.mark.parametrize("output_bias", ["none", "free"])
def test_far_rows_are_proved_in_integers(output_bias):
    solution = covopt.min_norm(*table(("seconds", "plain"), 8), output_bias=output_bias)
    found = covopt.verify(solution, exact=True)
    detail = {check.name: check.detail for check in found.checks}["exact lower bound"]
    assert found.ok
    assert "proved by all faces in integers" in detail and "NOT exact" not in detail


def test_a_bound_that_all_faces_do_not_prove_is_refused():
    solution = covopt.min_norm(*table(("seconds", "plain"), 8))
    higher = replace(solution.certificate, lower_bound=solution.lower_bound * (1.0 + 1e-6))
    claims = exact_checks(replace(solution, certificate=higher), solution.data)
    said = next(claim for claim in claims if claim.name == "exact lower bound")
    assert not said.ok and "by all faces in integers" in said.detail


def test_fits_of_far_rows_are_proved_by_boxes_or_faces():
    solution = covopt.fit(*table(("seconds", "plain"), 8), loss="huber", lam="0.1max")
    assert covopt.verify(solution, exact=True).ok
