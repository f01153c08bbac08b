"""A full disk, a folder that becomes read-only: a sentence, and nothing is lost."""

import errno
import json
import os
import re
import resource
import tempfile
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import covopt
from covopt.arrangement import files
from tests.commands import run

MATRIX = "2,1,1,0\n1,2,1,0\n1,1,3,1\n0,0,1,2\n"
COMMANDS = {
    "solve": ("solve", "t.csv", "--target", "y", "--out", "o.json"),
    "fit": ("fit", "t.csv", "--target", "y", "--lam", "0.01max", "--out", "o.json"),
    "path": ("path", "t.csv", "--target", "y", "--n-lams", "4", "--out", "o.json"),
    "prove": ("prove", "s.json", "--out", "o.json"),
    "cp-rank": ("cp-rank", "m.csv", "--out", "o.json"),
    "train": ("train", "t.csv", "--target", "y", "--widths", "4", "--seeds", "2", "--steps", "300",
              "--out", "o.csv"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder with tables and a solution."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    X, y, W = rng.standard_normal((14, 2)), rng.standard_normal(14), rng.standard_normal((20, 3))
    np.savetxt("t.csv", np.column_stack([X, y]), delimiter=",", header="a,b,y", comments="")
    np.savetxt("w.csv", W, delimiter=",", header="a,b,c", comments="")
    Path("m.csv").write_text(MATRIX)
    covopt.min_norm(X, y).save("s.json")
    return tmp_path


@pytest.mark.parametrize(("name", "fault"), list(zip(COMMANDS, 3 * [errno.EROFS, errno.ENOSPC], strict=True)))
def test_a_disk_that_fails_loses_nothing(name, fault, place, monkeypatch):
    if name == "train":
        pytest.importorskip("torch")
    words, original, before = COMMANDS[name], tempfile.mkstemp, sorted(os.listdir())
    out, reason = Path(words[words.index("--out") + 1]), os.strerror(fault)

    def mkstemp(*given, **options):
        if Path(options["dir"]).resolve() == place:
            raise OSError(fault, reason)
        return original(*given, **options)

    with monkeypatch.context() as patched:
        patched.setattr("covopt.files.formats.tempfile.mkstemp", mkstemp)
        done = run(*words)
    assert done.exit_code == 1, done.output
    found = re.search(
        rf"error: cannot write {re.escape(str(out))}: {reason}; it is in (\S+)\.\n", done.output
    )
    other = Path(found.group(1))
    if name == "train":
        assert len(other.read_text().splitlines()) == 3
    else:
        assert run("verify", *(("s.json", "--proof", other) if name == "prove" else (other,))).exit_code == 0
    other.unlink()
    other.parent.rmdir()
    assert set(os.listdir()) == {*before}  # no lock, no half of a file


def test_where_nothing_can_be_written_that_is_said(monkeypatch):
    full = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr("covopt.files.formats.os.replace", full)
    message = json.loads(run(*COMMANDS["cp-rank"], "--json").stdout)["error"]
    assert message.endswith(
        "No space left on device; nor can anything be written elsewhere; what was kept is left."
    )


def test_cells_on_a_disk_that_is_full(monkeypatch):
    monkeypatch.setattr(files, "BLOCK_BYTES", 64)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, before[1]))
    try:
        full = [run("cells", "w.csv", "--out", name) for name in ("c.npy", "c.parquet")]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    for name, done in zip(("c.npy", "c.parquet"), full, strict=True):
        assert done.exit_code == 1
        assert f"cannot write {name}: File too large; nothing is left of it" in done.output
