"""What tests of the command line share: commands run in this process, and folders in which they are refused."""

import json
import os
import shlex
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import typer.main
from typer.testing import CliRunner

from covopt.cli import app

typer.main.get_group = cache(typer.main.get_group)  # of all commands, which each call would build again


def run(*arguments, **options):
    """Run a command."""
    return CliRunner().invoke(app, [str(a) for a in arguments], **options)


def said(*arguments, code=0):
    """Return what a command says in JSON."""
    done = run(*arguments, "--json")
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def refused(*arguments, code=1):
    """Return the one line of a command that fails."""
    done = run(*arguments)
    assert done.exit_code == code, (done.exit_code, done.output)
    assert isinstance(done.exception, SystemExit) and "Traceback" not in done.output
    lines = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
    assert code == 2 or len(lines) == 1
    return done.stderr


class Folder:
    """A folder with tables: called with a command that fails there, it raises its exit code and its line.

    The command has to leave the folder as it is, and to say the same in JSON.
    """

    def __init__(self, **texts):
        self.held = tempfile.TemporaryDirectory()
        self.path = Path(self.held.name)
        for name, text in {"t": "a,b,y\n1,2,3\n2,1,1\n4,0,2\n", **texts}.items():
            (self.path / f"{name}.csv").write_text(text)

    def write(self, name, arrays):
        """Write arrays, and return the folder."""
        np.savez(self.path / name, **arrays)
        return self

    def _files(self):
        return {file.name: file.stat().st_mtime_ns for file in self.path.iterdir()}

    def __call__(self, line):
        """Run a command that fails."""
        before, own = self._files(), Path.cwd()
        os.chdir(self.path)
        try:
            done, again = run(*shlex.split(line)), run(*shlex.split(line), "--json")
        finally:
            os.chdir(own)
        assert self._files() == before
        if done.exit_code == 0:
            return
        assert "Traceback" not in done.output and not done.stdout and isinstance(done.exception, SystemExit)
        assert done.exit_code == again.exit_code == json.loads(again.stdout)["exit_code"]
        assert json.loads(again.stdout)["error"].split(".")[0] in done.stderr
        assert done.exit_code == 2 or done.stderr.count("\n") == 1
        raise ValueError(f"{done.exit_code} {done.stderr}")
