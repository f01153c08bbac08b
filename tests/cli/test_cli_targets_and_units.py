"""What the commands choose from the table: the loss, the units, columns of words, rows that lack a value."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import covopt
from covopt.cli import app
from covopt.data.columns import holds_classes
from covopt.data.table_files import read_table
from covopt.errors import InputError


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.integers(20, 70, 60), "income": rng.integers(20_000, 90_000, 60).astype(float),
            "town": rng.choice(["Bern", "Thun", "Genf"], 60), "member": rng.choice(["yes", "no"], 60),
        }
    )  # fmt: skip
    table["rich"] = np.where(table["income"] > 50_000, "high", "low")
    table["amount"] = (table["income"] / 1e4 + table["age"]).round(2)
    table.loc[[5, 17], "income"] = np.nan
    path = tmp_path_factory.mktemp("people") / "people.csv"
    table.to_csv(path, index=False)
    return path


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


def test_the_target_chooses_the_loss_and_the_summary_says_so(people):
    asked = ("fit", people, "--features", "age", "--lam", "0.5max")
    done = run(*asked, "--target", "rich")
    assert "classes        rich holds 2 classes, high, low: the loss is logistic\n" in done.stdout
    three = run(*asked, "--target", "town", "--json")
    assert json.loads(three.stdout)["loss_name"] == "softmax-cross-entropy"
    assert json.loads(run(*asked, "--target", "amount", "--json").stdout)["loss_name"] == "squared"
    numbers = people.with_name("numbers.csv")
    pd.DataFrame({"x": np.arange(20.0) / 10, "y": np.arange(20) % 2}).to_csv(numbers, index=False)
    assert "; --loss squared takes them as numbers" in run("fit", numbers, "--target", "y").stdout
    squared = run("fit", numbers, "--target", "y", "--loss", "squared", "--json")
    assert json.loads(squared.stdout)["loss_name"] == "squared"
    grid = run("path", numbers, "--target", "y", "--n-lams", 2, "--json")
    assert json.loads(grid.stdout)["loss_name"] == "logistic"


def test_columns_in_different_units_are_standardised_unless_asked_not_to(people):
    asked = (
        "fit",
        people,
        "--features",
        "age,income",
        "--target",
        "amount",
        "--drop-missing",
        "--lam",
        "0.5max",
    )
    done = run(*asked)
    assert "units          columns differ in units: income spreads " in done.stdout
    assert "standardised   columns of mean 0" in done.stdout
    raw = run(*asked, "--no-standardise")
    assert "units  " not in raw.stdout
    assert "standardised" not in raw.stdout
    alike = run(*asked[:2], "--features", "age", *asked[4:], "--json")
    assert json.loads(alike.stdout)["standardised"] is None
    without_bias = run(*asked, "--bias", 0, "--json")
    assert json.loads(without_bias.stdout)["standardised"] is None
    solved = run("solve", people, "--features", "age,income", "--target", "amount", "--drop-missing")
    assert "; --no-standardise solves them as they are" in solved.stdout


def test_words_become_columns_and_saved_networks_find_them(people):
    out = people.with_name("words.json")
    done = run(
        "fit", people, "--target", "amount", "--one-hot", "--drop-missing", "--out", out, "--time-limit", 5
    )
    assert (
        "features       age, income, town=Bern, town=Genf, town=Thun, member=yes, rich=low → amount"
        in done.stdout
    )
    assert "dropped        2 of 60 rows lack a value" in done.stdout
    assert json.loads(run("verify", out, people, "--json").stdout)["ok"]
    whole = people.with_name("whole.csv")
    pd.read_csv(people).dropna().to_csv(whole, index=False)
    predicted = pd.DataFrame(json.loads(run("predict", out, whole, "--json").stdout)["predictions"])["amount"]
    np.testing.assert_allclose(
        predicted, covopt.load(out).network.predict(read_whole(whole, out)), rtol=1e-12
    )
    some = run(
        "fit",
        people,
        "--target",
        "amount",
        "--features",
        "age,town",
        "--one-hot",
        "--json",
        "--lam",
        "0.5max",
    )
    assert json.loads(some.stdout)["features"] == ["age", "town=Bern", "town=Genf", "town=Thun"]


def read_whole(path, out):
    return read_table(path, target=None, features=covopt.load(out).data.feature_names).X


def test_rows_that_lack_a_value_are_an_error_that_names_the_option(people, tmp_path):
    refused = run("fit", people, "--target", "amount", "--json")
    assert refused.exit_code == 1
    assert "X line 7, column 'income' is NaN" in json.loads(refused.stdout)["error"]
    assert "Drop (--drop-missing) or impute" in json.loads(refused.stdout)["error"]
    table = tmp_path / "t.csv"
    table.write_text("a,b,y\n1,,2\n,2,3\n")
    with pytest.raises(InputError, match="every row lacks a value in a column that is used"):
        read_table(table, target="y", drop_missing=True)
    table.write_text("town,a,y\nBern,1,2\n,2,3\nThun,4,5\n")
    found = read_table(table, target="y", words=True, drop_missing=True)
    assert (found.feature_names, found.dropped) == (("town=Thun", "a"), 1)
    assert found.X.tolist() == [[0.0, 1.0], [1.0, 4.0]]
    assert found.raw.rows.one(1) == "line 4"


def test_a_constant_target_is_the_constant(tmp_path):
    table = tmp_path / "t.csv"
    pd.DataFrame({"a": np.arange(12.0), "b": 1e4 * np.cos(np.arange(12)), "y": 3.7}).to_csv(
        table, index=False
    )
    done = run("fit", table, "--target", "y")
    assert done.exit_code == 0
    assert "neurons        0" in done.stdout
    assert "hint" not in done.stdout


def test_a_path_says_which_lam_fits_rows_left_out(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (40, 2))
    table = tmp_path / "t.csv"
    y = np.abs(X[:, 0]) + 0.2 * rng.standard_normal(40)
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_csv(table, index=False)
    asked = ("path", table, "--target", "y", "--n-lams", 4)
    done = run(*asked, "--table", tmp_path / "out.csv", "--plot", tmp_path / "path.svg")
    said = next(line for line in done.stdout.splitlines() if line.startswith("fits best"))
    frame = pd.read_csv(tmp_path / "out.csv")
    best = frame.loc[frame["held_out_loss"].idxmin()]
    assert f"λ = {best['lam']:.6g} on rows left out in turn (R² {best['held_out_r2']:.4f} there)" in said
    assert "loss on rows left out" in (tmp_path / "path.svg").read_text()
    assert json.loads(run(*asked, "--json").stdout)["held_out"]["lam"] == pytest.approx(best["lam"])
    assert json.loads(run(*asked, "--json", "--folds", 0).stdout)["held_out"] is None
