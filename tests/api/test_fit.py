"""Fits and paths: history, tight sets, weights of zero, standardised columns, and where a path stops."""

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import covopt
from covopt.certificates.certify import Certifier
from covopt.errors import PathStoppedWarning, Status
from covopt.limits import TimeUp
from covopt.solvers.improve import Improvement
from covopt.solvers.loop import Point
from tests.cases import normal


@pytest.mark.thinned(4)
@pytest.mark.parametrize("kept", [1, 2, 3])
@pytest.mark.parametrize("output_bias", ["none", "penalized", "free"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_samples_without_weight_may_take_dimensions_with_them(kept, output_bias, outputs):
    """The rank is that of the rows that count: the oracle of more columns than lines answers anything."""
    X, Y = normal(0, (8, 3), (8, outputs))
    options = {"lam": 1e-2, "output_bias": output_bias}
    found = covopt.fit(X, Y, sample_weight=np.arange(8) < kept, **options)
    alone = covopt.fit(X[:kept], Y[:kept], **options)
    assert found.status is alone.status
    assert found.lower_bound <= alone.objective + 1e-12
    assert found.objective == pytest.approx(alone.objective, rel=2e-6, abs=1e-12)
    assert covopt.verify(found).ok


def test_separable_data_and_a_tiny_lambda():
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for name in ("logistic", "hinge", "squared-hinge"):
            found = covopt.fit(X, [0, 0, 1, 1], lam=1e-12, loss=name)
            assert found.status.code == "certified"
            assert np.isfinite(found.objective)


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_first_round_without_an_end_leaves_a_network(monkeypatch, is_cut):
    """120 rows and three classes: proofs took ten seconds before any network, and none was left."""

    def nothing(self, oracle):
        problem = self.problem
        if is_cut:
            raise TimeUp
        none = Point.nothing(problem, Status.TIME_LIMIT)
        yield self._improved(none, "column-generation")

    monkeypatch.setattr(Improvement, "_columns", nothing)
    X, y = normal(0, (12, 2), 12)
    found = covopt.fit(X, y, lam=1e-3, time_limit_s=10)
    assert found.status is Status.TIME_LIMIT
    assert 0 < len(found.network) <= len(X)
    assert covopt.verify(found).ok


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0.5, 1.0])
def test_a_search_that_ends_before_its_first_round_leaves_neurons(limit):
    """Eleven columns of very different sizes: bounds take the time that pricing left."""
    rng = np.random.default_rng(28)
    X = rng.standard_normal((80, 11)) * 10.0 ** rng.uniform(-3.0, 3.0, 11)
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(80) > 0, 1.0, -1.0)
    options = {"lam": 0.295, "loss": "logistic", "output_bias": "free", "random_state": 0}
    assert len(covopt.fit(X, y, time_limit_s=limit, **options).network) > 0


def test_a_stopped_path_says_where():
    X, y = normal(0, (12, 2), 12)
    calls = []

    def stop(state):
        calls.append(state)
        return len(calls) == 8

    with pytest.warns(PathStoppedWarning, match=r"stopped at lam = .*; \d of 6 points are certified"):
        some = covopt.path(X, y, n_lams=6, callback=stop)
    assert 0 < len(some) < 6
    assert some[-1].status.code == "callback"
    assert all(s.status.code == "certified" for s in some[:-1])
    with pytest.warns(PathStoppedWarning, match="time limit"):
        assert len(covopt.path(X, y, n_lams=6, time_limit_s=1e-9)) <= 1

    def interrupt(state):
        raise KeyboardInterrupt

    with pytest.warns(PathStoppedWarning, match="interrupted"):
        assert covopt.path(X, y, lams=[0.1, 0.01], callback=interrupt)[-1].status.code == "interrupted"


def test_an_interrupted_certificate_does_not_cost_the_path(monkeypatch):
    """Ctrl-C may come between the rounds of two points, where no solver is there to catch it."""
    X, y = normal(0, (12, 2), 12)
    calls = []

    def interrupted(*arguments, **problem):
        calls.append(arguments)
        if len(calls) in stop:
            raise KeyboardInterrupt
        return conclude(*arguments, **problem)

    conclude = Certifier.conclude
    monkeypatch.setattr(Certifier, "conclude", interrupted)
    for at, done in ((3, 2), (1, 0)):
        stop = [at]
        calls.clear()
        with pytest.warns(PathStoppedWarning, match=f"{done} of 5 points are certified"):
            found = covopt.path(X, y, n_lams=5)
        assert [s.status.code for s in found] == ["certified"] * done + ["interrupted"]
        assert covopt.verify(found[-1]).ok  # its bracket holds


# ---- ``standardise=True``: everything takes the user's columns, in any units; what else holds is in messages.txt.
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
