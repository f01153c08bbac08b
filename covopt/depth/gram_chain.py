r"""Lower bound on R_L of two rows with biases, for any depth: a shortest path over cells of 2 × 2 covariances.

For two rows M_ℓ ≥ 0 entrywise, so M_ℓ⁻¹ has no positive entry off the diagonal, zᵀM_ℓ⁻¹z ≥ σ(z)ᵀM_ℓ⁻¹σ(z), and
the hidden layers from the second on may be taken linear; the first as well where x̃₁·x̃₂ ≥ 0:

.. math::
    R_L = \min_{\bar M_\ell \succeq 0,\ \bar M_\ell \ge 0} c(\bar M_1)
        + \sum_{\ell = 2}^{L - 1} \operatorname{Tr} \bar M_\ell M_{\ell - 1}^{-1}
        + \operatorname{Tr} YY^T \bar M_{L - 1}^{-1}, \qquad M_\ell = \bar M_\ell + \beta^2 11^T

(with M_{L−1} in the last term if the output bias is penalised). With G = X̃X̃ᵀ, c(M̄) = Tr M̄G⁻¹ if x̃₁·x̃₂ ≥ 0; else
c(M̄) ≥ Tr BM̄ for any B with B_ii ≤ 1/G_ii and G⁻¹ − B copositive. Each state M_1, M_2, … has three coordinates and a
step has a closed-form cost, so R_L is a shortest path; :mod:`covopt.depth.gram_cells` bounds a step into a cell from
below. Each layer has a tree of cells, refined where the search needs it; the cost-to-go at the vertices of its cells
is the minimum over the cells of the next layer, computed backwards from the last. Any trees give a valid bound.

The states can be restricted for chains of cost at most U: Σ(D_ℓ/D_{ℓ−1})² ≤ U bounds D_ℓ from both ends, v ≤ 1/β²,
and c lies between the minimum and the maximum of c_0 (of the initial B), c_L, −½ and ½: clipping c to that interval
does not increase the distance of neighbours, and M̄₁₂ ≥ 0 holds where |c| ≥ ½.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from covopt.data import Data
from covopt.depth.gram_cells import MOST_CELLS, MOST_HALVED, Cells, mark
from covopt.depth.two_rows import LARGE, exactly, products
from covopt.depth.upper import Found, UpperSearch
from covopt.exact.rounding import SLIP, above, below, down, up
from covopt.limits import HALF, TimeUp, checkpoint


@dataclass(frozen=True)
class GramChain:
    """The trees of cells that prove a bound by two rows of a table.

    Attributes
    ----------
    rows : tuple of int
        Indices of the two rows.
    trees : tuple of str
        For each hidden layer but the last (for a penalised output bias also the last), level by level: the axis
        along which a cell is halved (0 for α, 1 for c, 2 for v), or a point for a leaf.
    """

    rows: tuple[int, int]
    trees: tuple[str, ...]


class TwoRows:
    """The shortest-path problem of two rows: initial states, range of the states, and terminal cost.

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
        U, an upper bound on the cost of the chains that are considered.

    Raises
    ------
    ValueError
        If the bound does not apply to the problem.
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
        numbers = [a, b, run, rise, beta2, a * b - c * c]
        if not all(1 < n * LARGE < LARGE**2 for n in [*numbers, Fraction(cutoff)]):
            raise ValueError("chains of covariances bound two rows of moderate size with different targets")
        self.beta2 = above(beta2)
        self.starts = _starts(a, b, c)
        ends = [Fraction(start[2]) / Fraction(start[1]) for start in self.starts]
        ends += [(self._moments[1] - self._moments[0]) / (2 * rise), Fraction(1, 2), Fraction(-1, 2)]
        least, most = min(ends), max(ends)
        U = Fraction(cutoff)
        self.roots = []
        for ell in range(1, depth - 1 + self.penalized):
            alpha = 1 / (run * (U / ell) ** ell), (U / (depth - ell)) ** (depth - ell) / rise
            if alpha[0] >= alpha[1]:  # no chain costs at most U
                alpha = alpha[1] / 2, alpha[0]
            low = [down(below(alpha[0])), -up(-float(least)), 0.0]
            high = [up(above(alpha[1])), up(float(most)), up(above(1 / beta2))]
            self.roots.append((np.array(low), np.array(high)))

    def cells(self) -> list[Cells]:
        """Return the trees of all layers, each with its root only."""
        return [Cells(low, high, self.beta2) for low, high in self.roots]

    def last(self, points: np.ndarray) -> np.ndarray:
        """Return lower bounds on the terminal cost at points B of the last layer of cells.

        It is Tr SB, S = YYᵀ, for a penalised output bias. Else it is min Tr M̄B + Tr SM̄⁻¹ over M̄ ≥ 0, which is
        2√(Tr BS + 2√(det B det S)) if M̄ ∝ B⁻¹/√det B⁻¹ + S/√det S has no negative entry; otherwise M̄ is diagonal.
        """
        p, q, r = (float(moment) for moment in self._moments)
        u, v, w = points[..., 0], points[..., 1], points[..., 2]
        first, second, mixed = (
            np.maximum(u + w + 0.25 * v, 0.0),
            np.maximum(u - w + 0.25 * v, 0.0),
            0.25 * v - u,
        )
        size = SLIP * ((np.abs(u) + np.abs(w) + v) * (p + q + abs(r)))
        trace = np.maximum(p * first + q * second + 2.0 * r * mixed - size, 0.0)
        if self.penalized:
            return trace
        det, moments = (
            np.maximum(u * v - w * w - SLIP * (u * v + w * w), 0.0),
            max(down(float(self._moments[0] * self._moments[1] - self._moments[2] ** 2)), 0.0),
        )
        whole = 2.0 * np.sqrt(trace + 2.0 * np.sqrt(det * moments))
        apart = 2.0 * (
            np.sqrt(np.maximum(p * first - size, 0.0)) + np.sqrt(np.maximum(q * second - size, 0.0))
        )
        # use the first value if both agree to ten digits: it is never the larger
        touching = r * np.sqrt(det) - mixed * math.sqrt(moments) + 2.0**-17 * np.sqrt(p * q * first * second)
        return np.where(touching >= 0.0, whole, apart) * (1.0 - SLIP)

    def least(self, layer: Cells) -> float:
        """Return the lower bound, from the cells of the first layer."""
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
        If the chain is damaged, or the bound does not apply to the problem.
    """
    rows = list(chain.rows)
    if len(rows) != 2 or rows[0] == rows[1] or any(not 0 <= i < len(X) for i in rows):
        raise ValueError("the rows are not two rows of the table")
    task = TwoRows(X[rows], Y[rows], depth, bias, output_bias, cutoff)
    layers = task.cells()
    if len(chain.trees) != len(layers):
        raise ValueError("trees of cells are missing")
    for k in range(len(layers) - 1, -1, -1):
        layers[k].read(chain.trees[k])
        pay(task, layers, k, np.arange(len(layers[k].cells)))
    return down(task.least(layers[0]))


def pay(
    task: TwoRows, layers: list[Cells], k: int, which: np.ndarray, asked: np.ndarray | None = None
) -> None:
    """Update the cost-to-go at the vertices of cells of layer k.

    Parameters
    ----------
    task : TwoRows
    layers : list of Cells
    k : int
    which : ndarray of shape (m,)
        Indices of cells of layer k, parents first.
    asked : ndarray of shape (n, 8), optional
        Values up to which the bounds are raised.
    """
    cells = layers[k].cells
    if k == len(layers) - 1:
        cells["left"][which] = task.last(cells["points"][which])
        return
    if asked is None:
        asked = np.full((len(cells), 8), 2.0 * task.cutoff)
    layers[k].pay(which, layers[k + 1], asked)


def _starts(a: Fraction, b: Fraction, c: Fraction) -> list[np.ndarray]:
    """Return (u, v, w) of matrices B with c(M̄) ≥ Tr BM̄, slightly reduced to allow for rounding."""
    det = a * b - c * c
    found = [(b / det, a / det, -c / det)]
    if c < 0:
        cosine = -float(c) / math.sqrt(float(a * b))
        mixed = Fraction((1.0 - 1e-9) * min(1.0, cosine / (1.0 - cosine)) / math.sqrt(float(a * b)))
        found = [(1 / a, 1 / b, mixed), (1 / a, 1 / b, Fraction(0))]
    out = []
    for first, second, mixed in found:
        v, u, w = first + second + 2 * mixed, (first + second - 2 * mixed) / 4, (first - second) / 2
        # reduced by more than the rounding error, which is valid as the cost increases with B
        u, v, w = ((1 - Fraction(1, 2**36)) * value for value in (u, v, w))
        u -= u * Fraction(1, 2**48)
        out.append(np.array([float(u), float(v), float(w)]))
    return out


ROUNDS = MOST_HALVED  # a round halves each cell at most once


def gram_search(
    rows: tuple[int, int],
    X: np.ndarray,
    Y: np.ndarray,
    depth: int,
    bias: float,
    output_bias: str,
    *,
    upper: float,
    goal: float,
    most: int = MOST_CELLS,
    known: float = 0.0,
) -> tuple[float, GramChain] | None:
    """Return a lower bound on R_L by two rows, and its trees; None if the bound does not apply or cannot help.

    Parameters
    ----------
    rows : tuple of int
        Indices of the two rows.
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N, k)
    depth : int
    bias : float
    output_bias : {"none", "penalized", "free"}
    upper : float
        The squared norm of an interpolating network; caps the bound.
    goal : float
        Relative gap to the cheapest known network through the two rows, at which the search ends.
    most : int
        Maximal number of cells of a layer.
    known : float
        A known lower bound: rows that a cheaper network interpolates are skipped, as they cannot improve it.
    """
    pair = list(rows)
    try:
        task = TwoRows(X[pair], Y[pair], depth, bias, output_bias, upper)
    except ValueError:
        return None
    best: tuple[float, GramChain] | None = None
    try:
        least = (
            upper if len(X) == 2 else min(upper, cheapest_network(X[pair], Y[pair], depth, bias, output_bias))
        )
        if least <= known:
            return None
        for value, trees in _raised(task, task.cells(), least * (1.0 - goal), most):
            best = value, GramChain(rows, trees)
    except TimeUp:
        pass
    return best


def _raised(
    task: TwoRows, layers: list[Cells], aim: float, most: int
) -> Iterator[tuple[float, tuple[str, ...]]]:
    """Halve cells until the bound reaches ``aim`` or there are too many; yield each improved bound with its trees."""
    fresh = [np.arange(1) for _ in layers]
    asked: list[np.ndarray | None] = [None for _ in layers]
    share, told = HALF, 0.0  # cells that lose more than this share of gap / layers are halved
    for _ in range(ROUNDS):
        for k in range(len(layers) - 1, -1, -1):
            checkpoint()
            pay(task, layers, k, fresh[k], asked[k])
        value = task.least(layers[0])
        last = value >= aim or max(len(layer.cells) for layer in layers) > most
        if value > told:
            told = value
            yield value, tuple(layer.written() for layer in layers)
        if last:
            break
        fresh, limits, share = _refine(task, layers, aim, share, aim - value)
        asked = [*limits]
        if not any(map(len, fresh)):
            break


def cheapest_network(X: np.ndarray, Y: np.ndarray, depth: int, bias: float, output_bias: str) -> float:
    """Return the squared norm of the best network through two rows that a single short search finds.

    The cost is invariant under rotations of the rows, so the search is in the plane that they span.
    """
    plane = np.linalg.qr(X.T)[1].T
    norms = [np.inf]

    def keep(found: Found, source: str) -> None:
        if found[1].depth == depth:
            norms.append(found[0])

    UpperSearch(Data.validate(plane, Y, bias=bias), depth, output_bias, None, 0, keep).begin()
    return min(norms)


def _refine(
    task: TwoRows, layers: list[Cells], aim: float, share: float, gap: float
) -> tuple[list[np.ndarray], list[np.ndarray], float]:
    """Halve the cells that keep the bound below ``aim``; return the cells to update, the limits and the new share."""
    at = np.array(task.starts)
    asked = np.full(len(at), aim)
    out, limits, halved = [], [], 0
    for layer in layers:
        cells = layer.cells
        missing, own = np.zeros(len(cells)), np.zeros(len(cells))
        mark(at, asked, cells, layer.beta2, missing, own)
        critical = np.flatnonzero(missing > 0.0)
        leaves = critical[cells["child"][critical] == 0]
        rough = leaves[own[leaves] >= share * np.maximum(missing[leaves], gap) / len(layers)]
        leaves = leaves[layer.open(leaves)]
        at = cells["points"][leaves].reshape(-1, 3)
        asked = (cells["left"][leaves] + missing[leaves, None]).ravel()
        limit = cells["left"] + missing[:, None]
        halved += len(rough)
        new = layer.halve(rough, _axes(cells["low"][rough], cells["high"][rough]))
        out.append(np.r_[critical, new])
        limits.append(np.vstack([limit, np.full((len(new), 8), 2.0 * task.cutoff)]))
    return out, limits, share if halved else 0.5 * share


def _axes(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the axis along which each cell is widest, measured by the error of a step."""
    a, b = low[:, 0], high[:, 0]
    u, v = low[:, 2], high[:, 2]
    widths = np.stack([
        np.log(b / a), 2.0 * (high[:, 1] - low[:, 1]) * np.sqrt(0.5 * (u + v) / np.sqrt(a * b)),
        np.log(v / np.where(u < 0.1 * v, u + 0.1 * v, u)),
    ])  # fmt: skip
    return np.argmax(widths, axis=0)
