import numpy as np
import pytest

import covopt
from covopt.errors import InputError
from covopt.limits import TimeUp
from covopt.solvers.improve import Improvement
from covopt.solvers.points import Point
from covopt.status import Status
from tests.solvers.test_regularised import BIASES, targets_for


def table(name, n=12, seed=0, k=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, targets_for(name, n, rng) if k is None else rng.standard_normal((n, k))


@pytest.mark.thinned(4)
@pytest.mark.parametrize("kept", [1, 2, 3])
@pytest.mark.parametrize("output_bias", BIASES)
@pytest.mark.parametrize("outputs", [1, 2])
def test_samples_without_weight_may_take_dimensions_with_them(kept, output_bias, outputs):
    """The rank is that of the rows that count: the oracle of more columns than lines answers anything."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((8, 3)), rng.standard_normal((8, outputs))
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


def test_history_is_in_the_users_units():
    X, y = table("squared", 20)
    found = covopt.fit(X, 50 * y, lam=1e-2)
    last = found.history[-1]
    assert last["upper_bound"] >= found.objective * (1 - 1e-9)
    assert last["upper_bound"] == pytest.approx(found.objective, rel=1e-5)
    # The certificate tries its own scalings of the dual: never worse than the last round's, often a little better.
    assert found.lower_bound >= last["lower_bound"] * (1 - 1e-9)
    assert found.lower_bound == pytest.approx(last["lower_bound"], rel=1e-5)


@pytest.mark.parametrize("name", ["squared", "softmax-cross-entropy"])
def test_the_tight_set_holds_the_neurons(name):
    found = covopt.fit(*table(name, 10), lam=1e-2, loss=name, tol=1e-9)
    tight = found.tight_set(1e-4)
    units = found.network.to_neurons()[0]
    assert len(tight.neurons) > 0
    assert (np.abs(tight.values) >= 1 - 1e-4).all()
    assert (units @ tight.neurons.T).max(axis=1).min() >= 1 - 1e-3
    assert found.is_unique is None
    assert "share their outputs" in found.uniqueness.reason
    with pytest.raises(InputError, match="sparsest minimiser is computed for interpolation"):
        found.sparsest()


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
    X, y = table("squared")
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
