"""Batched L-BFGS against scipy's on functions with known minima, and the independence of the members."""

import numpy as np
import torch
from scipy import optimize

from covopt.training.optimisers import STATUSES, BatchedLBFGS


def minimise(function, theta, *, steps, tol_gradient=1e-8, callback=None):
    run = BatchedLBFGS(function, theta, steps, tol_gradient)
    while not run.done:
        run.advance()
        if callback is not None and callback(run):
            break
    return run


def statuses(run):
    return np.array(STATUSES)[run.codes.numpy()]


def autograd(objective):
    """Turn objective(theta (b, P), indices) -> (b,) into the function that minimise takes."""

    def function(theta, indices):
        with torch.enable_grad():
            theta = theta.detach().requires_grad_(True)
            values = objective(theta, indices)
            (gradient,) = torch.autograd.grad(values.sum(), theta)
        return values.detach(), gradient

    return function


def quadratics(rng, n=12, p=8, condition=1e3):
    bases = np.linalg.qr(rng.standard_normal((n, p, p)))[0]
    spectra = np.geomspace(1.0, condition, p) * rng.uniform(0.5, 2.0, (n, p))
    matrices = torch.tensor(bases * spectra[:, None, :] @ bases.transpose(0, 2, 1))
    centres = torch.tensor(rng.standard_normal((n, p)))

    def function(theta, indices):
        pull = torch.einsum("bij,bj->bi", matrices[indices], theta - centres[indices])
        return 0.5 * ((theta - centres[indices]) * pull).sum(1), pull

    return function, centres


def rosenbrocks(scales):
    scales = torch.tensor(scales)[:, None]

    @autograd
    def function(theta, indices):
        a = scales[indices]
        return (a * (theta[:, 1:] - theta[:, :-1] ** 2) ** 2 + (1 - theta[:, :-1]) ** 2).sum(1)

    return function


def scipy_minimum(function, start, member, **options):
    def one(x):
        value, gradient = function(torch.tensor(x)[None], torch.tensor([member]))
        return float(value[0]), gradient[0].numpy()

    return optimize.minimize(
        one, start, jac=True, method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 20000, "gtol": 1e-11, "ftol": 1e-16, **options},
    )  # fmt: skip


def test_as_few_steps_as_scipy():
    function, centres = quadratics(np.random.default_rng(1))
    found = minimise(function, torch.zeros_like(centres), steps=500, tol_gradient=1e-7)
    theirs = [
        scipy_minimum(function, np.zeros(centres.shape[1]), i, gtol=1e-7).nit for i in range(len(centres))
    ]
    assert found.steps.mean() <= 1.3 * np.mean(theirs)


def test_rosenbrock_of_several_curvatures():
    scales = [1.0, 10.0, 100.0, 1000.0]
    start = torch.tensor([[-1.2, 1.0, -0.5, 0.3]]).double().repeat(4, 1)
    function = rosenbrocks(scales)
    found = minimise(function, start, steps=1000, tol_gradient=1e-9)
    assert (statuses(found) == "converged").all()
    for i in range(4):
        theirs = scipy_minimum(function, start[i].numpy(), i)
        # a curved valley of four variables has a second, local minimum: both codes must end at one of the two
        np.testing.assert_allclose(float(found.value[i]), theirs.fun, atol=1e-12)


def test_non_finite_start_leaves_the_others_alone():
    function, centres = quadratics(np.random.default_rng(7), n=3)

    def broken(theta, indices):
        value, gradient = function(theta, indices)
        return torch.where(indices == 1, torch.nan, value), gradient

    found = minimise(broken, torch.zeros_like(centres), steps=200)
    reference = minimise(function, torch.zeros_like(centres), steps=200)
    assert list(statuses(found)) == ["converged", "diverged", "converged"]
    assert torch.equal(found.theta[1], torch.zeros(8).double())
    np.testing.assert_allclose(found.theta[[0, 2]].numpy(), reference.theta[[0, 2]].numpy(), atol=1e-12)


def test_line_searches_end_with_the_weak_wolfe_conditions():
    """Functions of one variable whose first trial is far too short, far too long, or beyond a bump."""
    functions = [
        (lambda t: (t - 50.0) ** 2, lambda t: 2 * (t - 50.0)),
        (lambda t: 1e4 * (t - 1e-3) ** 2, lambda t: 2e4 * (t - 1e-3)),
        (lambda t: torch.cos(t) - 0.01 * t, lambda t: -torch.sin(t) - 0.01),
    ]

    def function(theta, indices):
        found = [
            [part(t) for part in functions[i]] for t, i in zip(theta[:, 0], indices.tolist(), strict=True)
        ]
        values, slopes = torch.tensor(found).double().T
        return values, slopes[:, None]

    start = torch.tensor([[0.0], [0.0], [1.0]]).double()
    value, slope = function(start, torch.arange(3))
    found = minimise(function, start, steps=1)
    assert found.steps.tolist() == [1, 1, 1]
    after, tilt = function(found.theta, torch.arange(3))
    assert (after <= value + 1e-4 * ((found.theta - start) * slope)[:, 0] + 1e-12).all()
    assert (tilt * slope <= 0.9 * slope**2).all()


def test_single_precision_ends_near_the_minimum():
    function, centres = quadratics(np.random.default_rng(5), condition=10.0)

    def single(theta, indices):
        value, gradient = function(theta.double(), indices)
        return value.float(), gradient.float()

    found = minimise(single, torch.zeros_like(centres).float(), steps=200, tol_gradient=1e-12)
    assert found.theta.dtype == torch.float32 and float((found.theta - centres).abs().max()) < 1e-4
    assert set(statuses(found)) <= {"stopped", "converged"}  # 1e-12 is below what float32 resolves


def test_what_is_not_finite_and_kinks_end_a_run_where_they_must():
    def overflowing(theta, indices, calls=[]):  # noqa: B006
        calls.append(len(indices))  # nothing is finite after the starting point
        value = (theta**2).sum(1)
        return value if len(calls) == 1 else torch.full_like(value, torch.inf), 2.0 * theta

    found = minimise(overflowing, torch.ones(1, 2).double(), steps=10)
    assert statuses(found)[0] == "diverged" and float(found.value[0]) == 2.0
    assert torch.equal(found.theta, torch.ones(1, 2).double())

    def wall(theta, indices):  # the minimum lies near the edge of the domain, and steps across it return NaN
        x = theta[:, 0]
        return 10.0 * x - torch.log(x), (10.0 - 1.0 / theta[:, :1])

    found = minimise(wall, torch.tensor([[4.0], [0.01]]).double(), steps=100, tol_gradient=1e-9)
    assert (statuses(found) == "converged").all()
    np.testing.assert_allclose(found.theta[:, 0].numpy(), 0.1, atol=1e-9)

    def kink(theta, indices):  # at the minimum of 1 + |x| + 2|y| no step helps, and no gradient is small
        scale = torch.tensor([1.0, 2.0]).double()
        return 1.0 + (scale * theta.abs()).sum(1), scale * (torch.sign(theta) + (theta == 0))

    found = minimise(kink, torch.tensor([[0.3, -0.8]]).double(), steps=2000)
    assert statuses(found)[0] == "stopped" and int(found.steps[0]) < 2000
    assert float(found.value[0]) < 1.0 + 1e-6 and float(found.gradient_norm[0]) > 1.0


def test_steps_are_counted_runs_stopped_and_finished_members_drop_out():
    found = minimise(rosenbrocks([100.0, 100.0]), torch.tensor([[-1.2, 1.0], [1.0, 1.0]]).double(), steps=3)
    assert (list(statuses(found)), found.steps.tolist()) == (["stopped", "converged"], [3, 0])
    seen = []
    found = minimise(
        rosenbrocks([100.0]), torch.tensor([[-1.2, 1.0]]).double(), steps=100,
        callback=lambda run: seen.append(float(run.value[0])) or len(seen) == 7,
    )  # fmt: skip
    assert list(statuses(found)) == ["running"] and len(seen) == 7 and (np.diff(seen) <= 0).all()
    function, centres = quadratics(np.random.default_rng(9), n=8)
    start, sizes = centres.clone(), []
    start[:2] = 0.0  # the others start at their minimum
    minimise(lambda theta, indices: sizes.append(len(indices)) or function(theta, indices), start, steps=200)
    assert sizes[0] == 8 and max(sizes[1:]) == 2
