"""Merges of a few neurons into fewer, each by an explicit formula that cannot raise the norm."""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr, svd

from covopt.exact.parallel_rows import group_rays
from covopt.exact.rank import numerical_rank, of_given
from covopt.limits import in_pieces
from covopt.sparsify.layer import EPS, HiddenLayer, project_incoming

ON_PLANE = 64 * EPS  # |z_i| ≤ ON_PLANE ‖A_i‖‖w‖: the neuron's kink passes through the point
FLAT = 1e-13  # singular value, relative to the largest, at which a group of neurons spans a plane


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


def merge_aligned(layer: HiddenLayer) -> HiddenLayer:
    r"""Merge neurons whose pre-activations on the data lie on one ray, keeping (K, Kᵠ).

    With :math:`z_j = c_j u`, :math:`c_j > 0`: :math:`z = \|c\| u` and :math:`v = \sum_j c_j v_j / \|c\|`. Then
    :math:`z z^T = \sum z_j z_j^T`, the outputs stay, and by Cauchy–Schwarz :math:`\|v\|^2 \le \sum \|v_j\|^2`;
    w is the shortest of the w_j / c_j, times ‖c‖.

    Parameters
    ----------
    layer : HiddenLayer

    Examples
    --------
    >>> layer = HiddenLayer(np.eye(2), np.array([[3.0, 0.0], [4.0, 0.0]]), np.array([[1.0], [0.0]]))
    >>> merged = merge_aligned(layer)
    >>> merged.incoming.tolist(), round(merged.squared_norm, 12), layer.squared_norm
    ([[5.0, 0.0]], 25.36, 26.0)
    """
    z = layer.preactivations.T
    leader, factor = group_rays(z)
    counts = np.bincount(leader[leader >= 0], minlength=len(z))
    if (counts <= 1).all():
        return layer
    incoming, outgoing = [], []
    for first in np.flatnonzero(counts):
        members = np.flatnonzero(leader == first)
        if len(members) == 1:
            incoming.append(layer.incoming[first])
            outgoing.append(layer.outgoing[first])
            continue
        c = factor[members]
        length = np.linalg.norm(c)
        shortest = np.argmin(np.linalg.norm(layer.incoming[members], axis=1) / c)
        incoming.append(layer.incoming[members[shortest]] * (length / c[shortest]))
        outgoing.append(c @ layer.outgoing[members] / length)
    return layer.with_neurons(np.array(incoming), np.array(outgoing))


def cells(layer: HiddenLayer) -> list[np.ndarray]:
    """Group the neurons by closed cell of the data: indices, one array per group.

    A neuron with its kink on a data point lies in several closed cells; it joins one that other neurons are in.
    """
    z = layer.preactivations.T
    size = np.linalg.norm(layer.inputs, axis=1) * np.linalg.norm(layer.incoming, axis=1)[:, None]
    above, below = z > ON_PLANE * size, z < -ON_PLANE * size
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
        if numerical_rank(values, FLAT) > 2:
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
    silent cell left out. With more outputs the singular vectors of M_s take over where they lie in the cell:
    their cost :math:`2\|M_s\|_*` is least among all decompositions.

    Parameters
    ----------
    layer : HiddenLayer
        Any; the result is balanced.

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
        if len(into) > 1 and layer.outgoing.shape[1] > 1:
            into, out = _singular(layer.inputs, into, out)
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


def _singular(
    inputs: np.ndarray, incoming: np.ndarray, outgoing: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    left, values, right = svd(incoming.T @ outgoing, full_matrices=False, check_finite=False)
    rank = numerical_rank(values, 8 * of_given(left.shape))
    left, values, right = left[:, :rank], values[:rank], right[:rank]
    directions, members = inputs @ left, inputs @ incoming.T
    slack = ON_PLANE * np.linalg.norm(inputs, axis=1)
    reach = slack[:, None] * np.linalg.norm(incoming, axis=1)
    high, low = (members > reach).any(axis=1), (members < -reach).any(axis=1)

    def inside(z: np.ndarray) -> bool:
        return bool((z[high] >= -slack[high]).all() and (z[low] <= slack[low]).all())

    signs = np.array([1.0 if inside(z) else -1.0 if inside(-z) else 0.0 for z in directions.T])
    if not signs.all() or rank > len(incoming):
        return incoming, outgoing
    return (left * (signs * values)).T, signs[:, None] * right
