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
TOGETHER = 16  # output weights, about, that are rounded together
SMALL = 2.0**-44  # share of the cost that a ramp for the last digits may have
FREELY = 2**30  # multiples of such a ramp that count as one of others
FINER = 16  # parts of what outputs may be off by, that its output weight is a multiple of
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
    # ramps that are flat, for what is left of the others: they start with nothing
    size = float(max(map(abs, left)))
    reach = float(max(map(abs, line.x)))
    more = [
        (math.copysign(math.sqrt(size / reach), line.x[0] + line.x[-1]), 0.0),
        (0.0, math.sqrt(size / line.bias)),
    ]
    more = more[: len(line.x) - neurons]
    pairs, rounded = [*pairs, *more], [*rounded, *([0.0] * len(more))]
    wanted = [*weights, *([Fraction(0)] * len(more))]
    fine = CLOSE / FINER * line.size
    units = [
        Fraction(math.ulp(w)) if w else fine / max(_column(line, pair))
        for w, pair in zip(rounded, pairs, strict=True)
    ]
    order = sorted(range(len(pairs)), key=lambda j: _place(pairs[j]))
    groups = max(1, round(len(order) / TOGETHER))
    for group in range(groups):
        chosen = order[group * len(order) // groups : (group + 1) * len(order) // groups]
        lost = [wanted[j] - Fraction(rounded[j]) for j in chosen]
        free = [not rounded[j] for j in chosen]
        steps = _together(line, [pairs[j] for j in chosen], [units[j] for j in chosen], lost, free)
        for j, step in zip(chosen, steps, strict=True):
            rounded[j] = float(Fraction(rounded[j]) + step * units[j])
    return pairs, rounded


def _place(pair: Pair | None) -> tuple[bool, float]:
    """Return what ramps are ordered by: where they bend, the flat ones last."""
    return (False, -pair[1] / pair[0]) if pair and pair[0] and pair[1] else (True, 0.0)


def _together(
    line: Line, pairs: list[Pair | None], units: list[Fraction], lost: list[Fraction], free: list[bool]
) -> list[int]:
    """Return whole multiples of units that make up for what rounding has taken from some output weights."""
    scale, count, n = ACCURATE * FREELY / (CLOSE * line.size), len(pairs), len(line.x)
    vectors, missed = [], [Fraction(0)] * n
    for j, (pair, unit, rest) in enumerate(zip(pairs, units, lost, strict=True)):
        heights, price = _column(line, pair), 1 if free[j] else FREELY
        vectors.append(
            [round(unit * height * scale) for height in heights] + [price * (i == j) for i in range(count)]
        )
        missed = [value + rest * height for value, height in zip(missed, heights, strict=True)]
    near = Lattice(vectors).nearest([round(value * scale) for value in missed] + [0] * count)[n:]
    return [times // (1 if own else FREELY) for times, own in zip(near, free, strict=True)]


def _column(line: Line, pair: tuple[float, float] | None) -> list[Fraction]:
    return [line.bias] * len(line.x) if pair is None else line.heights(pair)


def _left(line: Line, pairs: list[Pair | None], weights: list[float]) -> list[Fraction]:
    left = list(line.y)
    for pair, weight in zip(pairs, weights, strict=True):
        v = Fraction(weight)
        left = [value - v * height for value, height in zip(left, _column(line, pair), strict=True)]
    return left
