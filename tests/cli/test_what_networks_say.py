"""What networks of commands predict, deep ones, CP-ranks, and networks that are trained."""

import base64
import dataclasses
import gzip
import json
import re
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import covopt
from covopt.api.solution_path import path_from_dict
from covopt.completely_positive import graphs
from covopt.completely_positive.checking import verify_cp_rank
from covopt.solution.summary import predict_columns, quality
from tests.commands import refused, run, said

Y, AB = ("--target", "y"), ("--features", "a,b")
SOLVE = ("solve", "t.csv", *Y, *AB)


def test_predict(here, solved):
    shown = run("predict", solved, "t.csv").stdout.splitlines()
    assert shown[0] == "y"
    np.testing.assert_allclose([float(v) for v in shown[1:]], here["y"], atol=1e-9)
    here[["kind", "b", "a"]].iloc[:5].to_csv("new.csv", index=False)
    np.testing.assert_allclose(
        said("predict", solved, "new.csv")["predictions"]["y"], here["y"][:5], atol=1e-9
    )
    assert run("predict", solved, "new.csv", "--out", "p.parquet").stdout.split() == ["saved", "p.parquet"]
    np.testing.assert_allclose(pd.read_parquet("p.parquet")["y"], here["y"][:5], atol=1e-9)
    Path("gap.csv").write_text("a,b\n1,\n")
    assert "X line 2, column 'b' is NaN" in refused("predict", solved, "gap.csv")
    here[["a", "b"]].iloc[:5].mask([[i == 1, False] for i in range(5)]).to_csv("gap.csv", index=False)
    held = run("predict", solved, "gap.csv", "--drop-missing")
    assert "1 of 5 rows lack a value; theirs are empty" in held.stderr
    values = held.stdout.splitlines()[1:]
    assert values[1] in ("", '""')
    whole = [0, 2, 3, 4]
    np.testing.assert_allclose([float(values[i]) for i in whole], here["y"].iloc[whole], atol=1e-9)
    asked = said("predict", solved, "gap.csv", "--drop-missing")
    assert (asked["empty"], asked["predictions"]["y"][1]) == (1, None)
    here[["a", "b"]].iloc[:2].replace(here["a"].iloc[0], np.inf).to_csv("gap.csv", index=False)
    assert "is infinity" in refused("predict", solved, "gap.csv", "--drop-missing")


@pytest.mark.parametrize(
    ("target", "loss"), [("sign", "logistic"), ("kind", "softmax-cross-entropy"), ("sign", "hinge")]
)
def test_predict_classes(here, target, loss):
    done = run("fit", "t.csv", "--target", target, *AB, "--lam", 1e-4, "--loss", loss, "--out", "c.json")
    assert "accuracy       1.0000  (on the points it was fitted to)" in done.stdout
    content, truth = said("predict", "c.json", "t.csv")["predictions"], here[target].tolist()
    names = sorted(set(truth))
    assert content[target] == truth
    assert list(content) == [target, *(f"P({name})" for name in names if loss != "hinge")]
    if loss != "hinge":
        chances = np.array([content[f"P({name})"] for name in names])
        np.testing.assert_allclose(chances.sum(axis=0), 1.0)
        assert [names[i] for i in chances.argmax(axis=0)] == truth


def test_fit_says_how_well_and_where_on_the_path(here):
    content = said("fit", *SOLVE[1:], "--lam", 0.01)
    fitted = covopt.fit(here[["a", "b"]], here["y"], lam=0.01)
    left, spread = here["y"] - fitted.network.predict(here[["a", "b"]]), here["y"] - here["y"].mean()
    assert content["r2"] == pytest.approx(1 - (left**2).sum() / (spread**2).sum(), abs=1e-6)
    assert content["lam_over_lambda_max"] == pytest.approx(
        0.01 / covopt.lambda_max(here[["a", "b"]], here["y"])
    )
    stopped = run("fit", *SOLVE[1:], "--lam", 0.01, "--time-limit", 1e-9)
    assert "λ / λ_max      λ_max was not computed" in stopped.stdout
    name, value = quality(covopt.min_norm([[1.0]], [2.0]))
    assert name == "R²" and np.isnan(value)  # no variance
    two = covopt.min_norm([[0.0], [1.0]], [[0.0, 1.0], [1.0, 0.0]])
    assert list(predict_columns(two, [[0.5]])) == ["y0", "y1"]


def test_a_path_and_a_point_of_it_predict(here):
    assert run("path", *SOLVE[1:], "--n-lams", 3, "--out", "p.json", "--table", "p.csv").exit_code == 0
    points = covopt.load("p.json")
    pd.testing.assert_frame_equal(pd.read_csv("p.csv"), points.to_frame(), check_exact=False)
    content = json.loads(Path("p.json").read_text())
    assert (
        path_from_dict({name: content[name] for name in content if name != "held_out"}).held_out is None
    )  # of files of earlier versions
    for field, value in {"lams": [1.0], "losses": [["1"]], "quality": "best", "qualities": []}.items():
        Path("forged.json").write_text(
            json.dumps(content | {"held_out": content["held_out"] | {field: value}})
        )
        with pytest.raises(covopt.errors.SolutionFileError, match="rows left out are damaged"):
            covopt.load("forged.json")
    assert run("explore", "p.json", "--out", "p.html").exit_code == 0
    packed = re.search(r'id="content">([^<]*)<', Path("p.html").read_text())[1]
    assert "R² on rows left out" in gzip.decompress(base64.b64decode(packed)).decode()
    assert said("predict", "p.json", "t.csv", "--lam", 1.1 * points[1].lam)["lam"] == points[1].lam


def test_a_path_says_which_lam_fits_rows_left_out(here):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (12, 2))
    y = np.abs(X[:, 0]) + 0.2 * rng.standard_normal(12)
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_csv("t.csv", index=False)
    asked = ("path", "t.csv", *Y, "--n-lams", 2, "--folds", 2)
    done = run(*asked, "--table", "out.csv", "--plot", "path.svg")
    line = next(line for line in done.stdout.splitlines() if line.startswith("fits best"))
    frame = pd.read_csv("out.csv")
    best = frame.loc[frame["held_out_loss"].idxmin()]
    assert f"λ = {best['lam']:.6g} on rows left out in turn (R² {best['held_out_r2']:.4f} there)" in line
    assert "loss on rows left out" in Path("path.svg").read_text()
    assert said(*asked)["held_out"]["lam"] == pytest.approx(best["lam"])
    assert said(*asked[:-1], 0)["held_out"] is None


def test_deep_networks(here):
    Path("two.csv").write_text("x,y\n1,1\n-1,1\n")
    content = said("depth", "two.csv", *Y, "--depth", 3, "--bias", 0, "--out", "deep.json")
    assert content["cost"] == pytest.approx(3 * 4 ** (1 / 3), rel=1e-7)
    assert (content["depth"], content["status"], content["features"]) == (3, "certified", ["x"])
    assert "R_3" in run("verify", "deep.json", "two.csv").stdout
    Path("three.csv").write_text("x,y\n1.0,0.3\n-0.4,0.9\n0.2,-0.7\n")
    open_ended = run("depth", "three.csv", *Y, "--depth", 3, "--time-limit", 0.1)
    assert open_ended.exit_code == 3 and "lower bound" in open_ended.stdout
    Path("k.csv").write_text("x,y\n-1,a\n0,b\n1,a\n")
    asked = ("fit", "k.csv", *Y, "--loss", "logistic", "--depth", 3, "--lam", 0.01)
    content = said(*asked, "--out", "fit.json", code=3)
    assert (content["status"], content["solver"], content["accuracy"]) == ("heuristic", "descent", 1.0)
    assert 0 < content["lower_bound"] < content["objective"]
    assert run("verify", "fit.json", "k.csv").exit_code == 0
    assert "P(a)" in run("predict", "fit.json", "k.csv").stdout
    assert "--plot draws shallow networks" in refused(*asked, "--plot", "net.png")


def test_graphs_and_matrices(here):
    nx.write_graph6(nx.petersen_graph(), "g.g6")
    nx.write_graphml(graphs.petersen(), "g.graphml")
    nx.write_graphml(nx.Graph([("a", "b", {"weight": 1.0}), ("b", "c", {"weight": 1.0})]), "w.graphml")
    for name, rank in (("g.g6", 15), ("g.graphml", 15), ("w.graphml", 2)):
        done = run("cp-rank", name, "--out", "c.json")
        assert done.exit_code == 0 and f"CP-rank    {rank}" in done.output
        assert all(check.ok for check in verify_cp_rank("c.json"))
    for text, value in (("1 2\n2 1\n", "NOT_CP"), ("u,x1\n2,1\n1,2\n", "CP-rank    2")):  # a line of names
        Path("m.csv").write_text(text)
        done = run("cp-rank", "m.csv")
        assert done.exit_code == 0 and value in done.output
    Path("m.csv").write_text("2,1/3,0.1\n1/3,1,0\n0.1,0,1\n")
    content = said("cp-rank", "m.csv")
    assert (content["lower"], content["upper"], content["is_exact"], content["exit_code"]) == (3, 3, True, 0)
    assert {reason["method"] for reason in content["reasons"]} == {"triangle-free", "factor"}
    assert run("cp-rank", "m.csv", "--quiet").output == ""


# ---------------------------------------------------------------------- networks that are trained
TRAIN = ("train", "t.csv", *Y, *AB, "--steps", 60, "--seeds", 2, "--widths")


def test_training_grids_deep_networks_and_shares_of_lambda_max(here):
    pytest.importorskip("torch")
    done = run(*TRAIN, "4,8", "--lam", "0.01,0.1", "--out", "runs.csv", "--plot", "curves.png")
    assert done.exit_code == 0 and "8 networks (heuristic)" in done.output
    assert pd.read_csv("runs.csv").groupby(["width", "lam"]).size().tolist() == [2, 2, 2, 2]
    assert Path("curves.png").stat().st_size > 10_000
    content = said(*TRAIN, "6x4", "--out", "runs.parquet")
    assert (content["networks"][0]["width"], content["complete"], content["exit_code"]) == ([6, 4], True, 0)
    assert pd.read_parquet("runs.parquet")["width"].tolist() == ["6x4", "6x4"]
    lams = [said(*TRAIN, 4, "--lam", f"{share}max")["networks"][0]["lam"] for share in (1, 0.1)]
    assert lams[1] == pytest.approx(0.1 * lams[0])
    arguments = (*TRAIN, 4, "--lam", 0.05, "--checkpoint", "state.safetensors")
    first, second = said(*arguments), said(*arguments, "--resume")
    first_ones, again = ([n["objective"] for n in found["networks"]] for found in (first, second))
    assert first_ones == again
    assert (
        not Path("state.safetensors").exists() and first["checkpoint_file"] is None
    )  # nothing is left to do


def test_training_against_the_certificate(here, monkeypatch):
    pytest.importorskip("torch")
    import covopt.api.fitting
    from covopt.training.loop import Runner

    for lam in ((), ("--lam", 0.05)):
        content = said(*TRAIN, 16, *lam, "--cross-check")
        assert content["certified"] and {"floor", "cost", "ratio"} <= set(content["networks"][0])
        assert content["best_cost"] is None or content["best_cost"] >= content["lower_bound"] * (1 - 1e-9)
    honest, solve = covopt.api.fitting.fit, covopt.api.min_norm

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
    pytest.importorskip("torch")
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
