"""Networks of every depth: what they return, cost and export, in double precision."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import covopt
from covopt.network import ReLUNetwork
from covopt.network.deep import DeepReLUNetwork
from covopt.network.state_dict import read_model
from tests.cases import drawn

AGREE = 1e-12


def shallow(bias: float, outputs: int, width: int = 40) -> ReLUNetwork:
    rng = np.random.default_rng(7)
    return ReLUNetwork(
        rng.standard_normal((width, 3 + (bias > 0))), rng.standard_normal((width, outputs)), bias,
        rng.standard_normal(outputs) * (bias > 0),
    )  # fmt: skip


def deep(**options) -> DeepReLUNetwork:
    rng = np.random.default_rng(8)
    shapes = [(30, 3), (20, 30), (2, 20)]
    return DeepReLUNetwork(
        [rng.standard_normal(s) for s in shapes],
        [rng.standard_normal(30), None, rng.standard_normal(2)],
        **options,
    )


def run_onnx(path, X: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].type == session.get_outputs()[0].type == "tensor(double)"
    return session.run(["Y"], {"X": X})[0]


def run_torch(module: torch.nn.Module, X: np.ndarray) -> np.ndarray:
    assert all(p.dtype == torch.float64 for p in module.parameters())
    with torch.no_grad():
        return module(torch.from_numpy(X)).numpy()


NETWORKS = {
    "one output": shallow(1.0, 1),
    "another amount of bias": shallow(0.3, 1),
    "several outputs": shallow(2.5, 4),
    "no bias": shallow(0.0, 2),
    "no neurons": shallow(2.0, 2, width=0),
    "deep": deep(),
    **{f"slope {slope}": deep(slope=slope, bias=2.5) for slope in (0.25, -0.5)},
    "one linear layer": DeepReLUNetwork([np.arange(6.0).reshape(2, 3)], [np.ones(2)]),
    "deep and empty": DeepReLUNetwork(
        [np.ones((0, 3)), np.ones((0, 0)), np.ones((1, 0))], [None, None, [2.0]]
    ),
}


def definition(network, X):
    """One sample at a time, one neuron at a time."""
    if isinstance(network, ReLUNetwork):
        hidden, d = network.hidden_weights, X.shape[1]
        biases = hidden[:, d] if network.bias > 0 else np.zeros(len(hidden))
        layers, slope = [(hidden[:, :d], biases), (network.output_weights.T, network.output_bias)], 0.0
    else:
        layers, slope = network.layers, network.slope
    found = []
    for z in X.tolist():
        for ell, (w, b) in enumerate(layers):
            a = [max(t, 0.0) + slope * min(t, 0.0) for t in z] if ell else z
            shift = np.zeros(len(w)) if b is None else network.bias * np.asarray(b)
            z = [sum(u * v for u, v in zip(row, a, strict=True)) + s for row, s in zip(w, shift, strict=True)]  # noqa: PLW2901
        found.append(z)
    return np.array(found)


@pytest.mark.parametrize("name", NETWORKS)
def test_predict_is_the_definition(name):
    network, X = NETWORKS[name], np.random.default_rng(5).standard_normal((7, 3))
    expected, found = definition(network, X), network.predict(X)
    assert found.shape == ((7,) if expected.shape[1] == 1 else expected.shape)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", NETWORKS)
def test_exports_agree_with_predict(name, tmp_path):
    network = NETWORKS[name]
    X = np.random.default_rng(1).standard_normal((60, 3)) * 10.0 ** np.linspace(-3, 3, 60)[:, None]
    expected = network.predict(X).reshape(60, -1)
    network.to_onnx(tmp_path / "network.onnx")
    for got in (run_torch(network.to_torch(), X), run_onnx(tmp_path / "network.onnx", X)):
        assert got.shape == expected.shape and got.dtype == np.float64
        # relative to the terms that are summed, the same for every sample of a size
        size = np.abs(expected).max(axis=1, keepdims=True) + np.abs(X).max(axis=1, keepdims=True)
        assert (np.abs(got - expected) <= AGREE * size).all()


def test_the_module_owns_its_weights_and_leaves_the_generator_alone():
    network = shallow(1.0, 1)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    module = network.to_torch()
    assert torch.equal(before, torch.get_rng_state())
    kept = network.hidden_weights.copy()
    with torch.no_grad():
        for p in module.parameters():
            p.zero_()
    np.testing.assert_array_equal(network.hidden_weights, kept)


def test_the_state_dict_is_a_model_file(tmp_path):
    network = shallow(0.5, 2)
    torch.save(network.to_torch().state_dict(), tmp_path / "model.pt")
    model = read_model(tmp_path / "model.pt")
    assert set(model.dtypes) == {"float64"}
    X = np.random.default_rng(3).standard_normal((9, 3))
    np.testing.assert_allclose(model.network.predict(X), network.predict(X), rtol=1e-12, atol=1e-12)


def test_the_onnx_file_says_what_it_is(tmp_path):
    deep().to_onnx(tmp_path / "deep.onnx")
    model = onnx.load(tmp_path / "deep.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["Gemm", "Relu", "Gemm", "Relu", "Gemm"]
    assert model.opset_import[0].version >= 17
    assert (model.producer_name, model.producer_version) == ("covopt", covopt.__version__)
    assert run_onnx(tmp_path / "deep.onnx", np.zeros((0, 3))).shape == (0, 2)


@given(st.integers(0, 6), st.floats(0.1, 10), st.booleans())
def test_from_neurons_is_balanced_and_costs_twice_the_weights(m, bias, counts):
    rng, neurons = drawn(m, (m, 3))
    neurons /= np.linalg.norm(neurons, axis=1, keepdims=True)
    weights = rng.standard_normal(m)
    network = ReLUNetwork.from_neurons(neurons, weights, bias=bias, offset=0.7, counts_output_bias=counts)
    lengths = np.linalg.norm(network.hidden_weights, axis=1)
    np.testing.assert_allclose(lengths, np.abs(network.output_weights[:, 0]))
    extra = (0.7 / bias) ** 2 if counts else 0.0
    assert network.squared_norm == pytest.approx(2 * np.abs(weights).sum() + extra, rel=1e-12)
    X = rng.standard_normal((4, 2))
    plain = np.maximum(np.column_stack([X, np.full(4, bias)]) @ neurons.T, 0) @ weights + 0.7
    np.testing.assert_allclose(network.predict(X), plain, atol=1e-12)
