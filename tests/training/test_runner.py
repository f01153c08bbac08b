"""Whole runs: the grid, the table, convergence, divergence, memory that runs out, history, callbacks, starts."""

import os
import signal
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import covopt  # noqa: E402
from covopt.errors import BudgetError  # noqa: E402
from covopt.training import Phase, loop, train  # noqa: E402
from covopt.training.model import BatchedNetworks  # noqa: E402

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((12, 2)), RNG.standard_normal(12)
SHORT = Phase("adam", 120, learning_rate=0.02)


def same_weights(one, other, atol=0.0):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)


# ---------------------------------------------------------------------- the table
def test_grid_is_the_product_last_fastest():
    run = train(X, Y, widths=[3, 5], lam=[0.1, 0.2], learning_rate=[0.01, 0.03], seeds=[7, 2], schedule=SHORT)
    assert len(run) == 16
    assert run.table.width.tolist() == [3] * 8 + [5] * 8
    assert run.table.lam.tolist() == ([0.1] * 4 + [0.2] * 4) * 2
    assert run.table.seed.tolist() == [7, 2] * 8
    assert list(run.table.columns) == [
        "width", "lam", "learning_rate", "seed", "loss", "squared_norm", "objective", "residual", "gradient_norm",
        "gap", "status", "steps", "time_s",
    ]  # fmt: skip


@pytest.mark.thinned(9)
@pytest.mark.parametrize("output_bias", ["none", "penalized", "free"])
@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "softmax-cross-entropy"])
@pytest.mark.parametrize("widths", [6, (5, 4), (4, 3, 2)])
def test_numbers_are_those_of_the_network(output_bias, loss, widths):
    targets = Y if loss in ("squared", "huber") else np.arange(12) % (3 if loss.startswith("soft") else 2)
    weights = np.linspace(1, 2, 12)
    run = train(
        X, targets, widths=widths, loss=loss, lam=0.03, bias=1.5, output_bias=output_bias,
        sample_weight=weights, schedule=Phase("adam", 20),
    )  # fmt: skip
    row, network = run.table.loc[0], run.network(0)
    bound = covopt.losses.make_loss(loss)
    bound.encode_targets(targets, weights)
    value = bound.value(network.predict(X))
    assert row.loss == pytest.approx(value, rel=1e-14)
    assert row.objective == pytest.approx(value + 0.03 * network.squared_norm, rel=1e-12)
    assert row.width == widths
    # what the optimiser saw is the same number
    batch = _batch_of(run)
    assert float(batch.networks.value_and_gradient(batch.theta)[0][0]) == pytest.approx(
        row.objective, rel=1e-12
    )
    assert row.gradient_norm == pytest.approx(
        float(batch.networks.value_and_gradient(batch.theta)[1].norm()), rel=1e-9
    )


def _batch_of(run):
    from covopt.training.model import BatchedLoss

    a = run.architecture
    rows = np.column_stack([run.X, np.full(len(run.X), a.bias)]) if a.bias else run.X
    twin = BatchedLoss(run.loss, torch.device("cpu"), torch.float64)
    return loop.Problem(a, run.members, torch.tensor(rows), twin).batch([0], run.weights)


def test_residual_and_error_rate():
    run = train(X, Y, widths=4, schedule=SHORT)
    assert run.table.residual[0] == pytest.approx(np.abs(run.network(0).predict(X) - Y).max(), rel=1e-12)
    labels = np.where(Y > 0, "up", "down")
    table = train(X, labels, widths=4, loss="logistic", schedule=SHORT).table
    assert np.isnan(table.residual[0])
    assert 0 <= table.error_rate[0] < 0.5
    classes = np.arange(12) % 3
    run = train(
        X, classes, widths=30, loss="softmax-cross-entropy", schedule=Phase("adam", 600, learning_rate=0.05)
    )
    assert run.table.error_rate[0] == (run.network(0).predict(X).argmax(1) != classes).mean() == 0.0


# ---------------------------------------------------------------------- independence of the batch


@pytest.mark.parametrize("schedule", [Phase("adam", 60), Phase("sgd", 50, batch_size=2), Phase("lbfgs", 30)],
                         ids=lambda phase: phase.optimiser)  # fmt: skip
def test_a_network_does_not_depend_on_its_batch(schedule, monkeypatch):
    """Its widths, λ, rate and draws are its own, in a batch with wider ones, or cut into small batches."""
    by_rate = schedule.optimiser != "lbfgs"
    rates = [0.01, 0.03] if by_rate else None
    grids = {"widths": [3, 10], "lam": [0.02, 0.1], "learning_rate": rates, "seeds": 2, "schedule": schedule}
    many = train(X, Y, **grids)
    assert not by_rate or len(set(many.table.objective.round(9))) == len(many)
    with monkeypatch.context() as patched:
        patched.setattr(loop, "CPU_BYTES", 4000)
        parts = train(X, Y, **grids)
    atol = 1e-12 if by_rate else 1e-8
    for place in range(0, len(many), 5):
        row = many.table.loc[place]
        own = {"widths": row.width, "lam": row.lam, "seeds": [row.seed], "schedule": schedule}
        alone = train(X, Y, learning_rate=row.learning_rate if by_rate else None, **own).weights[0]
        same_weights(many.weights[place], alone, atol=atol)
        same_weights(parts.weights[place], alone, atol=atol)


def test_two_runs_are_bitwise_the_same():
    schedule = [Phase("sgd", 60, batch_size=3), Phase("adam", 60), Phase("lbfgs", 20)]
    one, two = (train(X, Y, widths=[3, 10], lam=0.02, seeds=2, schedule=schedule) for _ in range(2))
    for a, b in zip(one.weights, two.weights, strict=True):
        assert all((p == q).all() for p, q in zip(a, b, strict=True))
    other = train(X, Y, widths=[3, 10], lam=0.02, seeds=2, schedule=schedule, random_state=1)
    assert not (other.weights[0][0] == one.weights[0][0]).any()


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


def test_a_reference_fills_the_gap_and_ends_the_run():
    reference = covopt.fit(X, Y, lam=0.1, tol=1e-2)
    run = train(
        X,
        Y,
        widths=[1, 60],
        lam=[0.1, 0.2],
        seeds=2,
        reference=reference,
        schedule=Phase("adam", 900, learning_rate=0.02),
    )
    table = run.table
    assert table.gap[table.lam == 0.2].isna().all()
    at = table[table.lam == 0.1]
    np.testing.assert_allclose(at.gap, (at.objective - reference.lower_bound) / at.objective)
    assert (at.gap > -1e-9).all()
    close = at[at.gap <= 1e-2]
    assert len(close)
    assert set(close.status) == {"converged"}


def test_a_diverging_network_is_marked_and_the_others_go_on():
    schedule = Phase("gd", 300)
    run = train(X, Y, widths=8, lam=0.01, learning_rate=[0.01, 50.0, 0.02], schedule=schedule)
    assert run.status == ["stopped", "diverged", "stopped"]
    assert all(np.isfinite(layer).all() for layer in run.weights[1])
    assert np.isfinite(run.table.objective).all()
    for place, rate in ((0, 0.01), (2, 0.02)):
        alone = train(X, Y, widths=8, lam=0.01, learning_rate=rate, schedule=schedule)
        same_weights(run.weights[place], alone.weights[0], atol=1e-11)
    assert run.best != 1
    for name in ("sgd", "label-noise-sgd", "adam"):
        rate, schedule = 1e200 if name == "adam" else 1e3, Phase(name, 300)
        assert train(X, Y, widths=8, learning_rate=[rate, 1e-3], schedule=schedule).status == [
            "diverged",
            "stopped",
        ]


# ---------------------------------------------------------------------- memory
ERRORS = [
    lambda: getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)("CUDA out of memory"),
    lambda: RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 80 GB"),
    MemoryError,
]
TOO_LARGE = (
    r"^2 networks of widths \(5,\) on 12 samples do not fit into the memory of the device; train fewer at a time, "
    r"use dtype='float32', a batch_size, or device='cpu'\.$"
)


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [*((error, BudgetError, TOO_LARGE) for error in ERRORS),
     (lambda: RuntimeError("something else"), RuntimeError, "something else")],
    ids=["device", "host", "python", "another error"],
)  # fmt: skip
def test_memory_that_runs_out_is_said(monkeypatch, error, kind, said):
    def forward(*_):
        raise error()

    monkeypatch.setattr(BatchedNetworks, "value_and_gradient", forward)
    with pytest.raises(kind, match=said):
        train(X, Y, widths=5, seeds=2, schedule=SHORT)


# ---------------------------------------------------------------------- on the way
def test_history_is_tidy_and_does_not_change_the_run():
    schedule = [Phase("adam", 60), Phase("lbfgs", 20)]
    plain = train(X, Y, widths=4, lam=0.02, seeds=2, schedule=schedule)
    run = train(X, Y, widths=4, lam=0.02, seeds=2, schedule=schedule, record_every=7)
    assert plain.history is None
    history = run.history
    assert list(history.columns) == ["network", "step", "phase", "objective"]
    first = history[history.network == 0]
    assert first.step.tolist()[:4] == [0, 7, 14, 21]
    assert first.step.is_unique
    assert set(history.phase) == {0, 1}
    assert first.objective.iloc[-1] < first.objective.iloc[0]
    for a, b in zip(plain.weights, run.weights, strict=True):
        assert all((p == q).all() for p, q in zip(a, b, strict=True))


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


def test_start_from_networks():
    first = train(X, Y, widths=4, lam=0.02, seeds=2, schedule=SHORT)
    frozen = Phase("gd", 1, learning_rate=1e-300)
    again = train(X, Y, widths=4, lam=0.02, seeds=2, schedule=frozen, start=first)
    for a, b in zip(first.weights, again.weights, strict=True):
        same_weights(a, b)
    one = train(X, Y, widths=4, lam=0.02, seeds=2, schedule=frozen, start=first.network(1))
    same_weights(one.weights[0], first.weights[1])
    deep = train(X, Y, widths=[(4, 3)], output_bias="penalized", bias=2.0, schedule=SHORT)
    same = train(
        X,
        Y,
        widths=[(4, 3)],
        output_bias="penalized",
        bias=2.0,
        schedule=frozen,
        start=[deep.network(0)],
    )
    same_weights(deep.weights[0], same.weights[0], atol=1e-300)


def test_single_precision_starts_of_another_scale_and_progress_on_a_terminal(monkeypatch, capsys):
    before = torch.get_num_threads()
    exact, single = (
        train(X, Y, widths=8, lam=0.02, seeds=2, schedule=SHORT, dtype=d) for d in ("float64", "float32")
    )
    for a, b in zip(exact.weights, single.weights, strict=True):
        same_weights(a, b, atol=1e-3)
        assert (b[0] == b[0].astype(np.float32)).all()
    loose = train(X, Y, widths=8, lam=0.3, schedule="lbfgs", dtype="float32", tol_gradient=1e-4)
    assert loose.status == ["converged"]
    frozen = Phase("gd", 1, learning_rate=1e-300)
    small, large = (train(X, Y, widths=400, scale=s, schedule=frozen).weights[0] for s in (0.1, 1.0))
    np.testing.assert_allclose(10 * small[0], large[0], rtol=1e-12)
    assert large[0].var() == pytest.approx(2 / 3, rel=0.15) and large[1].var() == pytest.approx(
        2 / 400, rel=0.25
    )
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
