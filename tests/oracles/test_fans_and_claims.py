"""Several outputs by a fan of output directions, and bounds that are shown again because they are claimed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import covopt
from benchmarks.adversary.neurons import best_neuron
from covopt.certificates.certify import certify, conclude
from covopt.data import Data
from covopt.network import ReLUNetwork
from covopt.oracles import support
from covopt.oracles.cones import box_gauge, moments
from covopt.oracles.cones.fan import fan_gauge
from covopt.oracles.cones.moments import quadratic_gauge
from covopt.oracles.remembered import recall, remembering
from covopt.oracles.support import BY_BOXES, BY_CHORDS, VALID, GaugeBound, bound_gauge, fan_bound
from covopt.oracles.vector_faces import VectorFaceOracle
from covopt.problems.problem import Problem
from covopt.solvers.bounds import FULL, Bounds
from covopt.solvers.points import Point
from covopt.status import Status
from tests.cases import drawn, normal
from tests.oracles.table import fan


def test_each_call_of_a_fan_only_lowers_its_bound():
    rows, dual = normal(0, (12, 3), (12, 3))
    bounds = [fan(rows, dual, max_calls=calls) for calls in (3, 6, 12, 24)]
    assert bounds == sorted(bounds, reverse=True) and bounds[-1] < 0.98 * bounds[0]


def test_a_fan_needs_what_its_combinations_are_rounded_by(monkeypatch):
    """Λv is rounded: where its terms cancel, the bound of what was computed is below the exact dual's."""
    rows, dual = np.ones((1, 1)), np.array([[1.0, 2.0**-60]])
    found = fan_gauge(rows, dual, lambda one: abs(float(one[0])), best=1.0, max_calls=40)
    assert found > 1.0  # h² = 1 + 2⁻¹²⁰


def test_several_outputs_in_many_dimensions_are_proved_by_signs_along_a_fan():
    X, Y = normal(0, (8, 4), (8, 2))
    dual = covopt.min_norm(X, Y).dual * 1.0
    rows = np.column_stack([X, np.ones(8)])
    exact = VectorFaceOracle(rows).price(dual).upper_bound
    found = fan_bound(rows, dual)
    assert exact * (1.0 - 1e-12) <= found.value <= exact * (1.0 + 1e-6)


@pytest.fixture
def without_signs(monkeypatch):
    """Branch and bound over signs, which closes what is small enough for a test, finds nothing."""
    nothing = GaugeBound(np.inf, False, VALID)
    monkeypatch.setattr(support, "sign_gauge", lambda *_: nothing)


@pytest.fixture(scope="module")
def noise():
    random = np.random.default_rng(3)
    rows, dual = np.column_stack([random.standard_normal((60, 9)), np.ones(60)]), random.standard_normal(60)
    dual -= rows @ np.linalg.lstsq(rows, dual, rcond=None)[0]  # as duals of noise are
    return rows, dual, quadratic_gauge(rows, dual, max_nodes=400)


def test_what_is_claimed_is_shown_or_not(noise):
    rows, dual, known = noise
    claim, best = 1.0001 * known.upper_bound, abs(known.best_value)
    shown = quadratic_gauge(rows, dual, goal=claim, max_nodes=2000)
    assert best <= shown.upper_bound <= claim and shown.nodes <= known.nodes + 64
    for less, nodes in ((0.999 * best, 500), (0.5 * (known.upper_bound + best), 50)):
        assert best <= quadratic_gauge(rows, dual, goal=less, max_nodes=nodes).upper_bound > less


def test_a_claim_is_no_reason_to_believe_it(noise, without_signs):
    rows, dual, known = noise
    claimed = bound_gauge(rows, dual, effort=0.002, goal=1.001 * known.upper_bound)
    assert claimed.method == BY_BOXES and claimed.value <= 1.002 * known.upper_bound
    for claim in (0.5 * abs(known.best_value), np.nan):
        assert bound_gauge(rows, dual, effort=0.002, goal=claim).value >= abs(known.best_value)


def test_a_certificate_rests_on_a_claim_that_it_has_shown(noise, without_signs):
    rows, dual, known = noise
    random = np.random.default_rng(4)
    data = Data.validate(rows[:, :9], random.standard_normal(60), bias=1.0)
    network = ReLUNetwork.from_neurons(np.eye(1, 10), np.ones(1), bias=1.0)
    dual = dual / (1.001 * known.upper_bound)
    options = {"output_bias": "none", "effort": 0.002}
    found = conclude(data, network, dual, stopped=Status.HEURISTIC, tol=1e-6, goal=1.0, **options)
    assert found.certificate.gauge <= 1.0 + 1e-9 and found.certificate.bound.endswith(BY_BOXES)
    forged = certify(data, network, 2.0 * dual, goal=1.0, **options)
    assert forged.gauge >= 2.0 * abs(known.best_value) / (1.001 * known.upper_bound)


def test_a_claim_in_few_dimensions_is_worth_more_boxes(without_signs, monkeypatch):
    random = np.random.default_rng(5)
    rows, dual = np.column_stack([random.standard_normal((40, 5)), np.ones(40)]), random.standard_normal(40)
    dual -= rows @ np.linalg.lstsq(rows, dual, rcond=None)[0]
    known = box_gauge(rows, dual, rtol=1e-6)
    monkeypatch.setattr(support, "BOXES", 0.5 * known.nodes / 0.002)
    monkeypatch.setattr(moments, "QUADRATIC_WORK", 0.0)
    data = Data.validate(rows[:, :5], random.standard_normal(40), bias=1.0)
    network = ReLUNetwork.from_neurons(np.eye(1, 6), np.ones(1), bias=1.0)
    dual /= known.upper_bound
    options = {"output_bias": "none", "effort": 0.002}
    found = conclude(data, network, dual, stopped=Status.GAP, tol=1e-6, goal=1.0, **options).certificate
    assert found.exact and found.gauge <= 1.0 + 1e-6
    again = certify(data, network, dual, goal=found.gauge, **options)
    assert again.lower_bound >= found.lower_bound * (1.0 - 1e-9)
    without = certify(data, network, dual, **options)
    assert without.gauge > 1.0 + 1e-6


def deepened(rows, dual, time_s, callback=lambda *_: False):
    """The point that boxes leave after so many seconds."""
    problem = Problem.through(rows, dual)
    point = replace(Point.nothing(problem, Status.HEURISTIC), upper_bound=1e3, dual=dual[:, None])
    Bounds(problem, point, dual[:, None], tol=1e-6, callback=callback).by_boxes(dual[:, None], time_s)
    return problem, point


def test_a_deeper_search_tells_how_the_lower_bound_rises_and_stays_valid(noise):
    rows, dual, known = noise
    seen = []

    def callback(state, point):
        seen.append(state)
        return len(seen) == 2

    with remembering():
        problem, point = deepened(rows, dual, 20.0, callback)
        kept = recall(rows, dual)  # for the certificate
    assert len(seen) == 2 and point.history == seen  # the second answer stopped it
    lower = lambda gauge: problem.scale_dual(dual[:, None], gauge)[1]  # noqa: E731
    assert 0.0 < seen[0].lower_bound < seen[1].lower_bound <= point.lower_bound
    assert point.lower_bound <= lower(abs(known.best_value)) * (1.0 + 1e-12)
    assert point.lower_bound >= lower(known.upper_bound) * 0.9
    assert lower(kept) >= point.lower_bound * (1.0 - 1e-9)
    assert [state.round for state in seen] == [0, 1] and "boxes with quadratics raise" in seen[1].note


def test_memory_for_open_boxes_is_a_cap_and_the_bound_stays_valid(noise, monkeypatch):
    rows, dual, known = noise
    monkeypatch.setattr(moments, "MEMORY", 150_000)  # some fifty boxes
    problem, point = deepened(rows, dual, 5.0)
    assert point.history[-1].note == FULL and "that are meant for them" in FULL
    assert 0.0 < point.lower_bound <= problem.scale_dual(dual[:, None], abs(known.best_value))[1]


def test_a_fan_stops_where_no_direction_can_lower_its_bound():
    """Directions whose bounds are loose never come near the best neuron: one of them holds the bound of the fan."""
    rows, dual = normal(0, (12, 3), (12, 3))
    h = float(VectorFaceOracle(rows).price(dual).values[0])
    asked = []

    def loose(one):
        asked.append(2.0 * box_gauge(rows, one, rtol=1e-8).upper_bound)
        return asked[-1]

    found = fan_gauge(rows, dual, loose, best=h, rtol=1e-3, max_calls=1500)
    assert 2.0 * h * (1.0 - 1e-6) <= found <= 2.0 * h * 1.0011 and len(asked) < 150


def test_directions_that_do_not_end_spend_the_effort_of_a_fan(monkeypatch):
    random, rows, dual = drawn(1, (30, 5), (30, 3))
    asked = []

    def looks_for_ever(rows, one, effort):
        asked.append(effort)
        return GaugeBound(
            2.0 * box_gauge(rows, one, max_nodes=10).upper_bound + random.random(), False, BY_CHORDS
        )

    monkeypatch.setattr(support, "_bound_scalar", looks_for_ever)
    found = fan_bound(rows, dual, 0.1)
    assert np.isfinite(found.value) and len(asked) > 1 and sum(asked) <= 0.1 * (1.0 + 1e-12)


def test_few_faces_in_three_dimensions_are_looked_at_in_integers_before_a_fan(monkeypatch):
    """Rows that nearly repeat with a dual of 1e11 that cancels: directions would end in thousands of boxes each."""
    random, rows, dual = drawn(0, (8, 3), (8, 3))
    rows[1], rows[3] = rows[0], rows[2] + 1e-9 * random.standard_normal(3)
    large = 1e11 * random.standard_normal(3)
    dual[:2] += [large, -large]
    for name in ("fan_gauge", "box_gauge", "quadratic_gauge"):
        monkeypatch.setattr(support, name, lambda *_, name=name, **__: pytest.fail(name))
    found = bound_gauge(rows, dual)
    assert found.exact and not best_neuron(rows, dual, random).exceeds(found.value)
