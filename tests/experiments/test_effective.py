"""The effective cost of label noise, and its least value in the cells of a network."""

import numpy as np
import pytest

import covopt
from covopt.experiments.effective import cell_minimum, effective_cost
from covopt.potentials import make_potential

torch = pytest.importorskip("torch")
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


def test_the_best_scale_of_each_neuron_gives_twice_the_exact_potential():
    network = random_network()
    X = np.random.default_rng(2).standard_normal((7, 2))
    exact = make_potential("label-noise-exact").weigh(network.lift(X), network.hidden_weights)
    S = make_potential("label-noise").weigh(network.lift(X), network.hidden_weights) ** 2
    live = S > 0
    M, v2 = exact[live] ** 2 / S[live], network.output_weights[live] ** 2
    t = (v2 * (M / S[live])[:, None]) ** 0.25
    scaled = covopt.ReLUNetwork(network.hidden_weights[live] * t, network.output_weights[live] / t)
    assert effective_cost(scaled, X) == pytest.approx(2 * cost_in(network, X, "label-noise-exact"), rel=1e-12)
    assert effective_cost(network, X) > effective_cost(scaled, X)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", NAMES)
def test_certified_minimisers_are_least_in_their_cells(name):
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((8, 2)), rng.standard_normal(8)
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


def test_neurons_of_one_cell_are_replaced_by_one_and_those_that_died_left_out():
    X = np.array([[-1.0], [0.0], [1.0], [2.0]])
    two = covopt.ReLUNetwork(np.array([[1.0, -0.1], [1.0, -0.9]]), np.array([[1.0], [1.0]]))
    found = cell_minimum(two, X, potential="variation")
    assert found.n_cells == 1
    assert found.least == pytest.approx(np.hypot(2.0, 1.0), rel=1e-7)  # both are active on 1 and 2: 2x − 1
    faint = covopt.ReLUNetwork(np.array([[1.0, 0.5], [-1.0, -0.5]]), np.array([[1.0], [1e-6]]))
    assert cell_minimum(faint, X).n_cells == 1 and cell_minimum(faint, X, negligible=1e-9).n_cells == 2
