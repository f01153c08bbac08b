"""Fewer neurons with the same outputs on the data: one hidden layer, its least output weights, and merges.

A merge replaces some neurons by fewer, by an explicit formula that cannot raise the norm. Whole networks are reduced
layer by layer in :mod:`covopt.sparsify.reduction`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lstsq, qr, svd

from covopt.exact.rank import ATOMS, COMPUTED, group_rays, numerical_rank, row_span
from covopt.exact.rounding import ROUNDING
from covopt.limits import in_pieces

EPS = float(np.finfo(float).eps)
# A step is rejected if its outputs or its norm drift by more than this, relatively.


@dataclass(frozen=True)
class HiddenLayer:
    r"""Neurons :math:`z_j = A w_j`, outputs :math:`F = \sum_j \sigma_a(z_j) v_j^T + \beta 1 b^T`.

    Parameters
    ----------
    inputs : ndarray of shape (N, D)
        A: the inputs of the layer, with its bias column.
    incoming : ndarray of shape (m, D)
        Rows w_j.
    outgoing : ndarray of shape (m, k)
        Rows v_j.
    constant : float
        β, the constant beside the neurons; 0 where there is no output bias that may change.
    offset : ndarray of shape (k,), optional
        b; None means zero, and it stays zero.
    free_offset : bool
        Whether ‖b‖² is free; otherwise it belongs to the norm.
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
        """Return σ_a(z)."""
        return np.maximum(z, 0.0) if self.slope == 0.0 else np.maximum(z, self.slope * z)

    @property
    def outputs(self) -> np.ndarray:
        """F of shape (N, k)."""
        found = self.activations @ self.outgoing
        return found if self.offset is None else found + self.constant * self.offset

    @property
    def squared_norm(self) -> float:
        """Σ‖w_j‖² + ‖v_j‖², and ‖b‖² unless it is free."""
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
    """Return whether a layer has these outputs and no larger norm, up to rounding."""
    scale = float(np.abs(outputs).max(initial=0.0))
    size = float((np.abs(new.activations) @ np.abs(new.outgoing)).max(initial=0.0))
    drift = float(np.abs(new.outputs - outputs).max(initial=0.0))
    return drift <= ATOMS * scale + 8 * EPS * size and new.squared_norm <= squared_norm * (1 + COMPUTED)


def project_incoming(inputs: np.ndarray, incoming: np.ndarray) -> np.ndarray:
    """Project the rows w_j on the row space of A, since the inputs do not depend on the rest.

    The pre-activations stay, and ‖w_j‖² falls to its least value, :math:`z_j^T (A A^T)^+ z_j` (FL22 Prop 1: a
    network without residual part).

    Examples
    --------
    >>> project_incoming(np.array([[1.0, 1.0]]), np.array([[2.0, 0.0]])).round(12).tolist()
    [[1.0, 1.0]]
    """
    seen = row_span(inputs)
    return incoming if len(seen) == inputs.shape[1] else (incoming @ seen.T) @ seen


def least_outgoing(layer: HiddenLayer, outputs: np.ndarray) -> HiddenLayer:
    r"""Return the layer with the smallest outgoing weights that give these outputs.

    .. math:: \min_{V, b} \|V\|_F^2 \;(+ \|b\|^2) \quad \text{s.t.} \quad \sigma(Z) V + \beta 1 b^T = F.

    The value is :math:`\mathrm{Tr}[F F^T (K^\sigma)^+]`: it depends on the neurons only through
    :math:`K^\sigma = \sigma(Z)\sigma(Z)^T + \beta^2 1 1^T` (FL22 Prop 3). LAPACK's solution of least norm is refined
    once.

    Parameters
    ----------
    layer : HiddenLayer
        Its outgoing weights are ignored; its offset, if it has one, is solved for.
    outputs : ndarray of shape (N, k)

    Returns
    -------
    HiddenLayer
        There may be a residual, where F is not in the image: the caller must compare.

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
    weights = lstsq(features, targets, check_finite=False)[0]
    return weights + lstsq(features, targets - features @ weights, check_finite=False)[0]


# ---------------------------------------------------------------------- merges of a few neurons into fewer
def drop_silent(layer: HiddenLayer, *, keep_negative: bool) -> HiddenLayer:
    """Drop neurons that contribute nothing: z = 0 on the data, or, unless ``keep_negative``, σ_a(z) = 0 or v = 0."""
    own = np.linalg.norm(layer.incoming, axis=1)
    alive = np.zeros(len(own), dtype=bool)

    def hear(start: int, stop: int) -> None:
        noise = EPS * np.linalg.norm(layer.inputs[start:stop], axis=1)[:, None] * own
        here = layer.inputs[start:stop] @ layer.incoming.T
        alive[:] |= ((np.abs(here) > noise) if keep_negative or layer.slope else (here > noise)).any(axis=0)

    in_pieces(hear, len(layer.inputs), first=1024)
    if not keep_negative:
        alive &= np.abs(layer.outgoing).max(axis=1, initial=0.0) > 0
    return layer if alive.all() else layer.take(alive)


def balance(layer: HiddenLayer) -> HiddenLayer:
    """Rescale every neuron so that ‖w‖ = ‖v‖: same outputs, least norm 2‖w‖‖v‖ (RK23 Prop 12)."""
    into, out = np.linalg.norm(layer.incoming, axis=1), np.linalg.norm(layer.outgoing, axis=1)
    alive = (into > 0) & (out > 0)
    ratio = np.sqrt(out[alive] / into[alive])[:, None]
    return layer.with_neurons(layer.incoming[alive] * ratio, layer.outgoing[alive] / ratio)


def cells(layer: HiddenLayer) -> list[np.ndarray]:
    """Group the neurons by closed cell of the data: indices, one array per group.

    A neuron with its kink on a data point, |z_i| ≤ ROUNDING ‖A_i‖‖w‖, lies in several closed cells; it is grouped
    with other neurons if possible.
    """
    z = layer.preactivations.T
    size = np.linalg.norm(layer.inputs, axis=1) * np.linalg.norm(layer.incoming, axis=1)[:, None]
    above, below = z > ROUNDING * size, z < -ROUNDING * size
    inner = np.flatnonzero((above | below | (size == 0)).all(axis=1))
    patterns, group = np.unique(np.packbits(above[inner], axis=1), axis=0, return_inverse=True)
    groups = [list(inner[group.ravel() == g]) for g in range(len(patterns))]
    highs, lows = [above[g[0]] for g in groups], [below[g[0]] for g in groups]
    for j in np.setdiff1d(np.arange(len(z)), inner):
        for g in range(len(groups)):
            if not (highs[g] & below[j]).any() and not (lows[g] & above[j]).any():
                groups[g].append(j)
                highs[g], lows[g] = highs[g] | above[j], lows[g] | below[j]
                break
        else:
            groups.append([j])
            highs.append(above[j])
            lows.append(below[j])
    return [np.array(g, dtype=int) for g in groups]


def merge_planar(layer: HiddenLayer) -> HiddenLayer:
    r"""Merge the neurons of a cell that span a plane into two, keeping (K, Kᵠ), outputs and norm.

    Let the columns of :math:`Z_s = E C` be the pre-activations of one cell, E its two extreme rays, C ≥ 0. With the
    LQ decomposition :math:`C = L Q^T` the two neurons :math:`E L` with outgoing weights :math:`Q^T V_s` have the same
    :math:`Z_s Z_s^T` and outputs, and no larger norm. L ≥ 0 because :math:`L L^T = C C^T \ge 0` has order two, so
    they lie in the same cone, and :math:`\sigma` acts on both as the same diagonal matrix. Where the inputs of the
    layer have rank two (d = 1 with bias), at most two neurons per cell remain: 4N for any number of outputs.

    Parameters
    ----------
    layer : HiddenLayer

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> layer = HiddenLayer(np.eye(2), rng.random((50, 2)), rng.random((50, 3)))
    >>> len(merge_planar(layer))
    2
    """
    keep = np.ones(len(layer), dtype=bool)
    incoming, outgoing = [], []
    seen = project_incoming(layer.inputs, layer.incoming)
    z = layer.preactivations
    for group in cells(layer):
        if len(group) <= 2:
            continue
        _, values, right = svd(z[:, group], full_matrices=False, check_finite=False)
        if numerical_rank(values, COMPUTED) != 2:
            continue
        flat = values[:2, None] * right[:2]  # coordinates of the group in its plane
        mean = flat.sum(axis=1)
        angles = np.arctan2(mean[0] * flat[1] - mean[1] * flat[0], mean @ flat)
        ends = group[[int(angles.argmin()), int(angles.argmax())]]
        corners = flat[:, [int(angles.argmin()), int(angles.argmax())]]
        if np.ptp(angles) < 1e-8 or np.ptp(angles) > np.pi - 1e-8:
            continue
        coordinates = np.maximum(np.linalg.solve(corners, flat), 0.0)
        orthogonal, upper = qr(coordinates.T, mode="economic", check_finite=False)
        signs = np.where(np.diag(upper) < 0, -1.0, 1.0)
        keep[group] = False
        incoming.append((signs[:, None] * upper) @ seen[ends])
        outgoing.append((orthogonal * signs).T @ layer.outgoing[group])
    if not incoming:
        return layer
    return layer.with_neurons(
        np.vstack([layer.incoming[keep], *incoming]), np.vstack([layer.outgoing[keep], *outgoing])
    )


def merge_in_cells(layer: HiddenLayer) -> HiddenLayer:
    r"""Merge neurons of one cell, keeping the outputs on the data and lowering the norm.

    On a cell the layer is linear in :math:`M_s = \sum_j w_j v_j^T`. Neurons with parallel v add up,
    :math:`\|\sum_j \|v_j\| w_j\| \le \sum_j \|v_j\|\|w_j\|` (SP20 Lemma 4.5; for d = k = 1 the merge step of FL22
    Prop 15): with scalar outputs one neuron per (cell, sign) remains, at most 4N − 2 where d = 1, the
    silent cell left out.

    Parameters
    ----------
    layer : HiddenLayer
        Any layer; the result is balanced.

    Examples
    --------
    >>> layer = HiddenLayer(np.eye(2), np.array([[3.0, 0.0], [0.0, 4.0]]), np.ones((2, 1)))
    >>> merged = merge_in_cells(layer)
    >>> len(merged), round(merged.squared_norm, 12)
    (1, 10.0)
    """
    layer = balance(drop_silent(layer, keep_negative=False))
    incoming, outgoing = [], []
    for group in cells(layer):
        into, out = _add_parallel(layer.incoming[group], layer.outgoing[group])
        incoming.append(into)
        outgoing.append(out)
    if not incoming:
        return layer
    return balance(layer.with_neurons(np.vstack(incoming), np.vstack(outgoing)))


def _add_parallel(incoming: np.ndarray, outgoing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    leader, _ = group_rays(outgoing)
    firsts, group = np.unique(leader, return_inverse=True)
    lengths = np.linalg.norm(outgoing, axis=1)
    added = np.zeros((len(firsts), incoming.shape[1]))
    np.add.at(added, group, lengths[:, None] * incoming)
    return added, outgoing[firsts] / lengths[firsts, None]
