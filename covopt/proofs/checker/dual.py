"""A dual point moved into its domain, and its value; losses are those of :mod:`covopt.losses`."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from covopt.proofs.checker.arithmetic import ZERO, dot, exp_bounds, float_below, fractions, log_above
from covopt.proofs.choice import best_multiple, conjugate_slope
from covopt.proofs.problem import Problem

LOSSES = (None, "squared", "huber", "hinge", "squared-hinge", "logistic")  # those with a proof
QUARTERS = {"squared": 1, "huber": 2, "hinge": 0, "squared-hinge": 1}  # of u²/s in C*
Bound = Fraction | None  # None is infinite


def weights_of(problem: Problem) -> list[Fraction]:
    """Return the weights of the mean in C."""
    weights = fractions(np.ones(len(problem.X)) if problem.sample_weight is None else problem.sample_weight)
    total = sum(weights, ZERO)
    return [weight / total for weight in weights]


def move_into_domain(problem: Problem, dual: np.ndarray) -> list[Fraction]:
    """Clip a dual point, floats (N,) or sums of two (N, 2), to where C*(−2 lam λ) is finite; to sum 0 if free.

    What this changes is not lost: h is bounded for the point that is returned.
    Raises ValueError when no such point was found: outside the domain the bound is −∞.
    """
    bounds = domain(problem)
    whole = [sum(parts, ZERO) for parts in fractions(dual.reshape(len(dual), -1))]
    moved = [_clip(value, bound) for value, bound in zip(whole, bounds, strict=True)]
    rest = -sum(moved, ZERO) if problem.output_bias == "free" else ZERO
    for i in np.argsort(np.abs(problem.X).sum(axis=1), kind="stable").tolist():
        new = _clip(moved[i] + rest, bounds[i])
        rest, moved[i] = rest + moved[i] - new, new
    if rest:
        raise ValueError("the dual point cannot be moved to sum zero within the domain of the loss")
    return moved


def domain(problem: Problem) -> list[tuple[Bound, Bound]]:
    """Return between which numbers each multiplier may be for C*(−2 lam λ) to be finite."""
    if problem.loss is None:
        return [(None, None)] * len(problem.X)
    bounds: list[tuple[Bound, Bound]] = []
    for s, y in zip(weights_of(problem), problem.Y[:, 0].tolist(), strict=True):
        end = s / (2 * Fraction(problem.lam)) * (Fraction(problem.delta) if problem.loss == "huber" else 1)
        has_end = not s or problem.loss not in ("squared", "squared-hinge")
        low, high = (-end, end) if has_end else (None, None)
        if problem.loss not in ("squared", "huber"):
            low, high = (ZERO, high) if y > 0 else (low, ZERO)
        bounds.append((low, high))
    return bounds


def _clip(value: Fraction, bound: tuple[Bound, Bound]) -> Fraction:
    low, high = bound
    value = value if low is None else max(value, low)
    return value if high is None else min(value, high)


def dual_value(problem: Problem, dual: Sequence[Fraction], gauge: Fraction) -> Fraction:
    """Return a lower bound on the problem, the value of a multiple t λ with t · gauge ≤ 1.

    2t⟨λ, y⟩ − t²β²(Σλ)² without a loss, else −C*(−2 lam t λ) − lam t²β²(Σλ)²; the squares belong to a penalised
    output bias; ``dual`` comes from :func:`move_into_domain`, ``gauge`` bounds its h; logarithms are rounded up. The
    multiple is the best one, as in a certificate.
    """
    targets, lam = fractions(problem.Y[:, 0]), Fraction(problem.lam)
    square = (Fraction(problem.bias) * sum(dual, ZERO)) ** 2 if problem.output_bias == "penalized" else ZERO
    t = multiple(problem, dual, gauge)
    if problem.loss is None:
        return max(ZERO, 2 * t * abs(dot(dual, targets)) - t * t * square)  # −λ has the same h
    value = -lam * t * t * square
    for s, y, u in zip(weights_of(problem), targets, (-2 * lam * t * u for u in dual), strict=True):
        if u and problem.loss == "logistic":
            value -= s * sum(p * log_above(p) for p in (-u * y / s, 1 + u * y / s) if p)
        elif u:
            value -= u * y + u * u / s * Fraction(QUARTERS[str(problem.loss)], 4)
    return max(ZERO, value)


def multiple(problem: Problem, dual: Sequence[Fraction], gauge: Fraction) -> Fraction:
    """Return the t with t · gauge ≤ 1 and tλ in its domain for which the value of tλ is largest, nearly."""
    targets, lam = fractions(problem.Y[:, 0]), Fraction(problem.lam)
    square = (Fraction(problem.bias) * sum(dual, ZERO)) ** 2 if problem.output_bias == "penalized" else ZERO
    longest = 1 / gauge if gauge > 0 else Fraction(1)
    if problem.loss is None:
        return min(longest, abs(dot(dual, targets)) / square) if square else longest
    weights, quarters = weights_of(problem), QUARTERS.get(str(problem.loss))
    for u, (low, high) in zip(dual, domain(problem), strict=True):  # multiples end with the domain
        end = high if u > 0 else low
        longest = longest if not u or end is None else min(longest, end / u)
    terms = zip(weights, targets, (-2 * lam * u for u in dual), strict=True)
    floats = [(float(s), float(y), float(u)) for s, y, u in terms if u]

    def rise(t: float) -> float:
        slopes = (u * conjugate_slope(quarters, s, y, t * u) for s, y, u in floats)
        return -float(2 * lam * square) * t - sum(slopes)

    return Fraction(best_multiple(rise, float_below(longest)))


def loss_above(problem: Problem, outputs: Sequence[Sequence[Fraction]]) -> Fraction | None:
    """Return C(F), exactly or (logistic) from above; None for a loss without a proof."""
    if problem.loss not in LOSSES[1:]:
        return None
    total, delta = ZERO, Fraction(problem.delta)
    for s, row, goals in zip(weights_of(problem), outputs, fractions(problem.Y), strict=True):
        for f, y in zip(row, goals, strict=True):
            size, short = abs(f - y), max(ZERO, 1 - y * f)
            if problem.loss == "squared":
                total += s * size * size
            elif problem.loss == "huber":
                total += s * (size * size / 2 if size <= delta else delta * (size - delta / 2))
            elif problem.loss == "logistic":  # log(1 + exp z); where z is far from zero, max(z, 0) is near
                z = max(-y * f, Fraction(-40))
                total += s * (log_above(1 + exp_bounds(z)[1]) if z < 40 else z + Fraction(1, 1 << 57))
            else:
                total += s * (short if problem.loss == "hinge" else short * short)
    return total
