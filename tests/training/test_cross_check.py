"""Trained networks against certificates: none below, repaired ones on the points, forged certificates caught."""

import dataclasses
import signal

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import covopt  # noqa: E402
from covopt.errors import CertificateContradictedError, InputError, SolutionFileError  # noqa: E402
from covopt.meter.gap import against  # noqa: E402
from covopt.training import Phase, loop, recheck  # noqa: E402
from covopt.training.crosscheck import MEETS, cross_check  # noqa: E402

QUICK = (Phase("adam", 120, decay="cosine"), Phase("lbfgs", 60))


def table(seed=0, n=8, d=2, k=1):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((n, d)), rng.standard_normal((n, k))
    return X, Y[:, 0] if k == 1 else Y


# ---------------------------------------------------------------- with a loss
@pytest.mark.parametrize(
    ("loss", "output_bias"),
    [("squared", "none"), ("squared", "penalized"), ("huber", "free"), ("logistic", "none")],
)
def test_best_network_comes_near_and_none_is_below(loss, output_bias):
    X, y = table(1)
    y = np.where(y > 0, "yes", "no") if loss == "logistic" else y
    solution = covopt.fit(X, y, lam=0.02, loss=loss, output_bias=output_bias)
    found = cross_check(solution, X, y, seeds=8, widths=32, schedule=QUICK)
    assert (found.table.objective >= solution.lower_bound * (1 - 1e-9)).all()
    assert 1 - 1e-6 <= found.ratio <= 1.02
    assert found.best_cost == found.table.cost.min() == found.table.objective.min()
    assert found.complete
    assert found.best.squared_norm > 0
    assert "none below the bound" in found.summary()


def test_vector_outputs_and_weights():
    X, Y = table(2, k=2)
    weights = np.linspace(0.0, 1.0, len(X))
    solution = covopt.fit(X, Y, lam=0.02, sample_weight=weights)
    found = cross_check(solution, seeds=6, widths=24, schedule=QUICK)
    assert 1 - 1e-6 <= found.ratio <= 1.1


def test_classes_of_several():
    X, _ = table(3)
    solution = covopt.fit(X, ["a", "b", "c", "a", "b", "c", "a", "b"], lam=0.02, loss="softmax-cross-entropy")
    found = cross_check(solution, seeds=4, widths=24, schedule=QUICK)
    assert 1 - 1e-6 <= found.ratio <= 1.02


# ---------------------------------------------------------------- interpolation
@pytest.mark.parametrize("output_bias", ["none", "penalized", "free"])
def test_interpolation_is_repaired_and_compared(output_bias):
    X, y = table(4, n=5, d=1)
    solution = covopt.min_norm(X, y, output_bias=output_bias)
    found = cross_check(solution, seeds=4, widths=16, schedule=QUICK)
    assert 1 - 1e-6 <= found.ratio <= 1.05
    assert (found.table.cost >= found.table.floor * (1 - 1e-9)).all()
    best = found.best.predict(X)
    assert np.abs(best - y).max() <= MEETS * np.abs(y).max()
    assert found.best.squared_norm == pytest.approx(found.best_cost, rel=1e-12)


def test_result_does_not_change_with_the_scale_of_the_targets():
    X, y = table(6, n=5)
    options = {"seeds": 2, "widths": 8, "schedule": QUICK}
    small = cross_check(covopt.min_norm(X, y), **options)
    large = cross_check(covopt.min_norm(X, 1e4 * y), **options)
    assert large.ratio == pytest.approx(small.ratio, rel=0.1)  # kinks amplify rounding: not the same path


@pytest.mark.thinned(4)
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
    schedule = None if lam else (Phase("adam", 300, eps=1e-8 * slope), Phase("lbfgs", 100))
    found = cross_check(solution, seeds=2, widths=10, schedule=schedule)
    assert 1 - 1e-6 <= found.ratio <= 1.1


def test_solution_that_is_not_certified_is_not_called_so():
    X, y = table(3)
    solution = covopt.fit(X, y, lam=0.02, callback=lambda state: True)
    assert solution.status.code != "certified"
    found = cross_check(solution, seeds=4, widths=32, schedule=QUICK)
    assert found.ratio < 1
    assert not found.proved
    assert "not proved to be optimal" in found.summary()
    assert "certified" not in found.summary()


def test_width_too_small_counts_as_infinite():
    X, y = table(7, n=9)
    found = cross_check(covopt.min_norm(X, y), seeds=2, widths=1, schedule=Phase("gd", 20))
    assert np.isinf(found.table.cost).all()
    assert np.isinf(found.ratio)
    assert found.best is None
    assert "0 comparable" in found.summary()


def test_stopped_by_the_callback():
    X, y = table(8, n=5)
    seen = []

    def callback(state):
        seen.append(state.step)
        return len(seen) == 3

    found = cross_check(covopt.min_norm(X, y), seeds=2, widths=16, schedule=QUICK, callback=callback)
    assert not found.complete
    assert len(seen) == 3
    assert "stopped" in found.summary()


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


def test_a_forged_bound_is_caught_and_checked_again_from_the_file_alone(tmp_path):
    X, y = table(15)
    solution = forged(covopt.fit(X, y, lam=0.02))
    path = tmp_path / "found.json"
    with pytest.raises(
        CertificateContradictedError, match="is below the certificate: its objective"
    ) as caught:
        cross_check(solution, seeds=2, widths=24, schedule=QUICK, contradiction_file=path)
    text = str(caught.value)
    assert "width 24, seed" in text
    assert str(path) in text
    assert caught.value.path == path
    broken = {check.name for check in recheck(path)}
    assert {"bracket", "lower bound"} <= broken
    assert {check.name for check in covopt.verify(path).checks if not check.ok} == broken
    # everything to train that network again
    place = int(text.partition("seed ")[2].partition(",")[0])
    assert np.isfinite(covopt.load(path).objective)
    assert place in (0, 1)


@pytest.mark.parametrize("output_bias", ["none", "penalized", "free"])
def test_a_forged_bound_of_an_interpolation_is_caught(output_bias, tmp_path):
    X, y = table(16, n=5)
    solution = covopt.min_norm(X, y, output_bias=output_bias)
    with pytest.raises(CertificateContradictedError, match="is below the certificate"):
        cross_check(
            forged(solution), seeds=4, widths=32, schedule=QUICK, contradiction_file=tmp_path / "bound.json"
        )
    assert recheck(tmp_path / "bound.json")


def test_default_file_and_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = table(18)
    options = {"seeds": 1, "widths": 24, "schedule": QUICK}
    solution = covopt.fit(X, y, lam=0.02)
    assert cross_check(solution, **options).ratio < 1.2
    with pytest.raises(CertificateContradictedError):
        cross_check(forged(solution, 2.0), **options)
    assert (tmp_path / "covopt-contradiction.json").exists()
    with pytest.raises(CertificateContradictedError) as caught:
        cross_check(forged(solution, 2.0), **options, contradiction_file=tmp_path / "nowhere" / "file.json")
    assert recheck(caught.value.path)


def test_an_honest_report_has_nothing_to_recheck(tmp_path):
    X, y = table(19)
    solution = covopt.fit(X, y, lam=0.02)
    against(solution.network, solution).save(tmp_path / "file.json")
    assert recheck(tmp_path / "file.json") == []


# ---------------------------------------------------------------- messages
def test_messages(tmp_path):
    X, y = table(20)
    solution = covopt.min_norm(X, y)
    with pytest.raises(InputError, match=r"solution must be a Solution of covopt.min_norm .*; received str"):
        cross_check("solution.json")
    with pytest.raises(InputError, match=r"potential='variation'; the solution has potential='label-noise'"):
        cross_check(covopt.min_norm(X, y, potential="label-noise"))
    with pytest.raises(InputError, match=r"X is not the solution's .8 × 2 against 8 × 2 numbers"):
        cross_check(solution, X + 1, y)
    with pytest.raises(InputError, match="Y is not the solution's"):
        cross_check(solution, X, y + 1)
    with pytest.raises(
        InputError, match=r"widths must be those of one hidden layer: .*; received \[\(8, 4\)\]"
    ):
        cross_check(solution, widths=[(8, 4)])
    labels = np.where(y > 0, "yes", "no")
    classified = covopt.fit(X, labels, lam=0.1, loss="logistic")
    for other in (np.where(y > 0, "no", "yes"), labels[:-1]):
        with pytest.raises(InputError, match="Y has other labels than the solution's"):
            cross_check(classified, X, other)
    (tmp_path / "file.json").write_text("{}")
    with pytest.raises(SolutionFileError, match="is not a covopt gap"):
        recheck(tmp_path / "file.json")


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(s, marks=pytest.mark.slow) for s in range(3, 20))]
)
def test_best_of_32_within_one_percent_of_the_optimum(seed):
    rng = np.random.default_rng(seed)
    solution = covopt.fit(rng.standard_normal((20, 2)), rng.standard_normal(20), lam=0.01)
    found = cross_check(solution, widths=40, seeds=32, schedule=Phase("adam", 2000, decay="cosine"))
    assert 1 - 1e-6 <= found.ratio <= 1.01
