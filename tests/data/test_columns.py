"""No column disappears without a word, and what is said names the lines of the file."""

import gzip
import io
import json
import re
import sys
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covopt.checks.memory import memory_limited
from covopt.data import columns, readers
from covopt.data.readers import Text, read_frame
from covopt.data.table_files import read_table
from covopt.errors import InputError, TableWarning
from tests.cases import cases
from tests.commands import run


def packed(**files):
    """Return an archive of texts, as macOS packs them."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"__MACOSX/._{name}", b"\0\5")
            archive.writestr(name.replace("_", "."), text)
    return stream.getvalue()


NAMELESS = [  # and the place of the column without a name
    (",a,y\n0,0.5,2\n1,0.25,3\n", 0), (",a,y\n7,0.5,2\n3,0.25,3\n", 0), ("Unnamed: 0,a,y\n0,0.5,2\n1,0.25,3\n", 0),
    ("a,y,\n0.5,2,\n0.25,3,\n", 2),
]  # fmt: skip
LESS = "id,a,b,town,-c,y\n1,5,1,Bern,0,2\n2,4,3,Thun,1,5\n"
DAYS = "town,day,open,a,w,y\nBern,2020-01-01,yes,1,1,0\nThun,2020-01-02,no,2,1,3\nGenf,2020-02-03,no,4,1,1\n"
COMMAS = "a;b;y\n1,5;2;3\n2,5;4;5\n"
READ = cases(
    "tables, how they are asked for, what is read, and the warning", **vars(readers), pd=pd, packed=packed,
    NAMELESS=NAMELESS, LESS=LESS, DAYS=DAYS, COMMAS=COMMAS,
)  # fmt: skip


@pytest.mark.parametrize(("name", "content", "options", "expected", "warning"), READ, ids=range(len(READ)))
def test_what_is_read(tmp_path, name, content, options, expected, warning):
    path = tmp_path / name
    if callable(content):
        content(path)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", TableWarning)
        found = read_table(path, **{"target": "y", **options})
    assert len(said) == bool(warning) and all(re.search(warning, str(each.message)) for each in said)
    for field, value in expected.items():
        seen = getattr(found, field)
        assert (seen.tolist() if hasattr(seen, "tolist") else seen) == value


ODD = dict(cases("numbers in another writing, and what it is called: text where nothing"))


@pytest.mark.parametrize("text", ODD)
def test_numbers_in_another_writing_are_refused(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n" + "".join(f'"{text}",{i},{i * i}\n' for i in range(3)))
    if not ODD[text]:
        assert "text, as in" in read_table(path, target="y").left_out["a"]
        return
    with pytest.raises(InputError) as refused:
        read_table(path, target="y")
    for part in (
        ODD[text],
        "column 'a' is not numeric: line 2 holds",
        "leave it out with --features=-a (features='-a')",
    ):
        assert part in str(refused.value)
    for features in ("-a", "b"):
        assert read_table(path, target="y", features=features).left_out == {"a": "not asked for"}


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_numbers(value):
    assert columns.content_of(pd.Series([repr(value), "1"])).kind == "numbers"


def test_standard_input_and_what_inflates_too_much(tmp_path, monkeypatch):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(COMMAS.encode()))
    with monkeypatch.context() as patch, pytest.raises(InputError, match="inflates to more than"):
        patch.setattr("covopt.data.readers.MOST_INFLATED", 10)
        read_table(tmp_path / "t.csv.gz", target="y")
    table = "a,y\n1,2\n3,4\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(table.encode())))
    assert read_table("-", target="y").X.tolist() == [[1], [3]]
    assert json.loads(run("solve", "-", "--target", "y", "--json", input=table).stdout)["certified"]


ROWS = [f'{i},{i / 7!r},"a ""b"", {i}\n c{i % 3}"' for i in range(40)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_text_is_read_as_it_was_written(tmp_path, end, encoding):
    path = tmp_path / "t.csv"
    rows = [*ROWS[:20], "", "  ", *ROWS[20:]]
    path.write_bytes(end.join(["", "x,y,town é", *rows, "", ""]).encode(encoding))
    frame, _ = read_frame(path, Text(None, "utf-8" if encoding == "utf-8-sig" else encoding))
    assert frame["town é"].tolist() == [f'a "b", {i}{chr(10)} c{i % 3}' for i in range(40)]
    assert frame["y"].tolist() == [i / 7 for i in range(40)]
    assert frame.index.tolist() == [3 + 2 * i + (2 if i >= 20 else 0) for i in range(40)]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "feather", "npz"])
def test_a_table_that_there_is_no_room_for(tmp_path, suffix):
    path, frame = tmp_path / f"t.{suffix}", pd.DataFrame(np.zeros((100_000, 6)), columns=list("abcdef"))
    if suffix == "npz":
        np.savez(path, X=frame.to_numpy())
    elif suffix.startswith("csv"):
        raw = b"a,b,c,d,e,f\n" + b"0,0,0,0,0,0\n" * 99_999
        path.write_bytes(gzip.compress(raw) if suffix.endswith("gz") else raw)
    else:
        getattr(frame, f"to_{suffix}")(path)
    with memory_limited(0.0005), pytest.raises(InputError, match=r"the table .* needs about .* the limit is"):
        read_table(path, target=None)
    if suffix == "csv":  # a limit of terabytes is not asked for
        with memory_limited(1e6):
            assert read_table(path, target=None, features="a").X.shape == (99_999, 1)
