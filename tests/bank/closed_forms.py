"""Problems whose optimal value is known in closed form, and all cells of an arrangement by brute force.

``cost`` is ‖W‖² = 2 Σ|c_j|‖w_j‖ (+ b² with a penalised output bias b = B/β). Each note is the derivation;
"dual" in it is a λ with h(λ) = 1 that attains half the cost (penalised: 2⟨λ,y⟩ − β²(1ᵀλ)² = cost).
Everything here is brute force and shares no code with the library.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from math import hypot, sqrt

import numpy as np

from tests.cases import cases


@dataclass(frozen=True)
class ProblemCase:
    name: str
    X: list[list[float]] | np.ndarray
    y: list[float] | np.ndarray
    bias: float
    cost: float | None  # None: not known in closed form, a reference solver gives it
    output_bias: str = "none"
    unique: bool | None = None  # of the network, on the data's span; None: not claimed
    note: str = ""

    @property
    def lifted(self) -> np.ndarray:
        inputs = np.asarray(self.X, dtype=float)
        return np.column_stack([inputs, np.full(len(inputs), self.bias)]) if self.bias > 0 else inputs

    @property
    def targets(self) -> np.ndarray:
        return np.asarray(self.y, dtype=float)


LINE = [[-1.0], [0.0], [1.0]]
GRID = [[a, b] for a in (-1.0, 0.0, 1.0) for b in (-1.0, 0.0, 1.0)]
COMPASS = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]

NAMES = {
    "ProblemCase": ProblemCase,
    "COMPASS": COMPASS,
    "GRID": GRID,
    "LINE": LINE,
    "hypot": hypot,
    "sqrt": sqrt,
}
CASES: list[ProblemCase] = cases("problems with closed forms", **NAMES)


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
