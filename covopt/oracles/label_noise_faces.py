r"""The faces of one dimension for :mod:`covopt.oracles.label_noise`: metrics, computed once, and maxima, per dual.

**What is proved.** True rows are x_i = y_i − e_i, ‖e_i‖ ≤ ε_i, with doubles y_i = ratio · line. On a face let K be
any r × d doubles that span its flat up to τ = ρ + γ(4r²) (:mod:`covopt.oracles.lattice_proof`; K is
rounded): every w of the true flat is Kx + δ with ‖δ‖ ≤ τ‖w‖, ‖w‖ ≤ ‖K‖‖x‖/(1 − τ), and w ↦ x is one to one. Its
heights are x_i·w = y_i·Kx + d_i·x with ‖d_i‖ ≤ ‖K‖(τ‖y_i‖ + ε_i)/(1 − τ). With q the weights and

.. math::
    L_1 = \sum|\lambda_i|\|y_i\|,\quad S_1 = \sum|\lambda_i|\varepsilon_i,\quad
    L_2^2 = \sum q_i\|y_i\|^2,\quad S_2^2 = \sum q_i\varepsilon_i^2,\qquad
    P_j = \frac{\tau L_j + S_j}{1 - \tau},

the true metric in x is 1 + E and the true gradient h'. For the computed sums h and E₀, with their rounding γ,

.. math::
    \|E\| \le \eta = \|E_0\| + \gamma L_2^2\|K\|^2 + 2\sqrt{1+\eta_0}\,\|K\| P_2 + (\|K\| P_2)^2, \qquad
    \|h' - h\| \le \Delta = \|K\| (\gamma L_1 + P_1).

So v_F = ‖(1 + E)^(-1/2)h'‖/φ ≤ (‖h‖ + Δ)/(√(1 − η) φ), and the maximum at x' = (1 + E)⁻¹h' differs from h by at most
κ = (Δ + η‖h‖)/(1 − η). A face is rejected where a sign of Kh is wrong by more than that can change: for any row of
length one by ‖K‖κ + (τ + ν + γ)‖K‖(‖h‖ + κ), for active rows in the metric by 2κ + (‖K‖P₂ + γL₂‖K‖)(‖h‖ + κ).
For the others v_F² = (h'·x)²/(x·(1 + E)x) + r·(1 + E)⁻¹r, r = h' − c(1 + E)x, with c the quotient and x along h. The
first term comes from the heights of w = Kx, with errors P₁‖w‖ and P₂‖w‖. The second has \|r\| ≤ \|1 − c\|‖h‖ + Δ +
cη‖h‖ and is of second order. Where η reaches one half, the bound of a face is infinite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covopt.exact.definite import ROOM
from covopt.exact.rank import COMPUTED, NEAR, numerical_rank
from covopt.exact.rounding import SLIP, gamma
from covopt.oracles.face_lattice import FaceLattice, FaceLevel, block, unpack
from covopt.oracles.lattice_proof import sines_of_flats
from covopt.oracles.sphere import WIDEST
from covopt.potentials import HINGE


@dataclass
class SharedRows:
    """Data shared by all faces of a table.

    Attributes
    ----------
    lattice : FaceLattice
    lines, units : ndarray of shape (n, r)
        One row of every line, and the same row scaled to length one.
    norms, unsure : ndarray of shape (n,)
        Lengths of the lines, and bounds on the error of each unit row.
    mass, size : (ndarray of shape (n,), ndarray of shape (n,))
        Σ q_i ratio² and Σ q_i|x̃_i|² of the rows on the positive side of each line, and on the negative one.
    span, share : float
        √(Σ q_i‖y_i‖²) and √(Σ q_i ε_i²).
    metric : ndarray of shape (cells, r, r)
        Zᵀdiag(q)Z over the active rows of each cell.
    exact : bool
        Whether ω is the exact potential.
    """

    lattice: FaceLattice
    lines: np.ndarray
    units: np.ndarray
    norms: np.ndarray
    unsure: np.ndarray
    mass: tuple[np.ndarray, np.ndarray]
    size: tuple[np.ndarray, np.ndarray]
    span: float
    share: float
    metric: np.ndarray
    exact: bool


@dataclass
class DualSums:
    """Sums of a dual over lines and cells.

    Attributes
    ----------
    pull : (ndarray of shape (n,), ndarray of shape (n,))
        Σ λ_i ratio over the rows on the positive side of each line, and on the negative one.
    gradient : ndarray of shape (cells, r)
        Zᵀλ over the active rows of each cell.
    lipschitz, moved : float
        Σ |λ_i|‖y_i‖ and Σ |λ_i|ε_i.
    """

    pull: tuple[np.ndarray, np.ndarray]
    gradient: np.ndarray
    lipschitz: float
    moved: float


class Answer:
    """Result of a visit: points to report, the best valid value, a bound."""

    def __init__(self, neurons, values, best, best_neuron, bound):
        self.neurons, self.values, self.best = neurons, values, best
        self.best_neuron, self.bound = best_neuron, bound


class MetricFaces:
    """The faces of one dimension on which the active rows have full rank.

    Attributes
    ----------
    dropped : list of ndarray of int
        For each face left out because its rank was found to be below r: the lines that vanish or are active on it.
    """

    def __init__(self, rows: SharedRows, level: FaceLevel):
        self.rows, self.level = rows, level
        r, d = level.bases.shape[1:]
        n = len(rows.lines)
        self.n, self.rank = n, r
        sines, orthonormal = sines_of_flats(rows.units, level, rows.unsure)
        miss = np.where(orthonormal & (sines < WIDEST), sines + gamma(4 * r * r), np.inf)
        self.dropped: list[np.ndarray] = []
        kept, spans, stretches, errors, factors = [], [], [], [], []
        for start in range(0, len(level.flat), step := block(rows.lines)):
            part = np.arange(start, min(start + step, len(level.flat)))
            basis = level.bases[level.flat[part]]
            positive, member = self._signs(part)
            mass = self._masses(positive, member)
            metric = rows.metric[level.cell[part]]
            gram = np.einsum("fri,frs,fsj->fij", basis, metric, basis, optimize=True)
            values, vectors = np.linalg.eigh(gram)
            full = (mass > 0).sum(axis=1) >= d
            # either method is valid: the errors of both are bounded
            by_rows = np.flatnonzero(full & (values[:, 0] < NEAR))
            for f in by_rows:
                seen = mass[f] > 0
                active = np.sqrt(mass[f, seen])[:, None] * (rows.lines[seen] @ basis[f])
                _, size, right = np.linalg.svd(active, full_matrices=False)
                full[f] = numerical_rank(size, COMPUTED) == d
                if full[f]:
                    values[f], vectors[f] = np.square(size[::-1]), right[::-1].T
                else:
                    self.dropped.append(np.flatnonzero(seen | member[f]))
            with np.errstate(divide="ignore", invalid="ignore"):
                span = basis @ (vectors / np.sqrt(values)[:, None, :])
            span[~full] = 0.0
            stretch = np.sqrt(np.einsum("fri,fri->f", span, span)) * ROOM
            turned = np.einsum("fri,frs,fsj->fij", span, metric, span, optimize=True)
            size = np.linalg.norm(turned - np.eye(d), axis=(1, 2))
            size += gamma(4 * (n + 2 * r + 16)) * (rows.span * stretch) ** 2
            for f in by_rows[full[by_rows]]:
                heights = np.sqrt(mass[f])[:, None] * (rows.lines @ span[f])
                size[f] = np.linalg.norm(heights.T @ heights - np.eye(d))
                size[f] += gamma(8 * (n + r + 8)) * d * (1.0 + rows.span * stretch[f])
            own = miss[level.flat[part]]
            with np.errstate(divide="ignore", invalid="ignore"):
                moved = np.where(own < 0.5, stretch * (own * rows.span + rows.share) / (1.0 - own), np.inf)
                size = (size + 2.0 * np.sqrt(1.0 + size) * moved + moved**2) * ROOM
            errors.append(np.where(size < 0.5, size, np.inf)[full])
            silent = ~member[full]
            size = (positive[full] & silent) @ rows.size[0] + (~positive[full] & silent) @ rows.size[1]
            factors.append(np.sqrt(size) if rows.exact else np.ones(int(full.sum())))
            kept.append(part[full])
            spans.append(span[full])
            stretches.append(stretch[full])
        self.index, self.span = np.concatenate(kept), np.concatenate(spans)
        self.stretch, self.error = np.concatenate(stretches), np.concatenate(errors)
        self.factor = np.concatenate(factors) * (1.0 - gamma(2 * (n + r + 8)))
        self.miss = miss[level.flat[self.index]]
        self.cell = level.cell[self.index]

    def _signs(self, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lattice, n = self.rows.lattice, self.n
        return (
            unpack(lattice.cells[self.level.cell[faces]], n),
            unpack(self.level.members[self.level.flat[faces]], n),
        )

    def _masses(self, positive: np.ndarray, member: np.ndarray) -> np.ndarray:
        """Return Σ q_i ratio² of the rows that are active on each line."""
        mass = np.where(positive, self.rows.mass[0], self.rows.mass[1])
        mass[member] = 0.0
        return mass

    def solve(self, sums: DualSums) -> None:
        """Compute h and upper bounds on v_F for all faces."""
        self.sums = sums
        self.h = np.einsum("fri,fr->fi", self.span, sums.gradient[self.cell])
        self.value = np.linalg.norm(self.h, axis=1)
        share = gamma(4 * (self.n + self.rank + 16))
        with np.errstate(invalid="ignore"):
            # P₁ with the rounding of the sums, for a neuron of length one; then Δ
            self.pull = ((share + self.miss) * sums.lipschitz + sums.moved) / (1.0 - self.miss) * ROOM
            self.change = self.stretch * self.pull
            top = (self.value + self.change) / np.sqrt(1.0 - self.error) * (1.0 + SLIP) / self.factor
        self.top = np.where(np.isinf(self.error), np.inf, top)

    def visit(self, chosen: np.ndarray) -> Answer:
        """Test the signs of some faces, bound those that pass or are in doubt, report the peaks that pass."""
        rows = self.rows
        cell, factor, stretch = self.cell[chosen], self.factor[chosen], self.stretch[chosen]
        w = np.einsum("fri,fi->fr", self.span[chosen], self.h[chosen])
        length = np.linalg.norm(w, axis=1)
        moving = length > 0
        unit = w / np.where(moving, length, 1.0)[:, None]
        positive, member = self._signs(self.index[chosen])
        side = unit @ rows.units.T * np.where(positive, 1.0, -1.0)
        side[member] = np.nan
        low, high = np.nanmin(side, axis=1, initial=1.0), np.nanmax(side, axis=1, initial=-1.0)
        inside = np.maximum(low, -high)  # of w, or of −w
        sign = np.where(low >= -high, 1.0, -1.0)
        heights = side * rows.norms * np.sqrt(self._masses(positive, member))
        share, miss = gamma(4 * (self.rank + 8)), self.miss[chosen]
        with np.errstate(divide="ignore", invalid="ignore"):
            off = (self.change + self.error * self.value)[chosen] / (1.0 - self.error[chosen])
            reach = stretch * (self.value[chosen] + off) / (1.0 - miss)
            wide = np.where(moving, ROOM / length, np.inf)
            error = (stretch * off + (miss + rows.unsure.max() + share) * reach) * wide
            blur = (2.0 * off + ((miss + share) * rows.span + rows.share) * reach) * wide
        held = ~(low < -error) & ~(np.nanmin(heights, axis=1, initial=np.inf) < -blur)
        mirrored = ~(high > error) & ~(np.nanmax(heights, axis=1, initial=-np.inf) > blur)
        counts = held | mirrored
        if not counts.any():
            return Answer(w[:0], np.zeros(0), 0.0, None, 0.0)
        slope = np.einsum("fr,fr->f", unit, self.sums.gradient[cell])
        metric = np.nansum(np.square(heights), axis=1)
        bound = self._bound(chosen[counts], slope[counts], np.sqrt(metric[counts]), length[counts])
        good = counts & (inside > HINGE) & moving & (metric > 0)
        unit, cell, sign, slope, metric = unit[good], cell[good], sign[good], slope[good], metric[good]
        values = np.abs(slope) / np.sqrt(metric) / factor[good]
        w = sign[:, None] * unit / np.sqrt(metric)[:, None]
        best = float(values.max(initial=0.0))
        best_neuron = w[values.argmax()] if len(w) else None
        peaks = self._are_peaks(self.index[chosen[good]], cell, w, np.sign(sign * slope))
        return Answer(w[peaks], values[peaks], best, best_neuron, bound)

    def _bound(self, faces: np.ndarray, slope: np.ndarray, norm: np.ndarray, length: np.ndarray) -> float:
        """Bound the largest v_F by the decomposition in the module docstring."""
        rows, miss, value = self.rows, self.miss[faces], self.value[faces]
        error, share = self.error[faces], gamma(4 * (self.n + self.rank + 16))
        with np.errstate(divide="ignore", invalid="ignore"):
            off = ((share + miss) * rows.span + rows.share) / (1.0 - miss) * ROOM
            pulled, least, most = np.abs(slope) + self.pull[faces], norm - off, norm + off
            first = pulled / least
            # c, for x = h/length, is between these
            ends = (np.abs(slope) - self.pull[faces]) / most**2 / length, pulled / least**2 / length
            apart = np.maximum(np.abs(1.0 - ends[0]), np.abs(1.0 - ends[1]))
            rest = (apart + np.abs(ends[1]) * error) * value + self.change[faces]
            careful = np.sqrt(first**2 + rest**2 / (1.0 - error)) * (1.0 + SLIP) / self.factor[faces]
        known = (least > 0.0) & (length > 0.0) & np.isfinite(careful)
        top = self.top[faces]
        return float(np.where(known, np.minimum(careful, top), top).max())

    def _are_peaks(self, faces: np.ndarray, cell: np.ndarray, w: np.ndarray, sign: np.ndarray) -> np.ndarray:
        """Return whether sign·F/ω does not ascend out of each face; True without a test where rows are dependent.

        With ω_b(w) = 1 and v = sign·F(w), the gradient of sign·F/ω_b without the face's own lines is Σ c_j z_j; along
        d the slope is Σ c_j (z_j·d) plus sign·λ_j|z_j·d| for rows that become active. With the exact potential ω
        jumps up on a side whose rows become active, so the quotient does not ascend there.
        """
        rows, level = self.rows, self.level
        normals = level.normals[level.flat[faces]]
        m = normals.shape[1]
        if m == 0 or len(faces) == 0:
            return np.ones(len(faces), dtype=bool)
        members = np.bitwise_count(level.members[level.flat[faces]]).sum(axis=1)
        lines = rows.lines[normals]
        ahead, behind = self.sums.pull[0][normals], self.sums.pull[1][normals]
        on = np.take_along_axis(unpack(rows.lattice.cells[cell], self.n), normals, axis=1)
        gradient = self.sums.gradient[cell] - np.einsum("fm,fmr->fr", np.where(on, ahead, behind), lines)
        value = sign * np.einsum("fr,fr->f", gradient, w)
        gradient = sign[:, None] * gradient - value[:, None] * np.einsum("frs,fs->fr", rows.metric[cell], w)
        lengths = np.linalg.norm(lines, axis=2)
        shares = np.einsum("fmr,fr->fm", level.inverses[level.flat[faces]], gradient) / lengths
        scale = lengths * level.conditioning[level.flat[faces]][:, None]
        slack = 1e-9 * (np.abs(ahead) + np.abs(behind)) + COMPUTED * self.sums.lipschitz / scale
        up, down = shares + sign[:, None] * ahead > slack, shares + sign[:, None] * behind < -slack
        if rows.exact:
            up &= rows.size[0][normals] == 0
            down &= rows.size[1][normals] == 0
        return (members > m) | ~(up | down).any(axis=1)
