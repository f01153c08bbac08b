"""Every long command: what it says while it runs; killed it goes on, and a full disk loses nothing."""

import errno
import io
import json
import os
import re
import resource
import signal
import sys
import tempfile
import threading
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

import covopt
from covopt.arrangement import files
from covopt.cli import app, report
from covopt.datasets import make_random_plane
from covopt.solvers.loop import RoundState
from tests.cases import cases
from tests.commands import run

# the command, and the events that it tells before its result
LONG = dict(cases("long commands, and what they tell", T="t.csv --target y --features a,b"))
SHOWN = {
    "solve": ("round 0: ", "Solution(certified, "),
    "cells": ("part 0: 134 cells", "134 cells"),
    "cp-rank": ("lower 3 by rank: ", "CP-rank at least 3, at most 3 (exact)"),
    "verify": ("ok network: ", "Verification(ok, "),
}
KILLED = ("fit", "solve", "path", "solve by boxes", "depth", "solve with one input", "fit, three layers")
ON_A_DISK = ("solve", "fit", "path", "prove", "cp-rank", "train")


@pytest.fixture(autouse=True)
def folder(here, solved, tmp_path):
    """A folder with a table, one of few rows, one of six columns, a matrix and a solution."""
    Path("s.json").write_bytes(solved.read_bytes())
    np.savetxt("m.csv", [[2, 1, 1], [1, 2, 1], [1, 1, 2]], delimiter=",")
    for name, head, n in (("few", "a,b,y", 5), ("wide", "a,b,c,d,e,y", 12)):
        X, y = make_random_plane(n, head.count(","))
        np.savetxt(f"{name}.csv", np.column_stack([X, y]), delimiter=",", header=head, comments="")
    return tmp_path


def words_of(name, *more):
    return (*LONG[name][0].split(), *more)


# ---------------------------------------------------------------------- what is said
@pytest.mark.parametrize("name", LONG)
def test_every_long_command_tells_its_rounds_and_its_result(name):
    words, kind = words_of(name), LONG[name][1]
    done = run("--log-json", "log.jsonl", *words, "--json")
    assert done.exit_code in (0, 3) and done.stderr == "" and json.loads(done.stdout)
    events = [json.loads(line) for line in Path("log.jsonl").read_text("utf-8").splitlines()]
    rounds = [event for event in events if event["event"] == kind]
    assert rounds and all(any(isinstance(v, int | float) for v in event.values()) for event in rounds)
    names, times = [event["event"] for event in events], [event["time"] for event in events]
    assert names[-1] == "result" and (names.count("result") == 1 or words[0] == "path" or "--depth" in words)
    assert times == sorted(times)
    if name in SHOWN:
        few, many = (run(v, *words, "--json").stderr.splitlines() for v in ("-v", "-vv"))
        assert len(few) == 1 and few[0].startswith(f"covopt {SHOWN[name][1]}")
        assert any(line.startswith(f"covopt {SHOWN[name][0]}") for line in many[:-1])
        assert many[-1].startswith(f"covopt {SHOWN[name][1]}")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_on_a_terminal_only(monkeypatch):
    state = RoundState(3, 1.25, 1.5, 0.2, 17, 0.1)
    monkeypatch.setenv("TERM", "xterm")
    for stream, enabled in ((Terminal(), True), (io.StringIO(), True), (Terminal(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with report.Progress("reading the table", enabled=enabled) as progress:
            progress.say("more")
            assert progress(state) is False
        shown = enabled and isinstance(stream, Terminal)
        assert ("1.25 <= minimum <= 1.5" in stream.getvalue()) is shown is bool(stream.getvalue())


# ---------------------------------------------------------------------- killed
def is_known(state):
    return (state["best"] if isinstance(state, dict) else state.best) is not None


def killed(words):
    """Run a command that is killed in the second round that tells of a network."""
    rounds = []

    def seen(self, state):
        called(self, state)
        rounds.extend([state] if is_known(state) else [])
        if len(rounds) == 2:
            self.write()
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    called, report.Progress.__call__ = report.Progress.__call__, seen
    app(list(words))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are copied")
@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", [*KILLED, "fit, label noise"])
def test_a_killed_command_goes_on(name, monkeypatch):
    words = words_of(name, "--out", "r.json", *(["--time-limit", "30"] * ("--depth" in LONG[name][0])))
    process = get_context("fork").Process(target=killed, args=(words,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    left = covopt.load("r.json")
    points = left if isinstance(left, list) else [left]
    assert points[-1].status.code != "certified" and all(covopt.verify(each).ok for each in points)
    # the second run ends with the first network that it knows: that of the file
    monkeypatch.setattr(report.Progress, "__call__", lambda self, state: is_known(state))
    done = run(*words, "--resume")
    assert done.exit_code == 3, done.output
    found = covopt.load("r.json")
    last = found[-1] if isinstance(found, list) else found
    assert last.status.code == "callback" and covopt.verify(last).ok
    if name != "path":  # that one stops at its first λ
        assert found.objective <= left.objective * (1 + 1e-9)
        # the bounds of deep networks are computed anew
        assert "--depth" in words or found.lower_bound >= left.lower_bound * (1 - 1e-9)


def test_the_best_so_far_is_written_while_a_round_takes_long(folder, monkeypatch):
    monkeypatch.setattr(report, "EVERY_S", 0.01)
    written = threading.Event()

    class Best:
        def save(self, path):
            path.write_text("best")
            written.set()

    state = SimpleNamespace(best=Best)
    with report.Progress("", enabled=False, out=folder / "r.json") as shown:
        shown(state)
        assert written.wait(60.0)
    assert (folder / "r.json").read_text() == "best"
    state.best = lambda: 1 / 0  # what goes wrong there, and what stands where pipes do, ends nothing
    for out in (folder / "r.json", folder):
        shown = report.Progress("", enabled=False, out=out)
        shown(state)
        shown.write()
    assert (folder / "r.json").read_text() == "best"


# ---------------------------------------------------- a full disk, a folder that becomes read-only
@pytest.mark.parametrize(
    ("name", "fault"), list(zip(ON_A_DISK, 3 * [errno.EROFS, errno.ENOSPC], strict=True))
)
def test_a_disk_that_fails_loses_nothing(name, fault, folder, monkeypatch):
    out = Path("o.csv" if name == "train" else "o.json")
    words = words_of(name, "--out", out, *(["--seeds", "2"] * (name == "train")))
    original, before = tempfile.mkstemp, sorted(os.listdir())
    reason = os.strerror(fault)

    def mkstemp(*given, **options):
        if Path(options["dir"]).resolve() == folder:
            raise OSError(fault, reason)
        return original(*given, **options)

    with monkeypatch.context() as patched:
        patched.setattr("covopt.files.tempfile.mkstemp", mkstemp)
        done = run(*words)
    assert done.exit_code == 1, done.output
    other = Path(re.search(rf"error: cannot write {out}: {reason}; it is in (\S+)\.\n", done.output)[1])
    if name == "train":
        assert len(other.read_text().splitlines()) == 3
    else:
        assert run("verify", *(("s.json", "--proof", other) if name == "prove" else (other,))).exit_code == 0
    other.unlink()
    other.parent.rmdir()
    assert sorted(os.listdir()) == before  # no lock, no half of a file


def test_where_nothing_can_be_written_that_is_said(monkeypatch):
    full = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr("covopt.files.os.replace", full)
    message = json.loads(run(*words_of("cp-rank", "--out", "o.json"), "--json").stdout)["error"]
    nowhere = "No space left on device; nor can anything be written elsewhere; what was kept is left."
    assert message.endswith(nowhere)


def test_cells_on_a_disk_that_is_full(monkeypatch):
    monkeypatch.setattr(files, "PIECE", 64)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, before[1]))
    try:
        full = [run("cells", "wide.csv", "--out", name) for name in ("c.npy", "c.parquet")]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    for name, done in zip(("c.npy", "c.parquet"), full, strict=True):
        assert done.exit_code == 1
        assert f"cannot write {name}: File too large; nothing is left of it" in done.output
