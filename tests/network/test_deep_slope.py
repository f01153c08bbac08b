"""Deep networks of σ_a with β other than one."""

from itertools import pairwise

import numpy as np
import pytest

from covopt.network.deep import DeepReLUNetwork


def make(slope, bias, *, widths=(9, 7), outputs=2, counts=True, seed=0):
    rng = np.random.default_rng(seed)
    sizes = [3, *widths, outputs]
    weights = [rng.standard_normal((b, a)) for a, b in pairwise(sizes)]
    biases = [rng.standard_normal(len(w)) for w in weights]
    return DeepReLUNetwork(weights, biases, slope=slope, bias=bias, counts_output_bias=counts)


X = np.random.default_rng(5).standard_normal((6, 3))


def test_covariances_of_a_sloped_layer_stay():
    net = make(0.3, 1.0, widths=(80,))
    small = net.reduce(X)
    assert len(small.weights[0]) < 80
    for act in (lambda z: z, net.activate):
        before, after = act(net.representations(X)[0]), act(small.representations(X)[0])
        np.testing.assert_allclose(after @ after.T, before @ before.T, rtol=1e-8, atol=1e-8)


def test_a_sloped_neuron_without_positive_side_is_not_silent():
    net = DeepReLUNetwork([np.array([[-1.0]]), np.array([[1.0]])], slope=0.5)
    small = net.reduce([[1.0], [2.0]], preserve="outputs")
    np.testing.assert_allclose(small.predict([[1.0], [2.0]]), [-0.5, -1.0])


def test_norm_of_a_free_output_bias():
    net, free = make(0.0, 1.0), make(0.0, 1.0, counts=False)
    assert net.squared_norm - free.squared_norm == pytest.approx(float((net.biases[-1] ** 2).sum()))


def test_a_large_free_output_bias_leaves_the_norm_as_it_is():
    # it was added and taken away again: what is left of 1e20 + 2 − 1e20 is zero
    net = DeepReLUNetwork(
        [np.ones((1, 1)), np.ones((1, 1))], [None, np.array([1e10])], counts_output_bias=False
    )
    assert net.squared_norm == 2.0
