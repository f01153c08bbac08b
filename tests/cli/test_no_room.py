"""A full disk, a folder that becomes read-only, two runs on one file: a sentence, and nothing is lost."""

import errno
import json
import os
import re
import resource
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from typer.testing import CliRunner

import covopt
from covopt.arrangement import files
from covopt.cli import app

MATRIX = "2,1,1\n1,2,1\n1,1,2\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(2)
    X = rng.standard_normal((9, 2))
    table = np.column_stack([X, np.abs(X).sum(axis=1)])
    np.savetxt(place / "t.csv", table, delimiter=",", header="a,b,y", comments="")
    (place / "m.csv").write_text(MATRIX)
    covopt.min_norm(X, table[:, 2]).save(place / "s.json")
    return place


COMMANDS = {
    "solve": ("solve", "t.csv", "--target", "y", "--out", "o.json"),
    "fit": ("fit", "t.csv", "--target", "y", "--lam", "0.1max", "--out", "o.json"),
    "path": ("path", "t.csv", "--target", "y", "--n-lams", "2", "--out", "o.json"),
    "prove": ("prove", "s.json", "--out", "o.json"),
    "cp-rank": ("cp-rank", "m.csv", "--out", "o.json"),
    "cells": ("cells", "t.csv", "--target", "y", "--out", "o.npz"),
}


def run(place, words, *more):
    words = [str(place / word) if re.search(r"\.(csv|json|npz|npy)$", word) else word for word in words]
    return CliRunner().invoke(app, [*words, *more])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_folder_that_becomes_read_only_loses_no_result(name, folder, monkeypatch):
    replace = os.replace

    def read_only(source, target):
        if Path(target).parent == folder:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        replace(source, target)

    before = sorted(os.listdir(folder))
    monkeypatch.setattr("covopt.files.atomic.os.replace", read_only)
    done = run(folder, COMMANDS[name])
    assert done.exit_code == 1
    found = re.search(r"error: cannot write .*o\.\w+: Read-only file system; it is in (\S+)\.\n", done.output)
    assert found, done.output
    other = Path(found.group(1))
    try:
        if name == "cells":
            assert len(np.load(other)["packed"]) > 10
        else:
            monkeypatch.undo()
            checked = ["verify", str(other)]
            if name == "prove":
                checked = ["verify", str(folder / "s.json"), "--proof", str(other)]
            assert CliRunner().invoke(app, checked).exit_code == 0
    finally:
        other.unlink()
        other.parent.rmdir()
    assert sorted(os.listdir(folder)) == before  # no lock, no half of a file


def test_where_nothing_can_be_written_that_is_said(folder, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("covopt.files.atomic.os.replace", full)
    done = run(folder, COMMANDS["cp-rank"], "--json")
    assert done.exit_code == 1
    said = json.loads(done.stdout)["error"]
    assert said.endswith(
        "No space left on device; nor can anything be written elsewhere; what was kept is left."
    )


@pytest.mark.parametrize("name", ["solve", "fit", "path", "prove", "cp-rank"])
def test_two_runs_on_one_file(name, folder):
    words = COMMANDS[name]
    with FileLock(str(folder / "o.json.checkpoint.lock")):
        done = run(folder, words)
    assert done.exit_code == 1
    assert "another process writes the checkpoint" in done.output


def test_cells_on_a_disk_that_is_full_are_gone_on_with(folder, monkeypatch):
    monkeypatch.setattr(files, "BLOCK_BYTES", 64)
    X = np.random.default_rng(3).standard_normal((20, 3))
    np.savetxt(folder / "w.csv", X, delimiter=",", header="a,b,c", comments="")
    words = ("cells", "w.csv", "--out", "c.npy")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (4000, before[1])
    )  # the checkpoint has room, the cells have not
    try:
        full = run(folder, words)
        parquet = run(folder, (*words[:-1], "c.parquet"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert full.exit_code == parquet.exit_code == 1
    assert re.search(r"cannot write .*c\.npy: File too large; .*c\.npy\.part keeps what is done", full.output)
    assert re.search(r"cannot write .*c\.parquet: File too large; nothing is left of it", parquet.output)
    state = json.loads((folder / "c.npy.checkpoint").read_text())
    assert 0 < state["offset"] <= (folder / "c.npy.part").stat().st_size <= 4000
    done = run(folder, words, "--resume")
    assert done.exit_code == 0
    assert len(np.load(folder / "c.npy")) == covopt.enumerate_cells(X, bias=1.0).n_cells
    assert not (folder / "c.npy.checkpoint").exists()


@pytest.mark.parametrize("words", [("verify", "s.json"), COMMANDS["prove"], COMMANDS["cp-rank"]])
def test_every_long_command_has_a_limit(words, folder):
    assert run(folder, words, "--memory-limit", "1", "--quiet").exit_code == 0
    refused = run(folder, words, "--memory-limit", "-1")
    assert refused.exit_code == 1
    assert "memory_limit must be a positive number of GiB" in refused.output
    (folder / "o.json").unlink(missing_ok=True)
