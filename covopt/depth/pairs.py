r"""Closed-form lower bounds on the representation cost, from one or two rows of the table.

A network that interpolates the table interpolates each pair of rows, so R_L(X, Y) is at least the cost of any pair.
With r_i = ‖y_i‖/‖x_i‖:

- lipschitz, any bias: :math:`R_L \ge L\,(\|y_i - y_j\|/\|x_i - x_j\|)^{2/L}`: the network is Lipschitz with the
  product of the norms of its layers, and Σ‖W_ℓ‖² ≥ L Π‖W_ℓ‖^{2/L}.
- row, β = 0: :math:`R_L \ge L\,r_i^{2/L}`, with equality for one point.
- rows, β = 0: the cost of two rows, for any angle and any outputs (:mod:`covopt.depth.two_rows`).
- level, β > 0: one row, or two with equal targets, by a minimum over one number per layer (the same module).

**Constant channel.** A neuron that carries β through the hidden layers costs 1 per layer, so with biases
:math:`R_L^\beta(X, Y) \ge R_L^0((X, \beta), Y) - (L - 2)`, or − (L − 1) with a penalised output bias.

All values are rounded down: the pair is chosen in floating point and its bound evaluated in rational arithmetic, with
roots verified by their powers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from covopt.depth.two_rows import LARGE, dot, exactly, level_value, products, two_rows_cost
from covopt.exact.rounding import below, down, root_down
from covopt.limits import PIECE
from covopt.oracles.base import MOST_KEPT

MOST_COMPARED = math.isqrt(PIECE)  # rows of which all pairs are compared

TITLES = {
    "lipschitz": "the Lipschitz bound of rows {rows}",
    "row": "row {rows} alone",
    "level": "rows {rows} with one target and biases",
    **dict.fromkeys(("rows", "quadrant", "obtuse", "apart", "acute"), "rows {rows} alone, exactly"),
}  # the last four occur only in files of older versions


@dataclass(frozen=True)
class PairBound:
    """A lower bound on R_L from one or two rows.

    Attributes
    ----------
    value : float
        Valid in exact arithmetic for the table as given.
    kind : str
        One of :data:`TITLES`.
    rows : tuple of int
        The rows that it uses.
    channel : bool
        Whether it bounds the network without biases on (x, β) and subtracts the cost of the constant channel.
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
        """Short description of the bound."""
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
    ('rows', True, True)
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
    """Yield kinds of bounds with rows for which they may be large, chosen in floating point."""
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
        level = _dearest_level(X, Y, bias)
        if level:
            yield "level", level
        rows = np.sort(heaviest[ratio[heaviest] > 0.0])
        for i, j in _dearest(units[rows], rates[rows], depth):
            yield "rows", (int(seen[rows[i]]), int(seen[rows[j]]))


def _dearest(units: np.ndarray, rates: np.ndarray, depth: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs of unit rows with the largest estimated cost, for each combination of the signs of products."""
    i, j = np.triu_indices(len(units), 1)
    cosine, moment = (units @ units.T)[i, j], (rates @ rates.T)[i, j]
    own = (rates**2).sum(axis=1)
    p, q, square = own[i], own[j], np.maximum(1.0 - cosine**2, 1e-12)

    def cost(trace: np.ndarray, product: np.ndarray) -> np.ndarray:
        large = 0.5 * (trace + np.sqrt(np.maximum(trace**2 - 4.0 * product, 0.0)))
        return np.asarray(large ** (1.0 / depth) + (product / np.maximum(large, 1e-300)) ** (1.0 / depth))

    spread = np.maximum(p * q - moment**2, 0.0)
    acute, alike = cosine > 0.0, moment > 0.0
    through = cost(np.maximum(p + q - 2.0 * cosine * moment, 0.0) / square, spread / square)
    for good, guess in (
        (acute & alike & (square > 1e-12), through),
        # estimated with a diagonal Λ, which is feasible
        (~acute & alike, cost(p + q, spread)),
        (~acute & ~alike, cost(p + q, p * q)),
        # the cost grows as the angle decreases: at L = 2 both rates are divided by the sine
        (acute & ~alike, cost(p + q, p * q) / square ** (1.0 / depth)),
    ):
        which = np.flatnonzero(good & np.isfinite(guess))
        for k in which[np.argsort(-guess[which], kind="stable")[:MOST_KEPT]].tolist():
            yield int(i[k]), int(j[k])


def _dearest_level(X: np.ndarray, Y: np.ndarray, bias: float) -> tuple[int, ...]:
    """Return the most costly row, or pair of rows with equal targets; empty without biases or with many rows."""
    if bias == 0.0 or len(X) > MOST_COMPARED:
        return ()
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        lifted = np.column_stack([X, np.full(len(X), bias)])
        gram = lifted @ lifted.T
        own = np.diag(gram)
        run = own[:, None] + own[None] - 2.0 * gram
        both = np.where(
            gram >= 0.0, run / (np.outer(own, own) - gram**2), 1.0 / own[:, None] + 1.0 / own[None]
        )
        # the cost increases with these values; those of single rows are on the diagonal
        np.fill_diagonal(both, 1.0 / own)
        size = np.where((Y[:, None] == Y[None]).all(axis=2), both * (Y**2).sum(axis=1), -1.0)
    i, j = divmod(int(np.argmax(np.nan_to_num(size, nan=-1.0))), len(X))
    return (i,) if i == j else (min(i, j), max(i, j))


def _steepest(X: np.ndarray, Y: np.ndarray) -> tuple[int, int]:
    """Return the pair with the largest ‖y_i − y_j‖/‖x_i − x_j‖ up to rounding; in large tables among neighbours."""
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
    """Return the table scaled by a power of two to a largest entry in [1/2, 1), so that squares do not overflow."""
    return np.ldexp(table, -int(np.frexp(np.abs(table).max(initial=0.0))[1]))


def recompute(
    bound: PairBound, X: np.ndarray, Y: np.ndarray, depth: int, bias: float, output_bias: str
) -> float:
    """Recompute a bound from its rows; return zero if its conditions do not hold.

    Parameters
    ----------
    bound : PairBound
    X, Y : ndarray
    depth : int
    bias : float
    output_bias : {"none", "penalized", "free"}
    """
    rows = list(bound.rows)
    if any(not 0 <= i < len(X) for i in rows) or not 1 <= len(rows) <= 2:
        return 0.0
    if bound.kind == "lipschitz":
        run, rise = (_apart_squared(*map(exactly, part[[rows[0], rows[-1]]])) for part in (X, Y))
        return _power(rise / run, depth) if run > 0 else 0.0
    level = bound.kind == "level"
    if (bias > 0.0) != (bound.channel or level) or (bias > 0.0 and output_bias == "free"):
        return 0.0
    table = np.column_stack([X, np.full(len(X), bias)]) if bias > 0.0 else X
    gram, moments = (products(*map(exactly, part[[rows[0], rows[-1]]])) for part in (table, Y))
    if level:
        # two rows with equal targets, or one row
        start = two_rows_cost(gram, (Fraction(1),) * 3, 1) if len(rows) == 2 else 1 / gram[0]
        start, target = Fraction(bias) ** 2 * Fraction(start), moments[0] / Fraction(bias) ** 2
        if (Y[rows[0]] != Y[rows[-1]]).any() or not Fraction(1, LARGE) < target < LARGE:
            return 0.0  # s is too large or too small for this bound
        return level_value(start, target, depth, penalized=output_bias == "penalized")
    value = 0.0
    if bound.kind != "row":
        value = two_rows_cost(gram, moments, depth) if len(rows) == 2 else 0.0
    elif gram[0] > 0 and len(rows) == 1:
        value = _power(moments[0] / gram[0], depth)
    paid = depth - 2 + (output_bias == "penalized") if bound.channel else 0
    return max(0.0, down(value - paid)) if paid else value


def _apart_squared(first: list[Fraction], second: list[Fraction]) -> Fraction:
    apart = [a - b for a, b in zip(first, second, strict=True)]
    return dot(apart, apart)


def _power(square: Fraction, depth: int) -> float:
    """Return a lower bound on L·square^{1/L}."""
    return below(depth * Fraction(root_down(square, depth)))
