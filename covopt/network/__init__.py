"""Networks, shallow and deep, and their export to files and frameworks; here shallow networks, as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from covopt.checks import counted
from covopt.data.scaling import Scaling
from covopt.errors import InputError
from covopt.network.base import Layers, Network, as_table, check_inputs
from covopt.network.base import outputs as outputs_of
from covopt.network.deep import DeepReLUNetwork

__all__ = ["DeepReLUNetwork", "ReLUNetwork", "check_inputs"]


@dataclass(frozen=True, eq=False, repr=False)
class ReLUNetwork(Network):
    r"""The network :math:`f(x) = \sum_j \sigma(w_j\cdot(x, \beta))\, v_j + \beta b`.

    Parameters
    ----------
    hidden_weights : ndarray of shape (m, D)
        Rows w_j; the last entry multiplies β when ``bias`` is positive.
    output_weights : ndarray of shape (m, k)
        Rows v_j.
    bias : float
        β; zero for a network without biases.
    output_bias : ndarray of shape (k,)
        b; zeros when the network has none.
    counts_output_bias : bool
        Whether ‖b‖² belongs to the squared norm (a penalised output bias) or is free.
    feature_names : tuple of str, optional
        Names of the inputs: columns of frames are then found by name, in any order.
    scaling : Scaling, optional
        For a network on standardised columns: inputs and exports use the user's columns; the weights and
        ``squared_norm`` are those on the standardised ones.

    Raises
    ------
    InputError
        If the shapes do not fit together. Lists are accepted; a vector of output weights is one output.

    Examples
    --------
    >>> net = ReLUNetwork.from_neurons(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([1.0, 1.0]), bias=1.0)
    >>> net.predict([[-2.0], [0.5]])
    array([2. , 0.5])
    >>> net.squared_norm
    4.0
    """

    hidden_weights: np.ndarray
    output_weights: np.ndarray
    bias: float = 1.0
    output_bias: np.ndarray = field(default_factory=lambda: np.zeros(1))
    counts_output_bias: bool = True
    feature_names: tuple[str, ...] | None = None
    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        hidden, output = (np.asarray(w, dtype=float) for w in (self.hidden_weights, self.output_weights))
        output = output[:, None] if output.ndim == 1 else output
        if hidden.ndim != 2 or output.ndim != 2 or len(hidden) != len(output):
            raise InputError(
                f"hidden_weights of shape {hidden.shape} and output_weights of shape {output.shape} do not fit "
                "together; one row for each neuron is needed in both, (m, inputs) and (m, outputs)."
            )
        given = np.atleast_1d(np.asarray(self.output_bias, dtype=float))
        k = output.shape[1]
        shift = np.zeros(k) if given.shape == (1,) and not given.any() else given
        if shift.shape != (k,):
            raise InputError(
                f"output_bias has shape {given.shape}; ({k},) is needed for {counted(k, 'output')}."
            )
        names = None if self.feature_names is None else tuple(str(name) for name in self.feature_names)
        if names is not None and len(names) != hidden.shape[1] - (self.bias > 0):
            raise InputError(
                f"feature_names has {counted(len(names), 'name')}; the network has "
                f"{counted(hidden.shape[1] - (self.bias > 0), 'input')} besides the bias."
            )
        for name, value in (
            ("hidden_weights", hidden), ("output_weights", output), ("output_bias", shift), ("feature_names", names)
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        scaled = "" if self.scaling is None else " on standardised columns"
        return (
            f"ReLUNetwork({counted(len(self), 'neuron')}, {counted(self.n_inputs, 'input')}{scaled} → "
            f"{counted(self.output_weights.shape[1], 'output')}, bias {self.bias:g}, ‖W‖² {self.squared_norm:.8g})"
        )

    @classmethod
    def from_neurons(
        cls,
        neurons: np.ndarray,
        weights: np.ndarray,
        *,
        bias: float,
        offset: float | np.ndarray = 0.0,
        counts_output_bias: bool = True,
    ) -> ReLUNetwork:
        """Return the balanced network of unit neurons with output weights c_j: ‖w_j‖ = ‖v_j‖ = √‖c_j‖.

        Parameters
        ----------
        neurons : ndarray of shape (m, D)
        weights : ndarray of shape (m,) or (m, k)
        bias : float
        offset : float or ndarray of shape (k,)
            B = β b, added to the output.
        counts_output_bias : bool

        Returns
        -------
        ReLUNetwork
        """
        columns = weights[:, None] if weights.ndim == 1 else weights
        mass = np.hypot.reduce(columns, axis=1)  # squares of 1e-160 would underflow
        root = np.sqrt(mass)
        output = columns / np.where(root > 0, root, 1.0)[:, None]
        shift = np.broadcast_to(np.asarray(offset, dtype=float), (columns.shape[1],))
        output_bias = shift / bias if bias > 0 else np.zeros(columns.shape[1])
        return cls(root[:, None] * neurons, output, bias, output_bias, counts_output_bias)

    def to_neurons(self) -> tuple[np.ndarray, np.ndarray, float | np.ndarray]:
        """Invert :meth:`from_neurons`; neurons of length zero are left out.

        Returns
        -------
        neurons : ndarray of shape (m, D)
            Unit vectors.
        weights : ndarray of shape (m,) for one output, (m, k) for more
        offset : float for one output, ndarray of shape (k,) for more
        """
        size = np.hypot.reduce(self.hidden_weights, axis=1) if len(self) else np.zeros(0)
        live = size > 0
        neurons = self.hidden_weights[live] / size[live, None]
        weights = size[live, None] * self.output_weights[live]
        offset = self.bias * self.output_bias
        return (neurons, weights, offset) if len(offset) > 1 else (neurons, weights[:, 0], float(offset[0]))

    def __len__(self) -> int:
        return len(self.hidden_weights)

    @property
    def n_inputs(self) -> int:
        """Number of inputs d, without the bias."""
        return self.hidden_weights.shape[1] - (self.bias > 0)

    @property
    def squared_norm(self) -> float:
        """‖W‖²: every squared entry, with the output bias unless it is free."""
        total = float((self.hidden_weights**2).sum() + (self.output_weights**2).sum())
        return total + float((self.output_bias**2).sum()) if self.counts_output_bias else total

    def lift(self, X: np.ndarray) -> np.ndarray:
        """Return X with its bias column, standardised if the network has a scaling.

        Parameters
        ----------
        X : array_like of shape (N, d)

        Returns
        -------
        ndarray of shape (N, D)

        Raises
        ------
        InputError
            If X has another number of columns, or is a frame without the required columns.
        """
        X = as_table(X, self.n_inputs, self.feature_names)
        if self.scaling is not None:
            X = self.scaling.apply(X)
        return np.column_stack([X, np.full(len(X), self.bias)]) if self.bias > 0 else X

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the outputs.

        Parameters
        ----------
        X : array_like of shape (N, d)

        Returns
        -------
        ndarray of shape (N,) for one output, (N, k) for more

        Raises
        ------
        InputError
            If X has another number of columns.
        """
        found = outputs_of(self.lift(X), self.hidden_weights, self.output_weights)
        outputs = found + self.bias * self.output_bias
        if self.scaling is not None:
            outputs = outputs + self.scaling.target_centre
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs

    def bare(self) -> ReLUNetwork:
        """Return the network on the standardised columns, without scaling; itself if it has none."""
        return self if self.scaling is None else replace(self, scaling=None)

    def folded(self) -> ReLUNetwork:
        """Return the same function as a network without scaling, on the user's columns; its norm differs.

        Examples
        --------
        >>> import covopt
        >>> X, y = [[2000.0], [2010.0], [2020.0]], [1.0, 2.0, 5.0]
        >>> network = covopt.min_norm(X, y, standardise=True).network
        >>> bool(np.allclose(network.folded().predict([[2015.0]]), network.predict([[2015.0]])))
        True
        """
        if self.scaling is None:
            return self
        hidden, shift = self.scaling.fold(self.hidden_weights, self.bias), self.output_bias
        if self.bias > 0:
            shift = shift + self.scaling.target_centre / self.bias
        return replace(self, hidden_weights=hidden, output_bias=shift, scaling=None)

    @property
    def chain(self) -> DeepReLUNetwork:
        """The same function as a network of two layers, on the user's columns; a zero output bias is left out.

        Examples
        --------
        >>> ReLUNetwork(np.ones((3, 2)), np.ones((3, 1))).chain
        DeepReLUNetwork(1 → 3 → 1, bias 1, ‖W‖² 9)
        """
        own, biases = self.folded(), None
        hidden = own.hidden_weights[:, : self.n_inputs]
        if self.bias > 0:
            biases = own.hidden_weights[:, -1], own.output_bias if own.output_bias.any() else None
        weights = hidden, own.output_weights.T
        return DeepReLUNetwork(weights, biases, 0.0, self.bias or 1.0, self.counts_output_bias)

    @property
    def layers(self) -> tuple[tuple[np.ndarray, np.ndarray | None], ...]:
        """Weights (outputs, inputs) and biases of the two linear layers, with β folded in; None without biases.

        A scaling is folded in, too: the layers take the user's columns.
        """
        if self.scaling is not None:
            return self.folded().layers
        if self.bias == 0:
            return (self.hidden_weights, None), (self.output_weights.T, None)
        inner, outer = self.bias * self.hidden_weights[:, -1], self.bias * self.output_bias
        return (self.hidden_weights[:, :-1], inner), (self.output_weights.T, outer)

    @property
    def _exported(self) -> tuple[Layers, float]:
        return self.layers, 0.0

    def _reduced(self, X: Any, preserve: str) -> Iterator[ReLUNetwork]:
        from covopt.sparsify.reduction import reductions

        yield from map(self.with_layer, reductions(self.hidden_layer(X), preserve=preserve))

    def merge(self, X: np.ndarray) -> ReLUNetwork:
        """Merge neurons within the cells of the data: same outputs on X, no larger norm, balanced.

        One neuron per (cell, sign) remains for one output (SP20 Lemma 4.5); where d = 1 at most 4N − 2
        (the merge step of FL22 Prop 15, which counts 4N). Silent neurons are removed.

        Parameters
        ----------
        X : array_like of shape (N, d)

        Returns
        -------
        ReLUNetwork

        Raises
        ------
        InputError
            If X does not fit, has no rows or entries that are not finite.

        Examples
        --------
        >>> net = ReLUNetwork(np.array([[1.0, -0.2], [1.0, -0.4], [-1.0, -3.0]]), np.ones((3, 1)))
        >>> merged = net.merge([[0.0], [1.0], [2.0]])
        >>> len(merged), merged.predict([[0.0], [1.0], [2.0]])
        (1, array([0. , 1.4, 3.4]))
        """
        from covopt.sparsify import merge_in_cells

        return self.with_layer(merge_in_cells(self.hidden_layer(X)))

    def hidden_layer(self, X: np.ndarray) -> Any:
        """Return the neurons on some data in the form of :mod:`covopt.sparsify`, without a zero output bias.

        Parameters
        ----------
        X : array_like of shape (N, d)
        """
        lifted = check_inputs(self.lift(X), self.hidden_weights.shape[1])
        return self.bare().chain.hidden_layer(lifted[:, : self.n_inputs], 0)

    def with_layer(self, layer: Any) -> ReLUNetwork:
        """Return the network with the neurons and the offset of another hidden layer.

        Parameters
        ----------
        layer : HiddenLayer
        """
        offset = self.output_bias if layer.offset is None else layer.offset
        return replace(self, hidden_weights=layer.incoming, output_weights=layer.outgoing, output_bias=offset)
