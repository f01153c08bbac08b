"""The faces of one dimension for :mod:`covopt.oracles.label_noise`: metrics, once, and maxima, per dual."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from covopt.exact.rank import COMPUTED, numerical_rank
from covopt.oracles.vector.face_lattice import FaceLevel, unpack
from covopt.potentials import HINGE

if TYPE_CHECKING:
    from covopt.oracles.label_noise import LabelNoiseOracle

ROUNDING = 32 * float(np.finfo(float).eps)
SMALL = 1e-6  # least eigenvalue of Q below which the rows themselves decide
BLOCK = 1 << 13


class Answer:
    """What a visit found: points to report, the best valid value, a bound."""

    def __init__(self, neurons, values, best, best_neuron, bound):
        self.neurons, self.values, self.best = neurons, values, best
        self.best_neuron, self.bound = best_neuron, bound


class MetricFaces:
    """The faces of one dimension whose active rows are independent on them."""

    def __init__(self, oracle: LabelNoiseOracle, level: FaceLevel):
        self.oracle, self.level = oracle, level
        d = level.bases.shape[2]
        n = len(oracle.lines)
        kept, roots, least, factors, errors = [], [], [], [], []
        for start in range(0, len(level.flat), BLOCK):
            part = np.arange(start, min(start + BLOCK, len(level.flat)))
            basis = level.bases[level.flat[part]]
            positive, member = self._signs(part)
            mass = self._masses(positive, member)
            gram = np.einsum(
                "fri,frs,fsj->fij", basis, oracle._metric[level.cell[part]], basis, optimize=True
            )
            values, vectors = np.linalg.eigh(gram)
            full = (mass > 0).sum(axis=1) >= d
            clear = values[:, 0] >= SMALL
            for f in np.flatnonzero(full & ~clear):
                seen = mass[f] > 0
                active = np.sqrt(mass[f, seen])[:, None] * (oracle.lines[seen] @ basis[f])
                _, size, right = np.linalg.svd(active, full_matrices=False)
                full[f] = numerical_rank(size, COMPUTED) == d
                if full[f]:
                    values[f], vectors[f] = np.square(size[::-1]), right[::-1].T
            values, vectors, part, clear = values[full], vectors[full], part[full], clear[full]
            roots.append(vectors / np.sqrt(values)[:, None, :])
            least.append(values[:, 0])
            errors.append(ROUNDING / np.where(clear, values[:, 0], np.sqrt(values[:, 0])))
            size = (positive & ~member)[full] @ oracle._size[0] + (~positive & ~member)[full] @ oracle._size[
                1
            ]
            factors.append(np.sqrt(size) if oracle.potential.exact else np.ones(len(part)))
            kept.append(part)
        self.n = n
        self.index = np.concatenate(kept)
        # T with Q⁻¹ = T Tᵀ, and the relative error of the image of what it yields
        self.root, self.image_error = np.concatenate(roots), np.concatenate(errors)
        self.least, self.factor = np.concatenate(least), np.concatenate(factors)
        self.bases = np.ascontiguousarray(level.bases[level.flat[self.index]])
        self.cell = level.cell[self.index]

    def _signs(self, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lattice, n = self.oracle._lattice, len(self.oracle.lines)
        return (
            unpack(lattice.cells[self.level.cell[faces]], n),
            unpack(self.level.members[self.level.flat[faces]], n),
        )

    def _masses(self, positive: np.ndarray, member: np.ndarray) -> np.ndarray:
        """Σ q_i of what is active on each line, in units of the line."""
        mass = np.where(positive, self.oracle._mass[0], self.oracle._mass[1])
        mass[member] = 0.0
        return mass

    def solve(self, gradient: np.ndarray) -> None:
        """Compute u = Q⁻¹g and v_F of all faces, v_F with room for its rounding."""
        self.g = np.einsum("fri,fr->fi", self.bases, gradient[self.cell])
        half = np.einsum("fik,fi->fk", self.root, self.g)
        self.u = np.einsum("fik,fk->fi", self.root, half)
        self.value = np.linalg.norm(half, axis=1)
        self.allowed = ROUNDING * self.oracle._lipschitz / np.sqrt(self.least)
        top = self.value * (1.0 + self.image_error) + self.allowed
        self.top = self._as_moved(top, slice(None))

    def _as_moved(self, value: np.ndarray, faces: np.ndarray | slice) -> np.ndarray:
        """Bound maxima for the rows that the computed ones stand for: ‖u‖ ≤ 1/√κ where ω_b(u) = 1."""
        longest = 1.0 / np.sqrt(self.least[faces])
        left = np.maximum(1.0 - self.oracle._share * longest, 1e-3)
        return (value + self.oracle._moved * longest) / left / self.factor[faces]

    def visit(self, chosen: np.ndarray) -> Answer:
        """Test the signs of some faces, bound those that pass or cannot be told, report the passing peaks."""
        oracle, level = self.oracle, self.level
        basis, cell, factor = self.bases[chosen], self.cell[chosen], self.factor[chosen]
        w = np.einsum("fri,fi->fr", basis, self.u[chosen])
        length = np.linalg.norm(w, axis=1)
        moving = length > 0
        unit = w / np.where(moving, length, 1.0)[:, None]
        positive, member = self._signs(self.index[chosen])
        side = unit @ oracle._units.T * np.where(positive, 1.0, -1.0)
        side[member] = np.nan
        low, high = np.nanmin(side, axis=1, initial=1.0), np.nanmax(side, axis=1, initial=-1.0)
        inside = np.maximum(low, -high)  # of u, or of −u
        sign = np.where(low >= -high, 1.0, -1.0)
        flat = level.flat[self.index[chosen]]
        error = ROUNDING * (1.0 + 1.0 / level.conditioning[flat] + 1.0 / self.least[chosen])
        error += oracle._tilt + oracle._share / self.least[chosen]
        error += self.allowed[chosen] / np.sqrt(self.least[chosen]) / np.where(moving, length, 1.0)
        # active heights come from the image of u, far more accurate than u where Q is nearly singular
        heights = side * oracle._norms * np.sqrt(self._masses(positive, member))
        blur = oracle._moved / np.sqrt(self.least[chosen]) / np.where(moving, length, 1.0)
        blur += oracle._tilt + (
            self.image_error[chosen] * self.value[chosen] + self.allowed[chosen]
        ) / np.where(moving, length, 1.0)
        held = (low >= -error) & (np.nanmin(heights, axis=1, initial=np.inf) >= -blur)
        mirrored = (high <= error) & (np.nanmax(heights, axis=1, initial=-np.inf) <= blur)
        counts = held | mirrored | ~moving
        if not counts.any():
            return Answer(w[:0], np.zeros(0), 0.0, None, 0.0)
        c = chosen[counts]
        bound = self._bound(c, w[counts], cell[counts], basis[counts])
        good = (inside > HINGE) & moving
        unit, cell, sign = unit[good], cell[good], sign[good]
        metric = np.nansum(np.square(heights[good]), axis=1)
        slope = np.einsum("fr,fr->f", unit, oracle._gradient[cell])
        values = np.abs(slope) / np.sqrt(metric) / factor[good]
        w = sign[:, None] * unit / np.sqrt(metric)[:, None]
        best = float(values.max(initial=0.0))
        best_neuron = w[values.argmax()] if len(w) else None
        peaks = self._are_peaks(self.index[chosen[good]], cell, w, np.sign(sign * slope))
        return Answer(w[peaks], values[peaks], best, best_neuron, bound)

    def _bound(self, faces: np.ndarray, w: np.ndarray, cell: np.ndarray, basis: np.ndarray) -> float:
        """Bound the largest v_F by the decomposition at the head of this module."""
        oracle = self.oracle
        metric = np.einsum("fri,frs,fs->fi", basis, oracle._metric[cell], w, optimize=True)
        g, u = self.g[faces], self.u[faces]
        slope, square = np.einsum("fi,fi->f", g, u), np.einsum("fi,fi->f", metric, u)
        length = np.linalg.norm(u, axis=1)
        regular = square > 0.5 * self.least[faces] * length**2
        square = np.where(regular & (square > 0), square, 1.0)
        value = slope / np.sqrt(square)
        rest = np.linalg.norm(g - (slope / square)[:, None] * metric, axis=1)
        rest += ROUNDING * (oracle._lipschitz + np.abs(slope / square) * length)
        loss = ROUNDING * (oracle._lipschitz * length / np.sqrt(square) + np.abs(value) * length**2 / square)
        careful = np.sqrt(value**2 + rest**2 / self.least[faces]) + loss
        top = self.top[faces]
        return float(np.where(regular, np.minimum(self._as_moved(careful, faces), top), top).max())

    def _are_peaks(self, faces: np.ndarray, cell: np.ndarray, w: np.ndarray, sign: np.ndarray) -> np.ndarray:
        """Whether sign·F/ω does not ascend out of the face; not asked where rows are in special position.

        With ω_b(w) = 1 and v = sign·F(w), the gradient of sign·F/ω_b without the face's own lines is Σ c_j z_j; along
        d the slope is Σ c_j (z_j·d) plus sign·λ_j|z_j·d| of what turns active. With the exact potential a side whose
        rows turn active costs a jump of ω, so nothing ascends there.
        """
        oracle, level = self.oracle, self.level
        normals = level.normals[level.flat[faces]]
        m = normals.shape[1]
        if m == 0 or len(faces) == 0:
            return np.ones(len(faces), dtype=bool)
        members = np.bitwise_count(level.members[level.flat[faces]]).sum(axis=1)
        lines = oracle.lines[normals]
        ahead, behind = oracle._pull[0][normals], oracle._pull[1][normals]
        on = np.take_along_axis(unpack(oracle._lattice.cells[cell], self.n), normals, axis=1)
        gradient = oracle._gradient[cell] - np.einsum("fm,fmr->fr", np.where(on, ahead, behind), lines)
        value = sign * np.einsum("fr,fr->f", gradient, w)
        gradient = sign[:, None] * gradient - value[:, None] * np.einsum(
            "frs,fs->fr", oracle._metric[cell], w
        )
        q, triangle = np.linalg.qr(lines.transpose(0, 2, 1))
        shares = np.linalg.solve(triangle, np.einsum("frm,fr->fm", q, gradient)[:, :, None])[:, :, 0]
        scale = np.linalg.norm(lines, axis=2) * level.conditioning[level.flat[faces]][:, None]
        slack = 1e-9 * (np.abs(ahead) + np.abs(behind)) + 16 * ROUNDING * oracle._lipschitz / scale
        up, down = shares + sign[:, None] * ahead > slack, shares + sign[:, None] * behind < -slack
        if oracle.potential.exact:
            up &= oracle._size[0][normals] == 0
            down &= oracle._size[1][normals] == 0
        return (members > m) | ~(up | down).any(axis=1)
