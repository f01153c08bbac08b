"""A command that is killed leaves the best answer so far in its file, and begins with it when it is called again."""

import os
import signal
import threading
from multiprocessing import get_context
from types import SimpleNamespace

import numpy as np
import pytest

import covopt
from covopt.cli import app, report
from tests.commands import run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are copied")
TABLE = ("t.csv", "--target", "y", "--out", "r.json")
DEEP = ("--depth", "3", "--time-limit", "4")
KILLED = {
    "fit": ("fit", *TABLE, "--lam", "0.01"),
    "solve": ("solve", *TABLE),
    "path": ("path", *TABLE, "--n-lams", "4"),
    "solve by boxes": ("solve", "wide.csv", *TABLE[1:]),
    "depth": ("depth", *TABLE, *DEEP),
    "solve with one input": ("solve", *TABLE, "--features", "a"),
    "fit of three layers": ("fit", *TABLE, "--lam", "0.01", *DEEP),
    "fit with label noise": ("fit", *TABLE, "--lam", "0.01", "--potential", "label-noise"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    for name, head, n in (("t", "a,b,y", 10), ("wide", "a,b,c,d,e,y", 12)):
        table = rng.standard_normal((n, head.count(",") + 1))
        np.savetxt(f"{name}.csv", table, delimiter=",", header=head, comments="", fmt="%.17g")


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


def last(found):
    return found[-1] if isinstance(found, list) else found


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", KILLED)
def test_a_killed_command_goes_on(name, monkeypatch):
    words = KILLED[name]
    process = get_context("fork").Process(target=killed, args=(words,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    left = covopt.load("r.json")
    assert last(left).status.code != "certified" and all(
        covopt.verify(each).ok for each in (left if isinstance(left, list) else [left])
    )
    # the second run ends with the first network that it knows: that of the file
    monkeypatch.setattr(report.Progress, "__call__", lambda self, state: is_known(state))
    done = run(*words, "--resume")
    assert done.exit_code == 3, done.output
    found = covopt.load("r.json")
    assert last(found).status.code == "callback" and covopt.verify(last(found)).ok
    if name != "path":  # that one stops at its first λ
        assert found.objective <= left.objective * (1 + 1e-9)
        # the bounds of deep networks are computed anew
        assert "--depth" in words or found.lower_bound >= left.lower_bound * (1 - 1e-9)


def is_known(state):
    return (state["best"] if isinstance(state, dict) else state.best) is not None


def test_the_best_so_far_is_written_while_a_round_takes_long(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "EVERY_S", 0.01)
    written = threading.Event()

    class Best:
        def save(self, path):
            path.write_text("best")
            written.set()

    state = SimpleNamespace(best=Best)
    with report.Progress("", enabled=False, out=tmp_path / "r.json") as shown:
        shown(state)
        assert written.wait(60.0)
    assert (tmp_path / "r.json").read_text() == "best"
    state.best = lambda: 1 / 0  # what goes wrong there, and what stands where pipes do, ends nothing
    for out in (tmp_path / "r.json", tmp_path):
        shown = report.Progress("", enabled=False, out=out)
        shown(state)
        shown.write()
    assert (tmp_path / "r.json").read_text() == "best"


def test_a_path_goes_on_where_it_was():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 2)), rng.standard_normal(20)
    whole, rounds, seen = covopt.path(X, y, n_lams=4), [], []
    again = covopt.path(X, y, n_lams=4, start=whole, callback=rounds.append)
    assert [s.objective for s in again] == pytest.approx([s.objective for s in whole], rel=1e-6)
    assert len(rounds) < sum(len(s.history) for s in whole)
    covopt.path(X, y, n_lams=4, start=whole, callback=lambda state: seen.append(state.best and state.best()))
    kept = next(path for path in seen if path)
    assert [s.lam for s in kept] == [s.lam for s in whole]  # those of the start stand in what is written
