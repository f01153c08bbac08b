"""Networks of other programs are the same function; networks whose excess is known: every rung takes it back."""

from itertools import pairwise

import numpy as np
import onnx
import pytest
import torch
from safetensors.numpy import save_file
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

import covopt
from covopt.errors import InputError
from covopt.losses import LOSSES, make_loss
from covopt.meter.ladder import objective, refitted_slope, rungs, top
from covopt.meter.networks import check_forward, read_network
from covopt.meter.tables import of_mlp, of_weight_decay, read_table
from covopt.network import DeepReLUNetwork
from tests.cases import cases, drawn

RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 2))


def module(*widths, act=torch.nn.ReLU):
    torch.manual_seed(0)
    parts = []
    for before, after in pairwise(widths):
        parts += [torch.nn.Linear(before, after), act()]
    return torch.nn.Sequential(*parts[:-1]).double()


class Own(torch.nn.Module):
    """As people write them: layers by name, an activation in forward."""

    def __init__(self, act):
        super().__init__()
        self.fc1, self.fc2, self.act = torch.nn.Linear(2, 5).double(), torch.nn.Linear(5, 1).double(), act

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


def outputs(given, points=X):
    z = points
    for number, (w, b) in enumerate(given.layers):
        z = (np.maximum(z, 0.0) if number else z) @ w.T + (0.0 if b is None else b)
    return z


def forms(folder):
    net = module(2, 7, 1)
    state = net.state_dict()
    arrays = {name: value.numpy() for name, value in state.items()}
    yield "module", net
    yield "nested", torch.nn.Sequential(torch.nn.Sequential(net[0], net[1]), torch.nn.Dropout(), net[2])
    yield "state dict", state
    torch.save(state, folder / "model.pt")
    yield "pt", folder / "model.pt"
    np.savez(folder / "model.npz", **arrays)
    yield "npz", folder / "model.npz"
    save_file(arrays, folder / "model.safetensors")
    yield "safetensors", str(folder / "model.safetensors")
    deep = DeepReLUNetwork([arrays["0.weight"], arrays["2.weight"]], [arrays["0.bias"], arrays["2.bias"]])
    yield "deep", deep
    deep.to_onnx(folder / "model.onnx")
    yield "onnx", folder / "model.onnx"
    shuffled = {"weight": "head.weight", "bias": "head.bias"}  # its last layer has the first name
    named = {(f"layer.{k[2:]}" if k[0] == "0" else shuffled[k[2:]]): v for k, v in arrays.items()}
    yield "names in another order", named
    save_file(named, folder / "head.safetensors")
    yield "another order in a file", folder / "head.safetensors"
    hidden = np.column_stack([arrays["0.weight"], arrays["0.bias"]])
    yield "relu network", covopt.ReLUNetwork(hidden, arrays["2.weight"].T, 1.0, arrays["2.bias"])


def test_every_form_is_the_same_function(tmp_path):
    wanted = module(2, 7, 1)(torch.tensor(X)).detach().numpy()
    for name, form in forms(tmp_path):
        given = read_network(form, 2, 1.0)
        np.testing.assert_allclose(outputs(given), wanted, rtol=1e-12, err_msg=name)
        check_forward(given, X, outputs(given))


def test_a_module_of_ones_own_is_asked_about_the_points():
    given = read_network(Own(torch.relu), 2, 1.0)
    check_forward(given, X, outputs(given))
    other = read_network(Own(torch.tanh), 2, 1.0)
    with pytest.raises(InputError, match="Other activations"):
        check_forward(other, X, outputs(other))
    given = read_network(module(2, 5, 1, act=torch.nn.Tanh), 2, 1.0)
    with pytest.raises(InputError, match="not a chain of linear layers with ReLUs"):
        check_forward(given, X, outputs(given))
    W, v = RNG.standard_normal((4, 3)), RNG.standard_normal(4)
    given = read_network((W, v), 2, 2.0)  # of a pair the weights of biases are last
    np.testing.assert_allclose(outputs(given)[:, 0], np.maximum(X @ W[:, :2].T + 2.0 * W[:, 2], 0.0) @ v)


def test_onnx_is_asked_what_it_computes(tmp_path):
    helper, arrays = onnx.helper, [RNG.standard_normal(shape) for shape in ((2, 4), (4,), (4, 1))]
    held = [onnx.numpy_helper.from_array(a, name) for a, name in zip(arrays, "ABC", strict=True)]
    entry, last = (
        helper.make_tensor_value_info(n, onnx.TensorProto.DOUBLE, [None, k]) for n, k in (("x", 2), ("y", 1))
    )

    def written(*nodes):
        steps = [helper.make_node(kind, list(taken), [given]) for kind, taken, given in nodes]
        graph = helper.make_graph(steps, "g", [entry], [last], held)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, tmp_path / "m.onnx")
        return read_network(tmp_path / "m.onnx", 2, 1.0)

    good = ("MatMul", "xA", "a"), ("Add", "aB", "b"), ("Relu", "b", "c"), ("MatMul", "cC", "y")
    given = written(*good)
    check_forward(given, X, outputs(given))
    relu_at_the_end = *good[:3], ("MatMul", "cC", "d"), ("Relu", "d", "y")
    bias_after_relu = good[0], ("Relu", "a", "b"), ("Add", "bB", "c"), good[3]
    for bad in (relu_at_the_end, bias_after_relu):
        given = written(*bad)
        with pytest.raises(InputError, match="not a chain of linear layers with ReLUs"):
            check_forward(given, X, outputs(given))


def test_half_precision_and_layers_defined_in_another_order():
    net = module(2, 7, 1)
    given = read_network(net.half(), 2, 1.0)
    check_forward(given, X, outputs(given))

    class Late(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head, self.body = torch.nn.Linear(5, 1).double(), torch.nn.Linear(2, 5).double()

        def forward(self, x):
            return self.head(torch.relu(self.body(x)))

    given = read_network(Late(), 2, 1.0)
    assert [len(w) for w, _ in given.layers] == [5, 1]
    check_forward(given, X, outputs(given))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(
    ("name", "k", "theirs"),
    [
        ("squared", 1, torch.nn.MSELoss),
        ("squared", 3, torch.nn.MSELoss),
        ("huber", 2, torch.nn.HuberLoss),
        ("logistic", 1, torch.nn.BCEWithLogitsLoss),
        ("softmax-cross-entropy", 3, torch.nn.CrossEntropyLoss),
    ],
)
def test_weight_decay_is_torchs(name, k, theirs, reduction):
    """Their loss + ½·wd·‖θ‖² is the same multiple of covopt's objective for every network."""
    wd, n = 0.3, len(X)
    y = RNG.standard_normal((n, k)) if name in ("squared", "huber") else RNG.integers(0, max(k, 2), n)
    loss = make_loss(name)
    loss.encode_targets(y)
    lam = of_weight_decay(loss, wd, reduction, n, k).lam
    ratios = []
    for seed in range(3):
        torch.manual_seed(seed)
        net = torch.nn.Sequential(torch.nn.Linear(2, 6), torch.nn.ReLU(), torch.nn.Linear(6, k)).double()
        target = y if name == "softmax-cross-entropy" else np.asarray(y, float).reshape(n, k)
        value = theirs(reduction=reduction)(net(torch.tensor(X)), torch.tensor(target))
        value = value + 0.5 * wd * sum((p**2).sum() for p in net.parameters())
        own = read_network(net, 2, 1.0)
        deep = DeepReLUNetwork(*zip(*own.layers, strict=True))
        ratios.append(value.item() / objective(deep, X, loss, lam))
    assert ratios == pytest.approx([ratios[0]] * 3, rel=1e-10)


def test_a_scaler_does_what_it_was_told():
    far, y, own = 7.0 * X + 3.0, RNG.standard_normal(len(X)), read_network(module(2, 7, 1), 2, 1.0)
    deep = DeepReLUNetwork([w for w, _ in own.layers])
    for options in ({}, {"with_mean": False}, {"with_std": False}):
        scaler = StandardScaler(**options).fit(far)
        table = read_table(own, deep, far, y, None, 1.0, scaler, None, standardised=False)
        np.testing.assert_allclose(table.data.X, scaler.transform(far), rtol=1e-12, atol=1e-12)


def test_alpha_is_that_of_scikit_learn():
    """Without biases, its loss_ of a whole batch is the same multiple of covopt's objective."""
    y, ratios = RNG.standard_normal(len(X)), []
    loss = make_loss("squared")
    loss.encode_targets(y)
    for seed in range(2):
        mlp = MLPRegressor(
            hidden_layer_sizes=(5,), alpha=0.7, solver="lbfgs", max_iter=8, random_state=seed, tol=0.0
        )
        with pytest.warns(Warning, match="ITERATIONS|iterations"):
            mlp.fit(X, y)
        own = read_network(mlp, 2, 1.0)
        deep = DeepReLUNetwork(*zip(*own.layers, strict=True), counts_output_bias=False)
        lam = of_mlp(mlp, len(X), 1).lam
        biases = lam * float((deep.layers[0][1] ** 2).sum())
        ratios.append(mlp.loss_ / (objective(deep, X, loss, lam) - biases))
    assert ratios == pytest.approx([0.5, 0.5], rel=1e-6)


# ---- networks whose excess is known by construction: every rung takes back what was done to them, to 1e-8.
LAM = 0.01
CASES = cases("losses, outputs and biases of networks to measure")


def table(loss, k):
    rng, X = drawn(3, (16, 2))
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
    (w, b), (v, _) = network.layers
    expected = LAM * sum((part**2).sum() for part in (w, b, v)) * (0.5 * (t**2 + t**-2) - 1.0)
    given = spoiled(network, scale=t)
    assert objective(given, X, loss, LAM) - best.objective == pytest.approx(expected, rel=1e-9)
    back = objective(rung("balanced", given, X, loss), X, loss, LAM)
    assert back == pytest.approx(best.objective, rel=1e-9)


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
        found = objective(rung(back, given, X, loss, lam), X, loss, lam)
        assert found == pytest.approx(least, rel=1e-8), back
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
