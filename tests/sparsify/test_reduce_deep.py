from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covopt.network import ReLUNetwork
from covopt.network.deep import DeepReLUNetwork


def random_deep(rng, shape, *, biased=True, **options):
    weights = [rng.standard_normal((b, a)) / np.sqrt(a) for a, b in pairwise(shape)]
    biases = [rng.standard_normal(len(w)) if biased else None for w in weights]
    return DeepReLUNetwork(weights, biases, **options)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 5), st.lists(st.integers(1, 40), min_size=1, max_size=4),
    st.sampled_from(["covariances", "outputs"]), st.sampled_from([0.0, 0.3, -0.6]), st.booleans(),
)  # fmt: skip
def test_any_depth(seed, n, widths, preserve, slope, counts):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    options = {"slope": slope, "bias": 0.5, "counts_output_bias": counts}
    wide = random_deep(rng, (2, *widths, 2), biased=bool(seed % 2), **options)
    small = wide.reduce(X, preserve=preserve)
    assert all(1 <= a <= b for a, b in zip(small.widths, wide.widths, strict=True))
    scale = max(np.abs(z).max() for z in wide.representations(X))
    np.testing.assert_allclose(small.predict(X), wide.predict(X), atol=1e-9 * scale)
    assert small.squared_norm <= wide.squared_norm * (1 + 1e-9)
    assert [b is None for b in small.biases] == [b is None for b in wide.biases]
    assert options == {name: getattr(small, name) for name in options}


def test_sweeps_are_repeated_while_they_pay():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((6, 2))
    wide = random_deep(rng, (2, 60, 60, 60, 1))
    small = wide.reduce(X, preserve="outputs")
    again = small.reduce(X, preserve="outputs")
    assert again.squared_norm >= 0.95 * small.squared_norm
    np.testing.assert_allclose(again.predict(X), wide.predict(X), atol=1e-9 * np.abs(wide.predict(X)).max())


def test_two_layers_agree_with_the_shallow_network():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((5, 2))
    shallow = ReLUNetwork(
        rng.standard_normal((90, 3)), rng.standard_normal((90, 2)), 1.0, np.array([1.0, 2.0])
    )
    deep = DeepReLUNetwork(
        [shallow.hidden_weights[:, :2], shallow.output_weights.T],
        [shallow.hidden_weights[:, 2], shallow.output_bias],
    )
    np.testing.assert_allclose(deep.predict(X), shallow.predict(X), atol=1e-12)
    assert deep.squared_norm == pytest.approx(shallow.squared_norm)
    for preserve in ("covariances", "outputs"):
        a, b = deep.reduce(X, preserve=preserve), shallow.reduce(X, preserve=preserve)
        assert a.widths == (len(b),)
        assert a.squared_norm == pytest.approx(b.squared_norm)


def test_a_silent_layer_keeps_one_neuron():
    net = DeepReLUNetwork([-np.ones((3, 1)), np.ones((2, 3))], [None, np.array([1.0, 2.0])])
    small = net.reduce([[1.0], [2.0]], preserve="outputs")
    assert small.widths == (1,)
    np.testing.assert_allclose(small.predict([[1.0], [2.0]]), [[1.0, 2.0], [1.0, 2.0]])
