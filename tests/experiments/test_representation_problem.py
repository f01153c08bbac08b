import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import covopt
from covopt.datasets import make_random_plane
from covopt.network.deep import DeepReLUNetwork
from covopt.representations import RepresentationProblem
from tests.experiments.trained import random_weights

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
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((n, d)), rng.standard_normal((n, k))
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
    rng = np.random.default_rng(6)
    X, Y = rng.standard_normal((6, 3)), rng.standard_normal((6, 2))
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
