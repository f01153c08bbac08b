"""What every long command says while it runs: nothing, lines for people, or an event a round for programs."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import covopt
from covopt.cli.report import Progress
from covopt.solvers.loop import RoundState
from tests.cases import cases
from tests.commands import run

TARGET = ("t.csv", "--target", "y")
# the command, and the events that it tells before its result
LONG = dict(cases("long commands, and what they tell", TARGET=TARGET))
SHOWN = {
    "solve": ("round 0: ", "Solution(certified, "),
    "cells": ("part 0: 20 cells", "20 cells"),
    "cp-rank": ("lower 3 by rank: ", "CP-rank at least 3, at most 3 (exact)"),
    "verify": ("ok network: ", "Verification(ok, "),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = [[-1.0, 0.5, 1.0], [0.0, 2.0, 0.0], [1.0, -1.0, 1.0], [2.0, 0.0, -1.0], [0.5, 0.5, 0.3]]
    np.savetxt("t.csv", table, delimiter=",", header="a,b,y", comments="")
    np.savetxt("m.csv", [[2, 1, 1], [1, 2, 1], [1, 1, 2]], delimiter=",")
    covopt.min_norm([row[:2] for row in table], [row[2] for row in table]).save("s.json")


@pytest.mark.parametrize("name", LONG)
def test_every_long_command_tells_its_rounds_and_its_result(name):
    words, kind = LONG[name]
    if words[0] == "train":
        pytest.importorskip("torch")
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
        with Progress("reading the table", enabled=enabled) as progress:
            progress.say("more")
            assert progress(state) is False
        shown = enabled and isinstance(stream, Terminal)
        assert ("1.25 <= minimum <= 1.5" in stream.getvalue()) is shown is bool(stream.getvalue())
