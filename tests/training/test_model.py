"""Gradients against those of the objective written out; padding; weights in and out."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from covopt.losses import Huber, make_loss  # noqa: E402
from covopt.training.model import BatchedLoss, BatchedNetworks  # noqa: E402
from covopt.training.schedule import Architecture, initial_weights  # noqa: E402

LOSSES = ["squared", "huber", "logistic", "hinge", "squared-hinge", "softmax-cross-entropy"]
BIASES = [("none", 1.0), ("none", 0.0), ("penalized", 2.0), ("free", 0.5)]
CPU = torch.device("cpu")


def make_problem(name, *, depth=2, output_bias="none", bias=1.0, outputs=1, n=7, seed=0, weighted=True):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    Y = 2.0 * rng.standard_normal((n, outputs))
    if name == "softmax-cross-entropy":
        Y = rng.permutation(np.arange(n) % 3)
    elif name not in ("squared", "huber"):
        Y = rng.permutation(np.arange(n) % 2)
    loss = Huber(0.7) if name == "huber" else make_loss(name)
    loss.encode_targets(Y, rng.random(n) if weighted else None)
    rows = np.column_stack([X, np.full(n, bias)]) if bias else X
    architecture = Architecture(2, loss.targets.shape[1], depth, bias, output_bias)
    widths = [(3, 4, 2)[: depth - 1], (5, 2, 6)[: depth - 1]]
    lams = torch.tensor([0.1, 0.3], dtype=torch.float64)
    twin = BatchedLoss(loss, CPU, torch.float64)
    networks = BatchedNetworks(architecture, widths, torch.tensor(rows), twin, lams)
    layers = [initial_weights(architecture, w, 0, 1, 1.0) for w in widths]
    if output_bias != "none":
        for one in layers:
            one[-1][:] = rng.standard_normal(one[-1].shape)
    return networks, layers, loss


def literal(networks, layers, lam, loss_twin):
    """The objective written out for one network, for autograd."""
    a = networks.architecture
    signal = networks.inputs
    for i in range(a.depth - 1):
        if i and a.bias:
            ones = torch.full((len(signal), 1), a.bias, dtype=torch.float64)
            signal = torch.cat([signal, ones], 1)
        signal = torch.relu(signal @ layers[i])
    f = signal @ layers[a.depth - 1]
    if a.output_bias != "none":
        f = f + a.bias * layers[a.depth]
    counted = layers[:-1] if a.output_bias == "free" else layers
    return loss_twin.value(f[None])[0] + lam * sum((p**2).sum() for p in counted)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("depth", [2, 3, 4])
def test_gradient_is_that_of_autograd(name, depth):
    for output_bias, bias in BIASES:
        outputs = 2 if depth == 3 and name == "squared" else 1
        networks, layers, _ = make_problem(
            name, depth=depth, output_bias=output_bias, bias=bias, outputs=outputs
        )
        theta = networks.pack(layers)
        values, gradients = networks.value_and_gradient(theta)
        assert (gradients[~networks.mask] == 0).all()
        written = networks.unpack(gradients)
        for b, one in enumerate(layers):
            leaves = [torch.tensor(layer, requires_grad=True) for layer in one]
            objective = literal(networks, leaves, networks.lams[b], networks.loss)
            objective.backward()
            np.testing.assert_allclose(values[b].item(), objective.item(), rtol=1e-13)
            for leaf, gradient in zip(leaves, written[b], strict=True):
                np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_those_of_covopt(name):
    _, _, loss = make_problem(name, n=9)
    rng = np.random.default_rng(2)
    outputs = 3.0 * rng.standard_normal((4, *loss.targets.shape))
    for twin, tol in (
        (BatchedLoss(loss, CPU, torch.float64), 1e-13),
        (BatchedLoss(loss, CPU, torch.float32), 1e-5),
    ):
        kind = twin.targets.dtype
        values = twin.value(torch.tensor(outputs, dtype=kind)).double().numpy()
        slopes = twin.value_and_gradient(torch.tensor(outputs, dtype=kind))[1].double().numpy()
        np.testing.assert_allclose(values, [loss.value(F) for F in outputs], rtol=tol)
        np.testing.assert_allclose(slopes, [loss.gradient(F) for F in outputs], rtol=20 * tol, atol=tol)


@pytest.mark.parametrize("name", ["logistic", "softmax-cross-entropy"])
def test_losses_of_large_outputs_do_not_overflow(name):
    _, _, loss = make_problem(name)
    twin = BatchedLoss(loss, CPU, torch.float64)
    outputs = torch.full((1, *loss.targets.shape), 1e4, dtype=torch.float64)
    outputs[..., 0] = -1e4
    assert torch.isfinite(twin.value(outputs)).all()
    assert torch.isfinite(twin.value_and_gradient(outputs)[1]).all()


def test_minibatch_of_all_samples_is_the_gradient():
    for name in LOSSES:
        networks, layers, _ = make_problem(name, depth=3)
        theta = networks.pack(layers)
        rows = torch.arange(7).expand(2, 7)
        drawn = networks.value_and_gradient(theta, None, rows)[1]
        np.testing.assert_allclose(drawn, networks.value_and_gradient(theta)[1], rtol=1e-12, atol=1e-14)


def test_a_subset_of_the_batch_is_evaluated_with_its_own_lambdas():
    networks, layers, _ = make_problem("squared")
    theta = networks.pack(layers)
    values, gradients = networks.value_and_gradient(theta)
    value, gradient = networks.value_and_gradient(theta[1:], torch.tensor([1]))
    np.testing.assert_allclose(value, values[1:], rtol=1e-14)
    np.testing.assert_allclose(gradient, gradients[1:], rtol=1e-14, atol=1e-15)


def test_padding_leaves_no_trace():
    wide, layers, _ = make_problem("squared", depth=3, output_bias="penalized")
    alone = BatchedNetworks(wide.architecture, wide.widths[:1], wide.inputs, wide.loss, wide.lams[:1])
    inside, outside = wide.pack(layers), alone.pack(layers[:1])
    assert inside.shape[1] > outside.shape[1]
    values, gradients = wide.value_and_gradient(inside)
    value, gradient = alone.value_and_gradient(outside)
    np.testing.assert_allclose(values[0], value[0], rtol=1e-14)
    for a, b in zip(wide.unpack(gradients)[0], alone.unpack(gradient)[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("depth", [2, 4])
def test_weights_survive_packing(depth):
    networks, layers, _ = make_problem("squared", depth=depth, output_bias="free", bias=0.5)
    theta = networks.pack(layers)
    assert networks.mask.sum() == sum(layer.size for one in layers for layer in one)
    for one, back in zip(layers, networks.unpack(theta), strict=True):
        assert all((a == b).all() for a, b in zip(one, back, strict=True))
