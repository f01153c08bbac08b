r"""What a few rows alone cost: closed forms that bound the representation cost of the whole table from below.

A network through all points is one through each pair of them, so R_L(X, Y) is at least that of any pair. With
G = the Gram matrix of two rows, r_i = ‖y_i‖/‖x_i‖:

- any bias: :math:`R_L \ge L\,(\|y_i - y_j\|/\|x_i - x_j\|)^{2/L}`: the network is Lipschitz with the product of the
  norms of its layers, and Σ‖W_ℓ‖² ≥ L Π‖W_ℓ‖^{2/L}.
- β = 0: :math:`R_L \ge L\,r_i^{2/L}`, and with the whole table L(‖Y‖_F/‖X‖_F)^{2/L}.
- β = 0, y_i·y_j ≥ 0, x_i·x_j ≥ 0: :math:`R_L = L\,\|G^{-1/2}Y\|_{2/L}^{2/L}`. With M_ℓ the covariances of the hidden
  activations, M_ℓ ≥ 0 entrywise, so M_ℓ⁻¹ has no positive entry off the diagonal and zᵀM⁻¹z ≥ σ(z)ᵀM⁻¹σ(z): the
  hidden layers may be taken linear. For y_i·y_j < 0 it is still a lower bound.
- the same with x_i·x_j < 0: a convex problem, see :mod:`covopt.depth.obtuse`.
- β = 0, one output, y_i y_j < 0: :math:`R_L \ge L\,(r_i^{2/L} + r_j^{2/L})`, whatever the angle; an equality where
  x_i·x_j ≤ 0. Several outputs: for Yu with any unit u.
- β = 0, any outputs, y_i·y_j ≤ 0 and x_i·x_j ≤ 0: :math:`R_L = L\,(r_i^{2/L} + r_j^{2/L})`. A neuron of the first
  layer costs at least Σa_i²/‖x_i‖², and Σ_i M_{1,ii}/‖x_i‖² + Σ_ℓ Tr M_{ℓ+1}M_ℓ⁻¹ + Tr YYᵀM_{L−1}⁻¹ is convex along
  the geodesics of positive definite matrices. At its best diagonal point the slope in an entry off the diagonal is
  zero, or −2y_i·y_j/(m_i m_j) ≥ 0 in the last, and M_ℓ ≥ 0 entrywise: logarithms of such have none below zero.
- one output, y_i y_j < 0 and x_i·x_j > 0: more, see :mod:`covopt.depth.acute`.
- **A constant channel**: a neuron that carries β through the hidden layers costs one a layer, so with biases
  :math:`R_L^\beta(X, Y) \ge R_L^0((X, \beta), Y) - (L - 2)`, or − (L − 1) with a penalised output bias.

Every value here is rounded down: the pair is found in doubles, its bound computed again in fractions, the roots
compared with their powers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from covopt.depth.acute import acute_value
from covopt.depth.obtuse import apart_pairs, obtuse_pairs, obtuse_value, two_roots_cost
from covopt.exact.rounding import below, down, root_down

MOST_COMPARED = 1000  # rows, each with each
MOST_ACUTE = 12  # pairs that are tried: each is a minimisation


@dataclass(frozen=True)
class PairBound:
    """A lower bound on R_L by one or two rows.

    Attributes
    ----------
    value : float
        Valid in exact arithmetic for the table as given.
    kind : str
        "lipschitz", "row", "table", "quadrant", "obtuse", "apart", "opposite", "acute" or "level".
    rows : tuple of int
        On which it rests; none for the whole table.
    channel : bool
        Whether it goes over the network without biases on (x, β), with the constant channel paid.
    direction : tuple of float or None
        u where the bound is for Yu.
    """

    value: float
    kind: str
    rows: tuple[int, ...]
    channel: bool = False
    direction: tuple[float, ...] | None = None


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
    ('opposite', True, True)
    """
    found = list(_lipschitz(X, Y, depth))
    if bias == 0.0:
        found.extend(_without_bias(X, Y, depth))
    elif output_bias != "free":
        lifted = np.column_stack([X, np.full(len(X), bias)])
        paid = depth - 2 + (output_bias == "penalized")
        for bound in _without_bias(lifted, Y, depth):
            value = down(bound.value - paid) if paid else bound.value
            found.append(PairBound(value, bound.kind, bound.rows, True, bound.direction))
    return sorted((b for b in found if b.value > 0.0), key=lambda b: -b.value)


def _lipschitz(X: np.ndarray, Y: np.ndarray, depth: int) -> Iterator[PairBound]:
    if len(X) < 2:
        return
    i, j = _steepest(_unit(X), _unit(Y))
    rise, run = _squared(_minus(Y[i], Y[j])), _squared(_minus(X[i], X[j]))
    if rise > 0 and run > 0:
        yield PairBound(_power(rise / run, depth), "lipschitz", (i, j))


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


def _without_bias(X: np.ndarray, Y: np.ndarray, depth: int) -> Iterator[PairBound]:
    near, low = _unit(X), _unit(Y)  # what is chosen on; values are of the table itself
    size = np.linalg.norm(near, axis=1)
    seen = np.flatnonzero(size > 0)
    if not len(seen) or not np.any(Y[seen]):
        return
    ratio = np.full(len(X), -1.0)
    with np.errstate(over="ignore"):
        ratio[seen] = np.linalg.norm(low[seen], axis=1) / size[seen]
    i = int(np.argmax(ratio))
    yield PairBound(_power(_squared(_exact(Y[i])) / _squared(_exact(X[i])), depth), "row", (i,))
    total = [_squared(_exact(table.ravel())) for table in (Y, X)]
    yield PairBound(_power(total[0] / total[1], depth), "table", ())
    pair = _best_quadrant(near, low, ratio, depth)
    if pair is not None:
        i, j = pair
        yield PairBound(_quadrant(X[i], X[j], Y[i], Y[j], depth), "quadrant", pair)
    obtuse = [
        (_obtuse_value(X[i], X[j], Y[i], Y[j], depth), (i, j))
        for i, j in obtuse_pairs(near, low, ratio, depth)
    ]
    if obtuse:
        value, pair = max(obtuse)
        yield PairBound(value, "obtuse", pair)
    opposite = _best_opposite(near, low, size, depth)
    if opposite is not None:
        i, j, u = opposite
        value = _opposite_value(X[i], X[j], Y[i], Y[j], u, depth)
        yield PairBound(value, "opposite", (i, j), direction=tuple(u.tolist()))
    apart = next(apart_pairs(near, low, ratio, depth), None)
    if apart is not None:
        i, j = apart
        yield PairBound(_apart_value(X[i], X[j], Y[i], Y[j], depth), "apart", apart)
    yield from _acute_outputs(X, Y, ratio, depth)
    acute = [
        (_acute_value(X[i], X[j], Y[i], Y[j], u, depth), i, j, u)
        for i, j, u in _acute(near, low, size, depth)
    ]
    if acute:
        value, i, j, u = max(acute, key=lambda entry: entry[0])
        yield PairBound(value, "acute", (i, j), direction=tuple(u.tolist()))


def _unit(table: np.ndarray) -> np.ndarray:
    """Return a table times a power of two, its largest entry in [1/2, 1), so that squares do not overflow."""
    return np.ldexp(table, -int(np.frexp(np.abs(table).max(initial=0.0))[1]))


def _best_quadrant(X: np.ndarray, Y: np.ndarray, ratio: np.ndarray, depth: int) -> tuple[int, int] | None:
    """Return the pair with x_i·x_j ≥ 0 and the largest cost, to rounding; None where there is none."""
    if len(X) > MOST_COMPARED:  # those that cost most alone
        rows = np.sort(np.argsort(-ratio, kind="stable")[:MOST_COMPARED])
        pair = _best_quadrant(X[rows], Y[rows], ratio[rows], depth)
        return None if pair is None else (int(rows[pair[0]]), int(rows[pair[1]]))
    best, found = -1.0, None
    p = 1.0 / depth
    for i in np.argsort(-ratio, kind="stable").tolist():
        if ratio[i] <= 0.0:
            break
        gram, moments = X @ X[i], Y @ Y[i]
        own, mine = float(gram[i]), float(moments[i])
        a, b = (X**2).sum(axis=1), (Y**2).sum(axis=1)
        det = own * a - gram**2
        good = (det > 1e-12 * own * a) & (gram >= 0)
        good[i] = False
        if not good.any():
            continue
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            trace = (a * mine + own * b - 2.0 * gram * moments) / det
            product = np.maximum(mine * b - moments**2, 0.0) / det
            root = np.sqrt(np.maximum(trace**2 - 4.0 * product, 0.0))
            large = 0.5 * (trace + root)
            cost = np.where(good, large**p + (product / np.maximum(large, 1e-300)) ** p, -1.0)
        j = int(np.argmax(cost))
        if cost[j] > best:
            best, found = float(cost[j]), (min(i, j), max(i, j))
    return found


def _quadrant(x: np.ndarray, other: np.ndarray, y: np.ndarray, then: np.ndarray, depth: int) -> float:
    r"""L(s₁^{2/L} + s₂^{2/L}) of G^{-1/2}Y from below: s₁² + s₂² and s₁²s₂² are rational."""
    a, b, c = _dot(x, x), _dot(other, other), _dot(x, other)
    p, q, r = _dot(y, y), _dot(then, then), _dot(y, then)
    det = a * b - c * c
    if det <= 0 or c < 0:
        return 0.0
    trace, product = (b * p + a * q - 2 * c * r) / det, (p * q - r * r) / det
    return two_roots_cost(trace, product, depth)


def _obtuse_value(x: np.ndarray, other: np.ndarray, y: np.ndarray, then: np.ndarray, depth: int) -> float:
    gram = _dot(x, x), _dot(other, other), _dot(x, other)
    return obtuse_value(gram, (_dot(y, y), _dot(then, then), _dot(y, then)), depth)


def _apart_value(x: np.ndarray, other: np.ndarray, y: np.ndarray, then: np.ndarray, depth: int) -> float:
    if _dot(x, other) > 0 or _dot(y, then) > 0 or not x.any() or not other.any():
        return 0.0
    rates = [_dot(y, y) / _dot(x, x), _dot(then, then) / _dot(other, other)]
    return _times(depth, *(root_down(rate, depth) for rate in rates))


def _best_opposite(
    X: np.ndarray, Y: np.ndarray, size: np.ndarray, depth: int
) -> tuple[int, int, np.ndarray] | None:
    """Return the best pair of rows whose targets have opposite signs along some direction, and the direction."""
    best, choice = -1.0, None
    seen = size > 0
    for u in _directions(Y[seen]):
        along = Y @ u
        with np.errstate(over="ignore"):
            rates = np.where(seen, along / np.where(seen, size, 1.0), 0.0)
        i, j = int(np.argmax(rates)), int(np.argmin(rates))
        if rates[i] > 0 > rates[j]:
            cost = rates[i] ** (2.0 / depth) + (-rates[j]) ** (2.0 / depth)
            if cost > best:
                best, choice = float(cost), (i, j, u)
    return choice


def _acute(
    X: np.ndarray, Y: np.ndarray, size: np.ndarray, depth: int
) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield pairs of rows at an acute angle whose targets have opposite signs along a direction, dear ones first."""
    safe = np.where(size > 0, size, 1.0)
    every = np.arange(len(X))
    for u in _directions(Y):
        with np.errstate(over="ignore"):
            whole = np.where(size > 0, Y @ u / safe, 0.0)
        rows = every if len(X) <= MOST_COMPARED else np.argsort(-np.abs(whole), kind="stable")[:MOST_COMPARED]
        units, along = X[rows] / safe[rows, None], whole[rows]
        cosines, signs = units @ units.T, np.sign(along)
        i, j = np.nonzero(np.triu((np.outer(signs, signs) < 0) & (cosines > 0), 1))
        rates = np.abs(along) ** (2.0 / depth)
        # the closer the rows, the dearer: at L = 2 both rates grow by 1/sin
        sines = np.sqrt(np.maximum(1.0 - cosines[i, j] ** 2, 1e-12))
        guess = (rates[i] + rates[j]) / sines ** (2.0 / depth)
        for k in np.argsort(-guess, kind="stable")[:MOST_ACUTE].tolist():
            yield int(rows[i[k]]), int(rows[j[k]]), u


def _acute_value(
    x: np.ndarray, other: np.ndarray, y: np.ndarray, then: np.ndarray, u: np.ndarray, depth: int
) -> float:
    along, against, length = _dot(y, u), _dot(then, u), _dot(u, u)
    if along * against >= 0:
        return 0.0
    gram = _dot(x, x), _dot(other, other), _dot(x, other)
    return acute_value(gram, (along**2 / length, against**2 / length), depth)


def _acute_outputs(X: np.ndarray, Y: np.ndarray, ratio: np.ndarray, depth: int) -> Iterator[PairBound]:
    """Yield the bound of the dearest acute pair with y_i·y_j < 0, of several outputs as they are."""
    if Y.shape[1] == 1:
        return
    pairs = apart_pairs(_unit(X), _unit(Y), ratio, depth, acute=True)
    best = max(((_whole_value(X[i], X[j], Y[i], Y[j], depth), (i, j)) for i, j in pairs), default=None)
    if best is not None:
        yield PairBound(best[0], "acute", best[1])


def _whole_value(x: np.ndarray, other: np.ndarray, y: np.ndarray, then: np.ndarray, depth: int) -> float:
    moment = _dot(y, then)
    gram = _dot(x, x), _dot(other, other), _dot(x, other)
    return acute_value(gram, (_dot(y, y), _dot(then, then)), depth, moment) if moment < 0 else 0.0


def _opposite_value(
    x: np.ndarray, other: np.ndarray, y: np.ndarray, then: np.ndarray, u: np.ndarray, depth: int
) -> float:
    along, against, length = _dot(y, u), _dot(then, u), _dot(u, u)
    if along <= 0 or against >= 0:
        return 0.0
    squares = [along**2 / (length * _dot(x, x)), against**2 / (length * _dot(other, other))]
    return _times(depth, *(root_down(square, depth) for square in squares))


def _directions(Y: np.ndarray) -> list[np.ndarray]:
    """Return unit vectors of the outputs worth a try: the axes and the main directions of the targets."""
    if Y.shape[1] == 1:
        return [np.ones(1)]
    _, _, main = np.linalg.svd(Y, full_matrices=False)
    _, _, spread = np.linalg.svd(Y - Y.mean(axis=0), full_matrices=False)
    return [*np.eye(Y.shape[1]), *main, *spread]


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
        i, j = rows
        run = _squared(_minus(X[i], X[j]))
        return _power(_squared(_minus(Y[i], Y[j])) / run, depth) if run > 0 else 0.0
    if (bias > 0.0) != bound.channel or (bias > 0.0 and output_bias == "free"):
        return 0.0
    table = np.column_stack([X, np.full(len(X), bias)]) if bound.channel else X
    paid = depth - 2 + (output_bias == "penalized") if bound.channel else 0
    value = 0.0
    if bound.kind == "row" and len(rows) == 1 and table[rows[0]].any():
        value = _power(_squared(_exact(Y[rows[0]])) / _squared(_exact(table[rows[0]])), depth)
    elif bound.kind == "table" and table.any():
        total = [_squared(_exact(part.ravel())) for part in (Y, table)]
        value = _power(total[0] / total[1], depth)
    elif bound.kind == "quadrant" and len(rows) == 2:
        i, j = rows
        value = _quadrant(table[i], table[j], Y[i], Y[j], depth)
    elif bound.kind == "obtuse" and len(rows) == 2:
        i, j = rows
        value = _obtuse_value(table[i], table[j], Y[i], Y[j], depth)
    elif bound.kind == "apart" and len(rows) == 2:
        i, j = rows
        value = _apart_value(table[i], table[j], Y[i], Y[j], depth)
    elif bound.kind == "opposite" and len(rows) == 2 and bound.direction is not None:
        i, j = rows
        u = np.array(bound.direction)
        if u.shape == (Y.shape[1],) and np.isfinite(u).all() and table[i].any() and table[j].any():
            value = _opposite_value(table[i], table[j], Y[i], Y[j], u, depth)
    elif bound.kind == "acute" and len(rows) == 2 and bound.direction is None:
        i, j = rows
        value = _whole_value(table[i], table[j], Y[i], Y[j], depth)
    elif bound.kind == "acute" and len(rows) == 2 and bound.direction is not None:
        i, j = rows
        u = np.array(bound.direction)
        if u.shape == (Y.shape[1],) and np.isfinite(u).all():
            value = _acute_value(table[i], table[j], Y[i], Y[j], u, depth)
    return max(0.0, down(value - paid)) if paid else value


def _exact(row: np.ndarray) -> list[Fraction]:
    return [Fraction(entry) for entry in row.tolist()]


def _minus(first: np.ndarray, second: np.ndarray) -> list[Fraction]:
    return [a - b for a, b in zip(_exact(first), _exact(second), strict=True)]


def _squared(row: list[Fraction]) -> Fraction:
    return sum((entry * entry for entry in row), Fraction(0))


def _dot(first: np.ndarray, second: np.ndarray) -> Fraction:
    return sum((a * b for a, b in zip(_exact(first), _exact(second), strict=True)), Fraction(0))


def _power(square: Fraction, depth: int) -> float:
    """Return L·square^{1/L} from below."""
    return _times(depth, root_down(square, depth))


def _times(depth: int, *roots: float) -> float:
    """Return L·Σ of roots from below."""
    return below(depth * sum(map(Fraction, roots), Fraction(0)))
