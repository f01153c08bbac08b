"""Values and gradients of 𝓛ᵏ, the image constraint, and membership in S with certificates both ways."""

import dataclasses
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from covopt.experiments.covariance import covariance
from covopt.experiments.membership import Place, check_membership, cone_membership, minimise


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
    z = [Fraction(float(x)) for x in point]
    positive = [max(x, Fraction(0)) for x in z]
    form = sum(
        Fraction(float(matrix[i, j])) * v[i] * v[j]
        for matrix, v in ((A, z), (B, positive))
        for i, j in product(range(len(z)), repeat=2)
        if matrix[i, j]
    )
    return form / sum(x * x for x in z)


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


def test_the_minimum_against_sampling_and_horns_matrix():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        A, B = (m + m.T for m in rng.standard_normal((2, 4, 4)))
        found, z = minimise(A, B), rng.standard_normal((5000, 4))
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        positive = np.maximum(z, 0)
        sampled = np.einsum("fn,nm,fm->f", z, A, z) + np.einsum("fn,nm,fm->f", positive, B, positive)
        assert found.lower_bound == pytest.approx(found.values[0], abs=1e-9)
        assert found.lower_bound <= found.values[0] + 1e-12 and found.values[0] <= sampled.min() + 1e-9
    horn = np.array(
        [[1.0 if min(abs(i - j), 5 - abs(i - j)) != 1 else -1.0 for j in range(5)] for i in range(5)]
    )
    assert -1e-9 <= minimise(np.zeros((5, 5)), horn).lower_bound <= 1e-9  # copositive, with zeros
