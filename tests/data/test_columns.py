"""No column disappears without a word, and what is said names the lines of the file."""

import bz2
import gzip
import io
import json
import lzma
import re
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from covopt.cli import app
from covopt.data import Data
from covopt.data.columns import content_of, is_constant, is_counter, to_numbers
from covopt.data.rows import RowNames, Text
from covopt.data.table_files import read_table
from covopt.datasets import load_table
from covopt.errors import InputError, TableWarning


@pytest.fixture
def write(tmp_path):
    def write(text, name="t.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_text(text, encoding=encoding)
        return path

    return write


def refused(path, **options):
    with pytest.raises(InputError) as caught:
        read_table(path, target=options.pop("target", "y"), **options)
    return str(caught.value)


ODD = {
    "$10": "money", "€ 1.5": "money", "10 EUR": "money", "-$3": "money", "US$4": "",
    "1%": "percent", "1.5 %": "percent",
    "−1": "minus", "–2.5": "minus", "1_000": "underscores", "1\u00a0000": "blanks", "\u00a01": "blanks",
    "1\u202f000,5": "blanks", "1 000": "blanks", "١٢": "digits", "１２": "digits", "1,5": "commas", "1,000": "commas",
    "١٫٥": "digits",
    "½": "digits", "(5)": "brackets", "1'000": "apostrophes", "'7": "apostrophes", "1.5D+03": "with D",
    "(a)": "", "x²": "", "x'000": "",
}  # fmt: skip


@pytest.mark.parametrize("text", ODD)
def test_numbers_in_another_writing_are_refused(write, text):
    values = [text] * 3
    path = write("a,b,y\n" + "".join(f'"{v}",{i},{i * i}\n' for i, v in enumerate(values)))
    if not ODD[text]:
        assert "text, as in" in read_table(path, target="y").left_out["a"]
        return
    message = refused(path)
    assert ODD[text] in message
    assert "column 'a' is not numeric: line 2 holds" in message
    assert "or leave it out with --features=-a (features='-a')" in message
    assert read_table(path, target="y", features="-a").left_out == {"a": "not asked for"}
    assert read_table(path, target="y", features="b").left_out == {"a": "not asked for"}


def test_columns_can_be_taken_away_from_all(write):
    path = write("id,a,b,town,-c,y\n1,5,1,Bern,0,2\n2,4,3,Thun,1,5\n")
    read = read_table(path, target="y", features="-id, -b")
    assert read.feature_names == ("a", "-c")
    assert read.left_out == {"town": "text, as in 'Bern'", "id": "not asked for", "b": "not asked for"}
    assert read_table(path, target="y", features="-c").feature_names == ("-c",)  # its own name
    assert "no column 'idd'; did you mean 'id'" in refused(path, features="-idd")
    assert "no column '-id'" in refused(path, features="-id,a")


def test_numbers_with_a_unit_are_refused(write):
    assert "line 2 holds '1 kg'. It has a unit: write the number alone" in refused(
        write("a,b,y\n1 kg,1,2\n2.5 kg,2,3\n")
    )
    other = read_table(write("a,b,y\n1 kg,1,2\n2 lb,2,3\n3 kg,4,5\n"), target="y")
    assert other.left_out == {"a": "text, as in '1 kg'"}


def test_lines_wider_than_the_header_are_named(write):
    said = "line 3 has 3 fields, but the first line names 2 columns. Titles and comments above the names have to go"
    assert said in refused(write("a,y\n1,2\n3,4,5\n"))
    assert "line 2 has 2 fields, but the first line names 1 column." in refused(
        write("# made by x\na,y\n1,2\n")
    )
    assert "Then give --sep '|'" in refused(write("a|y\n1|2\n"))


def test_what_is_not_a_space_is_shown(write):
    assert "'1\\xa0000'" in refused(write("a,y\n1\u00a0000,2\n"))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_numbers(value):
    assert content_of(pd.Series([repr(value), "1"])).kind == "numbers"


def test_text_and_late_numbers(write):
    rows = ["n/k"] * 1500 + ["5"]
    path = write("a,b,y\n" + "".join(f"{v},{i},{i % 7}\n" for i, v in enumerate(rows)))
    assert "column 'a' is not numeric: line 2 holds 'n/k'" in refused(path)
    rows = ["5"] * 1500 + ["?"]
    path = write("a,b,y\n" + "".join(f"{v},{i},{i % 7}\n" for i, v in enumerate(rows)))
    assert "column 'a' is not numeric: line 1502 holds '?'" in refused(path)


def test_every_column_that_is_left_out_has_a_reason(write):
    path = write(
        "town,day,open,a,w,y\nBern,2020-01-01,yes,1,1,0\nThun,2020-01-02,no,2,1,3\nGenf,2020-02-03,no,4,1,1\n"
    )
    with pytest.warns(TableWarning, match=r"'day' \(dates or times.*'open' \(two words, 'no' and 'yes'"):
        found = read_table(path, target="y", weight="w")
    assert found.feature_names == ("a",)
    assert found.left_out == {
        "town": "text, as in 'Bern'",
        "day": "dates or times, as in '2020-01-01'",
        "open": "two words, 'no' and 'yes': write 0 and 1 to use it",
        "w": "the sample weight",
    }
    assert found.weights.tolist() == [1, 1, 1]
    with pytest.warns(TableWarning):
        done = CliRunner().invoke(app, ["solve", str(path), "--target", "y", "--features", "a,w"])
        load_table(path, target="y")
    assert "features       a, w → y" in done.stdout
    assert "left out       town, day, open (not asked for)" in done.stdout


def test_nothing_numeric_says_what_the_columns_are(write):
    assert "'day' is dates or times, as in '2020-01-01'" in refused(
        write("day,y\n2020-01-01,1\n2020-01-02,2\n")
    )


def test_dates_of_other_types(tmp_path):
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame(
        {"t": pd.to_datetime(["2020-01-01", "2021-01-01"]), "l": [[1], [2]], "a": [1, 2], "y": [1, 2]}
    )
    frame.to_parquet(path)
    with pytest.warns(TableWarning, match="'t'"):
        found = read_table(path, target="y")
    assert found.feature_names == ("a",)
    assert found.left_out["l"].startswith("text")


@pytest.mark.parametrize("start", [0, 1])
def test_a_column_that_counts_the_rows_is_warned_about(write, start):
    path = write("id,a,y\n" + "".join(f"{start + i},{i * i},{i}\n" for i in range(4)))
    with pytest.warns(TableWarning, match="column 'id' counts the rows and is used as a feature"):
        assert read_table(path, target="y").feature_names == ("id", "a")
    assert read_table(path, target="y", features="id,a").feature_names == ("id", "a")
    assert not is_counter("id", pd.Series([0, 2, 3]))
    assert not is_counter("age", pd.Series([0, 1, 2]))
    assert not is_counter("id", pd.Series([0.0, 1.0]))


def test_a_column_of_one_number_is_warned_about(write):
    path = write("a,c,d,y\n1,3,0,1\n2,3,0,2\n3,3,0,2\n4,3,0,1\n")
    with pytest.warns(TableWarning, match=r"column 'c' holds 3 in every row \(2 columns are like this\)"):
        assert read_table(path, target="y").feature_names == ("a", "c", "d")
    assert not is_constant(pd.Series([1.0, np.nan]))
    assert not is_constant(pd.Series([1.0] * 3))


def test_a_zip_may_be_called_anything(tmp_path):
    path = tmp_path / "plain.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("__MACOSX/._t.tsv", "x")
        archive.writestr("t.tsv", "a\ty\n1\t2\n3\t4\n")
    assert read_table(path, target="y").X.tolist() == [[1.0], [3.0]]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("t.doc", "a,y")
    with pytest.raises(InputError, match=r"unknown file type '\.doc' in \.zip; use CSV"):
        read_table(path, target="y")


def test_lines_are_those_of_the_file(write):
    path = write('a,b,y\n\n1,"2\n",3\n\n4,5,6\n4,5,7\n')
    frame = read_table(path, target="y").features
    assert frame.index.tolist() == [3, 6, 7]
    done = CliRunner().invoke(app, ["solve", str(path), "--target", "y", "--json"])
    assert "lines 6 and 7 are the same point" in json.loads(done.stdout)["error"]
    path.write_bytes(b"a,b,y\r\n1,2,3\r\n4,,6\r\n")
    done = CliRunner().invoke(app, ["fit", str(path), "--target", "y", "--lam", "1"])
    assert "X line 3, column 'b' is NaN" in done.stderr
    path.write_text("a,y\n1,u\n2,v\n3,\n")
    done = CliRunner().invoke(app, ["fit", str(path), "--target", "y", "--lam", "1", "--loss", "logistic"])
    assert "Y line 4 is missing" in done.stderr
    path.write_text("a,y\n1,1\n2,2\n3,2.5\n")
    done = CliRunner().invoke(
        app, ["fit", str(path), "--target", "y", "--lam", "1", "--loss", "softmax-cross-entropy"]
    )
    assert "Y line 4 is 2.5" in done.stderr
    path.write_text("a,b,y\n1,0,1\n0,1,1\n1,1,1\n-1,0,2\n0,-1,2\n-1,-1,7\n")
    done = CliRunner().invoke(app, ["solve", str(path), "--target", "y", "--bias", "0"])
    assert re.search(r"lines \d and \d are opposite points", done.stderr)
    path.write_text("a,y\n1,2\n3,4\n1,2.5\n")
    done = CliRunner().invoke(app, ["solve", str(path), "--target", "y", "--duplicates", "mean"])
    assert "at line 2." in done.stdout


def test_names_of_rows():
    assert RowNames().take(np.array([4, 7])).one(1) == "row 7 (counting from 0)"
    assert RowNames([3, 5], "sheet row").take(np.array([1])).one(0) == "sheet row 5"
    assert RowNames.of([[1]], pd.DataFrame({"a": [1]}, index=pd.Index([9], name="line"))).short(0) == "line 9"
    assert RowNames.of(pd.DataFrame({"a": [1]}, index=[9])).short(0) == "row 0"


TABLE = "a;b;y\n1,5;2;3\n2,5;4;5\n"


def test_decimal_commas_and_encodings(write):
    text = Text(sep=";", decimal=",")
    assert read_table(write(TABLE), target="y", text=text).X.tolist() == [[1.5, 2], [2.5, 4]]
    assert load_table(write(TABLE), target="y", decimal=",")[0].tolist() == [[1.5, 2], [2.5, 4]]
    assert "holds '1.000', a point although" in refused(write("a;y\n1.000;2\n"), text=text)
    path = write("größe,y\n1,2\n", encoding="latin-1")
    assert "byte 0xf6 is no utf-8; name its encoding with --encoding" in refused(path)
    assert read_table(path, target="y", text=Text(encoding="latin-1")).feature_names == ("größe",)
    path = write("a,y\n1,2\n", encoding="utf-16")
    assert "is no utf-8; name its encoding" in refused(path)
    assert "zero bytes" in refused(write("a,y\n1,2\n", "le.csv", encoding="utf-16-le"))
    assert read_table(path, target="y", text=Text(encoding="utf-16")).X.tolist() == [[1]]
    assert "encoding 'utf-9' is unknown" in refused(path, text=Text(encoding="utf-9"))
    assert "sep must be one character" in refused(path, text=Text(sep="::"))
    assert "decimal must be '.' or ','" in refused(path, text=Text(decimal=";"))
    assert "sep and decimal are both ','" in refused(path, text=Text(sep=",", decimal=","))


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "zip"])
def test_compressed_tables(tmp_path, suffix):
    path, raw = tmp_path / f"t.csv.{suffix}", TABLE.encode()
    if suffix == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("t.csv", raw)
    else:
        path.write_bytes({"gz": gzip, "bz2": bz2, "xz": lzma}[suffix].compress(raw))
    assert load_table(path, target="y", decimal=",")[0].tolist() == [[1.5, 2], [2.5, 4]]
    path.write_bytes(b"not compressed")
    assert "cannot be read as CSV" in refused(path)


def test_archives_that_are_no_table(tmp_path, monkeypatch):
    path = tmp_path / "t.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", TABLE)
        archive.writestr("b.csv", TABLE)
    assert "holds 2 files; a table is one file" in refused(path)
    with zipfile.ZipFile(path, "w") as archive:  # as macOS packs
        archive.writestr("t.csv", TABLE)
        archive.writestr("__MACOSX/._t.csv", b"\0\5")
    assert len(read_table(path, target="y", text=Text(None, "utf-8", ",")).X) == 2
    monkeypatch.setattr("covopt.data.readers.MOST_INFLATED", 10)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(TABLE.encode()))
    assert "inflates to more than" in refused(tmp_path / "t.csv.gz")
    assert "unknown file type '.npz' in .gz" in refused(tmp_path / "t.npz.gz")


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,y\n1,2\n3,4\n")))
    assert read_table("-", target="y").X.tolist() == [[1], [3]]
    done = CliRunner().invoke(app, ["solve", "-", "--target", "y", "--json"], input="a,y\n1,2\n3,4\n")
    assert json.loads(done.stdout)["certified"]


def test_feather_and_excel(tmp_path, monkeypatch):
    frame = pd.DataFrame({"a": [1, 2], "y": [3, 4]})
    frame.to_feather(tmp_path / "t.feather")
    assert read_table(tmp_path / "t.feather", target="y").X.tolist() == [[1], [2]]
    assert "is no text: sep, encoding and decimal" in refused(tmp_path / "t.feather", text=Text(sep=";"))
    (tmp_path / "t.xlsx").write_bytes(b"")
    monkeypatch.setattr(pd, "read_excel", lambda path: frame)
    assert read_table(tmp_path / "t.xlsx", target="y").features.index.name == "sheet row"

    monkeypatch.undo()
    pytest.importorskip("openpyxl")
    town = pd.DataFrame({"a": [0.1, 2.0], "town": ["Bern", None], "y": [3, 4]})
    town.to_excel(tmp_path / "t.xlsx", index=False)
    found = read_table(tmp_path / "t.xlsx", target="y")
    assert (found.X.tolist(), found.left_out) == ([[0.1], [2.0]], {"town": "text, as in 'Bern'"})
    town.drop(columns="town").assign(a=[0.1, None]).to_excel(tmp_path / "t.xlsx", index=False)
    assert (
        "X sheet row 3, column 'a' is NaN"
        in CliRunner().invoke(app, ["solve", str(tmp_path / "t.xlsx"), "--target", "y"]).stderr
    )

    def missing(path):
        raise ImportError("Missing optional dependency 'openpyxl'.")

    monkeypatch.setattr(pd, "read_excel", missing)
    assert "t.xlsx needs another package: Missing optional dependency 'openpyxl'" in refused(
        tmp_path / "t.xlsx"
    )


def test_a_whole_number_above_the_doubles_is_a_number():
    assert content_of(pd.Series([10**400, "2024-01-01"], dtype=object)).kind == "mixed"
    assert content_of(pd.Series([10**400, 3], dtype=object)).kind == "numbers"
    assert to_numbers(pd.Series([10**400, -3], dtype=object), "x", "t.csv", str, "").tolist() == [
        np.inf,
        -3.0,
    ]
    with pytest.raises(InputError, match="is -infinity"):
        Data.validate([[-(10**400)], [1]], [1.0, 2.0])


@pytest.mark.parametrize("first", ["9007199254740993", "18446744073709551617"])
def test_integers_that_no_double_holds_are_said(tmp_path, first):
    # two rows that differed in the last digit alone became one point without a word
    path = tmp_path / "t.csv"
    path.write_text(f"id,y\n4,2\n{first},1\n")
    with pytest.warns(
        TableWarning, match=f"column 'id', line 3 is {first}, which no double holds: it is read as"
    ):
        read_table(path, target="y")


def test_large_integers_of_arrays_and_frames_are_said():
    large = 2**53 + 1
    frame = pd.DataFrame({"a": [1, 2], "id": [5, large]})
    for X in (frame, frame.to_numpy(), frame.to_numpy().tolist(), [[1, 5], [2, 2**70 + 1]]):
        with pytest.warns(TableWarning, match=r"X row 1 \(counting from 0\), column 1.* no double holds"):
            Data.validate(X, [1.0, 2.0])
    Data.validate([[2**53, -(2**63)], [1, 2**70]], [1.0, 2.0])  # powers of two are doubles: no warning


@pytest.mark.parametrize("cell", ["0x1F", "3-8", "1/3"])
def test_text_that_begins_like_a_number_is_warned_about(tmp_path, cell):
    path = tmp_path / "table.csv"
    path.write_text("a,b,y\n" + "".join(f"{i},{cell},{i % 3}\n" for i in range(5)))
    with pytest.warns(TableWarning, match=rf"'b' \(.*, as in '{cell}'\)"):
        assert read_table(path, target="y").feature_names == ("a",)
