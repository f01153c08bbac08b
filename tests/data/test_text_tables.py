"""Tables of text in every encoding and with every end of a line; none is read that memory has no room for."""

import gzip

import numpy as np
import pandas as pd
import pytest

from covopt.checks.memory import memory_limited
from covopt.data.readers import Text, read_frame
from covopt.data.table_files import read_table
from covopt.errors import InputError

ROWS = [f'{i},{i / 7!r},"a ""b"", {i}\n c{i % 3}"' for i in range(40)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_text_is_read_as_it_was_written(tmp_path, end, encoding):
    path = tmp_path / "t.csv"
    rows = [*ROWS[:20], "", "  ", *ROWS[20:]]
    path.write_bytes(end.join(["", "x,y,town é", *rows, "", ""]).encode(encoding))
    text = Text(None, "utf-8" if encoding == "utf-8-sig" else encoding)
    frame, _ = read_frame(path, text)
    assert frame["town é"].tolist() == [f'a "b", {i}{chr(10)} c{i % 3}' for i in range(40)]
    assert frame["y"].tolist() == [i / 7 for i in range(40)]
    assert frame.index.tolist() == [3 + 2 * i + (2 if i >= 20 else 0) for i in range(40)]


def test_what_is_wrong_is_found_at_its_line(tmp_path):
    path = tmp_path / "t.csv.gz"
    lines = ["x,y", *(f"{i},{i}" for i in range(100))]

    def refused(line):
        path.write_bytes(gzip.compress(b"\n".join([*(each.encode() for each in lines[:90]), line])))
        with pytest.raises(InputError) as said:
            read_table(path, target=None, features=["x"]).check_inputs()
        return str(said.value)

    assert "line 91 holds 'a'" in refused(b"a,1")
    assert "line 91" in refused(b",1")
    assert "line 91 has 3 fields" in refused(b"1,2,3")
    assert "byte 0xff is no utf-8" in refused(b"1,\xff")


def test_a_limit_of_terabytes_is_not_asked_for(tmp_path):
    (tmp_path / "t.csv").write_text("x\n1\n")
    with memory_limited(1e6):
        assert read_table(tmp_path / "t.csv", target=None).X.tolist() == [[1.0]]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "feather", "npz"])
def test_a_table_that_there_is_no_room_for(tmp_path, suffix):
    path, X = tmp_path / f"t.{suffix}", np.zeros((100_000, 6))
    frame = pd.DataFrame(X, columns=list("abcdef"))
    if suffix == "npz":
        np.savez(path, X=X)
    elif suffix.startswith("csv"):
        path.write_bytes((b"a,b,c,d,e,f\n" + b"0,0,0,0,0,0\n" * len(X))[: 12 * len(X)])
        if suffix.endswith("gz"):
            path.write_bytes(gzip.compress(path.read_bytes()))
    else:
        getattr(frame, f"to_{suffix}")(path)
    with memory_limited(0.0005), pytest.raises(InputError, match=r"the table .* needs about .* the limit is"):
        read_table(path, target=None)
