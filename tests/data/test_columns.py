"""No column disappears without a word, and what is said names the lines of the file."""

import bz2
import gzip
import io
import json
import lzma
import re
import sys
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covopt.data import Data
from covopt.data.columns import content_of, holds_classes, is_constant, is_counter, to_numbers
from covopt.data.readers import Text
from covopt.data.table_files import read_table
from covopt.data.tabular import RowNames
from covopt.datasets import load_table
from covopt.errors import InputError, TableWarning
from tests.cases import cases
from tests.commands import run


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


UNNAMED = [  # and the place of the column without a name
    (",a,y\n0,0.5,2\n1,0.25,3\n", 0), (",a,y\n7,0.5,2\n3,0.25,3\n", 0), ("Unnamed: 0,a,y\n0,0.5,2\n1,0.25,3\n", 0),
    ("a,y,\n0.5,2,\n0.25,3,\n", 2),
]  # fmt: skip
LESS = "id,a,b,town,-c,y\n1,5,1,Bern,0,2\n2,4,3,Thun,1,5\n"
DAYS = "town,day,open,a,w,y\nBern,2020-01-01,yes,1,1,0\nThun,2020-01-02,no,2,1,3\nGenf,2020-02-03,no,4,1,1\n"
READ = cases(
    "tables, how they are asked for, what is read, and the warning",
    Text=Text,
    UNNAMED=UNNAMED,
    LESS=LESS,
    DAYS=DAYS,
)


@pytest.mark.parametrize(("name", "content", "options", "expected", "warning"), READ)
def test_what_is_read(tmp_path, name, content, options, expected, warning):
    path = tmp_path / name
    if isinstance(content, dict):
        np.savez(path, **content)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", TableWarning)
        found = read_table(path, **{"target": "y", **options})
    assert len(said) == bool(warning) and all(re.search(warning, str(each.message)) for each in said)
    for field, value in expected.items():
        seen = getattr(found, field)
        assert (seen.tolist() if hasattr(seen, "tolist") else seen) == value


def test_what_counts_rows():
    assert not is_counter("id", pd.Series([0, 2, 3])) and not is_counter("id", pd.Series([5, 6, 7]))
    assert not is_counter("age", pd.Series([0, 1, 2])) and not is_counter("idle", pd.Series([0, 1, 2]))
    names = ("PassengerId", "customer id", "row_id", "ROW", "#")
    assert all(is_counter(name, pd.Series([1, 2, 3])) for name in names)
    assert not is_counter("id", pd.Series([0.0, 1.0]))


ODD = dict(cases("numbers in another writing, and what it is called: text where nothing"))


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


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_numbers(value):
    assert content_of(pd.Series([repr(value), "1"])).kind == "numbers"


TABLE = "a;b;y\n1,5;2;3\n2,5;4;5\n"


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


def test_feather_and_excel(tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "y": [3, 4]})
    frame.to_feather(tmp_path / "t.feather")
    assert read_table(tmp_path / "t.feather", target="y").X.tolist() == [[1], [2]]
    assert "is no text: sep, encoding and decimal" in refused(tmp_path / "t.feather", text=Text(sep=";"))
    pytest.importorskip("openpyxl")
    town = pd.DataFrame({"a": [0.1, 2.0], "town": ["Bern", None], "y": [3, 4]})
    town.to_excel(tmp_path / "t.xlsx", index=False)
    found = read_table(tmp_path / "t.xlsx", target="y")
    assert (found.X.tolist(), found.left_out) == ([[0.1], [2.0]], {"town": "text, as in 'Bern'"})
    town.drop(columns="town").assign(a=[0.1, None]).to_excel(tmp_path / "t.xlsx", index=False)
    assert "X sheet row 3, column 'a' is NaN" in run("solve", tmp_path / "t.xlsx", "--target", "y").stderr


def test_a_whole_number_above_the_doubles_is_a_number():
    assert content_of(pd.Series([10**400, "2024-01-01"], dtype=object)).kind == "mixed"
    assert content_of(pd.Series([10**400, 3], dtype=object)).kind == "numbers"
    assert to_numbers(pd.Series([10**400, -3], dtype=object), "x", "t.csv").tolist() == [
        np.inf,
        -3.0,
    ]
    with pytest.raises(InputError, match="is -infinity"):
        Data.validate([[-(10**400)], [1]], [1.0, 2.0])


def test_dates_and_lists_of_other_types_and_columns_of_one_number(tmp_path, write):
    path, dates = tmp_path / "t.parquet", pd.to_datetime(["2020-01-01", "2021-01-01"])
    pd.DataFrame({"t": dates, "l": [[1], [2]], "a": [1, 2], "y": [1, 2]}).to_parquet(path)
    with pytest.warns(TableWarning, match="'t'"):
        found = read_table(path, target="y")
    assert found.feature_names == ("a",) and found.left_out["l"].startswith("text")
    assert not is_constant(pd.Series([1.0, np.nan])) and not is_constant(pd.Series([1.0] * 3))


def test_names_of_rows(write):
    assert RowNames().take(np.array([4, 7])).one(1) == "row 7 (counting from 0)"
    assert RowNames([3, 5], "sheet row").take(np.array([1])).one(0) == "sheet row 5"
    assert RowNames.of([[1]], pd.DataFrame({"a": [1]}, index=pd.Index([9], name="line"))).short(0) == "line 9"
    assert RowNames.of(pd.DataFrame({"a": [1]}, index=[9])).short(0) == "row 0"


def test_decimal_commas_encodings_archives_and_standard_input(write, tmp_path, monkeypatch):
    path = tmp_path / "plain.zip"  # it may be called anything
    for name, content, found in (
        ("t.tsv", "a\ty\n1\t2\n3\t4\n", [[1.0], [3.0]]),
        ("t.csv", "a,y\n5,2\n", [[5.0]]),
    ):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("__MACOSX/._" + name, b"\0\5")  # as macOS packs
            archive.writestr(name, content)
        assert read_table(path, target="y").X.tolist() == found
    monkeypatch.setattr("covopt.data.readers.MOST_INFLATED", 10)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(TABLE.encode()))
    assert "inflates to more than" in refused(tmp_path / "t.csv.gz")
    monkeypatch.undo()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,y\n1,2\n3,4\n")))
    assert read_table("-", target="y").X.tolist() == [[1], [3]]
    assert json.loads(run("solve", "-", "--target", "y", "--json", input="a,y\n1,2\n3,4\n").stdout)[
        "certified"
    ]


def test_large_integers_of_arrays_and_frames_are_said():
    frame = pd.DataFrame({"a": [1, 2], "id": [5, 2**53 + 1]})
    for X in (frame, frame.to_numpy(), [[1, 5], [2, 2**70 + 1]]):
        with pytest.warns(TableWarning, match=r"X row 1 \(counting from 0\), column 1.* no double holds"):
            Data.validate(X, [1.0, 2.0])
    Data.validate([[2**53, -(2**63)], [1, 2**70]], [1.0, 2.0])  # powers of two are doubles: no warning


CLASSES = {
    True: (["a", "b", "c"], [True, False], [0, 1, 1], [-1.0, 1.0], [0, 1, 2] * 10, [1, 2, 3] * 10),
    False: ([1, 2], [0, 1, 2] * 9, [0, 2, 4] * 20, [0.5, 1.5] * 30, [2**70, 1]),
}


def test_which_targets_are_classes():
    assert {kind: {holds_classes(pd.Series(values)) for values in of} for kind, of in CLASSES.items()} == {
        True: {True}, False: {False}
    }  # fmt: skip


def test_rows_that_lack_a_value_are_dropped_where_that_is_asked_for(write):
    said = refused(write("a,b,y\n1,,2\n,2,3\n"), drop_missing=True)
    assert "every row lacks a value in a column that is used" in said
    path = write("town,a,y\nBern,1,2\n,2,3\nThun,4,5\n")
    found = read_table(path, target="y", words=True, drop_missing=True)
    assert (found.feature_names, found.dropped, found.lacking) == (("town=Thun", "a"), 1, {"town": 1})
    assert found.X.tolist() == [[0.0, 1.0], [1.0, 4.0]] and found.index[1] == 4
