"""Large files are read and written a piece at a time, so that deadlines and interrupts are heard, and as before."""

from __future__ import annotations

import gc
import io
import json

import numpy as np
import pytest

from covopt.data.table_files import read_table
from covopt.files import atomic, reading, write_json
from covopt.files.many_lists import many_lists
from covopt.limits import TimeUp, limited

CONTENTS = (
    {},
    [],
    {"a": [], "b": {}},
    [[1.5, -2.0]] * 25,
    [list(range(50)), [], [[0.1] * 7] * 9],
    {"x": [[[1.0, 2.0]] * 13] * 4, "ä": None, "y": {"z": [True, "é"] * 30, 'q"': 1}},
    [{"name": "n", "values": [1, 2, 3]}] * 12,
    {"not": {1: "a name that is no text", 2.5: None}},
    3.5,
)


@pytest.mark.parametrize("content", CONTENTS)
def test_what_is_written_in_pieces_is_what_json_writes(content, tmp_path, monkeypatch):
    lengths = []
    plain, expected = json.dumps, json.dumps(content)

    def counted(part, **options):
        lengths.append(np.size(part) if isinstance(part, list) and part and isinstance(part[0], float) else 1)
        return plain(part, **options)

    monkeypatch.setattr(atomic, "ENTRIES", 10)
    monkeypatch.setattr(json, "dumps", counted)
    write_json(tmp_path / "content.json", content)
    assert (tmp_path / "content.json").read_text() == expected + "\n"
    assert max(lengths, default=0) <= 10


def test_a_number_that_is_not_finite_leaves_the_old_file(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "ENTRIES", 10)
    write_json(tmp_path / "content.json", [1.0])
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "content.json", [[1.0] * 30, [float("nan")]])
    assert (tmp_path / "content.json").read_text() == "[1.0]\n"
    assert gc.isenabled()


def test_a_deadline_is_heard_while_a_long_file_is_read():
    numbers = np.random.default_rng(0).standard_normal(150_000).tolist()
    raw = json.dumps(numbers).encode()
    assert len(raw) > reading.LONG
    with pytest.raises(TimeUp), limited(0.005):
        reading.parse_json(raw)
    assert gc.isenabled()
    assert reading.parse_json(raw) == numbers


def test_a_deadline_is_heard_while_a_long_table_is_read(tmp_path):
    numbers = np.random.default_rng(0).standard_normal((2000, 3))
    stream = io.StringIO()
    np.savetxt(stream, numbers, delimiter=",", header="a,b,y", comments="", fmt="%.17g")
    head, _, rows = stream.getvalue().partition("\n")
    (tmp_path / "table.csv").write_text(f"{head}\n{rows * 30}")
    read = read_table(tmp_path / "table.csv", target="y")
    assert np.array_equal(read.X, np.tile(numbers[:, :2], (30, 1)))
    with pytest.raises(TimeUp), limited(0.01):
        read_table(tmp_path / "table.csv", target="y")


def test_the_collector_is_left_as_it_was():
    with pytest.raises(ZeroDivisionError), many_lists():
        assert not gc.isenabled()
        raise ZeroDivisionError
    assert gc.isenabled()
    gc.disable()
    try:
        with many_lists():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
