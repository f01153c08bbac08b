"""The four variants against closed forms, column generation and each other; steps and gradients by themselves."""

import numpy as np
import pytest

import covopt
from covopt.errors import InputError
from covopt.losses import SquaredError
from covopt.problems.problem import Problem
from covopt.solvers.frank_wolfe import Masses
from tests.cases import drawn, normal


def random_data(seed, n=8, k=2):
    return normal(seed, (n, 2), (n, k))


# ---------------------------------------------------------------------- pieces
def dense_problem(seed, *, offset_cost=np.inf, ridge=0.0, n=5, m=14, k=2):
    rng, rows, targets = drawn(seed, (n, 3), (n, k))
    view = Problem.through(rows, targets, offset_cost)
    if ridge > 0:
        loss = SquaredError(total=True)
        loss.encode_targets(targets)
        view = Problem(rows, loss, 2 * ridge, offset_cost)
    neurons = rng.standard_normal((m, 3))
    return view, neurons / np.linalg.norm(neurons, axis=1, keepdims=True), rng.random(m) + 0.1


KINDS = [
    {}, {"offset_cost": 1 / 0.7}, {"offset_cost": 0.0}, {"ridge": 0.3}, {"offset_cost": 2.0, "ridge": 0.2},
    {"offset_cost": 0.0, "ridge": 0.2},
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("move", ["toward", "exchange", "rescale"])
def test_slopes_are_derivatives_and_line_searches_are_exact(kind, move):
    view, neurons, masses = dense_problem(1, **kind)
    state, eye = Masses(view, neurons, masses), np.eye(len(masses))
    before, start, slopes = state.value, state.masses.copy(), state.slopes()
    best, worst = int(slopes.argmax()), int(slopes.argmin())
    asked, direction = {
        "exchange": ((best, worst), eye[best] - eye[worst]), "toward": ((best,), start.sum() * eye[best] - start),
        "rescale": ((), start),
    }[move]  # fmt: skip
    for way in (*eye, direction):
        above, below = (Masses(view, neurons, start + sign * 1e-6 * way).value for sign in (1, -1))
        assert (above - below) / 2e-6 == pytest.approx(way @ (1 - slopes), rel=1e-5, abs=1e-5)
    getattr(state, move)(*asked)
    assert state.value <= before + 1e-12
    for step in (-1e-4, 1e-4):  # no better step next to it
        moved = state.masses + step * direction
        if moved.min() >= 0:
            assert Masses(view, neurons, moved).value >= state.value * (1 - 1e-12)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize(
    ("bias", "output_bias"), [(1.0, "none"), (1.0, "penalized"), (1.0, "free"), (0.0, "none")]
)
def test_a_loss_takes_repeated_points_zero_rows_and_one_ray(bias, output_bias, k):
    X, Y = normal(2, (6, 2), (6, k))
    X[3], X[4], X[5] = X[1], 0.0, 2 * X[0]
    options = {"bias": bias, "output_bias": output_bias}
    result = covopt.frank_wolfe(X, Y, lam=0.1, tol=1e-8, **options)
    fitted = covopt.fit(X, Y, lam=0.1 / 6, **options)  # the mean of squares instead of their sum
    assert result.status.code == "certified"
    assert result.objective == pytest.approx(6 * fitted.objective, rel=2e-6)
    with pytest.raises(InputError, match=r"rows 1 and 3|rows 0 and 5 .* lie on one ray"):
        covopt.frank_wolfe(X, Y, **options)


def test_warm_start_goes_on_where_it_was():
    X, Y = random_data(7)
    first = covopt.frank_wolfe(X, Y, variant="pairwise", tol=1e-6, max_iter=60)
    again = covopt.frank_wolfe(X, Y, variant="pairwise", start=first.active_set, max_iter=1)
    assert again.history[0]["cost"] <= first.history[-1]["cost"] * (1 + 1e-3)
    assert again.history[0]["cost"] < first.history[0]["cost"]
    done = covopt.frank_wolfe(X, Y, tol=1e-8)
    restarted = covopt.frank_wolfe(X, Y, start=done.active_set, tol=1e-6)
    assert len(restarted.history) <= len(done.history)
    assert restarted.cost == pytest.approx(done.cost, rel=1e-6)


def test_callback_and_time_limit_stop():
    X, Y = random_data(8)
    seen = []
    stopped = covopt.frank_wolfe(
        X, Y, variant="vanilla", callback=lambda state: seen.append(state) or len(seen) == 3
    )
    assert stopped.status.code == "callback"
    assert len(seen) == 3
    assert stopped.lower_bound <= stopped.cost
    assert stopped.certificate.residual <= 1e-9
    assert covopt.frank_wolfe(X, Y, variant="vanilla", time_limit_s=1e-9).status.code == "time_limit"
    assert "vanilla" in stopped.summary()


def test_the_sum_of_squares_is_a_loss_of_its_own():
    """Fit minimises the same sum; verify says that a sum has no exact proof; a mean file is not read as a sum."""
    X, Y = random_data(6, k=1)
    result = covopt.frank_wolfe(X, Y, lam=0.3, tol=1e-8)
    fitted = covopt.fit(X, Y[:, 0], loss=SquaredError(total=True), lam=0.3, tol=1e-8)
    assert fitted.objective == pytest.approx(result.objective, rel=1e-7)
    assert covopt.verify(fitted).ok
    assert "NOT exact" in covopt.verify(result, exact=True).summary()
    with pytest.raises(InputError, match="no exact proof"):
        result.prove()
    content = result.to_dict()
    del content["problem"]["loss"]["total"]
    assert not covopt.verify(covopt.Solution.from_dict(content)).ok
    weighted = SquaredError(total=True)
    weighted.encode_targets([0.0, 0.0], [1.0, 3.0])
    assert weighted.value([1.0, 1.0]) == pytest.approx(2.0)
    with pytest.raises(InputError, match="total must be True or False"):
        SquaredError(total=3)


def test_a_covariance_that_rounding_makes_indefinite_is_no_crash():
    x = [[1808.9167492452282], [1809.1595798014314], [1806.814357898229], [1809.4405376870513]]
    Y = np.array(
        [
            [-5.2598520300597596e-05, -2.1603930753434093e-05],
            [-5.260557817485118e-05, -2.160682965298049e-05],
            [-5.253741426027502e-05, -2.1578832506255253e-05],
            [-5.261374422058388e-05, -2.1610183714758854e-05],
        ]
    )
    result = covopt.frank_wolfe(x, Y, output_bias="free", variant="vanilla", max_iter=300)
    best = covopt.min_norm(x, Y, output_bias="free")
    assert result.lower_bound <= best.cost * (1 + 1e-9)
    assert np.isfinite(result.cost)
