"""Representations: least weights, forces, stationarity and descent, against autodiff and trained networks."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import covopt
from covopt.datasets import make_random_plane
from covopt.depth.layers import Layout
from covopt.network.deep import DeepReLUNetwork
from covopt.representations import (
    RepresentationProblem,
    forces,
    gradient,
    projected_gradient_descent,
    stationarity,
)
from tests.cases import drawn, normal


def value_and_gradient(problem, weights):
    """𝓛_λ and its gradient by backpropagation, independent of the closed forms under test."""
    found = problem.to_representations(weights)
    back, slopes = problem.fit_gradient(found[-1]), []
    for i in range(len(weights) - 1, -1, -1):
        slopes.append(back.T @ problem.image(found, i).features + 2 * problem.lam * weights[i])
        if i:
            back = problem.derivative(found[i - 1]) * (back @ weights[i][:, : len(weights[i - 1])])
    return problem.weight_objective(weights), slopes[::-1]


def random_weights(problem, widths, k, seed):
    layout = Layout((problem.X.shape[1], *widths, k), problem.bias, problem.output_bias)
    return [w / np.sqrt(w.shape[1]) for w in layout.split(normal(seed, layout.size))]


def train(problem, widths, seed, rounds=6):
    """Return weights and the largest entry of the gradient there."""
    start = random_weights(problem, widths, problem.loss.targets.shape[1], seed)
    layout, theta = Layout.of_layers(start, problem.X.shape[1], problem.bias, problem.output_bias)

    def function(theta):
        value, slopes = value_and_gradient(problem, layout.split(theta))
        return value, np.concatenate([g.ravel() for g in slopes])

    options = {"maxiter": 5000, "maxfun": 20000, "ftol": 0.0, "gtol": 1e-11, "maxcor": 30}
    for _ in range(rounds):
        theta = minimize(function, theta, jac=True, method="L-BFGS-B", options=options).x
    return layout.split(theta), float(np.abs(function(theta)[1]).max())


cases = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "n": st.integers(1, 9),
        "d": st.integers(1, 6),
        "widths": st.lists(st.integers(1, 12), max_size=3),
        "bias": st.sampled_from([0.0, 0.5, 1.0]),
        "output_bias": st.sampled_from(["penalized", "none"]),
        "slope": st.sampled_from([0.0, 0.3, 1.0]),
    }
)


def build(seed, n, d, widths, bias, output_bias, slope, k=2, **options):
    X, Y = normal(seed, (n, d), (n, k))
    problem = RepresentationProblem(X, Y, lam=0.1, bias=bias, output_bias=output_bias, slope=slope, **options)
    return problem, random_weights(problem, widths, k, seed)


def clear(problem, Z):
    return all(r.is_clear and r.kept > 1e-4 for r in problem.images(Z))


@given(cases)
def test_least_weights_are_inverse_on_the_image_and_others_cost_their_residual_part(case):
    problem, W = build(**case)
    Z = problem.to_representations(W)
    if not clear(problem, Z):
        return
    least = problem.to_weights(Z)
    again = problem.to_representations(least)
    for z, back in zip(Z, again, strict=True):
        assert np.abs(back - z).max() <= 1e-10 * max(1.0, np.abs(z).max())
    assert problem.weight_objective(least) == pytest.approx(problem.objective(Z), rel=1e-10)
    residual = 0.0
    for w, image in zip(W, problem.images(Z), strict=True):
        right = np.linalg.svd(image.features)[2][: image.rank]
        residual += ((w - w @ right.T @ right) ** 2).sum()
    gap = problem.weight_objective(W) - problem.objective(Z)
    assert gap >= -1e-10 * problem.weight_objective(W)
    assert gap == pytest.approx(problem.lam * residual, abs=1e-9 * problem.weight_objective(W))


def test_networks_of_covopt_are_taken_with_their_own_norm():
    X, y = make_random_plane(12, random_state=1)
    for output_bias in ("none", "penalized"):
        found = covopt.fit(X, y, lam=1e-2, output_bias=output_bias)
        problem = RepresentationProblem(X, y, lam=1e-2, output_bias=output_bias)
        assert problem.weight_objective(found) == pytest.approx(found.objective)
        assert problem.objective(problem.to_representations(found.network)) <= found.objective * (1 + 1e-12)
        assert problem.objective(problem.to_representations(found)) >= found.lower_bound * (1 - 1e-9)
    W = random_weights(RepresentationProblem(X, y, lam=1.0, bias=0.5), (5, 4), 1, 0)
    problem = RepresentationProblem(X, y, lam=1.0, bias=0.5)
    deep = DeepReLUNetwork([w[:, :-1] for w in W], [w[:, -1] for w in W], bias=0.5)
    for network in (W, deep):
        for mine, theirs in zip(problem.to_representations(network), deep.representations(X), strict=True):
            assert np.allclose(mine, theirs)
    back = problem.to_network(problem.to_representations(deep))
    assert np.allclose(back.predict(X), deep.predict(X))
    assert back.squared_norm == pytest.approx(
        problem.objective(problem.to_representations(deep)) - problem.loss.value(deep.predict(X))
    )
    for bias, output_bias in ((0.0, "none"), (1.0, "none"), (2.0, "penalized")):
        problem = RepresentationProblem(X, y, lam=1.0, bias=bias, output_bias=output_bias, slope=0.2)
        Z = problem.to_representations(random_weights(problem, (5, 4), 1, 0))
        back = problem.to_network(Z)
        assert np.allclose(back.predict(X), Z[-1][:, 0])
        assert problem.weight_objective(back) == pytest.approx(problem.objective(Z))


def test_tikhonov_is_a_ridge_regression_and_tends_to_the_pseudo_inverse():
    rng, X, Y = drawn(6, (6, 3), (6, 2))
    exact = RepresentationProblem(X, Y, lam=0.1)
    W = random_weights(exact, (4,), 2, 0)
    Z = exact.to_representations(W)
    values = []
    for epsilon in (1e-2, 1e-5, 1e-9):
        soft = RepresentationProblem(X, Y, lam=0.1, tikhonov=epsilon)
        A = soft.images(Z)[1].features
        V = soft.to_weights(Z)[1].T
        assert np.allclose(V, np.linalg.solve(A.T @ A + epsilon * np.eye(5), A.T @ Z[1]))
        least = (V**2).sum() + ((A @ V - Z[1]) ** 2).sum() / epsilon
        assert soft.costs(Z)[1] == pytest.approx(least)
        values.append(soft.objective(Z))
    assert values == sorted(values)
    assert values[-1] == pytest.approx(exact.objective(Z), rel=1e-6)
    wild = [z + rng.standard_normal(z.shape) for z in Z]
    assert exact.objective(wild) == np.inf
    assert np.isfinite(soft.objective(wild))


# ---- forces, stationarity and descent on representations, against autodiff and trained networks.
kinds = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "widths": st.sampled_from([(8,), (3,), (9, 8), (4, 3), (7, 2, 8)]),
        "bias": st.sampled_from([0.0, 0.7]),
        "slope": st.sampled_from([0.0, 0.3]),
        "loss": st.sampled_from(["squared", "huber", "softmax-cross-entropy"]),
        "tikhonov": st.sampled_from([0.0, 1e-2]),
    }
)


def build_pair(seed, widths, bias, slope, loss, tikhonov=0.0, n=6, d=4):
    rng = np.random.default_rng(seed)
    labels = loss == "softmax-cross-entropy"
    Y = np.arange(n) % 3 if labels else rng.standard_normal((n, 3))
    options = {"lam": 0.2, "loss": loss, "bias": bias, "slope": slope, "tikhonov": tikhonov}
    problem = RepresentationProblem(rng.standard_normal((n, d)), Y, **options)
    W = random_weights(problem, widths, 3, seed)
    return problem, W, problem.to_representations(W)


def by_autodiff(problem, Z):
    """The gradient of 𝓛ʳ that torch finds through torch.linalg.pinv, or through the ridge solve."""
    leaves = [torch.tensor(z, requires_grad=True) for z in Z]
    features = torch.tensor(problem.image(Z, 0).features)
    total = torch.zeros((), dtype=torch.float64)
    for layer, z in enumerate(leaves):
        if problem.tikhonov > 0:
            gram = features @ features.T + problem.tikhonov * torch.eye(len(z), dtype=torch.float64)
            total = total + (z * torch.linalg.solve(gram, z)).sum()
        else:
            kept = problem.image(Z, layer).kept
            total = total + (torch.linalg.pinv(features, rtol=0.5 * kept) @ z).square().sum()
        features = torch.where(z > 0, z, problem.slope * z)
        if problem.bias:
            features = torch.cat([features, torch.full((len(z), 1), problem.bias, dtype=torch.float64)], 1)
    (problem.lam * total).backward()
    found = [leaf.grad.numpy() for leaf in leaves]
    found[-1] = found[-1] + problem.fit_gradient(Z[-1])
    return found


@given(kinds)
def test_the_closed_form_is_what_autodiff_finds_and_forces_push_along_the_rays(case):
    problem, _, Z = build_pair(**case)
    if any(image.kept < 1e-3 for image in problem.images(Z)):
        return
    for mine, theirs in zip(gradient(problem, Z), by_autodiff(problem, Z), strict=True):
        assert np.allclose(mine, theirs, rtol=1e-7, atol=1e-7 * (1 + np.abs(theirs).max()))
    found, weights = forces(problem, Z), problem.to_weights(Z)
    for ell in range(1, len(Z)):
        # Euler: attraction pulls inwards by 2‖A⁺Z‖² in all, repulsion outwards by twice the part of ‖W‖² on neurons
        assert (Z[ell - 1] * found.attraction[ell - 1]).sum() == pytest.approx(-2 * problem.costs(Z)[ell - 1])
        inner = weights[ell][:, : Z[ell - 1].shape[1]]
        pulled = problem.image(Z, ell).inverse_gram(Z[ell])
        outward = 2 * np.sum((pulled @ inner) * problem.activate(Z[ell - 1]))
        assert (Z[ell - 1] * found.repulsion[ell - 1]).sum() == pytest.approx(outward)


def test_the_pullback_of_the_gradient_is_the_gradient_in_the_weights():
    problem, _, Z = build_pair(5, (4, 3), 0.7, 0.3, "squared")
    W = problem.to_weights(Z)
    found = stationarity(problem, Z)
    _, slopes = value_and_gradient(problem, W)
    for image, residual, slope in zip(problem.images(Z), found.residuals, slopes, strict=True):
        assert np.allclose(image.features.T @ residual, slope.T)
    assert found.value > 0.1
    assert found.n_kinks == 0


# ---------------------------------------------------------------------- trained minima
def simplex(seed=0, lam=1e-2, bias=0.0, **options):
    """Negatively correlated samples, which keep silent neurons away from their kinks."""
    rng = np.random.default_rng(seed)
    X = 2 * np.linalg.cholesky(1.2 * np.eye(5) - 0.2) + 0.05 * rng.standard_normal((5, 5))
    return RepresentationProblem(
        X, np.eye(5) + 0.1 * rng.standard_normal((5, 5)), lam=lam, bias=bias, **options
    )


def plane(seed, slope=0.0):
    X = normal(seed, (12, 3))
    return RepresentationProblem(
        X, np.column_stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2]]), lam=1e-2, slope=slope
    )


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("options", "widths"),
    [(dict(seed=0), (12,)), (dict(seed=1, bias=0.3), (12,)), (dict(seed=2, lam=1e-3), (12, 10))],
)
def test_forces_cancel_at_trained_minima_of_full_row_rank(options, widths):
    problem = simplex(**options)
    W, slope = train(problem, widths, options["seed"])
    Z = problem.to_representations(W)
    assert slope < 1e-8 and problem.objective(Z) == pytest.approx(problem.weight_objective(W), rel=1e-9)
    found, acting = stationarity(problem, Z), forces(problem, Z)
    assert found.is_full and found.value < 1e-6 and max(found.unbalanced) < 1e-6
    assert max(np.linalg.norm(a) for a in acting.repulsion) > 0.5
    assert all(acting.imbalance(ell) < 1e-4 for ell in range(1, len(Z)))
    if len(widths) == 1:
        assert found.kink_distance > 1e-5 and (Z[0] < 0).any()


@pytest.mark.parametrize(("seed", "widths", "slope"), [(1, (2,), 0.0), (5, (2, 2), 0.9)])
def test_in_general_only_the_moves_that_networks_can_make_are_stationary(seed, widths, slope):
    problem = plane(seed, slope)
    W, height = train(problem, widths, seed, rounds=3)
    Z = problem.to_representations(W)
    found = stationarity(problem, Z)
    assert height < 1e-8 and not found.is_full and found.value < 1e-6 and found.kink_distance > 1e-4
    assert max(found.unbalanced) > 1e-3  # attraction and repulsion do not cancel
    assert max(np.linalg.norm(m) for m in found.multipliers) > 1e-3
    # differences of 𝓛ʳ along paths of networks vanish to second order
    rng = np.random.default_rng(0)
    base = problem.objective(Z)
    for _ in range(5):
        moved = [w + 1e-5 * rng.standard_normal(w.shape) for w in W]
        assert abs(problem.objective(problem.to_representations(moved)) - base) < 1e-8


def test_minima_on_kinks_are_stationary_with_slopes_in_between():
    for seed in range(12):
        problem = plane(seed)
        W, slope = train(problem, (2,), seed, rounds=3)
        Z = problem.to_representations(W)
        found = stationarity(problem, Z, kink_tol=1e-7)
        if slope > 1e-4 and found.value < 1e-6:  # the one-sided gradient stays large there
            break
    assert found.n_kinks > 0 and found.kink_distance > 1e-6
    assert any(((s > 0) & (s < 1)).any() for s in found.slopes)
    assert found.value < 1e-6 and stationarity(problem, Z).value > 1e-4


def test_certified_optima_are_stationary():
    X, y = make_random_plane(14)
    optimum = covopt.fit(X, y, lam=5e-2, tol=1e-9)
    problem = RepresentationProblem(X, y, lam=5e-2, output_bias="none", rank_tol=1e-6)
    Z = problem.to_representations(optimum)
    assert stationarity(problem, Z, kink_tol=1e-6).value < 1e-4
    assert problem.objective(Z) == pytest.approx(optimum.objective, rel=1e-8)
    # Prop 14: X = I, (YYᵀ)^{1/2} completely positive: K₁ = (YYᵀ)^{1/2}; here it has the factor itself
    Z = [np.linalg.cholesky(ROOT), ROOT]
    problem = RepresentationProblem(np.eye(3), ROOT, bias=0.0)
    found = stationarity(problem, Z, kink_tol=1e-9)
    assert (Z[0] >= 0).all() and found.value < 1e-10 and found.is_full
    assert problem.objective(Z) == pytest.approx(2 * np.trace(ROOT))


ROOT = np.array([[2.0, 0.5, 0.3], [0.5, 1.5, 0.4], [0.3, 0.4, 1.0]])


# ---------------------------------------------------------------------- descent
def test_descent_is_monotone_and_ends_where_training_of_the_weights_is_stationary():
    problem = simplex()
    Z = problem.to_representations(random_weights(problem, (12,), 5, 0))
    found = projected_gradient_descent(problem, Z, max_iter=1000, tol=1e-4)
    values = [record["objective"] for record in found.history]
    assert all(b < a for a, b in pairwise(values))
    assert (found.stop, found.n_iter) == ("stationary", len(found.history) - 1)
    assert stationarity(problem, found.representations).value <= 1e-4
    assert max(problem.defects(found.representations)) < 1e-10
    reached = [problem.weight_objective(train(problem, (12,), seed)[0]) for seed in range(2)]
    assert min(reached) * 0.99 < found.objective < max(reached) * 1.1
    least = problem.to_weights(found.representations)
    assert problem.weight_objective(least) == pytest.approx(found.objective)
    assert projected_gradient_descent(problem, Z, max_iter=0).history[0]["step"] == 0.0
    assert projected_gradient_descent(problem, Z, max_iter=3).stop == "max_iter"


def test_moving_along_descends_where_the_plain_projection_is_stuck():
    X = normal(3, (12, 3))
    problem = RepresentationProblem(X, np.abs(X[:, :2]) - X[:, 1:], lam=1e-2)
    Z = problem.to_representations(random_weights(problem, (3, 3), 2, 3))
    start = problem.objective(Z)
    along = projected_gradient_descent(problem, Z, max_iter=25)
    plain = projected_gradient_descent(problem, Z, direction="plain", max_iter=60)
    assert along.objective < 0.5 * start
    assert plain.stop == "no_descent"
    assert along.objective < plain.objective <= start


def test_interpolation_finds_the_minimal_norm_of_proposition_14():
    problem = RepresentationProblem(np.eye(3), ROOT, bias=0.0)
    start = [np.abs(np.random.default_rng(0).standard_normal((3, 6))), ROOT]
    found = projected_gradient_descent(problem, start, max_iter=4000, tol=1e-7)
    assert found.objective == pytest.approx(2 * np.trace(ROOT), rel=1e-6)
    assert (found.representations[-1] == ROOT).all()


def test_tikhonov_takes_any_representations():
    problem, rng = simplex(tikhonov=1e-3), np.random.default_rng(1)
    Z = [rng.standard_normal((5, 8)), rng.standard_normal((5, 5))]
    for direction in ("along", "plain"):
        found = projected_gradient_descent(problem, Z, max_iter=100, tol=1e-5, direction=direction)
        values = [record["objective"] for record in found.history]
        assert all(b < a for a, b in pairwise(values)) and found.objective < 0.2 * values[0]
