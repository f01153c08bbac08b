"""Whole runs: the grid, convergence, divergence, memory that runs out, callbacks, starts; the rest is in the bank."""

import os
import signal
import sys
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from covopt.checks.memory import memory_limited
from covopt.depth.layers import Layout
from covopt.errors import BudgetError, InputError
from covopt.losses import make_loss
from covopt.training import Phase, loop, train
from covopt.training.model import BatchedLoss, BatchedNetworks
from covopt.training.schedule import initial_weights, make_grid

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((12, 2)), RNG.standard_normal(12)
SHORT = Phase("adam", 120, learning_rate=0.02)


# ---------------------------------------------------------------------- the table
def test_grid_is_the_product_last_fastest():
    run = train(X, Y, widths=[3, 5], lam=[0.1, 0.2], learning_rate=[0.01, 0.03], seeds=[7, 2], schedule=SHORT)
    assert len(run) == 16
    assert run.table.width.tolist() == [3] * 8 + [5] * 8
    assert run.table.lam.tolist() == ([0.1] * 4 + [0.2] * 4) * 2
    assert run.table.seed.tolist() == [7, 2] * 8
    assert list(run.table.columns) == [
        "width", "lam", "learning_rate", "seed", "loss", "squared_norm", "objective", "residual", "gradient_norm",
        "status", "steps", "time_s",
    ]  # fmt: skip


# ---------------------------------------------------------------------- how it ends
def test_smooth_runs_converge_and_stop():
    # far in one cell: a linear network, whose objective is smooth
    run = train([[1.0], [2.0]], [1.0, 2.0], widths=1, bias=0.0, lam=0.1, seeds=6, schedule=["adam", "lbfgs"])
    table = run.table
    good = table[table.status == "converged"]
    assert len(good) == 6
    assert (good.gradient_norm <= 1e-8 * np.maximum(1, np.sqrt(good.squared_norm)) * 1.01).all()
    # f = px with cost C + 0.2 p: 2.5(p − 1)² + 0.2p has its minimum at p = 0.96; dead neurons stay at zero
    assert set(table.objective.round(8)) <= {round(2.5 * 0.04**2 + 0.2 * 0.96, 8), 2.5}
    assert (table.steps < 2000).all()
    descent = Phase("gd", 5000, learning_rate=0.1)
    run = train([[1.0]], [1.0], widths=1, bias=0.0, lam=0.1, seeds=[1, 2, 5], schedule=descent)
    assert set(run.status) == {"converged"} and (run.steps % 100 == 0).all() and (run.steps < 5000).all()


@pytest.mark.parametrize(
    ("name", "rate"), [("gd", 50.0), ("sgd", 1e3), ("label-noise-sgd", 1e3), ("adam", 1e200)]
)
def test_a_diverging_network_is_marked_and_the_others_go_on(name, rate):
    """The others take the steps that they take alone."""
    options = {"widths": 8, "lam": 0.01, "schedule": Phase(name, 300)}
    run = train(X, Y, learning_rate=[0.01, rate, 0.02], **options)
    assert run.status == ["stopped", "diverged", "stopped"] and run.best != 1
    assert np.isfinite(run.weights[1]).all() and np.isfinite(run.table.objective).all()
    for place, own in ((0, 0.01), (2, 0.02)):
        alone = train(X, Y, learning_rate=own, **options)
        np.testing.assert_allclose(run.weights[place], alone.weights[0], rtol=0, atol=1e-11)


# ---------------------------------------------------------------------- memory
ERRORS = [lambda: torch.cuda.OutOfMemoryError("CUDA out of memory"), MemoryError]
TOO_LARGE = (
    r"^the networks do not fit into the memory of the device; train fewer at a time, use dtype='float32', a "
    r"batch_size, or device='cpu'\.$"
)


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [*((error, BudgetError, TOO_LARGE) for error in ERRORS),
     (lambda: RuntimeError("something else"), RuntimeError, "something else")],
    ids=["device", "python", "another error"],
)  # fmt: skip
def test_memory_that_runs_out_is_said(monkeypatch, error, kind, said):
    monkeypatch.setattr(BatchedNetworks, "value_and_gradient", Mock(side_effect=error()))
    with pytest.raises(kind, match=said):
        train(X, Y, widths=5, seeds=2, schedule=SHORT)


def test_what_needs_more_memory_than_there_is_is_refused():
    with (
        memory_limited(0.001),
        pytest.raises(InputError, match=r"needs about 0\.0\d+ GiB of memory; .* Train fewer"),
    ):
        train(X, Y, widths=64, seeds=200)


# ---------------------------------------------------------------------- on the way
def test_callback_sees_the_run_and_stops_it():
    seen = []

    def callback(state):
        seen.append(state)
        return state.step >= 200

    run = train(X, Y, widths=4, lam=0.02, seeds=3, schedule=Phase("adam", 1000), callback=callback)
    assert [s.step for s in seen] == [100, 200]
    assert set(run.status) == {"stopped"}
    assert run.steps.tolist() == [200] * 3
    assert (seen[0].n_active, seen[0].n_networks, seen[0].n_steps, seen[0].optimiser) == (3, 3, 1000, "adam")
    assert seen[-1].best_objective == pytest.approx(run.table.objective.min(), rel=1e-12)


@pytest.mark.parametrize("place", ["advance", "check", "record"])
def test_interruption_anywhere_returns_what_there_is(monkeypatch, place):
    original, calls = getattr(loop.Runner, place), []

    def interrupted(self, *args):
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, *args)

    monkeypatch.setattr(loop.Runner, place, interrupted)
    seen = []
    run = train(X, Y, widths=4, lam=0.02, schedule=Phase("adam", 1000), callback=seen.append)
    steps = 100 if place == "record" else 200  # the start is recorded too
    assert run.status == ["stopped"]
    assert run.steps.tolist() == [steps]
    assert [state.interrupted for state in seen] == [False] * (steps // 100 - 1) + [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_start_is_one_network_for_all_or_one_for_each_and_phases_follow_each_other():
    schedule = [Phase("sgd", 60, batch_size=3), Phase("adam", 60), Phase("lbfgs", 20)]
    options = {"widths": 4, "lam": 0.02, "seeds": 2, "schedule": schedule, "record_every": 7}
    first, other = (train(X, Y, random_state=r, **options) for r in (0, 1))
    assert not (other.weights[0] == first.weights[0]).any() and set(first.history.phase) == {0, 1, 2}
    one = first.history[first.history.network == 0]
    assert one.step.is_unique and one.objective.iloc[-1] < one.objective.iloc[0]
    frozen = Phase("gd", 1, learning_rate=1e-300)
    for start, places in ((first.network(1), (1, 1)), ([first.network(1), first.network(0)], (1, 0))):
        again = train(X, Y, widths=4, lam=0.02, seeds=2, schedule=frozen, start=start)
        for weights, place in zip(again.weights, places, strict=True):
            np.testing.assert_array_equal(weights, first.weights[place])


def test_single_precision_starts_of_another_scale_and_progress_on_a_terminal(monkeypatch, capsys):
    before = torch.get_num_threads()
    exact, single = (
        train(X, Y, widths=8, lam=0.02, seeds=2, schedule=SHORT, dtype=d) for d in ("float64", "float32")
    )
    for a, b in zip(exact.weights, single.weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-3)
        assert (b == b.astype(np.float32)).all()
    loose = train(X, Y, widths=8, lam=0.3, schedule="lbfgs", dtype="float32", tol_gradient=1e-4)
    assert loose.status == ["converged"]
    frozen = Phase("gd", 1, learning_rate=1e-300)
    runs = [train(X, Y, widths=400, scale=s, schedule=frozen) for s in (0.1, 1.0)]
    np.testing.assert_allclose(10 * runs[0].weights[0], runs[1].weights[0], rtol=1e-12)
    large = runs[1].layouts[0].split(runs[1].weights[0])
    assert large[0].var() == pytest.approx(2 / 3, rel=0.15)
    assert large[1].var() == pytest.approx(2 / 400, rel=0.25)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    run = train(X, Y, widths=[1, 8], lam=0.02, schedule=SHORT, progress=True)
    assert run.steps.tolist() == [120, 120] and not capsys.readouterr().out
    assert run.best == run.table.objective.idxmin() and torch.get_num_threads() == before

    def callback(state):
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):  # the third is raised
        train(X, Y, widths=4, lam=0.02, schedule=Phase("adam", 1000), callback=callback)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# ---------------------------------------------------------------------- batches
WIDTHS = [40, 3, 200, 3, 17, 90]


def make(widths, *phases, seeds=5, n=20):
    rng = np.random.default_rng(0)
    loss = make_loss("squared")
    loss.encode_targets(rng.standard_normal(n))
    twin = BatchedLoss(loss, torch.device("cpu"), torch.float64)
    members = make_grid(widths, 0.1, None, seeds)
    layouts = [Layout((2, *member.widths, 1), 1.0, "none") for member in members]
    weights = [
        initial_weights(own, member.seed, 0, 1.0) for own, member in zip(layouts, members, strict=True)
    ]
    return loop.Runner(members, layouts, torch.tensor(rng.standard_normal((n, 3))), twin, phases, weights)


@pytest.mark.parametrize("limit", [1, 30_000, 200_000, 2**30])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_network_is_in_one_batch_that_fits(monkeypatch, limit, workers):
    monkeypatch.setattr(loop.Runner, "limit", limit)
    monkeypatch.setattr(loop, "PIECE", 1)
    runner = make(WIDTHS)
    groups = runner.cut(range(30), samples=None, copies=6, workers=workers)
    assert sorted(i for group in groups for i in group) == list(range(30))
    for group in groups:
        sizes = [runner.bytes_of(i, None, 6) for i in group]
        assert len(group) == 1 or len(group) * max(sizes) <= limit
        assert len({runner.members[i].widths for i in group}) == 1  # nothing is padded
    if limit == 2**30:
        assert len(groups) >= workers


def test_equal_networks_are_shared_equally(monkeypatch):
    monkeypatch.setattr(loop, "PIECE", 1)
    monkeypatch.setattr(loop.Runner, "limit", 2**22)
    runner = make(64, seeds=100)
    assert [len(g) for g in runner.cut(range(100), samples=None, copies=6, workers=2)] == [50, 50]
    monkeypatch.setattr(loop, "PIECE", 2**30)
    assert len(runner.cut(range(100), samples=None, copies=6, workers=2)) == 1
    runner = make(64, seeds=2000)
    whole, drawn = (len(runner.cut(range(2000), samples=m, copies=4, workers=1)) for m in (None, 1))
    assert drawn < whole  # minibatches make larger batches
