"""Base class of networks of any depth: outputs on tables, reduction, PyTorch modules and ONNX files in doubles.

Columns of a frame are found by name. Where all neurons have one direction, as in networks constructed directly for
tens of thousands of rows, points are sorted along it instead of being paired with every neuron.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from covopt.checks import listed, required
from covopt.checks.validation import check_choice
from covopt.data.tabular import check_finite, to_matrix
from covopt.errors import InputError
from covopt.exact.rounding import ROUNDING
from covopt.files import write_atomically
from covopt.limits import PIECE

Layers = Sequence[tuple[np.ndarray, np.ndarray | None]]

OPSET = 17  # every runtime that reads it has double kernels for its Gemm 13 and Relu 14
MANY_PAIRS = 200_000_000  # above this many pairs points are sorted where neurons have one direction


class Network:
    """Export and reduction of networks of any depth; β is folded into the biases that are exported."""

    @property
    def _exported(self) -> tuple[Layers, float]:
        """The layers in the form of other frameworks, and the slope."""
        raise NotImplementedError

    def _reduced(self, X: Any, preserve: str) -> Iterator[Self]:
        """Yield the networks of :meth:`reductions`."""
        raise NotImplementedError

    def reductions(self, X: Any, *, preserve: str = "covariances") -> Iterator[Self]:
        """Yield the intermediate networks of :meth:`reduce`, each at least as good as all before it.

        Parameters
        ----------
        X : array_like of shape (N, d)
        preserve : {"covariances", "outputs"}

        Yields
        ------
        ReLUNetwork or DeepReLUNetwork
            Of the same class as the network.

        Raises
        ------
        InputError
            If X does not fit or ``preserve`` is unknown.

        Examples
        --------
        >>> import covopt
        >>> [len(n) for n in covopt.ReLUNetwork(np.ones((9, 2)), np.ones((9, 1))).reductions([[1.0], [2.0]])][-1]
        1
        >>> deep = covopt.DeepReLUNetwork([np.ones((9, 2)), np.ones((1, 9))])
        >>> [n.widths for n in deep.reductions([[1.0, 0.0], [2.0, 1.0]])][-1]
        (1,)
        """
        from covopt.sparsify.reduction import PRESERVES

        check_choice("preserve", preserve, PRESERVES)
        yield from self._reduced(X, preserve)

    def reduce(self, X: Any, *, preserve: str = "covariances") -> Self:
        r"""Return a network with fewer neurons, the same outputs on X and no larger norm.

        The hidden layers are reduced one after the other, each on the representation that the layers before it give:
        its neurons are rescaled or merged, and the next layer's weights adapted so that its pre-activations stay.
        See :func:`covopt.sparsify.reduction.reduce_layer` for the two modes and their proofs.

        Parameters
        ----------
        X : array_like of shape (N, d)
            The data on which the outputs are preserved. Elsewhere they may change.
        preserve : {"covariances", "outputs"}
            Keep every pair :math:`(K_\ell, K_\ell^\sigma)` (FL22 Prop 7, 8), with at most
            :math:`r(r+1)/2 + N(N+1)/2 \le N(N+1)` neurons in a layer whose inputs, the bias among them, have rank r;
            or only the outputs, at a lower norm, with at most :math:`Nq - q(q-1)/2 \le N(N+1)/2`, q = min(N, outputs
            of the layer): N for one output. Then the sweep over the layers of a deep network is repeated while it
            lowers the norm by more than a hundredth. A zero output bias stays zero; a nonzero one is solved for
            together with the output weights.

        Raises
        ------
        InputError
            If X does not fit, has no rows or entries that are not finite, or ``preserve`` is unknown.

        Examples
        --------
        >>> import covopt
        >>> rng = np.random.default_rng(0)
        >>> wide = covopt.ReLUNetwork(rng.standard_normal((500, 4)), rng.standard_normal((500, 1)))
        >>> X = rng.standard_normal((8, 3))
        >>> len(wide.reduce(X)) <= 8 * 9, len(wide.reduce(X, preserve="outputs")) <= 8
        (True, True)
        >>> deep = covopt.DeepReLUNetwork([rng.standard_normal(s) for s in [(80, 2), (70, 80), (1, 70)]])
        >>> X = rng.standard_normal((5, 2))
        >>> small = deep.reduce(X, preserve="outputs")
        >>> all(w <= 15 for w in small.widths), bool(np.allclose(small.predict(X), deep.predict(X)))
        (True, True)
        """
        found = self
        for found in self.reductions(X, preserve=preserve):  # noqa: B007
            pass
        return found

    def to_torch(self) -> Any:
        """Return the network as an ``nn.Sequential`` of Linear and ReLU in float64, its weights copied.

        The biases are β times those of the network; with a slope LeakyReLU replaces ReLU. The module takes (N, d) and
        returns (N, k), also for one output. A layer without neurons gets one silent neuron. ‖W‖² is that of the
        parameters for β = 1; for another β see ``squared_norm``.

        Returns
        -------
        torch.nn.Sequential

        Raises
        ------
        InputError
            If PyTorch is not installed.

        Examples
        --------
        >>> import covopt
        >>> net = covopt.ReLUNetwork(np.array([[1.0, -0.5]]), np.array([[2.0]]), bias=2.0)
        >>> {name: p.tolist() for name, p in net.to_torch().state_dict().items()}
        {'0.weight': [[1.0]], '0.bias': [-1.0], '2.weight': [[2.0]], '2.bias': [0.0]}
        """
        torch = required("torch", "to_torch()", "torch")
        layers, slope = self._exported
        modules: list[Any] = []
        for weights, biases in with_neurons(layers):
            if modules:
                modules.append(torch.nn.LeakyReLU(slope) if slope else torch.nn.ReLU())
            # no random initialisation, which would advance the user's generator
            linear = torch.nn.Linear(
                weights.shape[1], len(weights), bias=biases is not None, dtype=torch.float64, device="meta"
            )
            linear.weight = torch.nn.Parameter(torch.tensor(weights, dtype=torch.float64))
            if biases is not None:
                linear.bias = torch.nn.Parameter(torch.tensor(biases, dtype=torch.float64))
            modules.append(linear)
        return torch.nn.Sequential(*modules)

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write the network as an ONNX file in float64: ``X`` (N, d) to ``Y`` (N, k), N free, opset 17.

        Parameters
        ----------
        path : path-like
            Must end in ``.onnx``; the file is written whole or not at all.

        Raises
        ------
        InputError
            If onnx is not installed or the path cannot be written.

        Examples
        --------
        >>> import covopt, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "network.onnx"
        >>> covopt.ReLUNetwork(np.array([[1.0, -0.5]]), np.array([[2.0]])).to_onnx(path)
        >>> path.exists()
        True
        """
        if not isinstance(path, str | os.PathLike) or Path(path).suffix.lower() != ".onnx":
            raise InputError(f"the path of an ONNX file ends in .onnx; received {path!r}.")
        onnx = required("onnx", "to_onnx()", "onnx")
        from onnx import TensorProto, helper, numpy_helper

        from covopt import __version__

        layers, slope = self._exported
        arrays = with_neurons(layers)
        nodes, tensors, current = [], [], "X"
        for ell, layer in enumerate(arrays, 1):
            held = {
                f"{letter}{ell}": part for letter, part in zip("Wb", layer, strict=True) if part is not None
            }
            tensors += [numpy_helper.from_array(part, name) for name, part in held.items()]
            output = "Y" if ell == len(arrays) else f"Z{ell}"
            nodes.append(helper.make_node("Gemm", [current, *held], [output], f"layer{ell}", transB=1))
            current = f"A{ell}"
            if slope and output != "Y":  # LeakyRelu would keep its slope in single precision
                nodes.append(helper.make_node("Mul", [output, "slope"], [f"S{ell}"], f"slope{ell}"))
                nodes.append(helper.make_node("Max", [output, f"S{ell}"], [current], f"max{ell}"))
            elif output != "Y":
                nodes.append(helper.make_node("Relu", [output], [current], f"relu{ell}"))
        if slope:
            tensors.append(numpy_helper.from_array(np.array(slope), "slope"))
        graph = helper.make_graph(
            nodes, "ReLU network",
            [helper.make_tensor_value_info("X", TensorProto.DOUBLE, ["N", arrays[0][0].shape[1]])],
            [helper.make_tensor_value_info("Y", TensorProto.DOUBLE, ["N", len(arrays[-1][0])])],
            tensors,
        )  # fmt: skip
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(
            graph, producer_name="covopt", producer_version=__version__, opset_imports=opset,
            ir_version=helper.find_min_ir_version_for(opset),
        )  # fmt: skip
        onnx.checker.check_model(model)
        content = model.SerializeToString()
        try:
            write_atomically(path, lambda stream: stream.write(content))
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror or error}.") from None


def with_neurons(layers: Layers) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """Return contiguous double arrays, with one silent neuron in a layer without neurons.

    Frameworks reject layers of width zero, or warn about them.

    Examples
    --------
    >>> [w.shape for w, _ in with_neurons([(np.zeros((0, 3)), None), (np.zeros((2, 0)), np.ones(2))])]
    [(1, 3), (2, 1)]
    """
    found: list[tuple[np.ndarray, np.ndarray | None]] = []
    for weights, biases in layers:
        w = np.ascontiguousarray(weights, dtype=np.float64)
        b = None if biases is None else np.ascontiguousarray(biases, dtype=np.float64)
        if found and w.shape[1] == 0:
            before, shift = found[-1]
            found[-1] = (np.zeros((1, before.shape[1])), None if shift is None else np.zeros(1))
            w = np.zeros((len(w), 1))
        found.append((w, b))
    return found


def as_table(X: Any, n_inputs: int, names: tuple[str, ...] | None = None) -> np.ndarray:
    """Return the inputs of a network as floats of shape (N, d); columns of a frame are found by name.

    Parameters
    ----------
    X : array_like or frame
        A vector is one feature of many points if the network has one input, else one point.
    n_inputs : int
    names : tuple of str, optional
        Where all are x0, x1, … they are default names, and columns are taken by position.

    Raises
    ------
    InputError
        For another number of columns, and for missing columns, which the message names.
    """
    columns = getattr(X, "columns", None)
    if names is not None and columns is not None:
        found = {str(name): name for name in columns}
        missing = [name for name in names if name not in found]
        if not missing:
            X = X[[found[name] for name in names]]
        elif names != tuple(f"x{j}" for j in range(len(names))):
            raise InputError(f"X has no column called {listed(missing)}; it has {listed(list(found))}.")
    X, _ = to_matrix("X", X)
    if X.ndim == 1:
        X = X[:, None] if n_inputs == 1 else X[None, :]
    if X.ndim != 2 or X.shape[1] != n_inputs:
        raise InputError(f"X has shape {X.shape}; this network takes (N, {n_inputs})")
    return X


def check_inputs(X: Any, n_inputs: int) -> np.ndarray:
    """Return the points as a float array of shape (N, d).

    Raises
    ------
    InputError
        For another number of columns, no rows, and entries that are not finite.
    """
    X = as_table(X, n_inputs)
    if len(X) == 0:
        raise InputError("X has no rows; give the points on which the network is to stay the same.")
    check_finite("X", X, None, remedy="Drop these rows")
    return X


def outputs(lifted: np.ndarray, hidden: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return σ(X̃ Wᵀ) V.

    Parameters
    ----------
    lifted : ndarray of shape (N, D)
    hidden : ndarray of shape (m, D)
    weights : ndarray of shape (m, k)

    Examples
    --------
    >>> outputs(np.array([[2.0, 1.0], [-3.0, 1.0]]), np.array([[1.0, 1.0]]), np.array([[2.0]]))
    array([[6.],
           [0.]])
    """
    found = _by_sorting(lifted, hidden, weights) if len(lifted) * len(hidden) > MANY_PAIRS else None
    if found is not None:
        return found
    return in_pieces(lambda rows: np.maximum(rows @ hidden.T, 0.0) @ weights, lifted, len(hidden))


def in_pieces(function: Callable[[np.ndarray], np.ndarray], rows: np.ndarray, width: int) -> np.ndarray:
    """Apply a function to rows, to as many at a time as the cache holds.

    Parameters
    ----------
    function : callable
    rows : ndarray of shape (N, D)
    width : int
        Numbers held per row.
    """
    length = max(1, PIECE // max(1, width))
    pieces = [function(rows[start : start + length]) for start in range(0, max(1, len(rows)), length)]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _by_sorting(lifted: np.ndarray, hidden: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
    """Sum slopes from kink to kink along the common direction of all neurons; return None if there are several."""
    constant, lengths = lifted[0, -1], np.linalg.norm(hidden[:, :-1], axis=1)
    longest = lengths.argmax()
    if not (lengths[longest] > 0.0 < constant and (lifted[:, -1] == constant).all()):
        return None
    direction = hidden[longest, :-1] / lengths[longest]
    along, shift = hidden[:, :-1] @ direction, hidden[:, -1] * constant
    if np.abs(hidden[:, :-1] - np.outer(along, direction)).max() > ROUNDING * lengths[longest]:
        return None
    bent = np.flatnonzero(along)
    bent = bent[np.argsort(-shift[bent] / along[bent], kind="stable")]
    kinks, bends = -shift[bent] / along[bent], np.abs(along[bent])[:, None] * weights[bent]
    slopes = np.cumsum(np.vstack([np.minimum(along, 0.0) @ weights, bends]), axis=0)
    first = np.maximum(along * kinks[0] + shift, 0.0) @ weights
    heights = np.cumsum(np.vstack([first, slopes[1:-1] * np.diff(kinks)[:, None]]), axis=0)
    where = lifted[:, :-1] @ direction
    passed = np.searchsorted(kinks, where, side="right")
    before = np.maximum(passed - 1, 0)
    return heights[before] + slopes[passed] * (where - kinks[before])[:, None]
