"""FL22 Prop 14 and Remark 23 on graphs."""

import networkx as nx
import numpy as np
import pytest

import covopt
from covopt.completely_positive import graphs


@pytest.mark.parametrize(
    "graph",
    [
        graphs.complete_bipartite(3, 3),
        graphs.petersen(),
        graphs.random_triangle_free(9, random_state=2),
    ],
)
def test_one_neuron_per_edge(graph):
    instance = covopt.tight_instance(graph)
    edges = graph.number_of_edges()
    assert instance.n_neurons == len(instance.network) == edges
    assert instance.cost == 4 * edges == instance.network.squared_norm
    # Tr (YYᵀ)^½ is the sum of the singular values of Y
    assert instance.cost == pytest.approx(2 * np.linalg.norm(instance.Y, "nuc"), rel=1e-12)
    for network in (instance.network, instance.small_network):
        assert np.abs(network.predict(instance.X) - instance.Y).max() < 1e-12
    assert len(instance.small_network) == graph.number_of_nodes()
    assert instance.small_network.squared_norm > instance.cost
    assert "Prop 14" in instance.summary()


def test_a_graph_with_triangles_needs_fewer_neurons_than_edges():
    instance = covopt.tight_instance(nx.complete_graph(4))
    assert instance.n_neurons == len(instance.network) == 4
    assert instance.cost == 24
    assert instance.network.squared_norm == pytest.approx(24, rel=1e-12)
    assert np.abs(instance.network.predict(instance.X) - instance.Y).max() < 1e-12


@pytest.mark.parametrize(
    "graph", [graphs.cycle(4), pytest.param(graphs.complete_bipartite(3, 3), marks=pytest.mark.slow)]
)
def test_agreement_with_min_norm(graph):
    instance = covopt.tight_instance(graph)
    solution = covopt.min_norm(instance.X, instance.Y, bias=0.0, tol=1e-5, random_state=0)
    assert solution.lower_bound <= instance.cost * (1 + 1e-9)
    assert solution.cost >= instance.cost * (1 - 1e-9)
    assert solution.cost == pytest.approx(instance.cost, rel=1e-5)
    # the covariance is the same at every minimiser, and no minimiser has fewer neurons than the CP-rank
    hidden = np.maximum(instance.X @ solution.network.hidden_weights.T, 0.0)
    assert np.abs(hidden @ hidden.T - instance.Y).max() < 0.05
    assert len(solution.network) >= instance.n_neurons
