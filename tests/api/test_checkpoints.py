"""A solve that was stopped, or killed, goes on from its checkpoint, and what it finds is certified as ever."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from filelock import FileLock

import covopt
from covopt.checks import kept
from covopt.errors import CheckpointWarning, InputError, SolutionFileError
from tests.stopped_runs import fill_disk

RNG = np.random.default_rng(5)
X, Y = RNG.standard_normal((40, 2)), RNG.standard_normal(40)
SIGNS = np.where(Y > 0, 1.0, -1.0)
PAIRS = RNG.standard_normal((15, 2))
WIDE = RNG.standard_normal((12, 5)), RNG.standard_normal(12)

SOLVES = {
    "interpolation": lambda **options: covopt.min_norm(X, Y, **options),
    "free output bias": lambda **options: covopt.min_norm(X, Y, output_bias="free", **options),
    "standardised": lambda **options: covopt.min_norm(1e3 + 7.0 * X, Y, standardise=True, **options),
    "two outputs": lambda **options: covopt.min_norm(X[:15], PAIRS, **options),
    "boxes": lambda **options: covopt.min_norm(*WIDE, **options),
    "squared": lambda **options: covopt.fit(X, Y, lam="0.01max", **options),
    "logistic": lambda **options: covopt.fit(X, SIGNS, lam="0.01max", loss="logistic", **options),
    "hinge": lambda **options: covopt.fit(X, SIGNS, lam="0.01max", loss="hinge", **options),
}


def stop_at(number):
    return lambda state: state.round == number


@pytest.mark.parametrize("name", SOLVES)
def test_a_stopped_solve_goes_on_where_it_was(name, tmp_path):
    solve, file = SOLVES[name], tmp_path / "run.checkpoint"
    whole = solve()
    stop = max(2, 2 * len(whole.history) // 3)
    first = solve(checkpoint=file, callback=stop_at(stop))
    assert first.status.code == "callback"
    assert covopt.verify(covopt.load(file)).ok
    rest = []
    second = solve(checkpoint=file, callback=lambda state: rest.append(state.round))
    assert second.status.code == "certified"
    assert second.objective == pytest.approx(whole.objective, rel=3e-6)
    assert covopt.verify(second).ok
    assert len(rest) <= len(whole.history) + 4
    assert second.lower_bound >= first.lower_bound * (1 - 1e-9)
    assert second.objective <= first.objective * (1 + 1e-9)
    assert sorted(os.listdir(tmp_path)) == []  # neither the checkpoint nor its lock is left


def test_it_is_written_in_time_and_is_a_solution(tmp_path):
    file, seen = tmp_path / "run.checkpoint", []

    def look(state):
        if file.exists():
            found = covopt.load(file)
            seen.append((state.round, found.gap))
            assert found.status.code in ("interrupted", "certified")
            assert len(found.history) == state.round

    covopt.min_norm(X, Y, checkpoint=covopt.Checkpoint(file, every_s=0.0), callback=look)
    rounds, gaps = np.transpose(seen)
    assert len(rounds) >= 10
    assert (np.diff(rounds) == 1).all()
    assert gaps[-1] < 1e-3 < gaps[0]
    seen.clear()
    covopt.min_norm(X, Y, checkpoint=covopt.Checkpoint(file, every_s=3600.0), callback=look)
    assert not seen


def test_nothing_in_the_file_is_believed(tmp_path):
    file = tmp_path / "run.checkpoint"
    covopt.min_norm(X, Y, checkpoint=file, callback=stop_at(6))
    honest = json.loads(file.read_text())
    truth = covopt.min_norm(X, Y)

    def forge(change):
        content = json.loads(json.dumps(honest))
        change(content)
        file.write_text(json.dumps(content))
        found = covopt.min_norm(X, Y, checkpoint=file)
        assert covopt.verify(found).ok
        assert found.lower_bound <= truth.cost * (1 + 1e-12)
        assert found.cost >= truth.lower_bound * (1 - 1e-12)
        return found

    def too_low(content):
        content["cost"] = 1e-3
        content["network"]["output_weights"] = [[0.0] for _ in content["network"]["output_weights"]]

    def too_high(content):
        content["lower_bound"] = 10.0 * truth.cost
        content["dual"] = [10.0 * value for value in content["dual"]]

    assert forge(too_low).status.code == "certified"
    assert forge(too_high).status.code == "certified"


def test_a_file_of_an_earlier_version_is_a_start(tmp_path):
    """It has the state of its rounds, which is not read any more."""
    file = tmp_path / "run.checkpoint"
    covopt.min_norm(X, Y, checkpoint=file, callback=stop_at(6))
    content = json.loads(file.read_text())
    content["resume"] = {"kind": "ColumnGeneration", "neurons": {"shape": [1, 2], "values": [0.0, 1.0]}}
    file.write_text(json.dumps(content))
    assert covopt.min_norm(X, Y, checkpoint=file).status.code == "certified"


def test_nothing_in_the_file_of_a_path_is_believed(tmp_path):
    file, few = tmp_path / "path.checkpoint", (X[:8, :1], Y[:8])
    asked = {"lams": [0.1, 0.01], "checkpoint": file}
    covopt.path(*few, lams=[0.1, 0.01, 0.001], checkpoint=covopt.Checkpoint(file, every_s=0.0, keep=True))
    honest = json.loads(file.read_text())

    def forge(change):
        content = json.loads(json.dumps(honest))
        change(content["solutions"][0])
        file.write_text(json.dumps(content))
        found = covopt.path(*few, **asked)
        assert covopt.verify(found).ok
        assert [each.status.code for each in found] == ["certified"] * 2
        assert found[0].tol == 1e-6

    def too_high(point):  # a bound above the minimum, as it was believed
        point["lower_bound"] = 50.0 * point["certificate"]["objective"]
        point["network"]["output_weights"] = [[7.0 * v[0]] for v in point["network"]["output_weights"]]

    def loose(point):
        point["dual"], point["tol"] = [0.5 * v for v in point["dual"]], 0.9

    for change in (too_high, loose):
        forge(change)


def test_a_damaged_file_is_refused(tmp_path):
    file = tmp_path / "run.checkpoint"
    covopt.min_norm(X, Y, checkpoint=file, callback=stop_at(4))
    content = json.loads(file.read_text())
    content["network"]["hidden_weights"] = "many"
    file.write_text(json.dumps(content))
    with pytest.raises(SolutionFileError) as said:
        covopt.min_norm(X, Y, checkpoint=file)
    assert str(said.value).startswith(f"the checkpoint {file} cannot be gone on with: ")
    assert "Remove it, or leave out --resume" in str(said.value)
    assert not (tmp_path / "run.checkpoint.lock").exists()


def test_a_pipe_is_no_checkpoint(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # reading it would wait for ever
    with pytest.raises(InputError, match="is a folder, a pipe or a device; choose another file"):
        covopt.min_norm(X, Y, checkpoint=tmp_path / "pipe")


@pytest.mark.parametrize(
    ("other", "match"),
    [
        (lambda file: covopt.min_norm(X, -Y, checkpoint=file), "Y differs"),
        (lambda file: covopt.min_norm(X[::-1], Y, checkpoint=file), "X differs"),
        (lambda file: covopt.min_norm(X, Y, bias=2.0, checkpoint=file), "bias differs"),
        (lambda file: covopt.min_norm(X, Y, output_bias="free", checkpoint=file), "output_bias differs"),
        (lambda file: covopt.fit(X, Y, lam=0.1, checkpoint=file), "lam differs"),
        (lambda file: covopt.path(X, Y, checkpoint=file), "is of one solve; choose another file"),
    ],
)
def test_the_checkpoint_of_another_problem_is_refused(other, match, tmp_path):
    file = tmp_path / "run.checkpoint"
    covopt.min_norm(X, Y, checkpoint=file, callback=stop_at(2))
    with pytest.raises(InputError, match=match):
        other(file)
    assert file.exists()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"loss": "huber"}, "loss differs"),
        ({"lam": 0.02}, "lam differs"),
        ({"sample_weight": np.arange(40.0)}, "sample_weight differs"),
    ],
)
def test_the_checkpoint_of_another_fit_is_refused(change, match, tmp_path):
    file = tmp_path / "run.checkpoint"
    asked = {"lam": 0.01, "checkpoint": file}
    covopt.fit(X, Y, **asked, callback=stop_at(1))
    with pytest.raises(InputError, match=match):
        covopt.fit(X, Y, **{**asked, **change})


def test_a_full_disk_ends_no_solve(tmp_path, monkeypatch):
    fill_disk(monkeypatch, "covopt.checks.kept.write_json")
    file = covopt.Checkpoint(tmp_path / "run.checkpoint", every_s=0.0)
    with pytest.warns(
        CheckpointWarning, match="could not be written: No space left on device; the solve goes on"
    ):
        assert covopt.min_norm(X[:12], Y[:12], checkpoint=file).status.code == "certified"


def test_two_runs_do_not_share_a_checkpoint(tmp_path):
    file = tmp_path / "run.checkpoint"
    with FileLock(f"{file}.lock"), pytest.raises(InputError, match="another process writes the checkpoint"):
        covopt.min_norm(X, Y, checkpoint=file)
    assert covopt.min_norm(X, Y, checkpoint=file).status.code == "certified"


def test_a_path_goes_on_with_the_point_that_was_stopped(tmp_path):
    file, solved = tmp_path / "path.checkpoint", []
    asked = {"n_lams": 5, "checkpoint": file}
    whole = covopt.path(X, Y, n_lams=5)

    def stop(state):
        solved.append(state.round)
        return solved.count(0) == 3  # the first point needs no round

    with pytest.warns(covopt.errors.PathStoppedWarning):
        first = covopt.path(X, Y, **asked, callback=stop)
    assert len(covopt.load(file)) == len(first) == 4
    solved.clear()
    second = covopt.path(X, Y, **asked, callback=lambda state: solved.append(state.round))
    assert len(solved) <= sum(len(each.history) for each in whole)
    assert [each.status.code for each in second] == ["certified"] * 5
    np.testing.assert_allclose([s.objective for s in second], [s.objective for s in whole], rtol=3e-6)
    assert not file.exists()
    with pytest.warns(covopt.errors.PathStoppedWarning):
        covopt.path(X, Y, lams=[0.5, 0.1, 0.01], checkpoint=file, callback=stop_at(0))
    with pytest.raises(InputError, match="is of a path; choose another file"):
        covopt.fit(X, Y, lam=0.1, checkpoint=file)


SCRIPT = """
import numpy as np, covopt
rng = np.random.default_rng(1)
X, Y = rng.standard_normal((60, 2)), rng.standard_normal(60)
print(covopt.min_norm(X, Y, checkpoint=covopt.Checkpoint({file!r}, every_s=0.0)).status.code)
"""


def killed(file, after):
    """Start the script, and kill it ``after`` seconds after its checkpoint is there; whether it was still running."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT.format(file=str(file)))],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not file.exists() and process.poll() is None:
        time.sleep(0.002)
    time.sleep(after)
    was_running = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    return was_running


@pytest.mark.parametrize(
    "moments", [pytest.param(2, id="two"), pytest.param(50, id="fifty", marks=pytest.mark.slow)]
)
def test_killed_at_any_moment_it_leaves_a_checkpoint_that_loads(moments, tmp_path):
    waits = np.random.default_rng(0).uniform(0.0, 0.4, moments)
    rng = np.random.default_rng(1)
    table = rng.standard_normal((60, 2)), rng.standard_normal(60)
    for number, wait in enumerate(waits):
        file = tmp_path / f"{number}.checkpoint"
        if not killed(file, wait) or not file.exists():  # it had ended, and removes its checkpoint then
            continue
        found = covopt.load(file)
        assert covopt.verify(found, *table).ok
        assert found.certificate.interpolates
        second = covopt.min_norm(*table, checkpoint=file)  # the lock of a dead process holds nobody
        assert second.status.code == "certified"
        assert second.lower_bound >= found.lower_bound * (1 - 1e-12)


def test_an_interval_is_kept(monkeypatch, tmp_path):
    """A checkpoint that took half a second was followed by the next one after fifty: one in 22 rounds."""
    clock, written = [0.0], []
    monkeypatch.setattr(kept, "now", lambda: clock[0])

    def content():
        clock[0] += 0.5
        written.append(clock[0])
        return {}

    file = kept.KeptFile(covopt.Checkpoint(tmp_path / "run.checkpoint", every_s=1.0))
    for _ in range(22):
        clock[0] += 1.0
        file.offer(content)
    assert len(written) == 22


def test_a_fit_without_a_seed_is_the_same_again():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((40, 5))
    targets = np.abs(points).sum(axis=1) + 0.3 * rng.standard_normal(40)
    one, other = (covopt.fit(points, targets, lam="0.2max", tol=1e-4) for _ in range(2))
    assert one.objective == other.objective
    assert np.array_equal(one.dual, other.dual)
    assert np.array_equal(one.network.hidden_weights, other.network.hidden_weights)
