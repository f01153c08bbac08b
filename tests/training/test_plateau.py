"""Best cost per width: B_N of FL22 Prop 14 needs N²/4 neurons, and the picture of it."""

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import covopt  # noqa: E402
from covopt.completely_positive.graphs import complete_bipartite, graph_matrix  # noqa: E402
from covopt.errors import InputError  # noqa: E402
from covopt.plotting.history import plot_losses  # noqa: E402
from covopt.training import Phase, plateau  # noqa: E402

QUICK = (Phase("adam", 120, decay="cosine"), Phase("lbfgs", 60))


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


def test_with_a_loss():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((8, 2)), rng.standard_normal(8)
    found = plateau(X, y, [1, 16], lam=0.05, seeds=4, schedule=QUICK)
    solution = covopt.fit(X, y, lam=0.05)
    assert found.floor == pytest.approx(solution.lower_bound, rel=1e-5)
    assert found.table.best_cost[1] < found.table.best_cost[0]
    assert {b.kind for b in found.bounds.bounds} == {"upper"}
    assert found.bounds.upper == 8
    assert found.table.networks.tolist() == [4, 4]


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
