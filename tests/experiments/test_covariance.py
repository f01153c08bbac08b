"""Values and gradients of 𝓛ᵏ, the image constraint, and membership in S with certificates both ways."""

import dataclasses
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import covopt
from covopt.api.cone import ActiveSet
from covopt.experiments.covariance import covariance
from covopt.experiments.membership import Membership, Place, check_membership, cone_membership, minimise


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


def test_linear_network_in_closed_form():
    """R_L(A) = L Σ s_i(A)^{2/L} is attained by balanced positive factors; here L = 2 and one neuron."""
    found = covariance([[[2.0]], [[2.0]]], [[1.0], [3.0]])
    assert found.representation_cost == pytest.approx(8.0)
    assert found.outputs[:, 0].tolist() == [4.0, 12.0]
    assert found.value([4.0, 11.0], lam=0.5) == pytest.approx(1.0 + 4.0)
    here = covariance([[[1.0]], [[1.0]]], [[1.0], [2.0]])
    outside = dataclasses.replace(here, K=(np.eye(2),))
    assert outside.representation_cost == np.inf and outside.terms[0].defect == pytest.approx(0.5)
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((8, 2)), rng.standard_normal(8)
    solution = covopt.min_norm(X, y, output_bias="penalized", tol=1e-9)  # at the minimum of the covariances
    assert covopt.covariance(solution, X).representation_cost == pytest.approx(solution.cost, rel=1e-7)


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


def test_gradient_in_a_singular_image_along_moves_that_stay_inside():
    """N = 4 samples on a line through the origin: everything has rank one and no inverse is taken."""
    X = np.array([[1.0], [2.0], [3.0], [4.0]])
    here = covariance([[[1.0]], [[2.0]]], X)
    assert [term.rank for term in here.terms] == [1, 1]
    slope = here.gradient()
    move = X @ X.T
    for name, gradient, moved in (("K", slope.K[0], here.K), ("K_sigma", slope.K_sigma[0], here.K_sigma)):
        ahead = dataclasses.replace(here, **{name: (moved[0] + 1e-6 * move,)}).representation_cost
        behind = dataclasses.replace(here, **{name: (moved[0] - 1e-6 * move,)}).representation_cost
        assert (ahead - behind) / 2e-6 == pytest.approx(np.vdot(gradient, move), rel=1e-6)


def test_prop_19_its_value_and_the_escape_over_S():
    """FL22 Prop 19: a local minimum of the weights that is none of the covariances; descent over S leaves it."""
    X, Y = [[1.0], [-1.0]], [1.0, 1.0]
    for lam in (0.1, 0.5, 0.9):
        total = 1 - lam
        stuck = None
        for share in (1.0, 0.3):  # the same covariances, whatever a₁ and a₂
            a = np.sqrt(total * np.array([share, 1 - share]))
            found = covariance([a[:, None], a[None, :]], X)
            assert found.value(Y, lam=lam) == pytest.approx(1 + 2 * lam - lam**2)
            stuck = found if stuck is None else stuck
            np.testing.assert_allclose(found.K_sigma[0], stuck.K_sigma[0], atol=1e-12)
        s = np.sqrt(total)
        near = covariance([[[s], [-1e-3]], [[s, 1e-3]]], X)
        assert near.value(Y, lam=lam) < 1 + 2 * lam - lam**2
        start = ActiveSet(np.array([[1.0]]), np.array([total]))
        for variant in ("pairwise", "fully-corrective", "sliding"):
            result = covopt.frank_wolfe(X, Y, bias=0.0, lam=lam, start=start, variant=variant, max_iter=500)
            # with the outputs minimised out the start is worth no more than at FL22's Z₂ = a₁b₁ + a₂b₂
            assert result.history[0]["cost"] <= (1 + 2 * lam - lam**2) * (1 + 1e-5)
            assert result.objective == pytest.approx(2 * (2 * lam - lam**2), rel=1e-5)
            assert result.status.code == "certified"


# ---------------------------------------------------------------------- membership
@pytest.mark.parametrize(
    ("n", "m", "bias"), [(2, 1, 0.0), (2, 3, 1.0), (3, 2, 0.0), (3, 5, 0.5), (4, 3, 0.0)]
)
def test_pairs_of_networks_are_in_the_cone(n, m, bias):
    Z = np.random.default_rng(n + m).standard_normal((m, n))
    K, K_sigma = pair(Z, bias)
    found = cone_membership(K, K_sigma, bias=bias)
    assert found.status is Place.IN
    assert check_membership(found, K, K_sigma, bias=bias)
    broken = dataclasses.replace(found, decomposition=found.decomposition * 1.001)
    assert not check_membership(broken, K, K_sigma, bias=bias)
    assert not check_membership(found, K, K_sigma + 0.01 * np.eye(n), bias=bias)


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


def test_special_pairs_and_an_undecided_answer():
    """Kᵠ = K has a member only where K is completely positive: B_4 is, a negative entry is not."""
    B = np.array([[2.0, 0, 1, 1], [0, 2, 1, 1], [1, 1, 2, 0], [1, 1, 0, 2]])
    found = cone_membership(B, B)
    assert found.status is Place.IN
    assert found.decomposition.min() >= -1e-4  # z = σ(z) where K = Kᵠ, to the root of the tolerance
    negative = np.array([[1.0, -0.2], [-0.2, 1.0]])
    assert cone_membership(negative, negative).status is Place.OUT
    for K, K_sigma in (([[-1.0]], [[-1.0]]), ([[-1.0]], [[0.5]]), ([[0.0]], [[-2.0]])):  # nearest to the tip
        found = cone_membership(K, K_sigma)
        assert found.status is Place.OUT and check_membership(found, K, K_sigma)
    assert not check_membership(Membership(Place.UNDECIDED, None, 1.0, None, 0.0), np.eye(2), np.eye(2))
    hard = pair(np.random.default_rng(0).standard_normal((2, 4)))
    assert cone_membership(*hard, max_iter=1).status is Place.UNDECIDED
    assert cone_membership(np.zeros((2, 2)), np.zeros((2, 2))).status is Place.IN


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
