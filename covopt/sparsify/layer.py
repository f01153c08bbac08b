"""One hidden layer on its data, and the smallest outgoing weights that give its outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import svd

from covopt.exact.rank import numerical_rank, row_span

EPS = float(np.finfo(float).eps)
# What counts as the same: a step whose outputs or norm drift further than this, relatively, is not taken.
DRIFT = 2e-11
NORM_DRIFT = 1e-12


@dataclass(frozen=True)
class HiddenLayer:
    r"""Neurons :math:`z_j = A w_j`, outputs :math:`F = \sum_j \sigma_a(z_j) v_j^T + \beta 1 b^T`.

    Parameters
    ----------
    inputs : ndarray of shape (N, D)
        A: what enters the layer, its bias column included.
    incoming : ndarray of shape (m, D)
        Rows w_j.
    outgoing : ndarray of shape (m, k)
        Rows v_j.
    constant : float
        β, the constant beside the neurons; 0 where there is no output bias that may move.
    offset : ndarray of shape (k,), optional
        b; None is zero and stays so.
    free_offset : bool
        Whether ‖b‖² costs nothing; otherwise it belongs to the norm.
    slope : float
        a of σ_a; 0 is the ReLU.
    """

    inputs: np.ndarray
    incoming: np.ndarray
    outgoing: np.ndarray
    constant: float = 0.0
    offset: np.ndarray | None = None
    free_offset: bool = False
    slope: float = 0.0

    def __len__(self) -> int:
        return len(self.incoming)

    @property
    def preactivations(self) -> np.ndarray:
        """Z of shape (N, m)."""
        return self.inputs @ self.incoming.T

    @property
    def activations(self) -> np.ndarray:
        """σ_a(Z) of shape (N, m)."""
        return self.activate(self.preactivations)

    def activate(self, z: np.ndarray) -> np.ndarray:
        """σ_a(z)."""
        return np.maximum(z, 0.0) if self.slope == 0.0 else np.maximum(z, self.slope * z)

    @property
    def outputs(self) -> np.ndarray:
        """F of shape (N, k)."""
        found = self.activations @ self.outgoing
        return found if self.offset is None else found + self.constant * self.offset

    @property
    def squared_norm(self) -> float:
        """Σ‖w_j‖² + ‖v_j‖², and ‖b‖² where it costs."""
        total = float((self.incoming**2).sum() + (self.outgoing**2).sum())
        if self.offset is not None and not self.free_offset:
            total += float((self.offset**2).sum())
        return total

    def with_neurons(self, incoming: np.ndarray, outgoing: np.ndarray) -> HiddenLayer:
        """Return the layer with other neurons and the same offset."""
        return replace(self, incoming=incoming, outgoing=outgoing)

    def take(self, chosen: np.ndarray) -> HiddenLayer:
        """Return the layer with the chosen neurons (a mask or indices)."""
        return self.with_neurons(self.incoming[chosen], self.outgoing[chosen])


def as_good(new: HiddenLayer, outputs: np.ndarray, squared_norm: float) -> bool:
    """Whether a layer has these outputs and no larger norm, up to rounding."""
    scale = float(np.abs(outputs).max(initial=0.0))
    size = float((np.abs(new.activations) @ np.abs(new.outgoing)).max(initial=0.0))
    drift = float(np.abs(new.outputs - outputs).max(initial=0.0))
    return drift <= DRIFT * scale + 8 * EPS * size and new.squared_norm <= squared_norm * (1 + NORM_DRIFT)


def project_incoming(inputs: np.ndarray, incoming: np.ndarray) -> np.ndarray:
    """Drop what the inputs cannot see: the projection of the rows w_j on the row space of A.

    The pre-activations stay and ‖w_j‖² falls to its least value, :math:`z_j^T (A A^T)^+ z_j` (FL22 Prop 1: a
    network without residual part).

    Examples
    --------
    >>> project_incoming(np.array([[1.0, 1.0]]), np.array([[2.0, 0.0]])).round(12).tolist()
    [[1.0, 1.0]]
    """
    seen = row_span(inputs)
    return incoming if len(seen) == inputs.shape[1] else (incoming @ seen.T) @ seen


def least_outgoing(layer: HiddenLayer, outputs: np.ndarray) -> HiddenLayer:
    r"""Give the layer the smallest outgoing weights with these outputs.

    .. math:: \min_{V, b} \|V\|_F^2 \;(+ \|b\|^2) \quad \text{s.t.} \quad \sigma(Z) V + \beta 1 b^T = F.

    The value is :math:`\mathrm{Tr}[F F^T (K^\sigma)^+]`: it depends on the neurons only through
    :math:`K^\sigma = \sigma(Z)\sigma(Z)^T + \beta^2 1 1^T` (FL22 Prop 3). Of the singular values of σ(Z) the fewest
    that leave no residual are used, which is where the norm is least.

    Parameters
    ----------
    layer : HiddenLayer
        Its outgoing weights are ignored; its offset is solved for where there is one.
    outputs : ndarray of shape (N, k)

    Returns
    -------
    HiddenLayer
        Possibly with a residual, where F is not in the image: the caller compares.

    Examples
    --------
    >>> layer = HiddenLayer(np.eye(1), np.ones((2, 1)), np.array([[2.0], [0.0]]))
    >>> least_outgoing(layer, layer.outputs).outgoing.round(12).tolist()
    [[1.0], [1.0]]
    """
    features, targets = layer.activations, outputs
    means = None
    if layer.offset is not None and layer.free_offset:
        means = features.mean(axis=0)
        features, targets = features - means, outputs - outputs.mean(axis=0)
    elif layer.offset is not None:
        features = np.column_stack([features, np.full(len(features), layer.constant)])
    weights = _least_norm(features, targets)
    if means is not None:
        offset = (outputs.mean(axis=0) - means @ weights) / layer.constant
        return replace(layer, outgoing=weights, offset=offset)
    if layer.offset is not None:
        return replace(layer, outgoing=weights[:-1], offset=weights[-1])
    return replace(layer, outgoing=weights)


def _least_norm(features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    left, values, right = svd(features, full_matrices=False, check_finite=False)
    if not values.size or values[0] == 0.0:
        return np.zeros((features.shape[1], targets.shape[1]))
    count = numerical_rank(values, EPS)
    parts = left[:, :count].T @ targets
    # residual after the first i singular vectors, from the small end so that nothing cancels
    outside = float(((targets - left[:, :count] @ parts) ** 2).sum())
    tails = np.sqrt(np.append(np.cumsum((parts**2).sum(axis=1)[::-1])[::-1], 0.0) + outside)
    enough = np.flatnonzero(tails <= 0.1 * DRIFT * np.abs(targets).max(initial=0.0))
    rank = int(enough[0]) if len(enough) else count
    inverse = right[:rank].T / values[:rank]
    weights = inverse @ parts[:rank]
    return weights + inverse @ (left[:, :rank].T @ (targets - features @ weights))
