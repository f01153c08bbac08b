"""Trained networks against certificates: none below, repaired ones on the points, forged certificates caught."""

import dataclasses
import json
import signal

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import covopt  # noqa: E402
from covopt.data import Data  # noqa: E402
from covopt.errors import CertificateContradictedError, InputError, SolutionFileError  # noqa: E402
from covopt.network import ReLUNetwork  # noqa: E402
from covopt.training import Phase, loop, recheck  # noqa: E402
from covopt.training.crosscheck import compare, cross_check  # noqa: E402
from covopt.training.floor import facts  # noqa: E402
from covopt.training.repair import MEETS, repair  # noqa: E402
from covopt.training.stages import anneal, in_units, weight_unit  # noqa: E402

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
    assert (found.table.squared_norm >= found.table.floor - 1e-9 * found.table.squared_norm).all()
    best = found.best.predict(X)
    assert np.abs(best - y).max() <= MEETS * np.abs(y).max()
    assert found.best.squared_norm == found.best_cost


def test_result_does_not_change_with_the_scale_of_the_targets():
    X, y = table(6, n=5)
    options = {"seeds": 2, "widths": 8, "schedule": QUICK}
    small = cross_check(covopt.min_norm(X, y), **options)
    large = cross_check(covopt.min_norm(X, 1e4 * y), **options)
    assert large.ratio == pytest.approx(small.ratio, rel=0.1)  # kinks amplify rounding: not the same path
    assert weight_unit(X, 1e4 * y) == pytest.approx(100 * weight_unit(X, y))


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
    schedule = (
        None if lam else in_units((Phase("adam", 300), Phase("lbfgs", 100)), targets**1.5 * inputs**0.5)
    )
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

    def callback(stage):
        seen.append((stage.stage, stage.n_stages))
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
    assert [(stage.stage, stage.state.step) for stage in seen] == [(0, 100), (0, 200)]


def test_silent_neurons_start_anew_without_a_change_of_outputs():
    from covopt.training.stages import revived

    X, y = table(9, n=6)
    solution = covopt.min_norm(X, y)
    run, _ = anneal(
        solution.data, solution.dual[:, None], output_bias="none", levels=(10.0,), widths=30, seeds=3,
        schedule=QUICK,
    )  # fmt: skip
    fresh = revived(run, 1)
    for i in range(3):
        before = run.network(i)
        mass = np.linalg.norm(before.hidden_weights, axis=1) * np.linalg.norm(before.output_weights, axis=1)
        assert (mass < 1e-3 * mass.max()).any()
        np.testing.assert_allclose(fresh[i].predict(X), before.predict(X), atol=1e-2 * np.abs(y).max())
        assert (np.maximum(fresh[i].lift(X) @ fresh[i].hidden_weights.T, 0).any(axis=0)).mean() > 0.5


# ---------------------------------------------------------------- repair
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("has_output_bias", [False, True])
def test_repair_meets_the_points(k, has_output_bias):
    rng = np.random.default_rng(10)
    data = Data.validate(rng.standard_normal((10, 3)), rng.standard_normal((10, k)))
    network = ReLUNetwork(rng.standard_normal((40, 4)), rng.standard_normal((40, k)), 1.0, np.zeros(k))
    fixed = repair(network, data, has_output_bias=has_output_bias)
    assert np.abs(fixed.predict(data.X).reshape(10, k) - data.Y).max() <= MEETS * np.abs(data.Y).max()
    np.testing.assert_allclose(
        np.linalg.norm(fixed.hidden_weights, axis=1), np.linalg.norm(fixed.output_weights, axis=1), rtol=1e-9
    )
    assert has_output_bias or not fixed.output_bias.any()


def test_repair_of_a_minimal_norm_network_moves_it_little():
    X, y = table(11, n=8)
    solution = covopt.min_norm(X, y)
    network = solution.network
    rough = dataclasses.replace(network, output_weights=network.output_weights * (1 + 1e-4))
    fixed = repair(rough, solution.data, has_output_bias=False)
    assert fixed.squared_norm == pytest.approx(solution.cost, rel=1e-6)


def test_repair_by_all_weights_where_the_features_do_not_suffice():
    """Three neurons through five points of a three-neuron teacher: the output weights alone cannot."""
    rng = np.random.default_rng(12)
    teacher = ReLUNetwork(rng.standard_normal((3, 3)), rng.standard_normal((3, 1)))
    X = rng.standard_normal((5, 2))
    data = Data.validate(X, teacher.predict(X))
    rough = dataclasses.replace(teacher, hidden_weights=teacher.hidden_weights + 1e-3)
    fixed = repair(rough, data, has_output_bias=False)
    assert np.abs(fixed.predict(X) - data.Y[:, 0]).max() <= MEETS * np.abs(data.Y).max()


def test_repair_gives_up_on_what_cannot_be():
    X, y = table(13, n=9)
    data = Data.validate(X, y)
    silent = ReLUNetwork(np.zeros((4, 3)), np.ones((4, 1)))
    assert repair(silent, data, has_output_bias=False) is None
    broken = ReLUNetwork(np.full((4, 3), np.nan), np.ones((4, 1)))
    assert repair(broken, data, has_output_bias=False) is None


# ---------------------------------------------------------------- facts
@pytest.mark.parametrize("output_bias", ["none", "penalized", "free"])
@pytest.mark.parametrize("k", [1, 2])
def test_every_network_respects_the_dual(output_bias, k):
    rng = np.random.default_rng(14)
    X, Y = table(14, n=6, k=k)
    solution = covopt.min_norm(X, Y, output_bias=output_bias)
    assert facts(solution, solution.network, interpolates=True)[0].floor == pytest.approx(
        solution.cost, rel=1e-5
    )
    for _ in range(50):
        scale = 10.0 ** rng.uniform(-3, 2)
        shift = np.zeros(k) if output_bias == "none" else scale * rng.standard_normal(k)
        network = ReLUNetwork(
            scale * rng.standard_normal((4, 3)), scale * rng.standard_normal((4, k)), 1.0, shift,
            output_bias != "free",
        )  # fmt: skip
        (fact,) = facts(solution, network)
        assert fact.holds
        assert fact.margin <= 1e-6 * max(abs(fact.value), abs(fact.floor), 1.0) * 10


# ---------------------------------------------------------------- contradictions
def forged(solution, factor=1.3):
    certificate = dataclasses.replace(solution.certificate, lower_bound=factor * solution.lower_bound)
    return dataclasses.replace(solution, certificate=certificate)


def check_file(path, error):
    assert error.path == path
    content = json.loads(path.read_text())
    assert {"seed", "width", "index", "random_state", "schedule"} <= set(content["training"])
    broken = recheck(path)  # from the file alone
    assert len(broken) >= 1
    assert broken[0].value < broken[0].floor - broken[0].margin
    assert broken[0].value == content["fact"]["value"]
    return content


def test_forged_bound_of_a_fit_is_caught(tmp_path):
    X, y = table(15)
    solution = forged(covopt.fit(X, y, lam=0.02))
    path = tmp_path / "found.json"
    with pytest.raises(CertificateContradictedError, match=r"is below the certificate: C.f. . λ") as caught:
        cross_check(solution, seeds=2, widths=24, schedule=QUICK, contradiction_file=path)
    text = str(caught.value)
    assert "width 24, seed" in text
    assert str(path) in text
    content = check_file(path, caught.value)
    # everything to train that network again
    run = covopt.training.train(
        X, y, lam=0.02, widths=24, seeds=[content["training"]["seed"]], schedule=QUICK, reference=None,
        learning_rate=content["training"]["learning_rate"], scale=weight_unit(solution.data.lifted, solution.data.Y),
    )  # fmt: skip
    assert run.table.objective[0] < solution.lower_bound


def test_forged_dual_of_an_interpolation_is_caught(tmp_path):
    X, y = table(16, n=5)
    solution = covopt.min_norm(X, y)
    bad = dataclasses.replace(solution, dual=1.5 * solution.dual)
    with pytest.raises(CertificateContradictedError, match="2⟨Λ, f"):
        cross_check(bad, seeds=2, widths=16, schedule=QUICK, contradiction_file=tmp_path / "dual.json")
    assert recheck(tmp_path / "dual.json")


@pytest.mark.parametrize("output_bias", ["none", "penalized", "free"])
@pytest.mark.parametrize("apart", [1e-2, 1e-4])
def test_forged_certificates_with_a_large_dual_are_caught(output_bias, apart):
    """Two points nearly at one place: the entries of Λ are many times larger than ⟨Λ, Y⟩."""
    X = np.array([[-1.0], [0.3], [0.3 + apart], [1.0], [1.7]])
    y = 1e-5 * np.array([1.0, -1.0, -1.0 - 10 * apart, 1.0, -1.0])
    solution = covopt.min_norm(X, y, bias=3.0, output_bias=output_bias)
    assert all(fact.holds for fact in facts(solution, solution.network, interpolates=True))
    raised = dataclasses.replace(solution.certificate, lower_bound=1.001 * solution.lower_bound)
    bad = dataclasses.replace(solution, certificate=raised)
    assert not all(fact.holds for fact in facts(bad, solution.network, interpolates=True))
    bad = dataclasses.replace(solution, dual=1.001 * solution.dual)
    assert not all(fact.holds for fact in facts(bad, solution.network))


def test_default_file_and_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = table(18)
    solution = covopt.fit(X, y, lam=0.02)
    run = covopt.training.train(X, y, lam=0.02, widths=24, schedule=QUICK)
    assert compare(solution, run).ratio < 1.2
    with pytest.raises(CertificateContradictedError):
        compare(forged(solution, 2.0), run)
    assert (tmp_path / "covopt-contradiction.json").exists()
    with pytest.raises(CertificateContradictedError) as caught:
        compare(forged(solution, 2.0), run, contradiction_file=tmp_path / "nowhere" / "file.json")
    assert recheck(caught.value.path)


def test_honest_file_has_nothing_to_recheck(tmp_path):
    X, y = table(19)
    solution = covopt.fit(X, y, lam=0.02)
    run = covopt.training.train(X, y, lam=0.02, widths=24, schedule=QUICK)
    path = tmp_path / "file.json"
    with pytest.raises(CertificateContradictedError):
        compare(forged(solution, 2.0), run, contradiction_file=path)
    content = json.loads(path.read_text())
    content["solution"] = solution.to_dict()
    path.write_text(json.dumps(content))
    assert recheck(path) == []


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
    with pytest.raises(SolutionFileError, match="is not a file of a contradiction"):
        recheck(tmp_path / "file.json")
    (tmp_path / "file.json").write_text('{"format": "covopt-contradiction"}')
    with pytest.raises(SolutionFileError, match="is damaged: 'network' is missing"):
        recheck(tmp_path / "file.json")


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(s, marks=pytest.mark.slow) for s in range(3, 20))]
)
def test_best_of_32_within_one_percent_of_the_optimum(seed):
    rng = np.random.default_rng(seed)
    solution = covopt.fit(rng.standard_normal((20, 2)), rng.standard_normal(20), lam=0.01)
    found = cross_check(solution, widths=40, seeds=32, schedule=Phase("adam", 2000, decay="cosine"))
    assert 1 - 1e-6 <= found.ratio <= 1.01
