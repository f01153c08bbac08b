"""Both bounds of a theorem in exact arithmetic: the value of a dual point over all faces, and the network.

For every network f = Σ_j v_j max(w_j·x̃, 0) + βb through the points, ⟨λ, Y⟩ is
Σ_j v_j Σ_i λ_i max(x̃_i·w_j, 0) + βb Σλ ≤ h Σ_j |v_j||w_j| + βb Σλ; with 2|v||w| ≤ |v|² + |w|² that is the bound of
:func:`dual_value`. With a loss, C(F) ≥ ⟨U, F⟩ − C*(U), U = −2 lam t λ, comes first.
Losses are those of :mod:`covopt.losses`. For the network: norm, residual and loss, and an upper bound on the cost of
repairing the residual.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from covopt.exact.elimination import integer_array
from covopt.exact.rounding import root_up
from covopt.proofs.checker.covopt_check import SHARES
from covopt.proofs.checker.faces import square_above

LOSSES = (None, *SHARES)  # those with a proof
Bound = Fraction | None  # None is infinite


@dataclass(frozen=True, eq=False)
class Problem:
    """A table and the question asked about it: minimise ‖W‖² through the points, or C(f) + lam ‖W‖² with a loss.

    Attributes
    ----------
    X, Y : ndarray of shape (N, d), (N, k)
        Y is ±1 for a loss of two classes.
    bias : float
    output_bias : {"none", "penalized", "free"}
    loss : str or None
        A name of :mod:`covopt.losses`; None for interpolation.
    lam, delta : float
        Strength, and the parameter of the huber loss.
    sample_weight : ndarray of shape (N,) or None
        C is the mean with these weights.
    """

    X: np.ndarray
    Y: np.ndarray
    bias: float
    output_bias: str = "none"
    loss: str | None = None
    lam: float = 0.0
    delta: float = 1.0
    sample_weight: np.ndarray | None = None

    @property
    def weights(self) -> np.ndarray:
        """The weights, ones where none are given."""
        return np.ones(len(self.X)) if self.sample_weight is None else np.asarray(self.sample_weight)


def fractions(values: Any) -> Any:
    """Return nested lists or an array of floats as nested lists of fractions."""
    values = values.tolist() if isinstance(values, np.ndarray) else values
    return [fractions(value) for value in values] if isinstance(values, list) else Fraction(values)


def dot(first: Iterable[Any], second: Iterable[Any]) -> Any:
    """Σ a b."""
    return sum(a * b for a, b in zip(first, second, strict=True))


def weights_of(problem: Problem) -> list[Fraction]:
    """Return the weights of the mean in C."""
    weights = fractions(problem.weights)
    total = sum(weights)
    return [weight / total for weight in weights]


def move_into_domain(problem: Problem, dual: np.ndarray) -> list[Fraction]:
    """Clip a dual point, floats (N,) or sums of two (N, 2), to where C*(−2 lam λ) is finite; to sum 0 if free.

    Bound h for the returned point. Raises ValueError if no such point is found: outside the domain the bound is −∞.
    """
    whole = [sum(parts) for parts in fractions(dual.reshape(len(dual), -1))]
    moved = within(problem, whole, domain(problem))
    if problem.output_bias == "free" and sum(moved):
        raise ValueError("the dual point cannot be moved to sum zero within the domain of the loss")
    return moved


def within(problem: Problem, values: Sequence[Any], ends: Sequence[tuple[Any, Any]]) -> list[Any]:
    """Clip multipliers; with a free output bias move their sum towards zero, short rows first."""

    def clip(value: Any, low: Any, high: Any) -> Any:
        value = value if low is None else max(value, low)
        return value if high is None else min(value, high)

    moved = [clip(value, *pair) for value, pair in zip(values, ends, strict=True)]
    rest = -sum(moved) if problem.output_bias == "free" else 0
    for i in np.argsort(np.abs(problem.X).sum(axis=1), kind="stable").tolist():
        new = clip(moved[i] + rest, *ends[i])
        rest, moved[i] = rest + moved[i] - new, new
    return moved


def domain(problem: Problem) -> list[tuple[Bound, Bound]]:
    """Return the interval of each multiplier in which C*(−2 lam λ) is finite."""
    if problem.loss is None:
        return [(None, None)] * len(problem.X)
    bounds: list[tuple[Bound, Bound]] = []
    for s, y in zip(weights_of(problem), problem.Y[:, 0].tolist(), strict=True):
        end = s / (2 * Fraction(problem.lam)) * (Fraction(problem.delta) if problem.loss == "huber" else 1)
        has_end = not s or problem.loss not in ("squared", "squared-hinge")
        low, high = (-end, end) if has_end else (None, None)
        if problem.loss not in ("squared", "huber"):
            low, high = (Fraction(0), high) if y > 0 else (low, Fraction(0))
        bounds.append((low, high))
    return bounds


def dual_value(problem: Problem, dual: Sequence[Fraction], dual_norm: Fraction) -> Fraction:
    """Return a lower bound on the problem, the value of the best multiple t λ with t · h ≤ 1.

    2t⟨λ, y⟩ − t²β²(Σλ)² without a loss, else −C*(−2 lam t λ) − lam t²β²(Σλ)²; the squares belong to a penalised
    output bias; ``dual`` comes from :func:`move_into_domain`, ``dual_norm`` bounds its h.
    """
    t, (slope, bend) = multiple(problem, dual, dual_norm), _parabola(problem, dual)
    return max(Fraction(0), t * slope - t * t * bend)


def multiple(problem: Problem, dual: Sequence[Fraction], dual_norm: Fraction) -> Fraction:
    """Return the t with t · h ≤ 1 that maximises the dual value of tλ in its domain."""
    longest, (slope, bend) = 1 / dual_norm if dual_norm > 0 else Fraction(1), _parabola(problem, dual)
    for u, (low, high) in zip(dual, domain(problem), strict=True):  # multiples end with the domain
        end = high if u > 0 else low
        longest = longest if not u or end is None else min(longest, end / u)
    return min(longest, slope / (2 * bend)) if bend and slope > 0 else longest


def _parabola(problem: Problem, dual: Sequence[Fraction]) -> tuple[Fraction, Fraction]:
    """Return a and b such that tλ, in its domain, has the dual value a t − b t²."""
    linear, lam = dot(dual, fractions(problem.Y[:, 0])), Fraction(problem.lam)
    square = (problem.output_bias == "penalized") * (Fraction(problem.bias) * sum(dual)) ** 2
    if problem.loss is None:
        return 2 * abs(linear), square  # −λ has the same h
    squares = sum(u * u / s for s, u in zip(weights_of(problem), dual, strict=True) if u)
    return 2 * lam * linear, lam * lam * SHARES[problem.loss] * squares + lam * square


def loss_of(problem: Problem, outputs: Sequence[Sequence[Fraction]]) -> Fraction | None:
    """Return C(F); None for a loss without a proof."""
    if problem.loss is None or problem.loss not in SHARES:
        return None
    total, delta = Fraction(0), Fraction(problem.delta)
    for s, row, goals in zip(weights_of(problem), outputs, fractions(problem.Y), strict=True):
        for f, y in zip(row, goals, strict=True):
            size, short = abs(f - y), max(Fraction(0), 1 - y * f)
            huber = size * size / 2 if size <= delta else delta * (size - delta / 2)
            losses = {"squared": size * size, "huber": huber, "hinge": short, "squared-hinge": short * short}
            total += s * losses[problem.loss]
    return total


def lift(problem: Problem) -> np.ndarray:
    """Return the rows x̃ = (x, β); x alone where β = 0."""
    return np.column_stack([problem.X, np.full((len(problem.X), int(problem.bias > 0)), problem.bias)])


class CheckedBound(NamedTuple):
    """The proved lower bound on ‖W‖² (on C(f) + lam ‖W‖²), and the number of boxes: zero if proved by faces."""

    lower_bound: Fraction
    boxes: int


def check_by_faces(problem: Problem, dual: np.ndarray) -> CheckedBound:
    """Return the bound of a dual point with its maximum over all faces, which needs no proof file.

    Raises ValueError for rows of more than three numbers with the bias, where the dual point has no value, and where
    moving it into its domain gives numbers that are no sums of floats.
    """
    if problem.Y.shape[1] != 1 or problem.loss not in LOSSES:
        raise ValueError("proofs are about one output, and about losses of one output")
    moved = move_into_domain(problem, dual)
    if any(value.denominator & (value.denominator - 1) for value in moved):
        raise ValueError("the dual point that was moved into its domain is not one of sums of floats")
    square = square_above(lift(problem), np.array([*moved, None], dtype=object)[:-1])
    return CheckedBound(dual_value(problem, moved, Fraction(root_up(square, 2))), 0)


class CheckedNetwork(NamedTuple):
    """‖W‖² with a penalised output bias; max |f(x_i) − y_i|; C(f) from above; ‖W‖² of some repair, or None.

    Neurons of squared norm ``repair`` make f pass through (X, Y) exactly; None when that is not bounded.
    """

    cost: Fraction
    residual: Fraction
    loss: Fraction | None
    repair: Fraction | None


def check_network(
    problem: Problem, hidden_weights: np.ndarray, output_weights: np.ndarray, output_bias: np.ndarray
) -> CheckedNetwork:
    """Evaluate f(x) = Σ_j max(w_j·(x, β), 0) v_j + β b on all rows in integers; the rows of arrays are w_j, v_j."""
    rows, first = integer_array(lift(problem))
    hidden, second = integer_array(hidden_weights)
    output, third = integer_array(output_weights)
    heights = np.maximum(rows.dot(hidden.T), 0) if len(hidden) else np.zeros((len(rows), 0), dtype=object)
    values = heights.dot(output) if len(hidden) else np.zeros(problem.Y.shape, dtype=object)
    shift = fractions(output_bias)
    outputs = values * (first * second * third) + Fraction(problem.bias) * np.array(shift, dtype=object)
    residual = outputs - np.array(fractions(problem.Y), dtype=object)
    cost = (hidden**2).sum() * second**2 + (output**2).sum() * third**2
    if problem.output_bias == "penalized":
        cost += dot(shift, shift)
    worst = abs(residual).max()
    if problem.loss is not None:
        return CheckedNetwork(cost, worst, loss_of(problem, outputs.tolist()), None)
    return CheckedNetwork(cost, worst, None, repair_above(problem, residual.tolist()))


def repair_above(problem: Problem, residual: Sequence[Sequence[Fraction]]) -> Fraction | None:
    """Bound ‖W‖² of some network through (X, residual) without output bias; None where it is not bounded.

    Along a direction e with different places p_i = e·x_i the piecewise linear function through the residuals is
    Σ_k c_k max(e·x − p_k, 0): neurons (e, −p_k/β), output weights c_k, balanced cost 2 Σ ‖c_k‖ sqrt(|e|² + p_k²/β²).
    The direction that separates the points best is taken from a few candidates.
    """
    if not any(value for row in residual for value in row):
        return Fraction(0)
    points: dict[tuple[Fraction, ...], Sequence[Fraction]] = {}
    for x, r in zip(fractions(problem.X), residual, strict=True):
        if points.setdefault(tuple(x), r) != r:
            return None
    width = problem.X.shape[1]
    tried = np.vstack([np.eye(width, dtype=int), np.random.default_rng(0).integers(-9999, 9999, (64, width))])
    places = np.sort(np.array([[float(v) for v in x] for x in points]) @ tried.T, axis=0)
    nearest = np.diff(places, axis=0).min(axis=0, initial=np.inf) / np.linalg.norm(tried, axis=1)
    direction = tried[nearest.argmax()].tolist()
    placed = sorted((dot(direction, x), list(r)) for x, r in points.items())
    if problem.bias <= 0 or len({place for place, _ in placed}) < len(placed):
        return None
    none = [Fraction(0)] * len(placed[0][1])
    start = 2 * placed[0][0] - placed[-1][0] - (len(placed) == 1)
    cost, slope, square = Fraction(0), none, Fraction(dot(direction, direction))
    for (left, low), (right, high) in zip([(start, none), *placed[:-1]], placed, strict=True):
        steeper = [(b - a) / (right - left) for a, b in zip(low, high, strict=True)]
        kink = sum((b - a) ** 2 for a, b in zip(slope, steeper, strict=True))
        cost += 2 * Fraction(root_up(kink * (square + (left / Fraction(problem.bias)) ** 2), 2))
        slope = steeper
    return cost
