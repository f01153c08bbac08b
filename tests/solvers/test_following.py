import numpy as np
import pytest

import covopt
from covopt.solvers.regularised import following
from tests.cases import drawn, normal


def table(loss, n=25, seed=0):
    rng, X = drawn(seed, (n, 2))
    y = rng.standard_normal(n) + 2.0 * np.maximum(X[:, 0], 0)
    return X, (y if loss == "squared" else np.where(y > 0.5, "b", "a"))


def parallel():
    """Repeated and parallel points, and rows of zeros."""
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.standard_normal((6, 2)), np.zeros((2, 2))])
    X = np.concatenate([X, X, 2.0 * X, -X])
    return X, rng.standard_normal(len(X))


@pytest.mark.parametrize(
    ("points", "options"),
    [(table("squared"), {"sample_weight": np.linspace(0.0, 3.0, 25)}), (parallel(), {"bias": 0.0})],
)
def test_every_point_of_a_path_is_the_optimum_found_from_scratch(points, options):
    for s in covopt.path(*points, n_lams=4, eps=1e-3, **options):
        assert s.status.code == "certified" and (s.history or not len(s.network))
        assert s.objective == pytest.approx(covopt.fit(*points, lam=s.lam, **options).objective, rel=2e-6)
        assert covopt.verify(s).ok


def test_a_start_far_away_or_of_another_loss_does_no_harm():
    X, y = table("logistic")
    for start in (covopt.fit(X, y, lam=1e-5, loss="logistic"), covopt.fit(X, y, lam=10.0, loss="logistic"),
                  covopt.fit(X, y, lam=1e-3, loss="hinge")):  # fmt: skip
        found = covopt.fit(X, y, lam=1e-3, loss="logistic", start=start)
        assert found.status.code == "certified"
        assert found.objective == pytest.approx(
            covopt.fit(X, y, lam=1e-3, loss="logistic").objective, rel=2e-6
        )


def test_when_the_rounds_do_not_help_the_interior_points_go_on(monkeypatch):
    X, y = table("squared")
    first = covopt.fit(X, y, lam=1e-2)
    monkeypatch.setattr(following.Following, "run", lambda self: False)
    found = covopt.fit(X, y, lam=5e-3, start=first)
    assert found.status.code == "certified"


def test_the_curvature_is_what_makes_the_last_rounds_few(monkeypatch):
    """Without it neurons in the interior of a face are approached by ever more columns."""
    X, y = table("squared", n=60, seed=5)
    curved = covopt.path(X, y, n_lams=8)
    monkeypatch.setattr(following.Following, "_curvature", lambda *_: None)
    plain = covopt.path(X, y, n_lams=8)
    assert sum(len(s.history) for s in curved) < sum(len(s.history) for s in plain)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("potential", ["variation", "label-noise", "label-noise-exact"])
def test_a_start_whose_samples_had_other_weights(potential):
    """Samples of weight zero lower the rank, and neurons of the start may be silent on those that are left."""
    X, y = normal(0, (9, 2), 9)
    tables = [None, np.arange(9) < 2, np.arange(9) > 6]
    starts = [covopt.fit(X, y, lam=1e-3, potential=potential, sample_weight=w) for w in tables]
    for w in tables:
        alone = covopt.fit(X, y, lam=2e-3, potential=potential, sample_weight=w)
        for start in starts:
            found = covopt.fit(X, y, lam=2e-3, potential=potential, sample_weight=w, start=start)
            assert found.status.code == "certified"
            assert found.objective == pytest.approx(alone.objective, rel=2e-6)


def test_what_the_tolerance_just_allows_is_certified():
    """At 0.99 λ_max the gap of the constant is (1 − 0.99)²: rounding in the certificate must not refuse it."""
    rng = np.random.default_rng(3)
    for seed in range(8):
        X, y = np.random.default_rng(seed).standard_normal((9, 1)), rng.standard_normal(9)
        found = covopt.fit(X, y, lam=0.99 * covopt.lambda_max(X, y), tol=1e-4)
        assert found.status.code == "certified"


@pytest.mark.parametrize("start", [np.nan, 1e200])
def test_numbers_that_overflow_are_no_bounds(start):
    X, y = table("squared")
    first = covopt.fit(X, y, lam=1e-2)
    first.warm.weights[:] = start
    with np.errstate(all="ignore"):
        found = covopt.fit(X, y, lam=5e-3, start=first)
    assert found.status.code == "certified"


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
def test_a_start_with_an_output_bias_for_a_network_without(loss):
    X, y = np.array([[0.3], [-1.2]]), np.array([1.0, -1.0])
    options = {"loss": loss, "lam": 1e-3}
    for output_bias in ("free", "penalized"):
        start = covopt.fit(X + 3.0, y, output_bias=output_bias, **options)
        found = covopt.fit(X + 3.0, y, start=start, **options)
        assert found.status.code == "certified"
        assert not found.network.output_bias.any()
