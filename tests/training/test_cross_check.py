"""Trained networks against certificates: none below, repaired ones on the points, forged certificates caught."""

import dataclasses
import signal

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import covopt  # noqa: E402
from covopt.errors import CertificateContradictedError  # noqa: E402
from covopt.losses.regression import INTERPOLATES  # noqa: E402
from covopt.meter.gap import against  # noqa: E402
from covopt.training import Phase, loop, recheck  # noqa: E402
from covopt.training.crosscheck import cross_check  # noqa: E402

QUICK = (Phase("adam", 120, decay="cosine"), Phase("lbfgs", 60))


def table(seed=0, n=8, d=2, k=1):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((n, d)), rng.standard_normal((n, k))
    return X, Y[:, 0] if k == 1 else Y


# ---------------------------------------------------------------- with a loss
@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("loss", "output_bias"),
    [
        ("huber", "free"),
        ("logistic", "none"),
        ("softmax-cross-entropy", "none"),
        ("squared, k = 2", "penalized"),
    ],
)
def test_best_network_comes_near_and_none_is_below(loss, output_bias):
    X, y = table(1, k=1 + loss.endswith("2"))
    y = {"logistic": np.where(y > 0, "yes", "no"), "softmax-cross-entropy": list("abcabcab")}.get(loss, y)
    weights = np.linspace(0.0, 1.0, len(X)) if loss.endswith("2") else None
    solution = covopt.fit(
        X, y, lam=0.02, loss=loss.partition(",")[0], output_bias=output_bias, sample_weight=weights
    )
    given = () if weights is not None else (X, y)
    found = cross_check(solution, *given, seeds=6, widths=24, schedule=QUICK)
    assert (found.table.objective >= solution.lower_bound * (1 - 1e-9)).all()
    assert 1 - 1e-6 <= found.ratio <= (1.02 if weights is None else 1.1)
    assert found.best_cost == found.table.cost.min()
    assert found.best_cost == pytest.approx(found.table.objective.min(), rel=1e-12)
    assert found.complete
    assert found.best.squared_norm > 0
    assert "none below the bound" in found.summary()


# ---------------------------------------------------------------- interpolation
@pytest.mark.thinned(3)
@pytest.mark.parametrize("output_bias", ["none", "penalized", "free"])
def test_interpolation_is_repaired_and_compared(output_bias):
    X, y = table(4, n=5, d=1)
    solution = covopt.min_norm(X, y, output_bias=output_bias)
    found = cross_check(solution, seeds=4, widths=16, schedule=QUICK)
    assert 1 - 1e-6 <= found.ratio <= 1.05
    assert (found.table.cost >= found.table.floor * (1 - 1e-9)).all()
    best = found.best.predict(X)
    assert np.abs(best - y).max() <= INTERPOLATES * np.abs(y).max()
    assert found.best.squared_norm == pytest.approx(found.best_cost, rel=1e-12)


@pytest.mark.thinned(5)
@pytest.mark.parametrize(
    ("inputs", "targets", "lam"),
    [(1.0, 1e-8, None), (1e-6, 1e-6, None), (1e4, 1e8, None), (1.0, 1e-8, 0.01), (1e6, 1.0, 0.01)],
)
def test_extreme_scales(inputs, targets, lam):
    X, y = table(6, n=5)
    X, y, bias = inputs * X, targets * y, inputs
    if lam is None:
        solution = covopt.min_norm(X, y, bias=bias)
    else:
        solution = covopt.fit(X, y, lam=lam * targets * inputs, bias=bias)
    slope = targets**1.5 * inputs**0.5
    schedule = None if lam else (Phase("adam", 120, eps=1e-8 * slope), Phase("lbfgs", 40))
    found = cross_check(solution, seeds=2, widths=10, schedule=schedule)
    assert 1 - 1e-6 <= found.ratio <= 1.1


def test_interruption_in_the_last_steps_of_a_stage_ends_the_stages(monkeypatch):
    X, y = table(8, n=5)
    original, seen = loop.Runner.record, []

    def record(self):
        if self.step == 200:
            signal.raise_signal(signal.SIGINT)
        original(self)

    monkeypatch.setattr(loop.Runner, "record", record)
    found = cross_check(
        covopt.min_norm(X, y), seeds=2, widths=8, schedule=Phase("adam", 200), callback=seen.append
    )
    assert not found.complete
    assert [state.step for state in seen] == [100, 200]


# ---------------------------------------------------------------- contradictions
def forged(solution, factor=1.3):
    certificate = dataclasses.replace(solution.certificate, lower_bound=factor * solution.lower_bound)
    return dataclasses.replace(solution, certificate=certificate)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("kind", ["fit", "none", "penalized", "free"])
def test_a_forged_bound_is_caught_and_checked_again_from_the_file_alone(kind, tmp_path):
    X, y = table(16, n=5)
    honest = covopt.fit(X, y, lam=0.02) if kind == "fit" else covopt.min_norm(X, y, output_bias=kind)
    path = tmp_path / "found.json"
    with pytest.raises(CertificateContradictedError, match="is below the certificate: its obj") as caught:
        cross_check(forged(honest), seeds=4, widths=32, schedule=QUICK, contradiction_file=path)
    text = str(caught.value)
    assert "width 32, seed" in text and str(path) in text and caught.value.path == path
    broken = {check.name for check in recheck(path)}
    assert {"bracket", "lower bound"} <= broken
    assert {check.name for check in covopt.verify(path).checks if not check.ok} == broken
    assert np.isfinite(covopt.load(path).objective)


@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in range(1, 20))])
def test_best_of_32_within_one_percent_of_the_optimum(seed):
    rng = np.random.default_rng(seed)
    solution = covopt.fit(rng.standard_normal((20, 2)), rng.standard_normal(20), lam=0.01)
    found = cross_check(solution, widths=40, seeds=32, schedule=Phase("adam", 2000, decay="cosine"))
    assert 1 - 1e-6 <= found.ratio <= 1.01


def test_what_is_not_proved_too_narrow_or_stopped_is_said():
    X, y = table(3)
    solution = covopt.fit(X, y, lam=0.02, callback=lambda state: True)
    found = cross_check(solution, seeds=4, widths=32, schedule=QUICK)
    assert solution.status.code != "certified" and found.ratio < 1 and not found.proved
    assert "not proved to be optimal" in found.summary() and "certified" not in found.summary()
    X, y = table(7, n=9)
    found = cross_check(covopt.min_norm(X, y), seeds=2, widths=1, schedule=Phase("gd", 20))
    assert np.isinf(found.table.cost).all() and np.isinf(found.ratio) and found.best is None
    assert "0 comparable" in found.summary()
    X, y, seen = *table(8, n=5), []
    found = cross_check(
        covopt.min_norm(X, y), seeds=2, widths=16, schedule=QUICK,
        callback=lambda state: seen.append(state.step) or len(seen) == 3,
    )  # fmt: skip
    assert not found.complete and len(seen) == 3 and "stopped" in found.summary()


def test_contradictions_are_kept_somewhere_and_honest_reports_have_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = table(18)
    options, solution = {"seeds": 1, "widths": 24, "schedule": QUICK}, covopt.fit(X, y, lam=0.02)
    with pytest.raises(CertificateContradictedError):
        cross_check(forged(solution, 2.0), **options)
    assert (tmp_path / "covopt-contradiction.json").exists()
    with pytest.raises(CertificateContradictedError) as caught:
        cross_check(forged(solution, 2.0), **options, contradiction_file=tmp_path / "nowhere" / "file.json")
    assert recheck(caught.value.path)
    against(solution.network, solution).save(tmp_path / "file.json")
    assert recheck(tmp_path / "file.json") == []
