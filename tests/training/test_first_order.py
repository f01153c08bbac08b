"""Steps against torch.optim and against the algorithms written out."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from covopt.training import Phase, train  # noqa: E402
from covopt.training.optimisers import DRAWN_TOGETHER, draw_noise  # noqa: E402
from covopt.training.schedule import DRAWS, generator  # noqa: E402

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((12, 2)), RNG.standard_normal(12)


def module_of(network):
    """The network as leaves for torch.optim: W (m, D), v (m, 1)."""
    return [torch.tensor(network.hidden_weights, requires_grad=True),
            torch.tensor(network.output_weights, requires_grad=True)]  # fmt: skip


def objective(leaves, lam, rows=slice(None), noise=None):
    lifted = torch.tensor(np.column_stack([X, np.ones(len(X))]))[rows]
    f = torch.relu(lifted @ leaves[0].T) @ leaves[1]
    target = torch.tensor(Y)[rows, None]
    if noise is not None:
        target = target + noise
    return ((f - target) ** 2).mean() + lam * sum((p**2).sum() for p in leaves)


def start(width=6):
    return train(X, Y, widths=width, schedule=Phase("gd", 1, learning_rate=1e-9)).network(0)


OPTIMISERS = {
    "adam": (Phase("adam", 40, learning_rate=0.02), lambda p: torch.optim.Adam(p, lr=0.02)),
    "adam-betas": (
        Phase("adam", 40, learning_rate=0.02, betas=(0.8, 0.95), eps=1e-3),
        lambda p: torch.optim.Adam(p, lr=0.02, betas=(0.8, 0.95), eps=1e-3),
    ),
    "gd": (Phase("gd", 40, learning_rate=0.02), lambda p: torch.optim.SGD(p, lr=0.02)),
    "momentum": (
        Phase("gd", 40, learning_rate=0.02, momentum=0.9),
        lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9),
    ),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_are_those_of_torch(name):
    phase, make = OPTIMISERS[name]
    first = start()
    for count in (1, 40):
        leaves = module_of(first)
        optimiser = make(leaves)
        for _ in range(count):
            optimiser.zero_grad()
            objective(leaves, 0.01).backward()
            optimiser.step()
        ours = Phase(**{**phase.to_dict(), "steps": count, "betas": phase.betas})
        found = train(X, Y, widths=6, lam=0.01, schedule=ours, start=first).network(0)
        np.testing.assert_allclose(found.hidden_weights, leaves[0].detach(), rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.output_weights, leaves[1].detach(), rtol=0, atol=1e-12)


def test_cosine_ends_in_small_steps():
    phase = Phase("gd", 10, decay="cosine")
    assert phase.factor(0) == 1.0
    assert phase.factor(5) == pytest.approx(0.5)
    assert phase.factor(9) < 0.03
    leaves = module_of(start())
    for t in range(10):
        for leaf, slope in zip(leaves, torch.autograd.grad(objective(leaves, 0.0), leaves), strict=True):
            leaf.data -= 0.05 * phase.factor(t) * slope
    found = train(X, Y, widths=6, learning_rate=0.05, schedule=phase, start=start()).network(0)
    np.testing.assert_allclose(found.hidden_weights, leaves[0].detach(), rtol=0, atol=1e-13)


def drawn(seed, widths, size, steps, eta=0.0, kind="normal", phase=0):
    """The documented stream: rows first, then noise, in blocks of 256 steps."""
    for block in range(-(-steps // DRAWN_TOGETHER)):
        random = generator(0, seed, widths, DRAWS, phase, block)
        rows = random.integers(0, len(X), (DRAWN_TOGETHER, size))
        noise = eta * draw_noise(random, kind, (DRAWN_TOGETHER, size, 1)) if eta else None
        for t in range(min(DRAWN_TOGETHER, steps - block * DRAWN_TOGETHER)):
            yield rows[t], None if noise is None else noise[t]


@pytest.mark.parametrize("kind", ["normal", "rademacher", "uniform"])
@pytest.mark.thinned(3)
@pytest.mark.parametrize("size", [1, 3])
def test_label_noise_sgd_is_algorithm_1(kind, size):
    steps, eta, epsilon = 300, 0.2, 0.01
    phase = Phase(
        "label-noise-sgd", steps, learning_rate=epsilon, noise_size=eta, noise=kind, batch_size=size
    )
    run = train(X, Y, widths=[6, 4], seeds=2, schedule=phase)
    for i, (seed, width) in enumerate([(0, 6), (1, 6), (0, 4), (1, 4)]):
        begin = train(
            X, Y, widths=width, seeds=[seed], schedule=Phase("gd", 1, learning_rate=1e-300)
        ).network(0)
        W, v = begin.hidden_weights.copy(), begin.output_weights[:, 0].copy()
        for rows, noise in drawn(seed, (width,), size, steps, eta, kind):
            dW, dv = np.zeros_like(W), np.zeros_like(v)
            for i_t, r in zip(rows, noise[:, 0], strict=True):
                x = np.append(X[i_t], 1.0)
                z = W @ x
                noisy = Y[i_t] + r
                slope = 2.0 * (np.maximum(z, 0) @ v - noisy) / size
                dv += slope * np.maximum(z, 0)
                dW += slope * np.outer(v * (z > 0), x)
            W, v = W - epsilon * dW, v - epsilon * dv
        np.testing.assert_allclose(run.network(i).hidden_weights, W, rtol=0, atol=1e-11)
        np.testing.assert_allclose(run.network(i).output_weights[:, 0], v, rtol=0, atol=1e-11)


def test_sgd_is_the_loop_over_its_draws():
    weights = np.linspace(0.5, 2.0, len(X))
    phase = Phase("sgd", 40, learning_rate=0.01, batch_size=4, momentum=0.5)
    found = train(X, Y, widths=5, lam=0.02, sample_weight=weights, schedule=phase).network(0)
    begin = train(X, Y, widths=5, schedule=Phase("gd", 1, learning_rate=1e-300)).network(0)
    leaves = module_of(begin)
    optimiser = torch.optim.SGD(leaves, lr=0.01, momentum=0.5)
    s = torch.tensor(weights / weights.sum())
    lifted = torch.tensor(np.column_stack([X, np.ones(len(X))]))
    for rows, _ in drawn(0, (5,), 4, 40):
        optimiser.zero_grad()
        f = (torch.relu(lifted[rows] @ leaves[0].T) @ leaves[1])[:, 0]
        estimate = len(X) / 4 * (s[rows] * (f - torch.tensor(Y)[rows]) ** 2).sum()
        (estimate + 0.02 * sum((p**2).sum() for p in leaves)).backward()
        optimiser.step()
    np.testing.assert_allclose(found.hidden_weights, leaves[0].detach(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["normal", "rademacher", "uniform"])
def test_noise_has_mean_zero_and_variance_one(kind):
    sample = draw_noise(np.random.default_rng(0), kind, (200_000,))
    assert abs(sample.mean()) < 0.01
    assert abs(sample.var() - 1.0) < 0.01
