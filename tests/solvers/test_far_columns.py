"""Several inputs in any units: years, incomes, seconds and milliseconds since 1970 beside ordinary columns."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import covopt
from covopt.certificates.exact import exact_checks
from covopt.exact.far_rows import FarRows, coordinates, frame, whole, without_middle
from covopt.oracles.support import bound_gauge
from covopt.problems.problem import Problem
from covopt.problems.reduction import reduce_rows
from covopt.solvers.finish import with_few_neurons
from covopt.solvers.quick import quick_network
from tests.oracles.table import exact_value, objects
from tests.solvers.units import COLUMNS, check


def table(kinds: tuple[str, ...], n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    X = np.column_stack([COLUMNS[kind](rng, n) for kind in kinds])
    unit = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, np.sin(2.0 * unit[:, 0]) + unit[:, -1] * unit[:, 0] + 0.1 * rng.standard_normal(n)


PAIRS = [
    ("year", "plain"), ("income", "plain"), ("seconds", "plain"), ("milliseconds", "plain"), ("year", "income"),
    ("seconds", "income"), ("milliseconds", "seconds"), ("year", "yes/no"), ("seconds", "yes/no"),
]  # fmt: skip


BESIDE_TWO = {"gap": 0.05}  # docs/limits.md: as it is, a gap of some per cent may stay
OF_NANOSECONDS = {"output_bias": "free", "gap": 1.0}  # and here the bracket alone is valid
NIGHT = [
    (("seconds", "year", "plain"), 20, BESIDE_TWO), *((kinds, n, {}) for kinds in PAIRS for n in (30, 60)),
    *((kinds, 100, {}) for kinds in PAIRS[:3]),
    *((("nanoseconds", "plain"), n, options) for n in (20, 60, 100) for options in ({}, OF_NANOSECONDS)),
    *((("nanoseconds", other), n, {}) for n in (20, 60) for other in ("yes/no", "seconds")),
    *(((*pair, "plain"), n, BESIDE_TWO) for n in (20, 30) for pair in (*PAIRS[:5], PAIRS[8])),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kinds", "n", "options"),
    [
        (PAIRS[2], 20, {}), (PAIRS[7], 20, {}), (("nanoseconds", "plain"), 8, {}),
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
def test_products_are_those_of_fractions():
    rng = np.random.default_rng(0)
    rows = np.column_stack([1.7e12 + rng.uniform(0.0, 1e6, 5).round(), rng.standard_normal(5), np.ones(5)])
    basis = frame(rows.mean(axis=0) / np.linalg.norm(rows.mean(axis=0)))
    found = coordinates(rows, basis)
    exact = objects(rows) @ objects(basis)
    assert (abs(objects(found) - exact) <= abs(exact) * Fraction(2) ** -52).all()


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_no_neuron_exceeds_the_bound_of_rows_brought_closer(n_outputs):
    """Neurons with a kink among the points, at which sums cancel, in fractions."""
    rng = np.random.default_rng(n_outputs)
    rows = np.column_stack([1.6e9 + rng.uniform(0.0, 1e6, 9).round(), rng.standard_normal(9), np.ones(9)])
    dual, _ = without_middle(rows, rng.standard_normal((9, n_outputs)))
    bound = bound_gauge(rows, dual[:, 0] if n_outputs == 1 else dual).value
    far = FarRows.of(rows)
    assert far is not None
    best = 0.0
    for _ in range(200):
        row, across = far.rows[rng.integers(9)], rng.standard_normal(2)
        u = np.append(-(row[1:] @ across) / row[0], across)  # silent at the row
        best = max(best, exact_value(rows, objects(dual), far.basis @ (u / np.abs(u).max())))
    assert 0.5 * bound < best <= bound


def test_all_rows_active_may_be_what_decides():
    rows = np.column_stack([1.6e9 + np.arange(5.0), np.arange(5.0) ** 2, np.ones(5)])
    dual = np.array([1.0, -2.0, 1.0, 0.0, 1e-6])
    assert bound_gauge(rows, dual).value == pytest.approx(float(np.linalg.norm(dual @ rows)), rel=1e-9)


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
