import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covopt.limits import TimeUp, limited
from covopt.oracles import ascent
from covopt.oracles.local_search import LocalSearchOracle, approach, climb, climb_outputs
from covopt.oracles.vector_faces import VectorFaceOracle
from tests.cases import drawn, normal, unit
from tests.oracles.table import functions, question


def test_climbs_start_where_rows_of_uneven_columns_are_round():
    """Columns of sizes 1 to 1e-5: directions that are uniform in the units given all cut the rows alike."""
    rows = normal(4, (60, 4))
    uneven = rows * np.array([1.0, 1e-2, 1e-3, 1e-5])
    starts = LocalSearchOracle(uneven, random_state=0)._starts(np.zeros(60), 400)  # noqa: SLF001
    share = np.mean((uneven @ starts[-200:].T > 0).std(axis=1) > 0.3)
    assert share > 0.9


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 20), st.integers(0, 3), st.booleans())
def test_climbs_end_no_lower(seed, r, n, k, integer):
    """With one output, beside a linear term, or with several."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-2, 3, (n, r)).astype(float) if integer else rng.standard_normal((n, r))
    rows = rows[np.linalg.norm(rows, axis=1) > 0]
    dual, linear = rng.standard_normal((len(rows), k) if k else len(rows)), rng.standard_normal(r)
    starts = unit(rng.standard_normal((6, r)))
    height = lambda points: functions(rows, dual, points) + (0.0 if k else points @ linear)  # noqa: E731
    each = (starts,) if not k else starts[:, None]  # climbs of several outputs drop what ends in one point
    for start in each:
        points, values = climb_outputs(rows, dual, start) if k else climb(rows, dual, linear, start)
        assert np.allclose(np.linalg.norm(points, axis=1), 1)
        assert np.allclose(values, height(points), atol=1e-11)
        assert (values >= height(start) - 1e-12 * np.abs(dual).sum()).all()


def test_ends_of_vector_climbs_are_local_maxima():
    rng, rows, dual = drawn(7, (15, 5), (15, 3))
    found = LocalSearchOracle(rows, n_starts=64, random_state=0).price(dual)
    assert found.values[0] <= found.upper_bound
    assert (np.diff(found.values) <= 0).all()
    near = unit(found.neurons[0] + 1e-4 * rng.standard_normal((2000, 5)))
    assert functions(rows, dual, near).max() <= found.values[0] * (1 + 1e-13)


@pytest.mark.parametrize("seed", [6, 7])
def test_climbs_of_several_outputs_meet_the_best_of_all_faces(seed):
    """From where steps along gradients had led they missed maxima at kinks: of 15 × 8, two outputs, by 5 %."""
    rng, rows = drawn(seed, (10, 4))
    dual = question(rng, rows, "cancels", 2)
    best = VectorFaceOracle(rows).price(dual).values[0]
    met = LocalSearchOracle(rows, n_starts=64, random_state=0).search(dual).upper_bound
    assert met == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_climbs_in_turns_end_where_climbs_end(n_outputs, monkeypatch):
    rows, dual, starts = normal(0, (400, 4), (400, n_outputs), (80, 4))
    starts /= np.linalg.norm(starts, axis=1)[:, None]

    def climbed():
        if n_outputs > 1:
            return climb_outputs(rows, dual, starts, n_threads=2)
        return climb(rows, dual[:, 0], np.zeros(4), starts, n_threads=2)

    points, values = climbed()
    calls = []
    monkeypatch.setattr(ascent, "WORK", 400.0 * 200 * 5)  # a tangent is not cut
    monkeypatch.setattr(ascent, "checkpoint", lambda: calls.append(1))
    again = climbed()
    assert len(calls) > 10
    assert np.array_equal(again[0], points)
    assert np.array_equal(again[1], values)


def test_a_deadline_is_heard_within_one_climb():
    rows, mu = normal(0, (100000, 8), 100000)
    began = time.process_time()
    with pytest.raises(TimeUp), limited(0.02):
        climb(rows, mu, np.zeros(8), np.eye(8)[:1], n_threads=1)  # a second
    assert time.process_time() - began < 0.8


def test_starts_come_near_the_maxima_that_climbs_from_them_meet():
    """Seventy climbs on digits (1797 × 62, nine outputs) took 5.4 s; from where these steps end 1.9 s."""
    rows, dual, starts = normal(3, (120, 6), (120, 3), (40, 6))
    starts /= np.linalg.norm(starts, axis=1, keepdims=True)
    near = approach(rows, dual, starts)
    assert len(near) < len(starts)
    assert np.allclose(np.linalg.norm(near, axis=1), 1.0)
    all_ends, ends = (climb_outputs(rows, dual, each)[1] for each in (starts, near))
    assert ends.max() >= all_ends.max() * (1 - 1e-9)
    values = np.linalg.norm(np.maximum(near @ rows.T, 0.0) @ dual, axis=1)
    assert np.median(values) > 0.95 * np.median(all_ends)
    zero = np.zeros_like(dual)  # no direction to go
    assert len(approach(rows, zero, starts[:2])) == 2
