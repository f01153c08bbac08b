r"""A network of one input from its kinks, in fractions: for points that differ by less than doubles can say of sums.

What a solver says of a network is where its neurons bend, which way they face and about how much: ramps
s_j max(±(x − t_j), 0). The rest is computed here without rounding, and rounded in three steps:

- *hidden weights*: of all doubles a near the balanced size, one for which −a t/β is nearly a double as well, to
  2⁻³⁹ of a unit in the last place: a short vector in a lattice of two dimensions tells which;
- *output weights*: the ones with which these ramps, as they are, meet the targets, by fractions. In second
  differences a ramp has at most two entries, so that is linear in the number of points. Where the ramps do not span
  all targets, ramps that cost next to nothing come in, and then ramps at points;
- *their rounding*: each on its own would leave 2⁻⁵³ of a slope times the range of the points. Whole units in the last
  place make a lattice of outputs; one of its points next to what is missed is taken (:mod:`covopt.exact.lattice`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from covopt.exact.lattice import Lattice
from covopt.network import ReLUNetwork

NEAR = 39  # bits of the hidden weights that may be chosen: the norm changes by less than 2⁻²⁶ of itself
FINE = 40  # bits of numbers in lattices beyond those that count
MOST_TOGETHER = 12  # output weights that are rounded together
SMALL = 2.0**-44  # share of the cost that a ramp for the last digits may have
CLOSE = Fraction(1, 10**11)  # of the largest target, that outputs may be off by
ACCURATE = 2**26  # parts of that which lattices tell apart

Column = dict[int, Fraction]
Pair = tuple[float, float]  # hidden weights


@dataclass(frozen=True, eq=False)
class Kinks:
    """Where the neurons of one input bend, about: s max(side (x − t), 0), or s where t is infinite.

    Attributes
    ----------
    places, sides, slopes : ndarray of shape (m,)
    offset : float
        What is added.
    """

    places: np.ndarray
    sides: np.ndarray
    slopes: np.ndarray
    offset: float = 0.0


class Line:
    """Points of one input in fractions.

    Parameters
    ----------
    inputs, targets : ndarray of shape (N,)
        Inputs are distinct.
    bias : float
    """

    def __init__(self, inputs: np.ndarray, targets: np.ndarray, bias: float):
        order = np.argsort(inputs, kind="stable")
        self.x = [Fraction(value) for value in inputs[order].tolist()]
        self.y = [Fraction(value) for value in targets[order].tolist()]
        self.bias = Fraction(bias)
        self.size = max(map(abs, self.y))  # with an output bias that stays, still the largest target

    def heights(self, hidden: Pair) -> list[Fraction]:
        """Return σ(a x + b β) at all points."""
        slope, shift = Fraction(hidden[0]), Fraction(hidden[1]) * self.bias
        return [max(slope * x + shift, Fraction(0)) for x in self.x]

    def ramp(self, place: Fraction | None, side: int) -> list[Fraction]:
        """Return max(side (x − t), 0) at all points, ones for no place."""
        if place is None:
            return [Fraction(1)] * len(self.x)
        return [max(side * (x - place), Fraction(0)) for x in self.x]

    def bends(self, values: list[Fraction]) -> Column:
        """Return second differences, then the first value and the first slope, without zeros."""
        x, n, found = self.x, len(self.x), {}
        slopes = [
            Fraction(0) if values[i] == values[i + 1] else (values[i + 1] - values[i]) / (x[i + 1] - x[i])
            for i in range(n - 1)
        ]
        for i in range(1, n - 1):
            if slopes[i] != slopes[i - 1]:
                found[i] = slopes[i] - slopes[i - 1]
        ends = {n: values[0], n + 1: slopes[0]}
        return found | {i: value for i, value in ends.items() if value}


def ramp_network(
    network: ReLUNetwork, inputs: np.ndarray, targets: np.ndarray, kinks: Kinks, *, is_free: bool
) -> ReLUNetwork:
    """Return a network with these kinks that meets the targets as nearly as doubles allow.

    Parameters
    ----------
    network : ReLUNetwork
        Of one input, with a bias, and one output; returned where there is none with at most N neurons.
    inputs, targets : ndarray of shape (N,)
        Inputs are distinct.
    kinks : Kinks
    is_free : bool
        Whether the output bias costs nothing; else it is that of the kinks.

    Examples
    --------
    >>> x, y = 1.6e18 + np.array([0.0, 256.0, 1e9]), np.array([1.0, 2.0, 0.0])
    >>> kinks = Kinks(x[:2], np.array([1.0, 1.0]), np.array([0.004, -0.004]))
    >>> rough = ReLUNetwork(np.zeros((0, 2)), np.zeros((0, 1)), 1.0)
    >>> found = ramp_network(rough, x, y, kinks, is_free=False)
    >>> bool(missed(found, x, y) < 1e-11), len(found)
    (True, 3)
    """
    line = Line(inputs, targets, network.bias)
    if not is_free:
        network = replace(network, output_bias=np.array([kinks.offset / network.bias]))
        shift = Fraction(float(network.output_bias[0])) * line.bias
        line.y = [value - shift for value in line.y]
    if not line.size:
        return network
    offset = {len(line.x): line.bias}
    ramps = _ramps(line, kinks)
    ideal = [line.bends(line.ramp(place, side)) for place, side in ramps]
    basis, weights = _solved([offset, *ideal] if is_free else ideal, line.bends(line.y))
    chosen = [
        (ramps[j - is_free], abs(weight)) for j, weight in zip(basis, weights, strict=True) if j >= is_free
    ]
    least = max((slope * _per_slope(line, *ramp) for ramp, slope in chosen), default=Fraction(0)) * Fraction(
        SMALL
    )
    pairs: list[Pair | None] = [
        _hidden(line, *ramp, float(max(slope, least / _per_slope(line, *ramp)))) for ramp, slope in chosen
    ]
    pairs = [None, *pairs] if is_free else pairs
    basis, weights = _solved(
        [line.bends(line.heights(pair)) if pair else offset for pair in pairs], line.bends(line.y)
    )
    if len(basis) < len(pairs):
        return network
    spare = [False] * is_free + [not slope for _, slope in chosen]
    return _network(network, *_rounded(line, *_without_idle(line, pairs, weights, spare)))


def _per_slope(line: Line, place: Fraction | None, side: int) -> Fraction:
    """Return about what a ramp of slope one costs."""
    return 1 / line.bias if place is None else 1 + abs(place) / line.bias


def _without_idle(
    line: Line, pairs: list[Pair | None], weights: list[Fraction], spare: list[bool]
) -> tuple[list[Pair | None], list[Fraction]]:
    """Leave out neurons that nobody has asked for and nobody hears."""
    enough = CLOSE * line.size / (4 * len(line.x))
    heard = [
        not (idle and pair is not None and abs(weight) * max(line.heights(pair)) <= enough)
        for pair, weight, idle in zip(pairs, weights, spare, strict=True)
    ]
    return (
        [pair for pair, keep in zip(pairs, heard, strict=True) if keep],
        [weight for weight, keep in zip(weights, heard, strict=True) if keep],
    )


def missed(network: ReLUNetwork, inputs: np.ndarray, targets: np.ndarray) -> float:
    """Return max |f(x_i) − y_i| / max |y_i| of one input and one output, in fractions, rounded once."""
    line = Line(inputs, targets, network.bias)
    pairs = [None, *map(tuple, network.hidden_weights.tolist())]
    weights = [float(network.output_bias[0]), *network.output_weights[:, 0].tolist()]
    return float(max(map(abs, _left(line, pairs, weights))) / (line.size or 1))


def _network(network: ReLUNetwork, pairs: list[Pair | None], weights: list[float]) -> ReLUNetwork:
    neurons = [(pair, v) for pair, v in zip(pairs, weights, strict=True) if pair and v]
    offset = [v for pair, v in zip(pairs, weights, strict=True) if not pair]
    return replace(
        network,
        hidden_weights=np.array([pair for pair, _ in neurons], dtype=float).reshape(-1, 2),
        output_weights=np.array([[v] for _, v in neurons], dtype=float).reshape(-1, 1),
        output_bias=np.array(offset) if offset else network.output_bias,
    )  # fmt: skip


def _ramps(line: Line, kinks: Kinks) -> list[tuple[Fraction | None, int]]:
    """Return place and side of all ramps that may be used, the ones of the solver first."""
    order = np.argsort(-np.abs(kinks.slopes) * np.hypot(1.0, kinks.places), kind="stable")
    found: list[tuple[Fraction | None, int]] = [
        (Fraction(float(t)) if math.isfinite(t) else None, int(side))
        for t, side, slope in zip(kinks.places[order], kinks.sides[order], kinks.slopes[order], strict=True)
        if slope
    ]
    found += [(Fraction(0), 1 if line.x[-1] + line.x[0] > 0 else -1), (None, 1)]  # the cheapest first
    return found + [(x, 1) for x in (*line.x[1:-1], line.x[0])] + [(line.x[-1], -1)]


def _hidden(line: Line, place: Fraction | None, side: int, slope: float) -> tuple[float, float]:
    """Return hidden weights (a, b) of a balanced neuron, a place at which a t + b β is next to zero."""
    beta = float(line.bias)
    if place is None:
        return 0.0, math.sqrt(slope / beta)
    ratio = place / line.bias
    size = math.sqrt(slope / math.hypot(1.0, float(ratio)))
    if not ratio:
        return side * size, 0.0
    one = Fraction(math.ulp(size))
    two = Fraction(math.ulp(abs(float(Fraction(size) * ratio))))
    start, step = round(Fraction(size) / one), one * abs(ratio) / two
    whole = 1 << (2 * NEAR + FINE)
    basis = [[1 << FINE, round(step * whole)], [0, whole]]
    goal = [0, -round(start * step * whole)]
    count = start + (Lattice(basis).nearest(goal)[0] >> FINE)
    a = float(count * one)
    b = float(round(count * step) * two)
    return side * a, -side * math.copysign(b, float(ratio))


def _solved(columns: list[Column], goal: Column) -> tuple[list[int], list[Fraction]]:
    """Return the first columns that are independent, and their multiples whose sum is the goal, if they have one."""
    pivots: list[tuple[int, Column, int, dict[int, Fraction]]] = []

    def reduced(vector: Column) -> tuple[Column, dict[int, Fraction]]:
        used: dict[int, Fraction] = {}
        vector = dict(vector)
        for place, (row, column, _, _) in enumerate(pivots):
            if row in vector:
                share = vector[row] / column[row]
                used[place] = share
                for i, value in column.items():
                    left = vector.get(i, Fraction(0)) - share * value
                    if left:
                        vector[i] = left
                    else:
                        vector.pop(i, None)
        return vector, used

    for j, column in enumerate(columns):
        rest, own = reduced(column)
        if rest:
            pivots.append((min(rest), rest, j, own))
    _, used = reduced(goal)
    found = [used.get(place, Fraction(0)) for place in range(len(pivots))]
    for place in range(len(pivots) - 1, -1, -1):
        for before, share in pivots[place][3].items():
            found[before] -= share * found[place]
    return [j for _, _, j, _ in pivots], found


def _rounded(
    line: Line, pairs: list[Pair | None], weights: list[Fraction]
) -> tuple[list[Pair | None], list[float]]:
    """Return hidden weights, with one or two for the last digits where there is room, and output weights."""
    rounded = [float(weight) for weight in weights]
    neurons = sum(pair is not None for pair in pairs)
    left = _left(line, pairs, rounded)
    if max(map(abs, left)) <= CLOSE * line.size:
        return pairs, rounded
    cost = max(abs(w) * math.hypot(*pair) for pair, w in zip(pairs, rounded, strict=True) if pair)
    extra = math.sqrt(SMALL * cost)
    more = [(math.copysign(extra, line.x[0] + line.x[-1]), 0.0), (0.0, extra)][: len(line.x) - neurons]
    pairs, rounded = [*pairs, *more], [*rounded, *([0.0] * len(more))]
    if len(pairs) > MOST_TOGETHER:
        return pairs, rounded
    units = [Fraction(math.ulp(w or extra)) for w in rounded]
    scale = ACCURATE / (CLOSE * line.size)
    vectors = [
        [round(unit * h * scale) for h in _column(line, pair)]
        for unit, pair in zip(units, pairs, strict=True)
    ]
    count = len(pairs)
    lattice = Lattice([[*vector, *(int(i == j) for j in range(count))] for i, vector in enumerate(vectors)])
    steps = lattice.nearest([round(value * scale) for value in left] + [0] * count)[-count:]
    return pairs, [
        float(Fraction(w) + step * unit) for w, step, unit in zip(rounded, steps, units, strict=True)
    ]


def _column(line: Line, pair: tuple[float, float] | None) -> list[Fraction]:
    return [line.bias] * len(line.x) if pair is None else line.heights(pair)


def _left(line: Line, pairs: list[Pair | None], weights: list[float]) -> list[Fraction]:
    left = list(line.y)
    for pair, weight in zip(pairs, weights, strict=True):
        v = Fraction(weight)
        left = [value - v * height for value, height in zip(left, _column(line, pair), strict=True)]
    return left
