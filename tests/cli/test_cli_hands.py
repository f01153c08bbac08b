"""Predicting, tables that commands write, extensions, usage errors as JSON."""

import json
import os
import shlex

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

import covopt
from covopt.cli import app
from covopt.cli.examples import COMMANDS
from covopt.cli.tables import save_table
from covopt.datasets import make_random_plane
from covopt.solution.hints import quality
from covopt.solution.prediction import predict_columns


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("hands")
    X, y = make_random_plane(12)
    kinds = np.array(["low", "mid", "high"])[np.digitize(y, np.quantile(y, [0.4, 0.7]))]
    frame = pd.DataFrame(
        {"a": X[:, 0], "b": X[:, 1], "y": y, "kind": kinds, "sign": np.where(y > 0, "up", "down")}
    )
    frame.to_csv(place / "t.csv", index=False)
    frame[["kind", "b", "a"]].iloc[:5].to_csv(place / "new.csv", index=False)
    return place


def test_predict(folder):
    assert (
        run(
            "solve", folder / "t.csv", "--target", "y", "--features", "a,b", "--out", folder / "s.json"
        ).exit_code
        == 0
    )
    done = run("predict", folder / "s.json", folder / "t.csv")
    assert done.exit_code == 0
    truth = pd.read_csv(folder / "t.csv")["y"]
    shown = done.stdout.splitlines()
    assert shown[0] == "y"
    np.testing.assert_allclose([float(v) for v in shown[1:]], truth, atol=1e-9)
    content = json.loads(run("predict", folder / "s.json", folder / "new.csv", "--json").stdout)
    np.testing.assert_allclose(content["predictions"]["y"], truth[:5], atol=1e-9)
    done = run("predict", folder / "s.json", folder / "new.csv", "--out", folder / "p.parquet")
    assert done.stdout.split() == ["saved", str(folder / "p.parquet")]
    np.testing.assert_allclose(pd.read_parquet(folder / "p.parquet")["y"], truth[:5], atol=1e-9)
    assert "no column 'b'" in run("predict", folder / "s.json", make(folder, "a\n1\n")).stderr
    assert (
        "X line 2, column 'b' is NaN" in run("predict", folder / "s.json", make(folder, "a,b\n1,\n")).stderr
    )


def make(folder, text):
    path = folder / "made.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("target", "loss"), [("sign", "logistic"), ("kind", "softmax-cross-entropy"), ("sign", "hinge")]
)
def test_predict_classes(folder, target, loss):
    options = ["--target", target, "--features", "a,b", "--lam", 1e-4, "--loss", loss]
    done = run("fit", folder / "t.csv", *options, "--out", folder / "c.json")
    assert done.exit_code == 0, done.output
    assert "accuracy       1.0000  (on the points it was fitted to)" in done.stdout
    content = json.loads(run("predict", folder / "c.json", folder / "t.csv", "--json").stdout)["predictions"]
    truth = pd.read_csv(folder / "t.csv")[target].tolist()
    assert content[target] == truth
    if loss == "hinge":
        assert list(content) == [target]
        return
    chances = np.array([content[f"P({name})"] for name in sorted(set(truth))])
    np.testing.assert_allclose(chances.sum(axis=0), 1.0)
    assert [sorted(set(truth))[i] for i in chances.argmax(axis=0)] == truth


def test_fit_says_how_well_and_where_on_the_path(folder):
    options = ["--target", "y", "--features", "a,b"]
    content = json.loads(run("fit", folder / "t.csv", *options, "--lam", 0.01, "--json").stdout)
    frame = pd.read_csv(folder / "t.csv")
    fitted = covopt.fit(frame[["a", "b"]], frame["y"], lam=0.01)
    top = covopt.lambda_max(frame[["a", "b"]], frame["y"])
    left = frame["y"] - fitted.network.predict(frame[["a", "b"]])
    assert content["r2"] == pytest.approx(
        1 - (left**2).sum() / ((frame["y"] - frame["y"].mean()) ** 2).sum(), abs=1e-6
    )
    assert content["lam_over_lambda_max"] == pytest.approx(0.01 / top)
    stopped = run("fit", folder / "t.csv", *options, "--lam", 0.01, "--time-limit", 1e-9)
    assert "λ / λ_max      λ_max was not computed" in stopped.stdout


def test_a_point_of_a_path_predicts(folder):
    options = ["--target", "y", "--features", "a,b", "--n-lams", 3]
    done = run("path", folder / "t.csv", *options, "--out", folder / "p.json", "--table", folder / "p.csv")
    assert done.exit_code == 0, done.output
    points = covopt.load(folder / "p.json")
    table = pd.read_csv(folder / "p.csv").drop(
        columns=["held_out_loss", "held_out_r2"]
    )  # no file keeps these
    pd.testing.assert_frame_equal(table, points.to_frame(), check_exact=False)
    assert "is a path of 3 solutions" in run("predict", folder / "p.json", folder / "t.csv").stderr
    found = json.loads(
        run("predict", folder / "p.json", folder / "t.csv", "--lam", 1.1 * points[1].lam, "--json").stdout
    )
    assert found["lam"] == points[1].lam
    assert (
        "--lam must be a positive" in run("predict", folder / "p.json", folder / "t.csv", "--lam", 0).stderr
    )


def test_what_cannot_predict(folder):
    certificate = covopt.cp_rank([[1]])
    certificate.save(folder / "cp.json")
    assert (
        "holds a CPRankCertificate, no solution that could predict"
        in run("predict", folder / "cp.json", folder / "t.csv").stderr
    )
    covopt.min_norm([[0.0], [1.0]], [0.0, 1.0]).save(folder / "one.json")
    assert (
        "--lam chooses a point of a path"
        in run("predict", folder / "one.json", folder / "t.csv", "--lam", 1).stderr
    )


def test_numbers_without_a_variance():
    name, value = quality(covopt.min_norm([[1.0]], [2.0]))
    assert name == "R²"
    assert np.isnan(value)
    two = covopt.min_norm([[0.0], [1.0]], [[0.0, 1.0], [1.0, 0.0]])
    assert list(predict_columns(two, [[0.5]])) == ["y0", "y1"]


# ---------------------------------------------------------------------- what commands write
@pytest.mark.parametrize("suffix", ["csv", "tex", "parquet"])
def test_checks_as_a_table(folder, suffix):
    covopt.min_norm([[0.0], [1.0]], [0.0, 1.0]).save(folder / "v.json")
    assert run("verify", folder / "v.json", "--table", folder / f"v.{suffix}").exit_code == 0
    if suffix == "tex":
        assert "\\begin{tabular}" in (folder / "v.tex").read_text()
        save_table(pd.DataFrame({"gap": [1.25e-13]}), folder / "gap.tex")
        assert "1.25e-13" in (folder / "gap.tex").read_text()  # six decimals would say zero
    else:
        found = (pd.read_csv if suffix == "csv" else pd.read_parquet)(folder / f"v.{suffix}")
        assert found["ok"].all()
        assert list(found.columns) == ["check", "ok", "detail"]


WRITERS = {
    "explore": (["s.json", "--out", "s.json5"], "a page is written as .html"),
    "solve figure": (["t.csv", "--target", "y", "--plot", "s.txt"], "figures are written as"),
    "fit figure": (["t.csv", "--target", "y", "--plot", "s"], "figures are written as"),
    "path figure": (["t.csv", "--target", "y", "--plot", "s.json"], "figures are written as"),
    "train figure": (
        ["t.csv", "--target", "y", "--widths", "2", "--plot", "s.csv"],
        "figures are written as",
    ),
    "depth": (["t.csv", "--target", "y", "--depth", "3", "--out", "s.csv"], ".json"),
    "solve": (["t.csv", "--target", "y", "--out", "s.txt"], ".json"),
    "demo": (["--out", "s.txt"], ".json"),
    "fit": (["t.csv", "--target", "y", "--lam", "1", "--out", "s.csv"], ".json"),
    "path": (["t.csv", "--target", "y", "--out", "s"], ".json"),
    "path table": (["t.csv", "--target", "y", "--table", "s.xlsx"], ".csv or .parquet or .tex"),
    "cells": (["t.csv", "--out", "s.json"], ".npz or .npy or .parquet"),
    "cp-rank": (["t.csv", "--out", "s.txt"], ".json"),
    "prove": (["s.json", "--out", "s.txt"], ".json"),
    "predict": (["s.json", "t.csv", "--out", "s.json5"], ".csv or .parquet or .tex"),
    "train": (["t.csv", "--target", "y", "--widths", "2", "--out", "s.json"], ".csv or .parquet or .tex"),
    "verify": (["s.json", "--table", "s.txt"], ".csv or .parquet or .tex"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_extensions_are_checked_before_anything_else(folder, name, monkeypatch):
    monkeypatch.chdir(folder)
    arguments, allowed = WRITERS[name]
    before = sorted(os.listdir(folder))
    done = run(name.split()[0], *arguments)
    assert done.exit_code == 1
    assert allowed in done.stderr
    assert "change the extension" in done.stderr
    assert sorted(os.listdir(folder)) == before


def test_latex_without_its_package(folder, monkeypatch):
    def missing(*_, **__):
        raise ImportError("Missing optional dependency 'Jinja2'.")

    monkeypatch.setattr(pd.DataFrame, "to_latex", missing)
    covopt.min_norm([[0.0], [1.0]], [0.0, 1.0]).save(folder / "v.json")
    assert "LaTeX tables need Jinja2" in run("verify", folder / "v.json", "--table", folder / "w.tex").stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solve", "t.csv"], "Missing option '--target'"),
        (["solve", "t.csv", "--target", "y", "--tol", "small"], "'--tol'"),
        (["solve", "--jason"], "No such option: --jason"),
        (["nothing"], "No such command 'nothing'"),
        (["cells", "t.csv", "--count-only", "--out", "p.npz"], "enumerates nothing that --out could save"),
    ],
)
def test_usage_errors_are_json_too(arguments, message):
    done = run(*arguments, "--json")
    assert done.exit_code == 2
    content = json.loads(done.stdout)
    assert message in content["error"]
    assert content["exit_code"] == 2
    assert run(*arguments).exit_code == 2
    assert run(*arguments).stdout == ""


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
    done = CliRunner().invoke(app, [], env=asked, prog_name="covopt")
    assert done.stdout.split() == [offered]


def test_log_json(folder):
    log = folder / "log.jsonl"
    done = run("--log-json", log, "solve", folder / "t.csv", "--target", "y", "--features", "a,b", "--json")
    answer = json.loads(done.stdout)
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    assert [line["round"] for line in lines if line["event"] == "round"] == list(range(answer["rounds"]))
    assert (lines[-1]["event"], lines[-1]["lower_bound"]) == ("result", answer["lower_bound"])
    assert sum(answer["timings"].values()) >= 0.99 * answer["time_s"]
    before = len(lines)
    run("--log-json", log, "solve", folder / "t.csv", "--target", "y", "--features", "a,b")
    assert (
        len(log.read_text("utf-8").splitlines()) == 2 * before
    )  # appended, and written by one handler alone
    refused = run("--log-json", folder / "none" / "log.jsonl", "solve", folder / "t.csv", "--target", "y")
    assert refused.exit_code == 1
    assert "choose another file" in refused.stderr
    assert refused.stdout == ""


def test_resume(folder, monkeypatch):
    out, kept = folder / "r.json", folder / "r.json.checkpoint"
    solve = ["solve", folder / "t.csv", "--target", "y", "--features", "a,b", "--out", out]
    stop = {"callback": lambda state: state.round == 3}
    covopt.min_norm(
        *(pd.read_csv(folder / "t.csv")[names] for names in (["a", "b"], ["y"])), checkpoint=kept, **stop
    )
    ignored = run(*solve[:-1], folder / "other.json", "--resume")
    assert "there is no checkpoint" in ignored.stderr
    assert ignored.exit_code == 0
    done = run(*solve, "--resume", "--json")
    assert (done.exit_code, kept.exists()) == (0, False)
    assert covopt.load(out).history[3]["round"] == 3
    assert run(*solve[:-2], "--resume").stderr.strip().endswith("name the file with --out.")
    assert "leave it out" in run(*solve, "--resume", "--solver", "frank-wolfe:sliding").stderr
    covopt.fit(
        *(pd.read_csv(folder / "t.csv")[names] for names in (["a", "b"], ["y"])), lam=0.1, checkpoint=kept,
        callback=lambda state: state.round == 1,
    )  # fmt: skip
    assert "Y differs" not in run(*solve, "--resume").stderr
    assert "lam differs" in run(*solve, "--resume").stderr
    began = run("fit", *solve[1:], "--lam", "0.1")
    assert "--resume would go on from it" in began.stderr
    assert not kept.exists()


def test_cells_that_do_not_fit_are_streamed(folder):
    cells = ["cells", folder / "t.csv", "--features", "a,b", "--json"]
    refused = run(*cells, "--memory-limit", "1e-7")
    assert refused.exit_code == 1
    assert "Save them with --out FILE.npy or FILE.parquet, which stream" in refused.stderr
    streamed = json.loads(run(*cells, "--memory-limit", "1e-7", "--out", folder / "cells.npy").stdout)
    assert (
        streamed["n_cells"] == json.loads(run(*cells).stdout)["n_cells"] == len(np.load(folder / "cells.npy"))
    )
    assert "memory_limit must be a positive number of GiB" in run(*cells, "--memory-limit", "0").stderr


def test_every_command_has_a_line_and_an_example_that_parses():
    group = typer.main.get_command(app)
    with group.make_context("covopt", ["demo"]) as context:
        assert group.list_commands(context) == list(COMMANDS)
        for name, (short, example) in COMMANDS.items():
            assert len(short) <= 66  # else a terminal of 80 columns cuts it short
            program, called, *arguments = shlex.split(example)
            assert (program, called) == ("covopt", name)
            command = group.get_command(context, name)
            command.make_context(name, arguments, parent=context)
            if name != "bench":  # its help is that of benchopt
                assert example in run(name, "--help").stdout
