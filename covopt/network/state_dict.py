"""State dicts of Linear–ReLU networks in safetensors and PyTorch files. Reading one never runs code."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from covopt.checks import one_line, required
from covopt.checks.memory import plan
from covopt.errors import InputError
from covopt.files import check_archive, write_atomically
from covopt.network.deep import DeepReLUNetwork

Keys = tuple[str, str | None]
SUFFIXES = {".safetensors": "safetensors", ".pt": "torch", ".pth": "torch"}
_SAVE = 'save its state dict: torch.save(model.state_dict(), "model.pt")'


@dataclass(eq=False)
class ModelFile:
    """The tensors of linear layers, and the names and metadata needed to write the file again.

    Attributes
    ----------
    keys : list of (str, str or None)
        Names of weight and bias of every layer.
    tensors : dict of str to ndarray
    metadata : dict of str to str
        Metadata of a safetensors file.
    network : DeepReLUNetwork
        In double precision.
    """

    keys: list[Keys]
    tensors: dict[str, np.ndarray]
    metadata: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.network = DeepReLUNetwork(
            [self.tensors[w] for w, _ in self.keys],
            [None if b is None else self.tensors[b] for _, b in self.keys],
        )

    @property
    def dtypes(self) -> list[str]:
        """Floating-point type of every layer, a name such as ``float32``."""
        return [str(self.tensors[weight].dtype) for weight, _ in self.keys]


def read_model(path: str | Path) -> ModelFile:
    r"""Read the state dict of linear layers, ordered by their names.

    A state dict holds no activations: a ReLU is assumed after each layer but the last.

    Parameters
    ----------
    path : str or Path
        ``.safetensors``, or ``.pt``/``.pth`` (needs PyTorch; read with ``weights_only=True``, so that nothing in
        the file can run). Keys ``0.weight``, ``0.bias``, ``2.weight``, …, or ``fc1.weight``, …; biases are optional.

    Raises
    ------
    InputError
        For a file that cannot be read, contains a whole pickled module, or has other layers.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from safetensors.numpy import save_file
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> save_file({"0.weight": np.ones((3, 2), "float32"), "2.weight": np.ones((1, 3), "float32")}, path)
    >>> model = read_model(path)
    >>> model.network.widths, model.dtypes
    ((3,), ['float32', 'float32'])
    """
    tensors, metadata = read_tensors(Path(path))
    return ModelFile(linear_layers(tensors, os.fspath(path)), tensors, metadata)


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the tensors of a file, and the metadata of a safetensors file.

    Raises
    ------
    InputError
        For a file that cannot be read, contains a whole pickled module, or tensors of a type that NumPy lacks.
    """
    kind = format_of(path)
    if not path.is_file():
        raise InputError(
            f"{path} {'is a folder' if path.is_dir() else 'does not exist'}; give the path of a model file."
        )
    # reading and writing take some eight bytes per byte of the file
    plan(8.0 * path.stat().st_size, "Use a machine with more.", what=f"the model {path}")
    try:
        return _read_safetensors(path) if kind == "safetensors" else (_read_torch(path), {})
    except InputError:
        raise
    except pickle.UnpicklingError:
        raise InputError(
            f"{path} holds more than tensors (a whole pickled module, or code) and could run code; {_SAVE}."
        ) from None
    except Exception as error:  # errors of the readers, and types that NumPy lacks
        raise InputError(f"{path} cannot be read as {kind}, in NumPy's types: {one_line(error)}") from None


def write_model(path: str | Path, model: ModelFile, network: DeepReLUNetwork) -> DeepReLUNetwork:
    """Write a network under the keys and in the precision of a model that was read.

    Parameters
    ----------
    path : str or Path
        ``.safetensors``, or ``.pt``/``.pth`` (needs PyTorch).
    model : ModelFile
    network : DeepReLUNetwork

    Returns
    -------
    DeepReLUNetwork
        The network as written, after rounding.

    Raises
    ------
    InputError
        If a weight overflows its type.
    """
    tensors: dict[str, np.ndarray] = {}
    for names, dtype, layer in zip(model.keys, model.dtypes, network.layers, strict=True):
        for name, values in zip(names, layer, strict=True):
            if name is not None and values is not None:
                with np.errstate(over="ignore"):
                    tensors[name] = np.ascontiguousarray(values.astype(dtype))
                if not np.isfinite(tensors[name]).all():
                    raise InputError(
                        f"the reduced {name!r} overflows {dtype}; save the model in float32 first."
                    )
    if format_of(Path(path)) == "safetensors":
        from safetensors.numpy import save

        data = save(tensors, model.metadata or None)
        write_atomically(path, lambda stream: stream.write(data))
    else:
        torch = required("torch", f"{path} is no safetensors file and", "torch")
        held = {name: torch.from_numpy(values) for name, values in tensors.items()}
        write_atomically(path, lambda stream: torch.save(held, stream))
    return replace(model, tensors=tensors).network


def format_of(path: Path) -> str:
    """Return the format of a model file by its extension.

    Raises
    ------
    InputError
        For another extension.

    Examples
    --------
    >>> format_of(Path("model.pth"))
    'torch'
    """
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise InputError(
            f"{path}: unknown model type {path.suffix or '(no extension)'!r}; use .safetensors, .pt or .pth."
        )
    return kind


def _read_safetensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as archive:
        return {name: archive.get_tensor(name) for name in archive.keys()}, dict(archive.metadata() or {})  # noqa: SIM118


def _read_torch(path: Path) -> dict[str, np.ndarray]:
    torch = required("torch", f"{path} is no safetensors file and", "torch")
    check_archive(path)
    content = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(content, dict) or not all(
        isinstance(k, str) and isinstance(v, torch.Tensor) for k, v in content.items()
    ):
        raise InputError(f"{path} is no state dict (names of tensors); {_SAVE}.")
    return {name: tensor.detach().numpy() for name, tensor in content.items()}


def linear_layers(tensors: Mapping[str, np.ndarray], name: str) -> list[Keys]:
    """Return the keys of weight and bias of each linear layer among named tensors, in the order of their names.

    Parameters
    ----------
    tensors : mapping of str to ndarray
        Matrices named ``….weight`` and vectors ``….bias``.
    name : str
        Their origin, for messages.

    Raises
    ------
    InputError
        For tensors that belong to no linear layer.

    Examples
    --------
    >>> linear_layers({"fc10.weight": np.ones((1, 3)), "fc2.weight": np.ones((3, 2)), "fc2.bias": np.ones(3)}, "it")
    [('fc2.weight', 'fc2.bias'), ('fc10.weight', None)]
    """
    parts: dict[str, dict[str, str]] = {}
    for key in tensors:
        prefix, _, kind = key.rpartition(".")
        parts.setdefault(prefix, {})[kind] = key
    found: list[Keys] = []
    for prefix in sorted(parts, key=_natural):
        shapes = {kind: tensors[key].shape for kind, key in sorted(parts[prefix].items())}
        weight, bias = shapes.get("weight", ()), shapes.get("bias")
        if set(shapes) - {"weight", "bias"} or len(weight) != 2 or bias not in (None, weight[:1]):
            held = ", ".join(f"{kind} {shape}" for kind, shape in shapes.items())
            where = f"module {prefix}" if prefix else "the file"
            raise InputError(
                f"{name}: {where} is no Linear layer ({held}); matrices *.weight and vectors *.bias are read."
            )
        odd = next((key for key in parts[prefix].values() if tensors[key].dtype.kind != "f"), None)
        if odd is not None:
            raise InputError(f"{name}: {odd!r} is {tensors[odd].dtype}; floating-point weights are needed.")
        if prefix.isdigit() and str(int(prefix) - 1) in parts:
            raise InputError(
                f"{name}: modules {int(prefix) - 1} and {prefix} are both Linear, with no ReLU between them."
            )
        found.append((parts[prefix]["weight"], parts[prefix].get("bias")))
    return found


def _natural(name: str) -> list[tuple[int, int | str]]:
    """Return a key that sorts fc2 before fc10."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name)]
