import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covopt.network import ReLUNetwork


@given(st.integers(0, 6), st.floats(0.1, 10), st.booleans())
def test_from_neurons_is_balanced_and_costs_twice_the_weights(m, bias, counts):
    rng = np.random.default_rng(m)
    neurons = rng.standard_normal((m, 3))
    neurons /= np.linalg.norm(neurons, axis=1, keepdims=True)
    weights = rng.standard_normal(m)
    network = ReLUNetwork.from_neurons(neurons, weights, bias=bias, offset=0.7, counts_output_bias=counts)
    np.testing.assert_allclose(
        np.linalg.norm(network.hidden_weights, axis=1), np.abs(network.output_weights[:, 0])
    )
    extra = (0.7 / bias) ** 2 if counts else 0.0
    assert network.squared_norm == pytest.approx(2 * np.abs(weights).sum() + extra, rel=1e-12)
    X = rng.standard_normal((4, 2))
    plain = np.maximum(np.column_stack([X, np.full(4, bias)]) @ neurons.T, 0) @ weights + 0.7
    np.testing.assert_allclose(network.predict(X), plain, atol=1e-12)


def test_without_neurons_it_is_its_output_bias():
    network = ReLUNetwork(np.zeros((0, 2)), np.zeros((0, 1)), 2.0, np.array([3.0]))
    assert network.predict([[1.0], [2.0]]).tolist() == [6.0, 6.0]
    assert network.squared_norm == 9.0
    assert len(network) == 0


def test_one_dimensional_input_is_one_sample_or_one_feature():
    one = ReLUNetwork(np.array([[1.0, 0.0]]), np.array([[1.0]]))
    assert one.predict([1.0, 2.0, -1.0]).tolist() == [1.0, 2.0, 0.0]
    two = ReLUNetwork(np.array([[1.0, 1.0, 0.0]]), np.array([[1.0]]))
    assert two.predict([1.0, 2.0]).tolist() == [3.0]
