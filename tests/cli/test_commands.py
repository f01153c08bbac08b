"""What commands do where something goes wrong under them, and what all have in common.

What each of them does is in ``outcomes.txt``, what it refuses in ``messages.txt``.
"""

import dataclasses
import json
import os
import shlex
import stat
import sys
import warnings
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

import covopt
from covopt.cli import app, report
from covopt.cli.options import save_table
from covopt.cli.running import EXAMPLES
from covopt.datasets import make_random_plane
from covopt.errors import PrecisionWarning
from tests.cases import cases, outside
from tests.commands import refused, run, said

Y, AB = ("--target", "y"), ("--features", "a,b")
SOLVE = ("solve", "t.csv", *Y, *AB)


def test_what_is_stopped_is_kept(here, monkeypatch):
    interrupt = Mock(side_effect=KeyboardInterrupt)

    def importing(*_, **__):
        raise ImportError("initialization failed") from KeyboardInterrupt()

    with monkeypatch.context() as patched:
        patched.setattr(report.Progress, "__call__", interrupt)
        done = run(*SOLVE, "--out", "s.json")
        assert done.exit_code == 3 and "INTERRUPTED" in done.stdout
        assert covopt.load("s.json").status is covopt.Status.INTERRUPTED
    before = sorted(os.listdir())
    for place, fault in (
        ("covopt.data.table_files.read_table", interrupt),
        ("covopt.api.min_norm", importing),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(place, fault)
            message = refused(*SOLVE, "--out", "n.json", code=3)
        assert message == "error: interrupted before there was anything to save\n"
        assert sorted(os.listdir()) == before


def test_outputs_are_tried_before_anything_is_computed_and_a_picture_loses_no_solution(here, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("covopt.api.min_norm", lambda *_, **__: pytest.fail("computed"))
        denied = Mock(side_effect=PermissionError(13, "Permission denied"))
        patched.setattr("tempfile.TemporaryFile", denied)
        assert "Permission denied" in refused(*SOLVE, "--out", "s.json")
    full = Mock(side_effect=OSError(28, "No space left on device", "f.png"))
    monkeypatch.setattr("covopt.plotting.save_figure", full)
    message = refused(*SOLVE, "--out", "s.json", "--plot", "f.png")
    assert message == "error: f.png: No space left on device\n"
    assert covopt.load("s.json").status is covopt.Status.CERTIFIED


def test_pipes_stay_and_links_are_followed(here):
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert run(*SOLVE, "--quiet", "--out", "pipe").exit_code == 0
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)
    assert json.loads(os.read(reader, 1 << 16))["status"] == "certified"
    os.close(reader)
    Path("s.json").write_text("old")
    Path("link.json").symlink_to("s.json")
    assert run(*SOLVE, "--quiet", "--out", "link.json").exit_code == 0
    assert Path("link.json").is_symlink() and covopt.load("s.json").status is covopt.Status.CERTIFIED


def test_warnings_are_one_line(here, monkeypatch):
    real = covopt.min_norm

    def warning(*arguments, **given):
        warnings.warn("close to rounding", PrecisionWarning, stacklevel=2)
        return real(*arguments, **given)

    monkeypatch.setattr("covopt.api.min_norm", warning)
    assert run(*SOLVE).stderr == "warning: close to rounding\n"
    assert said(*SOLVE)["warnings"] == ["close to rounding"]


def test_the_demo(here, monkeypatch):
    X, y = make_random_plane(10)
    names = (("bmi", "s5"), ("progression",))
    monkeypatch.setattr("covopt.datasets.load_diabetes_table", lambda: (X, y[:, None], *names))
    done = run("demo")
    assert done.exit_code == 0 and "10 distinct rows" in done.stdout and "CERTIFIED" in done.stdout
    assert sorted(os.listdir()) == ["covopt-demo.json", "covopt-demo.png", "t.csv"]


def test_the_installed_command(here):
    done = outside(sys.executable, "-m", "covopt", "--version")
    assert (done.returncode, done.stdout) == (0, f"covopt {covopt.__version__}\n")
    code = (
        "import sys; from typer.testing import CliRunner; from covopt.cli import app, main; "
        "r = CliRunner().invoke(app, ['solve', '--help']); assert r.exit_code == 0, r.output; "
        "heavy = {'numpy', 'scipy', 'pandas', 'matplotlib', 'numba', 'cvxpy', 'torch'}; "
        "print(heavy & set(sys.modules)); sys.argv = ['covopt', 'solve', 'none.csv', '--target', 'y']; main()"
    )
    done = outside(sys.executable, "-c", code)
    assert (done.returncode, done.stdout) == (1, "set()\n") and done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert "Exit codes" in run("--help").stdout and run("-h").exit_code == 0


def test_every_command_has_a_line_and_an_example_that_parses():
    group = typer.main.get_command(app)
    with group.make_context("covopt", ["demo"]) as context:
        assert group.list_commands(context) == list(EXAMPLES)
        for name, example in EXAMPLES.items():
            short = group.get_command(context, name).get_short_help_str(66)
            assert not short.endswith("...")  # a terminal of 80 columns does not cut it short
            program, called, *arguments = shlex.split(example)
            assert (program, called) == ("covopt", name)
            group.get_command(context, name).make_context(name, arguments, parent=context)
            if name != "bench":  # its help is that of benchopt
                text = run(name, "--help").stdout
                assert example in text


@pytest.mark.parametrize(("line", "offered"), cases("beginnings of lines, and what completes them"))
def test_completion(line, offered):
    asked = {"COMP_WORDS": f"covopt {line}", "COMP_CWORD": str(len(line.split()))}
    asked["_COVOPT_COMPLETE"] = "complete_bash"
    assert CliRunner().invoke(app, [], env=asked, prog_name="covopt").stdout.split() == [offered]


def test_the_log_is_appended_to(here):
    content = said("--log-json", "log.jsonl", *SOLVE)
    lines = [json.loads(line) for line in Path("log.jsonl").read_text("utf-8").splitlines()]
    assert sum(content["timings"].values()) >= 0.99 * content["time_s"]
    run("--log-json", "log.jsonl", *SOLVE)
    assert len(Path("log.jsonl").read_text("utf-8").splitlines()) == 2 * len(lines)  # by one handler alone
    assert "choose another file" in refused("--log-json", "none/log.jsonl", *SOLVE)


def test_latex_says_small_numbers_and_what_it_needs(here, solved, monkeypatch):
    save_table(pd.DataFrame({"gap": [1.25e-13]}), Path("gap.tex"))
    assert "1.25e-13" in Path("gap.tex").read_text()  # six decimals would say zero
    monkeypatch.setattr(pd.DataFrame, "to_latex", Mock(side_effect=ImportError("Jinja2")))
    assert "LaTeX tables need Jinja2" in refused("verify", solved, "--table", "w.tex")


# ---------------------------------------------------------------------- networks that are trained
TRAIN = ("train", "t.csv", *Y, *AB, "--steps", 60, "--seeds", 2, "--widths")


def test_training_against_the_certificate(here, monkeypatch):
    import covopt.api.fitting
    from covopt.training.loop import Runner

    honest, solve = covopt.api.fit, covopt.api.min_norm  # the names are loaded before one of them is replaced

    def forged(*arguments, **given):
        solution = honest(*arguments, **given)
        certificate = dataclasses.replace(solution.certificate, lower_bound=5 * solution.lower_bound)
        return dataclasses.replace(solution, certificate=certificate)

    def stopped(*arguments, **given):
        return dataclasses.replace(solve(*arguments, **given), status=covopt.Status.INTERRUPTED)

    monkeypatch.setattr(covopt.api.fitting, "fit", forged)
    arguments = (*TRAIN, 16, "--lam", 0.05, "--cross-check", "--out", "runs.csv")
    assert "is below the certificate" in refused(*arguments, code=4)
    assert Path("runs-contradiction.json").exists()
    assert said(*arguments, code=4)["contradiction_file"].endswith("runs-contradiction.json")
    monkeypatch.setattr(covopt.api, "min_norm", stopped)
    monkeypatch.setattr(Runner, "run", None)
    assert "interrupted before there was anything" in refused(*TRAIN, 4, "--cross-check", code=3)


def test_training_that_is_interrupted_saves_what_there_is(here, monkeypatch):
    import _thread
    import time

    from covopt.training.loop import Runner

    advance, pressed = Runner.advance, []

    def interrupted(self, *arguments):
        if not pressed:
            pressed.append(True)
            time.sleep(0.3)  # the main thread waits by now
            _thread.interrupt_main()  # as Ctrl-C does
            time.sleep(0.3)
        return advance(self, *arguments)

    monkeypatch.setattr(Runner, "advance", interrupted)
    done = run(*TRAIN, 4, "--out", "runs.csv")
    assert done.exit_code == 3 and "stopped before the end of the schedule" in done.output
    assert len(pd.read_csv("runs.csv")) == 2
