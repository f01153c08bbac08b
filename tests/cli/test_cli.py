import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import covopt
from covopt.checks.checkpoints import Checkpoint
from covopt.cli import app
from covopt.cli import report as cli_report
from covopt.datasets import make_random_plane

CONSOLE = [sys.executable, "-m", "covopt"]


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def console(*arguments):
    return subprocess.run(
        [*CONSOLE, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture
def table(tmp_path):
    X, y = make_random_plane(12)
    path = tmp_path / "table.csv"
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "name": "n", "y": y}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("solved")
    X, y = make_random_plane(12)
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_csv(folder / "table.csv", index=False)
    done = run("solve", folder / "table.csv", "--target", "y", "--out", folder / "s.json")
    assert done.exit_code == 0, done.output
    return folder


def files(folder):
    return sorted(p.name for p in folder.iterdir())


def refused(code, *arguments):
    done = run(*arguments)
    assert done.exit_code == code, (done.exit_code, done.output)
    assert "Traceback" not in done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.stderr


def test_solve_saves_and_draws(table, tmp_path):
    done = run("solve", table, "--target", "y", "--features", "a,b", "--out", tmp_path / "s.json",
               "--plot", tmp_path / "f.png", "--seed", 0)  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "CERTIFIED" in done.stdout
    assert done.stderr == ""  # progress is for terminals
    assert files(tmp_path) == ["f.png", "s.json", "table.csv"]
    saved = covopt.load(tmp_path / "s.json")
    assert saved.data.feature_names == ("a", "b")
    assert saved.data.target_names == ("y",)
    assert saved.gap <= 1e-6


def test_solve_json(table, tmp_path):
    done = run("solve", table, "--target", "y", "--json", "--out", tmp_path / "s.json", "--bias", 0.5,
               "--output-bias", "free")  # fmt: skip
    assert done.exit_code == 0
    content = json.loads(done.stdout)
    assert content["certified"] is True
    assert content["features"] == ["a", "b"]  # the column of text is left out
    assert content["gap"] <= 1e-6
    assert content["lower_bound"] <= content["cost"]
    assert (content["bias"], content["exit_code"], content["n_samples"]) == (0.5, 0, 12)


def test_several_targets(table, tmp_path):
    done = run("solve", table, "--target", "y,b", "--out", tmp_path / "s.json", "--plot", tmp_path / "f.png")
    assert done.exit_code == 0, done.output
    assert "2 outputs" in done.stdout
    saved = covopt.load(tmp_path / "s.json")
    assert saved.data.target_names == ("y", "b")
    assert saved.dual.shape == (12, 2)
    assert run("verify", tmp_path / "s.json", "--exact").exit_code == 0


@pytest.mark.parametrize("suffix", ["parquet", "npz"])
def test_other_formats_give_the_same_answer(solved, tmp_path, suffix):
    frame = pd.read_csv(solved / "table.csv")
    path = tmp_path / f"t.{suffix}"
    if suffix == "npz":
        np.savez(path, X=frame[["a", "b"]].to_numpy(), y=frame["y"].to_numpy())
    else:
        frame.to_parquet(path)
    content = json.loads(run("solve", path, "--target", "y", "--json").stdout)
    assert content["cost"] == pytest.approx(covopt.load(solved / "s.json").cost, rel=2e-6)


def test_stopped_before_the_tolerance(table, tmp_path):
    done = run("solve", table, "--target", "y", "--time-limit", 1e-9, "--out", tmp_path / "s.json", "--json")
    assert done.exit_code == 3
    content = json.loads(done.stdout)
    assert (content["status"], content["certified"]) == ("time_limit", False)
    assert covopt.load(tmp_path / "s.json").status is covopt.Status.TIME_LIMIT
    assert run("verify", tmp_path / "s.json").exit_code == 0  # what it claims holds


def test_interrupted_solve_keeps_the_bracket(table, tmp_path, monkeypatch):
    def interrupt(self, state):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_report.Progress, "__call__", interrupt)
    done = run("solve", table, "--target", "y", "--out", tmp_path / "s.json")
    assert done.exit_code == 3, done.output
    assert "INTERRUPTED" in done.stdout
    assert covopt.load(tmp_path / "s.json").status is covopt.Status.INTERRUPTED


def test_interrupted_before_anything_was_found(table, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("covopt.data.table_files.read_table", interrupt)
    message = refused(3, "solve", table, "--target", "y", "--out", tmp_path / "s.json")
    assert message == "error: interrupted before there was anything to save\n"
    assert files(tmp_path) == ["table.csv"]


BAD_TABLES = {
    "nan": ("a,b,y\n1,2,3\n4,,6\n", ["X line 3, column 'b' is NaN"]),
    "infinite": ("a,y\n1,2\n3,inf\n", ["Y line 3, column 'y' is infinity"]),
    "text": ("a,b,y\n1,2,3\n4,?,6\n", ["column 'b'", "line 3", "'?'", "--features"]),
    "decimal comma": ("a;y\n1,5;2\n2,5;3\n", ["line 2", "'1,5'", "read decimal commas with --decimal ,"]),
    "classes": ("a,y\n1,u\n4,v\n", ["column 'y' is not numeric: line 2", "covopt fit --loss logistic"]),
    "contradiction": (
        "a,y\n1,2\n3,4\n1,2.5\n",
        ["lines 2 and 4 are the same", "2 and 2.5, by 0.5", "--duplicates mean"],
    ),
    "constant": ("a,y\n1,2\n1,4\n", ["X is constant", "from 2 to 4", "--duplicates mean"]),
    "no rows": ("a,y\n", ["no rows"]),
    "no header": ("1,2\n3,4\n", ["first line must name the columns"]),
    "repeated": ("a,a,y\n1,2,3\n", ["more than one column called 'a'"]),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables(tmp_path, name):
    text, parts = BAD_TABLES[name]
    path = tmp_path / "t.csv"
    path.write_text(text)
    before = files(tmp_path)
    message = refused(
        1, "solve", path, "--target", "y", "--out", tmp_path / "s.json", "--plot", tmp_path / "f.png"
    )
    assert message.startswith("error: ")
    assert message.count("\n") == 1
    for part in parts:
        assert part in message
    assert files(tmp_path) == before
    done = run("solve", path, "--target", "y", "--json")
    assert parts[0] in json.loads(done.stdout)["error"]
    assert done.exit_code == 1


def test_rays_and_zero_rows_without_bias(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n1,2,1\n5,5,0\n2,4,3\n")
    message = refused(1, "solve", path, "--target", "y", "--bias", "0")
    for part in ("lines 2 and 4 lie on one ray", "c = 0.5", "should be 1.5", "received 1", "--bias 1"):
        assert part in message
    path.write_text("a,b,y\n0,0,1\n5,5,0\n")
    assert "line 2 is all zero" in refused(1, "solve", path, "--target", "y", "--bias", 0)


def test_duplicates_mean(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n1,2\n3,4\n1,2.5\n")
    done = run("solve", path, "--target", "y", "--duplicates", "mean", "--out", tmp_path / "s.json")
    assert done.exit_code == 0
    assert "1 of 3 rows were merged" in done.stdout
    assert covopt.load(tmp_path / "s.json").data.Y.ravel().tolist() == [2.25, 4]
    assert run("verify", tmp_path / "s.json", path).exit_code == 0


BAD_OPTIONS = {
    "tol zero": (["--tol", "0"], "tol must be a positive finite number below 1"),
    "tol nan": (["--tol", "nan"], "received nan"),
    "bias": (["--bias", "-1"], "bias must be a finite number"),
    "bias inf": (["--bias", "inf"], "received inf"),
    "time limit": (["--time-limit", "-3"], "time_limit_s must be a positive number of seconds"),
    "features": (["--features", "a,c"], "no column 'c'"),
    "target is feature": (["--features", "a,y"], "both a feature and the target"),
    "plot format": (["--plot", "figure.bmpp"], "figures are written as"),
    "out folder": (["--out", "missing/s.json"], "does not exist; create it first"),
    "out is folder": (["--out", "."], "it is a folder"),
    "same name": (["--out", "x.png", "--plot", "x.png"], "another output has the same name"),
    "input": (["--out", "table.csv"], "it is the input"),
}


BAD_CHOICES = {  # of a closed list: usage, as any option that is not there
    "--solver": "column_generation", "--output-bias": "penalised", "--duplicates": "drop", "--potential": "noise",
    "--decimal": ";",
}  # fmt: skip


@pytest.mark.parametrize("option", BAD_CHOICES)
def test_bad_choices(table, option):
    said = refused(2, "solve", table, "--target", "y", option, BAD_CHOICES[option])
    assert f"Invalid value for '{option}': '{BAD_CHOICES[option]}' is not one of " in said


def test_choices_are_those_of_python():
    from typing import get_args

    from covopt.api.task import SOLVERS
    from covopt.cli import options
    from covopt.losses import LOSSES
    from covopt.potentials import POTENTIALS

    assert set(get_args(options.Solver)) == set(SOLVERS)
    assert options.losses_there_are() == list(LOSSES)
    assert set(get_args(options.Potential)) == set(POTENTIALS)


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_options(table, monkeypatch, name):
    monkeypatch.chdir(table.parent)
    options, part = BAD_OPTIONS[name]
    before = files(table.parent)
    assert part in refused(1, "solve", "table.csv", "--target", "y", *options)
    assert files(table.parent) == before


def test_outputs_are_checked_before_solving(table, tmp_path, monkeypatch):
    def never(*_, **__):
        raise AssertionError("computed although the output cannot be written")

    monkeypatch.setattr("covopt.api.min_norm", never)
    refused(1, "solve", table, "--target", "y", "--out", tmp_path / "no" / "s.json")
    monkeypatch.setattr(
        "tempfile.TemporaryFile", lambda **_: (_ for _ in ()).throw(PermissionError(13, "Permission denied"))
    )
    message = refused(1, "solve", table, "--target", "y", "--out", tmp_path / "s.json")
    assert "Permission denied" in message


def test_a_failing_plot_does_not_lose_the_solution(table, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "f.png")

    monkeypatch.setattr("covopt.plotting.solution.save_figure", full)
    message = refused(
        1, "solve", table, "--target", "y", "--out", tmp_path / "s.json", "--plot", tmp_path / "f.png"
    )
    assert message == "error: f.png: No space left on device\n"
    assert covopt.load(tmp_path / "s.json").status is covopt.Status.CERTIFIED


def test_verification_failed(solved, tmp_path):
    content = json.loads((solved / "s.json").read_text())
    content["dual"][0] *= 1.01
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(content))
    done = run("verify", forged, "--json")
    assert done.exit_code == 4
    assert json.loads(done.stdout)["ok"] is False
    assert "FAILED" in run("verify", forged).stdout
    frame = pd.read_csv(solved / "table.csv")
    frame.loc[3, "y"] += 0.5
    frame.to_csv(tmp_path / "other.csv", index=False)
    assert run("verify", solved / "s.json", tmp_path / "other.csv").exit_code == 4


def test_verify_says_the_problem_and_compares_it_with_what_is_expected(solved):
    file = solved / "s.json"
    said = run("verify", file).stdout
    assert "stated problem: loss interpolation, bias 1, output bias none" in said
    assert run("verify", file, "--expect", "loss=interpolation", "--expect", "bias=1").exit_code == 0
    done = run("verify", file, "--expect", "lam=0.1", "--expect", "bias=1")
    assert done.exit_code == 4
    assert "FAILED expected lam: stated None, expected '0.1'" in done.stdout
    assert "NAME=VALUE" in refused(1, "verify", file, "--expect", "lam")
    assert "there is no 'colour'" in refused(1, "verify", file, "--expect", "colour=red")


def test_verify_bad_input(solved, tmp_path):
    assert "No such file" in refused(1, "verify", tmp_path / "none.json")
    (tmp_path / "text.json").write_text("hello")
    assert "not a JSON file" in refused(1, "verify", tmp_path / "text.json")
    (tmp_path / "list.json").write_text("[1]")
    assert "not a covopt file" in refused(1, "verify", tmp_path / "list.json")
    (tmp_path / "t.csv").write_text("a,y\n1,2\n")
    assert "no column 'b'" in refused(1, "verify", solved / "s.json", tmp_path / "t.csv")


def test_cells(solved, tmp_path):
    arguments = ["cells", solved / "table.csv", "--features", "a,b", "--bias", 1]
    content = json.loads(run(*arguments, "--out", tmp_path / "p.npz", "--json").stdout)
    assert content["n_cells"] == 2 * (1 + 11 + 55)
    assert content["rank"] == 3
    with np.load(tmp_path / "p.npz") as saved:
        patterns = np.unpackbits(saved["packed"], axis=1, count=int(saved["n_samples"]))
    assert len(np.unique(patterns, axis=0)) == content["n_cells"]
    assert json.loads(run(*arguments, "--count-only", "--json").stdout)["n_cells"] == content["n_cells"]
    said = run(*arguments).stdout.splitlines()
    for name in ("n cells", "rank", "exact", "largest zero", "smallest nonzero"):
        assert next(line for line in said if line.startswith(name)).endswith(")")  # in words
    by_target = json.loads(run("cells", solved / "table.csv", "--target", "y", "--bias", 1, "--json").stdout)
    assert (by_target["features"], by_target["n_cells"]) == (["a", "b"], content["n_cells"])
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,\n")
    assert "X line 3, column 'b' is NaN" in refused(1, "cells", tmp_path / "t.csv")


def test_warnings_are_one_line(table, monkeypatch):
    import warnings

    from covopt.errors import PrecisionWarning

    real = covopt.min_norm

    def warning(*arguments, **options):
        warnings.warn("close to rounding", PrecisionWarning, stacklevel=2)
        return real(*arguments, **options)

    monkeypatch.setattr("covopt.api.min_norm", warning)
    assert run("solve", table, "--target", "y").stderr == "warning: close to rounding\n"
    content = json.loads(run("solve", table, "--target", "y", "--json").stdout)
    assert content["warnings"] == ["close to rounding"]


def test_progress_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    with cli_report.Progress("first round", enabled=True) as progress:
        covopt.min_norm(*make_random_plane(8), callback=progress)
    assert "round" in shown.getvalue()
    assert "≤ minimum ≤" in shown.getvalue()
    assert "↑ ≤ minimum" in shown.getvalue() or "↓   gap" in shown.getvalue()  # which bound has moved
    silent = Terminal()
    monkeypatch.setattr(sys, "stderr", silent)
    with cli_report.Progress("first round", enabled=False) as progress:
        progress.say("more")
    assert silent.getvalue() == ""


def test_plain_json_values():
    value = {"a": np.float64("nan"), 1: (np.int64(2), Path("p"), True), "c": np.array([1.0, np.inf])}
    assert cli_report.plain(value) == {"a": None, "1": [2, "p", True], "c": [1.0, None]}


def test_demo_options(tmp_path, monkeypatch):
    X, y = make_random_plane(10)
    monkeypatch.setattr(
        "covopt.datasets.load_diabetes_table", lambda: (X, y[:, None], ("bmi", "s5"), ("progression",))
    )
    monkeypatch.chdir(tmp_path)
    done = run("demo")
    assert done.exit_code == 0, done.output
    assert "10 distinct rows" in done.stdout
    assert "CERTIFIED" in done.stdout
    assert files(tmp_path) == ["covopt-demo.json", "covopt-demo.png"]


def test_the_installed_command(solved, tmp_path):
    done = console("solve", solved / "table.csv", "--target", "y", "--json", "--out", tmp_path / "s.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["certified"] is True
    done = console("solve", tmp_path / "none.csv", "--target", "y")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert console("solve").returncode == 2


def test_help_is_light():
    code = (
        "import sys; from typer.testing import CliRunner; from covopt.cli import app; "
        "r = CliRunner().invoke(app, ['solve', '--help']); assert r.exit_code == 0, r.output; "
        "heavy = {'numpy', 'scipy', 'pandas', 'matplotlib', 'numba', 'cvxpy', 'torch'}; "
        "print(heavy & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    assert "Exit codes" in run("--help").stdout
    assert covopt.__version__ in run("--version").stdout


def test_help_names_the_checkpoint_that_is_written(table, tmp_path, monkeypatch):
    seen, begin = [], Checkpoint.__init__
    monkeypatch.setattr(
        Checkpoint,
        "__init__",
        lambda self, path, **options: (seen.append(path), begin(self, path, **options))[1],
    )
    for name, out in (("cells", tmp_path / "c.npy"), ("solve", tmp_path / "s.json")):
        assert run(name, table, "--target", "y", "--out", out).exit_code == 0
        assert [str(path) for path in seen] == [f"{out}.checkpoint"]
        assert "OUT.checkpoint" in run(name, "--help").stdout
        seen.clear()


def test_what_is_no_file_is_written_to_and_stays(table, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert run("solve", table, "--target", "y", "--quiet", "--out", pipe).exit_code == 0
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert json.loads(os.read(reader, 1 << 16))["status"] == "certified"
    os.close(reader)


def test_links_are_followed(table, tmp_path):
    target, link = tmp_path / "s.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    assert run("solve", table, "--target", "y", "--quiet", "--out", link).exit_code == 0
    assert link.is_symlink()
    assert covopt.load(target).status is covopt.Status.CERTIFIED


def test_ctrl_c_inside_an_import_is_an_interruption(table, monkeypatch):
    def stopped(*_, **__):
        raise ImportError("initialization failed") from KeyboardInterrupt()

    monkeypatch.setattr("covopt.api.min_norm", stopped)
    assert "interrupted before" in refused(3, "solve", table, "--target", "y")


@pytest.mark.parametrize(
    ("inputs", "targets", "options", "part"),
    [
        ((1e300, 2e300), (1, 2), [], "X or bias"),
        ((1, 2), (1e308, -1e308), [], "Y: the largest target"),
        ((1, 2), (5e-324, 1e-323), [], "Y: the largest target"),
        ((1, 2), (1, 2), ["--bias", "1e200"], "X or bias"),
        ((1, 2), (1, 2), ["--bias", "1e-200", "--output-bias", "penalized"], "the penalized output bias"),
    ],
)
def test_numbers_that_double_precision_has_no_room_for(tmp_path, inputs, targets, options, part):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in zip(inputs, targets, strict=True)))
    assert part in refused(1, "solve", path, "--target", "y", *options)
