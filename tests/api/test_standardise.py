"""``standardise=True``: the problem is that of the standardised table, and everything takes the user's columns."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import covopt
from covopt.data import Data
from covopt.data.scaling import standardise
from covopt.errors import SolutionFileError
from covopt.solution.summary import predict_columns


def make(n=14, seed=0, d=2):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(1950, 2020, n) + rng.random(n), *rng.uniform(2e4, 9e4, (d - 1, n))])
    return X, 300.0 + np.abs(X[:, 0] - 1990.0) + X[:, -1] / 1e4 + rng.standard_normal(n)


def failures(solution):
    return {check.name: check.detail for check in covopt.verify(solution).checks if not check.ok}


def by_hand(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


@pytest.fixture(scope="module")
def fitted():
    X, y = make()
    return X, y, covopt.fit(X, y, lam="0.01max", standardise=True)


def test_it_is_the_problem_of_the_standardised_table(fitted):
    X, y, found = fitted
    known = covopt.fit(by_hand(X), y - y.mean(), lam="0.01max")
    assert found.status == "certified"
    assert found.lam == pytest.approx(known.lam, rel=1e-9)
    assert found.objective == pytest.approx(known.objective, rel=3e-6)
    np.testing.assert_allclose(
        found.network.predict(X), known.network.predict(by_hand(X)) + y.mean(), rtol=1e-3
    )
    assert covopt.lambda_max(X, y, standardise=True) == pytest.approx(
        covopt.lambda_max(by_hand(X), y - y.mean())
    )
    assert found.data.X.mean() == pytest.approx(0.0, abs=1e-12)
    assert found.cost == found.network.squared_norm
    through, same = covopt.min_norm(X, y, standardise=True), covopt.min_norm(by_hand(X), y - y.mean())
    assert through.cost == pytest.approx(same.cost, rel=3e-6)
    np.testing.assert_allclose(through.network.predict(X), y, rtol=1e-11)
    assert "standardised   columns of mean 0 and variance 1, y less " in through.summary()
    assert "on standardised columns" in repr(through.network)


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


def test_the_network_takes_the_columns_of_the_user(fitted, tmp_path):
    X, y, found = fitted
    said = found.network.predict(X)
    assert np.corrcoef(said, y)[0, 1] > 0.9
    np.testing.assert_allclose(found.network.folded().predict(X), said, rtol=1e-11)
    assert found.network.folded().folded().scaling is None
    frame = pd.DataFrame(X[:, ::-1], columns=["income", "year"])
    named = covopt.fit(pd.DataFrame(X, columns=["year", "income"]), y, lam="0.01max", standardise=True)
    np.testing.assert_allclose(named.network.predict(frame), said, rtol=1e-12)
    torch = pytest.importorskip("torch")
    with torch.no_grad():
        np.testing.assert_allclose(found.network.to_torch()(torch.tensor(X)).numpy()[:, 0], said, rtol=1e-11)
    runtime = pytest.importorskip("onnxruntime")
    found.network.to_onnx(tmp_path / "net.onnx")
    session = runtime.InferenceSession(tmp_path / "net.onnx")
    np.testing.assert_allclose(session.run(["Y"], {"X": X})[0][:, 0], said, rtol=1e-11)
    smaller = found.network.reduce(X, preserve="outputs")
    np.testing.assert_allclose(smaller.predict(X), said, rtol=1e-9)


def test_files_keep_it(fitted, tmp_path):
    X, y, found = fitted
    found.save(tmp_path / "s.json")
    again = covopt.load(tmp_path / "s.json")
    np.testing.assert_array_equal(again.network.predict(X), found.network.predict(X))
    assert covopt.verify(again).ok
    assert covopt.verify(again, X[::-1], y[::-1]).ok
    assert not covopt.verify(again, by_hand(X), y - y.mean()).ok  # the columns are the user's
    content = json.loads((tmp_path / "s.json").read_text())
    assert content["schema"] == 3
    with pytest.raises(SolutionFileError, match="schema"):  # a covopt that knows no scaling
        covopt.Solution.from_dict({**content, "schema": 5})
    assert json.loads(json.dumps(covopt.fit(X, y, lam="max").to_dict()))["schema"] == 2


def test_forged_scalings_fail(fitted):
    X, y, found = fitted
    content = json.loads(json.dumps(found.to_dict()))
    content["problem"]["scaling"]["centre"][0] += 1.0  # predictions would move, the certificate would not
    forged = covopt.Solution.from_dict(content)
    failed = [check.name for check in covopt.verify(forged, X, y).checks if not check.ok]
    assert failed == ["table"]
    content = json.loads(json.dumps(found.to_dict()))
    content["problem"]["X"] = (2.0 * found.data.X).tolist()
    failed = failures(covopt.Solution.from_dict(content))
    assert "spread 2, not 0 and 1" in failed["standardised"]
    content = json.loads(json.dumps(found.to_dict()))
    content["problem"]["Y"] = (found.data.Y + 50.0).tolist()
    failed = failures(covopt.Solution.from_dict(content))
    assert "targets have mean 50" in failed["standardised"]


def test_paths_starts_and_minimisers(fitted):
    X, y, found = fitted
    points = covopt.path(X, y, n_lams=3, standardise=True)
    assert all(point.scaling is not None for point in points)
    assert covopt.verify(points, X, y).ok
    warm = covopt.fit(X, y, lam="0.02max", standardise=True, start=found)
    assert warm.status == "certified"
    mixed = [points[0], covopt.fit(X, y, lam=points[1].lam)]
    assert not covopt.verify(mixed).ok
    through = covopt.min_norm(X[:8], y[:8], standardise=True)
    np.testing.assert_allclose(through.sparsest().network.predict(X[:8]), y[:8], rtol=1e-6)
    assert covopt.verify(through, exact=True).ok


def test_without_a_bias_nothing_is_centred():
    X, y = make(6)
    found = covopt.fit(X, y, bias=0, standardise=True, lam="0.1max")
    assert not found.scaling.centre.any()
    assert not found.scaling.target_centre.any()
    np.testing.assert_allclose((found.data.X**2).mean(axis=0), 1.0)
    assert covopt.verify(found, X, y).ok
    assert "columns divided by their size" in found.summary()
    np.testing.assert_allclose(found.network.folded().predict(X), found.network.predict(X))


def test_weights_count_in_means():
    X, y = make(6)
    twice = covopt.fit(np.vstack([X, X[:2]]), np.append(y, y[:2]), lam="0.05max", standardise=True)
    weighed = covopt.fit(X, y, lam="0.05max", standardise=True, sample_weight=[2, 2, 1, 1, 1, 1])
    assert weighed.objective == pytest.approx(twice.objective, rel=3e-6)
    np.testing.assert_allclose(weighed.scaling.centre, twice.scaling.centre)
    assert covopt.verify(weighed, X, y).ok
    left = covopt.fit(np.vstack([X, [[1e9, 0.0]]]), np.append(y, 1e9), lam="0.05max", standardise=True,
                      sample_weight=[2, 2, 1, 1, 1, 1, 0])  # fmt: skip
    np.testing.assert_allclose(left.scaling.scale, twice.scaling.scale)


def test_classes_are_not_centred_and_outputs_are():
    X, y = make(16)
    labels = np.where(y > np.median(y), "dear", "cheap")
    found = covopt.fit(X, labels, loss="logistic", lam="0.05max", standardise=True)
    known = covopt.fit(by_hand(X), labels, loss="logistic", lam="0.05max")
    assert found.objective == pytest.approx(known.objective, rel=3e-6)
    assert covopt.verify(found, X, labels).ok
    assert predict_columns(found, X)["y"].tolist() == predict_columns(known, by_hand(X))["y"].tolist()
    both = covopt.min_norm(X[:8], np.column_stack([y, -2.0 * y])[:8], standardise=True)
    np.testing.assert_allclose(both.network.predict(X[:8])[:, 1], -2.0 * y[:8], rtol=1e-9)


@pytest.mark.parametrize(
    ("column", "scale"),
    [
        ([5.0, 5.0, 5.0], 1.0),
        ([1e300, -1e300, 0.0], None),
        ([1e-300, 3e-300, 2e-300], None),
        ([0.0, 0.0, 0.0], 1.0),
    ],
)
def test_columns_that_are_constant_or_enormous(column, scale):
    X = np.column_stack([column, [0.0, 1.0, 5.0]])
    data, scaling = standardise(Data.validate(X, [0.0, 1.0, 0.0]))
    assert np.isfinite(data.X).all()
    if scale is None:
        np.testing.assert_allclose(data.X[:, 0].std(), 1.0)
    else:
        assert scaling.scale[0] == scale
        assert not data.X[:, 0].any()
    assert covopt.verify(covopt.min_norm(X, [0.0, 1.0, 0.0], standardise=True), X, [0.0, 1.0, 0.0]).ok


@pytest.mark.parametrize("output_bias", ["none", "penalized", "free"])
@pytest.mark.parametrize("lam", [0.01, "0.1max"])
@pytest.mark.parametrize("value", [3.7, 0.1, -1e6])
def test_a_constant_target_is_one_answer(value, lam, output_bias):
    X, _ = make()
    found = covopt.fit(X, np.full(len(X), value), lam=lam, standardise=True, output_bias=output_bias)
    assert (found.status, len(found.network), found.gap) == ("certified", 0, 0.0)
    np.testing.assert_array_equal(found.network.predict(X), np.full(len(X), value))
    assert covopt.verify(found).ok
