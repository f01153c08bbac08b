"""Factors: what they multiply to, how many rows they have, and that none of it depends on units."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covopt.completely_positive.dominance import dominance_factor, smallest_comparison
from covopt.completely_positive.factorisation import caratheodory, numerical_factor, residual_of
from covopt.completely_positive.graphs import (
    graph_matrix,
    incidence,
)


@pytest.mark.parametrize(
    ("graph", "decades"),
    [
        *(
            (graph, 2.0)
            for graph in (nx.path_graph(60), nx.random_labeled_tree(30, seed=0), nx.complete_graph(7))
        ),
        *((nx.complete_bipartite_graph(4, 4), decades) for decades in (2.0, 6.0, 20.0)),
        (nx.random_labeled_tree(6, seed=0), 20.0),
    ],
)
def test_entries_over_many_decades_leave_no_residual(graph, decades):
    """Singular and nearly singular comparison matrices, where what is left of a diagonal would cancel."""
    E, n = incidence(graph), graph.number_of_nodes()
    for seed in range(5):
        rng = np.random.default_rng(seed)
        B = E * 10.0 ** rng.uniform(-decades / 2, decades / 2, E.shape)
        d = 10.0 ** rng.uniform(-decades / 2, decades / 2, n)
        singular = graph_matrix(graph) * 1.0
        np.fill_diagonal(singular, 0.0)
        np.fill_diagonal(singular, singular @ d / d)
        for A in (B.T @ B, singular):
            found = dominance_factor(A)
            assert residual_of(A, found) < 1e-12
            assert found.min() >= 0
            assert len(found) == len(E) or (len(E) < n and len(found) == n)


def test_a_random_matrix_is_factored_by_conjugate_gradients_without_its_jacobian():
    n = 30  # below 28 rows the Jacobian is a dense matrix
    B = np.random.default_rng(0).random((3 * n // 2, n))
    A = B.T @ B
    F = numerical_factor(A, n)
    assert residual_of(A, F) < 1e-9
    assert F.min() >= 0


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 4), st.integers(0, 10**6), st.sampled_from(["gram", "sparse", "low", "integers"]))
def test_doubly_nonnegative_matrices_up_to_four_rows_have_a_factor_of_n_rows(n, seed, kind):
    rng = np.random.default_rng(seed)
    for _ in range(10_000):
        rows = max(1, n - 1) if kind == "low" else n
        B = (
            rng.integers(-1, 4, (n, n)).astype(float)
            if kind == "integers"
            else rng.standard_normal((rows, n))
        )
        if kind == "sparse":
            B = np.abs(B) * (rng.random(B.shape) < 0.6)
        A = B.T @ B
        if A.min() >= 0 and np.diag(A).min() > 0:
            break
    F = numerical_factor(A, n, n_starts=128)
    assert F is not None
    assert residual_of(A, F) < 1e-9


def test_a_factor_keeps_the_zeros_and_small_ones_are_not_found_where_there_are_none():
    A = graph_matrix(nx.octahedral_graph()).astype(float)
    F = numerical_factor(A, 6, n_starts=200, max_iter=400)
    assert residual_of(A, F) < 1e-9
    assert (F[:, [0, 5]].min(1) == 0).all()  # vertices 0 and 5 are opposite
    A = np.array([[1.0, 0.9, 0.9], [0.9, 1.0, 0.9], [0.9, 0.9, 1.0]])
    assert smallest_comparison(A) == pytest.approx(1 - 1.8) and dominance_factor(A) is None
    assert numerical_factor(np.array([[1.0, 0.5], [0.5, 1.0]]), 1, n_starts=8) is None


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(1, 25), st.integers(0, 10**6))
def test_caratheodory(n, m, seed):
    rng = np.random.default_rng(seed)
    B = rng.random((m, n)) * (rng.random((m, n)) < 0.7)
    C = caratheodory(B)
    assert len(C) <= min(m, n * (n + 1) // 2)
    assert (C >= 0).all()
    assert np.abs(C.T @ C - B.T @ B).max() < 1e-11
