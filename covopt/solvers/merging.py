"""From many columns to few neurons: merge within closed cells, then move inside faces to interpolate exactly.

Two neurons of equal sign in one closed cell act linearly together, so their sum has the same outputs and, by the
triangle inequality, no larger cost (SP20 Lemma 4.5). A merged neuron p lives in the face on which all its members
lie: its zero rows stay zero while it moves within the face's span, and its output stays linear in p.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np
from scipy.spatial import cKDTree

from covopt.exact.rank import COMPUTED
from covopt.exact.rounding import EPS
from covopt.limits import HALF
from covopt.potentials import HINGE
from covopt.solvers.least_norm import LeastNorm
from covopt.solvers.master.columns import Frames


@dataclass
class Faces:
    """Neurons with their faces: vectors p (m, r), outputs (m, k), active rows and rows off the face (m, N)."""

    vectors: np.ndarray
    outputs: np.ndarray
    active: np.ndarray
    touched: np.ndarray

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def masses(self) -> np.ndarray:
        """‖p‖ of every neuron."""
        return np.linalg.norm(self.vectors, axis=1)

    def fitted(self, rows: np.ndarray) -> np.ndarray:
        """Return the outputs of the network on the rows, (N, k), with the true activations."""
        return np.maximum(rows @ self.vectors.T, 0.0) @ self.outputs

    def spans(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return orthonormal bases of the faces' linear spans, stacked.

        Parameters
        ----------
        rows : ndarray of shape (N, r)

        Returns
        -------
        (ndarray of shape (q, r), ndarray of shape (q,))
            Basis vectors and the face each belongs to, ascending.
        """
        rank = rows.shape[1]
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        units = rows / np.where(lengths > 0, lengths, 1.0)  # a zero row is silent everywhere
        products = (units[:, :, None] * units[:, None, :]).reshape(len(rows), -1)
        silent = (~self.touched).astype(float) @ products
        values, vectors = np.linalg.eigh(silent.reshape(-1, rank, rank))
        free = values <= COMPUTED
        owner, which = np.nonzero(free)
        return vectors[owner, :, which], owner


class Unit:
    """Cost of a neuron, for merging and for scaling to cost one; here its norm."""

    fit_frames: Frames | None = None  # turns orthonormal frames of faces into frames of this cost

    def normalise(self, neurons: np.ndarray) -> np.ndarray:
        """Return neurons scaled to cost one, without those of norm ½ or less."""
        lengths = np.linalg.norm(neurons, axis=1, keepdims=True)
        return neurons[lengths[:, 0] > 0.5] / lengths[lengths[:, 0] > 0.5]

    def weigh(self, vectors: np.ndarray) -> np.ndarray:
        """Return the cost of every neuron, shape (m,)."""
        return np.linalg.norm(vectors, axis=1)

    def merge(self, rows: np.ndarray, neurons: np.ndarray, weights: np.ndarray) -> Faces:
        """Merge neurons of cost one and of equal sign where the cost is convex: in a closed cell."""
        return merge_in_cells(rows, neurons, weights)

    def split(self, faces: Faces) -> tuple[np.ndarray, np.ndarray]:
        """Return neurons of cost one and weights (m, k)."""
        masses = self.weigh(faces.vectors)[:, None]
        live = masses[:, 0] > 0
        return faces.vectors[live] / masses[live], faces.outputs[live] * masses[live]


def _pack(flags: np.ndarray) -> np.ndarray:
    """Pack boolean rows into 64-bit words."""
    n = flags.shape[1]
    padded = np.zeros((len(flags), -(-n // 64) * 64), dtype=bool)
    padded[:, :n] = flags
    return np.packbits(padded, axis=1).view(np.uint64)


def merge_in_cells(
    rows: np.ndarray, neurons: np.ndarray, weights: np.ndarray, *, same_active: bool = False
) -> Faces:
    """Merge neurons of equal sign that share a closed cell, heaviest first, each into its best aligned group.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    neurons : ndarray of shape (m, r)
        Unit directions.
    weights : ndarray of shape (m,)
        Signed output weights.
    same_active : bool
        Merge only neurons whose active rows are the same: costs that jump when a row turns active are convex there.
    """
    order = np.argsort(-np.abs(weights), kind="stable")
    neurons, weights = np.ascontiguousarray(neurons[order]), weights[order]
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    heights = neurons @ units.T
    above, below = heights > HINGE, heights < -HINGE
    signs = np.where(weights >= 0, 1.0, -1.0)
    apart = ~above if same_active else below
    group, count = _assign(neurons, np.abs(weights), signs, _pack(above), _pack(apart))
    vectors = np.zeros((count, neurons.shape[1]))
    np.add.at(vectors, group, np.abs(weights)[:, None] * neurons)
    group_signs = np.empty(count)
    group_signs[group] = signs
    active = np.zeros((count, len(rows)), dtype=bool)
    touched = np.zeros((count, len(rows)), dtype=bool)
    np.logical_or.at(active, group, above)
    np.logical_or.at(touched, group, above | below)
    return Faces(vectors, group_signs[:, None], active, touched)


def _assign(
    neurons: np.ndarray, masses: np.ndarray, signs: np.ndarray, above: np.ndarray, below: np.ndarray
) -> tuple[np.ndarray, int]:
    """Return the group of every neuron: the best aligned of its sign that no row separates from it, or a new one."""
    group, count = np.empty(len(neurons), dtype=np.int64), 0
    vectors, lengths, group_signs = np.zeros_like(neurons), np.zeros(len(neurons)), np.zeros(len(neurons))
    group_above, group_below = np.zeros_like(above), np.zeros_like(below)
    for j, neuron in enumerate(neurons):
        apart = (group_above[:count] & below[j]) | (group_below[:count] & above[j])
        fits = ~apart.any(axis=1) & (group_signs[:count] == signs[j]) & (lengths[:count] > 0.0)
        best, found = count, np.flatnonzero(fits)
        if len(found):
            best = found[(vectors[found] @ neuron / lengths[found]).argmax()]
        else:
            group_signs[best] = signs[j]
            count += 1
        group[j] = best
        vectors[best] += masses[j] * neuron
        lengths[best] = np.linalg.norm(vectors[best])
        group_above[best] |= above[j]
        group_below[best] |= below[j]
    return group, count


def merge_alike(
    rows: np.ndarray, neurons: np.ndarray, weights: np.ndarray, angle: float
) -> tuple[np.ndarray, np.ndarray]:
    """Merge neurons of one closed cell whose directions and outputs nearly agree, heaviest first.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    neurons : ndarray of shape (m, r)
        Unit.
    weights : ndarray of shape (m, k)
    angle : float
        Largest angle in radians between a neuron and the first of its group, and between their outputs, together.

    Returns
    -------
    (ndarray of shape (g, r), ndarray of shape (g, k))
        Unit neurons and weights; a group has the mass of the sum of its neurons, at most the sum of their masses.

    Examples
    --------
    >>> near = np.array([[0.6, 0.8], [0.8, 0.6], [0.0, 1.0]])
    >>> units, weights = merge_alike(np.eye(2), near, np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), 0.3)
    >>> units.round(6), weights.round(6)
    (array([[0.707107, 0.707107],
           [0.      , 1.      ]]), array([[1.979899, 0.      ],
           [0.      , 1.      ]]))
    """
    sizes = np.linalg.norm(weights, axis=1)
    order = np.argsort(-sizes, kind="stable")
    neurons, weights, sizes = neurons[order], weights[order], sizes[order]
    lengths = np.linalg.norm(rows, axis=1)
    heights = neurons @ (rows / np.where(lengths > 0, lengths, 1.0)[:, None]).T
    signs = (heights > HINGE).astype(np.int8) - (heights < -HINGE).astype(np.int8)
    places = np.concatenate([neurons, weights / sizes[:, None]], axis=1)
    pairs = cKDTree(places).query_pairs(2.0 * np.sin(0.5 * angle), output_type="ndarray")
    lead = np.arange(len(neurons))
    for i, j in pairs[np.lexsort((pairs[:, 0], pairs[:, 1]))]:
        if lead[i] == i and lead[j] == j and not (signs[i] * signs[j] < 0).any():
            lead[j] = i
            signs[i] = np.where(signs[i] == 0, signs[j], signs[i])
    leads = lead == np.arange(len(lead))
    count, group = int(leads.sum()), (np.cumsum(leads) - 1)[lead]
    vectors, sums = np.zeros((count, neurons.shape[1])), np.zeros((count, weights.shape[1]))
    np.add.at(vectors, group, sizes[:, None] * neurons)
    np.add.at(sums, group, weights)
    masses = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / masses, sums * (masses / np.linalg.norm(sums, axis=1, keepdims=True))


def balanced_faces(rows: np.ndarray, neurons: np.ndarray, weights: np.ndarray) -> Faces:
    """Balance unit neurons with output weights (m, k): vectors and weights of one length, with their faces."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    heights = neurons @ (rows / np.where(lengths > 0, lengths, 1.0)).T
    root = np.sqrt(np.linalg.norm(weights, axis=1))[:, None]
    return Faces(neurons * root, weights / root, heights > HINGE, np.abs(heights) > HINGE)


def polish(
    rows: np.ndarray, targets: np.ndarray, faces: Faces, offset: np.ndarray, *, moves_offset: bool
) -> tuple[Faces, np.ndarray, float]:
    """Move every neuron within its face, as little as possible, until the network interpolates.

    Each round solves min Σ ‖δp‖²/‖p‖² + ‖δv‖²/‖v‖² + ‖δB‖²/s² such that the residual vanishes to first order. With
    one output v stays fixed: a move along p has the same effect, and outputs are linear in the moves.

    Returns
    -------
    (Faces, ndarray of shape (k,), float)
        The moved neurons, the offset and the largest residual left, measured with the true activations.
    """

    def missed(found: Faces, shift: np.ndarray) -> np.ndarray:
        return targets - found.fitted(rows) - shift

    moved, left = faces, missed(faces, offset)
    worst = before = float(np.abs(left).max(initial=0.0))
    best, k, correction = (faces, offset, worst), targets.shape[1], None
    if not len(faces):
        return best
    basis, owner = faces.spans(rows)
    for attempt in count():
        if worst <= EPS * float(np.abs(targets).max(initial=0.0)):
            break
        if correction is None or k > 1:
            lengths, sizes = moved.masses, np.linalg.norm(moved.outputs, axis=1)
            lever = max(float(np.abs(offset).max()), float((lengths * sizes).mean())) if moves_offset else 0.0
            correction = LeastNorm(_columns(rows, moved, basis, owner, lever).T)
        step = correction.solve(left.ravel(), accurate=attempt > 0 and worst > 0.1 * before)
        turn, change, shift = np.split(step, [len(owner), len(step) - k * moves_offset])
        vectors, outputs = moved.vectors.copy(), moved.outputs
        np.add.at(vectors, owner, (lengths[owner] * turn)[:, None] * basis)
        if k > 1:
            outputs = outputs + sizes[:, None] * change.reshape(-1, k)
        if moves_offset:
            offset = offset + lever * shift
        moved = Faces(vectors, outputs, faces.active, faces.touched)
        left = missed(moved, offset)
        before, worst = worst, float(np.abs(left).max())
        if worst < best[2]:
            best = moved, offset, worst
        if attempt > 1 and not worst < HALF * before:
            break
    return best


def _columns(
    rows: np.ndarray, faces: Faces, basis: np.ndarray, owner: np.ndarray, lever: float
) -> np.ndarray:
    """Return the Jacobian in moves, output weights (if k > 1) and offset, relative to their sizes, (N·k, ·)."""
    n, k = len(rows), faces.outputs.shape[1]
    along = (rows @ basis.T) * faces.active[owner].T
    pulls = (faces.outputs * faces.masses[:, None])[owner]
    parts = [np.einsum("iq,qo->ioq", along, pulls).reshape(n * k, -1)]
    if k > 1:
        atoms = faces.active.T * (rows @ faces.vectors.T) * np.linalg.norm(faces.outputs, axis=1)
        parts.append(np.einsum("ij,op->iojp", atoms, np.eye(k)).reshape(n * k, -1))
    if lever:
        parts.append(np.tile(lever * np.eye(k), (n, 1)))
    return np.concatenate(parts, axis=1)
