"""``--standardise`` on the command line: every face takes the columns of the user's table."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import covopt
from covopt.cli import app


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("standardise")
    rng = np.random.default_rng(0)
    year, income = rng.integers(1950, 2020, 16) + 0.0, rng.uniform(2e4, 9e4, 16).round()
    y = (300.0 + np.abs(year - 1990.0) + income / 1e4).round(3)
    kind = np.where(y > np.median(y), "dear", "cheap")
    pd.DataFrame({"year": year, "income": income, "y": y, "kind": kind}).to_csv(place / "t.csv", index=False)
    done = run("fit", place / "t.csv", "--target", "y", "--standardise", "--lam", "0.01max",
               "--out", place / "s.json", "--plot", place / "s.svg")  # fmt: skip
    assert done.exit_code == 0, done.output
    (place / "said").write_text(done.stdout)
    return place


def test_the_summary_says_what_was_solved(folder):
    said = (folder / "said").read_text()
    assert "standardised   columns of mean 0 and variance 1, y less " in said
    assert "hint" not in said
    assert float(said.split("R²")[1].split()[0]) > 0.9
    assert "of standardised columns" in (folder / "s.svg").read_text()


def test_json_says_it(folder):
    done = run("fit", folder / "t.csv", "--target", "y", "--standardize", "--json")
    content = json.loads(done.stdout)
    table = pd.read_csv(folder / "t.csv")
    assert content["standardised"]["centre"]["year"] == pytest.approx(table["year"].mean())
    assert content["standardised"]["scale"]["income"] == pytest.approx(table["income"].std(ddof=0))
    assert content["standardised"]["target_centre"] == {"y": pytest.approx(table["y"].mean())}
    raw = json.loads(run("fit", folder / "t.csv", "--target", "y", "--no-standardise", "--json").stdout)
    assert raw["standardised"] is None
    assert raw["status"] == "certified"
    assert raw["r2"] < 0.0
    assert "income spreads" in raw["hint"]
    assert "--standardise" in raw["hint"]
    # what is said to be tried next does what is promised
    assert raw["next"] == shlex.join(
        ["covopt", "fit", str(folder / "t.csv"), "--target", "y", "--json", "--standardise"]
    )
    assert json.loads(run(*shlex.split(raw["next"])[1:]).stdout)["r2"] == content["r2"] > 0.5
    poor = run(
        "fit", folder / "t.csv", "--target", "y", "--standardise", "--lam", "0.99max", "--output-bias", "free"
    )
    assert "λ is large for this table" in poor.stdout
    assert poor.stdout.splitlines()[-1].endswith("--output-bias free --standardise --lam 0.099max")
    assert content["next"] is None


def test_predict_verify_and_prove_take_the_raw_table(folder):
    done = run("predict", folder / "s.json", folder / "t.csv")
    found = np.array([float(v) for v in done.stdout.splitlines()[1:]])
    truth = pd.read_csv(folder / "t.csv")
    assert 1.0 - ((found - truth["y"]) ** 2).sum() / ((truth["y"] - truth["y"].mean()) ** 2).sum() > 0.9
    done = run("verify", folder / "s.json", folder / "t.csv")
    assert done.exit_code == 0
    assert "ok     standardised: columns of mean 0 and variance 1" in done.stdout
    moved = truth.assign(year=truth["year"] + np.arange(16))
    moved.to_csv(folder / "moved.csv", index=False)
    assert "FAILED table" in run("verify", folder / "s.json", folder / "moved.csv").stdout
    assert run("prove", folder / "s.json", "--out", folder / "p.json").exit_code == 0
    proved = run("verify", folder / "s.json", folder / "t.csv", "--proof", folder / "p.json")
    assert proved.exit_code == 0, proved.stdout
    assert "exact bracket" in proved.stdout


def test_explore_draws_in_the_units_of_the_table(folder):
    pytest.importorskip("plotly")
    from tests.explore.test_explore import content_of

    assert run("explore", folder / "s.json", "--out", folder / "page.html").exit_code == 0
    page = (folder / "page.html").read_text()
    content = content_of(page)
    assert '["standardised", "columns of mean 0' in json.dumps(content)
    assert "weights, cost and slack are those on the standardised columns" in page
    plane = next(p for p in content["panels"] if p["key"].startswith("function"))["figures"][0]
    low, high = plane["layout"]["xaxis"]["range"]
    assert low > 1900
    assert high < 2100


def test_kinks_of_one_input_are_years(folder):
    truth = pd.read_csv(folder / "t.csv")
    found = covopt.fit(truth[["year"]], truth["y"], lam="0.01max", standardise=True)
    from covopt.explore.neurons import describe
    from covopt.plotting.function import kinks_of

    neurons = describe(found)
    at = neurons.columns.index("kink at year")
    kinks = np.array([float(row[at]) for row in neurons.rows])
    np.testing.assert_allclose(kinks_of(neurons.yours, 1.0), kinks, rtol=1e-4)
    assert ((kinks > 1940) & (kinks < 2030)).any()
    seen = found.in_your_units()
    np.testing.assert_allclose(seen.data.X[:, 0], truth["year"])
    np.testing.assert_allclose(seen.data.Y[:, 0], truth["y"])


def test_solve_path_and_classes(folder):
    done = run(
        "solve", folder / "t.csv", "--target", "y", "--standardise", "--json", "--out", folder / "i.json"
    )
    content = json.loads(done.stdout)
    assert content["status"] == "certified"
    assert content["hint"] is None
    assert set(content["standardised"]["scale"]) == {"year", "income"}
    done = run(
        "path", folder / "t.csv", "--target", "y", "--standardise", "--n-lams", 3, "--out", folder / "p3.json"
    )
    assert "standardised   columns of mean 0 and variance 1, y less" in done.stdout
    assert run("verify", folder / "p3.json", folder / "t.csv").exit_code == 0
    done = run("fit", folder / "t.csv", "--target", "kind", "--features", "year,income", "--loss", "logistic",
               "--standardise", "--lam", "0.05max", "--out", folder / "k.json")  # fmt: skip
    assert "less" not in done.stdout.split("status")[0]
    assert run("verify", folder / "k.json", folder / "t.csv").exit_code == 0


def test_train_on_standardised_columns(folder):
    pytest.importorskip("torch")
    done = run("train", folder / "t.csv", "--target", "y", "--widths", 8, "--seeds", 2, "--steps", 60, "--lam", 0.05,
               "--standardise", "--cross-check", "--json")  # fmt: skip
    content = json.loads(done.stdout)
    known = json.loads(
        run("fit", folder / "t.csv", "--target", "y", "--lam", 0.05, "--standardise", "--json").stdout
    )
    assert content["lower_bound"] == pytest.approx(known["lower_bound"], rel=3e-6)
    assert content["standardised"] == known["standardised"]
