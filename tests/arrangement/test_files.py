"""Cells on disk: streamed in bounded memory, the same as in memory."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest
from joblib import parallel_config
from pyarrow import parquet

from covopt import enumerate_cells
from covopt.arrangement import files
from covopt.arrangement.files import most_cells, write_cells
from tests.cases import traced_memory


def sorted_rows(rows):
    return rows[np.lexsort(rows.T[::-1])]


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
@pytest.mark.parametrize(("n", "d"), [(9, 2), (17, 3), (3, 4)])
def test_streamed_cells_are_the_cells(suffix, n, d, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PIECE", 256)  # several blocks
    X = np.random.default_rng(n).standard_normal((n, d))
    said = []
    count = write_cells(X, tmp_path / f"cells{suffix}", bias=1.0, report=said.append)
    whole = enumerate_cells(X, bias=1.0)
    if suffix == ".npy":
        packed = np.load(tmp_path / "cells.npy", mmap_mode="r")
    else:
        column = parquet.read_table(tmp_path / "cells.parquet")["pattern"].to_pylist()
        packed = np.array([list(pattern) for pattern in column], dtype=np.uint8)
    assert packed.shape == whole.packed.shape
    assert count == said[-1] == len(whole) == most_cells(X, bias=1.0)
    np.testing.assert_array_equal(sorted_rows(np.array(packed)), sorted_rows(whole.packed))


def test_degenerate_tables_have_fewer_cells_than_most(tmp_path):
    X = [[0, 0], [1, 1], [2, 2], [0, 1]]
    count = write_cells(X, tmp_path / "c.npy", bias=1.0)
    assert count == len(enumerate_cells(X, bias=1.0)) < most_cells(X, bias=1.0)
    assert most_cells([[0.0, 0.0]]) == write_cells([[0.0, 0.0]], tmp_path / "zero.npy") == 1


def test_a_run_that_is_interrupted_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write_cells(np.eye(4), tmp_path / "c.npy", report=Mock(side_effect=KeyboardInterrupt))
    assert list(tmp_path.iterdir()) == []


def test_memory_is_bounded(tmp_path, monkeypatch):
    """850,000 cells of eight bytes are written in less memory than they take."""
    monkeypatch.setattr(files, "PIECE", 1 << 19)
    X = np.random.default_rng(0).standard_normal((58, 4))
    with traced_memory() as peak:
        count = files.write_cells(X, tmp_path / "all.npy", bias=1.0)
        assert peak() < 5_000_000
    assert np.load(tmp_path / "all.npy", mmap_mode="r").shape == (count, 8) and count > 800_000


def test_cells_of_a_cluster_are_those_of_this_machine():
    import distributed

    X = np.random.default_rng(0).standard_normal((12, 3))
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        parallel_config(backend="dask"),
    ):
        found = enumerate_cells(X, n_jobs=2)
    np.testing.assert_array_equal(sorted_rows(found.packed), sorted_rows(enumerate_cells(X).packed))
