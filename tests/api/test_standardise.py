"""``standardise=True``: everything takes the user's columns, in any units; what else holds is in messages.txt."""

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import covopt


def make(n=14, seed=0, d=2):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(1950, 2020, n) + rng.random(n), *rng.uniform(2e4, 9e4, (d - 1, n))])
    return X, 300.0 + np.abs(X[:, 0] - 1990.0) + X[:, -1] / 1e4 + rng.standard_normal(n)


@settings(max_examples=5)
@given(st.floats(1e-6, 1e6), st.floats(-1e4, 1e4), st.booleans())
def test_units_of_the_columns_do_not_matter(scale, shift, flip):
    X, y = make(8, 3)
    moved = X * np.array([scale, -1.0 if flip else 1.0]) + np.array([shift * scale, 7.0])
    one, other = (
        covopt.fit(x, y + c, lam="0.05max", standardise=True) for x, c in ((X, 0.0), (moved, shift))
    )
    assert one.objective == pytest.approx(other.objective, rel=3e-6)
    assert one.status == other.status == "certified"


def test_the_network_takes_the_columns_of_the_user(tmp_path):
    X, y = make()
    found = covopt.fit(X, y, lam="0.01max", standardise=True)
    said = found.network.predict(X)
    assert np.corrcoef(said, y)[0, 1] > 0.9
    np.testing.assert_allclose(found.network.folded().predict(X), said, rtol=1e-11)
    assert found.network.folded().folded().scaling is None
    frame = pd.DataFrame(X[:, ::-1], columns=["income", "year"])
    named = covopt.fit(pd.DataFrame(X, columns=["year", "income"]), y, lam="0.01max", standardise=True)
    np.testing.assert_allclose(named.network.predict(frame), said, rtol=1e-12)
    with torch.no_grad():
        np.testing.assert_allclose(found.network.to_torch()(torch.tensor(X)).numpy()[:, 0], said, rtol=1e-11)
    found.network.to_onnx(tmp_path / "net.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    np.testing.assert_allclose(session.run(["Y"], {"X": X})[0][:, 0], said, rtol=1e-11)
    smaller = found.network.reduce(X, preserve="outputs")
    np.testing.assert_allclose(smaller.predict(X), said, rtol=1e-9)
