"""Tables of text by blocks of lines are the tables as a whole, and none is read that memory has no room for."""

import gzip

import numpy as np
import pandas as pd
import pytest

from covopt.checks.memory import memory_limited
from covopt.data import readers
from covopt.data.readers import raw_blocks, read_raw
from covopt.data.rows import Text
from covopt.data.table_files import read_inputs, read_table
from covopt.errors import InputError

ROWS = [f'{i},{i / 7!r},"a ""b"", {i}\n c{i % 3}"' for i in range(40)]


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(readers, "LEAST_BLOCK", 50)
    monkeypatch.setattr(readers, "MOST_BLOCK", 50)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_blocks_are_the_whole(tmp_path, end, encoding):
    path = tmp_path / "t.csv"
    rows = [*ROWS[:20], "", "  ", *ROWS[20:]]
    path.write_bytes(end.join(["", "x,y,town é", *rows, "", ""]).encode(encoding))
    text = Text(None, "utf-8" if encoding == "utf-8-sig" else encoding)
    whole, parts = read_raw(path, text), list(raw_blocks(path, text))
    assert len(parts) > 10
    found = pd.concat([part.frame for part in parts], ignore_index=True)
    pd.testing.assert_frame_equal(found, whole.frame)
    assert np.concatenate([part.labels for part in parts]).tolist() == whole.labels.tolist()


@pytest.mark.usefixtures("small_blocks")
def test_what_is_wrong_in_a_later_block_is_found_at_its_line(tmp_path):
    path = tmp_path / "t.csv.gz"
    lines = ["x,y", *(f"{i},{i}" for i in range(100))]

    def refused(line):
        path.write_bytes(gzip.compress(b"\n".join([*(each.encode() for each in lines[:90]), line])))
        with pytest.raises(InputError) as said:
            list(read_inputs(path, ["x"]))
        with pytest.raises(InputError) as whole:
            read_table(path, target=None, features=["x"]).check_inputs()
        assert str(said.value) == str(whole.value)
        return str(said.value)

    assert "line 91 holds 'a'" in refused(b"a,1")
    assert "line 91" in refused(b",1")
    assert "line 91 has 3 fields" in refused(b"1,2,3")
    assert "byte 0xff is no utf-8" in refused(b"1,\xff")
    assert "a line of more than" in _long(path)


def test_a_limit_of_terabytes_is_not_asked_for(tmp_path):
    (tmp_path / "t.csv").write_text("x\n1\n")
    with memory_limited(1e6):
        assert read_table(tmp_path / "t.csv", target=None).X.tolist() == [[1.0]]


def _long(path):
    path.write_bytes(gzip.compress(b"x,y\n" + b"1" * 1000 + b",1\n"))
    with pytest.raises(InputError) as said:
        list(read_inputs(path, ["x"]))
    return str(said.value)


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
    with memory_limited(0.0005 if "csv" in suffix else 0.1):
        assert (
            sum(len(each.X) for each in read_inputs(path, list("abc") if suffix != "npz" else ["x0"]))
            > 99_000
        )
