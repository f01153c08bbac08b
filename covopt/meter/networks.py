"""Read networks of other programs as layers of weights and biases."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from covopt.checks import counted, one_line, required
from covopt.data.scaling import Scaling
from covopt.errors import InputError
from covopt.network import DeepReLUNetwork, ReLUNetwork
from covopt.network.state_dict import linear_layers, read_tensors

Layer = tuple[np.ndarray, np.ndarray | None]
AGREES = float(np.sqrt(np.finfo(np.float32).eps))  # of the largest output: half of single precision's digits
TAKEN = (
    "a ReLUNetwork, a torch module or state dict, a file (.pt, .pth, .safetensors, .npz, .onnx), scikit-learn's "
    "MLPRegressor or MLPClassifier, or a pair (W, v)"
)


class Given(NamedTuple):
    """A network as it was given.

    Attributes
    ----------
    layers : list of (ndarray of shape (outputs, inputs), ndarray of shape (outputs,) or None)
        Weights and biases; a ReLU after each but the last.
    what : str
        Description in words.
    forward : callable or None
        Evaluates the outputs (N, k) by the original program, if possible.
    scaling : Scaling or None
        The scaling of a covopt network on standardised columns.
    mlp : object or None
        The scikit-learn estimator, which stores its penalty.
    """

    layers: list[Layer]
    what: str
    forward: Callable[[np.ndarray], np.ndarray] | None = None
    scaling: Scaling | None = None
    mlp: Any = None


def read_network(network: Any, n_inputs: int, bias: float) -> Given:
    """Return the layers of a network.

    Parameters
    ----------
    network : object
    n_inputs : int
        Columns of the table; in a pair (W, v) W may have one more, for the bias weights.
    bias : float
        β, the factor of the bias weights.

    Raises
    ------
    InputError
        For anything but a chain of linear layers and ReLUs with that number of inputs.

    Examples
    --------
    >>> given = read_network((np.eye(2), np.ones(2)), 2, 1.0)
    >>> [w.shape for w, _ in given.layers], given.what
    ([(2, 2), (1, 2)], 'a pair (W, v)')
    """
    given = _read(network, n_inputs, bias)
    layers = _in_turn(given.layers, n_inputs) or given.layers
    given = given._replace(layers=layers)
    if len(layers) < 2:
        raise InputError(f"network has {counted(len(layers), 'linear layer')}; at least two are needed.")
    for number, ((before, _), (after, _)) in enumerate(pairwise(layers), 1):
        if after.shape[1] != len(before):
            raise InputError(
                f"network: linear layer {number + 1} takes {after.shape[1]} inputs and layer {number} has "
                f"{len(before)} outputs; its layers must follow each other."
            )
    if layers[0][0].shape[1] != n_inputs:
        raise InputError(
            f"network takes {counted(layers[0][0].shape[1], 'input')} and X has {counted(n_inputs, 'column')}; "
            "give the columns that it was trained on."
        )
    if any(not np.isfinite(part).all() for layer in layers for part in layer if part is not None):
        raise InputError("network has weights that are NaN or infinite; its training has diverged.")
    return given


def _in_turn(layers: list[Layer], width: int) -> list[Layer] | None:
    """Return the first order of the layers in which the shapes match, as names do not determine the order."""
    tried = set()
    for i, layer in enumerate(layers):
        shape = layer[0].shape
        if shape[1] != width or shape in tried:
            continue
        tried.add(shape)
        others = layers[:i] + layers[i + 1 :]
        rest = _in_turn(others, shape[0]) if others else []
        if rest is not None:
            return [layer, *rest]
    return None


def check_forward(given: Given, X: np.ndarray, outputs: np.ndarray) -> None:
    """Compare the layers with the outputs of the original program at the points, to detect other activations.

    Raises
    ------
    InputError
        If they differ by more than single precision explains.
    """
    if given.forward is None:
        return
    own = np.asarray(given.forward(X), dtype=float).reshape(len(X), -1)
    if own.shape != outputs.shape:
        raise InputError(
            f"network returns {own.shape[1]} outputs and its last linear layer has {outputs.shape[1]}."
        )
    off, size = float(np.abs(own - outputs).max()), float(np.abs(own).max(initial=1e-300))
    if not off <= AGREES * size:
        raise InputError(
            f"network is not a chain of linear layers with ReLUs between them: on X its outputs differ from that by "
            f"{off / size:.2g} of the largest. Other activations, layers skipped or shared are not measured."
        )


def _read(network: Any, n_inputs: int, bias: float) -> Given:
    if isinstance(network, str | os.PathLike):
        return _of_file(Path(network))
    if isinstance(network, ReLUNetwork):
        return Given(list(network.bare().layers), "a ReLUNetwork", scaling=network.scaling)
    if isinstance(network, DeepReLUNetwork):
        if network.slope:
            raise InputError(
                f"network has slope {network.slope:g}; networks of ReLUs, slope 0, are measured."
            )
        layers = [(w, None if b is None else network.bias * b) for w, b in network.layers]
        return Given(layers, "a DeepReLUNetwork")
    if hasattr(network, "coefs_") and hasattr(network, "intercepts_"):
        return _of_mlp(network)
    if hasattr(network, "state_dict") and hasattr(network, "modules"):
        return _of_module(network)
    if isinstance(network, Mapping):
        tensors = {str(name): _numbers(str(name), value) for name, value in network.items()}
        return Given(chain(tensors, "network"), "a state dict, taken with a ReLU after each hidden layer")
    if isinstance(network, tuple | list) and len(network) == 2:
        return _of_pair(network, n_inputs, bias)
    if hasattr(network, "network"):  # a Solution or a fitted estimator
        return _read(network.network, n_inputs, bias)
    if hasattr(network, "hidden_layer_sizes"):
        raise InputError(f"network is an {type(network).__name__} that was not fitted; call its fit first.")
    if hasattr(network, "steps"):
        raise InputError(
            "network is a Pipeline; give its last step as network, and its StandardScaler as scaler."
        )
    raise InputError(f"network must be {TAKEN}; received {type(network).__name__}.")


def _of_mlp(mlp: Any) -> Given:
    if mlp.activation != "relu":
        raise InputError(
            f"network is an {type(mlp).__name__} with activation={mlp.activation!r}; networks of ReLUs are measured: "
            'train it with activation="relu".'
        )
    if mlp.out_activation_ not in ("identity", "logistic", "softmax"):
        raise InputError(
            f"network is an {type(mlp).__name__} with loss={mlp.loss!r}, which is none of covopt's losses; "
            "squared errors and classes are measured."
        )
    layers: list[Layer] = [
        (np.asarray(w, dtype=float).T, np.asarray(b, dtype=float))
        for w, b in zip(mlp.coefs_, mlp.intercepts_, strict=True)
    ]
    return Given(layers, f"scikit-learn's {type(mlp).__name__}", mlp=mlp)


def _of_module(module: Any) -> Given:
    torch = required("torch", "a module", "torch")
    layers: list[Layer] = []
    for name, part in module.named_modules():
        if isinstance(part, torch.nn.Linear):
            b = part.bias
            layers.append((_numbers(name, part.weight), None if b is None else _numbers(name, b)))
        elif next(part.children(), None) is None and next(part.parameters(), None) is not None:
            raise InputError(
                f"network has a module {name or 'itself'!r} of kind {type(part).__name__}; Linear layers with ReLUs "
                "between them are measured."
            )

    def forward(X: np.ndarray) -> np.ndarray:
        first = next(module.parameters())
        try:  # a copy, so that the module is not changed; half precision is evaluated in single
            asked = copy.deepcopy(module).eval()
            asked = asked.float() if first.element_size() < 4 else asked
            with torch.no_grad():
                answer = asked(torch.as_tensor(X, device=first.device).to(next(asked.parameters()).dtype))
            return np.asarray(answer.detach().to("cpu", torch.float64).numpy())
        except Exception as error:
            raise InputError(f"network cannot be asked about X: {one_line(error)}") from None

    return Given(layers, f"a torch module ({type(module).__name__})", forward)


def _of_pair(pair: Any, n_inputs: int, bias: float) -> Given:
    W, v = (_numbers(name, part) for name, part in zip(("W", "v"), pair, strict=True))
    v = v[:, None] if v.ndim == 1 else v
    if W.ndim != 2 or v.ndim != 2 or len(W) != len(v):
        raise InputError(
            f"network is a pair of shapes {W.shape} and {v.shape}; W (m, d) or (m, d + 1) with the weights of the "
            "biases last, and v (m,) or (m, k), are needed."
        )
    shift = bias * W[:, -1] if W.shape[1] == n_inputs + 1 and bias > 0 else None
    return Given([(W if shift is None else W[:, :-1], shift), (v.T, None)], "a pair (W, v)")


def _of_file(path: Path) -> Given:
    kind = path.suffix.lower()
    if not path.exists():
        raise InputError(f"{path} does not exist.")
    if kind == ".onnx":
        return _of_onnx(path)
    if kind == ".json":
        from covopt.solution import load

        found = load(path)
        if not hasattr(found, "network"):
            raise InputError(f"{path} holds no network but a {type(found).__name__}.")
        return _read(found.network, 0, 1.0)._replace(what=path.name)
    if kind == ".npz":
        try:
            with np.load(path, allow_pickle=False) as archive:
                tensors = {name: _numbers(name, archive[name]) for name in archive.files}
        except (OSError, ValueError, EOFError, KeyError) as error:
            raise InputError(f"{path} cannot be read as a NumPy archive: {one_line(error)}") from None
    else:
        tensors = read_tensors(path)[0]
    return Given(chain(tensors, str(path)), f"{path.name}, taken with a ReLU after each hidden layer")


def chain(tensors: Mapping[str, np.ndarray], name: str) -> list[Layer]:
    """Return the linear layers among named tensors, in the order of their names."""
    return [(tensors[w], None if b is None else tensors[b]) for w, b in linear_layers(tensors, name)]


def _numbers(name: str, value: Any) -> np.ndarray:
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
            value = (value if value.is_complex() else value.double()).numpy()
        array = np.asarray(value)
        if not np.iscomplexobj(array):
            return array.astype(float)
    except (TypeError, ValueError, RuntimeError):  # text, ragged rows, tensors without data
        pass
    raise InputError(f"network: {name or 'a tensor'} does not hold real numbers.")


def _of_onnx(path: Path) -> Given:
    """Read Gemm, or MatMul and Add; ONNX's reference evaluator checks the chain with ReLUs between them."""
    onnx = required("onnx", f"{path}", "onnx")
    required("onnx.reference", f"{path}", "onnx")
    try:
        model = onnx.load(path)
        graph = model.graph
        held = {tensor.name: onnx.numpy_helper.to_array(tensor).astype(float) for tensor in graph.initializer}
    except Exception as error:  # protobuf's own errors
        raise InputError(f"{path} cannot be read as ONNX: {one_line(error)}") from None
    layers: list[Layer] = []
    for node in graph.node:
        constants = [held[name] for name in node.input if name in held]
        if node.op_type == "Gemm" and constants:
            options = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            weight = constants[0] if options.get("transB") else constants[0].T
            shift = options.get("beta", 1.0) * constants[1].reshape(-1) if len(constants) > 1 else None
            layers.append((options.get("alpha", 1.0) * weight, shift))
        elif node.op_type == "MatMul" and constants:
            layers.append((constants[0].T, None))
        elif node.op_type == "Add" and constants and layers and layers[-1][1] is None:
            layers[-1] = (layers[-1][0], constants[0].reshape(-1))

    def forward(X: np.ndarray) -> np.ndarray:
        try:
            entry = graph.input[0]
            kind = onnx.helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type)
            evaluator = onnx.reference.ReferenceEvaluator(model)
            return np.asarray(evaluator.run(None, {entry.name: X.astype(kind)})[0], dtype=float)
        except Exception as error:
            raise InputError(f"{path} cannot be asked about X: {one_line(error)}") from None

    return Given(layers, path.name, forward)
