"""Networks whose excess is known by construction: every rung takes back what was done to them, to 1e-8."""

import numpy as np
import pytest

import covopt
from covopt.losses import LOSSES, make_loss
from covopt.meter.ladder import objective, refitted_slope, rungs, top
from covopt.network import DeepReLUNetwork
from tests.cases import cases

LAM = 0.01
CASES = cases("losses, outputs and biases of networks to measure")


def table(loss, k):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((16, 2))
    if not LOSSES[loss].is_classification:
        y = rng.standard_normal((16, k)) if k > 1 else rng.standard_normal(16)
    else:
        y = rng.integers(0, max(k, 2), 16)
    return X, y


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}")
def optimum(request):
    """An optimal network as layers, its loss bound to the table."""
    name, k, output_bias = request.param
    X, y = table(name, k)
    best = covopt.fit(X, y, lam=LAM, loss=name, output_bias=output_bias, tol=1e-9)
    net = best.network
    offset = None if output_bias == "none" else net.output_bias
    layers = DeepReLUNetwork(
        [net.hidden_weights[:, :-1], net.output_weights.T], [net.hidden_weights[:, -1], offset],
        counts_output_bias=output_bias != "free",
    )  # fmt: skip
    return best, layers, best.loss


def spoiled(network, *, scale=1.0, split=False, outputs=1.0):
    """Scale input weights of the last neurons up and outputs down, split them in two, scale output weights."""
    *before, (w, b), (v, offset) = network.layers
    rng = np.random.default_rng(0)
    factor = np.exp(np.log(scale) * rng.choice([-1.0, 1.0], len(w)))
    w, b, v = w * factor[:, None], b * factor, v / factor * outputs
    if split:
        w, b, v = np.concatenate([w, w]), np.concatenate([b, b]), np.concatenate([0.25 * v, 0.75 * v], axis=1)
    weights, biases = zip(*before, (w, b), (v, offset), strict=True)
    return DeepReLUNetwork(weights, biases, counts_output_bias=network.counts_output_bias)


def rung(name, network, X, loss, lam=LAM):
    return dict(rungs(network, X, loss, lam))[name]  # the last of that name


def test_a_factor_between_layers_costs_what_it_must_and_balancing_takes_it_back(optimum):
    best, network, loss = optimum
    X, t = best.data.X, 3.0
    neurons = 2.0 * best.network.squared_norm / 2.0 - (network.squared_norm - _of_neurons(network))
    expected = LAM * neurons * (0.5 * (t**2 + t**-2) - 1.0)
    given = spoiled(network, scale=t)
    assert objective(given, X, loss, LAM) - best.objective == pytest.approx(expected, rel=1e-9)
    assert objective(rung("balanced", given, X, loss), X, loss, LAM) == pytest.approx(
        best.objective, rel=1e-9
    )


def _of_neurons(network):
    offset = network.layers[-1][1]
    counted = network.counts_output_bias and offset is not None
    return network.squared_norm - (float(offset @ offset) if counted else 0.0)


@pytest.mark.parametrize(("name", "k"), [("squared", 1), ("huber", 2), ("softmax-cross-entropy", 3)])
def test_deep_networks_take_back_what_was_done_to_them(name, k):
    X, y = table(name, k)
    loss, rng, lam = make_loss(name), np.random.default_rng(5), 0.003
    loss.encode_targets(y)
    shapes = (5, 2), (8, 5), (k, 8)
    biases = [rng.standard_normal(5), rng.standard_normal(8), None]
    base = DeepReLUNetwork([rng.standard_normal(s) for s in shapes], biases)
    base = rung("refitted", rung("refitted", base, X, loss, lam), X, loss, lam)
    least = objective(base, X, loss, lam)
    assert base.widths[-1] > 1
    parts = *base.weights[-2:], base.biases[-2]
    for options, back in (
        ({"scale": 3.0}, "balanced"),
        ({"split": True}, "merged"),
        ({"outputs": 0.7}, "refitted"),
    ):
        given = spoiled(base, **options)
        assert objective(given, X, loss, lam) > least * (1.0 + 1e-4)
        assert objective(rung(back, given, X, loss, lam), X, loss, lam) == pytest.approx(least, rel=1e-8), (
            back
        )
    expected = lam * (0.5 * (3.0**2 + 3.0**-2) - 1.0) * sum((part**2).sum() for part in parts)
    excess = objective(spoiled(base, scale=3.0), X, loss, lam) - least
    assert excess == pytest.approx(expected, rel=1e-8)


def test_split_neurons_are_merged_and_scaled_outputs_found_again(optimum):
    best, network, loss = optimum
    X = best.data.X

    def cost(name, given):
        return objective(rung(name, given, X, loss) if name else given, X, loss, LAM)

    given = spoiled(network, split=True)
    assert cost("balanced", given) == pytest.approx(best.objective, rel=1e-9)  # a split along the ray is free
    assert cost("", given) > best.objective * (1.0 + 1e-4)
    assert rung("merged", given, X, loss).widths[0] <= network.widths[0]
    assert cost("merged", given) == pytest.approx(best.objective, rel=1e-8)
    for scale in (0.5, 1.3):
        given = spoiled(network, outputs=scale)
        assert cost("merged", given) > best.objective * (1.0 + 1e-6)
        assert cost("refitted", given) == pytest.approx(best.objective, rel=1e-8)
    # ‖σ(Au)ᵀ∇C‖ = 2λ at a neuron that is used
    given = spoiled(network, split=True, outputs=0.6)
    refitted, merged = rung("refitted", given, X, loss), rung("merged", given, X, loss)
    slope = refitted_slope(top(merged, X), refitted.representations(X)[-1], loss, LAM)
    layer = top(refitted, X)
    units = layer.incoming / np.linalg.norm(layer.incoming, axis=1, keepdims=True)
    pulls = np.linalg.norm(np.maximum(layer.inputs @ units.T, 0.0).T @ slope, axis=1)
    assert pulls == pytest.approx(2.0 * LAM, rel=1e-5)
