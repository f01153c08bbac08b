"""Commands that are killed again and again go on each time, and end where they would have ended."""

import os

import pytest

from benchmarks.scale.kills import CASES, chain, write_tables

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are copied")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_fifty_kills_lose_nothing(name, tmp_path, monkeypatch):
    if name == "train":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    write_tables()
    row = chain(name, 50)
    assert row.held == row.kept >= 40  # the others were killed before there was anything to keep
    assert row.same
