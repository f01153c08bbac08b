"""From many columns to few neurons: merge within closed cells, then move inside faces to interpolate exactly.

Two neurons of equal sign in one closed cell act linearly together, so their sum has the same outputs and, by the
triangle inequality, no larger cost (SP20 Lemma 4.5). A merged neuron p lives in the face on which all its members
lie: its zero rows stay zero while it moves within the face's span, and its output stays linear in p.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

ON_PLANE = 1e-10  # |z·w| / ‖z‖ below which a unit neuron counts as lying on the row's hyperplane


@dataclass
class Faces:
    """Neurons with their faces: vectors p (m, r), signs (m,), active rows and rows off the face (m, N)."""

    vectors: np.ndarray
    signs: np.ndarray
    active: np.ndarray
    touched: np.ndarray

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def masses(self) -> np.ndarray:
        """‖p‖ of every neuron."""
        return np.linalg.norm(self.vectors, axis=1)

    def outputs(self, rows: np.ndarray) -> np.ndarray:
        """Outputs of the network on the rows, by the rows' true signs."""
        return np.maximum(rows @ self.vectors.T, 0.0) @ self.signs

    def spans(self, rows: np.ndarray) -> list[np.ndarray]:
        """Orthonormal basis (r, dim) of each face's linear span."""
        rank = rows.shape[1]
        bases = []
        for vector, touched in zip(self.vectors, self.touched, strict=True):
            silent = rows[~touched]
            if len(silent) == 0:
                bases.append(np.eye(rank))
                continue
            silent = silent / np.linalg.norm(silent, axis=1, keepdims=True)
            _, values, right = np.linalg.svd(silent, full_matrices=True)
            dim = rank - int((values > 1e-8).sum())
            basis = right[rank - dim :].T if dim else np.empty((rank, 0))
            # the span holds p itself, which rounding in nearly parallel rows could push out
            unit = vector / np.linalg.norm(vector)
            if dim == 0 or np.linalg.norm(basis @ (basis.T @ unit) - unit) > 1e-6:
                basis = unit[:, None]
            bases.append(basis)
        return bases


def _pack(flags: np.ndarray) -> np.ndarray:
    """Pack boolean rows into 64-bit words."""
    n = flags.shape[1]
    padded = np.zeros((len(flags), -(-n // 64) * 64), dtype=bool)
    padded[:, :n] = flags
    return np.packbits(padded, axis=1).view(np.uint64)


def merge_in_cells(rows: np.ndarray, neurons: np.ndarray, weights: np.ndarray) -> Faces:
    """Merge neurons of equal sign that share a closed cell, heaviest first, each into its best aligned group.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    neurons : ndarray of shape (m, r)
        Unit directions.
    weights : ndarray of shape (m,)
        Signed output weights.
    """
    order = np.argsort(-np.abs(weights), kind="stable")
    neurons, weights = neurons[order], weights[order]
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    heights = neurons @ units.T
    above, below = heights > ON_PLANE, heights < -ON_PLANE
    above_bits, below_bits = _pack(above), _pack(below)
    m = len(neurons)
    vectors = np.zeros_like(neurons)
    signs = np.zeros(m)
    group_above, group_below = np.zeros_like(above_bits), np.zeros_like(below_bits)
    members = np.full(m, -1)
    count = 0
    for j in range(m):
        sign = 1.0 if weights[j] >= 0 else -1.0
        clash = ((group_above[:count] & below_bits[j]) | (group_below[:count] & above_bits[j])).any(axis=1)
        free = np.flatnonzero(~clash & (signs[:count] == sign))
        if len(free):
            aligned = vectors[free] @ neurons[j] / np.linalg.norm(vectors[free], axis=1)
            k = free[np.argmax(aligned)]
        else:
            k = count
            signs[k] = sign
            count += 1
        vectors[k] += abs(weights[j]) * neurons[j]
        group_above[k] |= above_bits[j]
        group_below[k] |= below_bits[j]
        members[j] = k
    active = np.zeros((count, len(rows)), dtype=bool)
    touched = np.zeros((count, len(rows)), dtype=bool)
    np.logical_or.at(active, members, above)
    np.logical_or.at(touched, members, above | below)
    return Faces(vectors[:count], signs[:count], active, touched)


def face_matrix(rows: np.ndarray, faces: Faces, bases: list[np.ndarray], scales: np.ndarray) -> np.ndarray:
    """Columns ε diag(active) Z Q scale of every face side by side, shape (N, Σ dim)."""
    blocks = [
        (sign * scale) * (active[:, None] * (rows @ basis))
        for sign, scale, active, basis in zip(faces.signs, scales, faces.active, bases, strict=True)
    ]
    return np.concatenate(blocks, axis=1) if blocks else np.empty((len(rows), 0))


def polish(
    rows: np.ndarray, targets: np.ndarray, faces: Faces, offset: float, *, moves_offset: bool, rounds: int = 6
) -> tuple[Faces, float, float]:
    """Move every neuron within its face, as little as possible, until the network interpolates.

    Each round solves min Σ ‖δ_F‖²/‖p_F‖² + δB²/s² s.t. Σ G_F δ_F + δB·1 = residual.

    Returns
    -------
    (Faces, float, float)
        The moved neurons, the offset and the largest residual left, measured with the true activations.
    """
    vectors = faces.vectors.copy()
    moved = Faces(vectors, faces.signs, faces.active, faces.touched)
    residual = targets - moved.outputs(rows) - offset
    worst = float(np.abs(residual).max(initial=0.0))
    best = (Faces(vectors.copy(), faces.signs, faces.active, faces.touched), offset, worst)
    if len(faces) == 0:
        return best
    bases = faces.spans(rows)
    scales = faces.masses
    matrix = face_matrix(rows, faces, bases, scales)
    dims = np.array([basis.shape[1] for basis in bases])
    cuts = np.cumsum(dims)[:-1]
    offset_scale = float(max(abs(offset), scales.mean()))
    gram = matrix @ matrix.T
    if moves_offset:
        gram += offset_scale**2
    gram[np.diag_indices_from(gram)] += 1e-14 * float(np.trace(gram)) / len(gram)
    try:
        factor = cho_factor(gram, lower=True, check_finite=False)
    except LinAlgError:
        return best
    for _ in range(rounds):
        if worst <= 1e-15 * float(np.abs(targets).max(initial=0.0)):
            break
        dual = cho_solve(factor, residual, check_finite=False)
        for vector, basis, scale, part in zip(
            vectors, bases, scales, np.split(matrix.T @ dual, cuts), strict=True
        ):
            vector += scale * (basis @ part)
        if moves_offset:
            offset += offset_scale**2 * float(dual.sum())
        residual = targets - moved.outputs(rows) - offset
        worst = float(np.abs(residual).max())
        if worst < 0.9 * best[2]:
            best = (Faces(vectors.copy(), faces.signs, faces.active, faces.touched), offset, worst)
        else:
            break
    return best
