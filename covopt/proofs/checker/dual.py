"""A dual point moved into its domain, and its value: from the maximum over all faces to a theorem.

For every network f = Σ_j v_j max(w_j·x̃, 0) + βb through the points, ⟨λ, Y⟩ is
Σ_j v_j Σ_i λ_i max(x̃_i·w_j, 0) + βb Σλ ≤ h Σ_j |v_j||w_j| + βb Σλ; with 2|v||w| ≤ |v|² + |w|² that is the bound of
:func:`dual_value`. With a loss, C(F) ≥ ⟨U, F⟩ − C*(U), U = −2 lam t λ, comes first.
Losses are those of :mod:`covopt.losses`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from covopt.proofs.checker.arithmetic import ZERO, Problem, dot, fractions, sqrt_above
from covopt.proofs.checker.covopt_check import SHARES
from covopt.proofs.checker.faces import square_above

LOSSES = (None, *SHARES)  # those with a proof
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
    """Return a lower bound on the problem, the value of the best multiple t λ with t · gauge ≤ 1.

    2t⟨λ, y⟩ − t²β²(Σλ)² without a loss, else −C*(−2 lam t λ) − lam t²β²(Σλ)²; the squares belong to a penalised
    output bias; ``dual`` comes from :func:`move_into_domain`, ``gauge`` bounds its h.
    """
    t, (slope, bend) = multiple(problem, dual, gauge), _parabola(problem, dual)
    return max(ZERO, t * slope - t * t * bend)


def multiple(problem: Problem, dual: Sequence[Fraction], gauge: Fraction) -> Fraction:
    """Return the t with t · gauge ≤ 1 for which tλ, in its domain, is worth most, if any is worth something."""
    longest, (slope, bend) = 1 / gauge if gauge > 0 else Fraction(1), _parabola(problem, dual)
    for u, (low, high) in zip(dual, domain(problem), strict=True):  # multiples end with the domain
        end = high if u > 0 else low
        longest = longest if not u or end is None else min(longest, end / u)
    return min(longest, slope / (2 * bend)) if bend and slope > 0 else longest


def _parabola(problem: Problem, dual: Sequence[Fraction]) -> tuple[Fraction, Fraction]:
    """Return a and b with which tλ, in its domain, is worth a t − b t²."""
    linear, lam = dot(dual, fractions(problem.Y[:, 0])), Fraction(problem.lam)
    square = (Fraction(problem.bias) * sum(dual, ZERO)) ** 2 if problem.output_bias == "penalized" else ZERO
    if problem.loss is None:
        return 2 * abs(linear), square  # −λ has the same h
    squares = sum((u * u / s for s, u in zip(weights_of(problem), dual, strict=True) if u), ZERO)
    return 2 * lam * linear, lam * lam * SHARES[problem.loss] * squares + lam * square


def loss_of(problem: Problem, outputs: Sequence[Sequence[Fraction]]) -> Fraction | None:
    """Return C(F); None for a loss without a proof."""
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
            else:
                total += s * (short if problem.loss == "hinge" else short * short)
    return total


def lift(problem: Problem) -> np.ndarray:
    """Return the rows x̃ = (x, β); x alone where β = 0."""
    return np.column_stack([problem.X, np.full((len(problem.X), int(problem.bias > 0)), problem.bias)])


class CheckedBound(NamedTuple):
    """The proved lower bound on ‖W‖² (on C(f) + lam ‖W‖²), and by how many boxes: none where faces prove it."""

    lower_bound: Fraction
    boxes: int


def check_by_faces(problem: Problem, dual: np.ndarray) -> CheckedBound:
    """Return the bound of a dual point whose h is found over all faces: no proof is needed for rows of few numbers.

    Raises ValueError for rows of more than three numbers with the bias, where the dual point has no value, and where
    moving it into its domain leaves what is no sum of floats.
    """
    if problem.Y.shape[1] != 1 or problem.loss not in LOSSES:
        raise ValueError("proofs are about one output, and about losses of one output")
    moved = move_into_domain(problem, dual)
    if any(value.denominator & (value.denominator - 1) for value in moved):
        raise ValueError("the dual point that was moved into its domain is not one of sums of floats")
    gauge = sqrt_above(square_above(lift(problem), np.array([*moved, None], dtype=object)[:-1]))
    return CheckedBound(dual_value(problem, moved, gauge), 0)
