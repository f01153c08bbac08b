"""Explicit neurons, lower bounds on the dual norm: max over w of |⟨λ, σ(X̃w)⟩| / ω(w).

Any vector w is a witness: its value is computed in integers, so a bound below it is refuted. The search for w shares
no code with the oracles. Candidates are the null vectors of D − 1 rows (vertices) and, in the cells around each
vertex, the projections of the gradient on the spans of the vertex's faces, all in integers. For tables in general
position these are all cells, so that the best neuron is the maximum.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from math import isqrt, log2

import numpy as np

from benchmarks.adversary.exactly import direction, positive, shortest, squares, whole
from covopt.exact.elimination import bareiss

MOST_VERTICES = 64


@dataclass(frozen=True)
class Witness:
    """A neuron as an integer vector, and the square of its value |F(w)|/ω(w)."""

    neuron: np.ndarray
    square: Fraction

    def exceeds(self, bound: float) -> bool:
        """Return whether the neuron's value exceeds the bound, in exact arithmetic."""
        return bool(np.isfinite(bound)) and self.square > Fraction(float(bound)) ** 2

    @property
    def value(self) -> float:
        """The value in double precision, for the report."""
        n, d = self.square.numerator, self.square.denominator
        bits = max(0, 120 - (n.bit_length() - d.bit_length()))
        bits += bits & 1
        try:
            return float(Fraction(isqrt((n << bits) // d), 1 << (bits // 2)))
        except OverflowError:
            return np.inf


def best_neuron(
    rows: np.ndarray, dual: np.ndarray, rng: np.random.Generator, potential: str = "variation"
) -> Witness | None:
    """Return the best neuron found for a dual point (N,) or (N, k) on lifted rows, or None if all values vanish."""
    dual = np.asarray(dual, dtype=float)
    if dual.ndim == 2 and dual.shape[1] == 1:
        dual = dual[:, 0]
    if not np.any(dual) or not np.any(rows):
        return None
    return _vector(rows, dual, rng) if dual.ndim == 2 else _scalar(rows, dual, rng, potential)


def good_neurons(rows: np.ndarray, dual: np.ndarray, rng: np.random.Generator, most: int = 120) -> np.ndarray:
    """Return integer neurons (m, D) with large |F|/‖w‖: columns for a linear program."""
    table = _Table(rows, np.asarray(dual, dtype=float), "variation")
    candidates = table.candidates(rng)
    if not len(candidates):
        return candidates
    return candidates[np.argsort(-table.guesses(candidates), kind="stable")[:most]]


def _scalar(rows: np.ndarray, dual: np.ndarray, rng: np.random.Generator, potential: str) -> Witness | None:
    table = _Table(rows, dual, potential)
    candidates = table.candidates(rng)
    return None if not len(candidates) else table.best(candidates)


def _vector(rows: np.ndarray, dual: np.ndarray, rng: np.random.Generator) -> Witness | None:
    """Alternate between the best output direction for a neuron and the best neurons for an output direction."""
    table = _VectorTable(rows, dual)
    scale = np.abs(dual).max(axis=0)
    starts = [np.eye(dual.shape[1])[i] for i in range(dual.shape[1])] + [rng.standard_normal(dual.shape[1])]
    best = None
    for start in starts:
        towards = start / np.where(scale > 0, scale, 1.0)
        for _ in range(3):
            with np.errstate(over="ignore", invalid="ignore"):
                scalar = dual @ (towards / np.abs(towards).max())
            if not np.isfinite(scalar).all() or not scalar.any():
                break
            found = _scalar(rows, scalar, rng, "variation")
            if found is None:
                break
            square, pulled = table.value(found.neuron)
            if best is not None and square <= best.square:
                break
            best = Witness(found.neuron, square)
            size = max(abs(p) for p in pulled)
            if not size:
                break
            towards = np.array([float(Fraction(p, size)) for p in pulled])
    return best


class _VectorTable:
    def __init__(self, rows: np.ndarray, dual: np.ndarray):
        self.rows, low = whole(rows)
        self.dual, other = whole(dual)
        self.unit = Fraction(1, 4 ** (low + other))

    def value(self, neuron: np.ndarray) -> tuple[Fraction, np.ndarray]:
        pulled = positive(self.rows @ neuron) @ self.dual
        return Fraction(int((pulled * pulled).sum()), int((neuron * neuron).sum())) * self.unit, pulled


class _Table:
    """Rows |λ_i| x_i and x_i as integers."""

    def __init__(self, rows: np.ndarray, dual: np.ndarray, potential: str):
        self.potential = potential
        live = np.flatnonzero(np.any(rows != 0, axis=1) & ((dual != 0) | (potential != "variation")))
        plain, low = whole(rows[live])
        sizes, other = whole(np.abs(dual[live]))
        self.signs = np.where(dual[live] < 0, -1, 1).astype(object)
        self.rows = plain
        self.pull = plain * sizes[:, None]  # |λ_i| x_i
        self.weights = sizes * self.signs
        self.n_samples = len(rows)
        self.low = low
        self.unit = Fraction(1, 4 ** (low + other))

    # ------------------------------------------------------------------ values
    def best(self, neurons: np.ndarray) -> Witness:
        """Return the best neuron; compare n/d > n'/d' in integers, by cross products."""
        neurons = shortest(neurons)
        tops, bottoms = self._fractions(neurons)
        best = -1
        guess = np.array([_ratio(t, b) for t, b in zip(tops, bottoms, strict=True)])
        for j in np.argsort(-guess)[:16]:
            if bottoms[j] > 0 and (best < 0 or tops[j] * bottoms[best] > tops[best] * bottoms[j]):
                best = int(j)
        return Witness(neurons[best], Fraction(int(tops[best]), int(bottoms[best])) * self._unit)

    def guesses(self, neurons: np.ndarray) -> np.ndarray:
        """Return log₂ of the squared values."""
        return np.array([_ratio(t, b) for t, b in zip(*self._fractions(shortest(neurons)), strict=True)])

    def _fractions(self, neurons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        heights = positive(neurons @ self.rows.T)
        totals = heights @ self.weights
        return totals * totals, self._omega(neurons, heights)

    @property
    def _unit(self) -> Fraction:
        if self.potential == "variation":
            return self.unit
        # ω² is one mean of squares of rows (printed) or two (exact)
        mean = self.n_samples * 4**self.low
        return self.unit * mean * (mean if self.potential == "label-noise-exact" else 1)

    def _omega(self, neurons: np.ndarray, heights: np.ndarray) -> np.ndarray:
        if self.potential == "variation":
            return squares(neurons)
        total = (heights * heights).sum(axis=1)
        if self.potential == "label-noise-exact":
            lengths = squares(self.rows)
            total = total * ((heights > 0).astype(object) * lengths).sum(axis=1)
        return total

    # ------------------------------------------------------------------ candidates
    def candidates(self, rng: np.random.Generator) -> np.ndarray:
        dim = self.rows.shape[1]
        walls = self._walls()
        total = self.pull.T @ self.signs
        found = [total, -total]
        if dim == 1:
            found += [np.array([1], dtype=object), np.array([-1], dtype=object)]
            return _nonzero(np.array(found, dtype=object))
        subsets = list(combinations(range(len(walls)), dim - 1))
        if len(subsets) > MOST_VERTICES:
            subsets = [subsets[i] for i in rng.choice(len(subsets), MOST_VERTICES, replace=False)]
        bases = [_null_basis(walls[list(subset)]) for subset in subsets]
        picked = np.array([subset for subset, basis in zip(subsets, bases, strict=True) if len(basis) == 1])
        if not len(picked):
            return _nonzero(np.array(found, dtype=object))
        null = shortest(np.concatenate([basis for basis in bases if len(basis) == 1]))
        parts = [np.array(found, dtype=object), null, -null]
        weights = np.zeros((len(walls), dim), dtype=object)
        weights[: len(self.pull)] = self.pull * self.signs[:, None]
        for sign in (1, -1):
            heights = (sign * null) @ walls.T
            active = heights > 0
            for on in product((False, True), repeat=dim - 1):
                state = active.copy()
                np.put_along_axis(state, picked, np.broadcast_to(on, picked.shape), axis=1)
                gradient = state.astype(object) @ weights
                for kept in range(dim - 1):
                    for which in combinations(range(dim - 1), kept):
                        fixed = walls[picked[:, list(which)]]
                        parts.extend(self._tops(gradient, fixed, state))
        return _nonzero(np.concatenate(parts))

    def _walls(self) -> np.ndarray:
        """Return the rows; if they do not span, add unit vectors, which give more faces and the same maximum."""
        dim = self.rows.shape[1]
        if exact_rank(self.rows) == dim:
            return self.rows
        return np.concatenate([self.rows, np.eye(dim, dtype=int).astype(object)])

    def _tops(self, gradient: np.ndarray, fixed: np.ndarray, state: np.ndarray) -> list[np.ndarray]:
        """Return ± the maximiser of ⟨gradient, w⟩/ω(w) over the null space of the fixed rows."""
        if self.potential == "variation":
            top = _project(gradient, fixed)
            return [top, -top]
        tops = []
        for g, rows, on in zip(gradient, fixed, state[:, : len(self.rows)], strict=True):
            active = self.rows[on]
            if not len(active):
                continue
            basis = _null_basis(rows)
            heights = active @ basis.T
            solved, pivots, _ = bareiss(np.column_stack([heights.T @ heights, basis @ g]), len(basis))
            top = np.array([row[-1] for row in solved], dtype=object)
            if len(pivots) == len(basis) and any(top):
                tops.append((top @ basis)[None])
        return tops + [-top for top in tops]


def _ratio(top: int, bottom: int) -> float:
    if bottom <= 0 or top <= 0:
        return -np.inf
    return log2(top) - log2(bottom)


def _nonzero(vectors: np.ndarray) -> np.ndarray:
    return vectors[[any(v) for v in vectors]]


def _project(gradient: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    """Return positive multiples of the projections of gradients on null spaces of fixed rows (m, q, D), q ≤ 2."""
    q = fixed.shape[1]
    if q == 0:
        return gradient
    heights = np.stack([(fixed[:, i] * gradient).sum(axis=1) for i in range(q)], axis=1)
    if q == 1:
        return squares(fixed[:, 0])[:, None] * gradient - heights * fixed[:, 0]
    a, b = fixed[:, 0], fixed[:, 1]
    aa, bb, ab = squares(a), squares(b), (a * b).sum(axis=1)
    det = aa * bb - ab * ab
    first, second = bb * heights[:, 0] - ab * heights[:, 1], aa * heights[:, 1] - ab * heights[:, 0]
    return det[:, None] * gradient - first[:, None] * a - second[:, None] * b


def _null_basis(rows: np.ndarray) -> np.ndarray:
    """Return integer vectors that span the null space of rows (q, D)."""
    work, pivots, pivot = bareiss(rows, rows.shape[1])
    free = [column for column in range(rows.shape[1]) if column not in pivots]
    basis = np.zeros((len(free), rows.shape[1]), dtype=object)
    for vector, column in zip(basis, free, strict=True):
        vector[column] = pivot
        vector[pivots] = [-row[column] for row in work[: len(pivots)]]
    return basis


def exact_rank(rows: np.ndarray) -> int:
    """Return the rank of integer rows."""
    return len(bareiss(rows, rows.shape[1])[1])


def value_of(rows: np.ndarray, dual: np.ndarray, neuron: np.ndarray) -> Fraction:
    """Return (|⟨λ, σ(X̃w)⟩|/‖w‖)² of a neuron given in floats, variation norm, to check reported values."""
    table = _VectorTable(rows, np.asarray(dual, dtype=float).reshape(len(rows), -1))
    return table.value(direction(neuron))[0]
