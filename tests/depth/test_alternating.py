"""Pairs of layers solved exactly: never worse, the minimum where it is known, nothing lost."""

import numpy as np
import pytest

from covopt.depth.alternating import alternate, solve_pair
from covopt.depth.descent import norm_of
from covopt.depth.layers import Layout
from covopt.depth.starts import random_start

X = np.array([[1.0, 0.3], [0.2, 1.0], [-0.7, 0.4]])


def network_through_what_it_says(depth, bias, output_bias):
    layout, theta = random_start(
        Layout((2, *[4] * (depth - 1), 1), bias, output_bias), np.random.default_rng(depth), 1.0, 1.0
    )
    return layout, theta, layout.forward(theta, X)[1][-1]


@pytest.mark.parametrize(
    ("bias", "output_bias", "place"), [(0.0, "none", 0), (0.8, "none", 1), (1.0, "penalized", 2)]
)
def test_a_pair_of_layers_becomes_its_minimum_and_the_function_on_the_table_stays(bias, output_bias, place):
    layout, theta, Y = network_through_what_it_says(4, bias, output_bias)
    new, better = solve_pair(layout, theta, X, Y, place)
    assert np.allclose(new.forward(better, X)[1][-1], Y, atol=1e-6 * np.abs(Y).max())
    assert norm_of(new, better) < norm_of(layout, theta)
    again = norm_of(*solve_pair(new, better, X, Y, place))  # it is the global minimum of the pair
    assert again == pytest.approx(norm_of(new, better), rel=1e-4)


def test_sweeps_end_at_the_closed_form_of_two_points():
    # (1, −1) ↦ (1, 1) costs L·4^{1/L}; a balanced network with a superfluous pair of neurons costs more
    points, Y = np.array([[1.0], [-1.0]]), np.ones((2, 1))
    layout = Layout((1, 5, 5, 1), 0.0, "none")
    layout, theta = random_start(layout, np.random.default_rng(3), 1.0, 1.0)
    small, found = alternate(layout, theta, points, Y, max_sweeps=30)
    assert np.allclose(small.forward(found, points)[1][-1], Y, atol=1e-5)
    assert norm_of(small, found) >= 3 * 4 ** (1 / 3) * (1 - 1e-6)
    assert norm_of(small, found) < 3 * 4 ** (1 / 3) * 1.02


def test_targets_of_zero_and_contradictions_leave_the_network_as_it_is():
    layout, theta, Y = network_through_what_it_says(3, 0.0, "none")
    same = solve_pair(layout, theta, X, np.zeros_like(Y), 1)
    assert same[1] is theta
    doubled = np.array([[1.0, 0.0], [2.0, 0.0]])  # without bias f(2x) = 2f(x)
    assert solve_pair(layout, theta, doubled, np.ones((2, 1)), 0)[0].depth == 3
