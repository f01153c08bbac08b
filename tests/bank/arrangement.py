"""The dual function h by brute force: every stationary point on every face of the arrangement.

On the face of a pattern s inside the flat w = Bv the activations are diag(s) X̃Bv, so the maximum of
‖Λᵀσ(X̃w)‖/ω(w) over the face is at a stationary point of a ratio of two quadratics, or on a smaller face. All those
points are few for a handful of rows. Nothing here is shared with the library.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np

SPAN = 1e-9


def all_cells(rows: np.ndarray) -> np.ndarray:
    """Every open cell of the arrangement, (S, N) bool, by the vertices: slow, and right for degenerate rows.

    Each cell has an extreme ray; around a ray the cells are those of the rows that vanish on it.
    """
    rows = np.asarray(rows, dtype=float)
    left, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    rank = int((sizes > 1e-9 * max(sizes.max(initial=0.0), 1.0)).sum())
    rows = left[:, :rank] * sizes[:rank]
    if rank == 0:
        return np.zeros((1, len(rows)), dtype=bool)
    if rank == 1:
        return np.array([rows[:, 0] > 1e-9, rows[:, 0] < -1e-9])
    rows = np.linalg.solve(np.diag(sizes[:rank]), rows.T).T  # whitened: one tolerance fits all
    norms = np.linalg.norm(rows, axis=1)
    rows[norms > 1e-9] /= norms[norms > 1e-9, None]
    found = set()
    for subset in combinations(np.flatnonzero(norms > 1e-9), rank - 1):
        _, spread, axes = np.linalg.svd(rows[list(subset)])
        if spread[-1] < 1e-9:
            continue
        values = rows @ axes[-1]
        on_it = np.flatnonzero(np.abs(values) <= 1e-9)
        lined = on_it[norms[on_it] > 1e-9]
        local = np.array(list(product((False, True), repeat=rank - 1)))
        if len(lined) > rank - 1:
            local = all_cells(rows[lined])
        for sign, bits in product((1, -1), local):
            pattern = sign * values > 1e-9
            pattern[lined] = bits
            found.add(pattern.tobytes())
    return np.array([np.frombuffer(bits, dtype=bool) for bits in sorted(found)])


class Arrangement:
    """Faces of the hyperplanes {w : x̃_i·w = 0} and the points on them where h may be attained."""

    def __init__(self, rows: np.ndarray):
        self.lifted = np.asarray(rows, dtype=float)
        _, sizes, right = np.linalg.svd(self.lifted, full_matrices=False)
        self.basis = right[sizes > SPAN * max(sizes.max(initial=0.0), 1e-300)].T
        self.rows = self.lifted @ self.basis
        self.lengths = np.linalg.norm(self.lifted, axis=1)
        cells = all_cells(self.rows)
        self.flats: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # rows on the hinge, B, patterns
        seen = set()
        rank = self.basis.shape[1]
        for size in range(rank):
            for subset in combinations(np.flatnonzero(self.lengths > 0), size):
                flat = np.eye(rank)
                if subset:
                    _, spread, axes = np.linalg.svd(self.rows[list(subset)])
                    flat = axes[int((spread > SPAN * spread[0]).sum()) :].T
                on = np.linalg.norm(self.rows @ flat, axis=1) <= SPAN * max(self.lengths.max(), 1e-300)
                if flat.shape[1] and on.tobytes() not in seen:
                    seen.add(on.tobytes())
                    self.flats.append((on, flat, np.unique(cells & ~on, axis=0)))

    def vertices(self) -> np.ndarray:
        """Unit neurons on the rays of the arrangement, (m, D)."""
        rays = [flat[:, 0] for _, flat, _ in self.flats if flat.shape[1] == 1]
        rays = np.array(rays).reshape(-1, self.basis.shape[1])
        return np.concatenate([rays, -rays]) @ self.basis.T

    def price(self, dual: np.ndarray, potential: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return stationary neurons (m, D), their activations (m, N) and ω (m,), where the dual is above zero."""
        dual = dual.reshape(len(self.rows), -1)
        found: list[tuple[np.ndarray, ...]] = []
        for on, flat, patterns in self.flats:
            rows = self.rows @ flat
            slopes = np.einsum("pn,nq,nk->pqk", patterns, rows, dual)
            if potential == "variation":
                points = np.linalg.eigh(slopes @ slopes.transpose(0, 2, 1))[1].transpose(0, 2, 1)
                points = points.reshape(-1, flat.shape[1])
            else:
                weights = np.einsum("pn,nq,nr->pqr", patterns, rows, rows) / len(rows)
                inverse = np.linalg.pinv(weights, 1e-10, hermitian=True)
                points = np.einsum("pqr,pr->pq", inverse, slopes[..., 0])
            points = np.concatenate([points, -points])
            points = points[np.linalg.norm(points, axis=1) > 0]
            points /= np.linalg.norm(points, axis=1, keepdims=True)
            atoms = np.where(on, 0.0, np.maximum(points @ rows.T, 0.0))
            neurons = points @ flat.T @ self.basis.T
            found.append((neurons, atoms, self.weigh(neurons, atoms, potential)))
        neurons, atoms, weights = (np.concatenate(part) for part in zip(*found, strict=True))
        live = (weights > 1e-9 * max(weights.max(initial=0.0), 1e-300)) & atoms.any(axis=1)
        return neurons[live], atoms[live], weights[live]

    def weigh(self, neurons: np.ndarray, atoms: np.ndarray, potential: str) -> np.ndarray:
        """ω(w), rows with activation zero being on the hinge or behind it."""
        if potential == "variation":
            return np.linalg.norm(neurons, axis=1)
        weights = np.sqrt((atoms**2).mean(axis=1))
        if potential == "label-noise-exact":
            active = atoms > 1e-9 * np.maximum(atoms.max(axis=1, initial=0.0), 1e-300)[:, None]
            weights = weights * np.sqrt(active @ self.lengths**2 / len(self.rows))
        return weights

    def dual_norm(self, dual: np.ndarray, potential: str = "variation") -> float:
        """Return h(Λ) = max over w of ‖Λᵀσ(X̃w)‖/ω(w)."""
        _, atoms, weights = self.price(dual, potential)
        values = np.linalg.norm(atoms @ dual.reshape(len(self.rows), -1), axis=1) / weights
        return float(values.max(initial=0.0))
