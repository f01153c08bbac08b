"""Trained networks against certificates: none below, repaired ones on the points, forged certificates caught."""

import dataclasses
import signal
from functools import partial

import numpy as np
import pytest

import covopt
from covopt.completely_positive.graphs import complete_bipartite, graph_matrix
from covopt.errors import CertificateContradictedError, InputError
from covopt.losses import INTERPOLATES
from covopt.meter import against
from covopt.plotting.history import plot_losses
from covopt.training import Phase, loop, plateau, recheck
from covopt.training.crosscheck import cross_check
from tests.cases import normal

QUICK = (Phase("adam", 120, decay="cosine"), Phase("lbfgs", 60))


def table(seed=0, n=8, d=2, k=1):
    X, Y = normal(seed, (n, d), (n, k))
    return X, Y[:, 0] if k == 1 else Y


# ---------------------------------------------------------------- honest certificates
def asked():
    """Questions whose optimum is proved: what to solve, how to train, and how near the best network comes."""
    for name, output_bias in (("huber", "free"), ("logistic", "none"), ("softmax-cross-entropy", "none")):
        X, y = table(1)
        y = {"logistic": np.where(y > 0, "yes", "no"), "softmax-cross-entropy": list("abcabcab")}.get(name, y)
        fit = partial(covopt.fit, X, y, lam=0.02, loss=name, output_bias=output_bias)
        yield f"{name}, {output_bias}", fit, {"seeds": 6, "widths": 24}, 1.02
    weighted = {"output_bias": "penalized", "sample_weight": np.linspace(0.0, 1.0, 8)}
    fit = partial(covopt.fit, *table(1, k=2), lam=0.02, **weighted)
    yield "two outputs, weighted", fit, {"seeds": 6, "widths": 24}, 1.1
    for kind in ("none", "penalized", "free"):
        through = partial(covopt.min_norm, *table(4, n=5, d=1), output_bias=kind)
        yield f"interpolation, {kind}", through, {"seeds": 4, "widths": 16}, 1.05
    X, y = table(6, n=5)
    for inputs, targets in ((1.0, 1e-8), (1e-6, 1e-6), (1e4, 1e8)):
        slow = Phase("adam", 120, eps=1e-8 * targets**1.5 * inputs**0.5), Phase("lbfgs", 40)
        through = partial(covopt.min_norm, inputs * X, targets * y, bias=inputs)
        yield f"sizes {inputs:g}, {targets:g}", through, {"seeds": 2, "widths": 10, "schedule": slow}, 1.1
    for inputs, targets in ((1.0, 1e-8), (1e6, 1.0)):
        fit = partial(covopt.fit, inputs * X, targets * y, lam=0.01 * targets * inputs, bias=inputs)
        yield f"fit of sizes {inputs:g}, {targets:g}", fit, {"seeds": 2, "widths": 10, "schedule": None}, 1.1


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("solve", "options", "most"), [pytest.param(*more, id=name) for name, *more in asked()]
)
def test_the_best_network_comes_near_and_none_is_below(solve, options, most):
    solution = solve()
    given = () if "sample_weight" in solve.keywords or solution.loss is None else solve.args
    found = cross_check(solution, *given, **{"schedule": QUICK, **options})
    table = found.table
    assert 1 - 1e-6 <= found.ratio <= most
    assert found.complete and "none below the bound" in found.summary()
    assert found.best_cost == table.cost.min() and found.best.squared_norm > 0
    if solution.loss is not None:
        assert (table.objective >= solution.lower_bound * (1 - 1e-9)).all()
        assert found.best_cost == pytest.approx(table.objective.min(), rel=1e-12)
        return
    assert (table.cost >= table.floor * (1 - 1e-9)).all()
    X, Y = solution.data.X, solution.data.Y[:, 0]
    assert np.abs(found.best.predict(X) - Y).max() <= INTERPOLATES * np.abs(Y).max()
    assert found.best.squared_norm == pytest.approx(found.best_cost, rel=1e-12)


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


# ---------------------------------------------------------------- the plateau against the width
def b_matrix(n):
    """EᵀE of K_{n/2,n/2}."""
    return graph_matrix(complete_bipartite(n // 2, n // 2))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "widths", "seeds"), [(6, [8, 9, 10], 16), (8, [15, 16], 48)])
def test_b_n_needs_a_quarter_of_n_squared(n, widths, seeds):
    found = plateau(np.eye(n), b_matrix(n), widths, bias=0.0, seeds=seeds)
    assert found.certified
    assert found.floor == pytest.approx(n * n, rel=1e-6)
    assert found.starts_at == n * n // 4
    assert found.table.best_cost[0] > n * n * 1.001


def labels_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_b_4_needs_four_neurons_and_the_picture_says_so(tmp_path):
    found = plateau(np.eye(4), b_matrix(4), [3, 4], bias=0.0, seeds=4, schedule=QUICK)
    best = found.table.best_cost.to_numpy()
    assert found.certified and found.floor == pytest.approx(16, rel=1e-6) and found.starts_at == 4
    assert best[0] > 16 * 1.001 >= best[1:].max() and (best >= found.floor * (1 - 1e-9)).all()
    assert found.bounds.lower == found.bounds.upper == 4
    assert "the plateau starts at width 4: within 0.001 of the certified floor" in found.summary()
    labels = labels_of(found.plot(tmp_path / "plateau.png"))
    assert "best found" in labels and any(label.startswith("certified optimum, 16") for label in labels)
    assert any("starts at width 4" in label for label in labels)
    assert (tmp_path / "plateau.png").stat().st_size > 10_000
    with pytest.raises(InputError, match=r"cannot be written|must end|extension|format"):
        found.plot(tmp_path / "plateau.txt")


def test_a_reference_is_used_and_a_loose_one_says_so():
    X, y = np.eye(4), b_matrix(4)
    solution = covopt.min_norm(X, y, bias=0.0)
    loose = dataclasses.replace(
        solution, status=covopt.Status.GAP,
        certificate=dataclasses.replace(solution.certificate, lower_bound=0.9 * solution.lower_bound),
    )  # fmt: skip
    found = plateau(X, y, [3, 6], bias=0.0, seeds=3, schedule=Phase("adam", 60), reference=loose)
    assert not found.certified and found.starts_at is None
    assert found.table.networks.tolist() == [3, 3]
    for said in (
        "where the plateau starts cannot be told: no width came within 0.001 of the floor",
        f"the best was found at width {found.best_width}, ", "% above it",
        "certified lower bound, not proved to be the optimum",
    ):  # fmt: skip
        assert said in found.summary()
    assert not any("starts at" in label for label in labels_of(found.plot()))


def test_runs_that_reach_nothing_diverge_or_are_stopped():
    found = plateau(np.eye(4), b_matrix(4), 1, bias=0.0, seeds=1, schedule=Phase("gd", 10))
    assert found.starts_at is None and np.isinf(found.table.best_cost[0])
    assert "no network of these widths could be brought onto the points" in found.summary()
    labels = labels_of(found.plot())
    assert "no network through the points found" in labels
    assert not {"best found", "every seed"} & set(labels)  # nothing of them is drawn
    run = covopt.training.train([[-1.0], [0.0], [1.0]], [1.0, 0.0, 1.0], widths=8, learning_rate=[0.01, 1e60],
                                seeds=2, schedule=Phase("gd", 100), record_every=10)  # fmt: skip
    assert run.status.count("diverged") == 2
    ax = plot_losses(run.history)
    assert ax.get_yscale() == "log" and labels_of(ax).count("best of 4 networks") == 1
    assert all(np.isfinite(line.get_ydata()).all() for line in ax.get_lines())
    assert plot_losses(run.history.assign(objective=np.nan)).get_legend() is None
    calls = []
    found = plateau(np.eye(4), b_matrix(4), range(4, 40), bias=0.0, seeds=1, schedule=Phase("adam", 20),
                    callback=lambda stage: calls.append(stage) or len(calls) > 4)  # fmt: skip
    assert not found.complete and 1 <= len(found.table) < 36 and "stopped" in found.summary()
