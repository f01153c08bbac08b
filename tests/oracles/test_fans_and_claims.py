"""Several outputs by a fan of directions, bounds that are claimed, and bounds that are remembered."""

import signal
from dataclasses import replace

import numpy as np
import pytest

import covopt
from benchmarks.adversary.neurons import best_neuron
from covopt.certificates.certify import Certifier
from covopt.checks.memory import memory_limited
from covopt.data import Data
from covopt.errors import Status
from covopt.limits import TimeUp
from covopt.network import ReLUNetwork
from covopt.oracles import certified
from covopt.oracles.base import recall, remember, remembering
from covopt.oracles.boxes import scalar
from covopt.oracles.boxes.fan import fan_dual_norm
from covopt.oracles.boxes.quadratic_search import quadratic_dual_norm
from covopt.oracles.boxes.search import box_dual_norm
from covopt.oracles.certified import BY_BOXES, BY_CHORDS, certified_dual_norm, fan_bound, in_integers
from covopt.oracles.vector_faces import VectorFaceOracle
from covopt.problems.problem import Problem
from covopt.solvers.bounds import FULL, Bounds
from covopt.solvers.loop import Point
from tests.cases import drawn, normal
from tests.oracles.table import fan


def test_each_call_of_a_fan_only_lowers_its_bound():
    rows, dual = normal(0, (12, 3), (12, 3))
    bounds = [fan(rows, dual, max_calls=calls) for calls in (3, 6, 12, 24)]
    assert bounds == sorted(bounds, reverse=True) and bounds[-1] < 0.98 * bounds[0]


def test_a_fan_needs_what_its_combinations_are_rounded_by(monkeypatch):
    """Λv is rounded: where its terms cancel, the bound of what was computed is below the exact dual's."""
    rows, dual = np.ones((1, 1)), np.array([[1.0, 2.0**-60]])
    found = fan_dual_norm(rows, dual, lambda one: abs(float(one[0])), best=1.0, max_calls=40)
    assert found > 1.0  # h² = 1 + 2⁻¹²⁰


def test_several_outputs_in_many_dimensions_are_proved_by_signs_along_a_fan():
    X, Y = normal(0, (6, 4), (6, 2))
    dual = covopt.min_norm(X, Y).dual * 1.0
    rows = np.column_stack([X, np.ones(6)])
    exact = VectorFaceOracle(rows).price(dual).upper_bound
    found = fan_bound(rows, dual)
    assert exact * (1.0 - 1e-12) <= found.value <= exact * (1.0 + 1e-6)


@pytest.fixture
def without_signs(monkeypatch):
    """Branch and bound over signs, which closes what is small enough for a test, finds nothing."""
    nothing = scalar.DualNormBound(np.inf, np.zeros(1), 0.0, 0, False, np.zeros((1, 1)))
    monkeypatch.setattr(certified, "sign_dual_norm", lambda *_, **__: nothing)


@pytest.fixture(scope="module")
def noise():
    random = np.random.default_rng(3)
    rows, dual = np.column_stack([random.standard_normal((60, 9)), np.ones(60)]), random.standard_normal(60)
    dual -= rows @ np.linalg.lstsq(rows, dual, rcond=None)[0]  # as duals of noise are
    return rows, dual, quadratic_dual_norm(rows, dual, max_nodes=400)


def test_what_is_claimed_is_shown_or_not(noise):
    rows, dual, known = noise
    claim, best = 1.0001 * known.upper_bound, abs(known.best_value)
    shown = quadratic_dual_norm(rows, dual, goal=claim, max_nodes=2000)
    assert best <= shown.upper_bound <= claim and shown.nodes <= known.nodes + 64
    for less, nodes in ((0.999 * best, 500), (0.5 * (known.upper_bound + best), 50)):
        assert best <= quadratic_dual_norm(rows, dual, goal=less, max_nodes=nodes).upper_bound > less


def test_a_claim_is_no_reason_to_believe_it(noise, without_signs):
    rows, dual, known = noise
    claimed = certified_dual_norm(rows, dual, effort=0.002, goal=1.001 * known.upper_bound)
    assert claimed.method == BY_BOXES and claimed.value <= 1.002 * known.upper_bound
    for claim in (0.5 * abs(known.best_value), np.nan):
        assert certified_dual_norm(rows, dual, effort=0.002, goal=claim).value >= abs(known.best_value)


def test_a_certificate_rests_on_a_claim_that_it_has_shown(noise, without_signs):
    rows, dual, known = noise
    random = np.random.default_rng(4)
    data = Data.validate(rows[:, :9], random.standard_normal(60), bias=1.0)
    network = ReLUNetwork.from_neurons(np.eye(1, 10), np.ones(1), bias=1.0)
    dual = dual / (1.001 * known.upper_bound)
    certifier, work = Certifier(data, network, output_bias="none"), {"goal": 1.0, "effort": 0.002}
    found = certifier.conclude(dual, stopped=Status.HEURISTIC, tol=1e-6, **work)
    assert found.certificate.gauge <= 1.0 + 1e-9 and found.certificate.bound.endswith(BY_BOXES)
    forged = certifier.certify(2.0 * dual, **work)
    assert forged.gauge >= 2.0 * abs(known.best_value) / (1.001 * known.upper_bound)


def test_a_claim_in_few_dimensions_is_worth_more_boxes(without_signs, monkeypatch):
    random = np.random.default_rng(5)
    rows, dual = np.column_stack([random.standard_normal((40, 5)), np.ones(40)]), random.standard_normal(40)
    dual -= rows @ np.linalg.lstsq(rows, dual, rcond=None)[0]
    known = box_dual_norm(rows, dual, rtol=1e-6)
    monkeypatch.setattr(certified, "box_limit", lambda *_: known.nodes // 2)
    monkeypatch.setattr(certified, "quadratic_limit", lambda *_: 0)
    data = Data.validate(rows[:, :5], random.standard_normal(40), bias=1.0)
    network = ReLUNetwork.from_neurons(np.eye(1, 6), np.ones(1), bias=1.0)
    dual /= known.upper_bound
    certifier = Certifier(data, network, output_bias="none")
    found = certifier.conclude(dual, stopped=Status.GAP, tol=1e-6, goal=1.0, effort=0.002).certificate
    assert found.exact and found.gauge <= 1.0 + 1e-6
    again = certifier.certify(dual, goal=found.gauge, effort=0.002)
    assert again.lower_bound >= found.lower_bound * (1.0 - 1e-9)
    without = certifier.certify(dual, effort=0.002)
    assert without.gauge > 1.0 + 1e-6


def deepened(rows, dual, time_s, callback=lambda *_: False):
    """The point that boxes leave after so many seconds."""
    problem = Problem.through(rows, dual)
    point = replace(Point.nothing(problem, Status.HEURISTIC), upper_bound=1e3, dual=dual[:, None])
    Bounds(problem, point, dual[:, None], tol=1e-6, time_s=time_s, callback=callback).by_boxes()
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
    lower = lambda dual_norm: problem.scale_dual(dual[:, None], dual_norm)[1]  # noqa: E731
    assert 0.0 < seen[0].lower_bound < seen[1].lower_bound <= point.lower_bound
    assert point.lower_bound <= lower(abs(known.best_value)) * (1.0 + 1e-12)
    assert point.lower_bound >= lower(known.upper_bound) * 0.9
    assert lower(kept) >= point.lower_bound * (1.0 - 1e-9)
    assert [state.round for state in seen] == [0, 1] and "boxes with quadratics raise" in seen[1].note


def test_memory_for_open_boxes_is_a_cap_and_the_bound_stays_valid(noise):
    rows, dual, known = noise
    with memory_limited(600_000 / 2**30):  # a quarter of it holds some fifty boxes
        problem, point = deepened(rows, dual, 5.0)
    assert point.history[-1].note == FULL and "that is meant for them" in FULL
    assert 0.0 < point.lower_bound <= problem.scale_dual(dual[:, None], abs(known.best_value))[1]


def test_a_fan_stops_where_no_direction_can_lower_its_bound():
    """Directions whose bounds are loose never come near the best neuron: one of them holds the bound of the fan."""
    rows, dual = normal(0, (12, 3), (12, 3))
    h = float(VectorFaceOracle(rows).price(dual).values[0])
    asked = []

    def loose(one):
        asked.append(2.0 * box_dual_norm(rows, one, rtol=1e-8).upper_bound)
        return asked[-1]

    found = fan_dual_norm(rows, dual, loose, best=h, rtol=1e-3, max_calls=1500)
    assert 2.0 * h * (1.0 - 1e-6) <= found <= 2.0 * h * 1.0011 and len(asked) < 150


def test_directions_that_do_not_end_spend_the_effort_of_a_fan(monkeypatch):
    random, rows, dual = drawn(1, (30, 5), (30, 3))
    asked = []

    def looks_for_ever(rows, one, effort):
        asked.append(effort)
        bound = box_dual_norm(rows, one, max_nodes=10).upper_bound
        return certified.DualNormBound(2.0 * bound + random.random(), False, BY_CHORDS)

    monkeypatch.setattr(certified, "_bound_scalar", looks_for_ever)
    found = fan_bound(rows, dual, 0.1)
    assert np.isfinite(found.value) and len(asked) > 1 and sum(asked) <= 0.1 * (1.0 + 1e-12)


def test_few_faces_in_three_dimensions_are_looked_at_in_integers_before_a_fan(monkeypatch):
    """Rows that nearly repeat with a dual of 1e11 that cancels: directions would end in thousands of boxes each."""
    random, rows, dual = drawn(0, (8, 3), (8, 3))
    rows[1], rows[3] = rows[0], rows[2] + 1e-9 * random.standard_normal(3)
    large = 1e11 * random.standard_normal(3)
    dual[:2] += [large, -large]
    for name in ("fan_dual_norm", "box_dual_norm", "quadratic_dual_norm"):
        monkeypatch.setattr(certified, name, lambda *_, name=name, **__: pytest.fail(name))
    found = certified_dual_norm(rows, dual)
    assert found.exact and not best_neuron(rows, dual, random).exceeds(found.value)


# ---- what was proved on the way bounds the certificate's dual norm in all coordinates and units, and never too low.
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("move", ["nothing", "rows", "dual", "units"])
def test_a_transfer_is_never_below_the_maximum(move, n_outputs):
    rng = np.random.default_rng(3)
    for _ in range(40):
        rows, dual = rng.standard_normal((7, 2)), rng.standard_normal((7, n_outputs))
        proved = in_integers(rows, dual).value
        known_rows = rows @ np.linalg.qr(rng.standard_normal((2, 2)))[0] * 2.0 ** rng.integers(-9, 9)
        scale = proved / in_integers(known_rows, dual).value
        known_dual = dual * scale * rng.uniform(0.5, 2.0)
        value = in_integers(known_rows, known_dual).value
        if move == "rows":  # as if somebody had handed in rows of another table
            known_rows = known_rows * (1.0 + 1e-4 * rng.standard_normal((7, 1)))
        elif move == "dual":
            known_dual = known_dual * (1.0 + 1e-7 * rng.standard_normal((7, 1)))
        elif move == "units":
            powers = rng.integers(-30, 30, 7)[:, None]
            known_rows, known_dual = np.ldexp(known_rows, powers), np.ldexp(known_dual, -powers)
        if move != "units":
            value = in_integers(known_rows, known_dual).value
        with remembering():
            remember(known_rows, known_dual, value)
            found = recall(rows, dual)
        assert proved * (1.0 - 1e-13) <= found
        assert move == "rows" or found <= proved * (1.0 + 1e-5)


def test_what_does_not_fit_is_left_aside():
    rows, dual = np.eye(3), np.ones(3)
    with remembering():
        remember(rows, dual, np.inf)
        remember(rows[:2], dual[:2], 1.0)
        remember(rows, np.array([1.0, 2.0, 3.0]), 1.0)
        assert recall(rows, dual) == np.inf
        remember(rows * 1e300, dual, 1e300)
        remember(rows * 0.0, dual, 0.0)
        assert recall(rows, dual) >= np.sqrt(3.0)
        assert recall(rows * 0.0, dual) == np.inf
    remember(rows, dual, np.sqrt(3.0))
    assert recall(rows, dual) == np.inf


@pytest.mark.parametrize("command", ["min_norm", "fit"])
def test_an_interrupt_keeps_what_the_rounds_have_proved(command, monkeypatch):
    rng = np.random.default_rng(0)
    n = 24 if command == "min_norm" else 40
    X = rng.standard_normal((n, 4))
    y = np.abs(X).sum(axis=1) + 0.3 * rng.standard_normal(n)
    known, searched = [], certified.searched_dual_norm

    def no_time(rows, dual, budget, *claim):
        if known:
            if budget >= 1.0:
                raise TimeUp
            return certified.DualNormBound(1e3, False, certified.VALID)
        return searched(rows, dual, budget, *claim)

    def stop(state):
        if state.lower_bound > 0.0 and np.isfinite(state.upper_bound):
            known.append(state.lower_bound)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(certified, "searched_dual_norm", no_time)
    options = {"tol": 1e-9, "callback": stop}
    found = (
        covopt.min_norm(X, y, **options) if command == "min_norm" else covopt.fit(X, y, lam=0.01, **options)
    )
    assert found.status.code == "interrupted"
    assert known[0] * (1.0 - 1e-6) <= found.lower_bound <= known[0]
    monkeypatch.undo()
    assert covopt.verify(found).ok


def test_faces_of_several_outputs_are_remembered_where_they_are_proved():
    rng, rows, dual = drawn(5, (12, 4), (12, 2))
    oracle = VectorFaceOracle(rows)
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    with remembering():
        bound = oracle.price(dual).upper_bound
        assert oracle.proved
        assert bound * (1.0 - 1e-12) <= recall(rows @ turn, 3.0 * dual) / 3.0 <= bound * (1.0 + 1e-9)
