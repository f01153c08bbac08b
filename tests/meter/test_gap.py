"""The report: a ladder above a certified bound, checked again from its file; arguments; the command."""

import dataclasses
import importlib
import json
import os
import signal
from itertools import pairwise
from unittest.mock import Mock

import numpy as np
import pytest

import covopt
from covopt.errors import SolutionFileError, Status
from covopt.limits import HURRY_S, TimeUp
from covopt.losses import LOSSES
from covopt.meter.report import RUNGS
from tests.bank.problems import Problem
from tests.cases import values, with_value

RNG = np.random.default_rng(7)
X, Y = RNG.standard_normal((20, 2)), RNG.standard_normal(20)
LAM = 0.02
NETWORK = (RNG.standard_normal((8, 3)), 0.3 * RNG.standard_normal(8))


CLASSES = np.digitize(Y, [-0.5, 0.5])


def targets_of(loss):
    if loss == "softmax-cross-entropy":
        return CLASSES
    return (Y > 0).astype(int) if LOSSES[loss].is_classification else Y


def mean_of(loss, F):
    """The loss as the bank writes it out."""
    return Problem("", X, targets_of(loss), 1.0, loss=loss).value(F.reshape(len(X), -1))


def network_of(loss):
    W, v = NETWORK
    return (W, np.outer(v, [1.0, -1.0, 0.5])) if loss == "softmax-cross-entropy" else NETWORK


def reports():
    for loss in LOSSES:
        yield loss, covopt.gap(network_of(loss), X, targets_of(loss), loss=loss, lam=LAM)
    yield "share", covopt.gap(NETWORK, X, Y > 0, loss="logistic", lam="0.1max", output_bias="free")
    yield "interpolation", covopt.gap(NETWORK, X, Y, loss="interpolation", tol=1e-4)
    outputs = NETWORK[0], np.outer(NETWORK[1], [1.0, -1.0])
    yield "two outputs", covopt.gap(outputs, X, np.column_stack([Y, X[:, 0]]), lam=LAM)
    deep = covopt.DeepReLUNetwork([RNG.standard_normal(s) for s in ((3, 2), (2, 3), (1, 2))])
    # its starts are counted, not timed
    yield "deep", covopt.gap(deep, X[:2], Y[:2], lam=0.1, time_limit_s=None)


@pytest.fixture(scope="module")
def bank():
    return dict(reports())


def test_the_ladder_never_rises_and_ends_at_a_bound(bank):
    for name, report in bank.items():
        steps = report.ladder
        assert list(steps) == ["as given", "balanced", "merged", "refitted", "best", "lower bound"], name
        values = list(steps.values())
        assert all(b <= a * (1.0 + 1e-12) for a, b in pairwise(values)), (name, steps)
        assert report.objective == values[0], name
        assert report.lower_bound == report.best.lower_bound == values[-1] > 0.0, name
        assert report.best.objective == pytest.approx(values[-2], rel=1e-12), name  # an explicit network
        assert report.gap == pytest.approx((values[0] - values[-1]) / values[0]), name
        if name != "deep":
            assert report.status.code == "certified", name
            assert report.best.gap <= report.tol, name
        assert "no network below" in report.summary(), name
        if report.refit_gap is not None:  # the refit states its own duality gap
            assert -1e-9 <= report.refit_gap <= 1e-8 and report.to_dict()["refit_gap"] == report.refit_gap
            assert "(known to" in report.summary()
    best, report = covopt.fit(X, Y, lam=LAM), bank["squared"]
    assert report.lower_bound <= best.objective * (1 + 1e-9)
    assert report.ladder["best"] >= best.lower_bound * (1 - 1e-9)
    assert report.best.objective == pytest.approx(report.ladder["best"], rel=2e-3)


def test_the_objective_is_that_of_the_formula(bank):
    augmented = np.column_stack([X, np.ones(len(X))])
    for loss in LOSSES:
        W, V = network_of(loss)
        norm = (W**2).sum() + (V**2).sum()
        expected = mean_of(loss, np.maximum(augmented @ W.T, 0.0) @ V) + LAM * norm
        assert bank[loss].objective == pytest.approx(expected, rel=1e-12), loss
    W, v = NETWORK
    assert bank["interpolation"].objective == pytest.approx((W**2).sum() + (v**2).sum(), rel=1e-12)
    lam = 0.1 * covopt.lambda_max(X, Y > 0, loss="logistic", output_bias="free")
    fitted = np.maximum(augmented @ W.T, 0.0) @ v
    expected = mean_of("logistic", fitted) + lam * bank["interpolation"].objective
    assert bank["share"].objective == pytest.approx(expected, rel=1e-9)


def test_a_report_goes_to_a_file_and_is_verified_from_there(bank, tmp_path):
    for name, report in bank.items():
        path = tmp_path / f"{name}.json"
        report.save(path)
        again = covopt.load(path)
        assert again.ladder == pytest.approx(report.ladder, rel=1e-12), name
        assert again.to_dict()["networks"] == report.to_dict()["networks"], name
        found = covopt.verify(path)
        assert found.ok, (name, found.summary())


def test_findings_are_words_to_act_on():
    best = covopt.fit(X, Y, lam=LAM).network
    hidden, outputs = best.hidden_weights, best.output_weights[:, 0]
    twice = (np.vstack([hidden, hidden]), np.concatenate([outputs, outputs]) / 2)
    silent = (np.vstack([hidden, [[0.0, 0.0, -1.0]]]), np.append(outputs, 1.0))
    without = (hidden[1:], outputs[1:])
    for network, said in (
        (twice, "point the same way"),
        (silent, f"1 of {len(hidden) + 1} neurons are silent"),
        ((5.0 * hidden, outputs / 5.0), "not balanced"),
        ((0.7 * hidden, 0.7 * outputs), "output weights have not converged"),
        (without, "a neuron is missing at"),
    ):
        assert any(said in text for text in covopt.gap(network, X, Y, lam=LAM, tol=1e-6).findings), said


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("signals", [0, 1, 2])
def test_ctrl_c_leaves_a_report_and_little_time(monkeypatch, signals):
    """In the ladder it lost the report."""
    measuring = importlib.import_module("covopt.meter")
    left, climb, solve = [], measuring.rungs, measuring.fit

    def climbing(*words):
        for _ in range(signals):
            signal.raise_signal(signal.SIGINT)
        return climb(*words)

    def solving(*words, **options):
        left.append(options["time_limit_s"])
        return dataclasses.replace(
            solve(*words, **{**options, "time_limit_s": 0.2}), status=Status.INTERRUPTED
        )

    if signals:  # what there was no time for has its name, and the objective of the rung before
        monkeypatch.setattr(measuring, "rungs", lambda *words: iter(()))
        report = covopt.gap(NETWORK, X, Y, lam=LAM, time_limit_s=0.5)
        assert list(report.ladder) == list(RUNGS) and list(report.networks) == ["as given"]
        assert report.ladder["refitted"] == report.objective and "no time for it" in report.summary()
        assert covopt.verify(report).ok
    monkeypatch.setattr(measuring, "rungs", climbing)
    monkeypatch.setattr(measuring, "fit", solving)
    report = covopt.gap(NETWORK, X, Y, lam=LAM)
    assert (left[0] <= HURRY_S) == (signals > 0)
    assert 0.0 < report.lower_bound <= report.best.objective <= report.objective
    assert covopt.verify(report).ok


def test_a_number_that_was_changed_is_refused_and_a_damaged_file_is_one_sentence(bank, tmp_path):
    whole, file = json.dumps(bank["squared"].to_dict()), tmp_path / "forged.json"
    held, changed = json.loads(whole), 0
    for place, value in values(held, ends=True):
        if place[0] in ("best", "time_s") or not isinstance(value, float) or not value:
            continue
        step = 1e-5 * value if place[0] == "networks" else 1e-6
        file.write_text(json.dumps(with_value(held, place, lambda old, step=step: old + step)))
        found = covopt.load(file).claims()
        assert any(not check.ok for check in found), place  # before those of the best network, which are long
        changed += 1
    assert changed > 30
    content = {**held, "findings": ["it is perfect"], "formula": "λ = 0.01"}
    file.write_text(json.dumps(content))
    assert covopt.load(file).findings == bank["squared"].findings  # found anew
    assert covopt.verify(file).failed == ["formula"]
    content = {**held, "networks": {**held["networks"], "refitted": best_of(bank["squared"])}}
    assert "refitted neurons" in covopt.verify(covopt.Gap.from_dict(content)).failed
    for change in (
        lambda c: c.pop("networks"), lambda c: c["networks"].pop("as given"),
        lambda c: c["networks"]["merged"]["weights"].pop(), lambda c: c["ladder"].pop("best"),
        lambda c: c.update(schema=9), lambda c: c.update(best={}),
    ):  # fmt: skip
        content = json.loads(whole)
        change(content)
        file.write_text(json.dumps(content))
        with pytest.raises(SolutionFileError):
            covopt.load(file)


def best_of(report):
    """The best network in the place of a rung: better than its neurons allow."""
    network = report.best.network
    hidden = network.hidden_weights
    weights = [hidden[:, :-1].tolist(), network.output_weights.T.tolist()]
    return {"weights": weights, "biases": [hidden[:, -1].tolist(), None]}


@pytest.mark.parametrize("ends", ["the limit", "what a signal leaves", "a deadline within the certificate"])
def test_a_limit_around_a_report_is_no_failure(bank, monkeypatch, ends):
    """What a signal left was verified under a limit of its own, and a deadline within passed for one: tracebacks."""
    if ends == "what a signal leaves":
        monkeypatch.setattr("covopt.meter.report.seconds_left", lambda: 1e-6)
    if ends == "a deadline within the certificate":
        monkeypatch.setattr("covopt.verification._verify", Mock(side_effect=TimeUp))
    limit = {"the limit": 1e-6, "what a signal leaves": None, "a deadline within the certificate": 60.0}[ends]
    found = covopt.verify(bank["squared"], time_limit_s=limit)
    assert not found.ok and not found.in_time and not found.failed
    assert ends != "what a signal leaves" or len(found.checks) > 10


@pytest.mark.parametrize(
    ("points", "moves_y"), [(100.0 * X + 900.0, False), (X, True), (100.0 * X + 900.0, True)]
)
def test_a_table_in_other_units_is_told(points, moves_y):
    y = 152.0 + 77.0 * (X[:, 0] + 0.1 * Y)
    columns, targets = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    best = covopt.fit(columns, targets, lam=1e-4).network
    measured = points, y if moves_y else targets
    (note,) = covopt.gap(best, *measured, lam=1e-4, time_limit_s=0.5).notes
    assert f"Pass standardise=True, or scaler={' and y as it was' if moves_y else ''}" in note
    if moves_y:
        (note,) = covopt.gap(best, points, y, lam=1e-4, standardise=True, time_limit_s=0.5).notes[1:]
        assert "fits y centred and scaled" in note


def test_interpolation_says_what_it_means_for_y(bank):
    (note,) = bank["interpolation"].notes
    assert "misses y by" in note
    network = covopt.min_norm(X[:6], Y[:6]).network
    report = covopt.gap(network, X[:6], Y[:6], loss="interpolation")
    said = float(report.notes[0].rpartition(" ")[2])
    assert said == pytest.approx(report.lower_bound, rel=1e-4) and said <= network.squared_norm * (1 + 1e-5)
