r"""The columns of the restricted master: neurons, their atoms, and the faces of the arrangement that they move in.

A neuron w lies in the relative interior of one face: the rows that vanish at w leave a linear span, and while w moves
in it without another row changing its sign, its atom is linear in w. The best neuron of the face at a dual point Λ is
the top singular vector of the face's moments Σ_{i active} z_i Λ_iᵀ in an orthonormal frame of the span. A column
follows it from one dual point to the next; once it would leave its closed face it stays fixed, an ordinary cut.

Frames are orthonormal in the metric of what a neuron costs, so that a neuron of cost one has a unit vector of
coordinates; the first vector of a frame is the neuron itself, the others are its tangents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from covopt.checks.memory import check_room, memory_left
from covopt.exact.rank import NEAR, first_of_each
from covopt.exact.rounding import ROUNDING
from covopt.limits import PIECE
from covopt.potentials import HINGE

ENTRY = 28.0  # bytes for each entry of the atoms: the entry, copies, spare room, derived arrays
SQUARE = 32.0  # bytes for each pair of unknowns of the dual: four matrices
SINGLE = 0.9  # second singular value of a face, as a share of the first, above which its neuron does not move

Frames = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], None]


def most_columns(n_rows: int, n_unknowns: int) -> int:
    """Return how many columns fit in memory beside the matrices of the dual's unknowns.

    Examples
    --------
    >>> most_columns(10, 10) > 1000
    True
    """
    return int(max(memory_left() - SQUARE * n_unknowns**2, 0.0) / (ENTRY * max(n_rows, 1)))


class Columns:
    """Neurons with their atoms and faces; every array has one entry for each column.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Z, of size about one; zero rows and equal rows are allowed.
    fit_frames : callable, optional
        Turns orthonormal frames into frames of another cost than the norm, in place; receives the neurons, their
        atoms, the frames and their dimensions.

    Attributes
    ----------
    neurons : ndarray of shape (M, r)
    atoms : ndarray of shape (M, N)
        σ(Z w), exactly zero on silent rows.
    frames : ndarray of shape (M, r, r)
        Bases of the faces' spans as rows, padded with zeros.
    dims : ndarray of shape (M,)
        Their dimensions; 1 is a vertex of the arrangement.
    live : ndarray of shape (M,)
        Whether the column still follows its face's best neuron.
    """

    def __init__(self, rows: np.ndarray, fit_frames: Frames | None = None):
        n, r = rows.shape
        self.rows = np.ascontiguousarray(rows, dtype=float)
        lengths = np.linalg.norm(self.rows, axis=1, keepdims=True)
        self._units = self.rows / np.where(lengths > 0, lengths, 1.0)
        self._fit_frames = fit_frames
        self.neurons, self.atoms = np.zeros((0, r)), np.zeros((0, n))
        self.frames, self.dims = np.zeros((0, r, r)), np.zeros(0, dtype=np.int64)
        self.live = np.zeros(0, dtype=bool)

    def __len__(self) -> int:
        return len(self.neurons)

    def append(self, neurons: np.ndarray, *, live: bool = True) -> int:
        """Add neurons that are new and active on some row, each once; return the number added.

        Parameters
        ----------
        neurons : ndarray of shape (m, r)
            Of cost one.
        live : bool
            Whether they may move.
        """
        neurons = neurons[first_of_each(neurons)]
        if len(neurons) and len(self):
            nearest, _ = cKDTree(self.neurons).query(neurons, distance_upper_bound=10 * HINGE)
            neurons = neurons[np.isinf(nearest)]
        m, n = len(neurons), len(self.rows)
        check_room(ENTRY * self.atoms.size + SQUARE * n**2, ENTRY * m * n, "the restricted master")
        neurons = np.array(neurons, dtype=float, order="C")
        atoms, frames, dims, sharp = _find_faces(self.rows, self._units, neurons)
        useful = atoms.max(axis=1, initial=0.0) > ROUNDING
        if not useful.all():
            neurons, atoms, frames = neurons[useful], atoms[useful], frames[useful]
            dims, sharp = dims[useful], sharp[useful]
        if self._fit_frames is not None:
            self._fit_frames(neurons, atoms, frames, dims)
        self.neurons = np.concatenate([self.neurons, neurons])
        self.atoms = np.concatenate([self.atoms, atoms])
        self.frames = np.concatenate([self.frames, frames])
        self.dims = np.concatenate([self.dims, dims])
        self.live = np.concatenate([self.live, live & sharp])
        return len(neurons)

    def keep(self, kept: np.ndarray) -> None:
        """Keep the columns of a mask."""
        self.neurons, self.frames = self.neurons[kept], self.frames[kept]
        self.atoms, self.dims, self.live = self.atoms[kept], self.dims[kept], self.live[kept]

    # ------------------------------------------------------------------ faces
    def slide(self, dual: np.ndarray) -> None:
        """Move every live column to the best neuron of its face at a dual point of shape (N, k)."""
        movable = np.flatnonzero(self.live & (self.dims > 1))
        if not len(movable):
            return
        seen = self._seen(dual, movable)
        if dual.shape[1] == 1:
            place = seen[:, :, 0]
        else:
            left, values, _ = np.linalg.svd(seen, full_matrices=False)
            place = left[:, :, 0]
            if values.shape[1] > 1:
                # a face whose form has its largest eigenvalue twice may need several neurons
                single = values[:, 1] <= SINGLE * values[:, 0]
                self.live[movable[~single]] = False
                movable, seen, place = movable[single], seen[single], place[single]
        sizes = np.linalg.norm(place, axis=1)
        flat = ~((sizes > 0.0) & (sizes < np.inf))  # no direction, or squares that overflow or underflow
        place[flat], sizes[flat] = np.eye(1, place.shape[1]), 1.0
        place = place * (np.where(place[:, 0] < 0, -1.0, 1.0) / sizes)[:, None]
        there = np.einsum("mb,mbr->mr", place, self.frames[movable])
        stays = np.zeros(len(movable), dtype=bool)
        _settle(self.rows, there, self.atoms, movable, stays)
        self.live[movable[~stays]] = False
        moved, place = movable[stays], place[stays]
        self.neurons[moved] = there[stays]
        # the reflection that takes the first coordinate to the new place
        mirror = -place
        beside = np.einsum("mb,mb->m", place[:, 1:], place[:, 1:])
        mirror[:, 0] = beside / (1.0 + place[:, 0])  # 1 − place₀ without cancellation
        square = np.einsum("mb,mb->m", mirror, mirror)
        turn = square > 1e-300  # a smaller one turns nothing, and its inverse overflows
        moved, mirror, square = moved[turn], mirror[turn], square[turn]
        frames = self.frames[moved]
        along = np.einsum("mb,mbr->mr", mirror, frames) * (2.0 / square)[:, None]
        self.frames[moved] = frames - mirror[:, :, None] * along[:, None, :]

    def tangents(self, dual: np.ndarray, heights: np.ndarray, chosen: np.ndarray) -> Tangents:
        """Return the directions in which columns move within their faces, scaled to the constraint's curvature.

        Parameters
        ----------
        dual : ndarray of shape (N, k)
        heights : ndarray of shape (M, k)
            Λᵀa_j.
        chosen : ndarray of int
            Live columns.

        Returns
        -------
        Tangents
        """
        k = dual.shape[1]
        counts = self.dims[chosen] - 1
        owner = np.repeat(chosen, counts)
        which = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
        size = np.linalg.norm(heights[chosen], axis=1)
        outputs = heights[chosen] / size[:, None]
        if k == 1:
            directions = self.frames[owner, which] / np.sqrt(np.repeat(size, counts))[:, None]
            outputs = np.repeat(outputs, counts, axis=0)
            return Tangents(
                directions, owner, outputs, np.zeros((len(owner), 1)), 1.0 / np.repeat(size, counts)
            )
        # the tangents turn outputs as well (else fits end with gaps of 1e-4): the curvature is c·I − G G'/c
        seen = self._seen(dual, chosen)
        beside = seen - np.einsum("mbk,mk->mb", seen, outputs)[:, :, None] * outputs[:, None, :]
        beside[:, 0] = 0.0
        r = self.frames.shape[1]
        form = np.eye(r) * size[:, None, None] - beside @ beside.transpose(0, 2, 1) / size[:, None, None]
        values, vectors = np.linalg.eigh(form)
        inverse_root = 1.0 / np.sqrt(np.maximum(values, (1.0 - SINGLE) * size[:, None]))
        root = np.einsum("mab,mb,mcb->mac", vectors, inverse_root, vectors)
        place = np.searchsorted(chosen, owner)
        mixed = root[place, which]
        mixed[:, 0] = 0.0
        inside = np.arange(r)[None, :] < self.dims[owner][:, None]
        mixed = np.where(inside, mixed, 0.0)
        directions = np.einsum("tb,tbr->tr", mixed, self.frames[owner])
        extra = np.einsum("tb,tbk->tk", mixed, beside[place]) / size[place, None]
        return Tangents(directions, owner, outputs[place], extra, (mixed**2).sum(axis=1))

    def tangent_rows(self, tangents: Tangents, scales: np.ndarray) -> np.ndarray:
        """Return scale·(1[a > 0]∘(Z t) ⊗ v + a ⊗ x) for every tangent, shape (T, N·k)."""
        atoms = self.atoms[tangents.owner]
        heights = (tangents.directions * scales[:, None]) @ self.rows.T * (atoms > 0.0)
        rows = heights[:, :, None] * tangents.outputs[:, None, :]
        if tangents.turns.any():
            rows += (scales[:, None] * atoms)[:, :, None] * tangents.turns[:, None, :]
        return rows.reshape(len(rows), rows.shape[1] * rows.shape[2])

    def _seen(self, dual: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return the moments of the faces in the coordinates of their frames, shape (m, r, k)."""
        each = (self.rows[:, :, None] * dual[:, None, :]).reshape(len(dual), -1)
        moments = (self.atoms[chosen] > 0.0).astype(float) @ each
        return self.frames[chosen] @ moments.reshape(len(chosen), self.rows.shape[1], dual.shape[1])

    def displaced(self, vectors: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return whether vectors p (m, r) have left the closed faces of the chosen columns."""
        stays = np.zeros(len(chosen), dtype=bool)
        _settle(self.rows, vectors, self.atoms[chosen], np.arange(len(chosen)), stays)
        return ~stays


@dataclass(frozen=True)
class Tangents:
    """Directions in which columns move within their faces.

    Attributes
    ----------
    directions : ndarray of shape (T, r)
    owner : ndarray of shape (T,)
        The column that each belongs to.
    outputs, turns : ndarray of shape (T, k)
        Direction of the owner's weight, and how it turns while the neuron moves.
    squares : ndarray of shape (T,)
        Squared lengths in the metric of the frames.
    """

    directions: np.ndarray
    owner: np.ndarray
    outputs: np.ndarray
    turns: np.ndarray
    squares: np.ndarray

    def __len__(self) -> int:
        return len(self.owner)


def _find_faces(
    rows: np.ndarray, units: np.ndarray, neurons: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return atoms with zeros on silent rows, frames of the faces that begin with the neuron, dimensions, sharpness.

    A row between ``ROUNDING`` and ``HINGE`` is neither silent nor active: its column is not sharp and stays fixed.
    """
    m, r = neurons.shape
    lengths = np.linalg.norm(neurons, axis=1, keepdims=True)
    heights = neurons @ units.T
    near, silent = np.abs(heights) <= HINGE * lengths, np.abs(heights) <= ROUNDING * lengths
    atoms = np.where((heights > 0.0) & ~silent, neurons @ rows.T, 0.0)
    frames, dims = np.zeros((m, r, r)), np.empty(m, dtype=np.int64)
    together = max(1, PIECE // len(rows))  # in pieces: one on many planes enlarges the array for all
    for first in range(0, m, together):
        some = slice(first, first + together)
        column, row = np.nonzero(near[some])
        place = 1 + np.arange(len(row)) - np.searchsorted(column, column)
        normals = np.zeros((len(lengths[some]), max(r, 1 + place.max(initial=0)), r))
        normals[:, 0] = neurons[some] / lengths[some]
        normals[column, place] = units[row]
        _, sizes, turned = np.linalg.svd(normals, full_matrices=False)
        rank = (sizes > NEAR).sum(axis=1)
        frames[some, 0] = normals[:, 0]
        frames[some, 1:] = np.where(
            np.arange(1, r)[:, None] <= r - rank[:, None, None], turned[:, :0:-1], 0.0
        )
        dims[some] = 1 + r - rank
    return atoms, frames, dims, ~(near & ~silent).any(axis=1)


def _settle(rows, there, atoms, chosen, stays):
    """Update the atoms of the places that lie in their closed faces, and mark these in ``stays``."""
    heights, active = there @ rows.T, atoms[chosen] > 0.0
    outside = ROUNDING * np.maximum(1.0, np.linalg.norm(there, axis=1))  # neurons of cost one may be longer
    stays[:] = ~np.where(active, heights <= 0.0, heights > outside[:, None]).any(axis=1)
    atoms[chosen[stays]] = np.where(active, heights, 0.0)[stays]
