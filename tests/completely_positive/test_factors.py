"""Factors: what they multiply to, and upper bounds: a factor within a tolerance is a factor of another matrix."""

import json
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import covopt
from covopt.completely_positive import graphs, rank
from covopt.completely_positive.certificate import CPRankCertificate, CPStatus
from covopt.completely_positive.dominance import (
    dominance_factor,
    dominance_rows,
    dominance_vector,
    smallest_comparison,
)
from covopt.completely_positive.exclusion import indefinite_comparison
from covopt.completely_positive.factorisation import caratheodory, numerical_factor, residual_of
from covopt.completely_positive.graphs import graph_matrix, incidence
from covopt.completely_positive.matrix import read_matrix
from covopt.completely_positive.upper import completes, factor_proof, is_doubly_nonnegative, theorem_cap
from covopt.exact.elimination import negative_direction
from tests.completely_positive.bank import BIG, failed, gram


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
    n = 28  # below 28 rows the Jacobian is a dense matrix
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
        B = rng.integers(-1, 4, (n, n)) * 1.0 if kind == "integers" else rng.standard_normal((rows, n))
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


# ---- upper bounds on the CP-rank of exact matrices: a factor within a tolerance is a factor of another matrix.
def test_weights_recognise_square_roots_of_rationals():
    rows = [[1, 2, 0, 1], [0, 1, 1, 3]]
    weights = [Fraction(2), Fraction(3, 7)]
    A = [
        [sum(w * u[i] * u[j] for w, u in zip(weights, rows, strict=True)) for j in range(4)] for i in range(4)
    ]
    B = np.array([[float(w) ** 0.5 * x for x in u] for w, u in zip(weights, rows, strict=True)])
    assert factor_proof(read_matrix(A), B) == "weights"
    A[0][0] += Fraction(1, 10**30)
    assert factor_proof(read_matrix(A), B) is None
    negative = [[2, -1], [-1, 2]]  # 3 e₁e₁ᵀ + 3 e₂e₂ᵀ − 11ᵀ
    assert factor_proof(read_matrix(negative), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])) is None


def test_dominance_in_rational_arithmetic():
    A = read_matrix([[2, 1, 0], [1, 2, 1], [0, 1, 2]])
    assert dominance_rows(A, dominance_vector(A)) == 3
    singular = read_matrix([[1, 2, 0], [2, 5, 3], [0, 3, 9]])
    d = dominance_vector(singular)
    assert dominance_rows(singular, d) == 2
    less = read_matrix([[1, 2, 0], [2, Fraction(5) - Fraction(1, 10**30), 3], [0, 3, 9]])
    assert dominance_vector(less) is None
    assert indefinite_comparison(singular) is None and indefinite_comparison(less).method == "comparison"
    assert dominance_rows(less, d) is None
    assert dominance_rows(A, [Fraction(1)] * 2) is None
    assert dominance_rows(A, [Fraction(-1)] * 3) is None


def test_a_rest_below_rounding_is_not_claimed_to_be_factored():
    # rank 5, its smallest eigenvalue 1e-24 of the largest: no factor in floats knows that direction
    rng = np.random.default_rng(8)
    A = [[10**24 * x for x in row] for row in gram(rng.integers(1, 10, (4, 5)))]
    assert covopt.cp_rank(A).lower == 4
    A[0][0] += 1
    found = covopt.cp_rank(A, time_limit_s=0.5)
    assert found.lower == 5
    assert found.upper is None or found.upper >= 5
    assert failed(found) == set()


def test_what_is_not_proved_is_called_approximate(monkeypatch):
    from covopt.completely_positive import rank

    rng = np.random.default_rng(8)
    A = gram(rng.integers(1, 10, (5, 5)))
    monkeypatch.setattr(rank, "factor_proof", lambda *args: None)
    monkeypatch.setattr(rank, "CERTIFIED_ORDER", 0)
    found = covopt.cp_rank(A)
    assert (found.status, found.lower, found.upper, found.upper_numerical) == (CPStatus.UNDECIDED, 5, None, 5)
    assert found.factor is None
    assert "5 rows in an APPROXIMATE factor, which proves nothing" in found.summary()
    assert any(r.side == "approximate" and "APPROXIMATE" in r.text for r in found.reasons)
    assert failed(found) == set()
    content = json.loads(json.dumps(found.to_dict()))
    again = CPRankCertificate.from_dict(content)
    assert again.upper_numerical == 5
    for reason in content["readings"][0]["reasons"]:
        if reason["side"] == "approximate":
            reason["data"]["factor"][0][0] *= 2
    assert failed(content)


@pytest.mark.parametrize(
    "text", ["the CP-rank is 1, as everybody knows", "", "rank of A, and the CP-rank is 1"]
)
def test_a_file_cannot_bring_its_own_words(text):
    found = covopt.cp_rank([[2, 1], [1, 2]])
    content = found.to_dict() | {"notes": [text]}
    for reason in content["readings"][0]["reasons"]:
        reason["text"] = text
        reason["data"] |= {"how": text, "proof": text}
    again = CPRankCertificate.from_dict(content)
    assert again.notes == ()
    assert not text or text not in again.summary()
    assert failed(again) == set()


def test_a_search_without_a_limit_ends_where_no_factor_is_proved(monkeypatch):
    asked = []
    monkeypatch.setattr(rank, "factor_proof", lambda matrix, B: None)
    monkeypatch.setattr(rank, "residual_of", lambda A, B: 0.0)
    monkeypatch.setattr(rank, "caratheodory", lambda B: B)
    monkeypatch.setattr(
        rank, "numerical_factor", lambda A, rows, **rest: asked.append(rows) or np.ones((rows, 13))
    )
    A = np.full((13, 13), 3) + 9 * np.eye(13, dtype=int)
    found = covopt.cp_rank(A, method="rank", time_limit_s=None)
    assert (found.status, found.upper, found.upper_numerical) == (CPStatus.UNDECIDED, None, asked[0])
    first = asked[: len(asked) // 2]
    assert asked == 2 * first and first == sorted(set(first))
    assert first[-1] == theorem_cap(read_matrix(A)) == 87 and len(first) <= 8


def test_completion_needs_a_matrix_of_that_rank_its_zeros_and_a_residual_that_the_inverse_can_bear():
    one, less = Fraction(1), Fraction(-1, 10**6)
    near, row = [[one + Fraction(1, 10**30), one], [one, one]], np.array([[1.0, 1.0]])
    assert completes([[one, one], [one, one]], row) and not completes(near, row)
    assert completes(near, np.array([[1e-15, 0.0], [1.0, 1.0]]))
    # an entry that would have to be negative is none of a factor
    assert not completes([[one, -one], [-one, 2 * one]], np.array([[1.0, 1e-12], [0.0, 1.0]]))
    assert not completes([[one, less], [less, one]], np.array([[1.0, 1e-7], [0.0, 1.0]]))
    # entries of size one, 1e-13 from a factor, and indefinite
    B = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-7]])
    exact = [[Fraction(x) for x in row] for row in B.T.tolist()]
    A = [[sum(x * y for x, y in zip(a, b, strict=True)) for b in exact] for a in exact]
    assert completes(A, B)
    A[1][1] -= Fraction(1, 10**13)
    assert negative_direction(A) is not None and not completes(A, B)
    # a 5-cycle with slack: five rows on its edges, ten unknowns, ten equations
    A = read_matrix((3 * np.eye(5, dtype=int) + graphs.graph_matrix(graphs.cycle(5))).tolist()).fractions()
    B = dominance_factor(np.array(A, dtype=float))
    assert B.shape == (5, 5) and completes(A, B)
    A[0][2] = A[2][0] = Fraction(1, 10**20)  # a zero entry that no row can make
    assert not completes(A, B)
    # nearly singular: the rows that span it come in another order
    e = Fraction(1, 3 * 10**9)
    A = [[one, one, 0 * e], [one, 2 + e / 2, one], [0 * e, one, 1 + e]]
    root = float(1 + e / 2) ** 0.5
    B = np.array([[1.0, 1.0, 0.0], [0.0, root, 1.0 / root], [0.0, 0.0, float(1.5 * e) ** 0.5]])
    assert completes(A, B)
    sizes = [theorem_cap(read_matrix((5 * np.eye(n, dtype=int) + 1).tolist())) for n in (3, 4, 5, 6, 7)]
    assert sizes == [3, 4, 6, 17, 24] and theorem_cap(read_matrix(np.ones((6, 6), dtype=int))) == 1
    assert is_doubly_nonnegative(read_matrix([[BIG, BIG], [BIG, BIG]]))
    assert not is_doubly_nonnegative(read_matrix([[BIG, BIG], [BIG, BIG - 1]]))
    assert not is_doubly_nonnegative(read_matrix([[1.5, 0.5], [0.5, 1.5]]))  # floats are known up to rounding


def test_completions_of_more_unknowns_than_take_seconds_are_not_tried():
    B = np.random.default_rng(0).integers(1, 3, (520, 12)).astype(float)
    A = [[Fraction(int(x)) for x in row] for row in B.T @ B]
    assert not completes(A, B)
