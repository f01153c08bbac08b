"""covopt.price: bounds above exactly evaluated neurons, for tables of every kind."""

import numpy as np

import covopt


def test_scales_change_the_values_only():
    rng = np.random.default_rng(3)
    X, dual = rng.standard_normal((6, 2)), rng.standard_normal(6)
    plain = covopt.price(X, dual)
    huge = covopt.price(X * 2.0**700, dual * 2.0**-300)
    assert huge.upper_bound == plain.upper_bound * 2.0**400
    assert np.array_equal(huge.neurons, plain.neurons)


def test_nothing_to_price():
    answer = covopt.price([[1.0, 2.0]], [0.0])
    assert (answer.upper_bound, answer.exact, answer.values.tolist()) == (0.0, True, [0.0])
    assert covopt.price([[0.0]], [[1.0, 2.0]]).upper_bound == 0.0
