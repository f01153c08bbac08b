"""Cells on disk that go on where an earlier run ended, however it ended."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import covopt
from covopt.arrangement import files
from covopt.arrangement.files import write_cells
from covopt.cli import app
from covopt.errors import InputError


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(files, "BLOCK_BYTES", 800)


def table(n=14, d=4):
    return np.random.default_rng(0).standard_normal((n, d))


def stop_after(calls):
    """A report that interrupts."""
    seen = []

    def report(count):
        seen.append(count)
        if len(seen) == calls:
            raise KeyboardInterrupt

    return report


def test_cells_go_on_where_they_were_interrupted(small_blocks, tmp_path):
    X, path, file = table(), tmp_path / "c.npy", tmp_path / "c.npy.checkpoint"
    write_cells(X, tmp_path / "whole.npy")
    whole = np.load(tmp_path / "whole.npy")
    checkpoint = covopt.Checkpoint(file, every_s=0.0)
    for calls in (3, 1, 4):
        with pytest.raises(KeyboardInterrupt):
            write_cells(X, path, checkpoint=checkpoint, report=stop_after(calls))
        assert not path.exists()
    kept = json.loads(file.read_text())
    assert kept["parts"] == 8
    with (tmp_path / "c.npy.part").open("ab") as stream:
        stream.write(b"what a killed run wrote behind its last checkpoint")
    told = []
    assert write_cells(X, path, checkpoint=checkpoint, report=told.append) == len(whole)
    assert told[0] > kept["cells"] > 0  # the first parts were not made again
    assert np.array_equal(np.load(path), whole)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["c.npy", "whole.npy"]


def test_what_cannot_be_gone_on_with_is_said(small_blocks, tmp_path):
    X, path, file = table(), tmp_path / "c.npy", tmp_path / "c.npy.checkpoint"
    checkpoint = covopt.Checkpoint(file, every_s=0.0)
    with pytest.raises(KeyboardInterrupt):
        write_cells(X, path, checkpoint=checkpoint, report=stop_after(2))
    kept = file.read_text()
    with pytest.raises(InputError, match="of another table or bias"):
        write_cells(X, path, bias=1.0, checkpoint=checkpoint)
    for damage, said in (
        ({"version": 9}, "no checkpoint of cells that this covopt reads"),
        ({"parts": -1}, "is damaged"),
        ({"offset": 10**9}, "has not what .* says it has"),
    ):
        file.write_text(json.dumps({**json.loads(kept), **damage}))
        with pytest.raises(InputError, match=said):
            write_cells(X, path, checkpoint=checkpoint)
    with pytest.raises(InputError, match=r"only .npy files can be gone on with; received c.parquet"):
        write_cells(X, tmp_path / "c.parquet", checkpoint=checkpoint)
    result = CliRunner().invoke(app, ["cells", "t.csv", "--out", "c.parquet", "--resume"])
    assert "--resume goes on with cells in an .npy file" in result.output


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on(tmp_path):
    X = table(40, 6)
    np.savetxt(tmp_path / "t.csv", X, delimiter=",", header="a,b,c,d,e,f", comments="")
    command = [
        sys.executable,
        "-m",
        "covopt",
        "cells",
        "t.csv",
        "--out",
        "c.npy",
        "--checkpoint-every",
        "0",
        "-q",
    ]
    for seconds in np.random.default_rng(1).uniform(0.05, 0.6, 8):
        run = subprocess.Popen([*command, "--resume"], cwd=tmp_path, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while not (tmp_path / "c.npy.part").exists() and run.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(seconds)
        run.kill()
        run.wait()
    subprocess.run([*command, "--resume"], cwd=tmp_path, check=True, stderr=subprocess.DEVNULL)
    whole = covopt.enumerate_cells(X, bias=1.0)
    found = np.load(tmp_path / "c.npy")
    assert len(found) == len(whole)
    assert {*map(bytes, found)} == {*map(bytes, whole.packed)}
