"""Time limits and interrupts: they hold for every command, on a table of many rows too."""

import base64
import gzip
import json
import os
import signal
import sys
import time
import warnings
import weakref
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from safetensors.numpy import save_file
from sklearn.datasets import load_digits
from typer.testing import CliRunner

import covopt
from covopt import limits
from covopt.api import run
from covopt.api.stopping import Clock, best_in_time, in_time
from covopt.arrangement import iter_cells
from covopt.cli import app
from covopt.cli.report import Progress
from covopt.data.tabular import Named
from covopt.errors import CovoptWarning, InputError, MemoryLimitWarning
from covopt.limits import (
    HURRY_S,
    TimeUp,
    checkpoint,
    defer_interrupts,
    ends_like_an_interrupt,
    in_pieces,
    limited,
    now,
    on_alarm,
    seconds_left,
    unlimited,
)
from covopt.network.base import outputs
from covopt.problems.problem import PASSES, Problem
from covopt.solvers.bounds import more_and_more_points
from covopt.solvers.quick import quick_network
from tests.cases import cases, drawn, normal

LIMIT, NIGHT = 0.15, 1.0
LATE = 3.0  # seconds, with reading the table, and a tenth of the limit; half of it where nothing else runs


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    for name, rows in (("large", 40_000), ("small", 300)):
        content = rng.standard_normal((rows, 3))
        np.savetxt(folder / f"{name}.csv", content, delimiter=",", header="a,b,y", comments="", fmt="%.6f")
        X, y = Named(content[:, :2].round(6), ("a", "b")), content[:, 2].round(6)
        with warnings.catch_warnings():  # 10¹⁰ faces do not fit
            warnings.simplefilter("ignore", MemoryLimitWarning)
            fitted = covopt.fit(X, y, lam=0.001, time_limit_s=LIMIT)
        fitted.save(folder / f"{name}.json")
    factor = rng.integers(0, 5, (18, 9))
    rng = np.random.default_rng(0)
    layers = {"0.weight": (64, 2), "0.bias": 64, "2.weight": (64, 64), "2.bias": 64, "4.weight": (1, 64)}
    save_file({k: rng.standard_normal(s) for k, s in layers.items()}, folder / "model.safetensors")
    np.savetxt(folder / "matrix.csv", factor.T @ factor, delimiter=",", fmt="%d")
    return folder


COMMANDS = cases(
    "commands that keep a limit", T="--target y", L=f"--time-limit {LIMIT}",
    slow=lambda line: pytest.param(line.replace(f" {LIMIT}", f" {NIGHT}"), marks=pytest.mark.slow),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_keeps_its_limit(command, tables, monkeypatch, processor_clock):
    monkeypatch.chdir(tables)
    arguments = command.split()
    for name, rows in (("middle.csv", 2000), ("classes.csv", 100_000)):
        if name in arguments and not Path(name).exists():
            content = np.random.default_rng(1).standard_normal((rows, 3))
            content[:, 2] = content[:, 2] if name == "middle.csv" else content[:, 0] > 0
            np.savetxt(name, content, delimiter=",", header="a,b,y", comments="", fmt="%.6f")
    if "digits.csv" in arguments:
        X, y = load_digits(return_X_y=True, as_frame=True)
        X.assign(y=y)[:600].to_csv("digits.csv", index=False)
    limit = float(arguments[-1]) if "--time-limit" in arguments else LIMIT
    for again in (True, False):
        began = time.process_time()
        result = CliRunner().invoke(app, [*arguments, "--json"])
        if time.process_time() - began <= 1.1 * limit + LATE:
            break
        assert again  # the first run loads and compiles
    assert result.exit_code in (0, 3) or "no network of depth 3" in result.output, result.output
    found = json.loads(result.stdout.splitlines()[-1])
    if command.startswith(("solve", "fit")):
        assert 0 < found["n_neurons"] <= 2 * found["n_samples"]
    if command.startswith("cp-rank"):
        assert found["lower"] >= 1
    if command.startswith("reduce"):
        assert found["ended"] == "time_limit" or result.exit_code == 0  # this machine was fast enough
        assert found["output_change"] <= 1e-9 * found["largest_output"]
    if "cells.npy" in arguments:
        assert found["at_most"] == 1_599_960_002
        assert result.exit_code == 3
    if command.startswith("verify small.json") and result.exit_code == 3:  # else this machine was fast enough
        assert not found["in_time"]
        assert [check["name"] for check in found["checks"] if not check["ok"]] == ["time limit"]


@pytest.mark.parametrize("raised", [TimeUp, KeyboardInterrupt])
def test_what_a_signal_raised_is_not_masked_by_the_code_that_it_fell_into(raised):
    def masked(error: Exception) -> None:
        try:
            if raised is KeyboardInterrupt:
                signal.raise_signal(signal.SIGINT)
            while True:
                pass
        except raised:
            raise error from None

    limit = 0.01 if raised is TimeUp else None
    with ends_like_an_interrupt(), pytest.raises(raised), limited(limit):
        masked(TypeError("as NumPy says of records"))
    with ends_like_an_interrupt(), pytest.raises(InputError, match="which row"), limited(limit):
        masked(InputError("which row"))
    with pytest.raises(TypeError, match="records"), limited(10.0):
        raise TypeError("records")
    with pytest.raises(KeyboardInterrupt), limited(None):  # as numba does, whosever handler it was
        raise SystemError("a result with an exception set") from KeyboardInterrupt()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::covopt.errors.MemoryLimitWarning")
def test_pictures_of_many_neurons_take_no_longer_than_a_solve(tmp_path):
    content = normal(0, (20_000, 3))
    found = covopt.min_norm(content[:, :2], content[:, 2], time_limit_s=NIGHT)
    assert len(found.network) == 20_000
    began = time.process_time()
    found.plot(tmp_path / "figure.png")
    covopt.explore.write_page(found, tmp_path / "page.html")
    assert time.process_time() - began < 20.0
    packed = (tmp_path / "page.html").read_text().partition('id="content">')[2].partition("<")[0]
    said = gzip.decompress(base64.b64decode(packed)).decode()
    assert "20000, of which the 2000 costliest are described and drawn" in said


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::covopt.errors.MemoryLimitWarning")
def test_a_network_of_a_hundred_thousand_neurons_is_verified(tmp_path):
    content = normal(0, (100_000, 3))
    covopt.min_norm(content[:, :2], content[:, 2], time_limit_s=NIGHT).save(tmp_path / "large.json")
    began = time.process_time()
    found = covopt.verify(covopt.load(tmp_path / "large.json"), time_limit_s=30.0)
    assert not found.failed  # all pairs of points and neurons at once were 75 GiB
    assert time.process_time() - began < 30.0


def test_a_fan_that_the_clock_cuts_is_no_failed_check(monkeypatch):
    X = normal(0, (20, 9))
    solution = covopt.fit(X, np.arange(20) % 3, lam="0.3max", loss="softmax-cross-entropy")
    clock, pause, fan = [0.0], [0.0], covopt.oracles.certified.fan_dual_norm
    monkeypatch.setattr("covopt.limits.time", Mock(perf_counter=lambda: clock[0]))

    def cut(*of, **options):
        clock[0] += pause[0]
        return fan(*of, **options | {"max_calls": 3})

    monkeypatch.setattr("covopt.oracles.certified.fan_dual_norm", cut)
    for pause[0], is_late in ((0.0, False), (11.0, True)):  # work that is not enough refutes what was stated
        found = covopt.verify(solution, time_limit_s=30.0)
        assert not found.ok
        assert found.in_time is not is_late


def test_a_check_without_time_is_no_failed_check(monkeypatch):
    late = Mock(side_effect=TimeUp)
    monkeypatch.setattr("covopt.verification.exact_checks", late)
    solution = covopt.min_norm(np.random.default_rng(0).standard_normal((12, 2)), np.arange(12.0))
    found = covopt.verify(solution, exact=True, time_limit_s=60.0)
    assert not found.ok
    assert not found.in_time
    assert found.failed == []
    last, end = found.summary().splitlines()[-2:]
    late = "LATE   time limit: not verified: 60 s were over when checked was: stated problem, network, "
    assert last.startswith(late)
    assert "norm" in last
    assert end == "NOT VERIFIED"
    assert repr(found).startswith("Verification(not verified: out of time after ")
    assert covopt.verify(solution, time_limit_s=60.0).ok
    wrong = covopt.Solution.from_dict({**solution.to_dict(), "cost": solution.cost * 1.01})
    late_too = covopt.verify(wrong, exact=True, time_limit_s=60.0)
    assert "norm" in late_too.failed
    assert late_too.summary().endswith("VERIFICATION FAILED")


interrupt = Mock(side_effect=KeyboardInterrupt)


def test_sigterm_and_a_second_signal_still_save(tables, tmp_path, monkeypatch):
    def both(*_):
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.raise_signal(each)

    monkeypatch.setattr(Progress, "__call__", both)
    words = "solve", tables / "small.csv", "--target", "y", "--tol", "1e-15", "--out", tmp_path / "s.json"
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 3, result.output
    solution = covopt.load(tmp_path / "s.json")
    assert solution.status.code == "interrupted"
    assert len(solution.network) > 0  # there was no time for fewer
    assert covopt.verify(solution).ok


def test_ctrl_c_in_cp_rank_keeps_what_is_known(monkeypatch, tables):
    monkeypatch.setattr("covopt.completely_positive.rank.numerical_factor", interrupt)
    found = covopt.cp_rank(np.loadtxt(tables / "matrix.csv", delimiter=","), time_limit_s=5.0)
    assert found.lower >= 9
    assert any("interrupted" in note for note in found.notes)


def test_ctrl_c_in_a_fold_or_before_lambda_max_is_known_keeps_a_network(monkeypatch):
    X = np.random.default_rng(0).standard_normal((40, 2))
    y = np.abs(X[:, 0])
    monkeypatch.setattr("covopt.api.selection.fold_networks", interrupt)
    with pytest.warns(CovoptWarning, match="interrupted"):
        first = covopt.path(X, y, n_lams=5, folds=3)
    assert first.held_out is None
    monkeypatch.setattr("covopt.api.lambdas.LocalSearchOracle", interrupt)
    monkeypatch.setattr("covopt.api.selection.fold_networks", None)  # no fold is trained after an interrupt
    found = covopt.fit(X, y, lam="0.01max")
    assert found.status.code == "interrupted"
    assert len(found.network) > 0
    with pytest.warns(CovoptWarning):  # what is proved of λ_max, and where the path stopped
        paths = [first, covopt.path(X, y, n_lams=5), covopt.path(X, y, n_lams=5, folds=3)]
    assert [len(path) for path in paths] == [1, 1, 1]
    assert all(path[0].status.code in ("interrupted", "certified") for path in paths)
    assert all(covopt.verify(each).ok for each in (found, *first, *paths[1]))
    monkeypatch.setattr("covopt.api.task.Task.oracle", interrupt)
    for question in (covopt.lambda_max, lambda X, y: covopt.fit(X, y, lam="cv")):
        with pytest.raises(KeyboardInterrupt):
            question(X, y)


def test_no_deadline_is_raised_where_a_weak_reference_is_dropped(monkeypatch):
    # Python would print it and go on
    class Rings:
        def __bool__(self):
            signal.raise_signal(signal.SIGALRM)
            return False

    lost, kept = [], weakref.WeakKeyDictionary()
    monkeypatch.setattr("sys.unraisablehook", lost.append)
    monkeypatch.setattr("covopt.limits.seconds_left", lambda: 0.0)
    before = signal.signal(signal.SIGALRM, on_alarm)
    try:
        kept[key := Rings()] = 0
        vars(kept)["_iterating"] = Rings()
        del key
        assert (lost, len(kept.data)) == ([], 0)
        with pytest.raises(TimeUp):
            signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("ask", [checkpoint, lambda: None], ids=["asking", "an alarm"])
def test_the_nearest_deadline_counts_once_and_only_inside(ask):
    with limited(100.0):
        with pytest.raises(TimeUp), limited(0.02):
            while True:
                ask()
        assert 50.0 < seconds_left() <= 100.0
        with limited(1000.0):
            assert seconds_left() <= 100.0
        with unlimited(), limited(1e300):  # more than timers count
            assert seconds_left() > 1e200
        with unlimited():
            assert seconds_left() == np.inf
    assert seconds_left() == np.inf
    time.sleep(0.1)


def test_pieces_stop_at_the_deadline():
    done = []
    with pytest.raises(TimeUp), limited(0.1):
        in_pieces(lambda start, stop: (time.sleep(0.02), done.append((start, stop))), 10_000, first=1)
    assert 1 <= len(done) < 20
    parts = []
    in_pieces(lambda start, stop: parts.extend(range(start, stop)), 1000, n_threads=2)
    assert sorted(parts) == list(range(1000))


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_cells_stop_at_a_deadline_that_no_alarm_tells(monkeypatch):
    blocks = iter_cells(np.random.default_rng(0).standard_normal((300, 2)), bias=1.0, chunk_size=500)
    next(blocks)
    monkeypatch.setattr(limits, "seconds_left", lambda: 0.0)  # as in compiled code and other threads
    with pytest.raises(TimeUp):
        list(blocks)


def test_two_signals_are_patient_with_and_the_third_is_not():
    with defer_interrupts() as interrupted:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("count", [1, 2])
def test_one_signal_leaves_a_while_and_two_leave_nothing(count, monkeypatch):
    hurry = 0.3
    monkeypatch.setattr(limits, "HURRY_S", hurry)

    def work():
        for _ in range(count):
            signal.raise_signal(signal.SIGINT)
        while True:
            pass

    clock, began = Clock(None, now()), now()
    assert in_time(clock, work, lambda: "other") == "other"
    took = now() - began
    assert clock.interrupted
    assert hurry <= took < hurry + 5.0 if count == 1 else took < hurry
    assert clock.until_late() <= HURRY_S
    # what is finished after an interrupt ends at the next one
    began, work_again = now(), Clock(None, now()).hurry()
    signals = iter([signal.SIGINT])
    assert (
        in_time(work_again, lambda: [signal.raise_signal(next(signals)), list(iter(int, 1))], lambda: 1) == 1
    )
    assert now() - began < HURRY_S


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("question", ["solve", "fit"])
def test_a_second_signal_while_a_certificate_is_sought_keeps_what_was_proved(monkeypatch, question):
    X = np.random.default_rng(0).standard_normal((40, 3))
    y = np.abs(X).sum(axis=1)
    asked = []

    def interrupting(state):
        if state.round >= 4 and state.note != "descent on both layers":
            signal.raise_signal(signal.SIGINT)
        return False

    def twice(*args, effort=1.0, **options):
        asked.append(effort)
        if effort == 0.0:
            return conclude(*args, effort=effort, **options)
        signal.raise_signal(signal.SIGINT)
        return list(iter(int, 1))

    conclude = run.Certifier.conclude
    monkeypatch.setattr(run.Certifier, "conclude", twice)
    options = {"callback": interrupting, "tol": 1e-12}
    found = covopt.min_norm(X, y, **options) if question == "solve" else covopt.fit(X, y, lam=0.01, **options)
    assert [effort > 0.0 for effort in asked] == [False, True]
    assert found.status.code == "interrupted"
    assert 0.0 < found.lower_bound < found.objective
    assert covopt.verify(found).ok


def test_certificates_take_what_is_left_of_a_limit():
    efforts = []

    def ask(effort):
        efforts.append(effort)
        return effort

    best = best_in_time(Clock(9.0, now()), ask, name="x with y", key=float, enough=lambda done: done >= 1.0)
    assert efforts[0] == 0.0
    assert 0.0 < efforts[1] < 1.0 <= efforts[-1] == best
    efforts.clear()
    assert 0.0 < best_in_time(Clock(9.0, now()), ask, name="x with y", key=float) < 1.0
    assert len(efforts) == 2  # what is enough is not proved again with more effort
    efforts.clear()
    assert best_in_time(Clock(None, now()), ask, key=float) == 1.0
    assert efforts == [1.0]


def test_compilation_is_announced_once_and_not_counted():
    said: list[str] = []
    compiling = limits.Compiling()
    compiling.announce = said.append
    before = now()
    kept, limits.compiling = limits.compiling, compiling
    try:
        compiling.listening = True
        for _ in range(2):
            start = now()
            compiling.start()
            time.sleep(0.05)
            assert now() - start < 0.03
            compiling.end()
            assert now() - start < 0.03
    finally:
        limits.compiling = kept
    assert said == ["compiling, once per installation"]
    assert now() >= before


def test_outputs_by_sorting_are_the_sums_over_all_pairs(monkeypatch):
    rng, direction = drawn(0, 3)
    slopes = rng.standard_normal(40)
    slopes[3] = 0.0
    hidden = np.column_stack([np.outer(slopes, direction), rng.standard_normal(40)])
    lifted = np.column_stack([rng.standard_normal((50, 3)), np.full(50, 0.5)])
    weights = rng.standard_normal((40, 2))
    plain = np.maximum(lifted @ hidden.T, 0.0) @ weights
    for pairs, many in ((10, 10**9), (10, 20)):
        monkeypatch.setattr("covopt.network.base.PIECE", pairs)
        monkeypatch.setattr("covopt.network.base.MANY_PAIRS", many)
        assert np.allclose(outputs(lifted, hidden, weights), plain, rtol=1e-12, atol=1e-12)


def test_an_import_is_not_left_half_done(tmp_path, monkeypatch):
    slow = "import time\nend = time.time() + 0.4\nwhile time.time() < end: pass\n"
    (tmp_path / "slow_to_import.py").write_text(slow)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(TimeUp), limited(0.05):
        import slow_to_import  # noqa: F401

        assert "slow_to_import" in sys.modules
        while True:
            pass


def test_an_interrupt_waits_until_numba_has_loaded_a_kernel():
    # half of that left registries that no later kernel could be loaded with, and once freed memory twice
    reached = []
    source = "def load(after):\n    signal.raise_signal(signal.SIGINT)\n    after()\n"
    scope = {"signal": signal}
    exec(compile(source, f"{os.sep}numba{os.sep}x.py", "exec"), scope)
    with ends_like_an_interrupt():
        with pytest.raises(KeyboardInterrupt):
            scope["load"](lambda: reached.append("the end"))
            for _ in range(1000):
                time.sleep(0.01)
        with defer_interrupts() as interrupted, pytest.raises(KeyboardInterrupt):
            for _ in range(3):
                signal.raise_signal(signal.SIGTERM)
        assert interrupted()
    assert reached == ["the end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize(("n", "d", "k", "bias"), [(60, 3, 2, True), (60, 7, 2, False), (999, 3, 1, False)])
def test_a_network_along_a_line_and_one_that_bends_at_every_point_go_through_them(n, d, k, bias):
    rows, targets = normal(1, (n, d + bias), (n, k))
    if bias:
        rows[:, -1] = 1.0
    problem = Problem.through(rows, targets)
    line, found = quick_network(problem, 0.0), quick_network(problem, np.inf)
    assert problem.missed(*found.network) <= PASSES
    assert len(found.neurons) <= 2 * n
    if bias:  # else no line goes through
        assert problem.missed(*line.network) < 1e-9
        assert len(line.neurons) <= n
    assert found.upper_bound < 0.1 * line.upper_bound
    lower = [problem.dual_value(dual) for dual in more_and_more_points(problem, np.inf)]
    assert lower and lower[0] > 0.0 and sorted(lower) == lower and lower[-1] <= found.upper_bound
