"""covopt.price: bounds above exactly evaluated neurons, for tables of every kind."""

from fractions import Fraction

import numpy as np
import pytest

import covopt


def square_in_fractions(X, dual, bias, neuron):
    """(‖Λᵀσ(X̃w)‖², ‖w‖²), nothing rounded."""
    w = [Fraction(float(a)) for a in neuron]
    total = [Fraction(0)] * np.reshape(dual, (len(X), -1)).shape[1]
    for row, weights in zip(np.asarray(X).tolist(), np.reshape(dual, (len(X), -1)).tolist(), strict=True):
        lifted = [Fraction(x) for x in row] + ([Fraction(bias)] if bias else [])
        height = sum(a * b for a, b in zip(lifted, w, strict=True))
        if height > 0:
            total = [t + Fraction(c) * height for t, c in zip(total, weights, strict=True)]
    return sum(t * t for t in total), sum(a * a for a in w)


def tables():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((7, 2))
    yield "far", points + 1e8, 1.0
    yield "cluster", 1.0 + 1e-9 * points, 1.0
    yield "units", points * [1e7, 1e-7], 1.0
    yield "tiny bias", points, 1e-7
    yield "three close", np.array([[0.0], [1e-12], [1.0]]), 1e-7
    yield "huge", points * 1e200, 1e200
    yield "tiny", points * 1e-200, 1e-200
    yield "mixed", points * 10.0 ** rng.uniform(-100, 100, (7, 1)), 0.0
    yield "repeated", np.repeat(points[:3], 2, axis=0), 1.0
    yield "grid", np.array([[a, b] for a in range(3) for b in range(3)], dtype=float), 1.0
    yield "four", rng.standard_normal((6, 4)), 1.0
    yield "line", points[:, :1] * [1.0, 2.0] + 1e-13 * points, 1.0


@pytest.mark.parametrize(("X", "bias"), [pytest.param(*each[1:], id=each[0]) for each in tables()])
@pytest.mark.parametrize("outputs", [0, 1, 2])
@pytest.mark.parametrize("centred", [False, True])
def test_no_neuron_exceeds_the_bound(X, bias, outputs, centred):
    rng = np.random.default_rng(1)
    dual = rng.standard_normal((len(X), outputs) if outputs else len(X))
    if centred:
        dual = dual - dual.mean(axis=0)
    answer = covopt.price(X, dual, bias=bias, max_nodes=20_000)
    dimension = X.shape[1] + (bias > 0)
    assert answer.neurons.shape == (len(answer.values), dimension)
    assert np.linalg.norm(answer.neurons, axis=1) == pytest.approx(1.0)
    assert (np.diff(np.abs(answer.values)) <= 1e-12 * np.abs(answer.values[0])).all()
    lifted = X if bias == 0 else np.column_stack([X, np.full(len(X), bias)])
    units = lifted / np.abs(lifted).max(axis=1, keepdims=True)
    starts = [*answer.neurons[:3], *rng.standard_normal((20, dimension)), *units, *-units]
    if dimension == 2:
        starts += [np.array([-b, a]) for a, b in units] + [np.array([b, -a]) for a, b in units]
    if dimension == 3:
        starts += [s * np.cross(units[i], units[j]) for i in range(4) for j in range(i) for s in (1.0, -1.0)]
    for neuron in starts:
        size = float(np.abs(neuron).max())
        if size > 0:
            square, length = square_in_fractions(X, dual, bias, neuron / size)
            assert square <= Fraction(answer.upper_bound) ** 2 * length
    square, length = square_in_fractions(X, dual, bias, answer.neurons[0])
    value = float(np.sqrt(float(square / length / Fraction(answer.upper_bound or 1.0) ** 2)))
    if answer.exact and answer.upper_bound > 0:
        assert value >= 1 - 2e-9


def test_the_best_neuron_is_that_of_all_cells():
    rng = np.random.default_rng(2)
    X, dual = rng.standard_normal((12, 2)), rng.standard_normal(12)
    answer = covopt.price(X, dual, bias=1.0)
    w = rng.standard_normal((200_000, 3))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    heights = np.maximum(w @ np.column_stack([X, np.ones(12)]).T, 0.0) @ dual
    assert answer.exact
    assert np.abs(heights).max() <= answer.upper_bound <= np.abs(heights).max() * 1.01
    assert np.sign(answer.values[0]) == np.sign(heights[np.abs(heights).argmax()])


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
