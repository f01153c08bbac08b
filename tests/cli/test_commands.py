"""Every command on one table: exit codes, what it prints, saves and keeps. What is refused is in ``messages.txt``."""

import json
import os
import shlex
import stat
import subprocess
import sys
import warnings
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

import covopt
from covopt.api.task import SOLVERS
from covopt.cli import app, options, report
from covopt.cli.options import save_table
from covopt.cli.running import COMMANDS
from covopt.datasets import make_random_plane
from covopt.errors import PrecisionWarning
from covopt.losses import LOSSES
from covopt.potentials import POTENTIALS
from tests.commands import refused, run, said

Y, AB = ("--target", "y"), ("--features", "a,b")
SOLVE = ("solve", "t.csv", *Y, *AB)


def test_solve_draws_saves_and_says(here):
    done = run(*SOLVE, "--out", "s.json", "--plot", "f.png", "--seed", 0)
    assert (done.exit_code, done.stderr) == (0, "")  # progress is for terminals
    assert "CERTIFIED" in done.stdout and sorted(os.listdir()) == ["f.png", "s.json", "t.csv"]
    saved = covopt.load("s.json")
    assert (saved.data.feature_names, saved.data.target_names) == (("a", "b"), ("y",)) and saved.gap <= 1e-6
    content = said("solve", "t.csv", *Y, "--bias", 0.5, "--output-bias", "free")
    assert content["certified"] is True and content["features"] == ["a", "b"]  # columns of text are left out
    assert content["gap"] <= 1e-6 and content["lower_bound"] <= content["cost"]
    assert (content["bias"], content["exit_code"], content["n_samples"]) == (0.5, 0, 12)
    done = run("solve", "t.csv", "--target", "y,b", "--out", "two.json")
    assert "2 outputs" in done.stdout and covopt.load("two.json").dual.shape == (12, 2)
    assert run("verify", "two.json", "--exact").exit_code == 0
    Path("d.csv").write_text("a,y\n1,2\n3,4\n1,2.5\n")
    done = run("solve", "d.csv", *Y, "--duplicates", "mean", "--out", "d.json")
    assert "1 of 3 rows were merged" in done.stdout and "at line 2." in done.stdout
    assert covopt.load("d.json").data.Y.ravel().tolist() == [2.25, 4]
    assert run("verify", "d.json", "d.csv").exit_code == 0


def test_what_is_stopped_is_kept(here, monkeypatch):
    content = said(*SOLVE, "--time-limit", 1e-9, "--out", "s.json", code=3)
    assert (content["status"], content["certified"]) == ("time_limit", False)
    assert covopt.load("s.json").status is covopt.Status.TIME_LIMIT
    assert run("verify", "s.json").exit_code == 0  # what it claims holds

    def interrupt(*_, **__):
        raise KeyboardInterrupt

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
    def full(*_):
        raise OSError(28, "No space left on device", "f.png")

    with monkeypatch.context() as patched:
        patched.setattr("covopt.api.min_norm", lambda *_, **__: pytest.fail("computed"))
        patched.setattr(
            "tempfile.TemporaryFile",
            lambda **_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")),
        )
        assert "Permission denied" in refused(*SOLVE, "--out", "s.json")
    monkeypatch.setattr("covopt.plotting.solution.save_figure", full)
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


def test_verify_says_the_problem_and_what_does_not_hold(here, solved):
    assert "stated problem: loss interpolation, bias 1, output bias none" in run("verify", solved).stdout
    assert run("verify", solved, "--expect", "loss=interpolation", "--expect", "bias=1").exit_code == 0
    done = run("verify", solved, "--expect", "lam=0.1", "--expect", "bias=1")
    assert done.exit_code == 4 and "FAILED expected lam: stated None, expected '0.1'" in done.stdout
    content = json.loads(solved.read_text())
    content["dual"][0] *= 1.01
    Path("forged.json").write_text(json.dumps(content))
    assert said("verify", "forged.json", code=4)["ok"] is False
    assert "FAILED" in run("verify", "forged.json").stdout
    here.loc[3, "y"] += 0.5
    here.to_csv("other.csv", index=False)
    assert run("verify", solved, "other.csv").exit_code == 4


@pytest.mark.parametrize("suffix", ["csv", "tex", "parquet"])
def test_checks_as_a_table(here, solved, suffix, monkeypatch):
    assert run("verify", solved, "--table", f"v.{suffix}").exit_code == 0
    if suffix == "tex":
        assert "\\begin{tabular}" in Path("v.tex").read_text()
        save_table(pd.DataFrame({"gap": [1.25e-13]}), Path("gap.tex"))
        assert "1.25e-13" in Path("gap.tex").read_text()  # six decimals would say zero
        monkeypatch.setattr(
            pd.DataFrame, "to_latex", lambda *_, **__: (_ for _ in ()).throw(ImportError("Jinja2"))
        )
        assert "LaTeX tables need Jinja2" in refused("verify", solved, "--table", "w.tex")
    else:
        found = (pd.read_csv if suffix == "csv" else pd.read_parquet)(f"v.{suffix}")
        assert found["ok"].all() and list(found.columns) == ["check", "ok", "detail"]


def test_cells(here):
    cells = ("cells", "t.csv", *AB)
    content = said(*cells, "--out", "p.npz")
    assert (content["n_cells"], content["rank"]) == (2 * (1 + 11 + 55), 3)
    with np.load("p.npz") as saved:
        patterns = np.unpackbits(saved["packed"], axis=1, count=int(saved["n_samples"]))
    assert len(np.unique(patterns, axis=0)) == content["n_cells"] == said(*cells, "--count-only")["n_cells"]
    lines = run(*cells).stdout.splitlines()
    for name in ("n cells", "rank", "exact", "largest zero", "smallest nonzero"):
        assert next(line for line in lines if line.startswith(name)).endswith(")")  # in words
    by_target = said("cells", "t.csv", *Y)
    assert (by_target["features"], by_target["n_cells"]) == (["a", "b"], content["n_cells"])
    streamed = said(*cells, "--memory-limit", "1e-7", "--out", "cells.npy")
    assert streamed["n_cells"] == content["n_cells"] == len(np.load("cells.npy"))


def test_warnings_are_one_line(here, monkeypatch):
    real = covopt.min_norm

    def warning(*arguments, **given):
        warnings.warn("close to rounding", PrecisionWarning, stacklevel=2)
        return real(*arguments, **given)

    monkeypatch.setattr("covopt.api.min_norm", warning)
    assert run(*SOLVE).stderr == "warning: close to rounding\n"
    assert said(*SOLVE)["warnings"] == ["close to rounding"]


def test_choices_are_those_of_python():
    assert set(get_args(options.Solver)) == set(SOLVERS)
    assert options.losses_there_are() == list(LOSSES)
    assert set(get_args(options.Potential)) == set(POTENTIALS)
    value = {"a": np.float64("nan"), 1: (np.int64(2), Path("p"), True), "c": np.array([1.0, np.inf])}
    assert report.plain(value) == {"a": None, "1": [2, "p", True], "c": [1.0, None]}


def test_the_demo(here, monkeypatch):
    X, y = make_random_plane(10)
    names = (("bmi", "s5"), ("progression",))
    monkeypatch.setattr("covopt.datasets.load_diabetes_table", lambda: (X, y[:, None], *names))
    done = run("demo")
    assert done.exit_code == 0 and "10 distinct rows" in done.stdout and "CERTIFIED" in done.stdout
    assert sorted(os.listdir()) == ["covopt-demo.json", "covopt-demo.png", "t.csv"]


def test_the_installed_command(here):
    def console(*words):
        return subprocess.run(words, capture_output=True, text=True, check=False)

    done = console(sys.executable, "-m", "covopt", "-vv", *SOLVE, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["certified"] is True
    assert "covopt round 0" in done.stderr and "covopt Solution(certified" in done.stderr
    code = (
        "import sys; from typer.testing import CliRunner; from covopt.cli import app, main; "
        "r = CliRunner().invoke(app, ['solve', '--help']); assert r.exit_code == 0, r.output; "
        "heavy = {'numpy', 'scipy', 'pandas', 'matplotlib', 'numba', 'cvxpy', 'torch'}; "
        "print(heavy & set(sys.modules)); sys.argv = ['covopt', 'solve', 'none.csv', '--target', 'y']; main()"
    )
    done = console(sys.executable, "-c", code)
    assert (done.returncode, done.stdout) == (1, "set()\n") and done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert "Exit codes" in run("--help").stdout and run("-h").exit_code == 0
    assert covopt.__version__ in run("--version").stdout


def test_every_command_has_a_line_and_an_example_that_parses():
    group = typer.main.get_command(app)
    with group.make_context("covopt", ["demo"]) as context:
        assert group.list_commands(context) == list(COMMANDS)
        for name, (short, example) in COMMANDS.items():
            assert len(short) <= 66  # else a terminal of 80 columns cuts it short
            program, called, *arguments = shlex.split(example)
            assert (program, called) == ("covopt", name)
            group.get_command(context, name).make_context(name, arguments, parent=context)
            if name != "bench":  # its help is that of benchopt
                text = run(name, "--help").stdout
                assert example in text


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("so", "solve"),
        ("solve --tar", "--target"),
        ("fit --loss log", "logistic"),
        ("solve --solver re", "relaxation"),
    ],
)
def test_completion(line, offered):
    asked = {
        "COMP_WORDS": f"covopt {line}",
        "COMP_CWORD": str(len(line.split())),
        "_COVOPT_COMPLETE": "complete_bash",
    }
    assert CliRunner().invoke(app, [], env=asked, prog_name="covopt").stdout.split() == [offered]


def test_the_log_is_appended_to(here):
    content = said("--log-json", "log.jsonl", *SOLVE)
    lines = [json.loads(line) for line in Path("log.jsonl").read_text("utf-8").splitlines()]
    assert [line["round"] for line in lines if line["event"] == "round"] == list(range(content["rounds"]))
    assert (lines[-1]["event"], lines[-1]["lower_bound"]) == ("result", content["lower_bound"])
    assert sum(content["timings"].values()) >= 0.99 * content["time_s"]
    run("--log-json", "log.jsonl", *SOLVE)
    assert len(Path("log.jsonl").read_text("utf-8").splitlines()) == 2 * len(lines)  # by one handler alone
    assert "choose another file" in refused("--log-json", "none/log.jsonl", *SOLVE)


def test_resume(here):
    table = (here[["a", "b"]], here["y"])
    ignored = run(*SOLVE, "--out", "r.json", "--resume")
    assert ignored.exit_code == 0 and "there is no r.json" in ignored.stderr
    covopt.min_norm(*table, callback=lambda state: state.round == 3).save("r.json")
    done = run(*SOLVE, "--out", "r.json", "--resume", "--json")
    assert done.exit_code == 0 and covopt.load("r.json").status.code == "certified"
    covopt.path(*table, n_lams=3).save("r.json")
    assert (
        "start must be a Solution; received SolutionPath" in run(*SOLVE, "--out", "r.json", "--resume").stderr
    )
