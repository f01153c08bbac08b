"""A bank of tiny runs, every optimiser, loss, depth and bias among them, what holds for each; a GPU does the same."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.optim.adam import adam
from torch.optim.sgd import sgd

import covopt
from covopt.losses import Huber, make_loss
from covopt.training import Phase, train
from covopt.training.model import BatchedLoss
from covopt.training.optimisers import BETAS
from covopt.training.schedule import STRETCH, Stream, generator
from tests.cases import cases
from tests.commands import said

N = 12
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((N, 2)), 2.0 * RNG.standard_normal((N, 2))
WEIGHTS = np.linspace(0.5, 2.0, N)
DELTA = 0.7
LOSSES = {  # written out: f, y of shape (m, k)
    "squared": lambda f, y: ((f - y) ** 2).sum(1),
    "huber": lambda f, y: torch.where(abs(f - y) <= DELTA, (f - y) ** 2 / 2, DELTA * (abs(f - y) - DELTA / 2)).sum(1),
    "logistic": lambda f, y: torch.log1p(torch.exp(-f * y)).sum(1),
    "hinge": lambda f, y: (1 - f * y).clamp(min=0).sum(1),
    "squared-hinge": lambda f, y: ((1 - f * y).clamp(min=0) ** 2).sum(1),
    "softmax-cross-entropy": lambda f, y: torch.logsumexp(f, 1) - (f * y).sum(1),
}  # fmt: skip
OPTIONS = {
    "plain": {}, "no bias": {"bias": 0.0}, "weighted": {"sample_weight": WEIGHTS},
    "penalized": {"output_bias": "penalized", "bias": 2.0},
    "free": {"output_bias": "free", "bias": 0.5, "sample_weight": WEIGHTS},
}  # fmt: skip
ADAM, MOMENTUM = Phase("adam", 20), Phase("gd", 20, momentum=0.9)
BANK = cases(
    "tiny runs of training: loss, outputs, widths, options, phase", Phase=Phase, ADAM=ADAM, MOMENTUM=MOMENTUM
)


def over(rows):
    ids = [
        f"{loss}-{k}-{len(np.atleast_1d(w[0]))}-{name}-{phase.optimiser}" for loss, k, w, name, phase in rows
    ]
    return pytest.mark.parametrize(("loss", "k", "widths", "name", "phase"), rows, ids=ids)


bank = over(BANK)


def targets(loss, k):
    if loss in ("squared", "huber"):
        return Y[:, 0] if k == 1 else Y
    return np.arange(N) % (3 if k == 3 else 2)


def run(loss, k, name, phase, *, lam=(0.02, 0.1), seeds=2, **more):
    bound = Huber(DELTA) if loss == "huber" else loss
    rate = {} if phase.optimiser == "lbfgs" else {"learning_rate": 0.02}
    options = {**rate, **OPTIONS[name], "lam": list(np.atleast_1d(lam)), "seeds": seeds, **more}
    return train(X, targets(loss, k), loss=bound, schedule=phase, tol_gradient=0.0, **options)


def encoded(loss, k, name):
    bound = Huber(DELTA) if loss == "huber" else make_loss(loss)
    bound.encode_targets(targets(loss, k), OPTIONS[name].get("sample_weight"))
    return bound


def outputs(theta, layout, rows):
    """f of a vector of weights, in torch: biases are last columns, times β."""
    signal = torch.tensor(X)[rows]
    for ell, layer in enumerate(layout.split(theta)):
        ones = torch.full((len(signal), int(layout.has_bias(ell))), layout.bias, dtype=torch.float64)
        signal = torch.cat([torch.relu(signal) if ell else signal, ones], 1) @ layer.T
    return signal


def objective(theta, layout, lam, bound, rows=None, noise=0.0):
    """C(f) + λ‖W‖², or its estimate: N/m Σ s_i ℓ over the drawn rows, of targets with noise."""
    rows = np.arange(N) if rows is None else rows
    y, s = torch.tensor(bound.targets)[rows] + noise, torch.tensor(bound.weights[:, 0])[rows]
    loss = (s * LOSSES[bound.name](outputs(theta, layout, rows), y)).sum() * N / len(rows)
    return loss + lam * (torch.tensor(layout.charged) * theta**2).sum()


def drawn(member, phase, k):
    """The documented stream: rows first, then noise, in blocks of 100 steps."""
    for block in range(-(-phase.steps // STRETCH)):
        random = generator(0, member.seed, member.widths, Stream.DRAWS, 0, block)
        shape = STRETCH, phase.samples
        rows, noise = random.integers(0, N, shape), np.zeros((*shape, k))
        if phase.noise_level:
            noise = phase.noise_level * random.standard_normal((*shape, k))
        yield from zip(rows, noise, strict=True)


def steps_of_torch(phase, leaves):
    """The functions below ``torch.optim.SGD`` and ``Adam``: to make one of these imports a compiler, up to 16 s."""
    first, second = ([torch.zeros_like(leaf) for leaf in leaves] for _ in range(2))
    options = {"foreach": False, "weight_decay": 0.0, "maximize": False}
    if phase.optimiser == "adam":
        options |= {"beta1": BETAS[0], "beta2": BETAS[1], "eps": phase.eps, "amsgrad": False}
        state = first, second, [], [torch.tensor(0.0) for _ in leaves]
        return lambda slopes, rate: adam(leaves, slopes, *state, lr=rate, **options)
    options |= {"momentum": phase.momentum, "dampening": 0.0, "nesterov": False}
    return lambda slopes, rate: sgd(leaves, slopes, first, lr=rate, **options)


@over([row for row in BANK if row[-1].optimiser != "lbfgs"])
def test_steps_are_those_of_the_objective_written_out_and_of_torch(loss, k, widths, name, phase):
    """With SP20's Algorithm 1 among them: one random row, one noisy target, the gradient of (f − ỹ)²."""
    found, bound = run(loss, k, name, phase, widths=widths), encoded(loss, k, name)
    begun = run(loss, k, name, Phase("gd", 1), widths=widths, learning_rate=1e-300)
    every = zip(found.members, found.layouts, begun.weights, found.weights, strict=True)
    for member, layout, start, end in list(every)[::3]:
        theta = torch.tensor(start, requires_grad=True)
        step = steps_of_torch(phase, [theta])
        draws = drawn(member, phase, k) if phase.samples else iter([(None, 0.0)] * phase.steps)
        for t in range(phase.steps):
            rows, noise = next(draws)
            value = objective(theta, layout, member.lam, bound, rows, torch.as_tensor(noise))
            with torch.no_grad():
                step(torch.autograd.grad(value, [theta]), 0.02 * phase.factor(t))
        np.testing.assert_allclose(end, theta.detach(), rtol=0, atol=1e-11)


@bank
def test_numbers_of_the_table_are_those_of_the_networks(loss, k, widths, name, phase):
    found, bound = run(loss, k, name, phase, widths=widths, record_every=5), encoded(loss, k, name)
    for i, row in enumerate(found.table.itertuples()):
        network, member = found.network(i), found.members[i]
        said = network.predict(X)
        assert row.loss == pytest.approx(bound.value(said), rel=1e-12)
        assert row.objective == pytest.approx(bound.value(said) + row.lam * network.squared_norm, rel=1e-12)
        assert row.width == (member.widths[0] if len(member.widths) == 1 else member.widths)
        theta = torch.tensor(found.weights[i], requires_grad=True)
        value = objective(theta, found.layouts[i], row.lam, bound)
        norm = torch.autograd.grad(value, theta)[0].norm()
        again = float(value.detach()), float(norm)
        assert (row.objective, row.gradient_norm) == pytest.approx(again, rel=1e-9)
        wide = said.reshape(N, -1)
        if bound.is_classification:
            own, theirs = ((f > 0)[:, 0] if k == 1 else f.argmax(1) for f in (wide, bound.targets))
            wrong = own != theirs
            assert np.isnan(row.residual) and row.error_rate == wrong.mean()
        else:
            assert row.residual == pytest.approx(np.abs(wide - bound.targets).max(), rel=1e-12)
    again = run(loss, k, name, phase, widths=widths)  # bitwise, and what is recorded changes nothing
    assert again.history is None and list(found.history.columns) == ["network", "step", "phase", "objective"]
    assert found.history[found.history.network == 0].step.tolist()[:3] == [0, 5, 10]
    assert all((a == b).all() for a, b in zip(found.weights, again.weights, strict=True))


@bank
def test_networks_are_their_own_in_any_batch_and_starts_are_taken_as_they_are(
    monkeypatch, loss, k, widths, name, phase
):
    """Widths, λ and draws of a network are its own, beside wider ones or cut into small batches."""
    phase = replace(phase, steps=min(phase.steps, 30))
    many, atol = run(loss, k, name, phase, widths=widths), 1e-7 if phase.optimiser == "lbfgs" else 1e-11
    alone = run(loss, k, name, phase, widths=widths[-1:], lam=0.1, seeds=[1])
    monkeypatch.setattr("covopt.training.loop.Runner.limit", 4000)
    parts = run(loss, k, name, phase, widths=widths)
    frozen = run(loss, k, name, Phase("gd", 1), widths=widths, learning_rate=1e-300, start=many)
    for one, part, still in zip(many.weights, parts.weights, frozen.weights, strict=True):
        np.testing.assert_allclose(one, part, rtol=0, atol=atol)
        np.testing.assert_allclose(one, still, rtol=0, atol=1e-290)
    np.testing.assert_allclose(many.weights[-1], alone.weights[0], rtol=0, atol=atol)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_are_those_of_covopt_and_do_not_overflow(loss):
    bound = encoded(loss, 3 if loss.startswith("softmax") else 1, "weighted")
    values = 3.0 * RNG.standard_normal((4, *bound.targets.shape))
    for kind, tol in ((torch.float64, 1e-13), (torch.float32, 1e-5)):
        twin = BatchedLoss(bound, torch.device("cpu"), kind)
        found, slopes = (part.double() for part in twin.value_and_gradient(torch.tensor(values, dtype=kind)))
        np.testing.assert_allclose(found, [bound.value(f) for f in values], rtol=tol)
        np.testing.assert_allclose(slopes, [bound.gradient(f) for f in values], rtol=20 * tol, atol=tol)
    large = torch.full((1, *bound.targets.shape), 1e4).double()
    large[..., 0] = -1e4
    twin = BatchedLoss(bound, torch.device("cpu"), torch.float64)
    assert all(torch.isfinite(part).all() for part in twin.value_and_gradient(large))


# ---------------------------------------------------------------------- a GPU trains what the processor trains
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")


@gpu
@bank
def test_a_gpu_takes_the_same_steps(loss, k, widths, name, phase):
    here, there = (run(loss, k, name, phase, widths=widths, device=device) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(here.table.objective, there.table.objective, rtol=1e-9)
    for i in range(len(here)):
        np.testing.assert_allclose(here.network(i).predict(X), there.network(i).predict(X), atol=1e-7)


@gpu
@pytest.mark.parametrize("optimiser", ["adam", "gd"])
def test_networks_that_diverge_leave_the_batch(optimiser):
    rates = {"widths": 6, "lam": 0.1, "learning_rate": [0.01, 1e6], "schedule": Phase(optimiser, 300)}
    here, there = (train(X, Y[:, 0], seeds=2, device=device, **rates) for device in ("cpu", "cuda"))
    assert here.table.status.tolist() == there.table.status.tolist()


@gpu
def test_single_precision_on_a_gpu():
    options = {"dtype": "float32", "device": "cuda", "tol_gradient": 1e-4}
    found = train(X, Y[:, 0], widths=20, lam=0.01, seeds=50, **options)
    best = covopt.fit(X, Y[:, 0], lam=0.01)
    assert best.lower_bound <= found.table.objective.min() <= 1.05 * best.objective


@gpu
def test_the_command_and_the_gap_meter_take_a_gpu(tmp_path):
    table = tmp_path / "table.csv"
    np.savetxt(table, np.column_stack([X, Y[:, 0]]), delimiter=",", header="a,b,y", comments="")
    assert said("train", table, "--target", "y", "--widths", "8", "--lam", "0.1max", "--device", "cuda")
    linear, relu = torch.nn.Linear, torch.nn.ReLU()
    model = torch.nn.Sequential(linear(2, 8), relu, linear(8, 1, bias=False)).double().cuda()
    with pytest.raises(covopt.errors.InputError, match="torch sees"):
        train(X, Y, widths=3, device=f"cuda:{torch.cuda.device_count()}")
    report = covopt.gap(model, X, Y[:, 0], lam=0.05, time_limit_s=2)
    assert 0 < report.lower_bound <= report.objective
