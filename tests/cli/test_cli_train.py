import _thread
import dataclasses
import json
import time

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")

from covopt.cli import app

FAST = ("--steps", 60, "--seeds", 2)


def run(*arguments):
    return CliRunner().invoke(app, ["train", *[str(a) for a in arguments]])


def refused(*arguments, code=1):
    done = run(*arguments)
    assert done.exit_code == code, (done.exit_code, done.output)
    assert "Traceback" not in done.output
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "table.csv"
    frame = pd.DataFrame({"a": rng.standard_normal(6), "b": rng.standard_normal(6), "s": 1.0})
    frame["y"] = rng.standard_normal(6)
    frame["kind"] = ["yes", "no"] * 3
    frame.to_csv(path, index=False)
    return path


def test_trains_a_grid_and_saves_everything(table, tmp_path):
    out, plot = tmp_path / "runs.csv", tmp_path / "curves.png"
    done = run(table, "--target", "y", "--features", "a,b", "--widths", "4,8", "--lam", "0.01,0.1", *FAST,
               "--out", out, "--plot", plot)  # fmt: skip
    assert done.exit_code == 0, done.output
    saved = pd.read_csv(out)
    assert len(saved) == 8
    assert saved.groupby(["width", "lam"]).size().tolist() == [2, 2, 2, 2]
    assert plot.stat().st_size > 10_000
    assert "8 networks (heuristic)" in done.output


def test_json_parquet_and_deep_networks(table, tmp_path):
    out = tmp_path / "runs.parquet"
    done = run(table, "--target", "y", "--features", "a,b", "--widths", "6x4", *FAST, "--out", out, "--json")
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    assert content["networks"][0]["width"] == [6, 4]
    assert content["complete"] is True
    assert content["exit_code"] == 0
    assert pd.read_parquet(out)["width"].tolist() == ["6x4", "6x4"]


@pytest.mark.parametrize("lam", [(), ("--lam", 0.05)])
def test_cross_check(table, lam):
    done = run(
        table, "--target", "y", "--features", "a,b", "--widths", 16, *lam, *FAST, "--cross-check", "--json"
    )
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    assert content["certified"]
    assert content["best_cost"] is None or content["best_cost"] >= content["lower_bound"] * (1 - 1e-9)
    assert {"floor", "cost", "ratio"} <= set(content["networks"][0])


def test_shares_of_lambda_max(table):
    arguments = (table, "--target", "y", "--features", "a,b", "--widths", 4, *FAST, "--json")
    lams = [
        json.loads(run(*arguments, "--lam", f"{share}max").stdout)["networks"][0]["lam"] for share in (1, 0.1)
    ]
    assert lams[1] == pytest.approx(0.1 * lams[0])


def test_contradiction_is_exit_4(table, tmp_path, monkeypatch):
    import covopt.api.fitting

    honest = covopt.api.fitting.fit

    def forged(*arguments, **options):
        solution = honest(*arguments, **options)
        certificate = dataclasses.replace(solution.certificate, lower_bound=5 * solution.lower_bound)
        return dataclasses.replace(solution, certificate=certificate)

    monkeypatch.setattr(covopt.api.fitting, "fit", forged)
    arguments = (table, "--target", "y", "--features", "a,b", "--widths", 16, "--lam", 0.05, *FAST, "--cross-check",
                 "--out", tmp_path / "runs.csv")  # fmt: skip
    assert "is below the certificate" in refused(*arguments, code=4)
    assert (tmp_path / "runs-contradiction.json").exists()
    done = run(*arguments, "--json")
    assert done.exit_code == 4
    assert json.loads(done.stdout)["contradiction_file"].endswith("runs-contradiction.json")


def test_interruption_prints_and_saves_what_there_is(table, tmp_path, monkeypatch):
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
    out = tmp_path / "runs.csv"
    done = run(table, "--target", "y", "--features", "a,b", "--widths", 4, *FAST, "--out", out)
    assert done.exit_code == 3
    assert "stopped before the end of the schedule" in done.output
    assert len(pd.read_csv(out)) == 2


def test_interrupted_certification_trains_nothing(table, monkeypatch):
    import covopt.api
    from covopt.status import Status
    from covopt.training.loop import Runner

    honest = covopt.api.min_norm

    def interrupted(*arguments, **options):
        return dataclasses.replace(honest(*arguments, **options), status=Status.INTERRUPTED)

    monkeypatch.setattr(covopt.api, "min_norm", interrupted)
    monkeypatch.setattr(Runner, "run", None)
    arguments = (table, "--target", "y", "--features", "a,b", "--widths", 4, *FAST, "--cross-check")
    assert "interrupted before there was anything to save" in refused(*arguments, code=3)


@pytest.mark.parametrize("extra", [(), ("--cross-check",)])
def test_learning_rate_is_used(table, extra):
    arguments = (
        table,
        "--target",
        "y",
        "--features",
        "a,b",
        "--widths",
        4,
        *FAST,
        *extra,
        "--learning-rate",
        -1,
    )
    assert "learning_rate must be a positive finite number; received -1.0" in refused(*arguments)


def test_checkpoint_and_resume(table, tmp_path):
    arguments = (table, "--target", "y", "--features", "a,b", "--widths", 4, "--lam", 0.05, *FAST,
                 "--checkpoint", tmp_path / "state.safetensors", "--json")  # fmt: skip
    first, second = run(*arguments), run(*arguments, "--resume")
    assert first.exit_code == second.exit_code == 0, second.output
    objectives = [[n["objective"] for n in json.loads(done.stdout)["networks"]] for done in (first, second)]
    assert objectives[0] == objectives[1]
    assert not (tmp_path / "state.safetensors").exists()  # there is nothing left to go on with
    assert json.loads(first.stdout)["checkpoint_file"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--widths", "8,a"),
            "--widths must be integers separated by commas, as in 8,16 or 32x16; received '8,a'",
        ),
        (("--widths", "0"), "width"),
        (("--widths", "4", "--lam", "x"), "--lam must be numbers separated by commas; received 'x'"),
        (("--widths", "4", "--cross-check", "--lam", "1,2"), "takes one λ; received --lam 1,2"),
        (
            ("--widths", "4x4", "--cross-check"),
            "certificates are about two-layer networks; received --widths 4x4",
        ),
        (("--widths", "4", "--resume"), "--resume needs --checkpoint FILE"),
        (
            ("--widths", "4", "--cross-check", "--checkpoint", "c"),
            "--checkpoint and --resume belong to plain training",
        ),
        (("--widths", "4", "--cluster", "local"), "training runs on this machine; leave --cluster out"),
        (("--widths", "4", "--out", "runs.json"), "runs.json: the file must end in .csv or .parquet or .tex"),
        (("--widths", "4", "--optimiser", "newton"), "optimiser must be one of"),
        (("--widths", "4", "--device", "tpu"), "device must be 'cpu'"),
        (("--widths", "4", "--cross-check", "--loss", "huber"), "without --lam the points are interpolated"),
    ],
)
def test_messages(table, arguments, message):
    assert message in refused(table, "--target", "y", "--features", "a,b", *arguments)
