r"""What one or two rows alone cost: closed forms that bound the representation cost of the whole table from below.

A network through all points is one through each pair of them, so R_L(X, Y) is at least that of any pair. With
G = the Gram matrix of two rows, r_i = ‖y_i‖/‖x_i‖:

- lipschitz, any bias: :math:`R_L \ge L\,(\|y_i - y_j\|/\|x_i - x_j\|)^{2/L}`: the network is Lipschitz with the
  product of the norms of its layers, and Σ‖W_ℓ‖² ≥ L Π‖W_ℓ‖^{2/L}.
- row, β = 0: :math:`R_L \ge L\,r_i^{2/L}`, exactly for one point.

Two rows without biases are solved, for any angle and any outputs:

- quadrant, x_i·x_j ≥ 0, y_i·y_j ≥ 0: :math:`R_L = L\,\|G^{-1/2}Y\|_{2/L}^{2/L}`. With M_ℓ the covariances of the
  hidden activations, M_ℓ ≥ 0 entrywise, so M_ℓ⁻¹ has no positive entry off the diagonal and zᵀM⁻¹z ≥ σ(z)ᵀM⁻¹σ(z):
  the hidden layers may be taken linear. For y_i·y_j < 0 it is still a lower bound.
- acute, x_i·x_j > 0, y_i·y_j < 0: more, see :mod:`covopt.depth.acute`; where that says nothing the quadrant is exact.
- obtuse, x_i·x_j < 0, y_i·y_j ≥ 0: a convex problem, see :mod:`covopt.depth.level`.
- apart, x_i·x_j ≤ 0, y_i·y_j ≤ 0: :math:`R_L = L\,(r_i^{2/L} + r_j^{2/L})`. A neuron of the first
  layer costs at least Σa_i²/‖x_i‖², and Σ_i M_{1,ii}/‖x_i‖² + Σ_ℓ Tr M_{ℓ+1}M_ℓ⁻¹ + Tr YYᵀM_{L−1}⁻¹ is convex along
  the geodesics of positive definite matrices. At its best diagonal point the slope in an entry off the diagonal is
  zero, or −2y_i·y_j/(m_i m_j) ≥ 0 in the last, and M_ℓ ≥ 0 entrywise: logarithms of such have none below zero.

**A constant channel**: a neuron that carries β through the hidden layers costs one a layer, so with biases
:math:`R_L^\beta(X, Y) \ge R_L^0((X, \beta), Y) - (L - 2)`, or − (L − 1) with a penalised output bias.

Every value here is rounded down: the pair is found in doubles, its bound computed again in fractions, the roots
compared with their powers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from covopt.depth.acute import acute_value
from covopt.depth.exactly import Three, dot, exactly, products
from covopt.depth.level import dearest_level, level_again, obtuse_value, two_roots_cost
from covopt.exact.rounding import below, down, root_down

MOST_COMPARED = 1000  # rows, each with each
TRIED = {"obtuse": 6, "acute": 12}  # pairs: each is a search; of other kinds the dearest alone

TITLES = {
    "lipschitz": "the Lipschitz bound of rows {rows}",
    "row": "row {rows} alone",
    "quadrant": "rows {rows} alone, exactly",
    "obtuse": "rows {rows} at an obtuse angle, exactly",
    "apart": "rows {rows} and targets at an obtuse angle, exactly",
    "level": "rows {rows} with one target and biases",
    "acute": "rows {rows} at an acute angle, with targets of opposite signs, exactly",
}


@dataclass(frozen=True)
class PairBound:
    """A lower bound on R_L by one or two rows.

    Attributes
    ----------
    value : float
        Valid in exact arithmetic for the table as given.
    kind : str
        "lipschitz", "row", "quadrant", "obtuse", "apart", "acute" or "level".
    rows : tuple of int
        On which it rests.
    channel : bool
        Whether it goes over the network without biases on (x, β), with the constant channel paid.
    """

    value: float
    kind: str
    rows: tuple[int, ...]
    channel: bool = False

    def __post_init__(self) -> None:
        if self.kind not in TITLES:
            raise ValueError(f"a bound of kind {self.kind[:40]!r} is not known")

    @property
    def title(self) -> str:
        """What it is, in words."""
        text = TITLES[self.kind].format(rows=" and ".join(map(str, self.rows)))
        return f"{text}, the bias as a constant channel" if self.channel else text


def pair_bounds(X: np.ndarray, Y: np.ndarray, depth: int, bias: float, output_bias: str) -> list[PairBound]:
    """Return the best bound of every kind that applies.

    Parameters
    ----------
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N, k)
    depth : int
        L ≥ 2.
    bias : float
        β ≥ 0.
    output_bias : {"none", "penalized", "free"}

    Returns
    -------
    list of PairBound
        Best first.

    Examples
    --------
    >>> best = pair_bounds(np.array([[1.0], [-1.0]]), np.array([[1.0], [-1.0]]), 3, 0.0, "none")[0]
    >>> best.kind, best.value <= 6.0, 6.0 - best.value < 1e-12
    ('apart', True, True)
    """
    best: dict[str, PairBound] = {}
    for kind, rows in _candidates(X, Y, bias, depth, output_bias):
        bound = PairBound(0.0, kind, rows, bias > 0.0 and kind not in ("lipschitz", "level"))
        value = recompute(bound, X, Y, depth, bias, output_bias)
        if value > 0.0 and (kind not in best or value > best[kind].value):
            best[kind] = replace(bound, value=value)
    return sorted(best.values(), key=lambda b: -b.value)


def _candidates(
    X: np.ndarray, Y: np.ndarray, bias: float, depth: int, output_bias: str
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield kinds and rows on which a bound may be large, chosen in doubles."""
    if len(X) > 1:
        yield "lipschitz", _steepest(_unit(X), _unit(Y))
    if bias > 0.0 and output_bias == "free":
        return
    near, low = _unit(np.column_stack([X, np.full(len(X), bias)]) if bias > 0.0 else X), _unit(Y)
    size = np.linalg.norm(near, axis=1)
    seen = np.flatnonzero(size > 0.0)
    if not len(seen) or not Y[seen].any():
        return
    with np.errstate(over="ignore"):
        units, rates = near[seen] / size[seen, None], low[seen] / size[seen, None]
        ratio = np.linalg.norm(rates, axis=1)
        heaviest = np.argsort(-ratio, kind="stable")[:MOST_COMPARED]
        yield "row", (int(seen[heaviest[0]]),)
        level = dearest_level(X, Y, bias)
        if level:
            yield "level", level
        rows = np.sort(heaviest[ratio[heaviest] > 0.0])
        for kind, i, j in _dearest(units[rows], rates[rows], depth):
            yield kind, (int(seen[rows[i]]), int(seen[rows[j]]))


def _dearest(units: np.ndarray, rates: np.ndarray, depth: int) -> Iterator[tuple[str, int, int]]:
    """Yield for each kind the pairs of unit rows that look dearest."""
    i, j = np.triu_indices(len(units), 1)
    cosine, moment = (units @ units.T)[i, j], (rates @ rates.T)[i, j]
    own = (rates**2).sum(axis=1)
    p, q, square, tiny = own[i], own[j], np.maximum(1.0 - cosine**2, 1e-12), 1e-12 * np.sqrt(own[i] * own[j])

    def cost(trace: np.ndarray, product: np.ndarray) -> np.ndarray:
        large = 0.5 * (trace + np.sqrt(np.maximum(trace**2 - 4.0 * product, 0.0)))
        return np.asarray(large ** (1.0 / depth) + (product / np.maximum(large, 1e-300)) ** (1.0 / depth))

    spread = np.maximum(p * q - moment**2, 0.0)
    alone = p ** (1.0 / depth) + q ** (1.0 / depth)
    through = cost(np.maximum(p + q - 2.0 * cosine * moment, 0.0) / square, spread / square)
    kinds = {
        "quadrant": ((cosine >= 0.0) & (square > 1e-12), through),
        # without an entry off the diagonal, which is valid: the better the pair, the dearer
        "obtuse": ((cosine <= 1e-12) & (moment >= -tiny), cost(p + q, spread)),
        "apart": ((cosine <= 1e-12) & (moment <= tiny), alone),
        # the closer the rows, the dearer: at L = 2 both rates grow by 1/sin
        "acute": ((cosine > 0.0) & (moment < 0.0), alone / square ** (1.0 / depth)),
    }
    for kind, (good, guess) in kinds.items():
        which = np.flatnonzero(good & np.isfinite(guess))
        for k in which[np.argsort(-guess[which], kind="stable")[: TRIED.get(kind, 1)]].tolist():
            yield kind, int(i[k]), int(j[k])


def _steepest(X: np.ndarray, Y: np.ndarray) -> tuple[int, int]:
    """Return the pair with the largest ‖y_i − y_j‖/‖x_i − x_j‖, to rounding; of many rows only of neighbours."""
    if len(X) > MOST_COMPARED and X.shape[1]:
        orders = np.argsort(X, axis=0, kind="stable")
        first, second = orders[:-1].ravel(), orders[1:].ravel()
        j = int(np.argmax(_slopes(X[second] - X[first], Y[second] - Y[first])))
        return int(first[j]), int(second[j])
    best, pair = -1.0, (0, 1)
    for i in range(len(X) - 1):
        slope = _slopes(X[i + 1 :] - X[i], Y[i + 1 :] - Y[i])
        j = int(np.argmax(slope))
        if slope[j] > best:
            best, pair = float(slope[j]), (i, i + 1 + j)
    return pair


def _slopes(runs: np.ndarray, rises: np.ndarray) -> np.ndarray:
    run, rise = np.linalg.norm(runs, axis=1), np.linalg.norm(rises, axis=1)
    return np.divide(rise, run, out=np.zeros_like(run), where=run > 0)


def _unit(table: np.ndarray) -> np.ndarray:
    """Return a table times a power of two, its largest entry in [1/2, 1), so that squares do not overflow."""
    return np.ldexp(table, -int(np.frexp(np.abs(table).max(initial=0.0))[1]))


# ------------------------------------------------------------------ two rows, by x·x, x·z, … and y·y, y·w, …
def _quadrant(gram: Three, moments: Three, depth: int) -> float:
    r"""L(s₁^{2/L} + s₂^{2/L}) of G^{-1/2}Y from below: s₁² + s₂² and s₁²s₂² are rational."""
    (a, b, c), (p, q, r) = gram, moments
    det = a * b - c * c
    if det <= 0 or c < 0:
        return 0.0
    return two_roots_cost((b * p + a * q - 2 * c * r) / det, (p * q - r * r) / det, depth)


def _apart(gram: Three, moments: Three, depth: int) -> float:
    """L(r₁^{2/L} + r₂^{2/L}) from below."""
    if gram[2] > 0 or moments[2] > 0 or min(gram[:2]) <= 0:
        return 0.0
    roots = (root_down(moment / square, depth) for moment, square in zip(moments[:2], gram[:2], strict=True))
    return below(depth * sum(map(Fraction, roots), Fraction(0)))


CASES: dict[str, Callable[[Three, Three, int], float]] = {
    "quadrant": _quadrant, "acute": acute_value, "obtuse": obtuse_value, "apart": _apart,
}  # fmt: skip


def recompute(
    bound: PairBound, X: np.ndarray, Y: np.ndarray, depth: int, bias: float, output_bias: str
) -> float:
    """Return the value of a bound again from its rows; zero where its conditions do not hold.

    Parameters
    ----------
    bound : PairBound
    X, Y : ndarray
    depth : int
    bias : float
    output_bias : {"none", "penalized", "free"}
    """
    rows = list(bound.rows)
    if any(not 0 <= i < len(X) for i in rows) or len(rows) > 2:
        return 0.0
    if bound.kind == "lipschitz":
        if len(rows) != 2:
            return 0.0
        run, rise = (_apart_squared(*map(exactly, part[rows])) for part in (X, Y))
        return _power(rise / run, depth) if run > 0 else 0.0
    if bound.kind == "level":
        return level_again(bound.rows, X, Y, depth, bias, output_bias)
    if (bias > 0.0) != bound.channel or (bias > 0.0 and output_bias == "free"):
        return 0.0
    table = np.column_stack([X, np.full(len(X), bias)]) if bound.channel else X
    paid = depth - 2 + (output_bias == "penalized") if bound.channel else 0
    value = 0.0
    if bound.kind == "row" and len(rows) == 1 and table[rows[0]].any():
        own, target = exactly(table[rows[0]]), exactly(Y[rows[0]])
        value = _power(dot(target, target) / dot(own, own), depth)
    elif bound.kind in CASES and len(rows) == 2:
        gram, moments = (products(*map(exactly, part[rows])) for part in (table, Y))
        value = CASES[bound.kind](gram, moments, depth)
    return max(0.0, down(value - paid)) if paid else value


def _apart_squared(first: list[Fraction], second: list[Fraction]) -> Fraction:
    apart = [a - b for a, b in zip(first, second, strict=True)]
    return dot(apart, apart)


def _power(square: Fraction, depth: int) -> float:
    """Return L·square^{1/L} from below."""
    return below(depth * Fraction(root_down(square, depth)))
