r"""Multipliers for one box of shares: a second-order cone program with a cut for each tuple of classes and each atom.

maximise 2⟨λ, y⟩ − τ over λ of the given signs and the ν that :mod:`covopt.depth.shares` allows, subject to
c Σ_g κ_g ⟨ν_g, a⟩² + β² Σ_g κ_g (ν_g·1)² ≤ c + τ for every tuple, every atom a = a(w), ‖w‖ = 1, and c at both ends
of its interval. The atoms come from the shallow oracle; those of the box around go first. The multipliers of the cuts
say where in the box the relaxed optimum lies, and what it gains by not being one network: the box is cut there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse

from covopt.depth.shares import Box, classes_of, limits_of
from covopt.exact.parallel_rows import scaled_norms
from covopt.exact.rank import row_span
from covopt.limits import checkpoint
from covopt.oracles.choose import exact_oracle

ROUNDS = 15
CUTS_PER_TUPLE = 3
LARGE = 1e5  # more than a multiplier of a table of size one is worth
SAME = 1e-7
CLOSE = 2e-5  # of the cutoff: a program's value this near its bound is not cut further
ACTIVE = 1e-8


@dataclass
class Answer:
    """Multipliers of one box, what they are worth about, and where to cut it.

    Attributes
    ----------
    value : float
        Of the bound, to rounding.
    weights, bends : ndarray
        λ and ν.
    cuts : list of (tuple of int, int)
        Those that were active: numbers of a tuple's classes and of an atom.
    shares : ndarray of shape (groups,)
        S of the relaxed optimum.
    cost : float
        Its c.
    loss : ndarray of shape (groups + 1,)
        What the chords, and last the interval of c, gain for it.
    """

    value: float
    weights: np.ndarray
    bends: np.ndarray
    cuts: list[tuple[tuple[int, ...], int]]
    shares: np.ndarray
    cost: float
    loss: np.ndarray


class Program:
    """The programs of all boxes of a table.

    Parameters
    ----------
    lifted : ndarray of shape (n, D)
    targets : ndarray of shape (n,)
    bias : float
    penalized : bool
        Whether an output bias is there, and charged.
    positive : tuple of bool
    groups : tuple of tuple of int
    cutoff : float
    """

    def __init__(
        self,
        lifted: np.ndarray,
        targets: np.ndarray,
        bias: float,
        penalized: bool,
        positive: tuple[bool, ...],
        groups: tuple[tuple[int, ...], ...],
        cutoff: float,
    ) -> None:
        rows = np.ascontiguousarray(lifted @ row_span(lifted).T)
        self._size = float(np.abs(rows).max())
        self._unit = np.sqrt(cutoff) * self._size  # of ν
        self._cutoff, self._rows = cutoff, rows / self._size
        self._targets = targets / (cutoff * self._unit)
        self._shift = float(bias / self._unit) ** 2  # β² where M is in these units, times ν²
        self._penalty = self._shift / cutoff if penalized else 0.0
        self._positive, self._groups = positive, groups
        self._kinds = classes_of(positive)
        self._tuples = list(product(*groups))
        self._live = self._rows.any(axis=1)
        asked = np.ascontiguousarray(self._rows[self._live])
        self._oracle = exact_oracle(asked, 0 if len(groups) == 1 else len(groups), n_threads=1)
        units = scaled_norms(asked)[0]
        self._atoms = [np.maximum(self._rows @ w, 0.0) for w in np.concatenate([units, -units])]
        self._linear = self._inequalities()

    @property
    def start(self) -> list[tuple[tuple[int, ...], int]]:
        """The first cuts: atoms along the rows."""
        return [(chosen, k) for chosen in self._tuples for k in range(2 * int(self._live.sum()))]

    def _inequalities(self) -> np.ndarray:
        """Rows g with g·(λ, ν, τ) ≤ 0."""
        n = len(self._positive)
        size = n + len(self._kinds) * n + 1
        found = []

        def add(*entries: tuple[int, float]) -> None:
            row = np.zeros(size)
            for at, factor in entries:
                row[at] += factor
            found.append(row)

        for i, up in enumerate(self._positive):
            add((i, -1.0 if up else 1.0))
        for k, (sign, bits) in enumerate(self._kinds):
            for i, up in enumerate(self._positive):
                at = n + k * n + i
                if not bits >> i & 1:
                    add((at, 1.0))
                if bits >> i & 1 or up != (sign > 0):
                    add((i, float(sign)), (at, -1.0))
        return np.array(found)

    def solve(self, box: Box, cuts: list[tuple[tuple[int, ...], int]]) -> Answer:
        """Return the multipliers of a box.

        Parameters
        ----------
        box : Box
        cuts : list
            To begin with: those that were active on the box around, or :attr:`start`.
        """
        low, high = (np.array(side) / self._cutoff for side in (box.low, box.high))
        ends = sorted({box.least / self._cutoff, box.most / self._cutoff})
        kappa = np.maximum(0.5 * (low + high), 1e-12)
        chord = float((low * high / kappa).sum())
        best: Answer | None = None
        have = dict.fromkeys(cuts)
        for _ in range(ROUNDS):
            checkpoint()
            asked = list(have)
            x, z = self._conic(asked, ends, kappa)
            weights, bends = self._within(x)
            value, fresh = self._separate(weights, bends, kappa, ends, float(x[-1]), have)
            value += chord + 2.0 * float(weights @ self._targets) - self._penalty * float(weights.sum()) ** 2
            if best is None or value > best.value:
                shares, cost, loss = self._relaxed(asked, ends, kappa, low, high, bends, z)
                active = [cut for cut, m in zip(asked, z.max(axis=1), strict=True) if m > ACTIVE]
                best = Answer(value, weights, bends, active, shares, cost, loss)
            bound = chord + 2.0 * float(x[: len(weights)] @ self._targets) - float(x[-1])
            if not fresh or bound - value <= CLOSE:
                break
            have.update(dict.fromkeys(fresh))
        assert best is not None
        best.value *= self._cutoff
        best.weights, best.bends = best.weights / self._unit, best.bends / self._unit
        best.shares, best.loss = best.shares * self._cutoff, best.loss * self._cutoff
        best.cost *= self._cutoff
        return best

    def _conic(
        self, cuts: list[tuple[tuple[int, ...], int]], ends: list[float], kappa: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Solve the program on some cuts; return its point, and the multipliers, one for each cut and end of c."""
        import clarabel

        n, size = len(self._positive), self._linear.shape[1]
        groups = len(self._groups)
        biased = self._shift > 0.0
        # (c + τ + 1, c + τ − 1, 2r) in the cone says ‖r‖² ≤ c + τ
        height = 2 + groups * (1 + biased) + (self._penalty > 0.0)
        cones = np.zeros((len(cuts) * len(ends), height, size))
        right = np.zeros((len(cones), height))
        cones[:, :2, -1] = -1.0
        at = 0
        for chosen, k in cuts:
            atom = self._atoms[k]
            for c in ends:
                right[at, 0], right[at, 1] = c + 1.0, c - 1.0
                for g, kind in enumerate(chosen):
                    place = slice(n + kind * n, n + kind * n + n)
                    cones[at, 2 + g, place] = -2.0 * np.sqrt(c * kappa[g]) * atom
                    if biased:
                        cones[at, 2 + groups + g, place] = -2.0 * np.sqrt(self._shift * kappa[g])
                at += 1
        if self._penalty > 0.0:
            cones[:, -1, :n] = -2.0 * np.sqrt(self._penalty)
        boxed = np.zeros((2 * n + 1, size))
        boxed[:n, :n], boxed[n : 2 * n, :n], boxed[-1, -1] = np.eye(n), -np.eye(n), -1.0
        matrix = np.vstack([self._linear, boxed, cones.reshape(-1, size)])
        bound = np.concatenate([np.zeros(len(self._linear)), np.full(len(boxed), LARGE), right.ravel()])
        cost = np.zeros(size)
        cost[:n], cost[-1] = -2.0 * self._targets, 1.0
        kinds: list[Any] = [clarabel.NonnegativeConeT(len(self._linear) + len(boxed))]
        kinds += [clarabel.SecondOrderConeT(height)] * len(cones)
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        answer = clarabel.DefaultSolver(
            sparse.csc_matrix((size, size)), cost, sparse.csc_matrix(matrix), bound, kinds, settings
        ).solve()
        x, z = np.nan_to_num(np.array(answer.x)), np.nan_to_num(np.array(answer.z))
        z = z[len(self._linear) + len(boxed) :].reshape(-1, height)
        return x, (z[:, 0] + z[:, 1]).reshape(len(cuts), len(ends))

    def _within(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return λ and ν moved to where they are allowed."""
        n = len(self._positive)
        weights = np.where(self._positive, np.maximum(x[:n], 0.0), np.minimum(x[:n], 0.0))
        low, high = limits_of(self._positive, weights)
        return weights, np.clip(x[n:-1].reshape(-1, n), low, high)

    def _separate(
        self,
        weights: np.ndarray,
        bends: np.ndarray,
        kappa: np.ndarray,
        ends: list[float],
        tau: float,
        have: dict[tuple[tuple[int, ...], int], None],
    ) -> tuple[float, list[tuple[tuple[int, ...], int]]]:
        """Return the least of c(1 − h²) − β²Σκ(ν·1)², and cuts that the point violates."""
        worst, fresh = np.inf, []
        for chosen in self._tuples:
            checkpoint()
            asked = bends[list(chosen)].T * np.sqrt(kappa)
            shift = self._shift * float(kappa @ bends[list(chosen)].sum(axis=1) ** 2)
            atoms, heights = self._price(asked)
            lows = np.min([[c * (1.0 - height) - shift for height in heights] for c in ends], axis=0)
            worst = min(worst, float(lows.min()))
            for k in np.argsort(lows, kind="stable")[:CUTS_PER_TUPLE]:
                if heights[k] > 0.0 and lows[k] < -tau - SAME:
                    cut = (chosen, self._number(atoms[k]))
                    if cut not in have:
                        fresh.append(cut)
        return worst, fresh

    def _price(self, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return atoms at local maxima, and Σ_g κ_g⟨ν_g, a⟩² there."""
        live = np.ascontiguousarray(asked[self._live])
        if not live.any():
            return np.zeros((1, len(asked))), np.zeros(1)
        neurons = self._oracle.price(live[:, 0].copy() if live.shape[1] == 1 else live).neurons
        if not len(neurons):
            return np.zeros((1, len(asked))), np.zeros(1)
        atoms = np.maximum(neurons @ self._rows.T, 0.0)
        return atoms, ((atoms @ asked) ** 2).sum(axis=1)

    def _number(self, atom: np.ndarray) -> int:
        """Return an atom's place in the pool, where it is put if it is new."""
        misses = np.abs(np.array(self._atoms) - atom).max(axis=1)
        near = int(np.argmin(misses))
        if misses[near] <= SAME:
            return near
        self._atoms.append(atom)
        return len(self._atoms) - 1

    def _relaxed(
        self,
        cuts: list[tuple[tuple[int, ...], int]],
        ends: list[float],
        kappa: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        bends: np.ndarray,
        z: np.ndarray,
    ) -> tuple[np.ndarray, float, np.ndarray]:
        """Return S and c of the relaxed optimum, and what it gains by the chords and by the interval of c."""
        squares, cost = np.zeros(len(kappa)), 0.0
        spent: dict[tuple[int, ...], np.ndarray] = {}
        for k, (chosen, atom) in enumerate(cuts):
            for e, c in enumerate(ends):
                m = z[k, e]
                nu = bends[list(chosen)]
                squares += (
                    kappa**2 * m * (c * (nu @ self._atoms[atom]) ** 2 + self._shift * nu.sum(axis=1) ** 2)
                )
                spent[chosen] = spent.get(chosen, np.zeros(2)) + m * np.array([1.0, c])
                cost += m * c
        share = np.clip(np.sqrt(np.maximum(squares, 0.0)), low, high)
        loss = np.zeros(len(kappa) + 1)
        loss[:-1] = np.maximum(2.0 * share - (share**2 + low * high) / kappa, 0.0)
        if len(self._tuples) > 1 and self._shift > 0.0:
            for chosen, (weight, own) in spent.items():
                if weight > 1e-6:
                    asked = bends[list(chosen)].T * np.sqrt(kappa)
                    loss[-1] += abs(own - weight * cost) * abs(1.0 - float(self._price(asked)[1].max()))
        return share, cost, loss
