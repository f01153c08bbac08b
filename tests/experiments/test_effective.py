"""The effective cost of label noise, and its least value in the cells of a network."""

import numpy as np
import pytest
import torch

import covopt
from covopt.datasets import make_random_plane
from covopt.experiments.effective import cell_minimum, effective_cost
from covopt.potentials import make_potential

NAMES = ("variation", "label-noise", "label-noise-exact")


def random_network(m=6, d=2, k=1, bias=1.0, seed=0):
    rng = np.random.default_rng(seed)
    width = d + (bias > 0)
    return covopt.ReLUNetwork(rng.standard_normal((m, width)), rng.standard_normal((m, k)), bias)


def cost_in(network, X, name):
    weights = make_potential(name).weigh(network.lift(X), network.hidden_weights)
    return float(np.abs(network.output_weights[:, 0]) @ weights)


@pytest.mark.parametrize(("k", "bias"), [(1, 1.0), (1, 0.0), (3, 1.0), (2, 0.7)])
def test_effective_cost_is_the_mean_squared_gradient(k, bias):
    network = random_network(k=k, bias=bias)
    X = np.random.default_rng(1).standard_normal((5, 2))
    hidden = torch.tensor(network.hidden_weights, requires_grad=True)
    output = torch.tensor(network.output_weights, requires_grad=True)
    total = 0.0
    for row in network.lift(X):
        f = torch.relu(hidden @ torch.tensor(row)) @ output
        for value in f:
            slopes = torch.autograd.grad(value, [hidden, output], retain_graph=True)
            total += sum(float((g**2).sum()) for g in slopes)
    assert effective_cost(network, X) == pytest.approx(total / len(X), rel=1e-12)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", NAMES)
def test_certified_minimisers_are_least_in_their_cells(name):
    X, y = make_random_plane(8, random_state=3)
    solution = covopt.min_norm(X, y, potential=name, tol=1e-9)
    found = cell_minimum(solution.network, X, potential=name)
    cost = solution.cost / 2 if name == "variation" else solution.cost
    assert found.cost == pytest.approx(cost, rel=1e-9)
    assert abs(found.excess) <= 1e-6


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", NAMES)
def test_the_least_value_is_below_the_network_and_above_the_certified_bound(name):
    X = np.random.default_rng(4).standard_normal((6, 2))
    network = random_network(m=12, seed=5)
    y = network.predict(X)
    found = cell_minimum(network, X, potential=name, negligible=1e-12)
    bound = covopt.min_norm(X, y, potential=name).lower_bound / (2 if name == "variation" else 1)
    assert found.cost == pytest.approx(cost_in(network, X, name), rel=1e-12)
    assert bound * (1 - 1e-6) <= found.least <= found.cost * (1 + 1e-7)
