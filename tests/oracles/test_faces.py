"""The exact oracle in three dimensions: the walk beside boxes, all its maxima, rows that meet."""

import numpy as np
import pytest

from benchmarks.adversary.neurons import best_neuron
from covopt.errors import BudgetError
from covopt.oracles.base import Oracle
from covopt.oracles.faces import FaceOracle, count_faces
from covopt.oracles.local_search import LocalSearchOracle
from covopt.oracles.support import bound_gauge
from covopt.oracles.vector_faces import VectorFaceOracle
from tests.oracles.table import CLEAR, question

EPS = np.finfo(float).eps


KINDS = {
    **CLEAR,
    "grid": lambda rng, n, r: np.unique(np.c_[rng.integers(0, 4, (n, r - 1)), np.ones(n)], axis=0),
    "years and incomes": lambda rng, n, r: np.c_[
        rng.integers(1990, 2024, n), np.round(rng.lognormal(10, 1, n)), np.ones(n)
    ],
}


def nearest(neurons, found):
    """How far each neuron is from one that was found."""
    return np.abs(neurons[:, None] - found).max(axis=2).min(axis=1)


@pytest.mark.parametrize("kind", ["normal", "grid", "opposite"])
def test_complete_returns_every_local_maximum_of_the_sphere(kind):
    rng = np.random.default_rng(1)
    rows = KINDS[kind](rng, 12, 3)
    dual = rng.standard_normal(len(rows))
    found = FaceOracle(rows).price(dual, complete=True)
    peaks = LocalSearchOracle(rows, n_starts=400, random_state=0).price(dual).neurons
    assert len(peaks) >= 2
    assert nearest(peaks, found.neurons).max() < 1e-8


def test_a_maximum_on_an_arc_that_falls_on_its_end():
    rows = np.array([[-1.0, 0, 1], [-1, 1, 1], [0, -1, 1], [0, 0, 1], [1, 1, 1]]) / np.sqrt(3)
    # the peak (1, 1, 0)/√2 of the circle w₃ = 0 lies on the circle of row 1 as well
    dual = np.array([1.82114761, -1.1331169, 0.62834214, -2.54111771, 1.22474487])
    found = FaceOracle(rows).price(dual, complete=True)
    expected = np.array([1.0, 1.0, 0.0]) / np.sqrt(2)
    assert np.abs(found.neurons - expected).max(axis=1).min() < 1e-9


def test_complete_is_not_cut_at_a_few_per_circle():
    rng = np.random.default_rng(5)
    rows = np.column_stack([rng.standard_normal((60, 2)), np.ones(60)])
    dual = question(rng, rows, "cancels", 1)
    oracle = FaceOracle(rows)
    few, every = oracle.price(dual), oracle.price(dual, complete=True)
    assert len(every.neurons) >= len(few.neurons)
    assert nearest(few.neurons, every.neurons).max() < 1e-9
    # of cancelling duals F(w) = F(−w), so peaks come in pairs
    high = every.neurons[np.abs(every.values) > 0.5 * abs(every.values[0])]
    assert nearest(-high, every.neurons).max() < 1e-7


def test_one_thread_and_two_agree_to_the_bit():
    rng = np.random.default_rng(0)
    rows, dual = KINDS["years and incomes"](rng, 260, 3), rng.standard_normal(260)  # enough for threads
    one, two = (FaceOracle(rows, n_threads=n).price(dual) for n in (1, 2))
    np.testing.assert_array_equal(one.neurons, two.neurons)
    np.testing.assert_array_equal(one.values, two.values)
    assert one.upper_bound == two.upper_bound


@pytest.mark.parametrize("ulps", [1, 2, 3, 8, 64])
def test_rows_a_few_ulps_apart_keep_the_bound_valid(ulps):
    # merged into one line, their multipliers cancel; the rows do not
    rows, dual = np.array([[1.0, 1.0], [1.0 + ulps * EPS, 1.0]]), np.array([-1.0, 1.0]) / EPS
    witness = best_neuron(rows, dual, np.random.default_rng(0))  # silent on the first row
    assert witness.value > 0.5
    assert not witness.exceeds(FaceOracle(rows).price(dual).upper_bound)
    assert not witness.exceeds(bound_gauge(rows, dual).value)


def test_budget_is_refused_before_anything_is_computed():
    rows = np.random.default_rng(0).standard_normal((50, 3))
    faces = count_faces(50, 3)
    assert faces >= 2 * 49 * 50  # the arcs alone
    with pytest.raises(BudgetError, match="50 rows in dimension 3"):
        FaceOracle(rows, budget=faces - 1)
    oracle: Oracle = FaceOracle(rows, budget=faces)
    assert oracle.price(np.ones(50)).exact


@pytest.mark.parametrize("oracle", [FaceOracle, VectorFaceOracle])
def test_fewer_lines_than_columns_are_no_arrangement_of_faces(oracle):
    lines = np.random.default_rng(0).standard_normal((2, 3))
    with pytest.raises(BudgetError, match="on 2 lines in dimension 3"):
        oracle(np.concatenate([lines, 2.0 * lines, -0.5 * lines]))


@pytest.mark.parametrize("seed", range(12))
def test_a_column_in_other_units_hides_no_neuron(seed):
    """All crossings of a circle in one point, to rounding: the two arcs between are as long as an arc can be."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((int(rng.integers(3, 6)), 3))
    rows[:, 1] *= 10.0 ** rng.uniform(-19, -14)
    if seed % 3 == 0:
        rows[0] = [0.0, 1.0, 0.0]
    elif seed % 3 == 1:
        rows[:, 2] = 1.0
    dual = rng.standard_normal(len(rows))
    witness = best_neuron(rows, dual, rng)
    assert not witness.exceeds(FaceOracle(rows).price(dual).upper_bound)
    assert not witness.exceeds(bound_gauge(rows, dual).value)
