"""What every long command says while it runs: nothing, lines for people, or an event a round for programs."""

import io
import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from covopt.cli import app
from covopt.cli.report import Progress
from covopt.solvers.loop import RoundState

TABLE = [[-1.0, 0.5, 1.0], [0.0, 2.0, 0.0], [1.0, -1.0, 1.0], [2.0, 0.0, -1.0], [0.5, 0.5, 0.3]]
TARGET = ("t.csv", "--target", "y")
# the command, and the events that it tells before its result
LONG = {
    "solve": (("solve", *TARGET), "round"),
    "frank-wolfe": (("solve", *TARGET, "--solver", "frank-wolfe:sliding"), "round"),
    "fit": (("fit", *TARGET, "--lam", "0.1"), "round"),
    "path": (("path", *TARGET, "--n-lams", "2"), "round"),
    "cells": (("cells", *TARGET), "part"),
    "cells to a file": (("cells", *TARGET, "--out", "c.npy"), "part"),
    "cp-rank": (("cp-rank", "m.csv"), "bound"),
    "depth": (("depth", *TARGET, "--depth", "3", "--time-limit", "0.2"), "bound"),
    "fit, three layers": (("fit", *TARGET, "--lam", "0.1", "--depth", "3", "--time-limit", "0.2"), "bound"),
    "train": (("train", *TARGET, "--widths", "4", "--steps", "20"), "steps"),
    "verify": (("verify", "s.json"), "check"),
    "verify --exact": (("verify", "s.json", "--exact"), "boxes"),
    "prove": (("prove", "s.json", "--out", "p.json"), "boxes"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("long")
    np.savetxt(place / "t.csv", TABLE, delimiter=",", header="a,b,y", comments="")
    np.savetxt(place / "m.csv", [[2, 1, 1], [1, 2, 1], [1, 1, 2]], delimiter=",")
    assert (
        CliRunner()
        .invoke(app, ["solve", str(place / "t.csv"), "--target", "y", "--out", str(place / "s.json")])
        .exit_code
        == 0
    )
    return place


@pytest.mark.parametrize("name", LONG)
def test_every_long_command_tells_its_rounds_and_its_result(name, folder, monkeypatch, tmp_path):
    words, kind = LONG[name]
    if words[0] == "train":
        pytest.importorskip("torch")
    monkeypatch.chdir(folder)
    log = tmp_path / "log.jsonl"
    done = CliRunner().invoke(app, ["--log-json", str(log), *words, "--json"])
    assert done.exit_code in (0, 3), done.output
    assert done.stderr == ""
    json.loads(done.stdout)
    events = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    rounds = [event for event in events if event["event"] == kind]
    assert rounds
    assert all(any(isinstance(value, int | float) for value in event.values()) for event in rounds)
    assert events[-1]["event"] == "result"
    assert (
        [event["event"] for event in events].count("result") == 1 or words[0] == "path" or "--depth" in words
    )
    times = [event["time"] for event in events]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("name", "round_", "result"),
    [
        ("cells", "part 0: 20 cells", "20 cells"),
        ("cp-rank", "lower 3 by rank: ", "CP-rank at least 3, at most 3 (exact)"),
        ("verify", "ok network: ", "Verification(ok, "),
    ],
)
def test_v_shows_results_and_vv_rounds(name, round_, result, folder, monkeypatch):
    monkeypatch.chdir(folder)
    words = [*LONG[name][0], "--json"]
    few, many = (CliRunner().invoke(app, [v, *words]).stderr.splitlines() for v in ("-v", "-vv"))
    assert [line.startswith(f"covopt {result}") for line in few] == [True]
    assert any(line.startswith(f"covopt {round_}") for line in many[:-1])
    assert many[-1].startswith(f"covopt {result}")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_on_a_terminal_only(monkeypatch):
    state = RoundState(3, 1.25, 1.5, 0.2, 17, 0.1)
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with Progress("reading the table", enabled=True) as progress:
            assert progress(state) is False
        assert ("1.25 ≤ minimum ≤ 1.5" in stream.getvalue()) is shown
        assert shown or not stream.getvalue()
