"""What commands choose from the table: the loss, the units, columns of words, rows that lack a value."""

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import covopt
from covopt.data.columns import holds_classes
from covopt.data.table_files import read_table
from covopt.errors import InputError
from covopt.explore.drawing import describe
from covopt.plotting.function import kinks_of
from tests.commands import refused, run, said

SAYS = "standardised   columns of mean 0 and variance 1"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Tables of people and of years, and a fit that was standardised."""
    folder = tmp_path_factory.mktemp("columns")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({
        "age": rng.integers(20, 70, 30), "income": rng.integers(20_000, 90_000, 30).astype(float),
        "town": rng.choice(["Bern", "Thun", "Genf"], 30), "member": rng.choice(["yes", "no"], 30),
    })  # fmt: skip
    table["rich"] = np.where(table["income"] > 50_000, "high", "low")
    table["amount"] = (table["income"] / 1e4 + table["age"]).round(2)
    table.loc[[5, 17], "income"] = np.nan
    table.to_csv(folder / "people.csv", index=False)
    table.dropna().to_csv(folder / "whole.csv", index=False)
    rng = np.random.default_rng(0)
    year, income = rng.integers(1950, 2020, 16) + 0.0, rng.uniform(2e4, 9e4, 16).round()
    y = (300.0 + np.abs(year - 1990.0) + income / 1e4).round(3)
    kind = np.where(y > np.median(y), "dear", "cheap")
    pd.DataFrame({"year": year, "income": income, "y": y, "kind": kind}).to_csv(
        folder / "years.csv", index=False
    )
    pd.DataFrame({"x": np.arange(20.0) / 10, "y": np.arange(20) % 2}).to_csv(
        folder / "numbers.csv", index=False
    )
    pd.DataFrame({"a": np.arange(12.0), "b": 1e4 * np.cos(np.arange(12)), "y": 3.7}).to_csv(
        folder / "constant.csv", index=False
    )
    done = run("fit", folder / "years.csv", "--target", "y", "--standardise", "--lam", "0.01max",
               "--out", folder / "s.json", "--plot", folder / "s.svg")  # fmt: skip
    (folder / "said").write_text(done.stdout)
    return folder


@pytest.fixture(autouse=True)
def there(place, monkeypatch):
    monkeypatch.chdir(place)


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (["a", "b", "c"], True), ([True, False], True), ([0, 1, 1], True), ([-1.0, 1.0], True), ([1, 2], False),
        ([0, 1, 2] * 10, True), ([1, 2, 3] * 10, True), ([0, 1, 2] * 9, False), ([0, 2, 4] * 20, False),
        ([0.5, 1.5] * 30, False), ([2**70, 1], False),
    ],
)  # fmt: skip
def test_which_targets_are_classes(values, classes):
    assert holds_classes(pd.Series(values)) is classes


def test_the_target_chooses_the_loss_and_the_summary_says_so():
    asked = ("fit", "people.csv", "--features", "age", "--lam", "0.5max")
    done = run(*asked, "--target", "rich")
    assert "classes        rich holds 2 classes, high, low: the loss is logistic\n" in done.stdout
    assert said(*asked, "--target", "town")["loss_name"] == "softmax-cross-entropy"
    assert said(*asked, "--target", "amount")["loss_name"] == "squared"
    numbers = ("numbers.csv", "--target", "y")
    assert "; --loss squared takes them as numbers" in run("fit", *numbers).stdout
    assert said("fit", *numbers, "--loss", "squared")["loss_name"] == "squared"
    assert said("path", *numbers, "--n-lams", 2)["loss_name"] == "logistic"
    constant = run("fit", "constant.csv", "--target", "y")
    assert constant.exit_code == 0 and "neurons        0" in constant.stdout and "hint" not in constant.stdout


def test_columns_in_different_units_are_standardised_unless_asked_not_to():
    asked = ("people.csv", "--target", "amount", "--drop-missing", "--features")
    done = run("fit", *asked, "age,income", "--lam", "0.5max")
    assert "units          columns differ in units: income spreads " in done.stdout and SAYS in done.stdout
    raw = run("fit", *asked, "age,income", "--lam", "0.5max", "--no-standardise").stdout
    assert "units  " not in raw and "standardised" not in raw
    assert said("fit", *asked, "age", "--lam", "0.5max")["standardised"] is None
    assert said("fit", *asked, "age,income", "--lam", "0.5max", "--bias", 0)["standardised"] is None
    assert "; --no-standardise solves them as they are" in run("solve", *asked, "age,income").stdout


def test_words_become_columns_and_saved_networks_find_them():
    asked = ("fit", "people.csv", "--target", "amount", "--one-hot", "--lam", "0.3max")
    done = run(*asked, "--drop-missing", "--out", "words.json")
    features = "features       age, income, town=Bern, town=Genf, town=Thun, member=yes, rich=low → amount"
    assert (
        features in done.stdout
        and "dropped        2 of 30 rows, which lack a value in income (2)\n" in done.stdout
    )
    assert said("verify", "words.json", "people.csv")["ok"]
    found = covopt.load("words.json")
    whole = read_table(Path("whole.csv"), target=None, features=found.data.feature_names).X
    predicted = pd.DataFrame(said("predict", "words.json", "whole.csv")["predictions"])["amount"]
    np.testing.assert_allclose(predicted, found.network.predict(whole), rtol=1e-12)
    assert said(*asked, "--features", "age,town")["features"] == [
        "age",
        "town=Bern",
        "town=Genf",
        "town=Thun",
    ]


def test_rows_that_lack_a_value_are_an_error_that_names_the_option(tmp_path):
    message = refused("fit", "people.csv", "--target", "amount")
    assert "X line 7, column 'income' is NaN" in message and "Drop (--drop-missing) or impute" in message
    table = tmp_path / "t.csv"
    table.write_text("a,b,y\n1,,2\n,2,3\n")
    with pytest.raises(InputError, match="every row lacks a value in a column that is used"):
        read_table(table, target="y", drop_missing=True)
    table.write_text("town,a,y\nBern,1,2\n,2,3\nThun,4,5\n")
    found = read_table(table, target="y", words=True, drop_missing=True)
    assert (found.feature_names, found.dropped, found.lacking) == (("town=Thun", "a"), 1, {"town": 1})
    assert found.X.tolist() == [[0.0, 1.0], [1.0, 4.0]] and found.index[1] == 4


# ---------------------------------------------------------------------- standardised columns
def test_what_is_said_of_a_standardised_fit():
    text = Path("said").read_text()
    assert f"{SAYS}, y less " in text and "hint" not in text and float(text.split("R²")[1].split()[0]) > 0.9
    assert "of standardised columns" in Path("s.svg").read_text()
    table = pd.read_csv("years.csv")
    content = said("fit", "years.csv", "--target", "y", "--standardize")
    assert content["standardised"]["centre"]["year"] == pytest.approx(table["year"].mean())
    assert content["standardised"]["scale"]["income"] == pytest.approx(table["income"].std(ddof=0))
    assert content["standardised"]["target_centre"] == {"y": pytest.approx(table["y"].mean())}
    raw = said("fit", "years.csv", "--target", "y", "--no-standardise")
    assert raw["standardised"] is None and raw["status"] == "certified" and raw["r2"] < 0.0
    assert "income spreads" in raw["hint"] and "--standardise" in raw["hint"]
    # what is said to be tried next does what is promised
    assert raw["next"] == "covopt fit years.csv --target y --json --standardise"
    assert json.loads(run(*shlex.split(raw["next"])[1:]).stdout)["r2"] == content["r2"] > 0.5
    asked = ("fit", "years.csv", "--target", "y", "--standardise")
    poor = run(*asked, "--lam", "0.99max", "--output-bias", "free").stdout
    assert "λ is large for this table" in poor and content["next"] is None
    assert poor.splitlines()[-1].endswith("--output-bias free --standardise --lam 0.099max")


def test_pictures_are_drawn_in_the_units_of_the_table():
    pytest.importorskip("plotly")
    from tests.explore.test_explore import content_of

    assert run("explore", "s.json", "--out", "page.html").exit_code == 0
    page = Path("page.html").read_text()
    content = content_of(page)
    assert '["standardised", "columns of mean 0' in json.dumps(content)
    assert "weights, cost and slack are those on the standardised columns" in page
    plane = next(p for p in content["panels"] if p["key"].startswith("function"))["figures"][0]
    low, high = plane["layout"]["xaxis"]["range"]
    assert 1900 < low < high < 2100
    truth = pd.read_csv("years.csv")
    found = covopt.fit(truth[["year"]], truth["y"], lam="0.01max", standardise=True)
    neurons = describe(found)
    at = neurons.columns.index("kink at year")
    kinks = np.array([float(row[at]) for row in neurons.rows])
    np.testing.assert_allclose(kinks_of(neurons.yours, 1.0), kinks, rtol=1e-4)
    assert ((kinks > 1940) & (kinks < 2030)).any()
    seen = found.in_your_units()
    np.testing.assert_allclose(seen.data.X[:, 0], truth["year"])
    np.testing.assert_allclose(seen.data.Y[:, 0], truth["y"])


def test_every_command_standardises():
    asked = ("years.csv", "--target", "y", "--standardise")
    content = said("solve", *asked, "--out", "i.json")
    assert content["status"] == "certified" and content["hint"] is None
    assert set(content["standardised"]["scale"]) == {"year", "income"}
    assert f"{SAYS}, y less" in run("path", *asked, "--n-lams", 3, "--out", "p3.json").stdout
    assert run("verify", "p3.json", "years.csv").exit_code == 0
    done = run("fit", "years.csv", "--target", "kind", "--features", "year,income", "--loss", "logistic",
               "--standardise", "--lam", "0.05max", "--out", "k.json")  # fmt: skip
    assert "less" not in done.stdout.split("status")[0]
    assert run("verify", "k.json", "years.csv").exit_code == 0
    pytest.importorskip("torch")
    trained = said(
        "train", *asked, "--widths", 8, "--seeds", 2, "--steps", 60, "--lam", 0.05, "--cross-check"
    )
    known = said("fit", *asked, "--lam", 0.05)
    assert trained["lower_bound"] == pytest.approx(known["lower_bound"], rel=3e-6)
    assert trained["standardised"] == known["standardised"]
