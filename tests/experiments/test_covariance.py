"""FL22: 𝓛ᵏ, membership in S with certificates both ways, tight instances on graphs; the effective cost."""

import dataclasses
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import covopt
from covopt.completely_positive import graphs
from covopt.datasets import make_random_plane
from covopt.experiments.covariance import covariance
from covopt.experiments.effective import cell_minimum, effective_cost
from covopt.experiments.membership import Place, check_membership, cone_membership, minimise
from covopt.potentials import make_potential
from tests.depth.bank.exact import fractions


def weights_of(rng, widths, bias):
    return [rng.standard_normal((b, a + (bias > 0))) for a, b in pairwise(widths)]


def pair(Z, bias=0.0):
    positive = np.maximum(Z, 0)
    return Z.T @ Z, positive.T @ positive + bias**2


@pytest.mark.parametrize("bias", [0.0, 1.0, 0.5])
def test_cost_never_exceeds_the_weights_and_meets_them_at_pseudo_inverses(bias):
    """FL22 Prop 1 and 3: 𝓛ᵏ ≤ 𝓛, equal when the weights have no part outside of the images."""
    rng = np.random.default_rng(0)
    X, widths = rng.standard_normal((6, 2)), (2, 9, 8, 3)
    weights = weights_of(rng, widths, bias)
    found = covariance(weights, X, bias=bias)
    assert found.depth == 3
    assert found.representation_cost <= sum((W**2).sum() for W in weights) + 1e-9
    hidden = np.column_stack([X, np.full(6, bias)]) if bias else X
    least = []
    for W in weights:
        Z = hidden @ W.T
        least.append((np.linalg.pinv(hidden) @ Z).T)
        hidden = np.maximum(Z, 0)
        hidden = np.column_stack([hidden, np.full(6, bias)]) if bias else hidden
    total = sum((W**2).sum() for W in least)
    assert found.representation_cost == pytest.approx(total, rel=1e-8)


@given(seed=st.integers(0, 10_000), bias=st.sampled_from([0.0, 1.0]))
@settings(max_examples=10)
def test_gradients_against_finite_differences(seed, bias):
    rng = np.random.default_rng(seed)
    n = 4
    here = covariance(weights_of(rng, (5, 9, 9, 2), bias), rng.standard_normal((n, 5)), bias=bias)
    # a nearly singular pair leaves no step that is neither a move out of the cone nor lost in rounding
    assume(max(np.linalg.cond(K) for K in here.K_sigma) < 1e6)
    Y = rng.standard_normal((n, 2))
    slope = here.gradient(Y, lam=0.3)
    moves = [(m + m.T) for m in rng.standard_normal((4, n, n))]
    push = rng.standard_normal((n, 2))

    def value(step):
        K = tuple(K + step * m for K, m in zip(here.K, moves[:2], strict=True))
        K_sigma = tuple(K + step * m for K, m in zip(here.K_sigma, moves[2:], strict=True))
        there = dataclasses.replace(here, K=K, K_sigma=K_sigma, outputs=here.outputs + step * push)
        return there.value(Y, lam=0.3)

    step = 1e-6 * np.linalg.eigvalsh(here.K_sigma[0])[0]
    numeric = (value(step) - value(-step)) / (2 * step)
    exact = sum(np.vdot(g, m) for g, m in zip((*slope.K, *slope.K_sigma), moves, strict=True))
    exact += np.vdot(slope.outputs, push)
    assert numeric == pytest.approx(exact, rel=1e-4, abs=1e-4 * abs(value(0.0)))


# ---------------------------------------------------------------------- membership


@pytest.mark.parametrize("n", [2, 3, 4])
def test_outside_with_a_separating_pair(n):
    rng = np.random.default_rng(n)
    K, K_sigma = pair(rng.standard_normal((n, n)))
    # σ(z)² ≤ z²: more on the diagonal of Kᵠ than K has is impossible
    K_sigma = K_sigma + np.diag(np.diag(K))
    found = cone_membership(K, K_sigma)
    assert found.status is Place.OUT
    assert found.separation < 0
    assert check_membership(found, K, K_sigma)
    A, B = found.separator
    z = rng.standard_normal((20_000, n))
    positive = np.maximum(z, 0)
    form = np.einsum("fn,nm,fm->f", z, A, z) + np.einsum("fn,nm,fm->f", positive, B, positive)
    assert form.min() >= -1e-12
    for wrong in ((-A, B), (A, -B), (A - 0.5 * np.eye(n), B)):
        assert not check_membership(dataclasses.replace(found, separator=wrong), K, K_sigma)
    inside = pair(rng.standard_normal((3, n)))
    assert not check_membership(found, *inside)


# ---------------------------------------------------------------------- the least value on faces
KINDS = ("plain", "tied", "near zero", "small")


def exact_value(A, B, point):
    z = fractions(point)
    positive = np.maximum(z, 0)
    return (z @ fractions(A) @ z + positive @ fractions(B) @ positive) / (z @ z)


def problem(rng, kind):
    n = int(rng.integers(3, 5))
    A, B = rng.standard_normal((2, n, n))
    if kind == "tied":  # eigenvalues of multiplicity, up to rounding
        A = np.eye(n) * rng.integers(-1, 2) + 10.0 ** rng.uniform(-17, -9) * A
        B = np.zeros((n, n)) if rng.random() < 0.5 else -A
    if kind == "near zero":  # the lowest eigenvector lies beside the wall of a face
        direction = np.where(np.arange(n) == 0, 1.0, 10.0 ** rng.uniform(-16, -10))
        A = -np.outer(direction, direction)
    if kind == "small":
        B *= 10.0 ** rng.uniform(-17, -9)
    return 0.5 * (A + A.T), 0.5 * (B + B.T)


@pytest.mark.parametrize("kind", KINDS)
def test_no_point_is_below_a_bound(kind):
    rng, tight = np.random.default_rng(KINDS.index(kind)), 0
    for _ in range(12):
        A, B = problem(rng, kind)
        found = minimise(A, B)
        assert found.lower_bound <= found.values[0]
        points = np.concatenate([found.points[:8], rng.standard_normal((6, len(A))), np.eye(len(A))])
        for point in (*points, *-points):
            assert exact_value(A, B, point) >= Fraction(found.lower_bound)
        tight += found.lower_bound >= found.values[0] - 1e-7 * (np.linalg.norm(A) + np.linalg.norm(B))
    assert tight >= 9


def test_horns_matrix_is_copositive_with_zeros():
    away = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    horn = np.where(np.isin(away, (1, 4)), -1.0, 1.0)
    assert -1e-9 <= minimise(np.zeros((5, 5)), horn).lower_bound <= 1e-9


# ----------------------------------------------------------- fL22 Prop 14 and Remark 23 on graphs.
@pytest.mark.parametrize(
    "graph",
    [graphs.complete_bipartite(3, 3), graphs.petersen(), graphs.random_triangle_free(9, random_state=2)],
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


# --------------- the effective cost of label noise, and its least value in the cells of a network.
NAMES = ("variation", "label-noise", "label-noise-exact")


def random_network(m=6, d=2, k=1, bias=1.0, seed=0):
    rng = np.random.default_rng(seed)
    width = d + (bias > 0)
    return covopt.ReLUNetwork(rng.standard_normal((m, width)), rng.standard_normal((m, k)), bias)


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
    costs = make_potential(name).weigh(network.lift(X), network.hidden_weights)
    assert found.cost == pytest.approx(float(np.abs(network.output_weights[:, 0]) @ costs), rel=1e-12)
    assert bound * (1 - 1e-6) <= found.least <= found.cost * (1 + 1e-7)
