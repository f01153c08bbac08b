"""A folder with a table, and a solution of it."""

import numpy as np
import pandas as pd
import pytest

import covopt
from covopt.datasets import make_random_plane


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a table, in which a test runs."""
    monkeypatch.chdir(tmp_path)
    X, y = make_random_plane(12)
    kinds = np.array(["low", "mid", "high"])[np.digitize(y, np.quantile(y, [0.4, 0.7]))]
    frame = pd.DataFrame(
        {"a": X[:, 0], "b": X[:, 1], "y": y, "kind": kinds, "sign": np.where(y > 0, "up", "down")}
    )
    frame.to_csv("t.csv", index=False)
    return frame


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    """A file of a solution of that table."""
    X, y = make_random_plane(12)
    place = tmp_path_factory.mktemp("solved") / "s.json"
    covopt.min_norm(pd.DataFrame(X, columns=["a", "b"]), pd.Series(y, name="y")).save(place)
    return place
