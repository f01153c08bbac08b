"""Large files: deadlines are heard."""

from __future__ import annotations

import io

import numpy as np
import pytest

from covopt.data.table_files import read_table
from covopt.limits import TimeUp, limited


def test_a_deadline_is_heard_while_a_long_table_is_read(tmp_path):
    numbers = np.random.default_rng(0).standard_normal((2000, 3))
    stream = io.StringIO()
    np.savetxt(stream, numbers, delimiter=",", header="a,b,y", comments="", fmt="%.17g")
    head, _, rows = stream.getvalue().partition("\n")
    (tmp_path / "table.csv").write_text(f"{head}\n{rows * 30}")
    read = read_table(tmp_path / "table.csv", target="y")
    assert np.array_equal(read.X, np.tile(numbers[:, :2], (30, 1)))
    with pytest.raises(TimeUp), limited(0.01):
        while True:  # Python drops an alarm that falls into a callback of the collector
            read_table(tmp_path / "table.csv", target="y")
