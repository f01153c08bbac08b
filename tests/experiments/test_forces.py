import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import covopt
from covopt.representations import RepresentationProblem, forces, gradient, stationarity
from covopt.training import Phase
from covopt.training import train as train_batch
from tests.experiments.trained import random_weights, train, value_and_gradient

kinds = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "widths": st.sampled_from([(8,), (3,), (9, 8), (4, 3), (7, 2, 8)]),
        "bias": st.sampled_from([0.0, 0.7]),
        "slope": st.sampled_from([0.0, 0.3]),
        "loss": st.sampled_from(["squared", "huber", "softmax-cross-entropy"]),
    }
)


def build(seed, widths, bias, slope, loss, tikhonov=0.0, n=6, d=4):
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
    features = torch.tensor(problem.input_image.features)
    total = torch.zeros((), dtype=torch.float64)
    for layer, z in enumerate(leaves):
        if problem.tikhonov > 0:
            gram = features @ features.T + problem.tikhonov * torch.eye(len(z), dtype=torch.float64)
            total = total + (z * torch.linalg.solve(gram, z)).sum()
        else:
            rank = problem.ranks(Z)[layer]
            total = total + (torch.linalg.pinv(features, rtol=0.5 * rank.kept) @ z).square().sum()
        features = torch.where(z > 0, z, problem.slope * z)
        if problem.bias:
            features = torch.cat([features, torch.full((len(z), 1), problem.bias, dtype=torch.float64)], 1)
    (problem.lam * total).backward()
    found = [leaf.grad.numpy() for leaf in leaves]
    found[-1] = found[-1] + problem.fit_gradient(Z[-1])
    return found


@given(kinds, st.sampled_from([0.0, 1e-2]))
def test_the_closed_form_is_what_autodiff_finds(case, tikhonov):
    problem, _, Z = build(**case, tikhonov=tikhonov)
    if any(r.kept < 1e-3 for r in problem.ranks(Z)):
        return
    for mine, theirs in zip(gradient(problem, Z), by_autodiff(problem, Z), strict=True):
        assert np.allclose(mine, theirs, rtol=1e-7, atol=1e-7 * (1 + np.abs(theirs).max()))


@given(kinds)
def test_forces_add_up_to_the_gradient_and_are_proportional_on_a_ray(case):
    problem, _, Z = build(**case)
    if any(r.kept < 1e-3 for r in problem.ranks(Z)):
        return
    found = forces(problem, Z)
    slope = gradient(problem, Z)
    for ell in range(1, len(Z)):
        z, attraction, repulsion = found.by_sample(ell)
        assert np.allclose(-problem.lam * (attraction + repulsion), slope[ell - 1])
        assert all(
            np.array_equal(a.T, b)
            for a, b in zip(found.by_neuron(ell), (z, attraction, repulsion), strict=True)
        )
        # Euler: attraction pulls inwards by 2‖A⁺Z‖² in all, repulsion outwards by twice the part of ‖W‖² on neurons
        assert (z * attraction).sum() == pytest.approx(-2 * problem.costs(Z)[ell - 1])
        inner = problem.to_weights(Z)[ell][:, : z.shape[1]]
        outward = 2 * np.sum((problem.image(Z, ell).inverse_gram(Z[ell]) @ inner) * problem.activate(z))
        assert (z * repulsion).sum() == pytest.approx(outward)
    assert np.allclose(problem.lam * (found.attraction[-1] + found.pull), -slope[-1])


def test_the_pullback_of_the_gradient_is_the_gradient_in_the_weights():
    problem, _, Z = build(5, (4, 3), 0.7, 0.3, "squared")
    W = problem.to_weights(Z)
    found = stationarity(problem, Z)
    _, slopes = value_and_gradient(problem, W)
    for image, residual, slope in zip(problem.images(Z), found.residuals, slopes, strict=True):
        assert np.allclose(image.features.T @ residual, slope.T)
    assert found.value > 0.1
    assert found.n_kinks == 0


def smooth_minimum(case):
    rng = np.random.default_rng(case["seed"])
    if case["kind"] == "simplex":  # negatively correlated samples keep silent neurons away from their kinks
        n = 5
        gram = 1.2 * np.eye(n) - 0.2
        X = 2 * np.linalg.cholesky(gram) + 0.05 * rng.standard_normal((n, n))
        Y = np.eye(n) + 0.1 * rng.standard_normal((n, n))
    elif case["kind"] == "positive":  # a network of active neurons only
        n = 5
        X, Y = np.eye(n), np.eye(n) + 0.3 + 0.02 * rng.random((n, n))
    else:
        X = rng.standard_normal((12, 3))
        Y = np.column_stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2]])
    problem = RepresentationProblem(X, Y, lam=case["lam"], bias=case["bias"], slope=case.get("slope", 0.0))
    weights, slope = train(problem, case["widths"], case["seed"])
    assert slope < 1e-8
    return problem, weights


FULL = [
    dict(kind="simplex", seed=0, lam=1e-2, bias=0.0, widths=(12,)),
    dict(kind="simplex", seed=1, lam=1e-2, bias=0.3, widths=(12,)),
    dict(kind="simplex", seed=2, lam=1e-3, bias=0.0, widths=(12, 10)),
]
LOW = [
    dict(kind="plane", seed=1, lam=1e-2, bias=1.0, widths=(2,)),
    dict(kind="plane", seed=3, lam=1e-2, bias=1.0, widths=(2,)),
]


@pytest.mark.thinned(3)
@pytest.mark.parametrize("case", FULL)
def test_forces_cancel_at_trained_minima_of_full_row_rank(case):
    problem, W = smooth_minimum(case)
    Z = problem.to_representations(W)
    assert problem.objective(Z) == pytest.approx(problem.weight_objective(W), rel=1e-9)
    found = stationarity(problem, Z)
    assert found.is_full
    assert found.value < 1e-6
    assert max(found.unbalanced) < 1e-6
    acting = forces(problem, Z)
    assert max(np.linalg.norm(a) for a in acting.repulsion) > 0.5
    assert all(acting.imbalance(ell) < 1e-4 for ell in range(1, len(Z)))
    if len(case["widths"]) == 1:
        assert found.kink_distance > 1e-5
        assert (Z[0] < 0).any()


def examine(case):
    problem, W = case
    Z = problem.to_representations(W)
    found = stationarity(problem, Z)
    assert not found.is_full
    assert found.value < 1e-6
    assert max(found.unbalanced) > 1e-3  # attraction and repulsion do not cancel
    assert max(np.linalg.norm(m) for m in found.multipliers) > 1e-3
    # differences of 𝓛ʳ along paths of networks vanish to second order
    rng = np.random.default_rng(0)
    base = problem.objective(Z)
    for _ in range(5):
        moved = [w + 1e-5 * rng.standard_normal(w.shape) for w in W]
        assert abs(problem.objective(problem.to_representations(moved)) - base) < 1e-8


@pytest.mark.thinned(2)
@pytest.mark.parametrize("case", LOW)
def test_in_general_only_the_moves_that_networks_can_make_are_stationary(case):
    examine(smooth_minimum(case))


def plane(seed, slope, lam=1e-2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 3))
    Y = np.column_stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2]])
    return RepresentationProblem(X, Y, lam=lam, slope=slope)


def test_deep_minima_of_low_rank_away_from_kinks():
    seen = 0
    for seed in (5, 6, 7, 0, 4):
        problem = plane(seed, 0.9)
        W, slope = train(problem, (2, 2), seed, rounds=3)
        if slope < 1e-8 and stationarity(problem, problem.to_representations(W)).kink_distance > 1e-4:
            examine((problem, W))
            seen += 1
        if seen == 2:
            break
    assert seen == 2


def test_minima_on_kinks_are_stationary_with_slopes_in_between():
    seen = 0
    for seed in range(12):
        problem = plane(seed, 0.0)
        W, slope = train(problem, (2,), seed, rounds=3)
        Z = problem.to_representations(W)
        found = stationarity(problem, Z, kink_tol=1e-7)
        if slope > 1e-4 and found.value < 1e-6:  # the one-sided gradient stays large there
            assert found.n_kinks > 0
            assert found.kink_distance > 1e-6
            between = [s[(s > 0) & (s < 1)] for s in found.slopes]
            assert sum(len(b) for b in between) > 0
            assert stationarity(problem, Z).value > 1e-4
            seen += 1
        if seen == 1:
            break
    assert seen == 1


def test_a_certified_optimum_is_stationary():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((14, 2)), rng.standard_normal(14)
    optimum = covopt.fit(X, y, lam=5e-2, tol=1e-9)
    problem = RepresentationProblem(X, y, lam=5e-2, output_bias="none", rank_tol=1e-6)
    Z = problem.to_representations(optimum)
    found = stationarity(problem, Z, kink_tol=1e-6)
    assert found.value < 1e-4
    assert problem.objective(Z) == pytest.approx(optimum.objective, rel=1e-8)


@pytest.mark.slow
def test_networks_of_covopt_training_are_stationary():
    case = FULL[0]
    problem, _ = smooth_minimum(case)
    run = train_batch(
        problem.X, problem.loss.targets, widths=12, lam=case["lam"], bias=0.0, seeds=3,
        schedule=[Phase("adam", 500, learning_rate=0.02), Phase("lbfgs", 3000)], tol_gradient=1e-11,
    )  # fmt: skip
    converged = [i for i, status in enumerate(run.status) if status == "converged"]
    values = []
    for i in converged:
        Z = problem.to_representations(run.network(i))
        assert problem.objective(Z) == pytest.approx(run.table.objective[i], rel=1e-8)
        values.append(max(stationarity(problem, Z).value, *stationarity(problem, Z).unbalanced))
    assert len(converged) > 0
    assert max(values) < 1e-6


def test_interpolation_is_stationary_at_the_closed_form():
    # Prop 14: X = I, (YYᵀ)^{1/2} completely positive: K₁ = (YYᵀ)^{1/2}; here it has the factor itself
    root = np.array([[2.0, 0.5, 0.3], [0.5, 1.5, 0.4], [0.3, 0.4, 1.0]])
    Z = [np.linalg.cholesky(root), root]
    problem = RepresentationProblem(np.eye(3), root, bias=0.0)
    found = stationarity(problem, Z, kink_tol=1e-9)
    assert (Z[0] >= 0).all()
    assert problem.objective(Z) == pytest.approx(2 * np.trace(root))
    assert found.value < 1e-10
    assert found.is_full
