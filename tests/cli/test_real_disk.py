"""A disk of its own that becomes read-only, or full, in the middle of a command: no error is made up here."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import covopt
from covopt.arrangement import files
from covopt.cli import app

pytestmark = pytest.mark.slow
MATRIX = "2,1,1,0\n1,2,1,0\n1,1,3,1\n0,0,1,2\n"
COMMANDS = {
    "solve": ("solve", "t.csv", "--target", "y", "--out", "o.json"),
    "fit": ("fit", "t.csv", "--target", "y", "--lam", "0.01max", "--out", "o.json"),
    "path": ("path", "t.csv", "--target", "y", "--n-lams", "4", "--out", "o.json"),
    "prove": ("prove", "s.json", "--out", "o.json"),
    "cp-rank": ("cp-rank", "m.csv", "--out", "o.json"),
    "cells": ("cells", "w.csv", "--out", "o.npy"),
    "train": ("train", "t.csv", "--target", "y", "--widths", "4", "--seeds", "2", "--steps", "300",
              "--checkpoint", "c", "--out", "o.csv"),
}  # fmt: skip
CHECKPOINT = {"cells": "o.npy.checkpoint", "train": "c"}


def _shell(*words):
    return subprocess.run(words, capture_output=True, text=True, check=False)


class Disk:
    """An ext4 disk in a file."""

    def __init__(self, image, place):
        self.image, self.place = image, place

    def mount(self):
        return _shell("mount", "-o", "loop", str(self.image), str(self.place)).returncode == 0

    def unmount(self):
        _shell("umount", str(self.place))

    def forbid(self):
        """What the kernel does where a disk fails: read-only from now on, for files that are open too."""
        assert _shell("mount", "-o", "remount,abort", str(self.place)).returncode == 0

    def fill(self):
        filler = self.place / "filler"
        with filler.open("wb", buffering=0) as stream:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while True:
                        stream.write(b"\0" * size)
                except OSError:
                    pass

    def empty(self):
        (self.place / "filler").unlink(missing_ok=True)


@pytest.fixture
def disk(tmp_path):
    if os.name != "posix" or os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        pytest.skip("only root may mount a disk")
    image, place = tmp_path / "image", tmp_path / "disk"
    place.mkdir()
    with image.open("wb") as stream:
        stream.truncate(16 << 20)
    made = _shell("mkfs.ext4", "-q", "-O", "^has_journal", "-m", "0", str(image))
    found = Disk(image, place)
    if made.returncode or not found.mount():
        pytest.skip("no disk may be mounted here")
    try:
        yield found
    finally:
        found.unmount()


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    place = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(2)
    X = rng.standard_normal((14, 2))
    y = rng.standard_normal(14)
    np.savetxt(place / "t.csv", np.column_stack([X, y]), delimiter=",", header="a,b,y", comments="")
    np.savetxt(place / "w.csv", rng.standard_normal((30, 3)), delimiter=",", header="a,b,c", comments="")
    (place / "m.csv").write_text(MATRIX)
    covopt.min_norm(X, y).save(place / "s.json")
    return place


def _at_the(number, happens, place, monkeypatch):
    """Let something happen when a file on the disk is about to be written for this time."""
    original, count = tempfile.mkstemp, [0]

    def mkstemp(*words, **options):
        if Path(options["dir"]) == place:
            count[0] += 1
            if count[0] == number:
                happens()
        return original(*words, **options)

    monkeypatch.setattr("covopt.files.atomic.tempfile.mkstemp", mkstemp)
    return count


@pytest.mark.parametrize("fault", ["read-only", "full"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_disk_that_fails_in_the_middle_loses_nothing(name, fault, tables, disk, monkeypatch):
    if name == "train":
        pytest.importorskip("torch")
    words = COMMANDS[name]
    out = disk.place / words[words.index("--out") + 1]
    for table in tables.iterdir():
        shutil.copy(table, disk.place)
    os.sync()  # a disk that fails forgets what has not reached it
    monkeypatch.chdir(disk.place)
    monkeypatch.setattr(files, "BLOCK_BYTES", 1024)
    count = _at_the(2, disk.forbid if fault == "read-only" else disk.fill, disk.place, monkeypatch)
    done = CliRunner().invoke(app, [*words, "--checkpoint-every", "0.001" if name == "train" else "0"])
    assert count[0] >= 2
    reason = "Read-only file system" if fault == "read-only" else "No space left on device"
    assert done.exit_code == 1, done.output
    found = re.search(
        rf"error: cannot write {re.escape(out.name)}: {reason}; it is in (\S+)\.\n", done.output
    )
    monkeypatch.chdir(tables)
    if name == "cells":
        assert re.search(
            rf"error: cannot write o\.npy: {reason}; o\.npy\.part keeps what is done", done.output
        )
    else:
        assert f"could not be written: {reason}" in done.output  # the checkpoint; the run went on
        assert found, done.output
        other = Path(found.group(1))
        if name == "train":
            assert len(other.read_text().splitlines()) == 3
        else:
            checked = ("s.json", "--proof", str(other)) if name == "prove" else (str(other),)
            assert CliRunner().invoke(app, ["verify", *checked]).exit_code == 0
        other.unlink()
        other.parent.rmdir()
    # the disk is well again, or emptied: what was kept before the fault is gone on from
    if fault == "read-only":
        disk.unmount()
        assert disk.mount()
    disk.empty()
    monkeypatch.chdir(disk.place)
    assert (disk.place / CHECKPOINT.get(name, "o.json.checkpoint")).exists()
    again = CliRunner().invoke(app, [*words, "--resume"])
    assert again.exit_code == 0, again.output
    assert out.exists()
    monkeypatch.chdir(tables)  # so that the disk can be unmounted
