r"""Two rows with biases at any depth: what they cost, by a shortest path over cells of 2 × 2 covariances.

For two rows M_ℓ ≥ 0 entrywise, so M_ℓ⁻¹ has no positive entry off the diagonal, zᵀM_ℓ⁻¹z ≥ σ(z)ᵀM_ℓ⁻¹σ(z), and
the hidden layers from the second on may be taken linear; the first as well where x̃₁·x̃₂ ≥ 0:

.. math::
    R_L = \min_{\bar M_\ell \succeq 0,\ \bar M_\ell \ge 0} c(\bar M_1)
        + \sum_{\ell = 2}^{L - 1} \operatorname{Tr} \bar M_\ell M_{\ell - 1}^{-1}
        + \operatorname{Tr} YY^T \bar M_{L - 1}^{-1}, \qquad M_\ell = \bar M_\ell + \beta^2 11^T

(with M_{L−1} in the last term where the output bias is penalised), c(M̄) = Tr M̄G⁻¹ with G = X̃X̃ᵀ in that case, else
at least Tr BM̄ for any B with B_ii ≤ 1/G_ii and G⁻¹ − B copositive. The states M_1, M_2, … have three numbers, a step
costs a closed form, so R_L is a shortest path; :mod:`covopt.depth.gram_cells` bounds a step into a cell from below.
Each layer has a tree of cells, halved where the search found it worth while; what is left to pay at the vertices of a
layer's cells is the least over the cells of the next layer, from the last to the first. Any trees give a valid bound.

Which states matter, for a chain that costs at most U: Σ(D_ℓ/D_{ℓ−1})² ≤ U bounds D_ℓ from both ends, v ≤ 1/β², and
c may be kept between the least and the largest of c_0 (of the B it starts from), c_L, −½ and ½: clipping it there
brings neighbours no farther apart, and M̄₁₂ ≥ 0 holds where |c| ≥ ½.

**Targets on one ray.** For YYᵀ = yyᵀ let M̄₁₂ be as it likes in the last layers: that is less. What is left to pay
in them is then V(B) = inf κ + ζᵀBζ over some pairs (κ, ζ), with ζ not along 1: with none of them left it is yᵀBy, or
2√(yᵀBy) = inf_s 1/s + s yᵀBy; and as ζᵀ(M̄ + β²11ᵀ)⁻¹ζ = min_ρ ρ² + pᵀM̄⁺p, p = ζ − βρ1 in the range of M̄, and
Tr M̄B + pᵀM̄⁺p ≥ 2√(pᵀBp), one layer earlier

.. math:: V(B) = \inf_{\kappa, \zeta, \rho, s}\ \kappa + \rho^2 + 1/s + s\,p^T B p, \qquad \bar M = s\,pp^T.

So M̄ of rank one are enough, for which v = 1/β²: cells of two numbers. Where B is a state of a chain that costs at
most U, its first layers and the cheapest of these behind it are a chain that costs no more, so they are found in the
same ranges of α and c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from covopt.depth.exactly import exactly, products
from covopt.depth.gram_cells import LOST
from covopt.depth.gram_trees import Cells
from covopt.exact.rounding import above, below, down, up

_LARGE = 10**8  # sizes beyond it, or below its inverse, are left to other bounds


@dataclass(frozen=True)
class GramChain:
    """Trees of cells for two rows of a table.

    Attributes
    ----------
    rows : tuple of int
        Two.
    trees : tuple of str
        For each hidden layer but the last (with a penalised output bias the last, too), in preorder: the axis along
        which a cell is halved (0 for α, 1 for c, 2 for v), or a point for one that is not.
    flat : int
        How many layers at the end have cells of v = 1/β² alone.
    """

    rows: tuple[int, int]
    trees: tuple[str, ...]
    flat: int = 0


class TwoRows:
    """The shortest path for two rows: where it starts, which states matter, and what the end costs.

    Parameters
    ----------
    X : ndarray of shape (2, d)
    Y : ndarray of shape (2, k)
    depth : int
        L ≥ 3.
    bias : float
        β > 0.
    output_bias : {"none", "penalized"}
    cutoff : float
        U: chains that cost more are not looked at.

    Raises
    ------
    ValueError
        For what this bound is not about.
    """

    def __init__(
        self, X: np.ndarray, Y: np.ndarray, depth: int, bias: float, output_bias: str, cutoff: float
    ) -> None:
        if len(X) != 2 or depth < 3 or not bias > 0.0 or output_bias == "free":
            raise ValueError("chains of covariances bound two rows with biases, three layers and more")
        self.depth, self.cutoff = depth, cutoff
        self.penalized = output_bias == "penalized"
        a, b, c = products(*([*exactly(row), Fraction(bias)] for row in X))
        self._moments = products(*map(exactly, Y))
        run = a + b - 2 * c
        rise = self._moments[0] + self._moments[1] - 2 * self._moments[2]
        beta2 = Fraction(bias) ** 2
        self._rise = rise
        one = self._moments[0] * self._moments[1] == self._moments[2] ** 2
        self._opposite = one and self._moments[2] < 0
        numbers = [a, b, run, rise, beta2, a * b - c * c]
        if not all(1 < n * _LARGE < _LARGE**2 for n in [*numbers, Fraction(cutoff)]):
            raise ValueError("chains of covariances bound two rows of moderate size with different targets")
        self.beta2 = above(beta2)
        self.starts = _starts(a, b, c)
        self.gram = np.array([[float(a), float(c)], [float(c), float(b)]])
        p, q, r = map(float, self._moments)
        self.moments = np.array([[p, r], [r, q]])
        self.ray, self.acute = one and self._moments[2] >= 0, c >= 0
        ends = [Fraction(start[2]) / Fraction(start[1]) for start in self.starts]
        ends += [(self._moments[1] - self._moments[0]) / (2 * rise), Fraction(1, 2), Fraction(-1, 2)]
        least, most = min(ends), max(ends)
        U = Fraction(cutoff)
        self.roots = []
        for ell in range(1, depth - 1 + self.penalized):
            alpha = 1 / (run * (U / ell) ** ell), (U / (depth - ell)) ** (depth - ell) / rise
            if alpha[0] >= alpha[1]:  # nothing so cheap
                alpha = alpha[1] / 2, alpha[0]
            low = [down(below(alpha[0])), -up(-float(least)), 0.0]
            high = [up(above(alpha[1])), up(float(most)), up(above(1 / beta2))]
            self.roots.append((np.array(low), np.array(high)))
        self._upright = below(1 / beta2)

    def cells(self, flat: int = 0) -> list[Cells]:
        """Return the root of each layer, the last few with v = 1/β² alone.

        Raises
        ------
        ValueError
            Where those say nothing.
        """
        full = len(self.roots) - flat
        if flat and (not self.ray or full < (0 if self.acute else 1)):
            raise ValueError(
                "cells of rank one bound two rows whose targets are on one ray, behind acute ones"
            )
        bottom = [
            np.r_[low[:2], self._upright] if k >= full else low for k, (low, _) in enumerate(self.roots)
        ]
        return [
            Cells(low, high, self.beta2, k >= full)
            for k, (low, (_, high)) in enumerate(zip(bottom, self.roots, strict=True))
        ]

    def last(self, points: np.ndarray) -> np.ndarray:
        """Bound from below what is left to pay at B of the last layer of cells.

        With a penalised output bias Tr YYᵀB. Else min Tr M̄B + Tr YYᵀM̄⁻¹ over M̄ ≥ 0: 2√(Tr BS + 2√(det B det S)) where
        M̄ ∝ B⁻¹/√det B⁻¹ + S/√det S has no negative entry, and a diagonal M̄ where it has.
        """
        p, q, r = (float(moment) for moment in self._moments)
        u, v, w = points[..., 0], points[..., 1], points[..., 2]
        first, second, mixed = (
            np.maximum(u + w + 0.25 * v, 0.0),
            np.maximum(u - w + 0.25 * v, 0.0),
            0.25 * v - u,
        )
        size = LOST * ((np.abs(u) + np.abs(w) + v) * (p + q + abs(r)))
        trace = np.maximum(p * first + q * second + 2.0 * r * mixed - size, 0.0)
        if self.penalized:
            return trace
        det, moments = (
            np.maximum(u * v - w * w - LOST * (u * v + w * w), 0.0),
            max(down(float(self._moments[0] * self._moments[1] - self._moments[2] ** 2)), 0.0),
        )
        whole = 2.0 * np.sqrt(trace + 2.0 * np.sqrt(det * moments))
        apart = 2.0 * (
            np.sqrt(np.maximum(p * first - size, 0.0)) + np.sqrt(np.maximum(q * second - size, 0.0))
        )
        # where the two are the same to ten digits, the first: it is never the larger
        touching = r * np.sqrt(det) - mixed * math.sqrt(moments) + 2.0**-17 * np.sqrt(p * q * first * second)
        return np.where(touching >= 0.0, whole, apart) * (1.0 - LOST)

    def end(self, B: np.ndarray) -> tuple[float, np.ndarray]:
        """Return what is left to pay at the last B that cells speak of, to rounding, and its slope in B."""
        S = self.moments
        if self.penalized:
            return float((S * B).sum()), S
        det, moments = max(float(np.linalg.det(B)), 0.0), max(float(np.linalg.det(S)), 0.0)
        if S[0, 1] * math.sqrt(det) < B[0, 1] * math.sqrt(moments):
            roots = np.sqrt(np.diag(S) * np.diag(B))
            return 2.0 * float(roots.sum()), np.diag(roots / np.diag(B))
        root = math.sqrt(float((S * B).sum()) + 2.0 * math.sqrt(det * moments))
        turned = np.array([[B[1, 1], -B[0, 1]], [-B[1, 0], B[0, 0]]])
        return 2.0 * root, (S + math.sqrt(moments / det) * turned) / root

    def floor(self, points: np.ndarray, k: int) -> np.ndarray:
        """Bound from below what is left to pay at B of the k-th layer of cells, by closed forms.

        With n steps to go: n(α·‖y₁ − y₂‖²)^{1/n} as for Lipschitz maps, and with the bias as a constant channel,
        which costs one a layer, n(Tr YYᵀB)^{1/n} and, for one output and opposite signs, nΣ(y_i²/M_ii)^{1/n}.
        """
        n = self.depth - 1 - k
        p, q, r = (float(moment) for moment in self._moments)
        u, v, w = points[..., 0], points[..., 1], points[..., 2]
        with np.errstate(divide="ignore", invalid="ignore"):
            det = np.maximum(u * v - w * w - LOST * (u * v + w * w), 0.0)
            alpha = np.where(v > 0.0, det / v, 0.0)
            first, second = u + w + 0.25 * v, u - w + 0.25 * v
            near = LOST * (np.abs(u) + np.abs(w) + v)
            size = near * (p + q + abs(r))
            trace = np.maximum(p * first + q * second + 2.0 * r * (0.25 * v - u) - size, 0.0)
            through = trace ** (1.0 / n)
            if self._opposite:
                parts = [np.where(x > 0.0, m * det / (x + near), 0.0) for x, m in ((second, p), (first, q))]
                through = np.maximum(through, sum(part ** (1.0 / n) for part in parts))
        paid = n - 2 + self.penalized
        return np.maximum(n * (float(self._rise) * alpha) ** (1.0 / n), n * through - paid) - LOST * n * (
            2.0 + through
        )

    def least(self, layer: Cells) -> float:
        """Return the bound by the cells of the first layer."""
        return max(layer.cheapest(at, self.cutoff) for at in self.starts)


def gram_bound(
    chain: GramChain,
    X: np.ndarray,
    Y: np.ndarray,
    depth: int,
    bias: float,
    output_bias: str,
    *,
    cutoff: float,
) -> float:
    """Return a lower bound on R_L by two rows of a table with biases.

    Parameters
    ----------
    chain : GramChain
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N, k)
    depth : int
        L ≥ 3.
    bias : float
        β > 0.
    output_bias : {"none", "penalized"}
    cutoff : float
        The bound returned is at most this.

    Raises
    ------
    ValueError
        Where the chain is damaged, or for what it is not about.
    """
    rows = list(chain.rows)
    if len(rows) != 2 or rows[0] == rows[1] or any(not 0 <= i < len(X) for i in rows):
        raise ValueError("the rows are not two rows of the table")
    task = TwoRows(X[rows], Y[rows], depth, bias, output_bias, cutoff)
    layers = task.cells(chain.flat)
    if len(chain.trees) != len(layers):
        raise ValueError("trees of cells are missing")
    for k in range(len(layers) - 1, -1, -1):
        layers[k].read(chain.trees[k])
        pay(task, layers, k, np.arange(len(layers[k].cells)))
    return down(task.least(layers[0]))


def pay(
    task: TwoRows, layers: list[Cells], k: int, which: np.ndarray, asked: np.ndarray | None = None
) -> None:
    """Fill in what is left to pay at the vertices of cells of layer k.

    Parameters
    ----------
    task : TwoRows
    layers : list of Cells
    k : int
    which : ndarray of shape (m,)
        Cells of layer k, each after the one of which it is a part.
    asked : ndarray of shape (n, 8), optional
        Nothing larger is looked for.
    """
    cells = layers[k].cells
    if k == len(layers) - 1:
        cells["left"][which] = task.last(cells["points"][which])
        return
    if asked is None:
        asked = np.full((len(cells), 8), 2.0 * task.cutoff)
    cells["left"][which] = np.maximum(cells["left"][which], task.floor(cells["points"][which], k))
    layers[k].pay(which, layers[k + 1], asked)


def _starts(a: Fraction, b: Fraction, c: Fraction) -> list[np.ndarray]:
    """Return (u, v, w) of matrices B with c(M̄) ≥ Tr BM̄, a little smaller than exact ones."""
    det = a * b - c * c
    found = [(b / det, a / det, -c / det)]
    if c < 0:
        cosine = -float(c) / math.sqrt(float(a * b))
        mixed = Fraction((1.0 - 1e-9) * min(1.0, cosine / (1.0 - cosine)) / math.sqrt(float(a * b)))
        found = [(1 / a, 1 / b, mixed), (1 / a, 1 / b, Fraction(0))]
    out = []
    for first, second, mixed in found:
        v, u, w = first + second + 2 * mixed, (first + second - 2 * mixed) / 4, (first - second) / 2
        # a little smaller, by more than rounding: what is paid grows with B
        u, v, w = ((1 - Fraction(1, 2**36)) * value for value in (u, v, w))
        u -= u * Fraction(1, 2**48)
        out.append(np.array([float(u), float(v), float(w)]))
    return out
