r"""A certified upper bound on h(λ) = max over ‖w‖ ≤ 1 of |Σ λ_i σ(x_i·w)|, for any table and any dimension.

The search decides G ≤ H for one H. The H asked for first is the best local maximum plus the tolerance, for a proof
costs hardly more at 10⁻⁶ than at 10⁻²; a point above H raises it and the search goes on. Where that takes too many
boxes, the geometric mean of the value and the bound is proved, again and again; the last one proved is the answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from covopt.errors import InputError
from covopt.oracles.cones.kernel import margin
from covopt.oracles.cones.search import search
from covopt.oracles.coordinates import Transfer, transfer
from covopt.oracles.local_search import climb
from covopt.oracles.remembered import remember

DEFAULT_NODES = 5_000_000
DIRECT = 4  # that part of the boxes goes to the H that is wanted, at once
NEAR = 1.01  # over the value: a mean below it is not worth a search of its own
SHARP = 1e-11  # what that may leave: near a single maximum it takes no more boxes than 1e-8
MOST_DIMENSIONS = 100  # beyond, boxes prove nothing that norms do not
STARTS = 64
TYPICAL = 24  # undecided rows of a box at a maximum, for the smallest H that rounding lets through


@dataclass(frozen=True)
class GaugeBound:
    """What was proved about h(λ).

    Attributes
    ----------
    upper_bound : float
        h(λ) does not exceed it, in exact arithmetic for the floats given.
    best_neuron : ndarray of shape (D,)
        Unit direction with the largest |F| met; zeros when none was looked at.
    best_value : float
        F there, signed, in floating point.
    nodes : int
        Boxes looked at.
    closed : bool
        True when the bound is within ``rtol`` of the best value.
    """

    upper_bound: float
    best_neuron: np.ndarray
    best_value: float
    nodes: int
    closed: bool


@dataclass(frozen=True)
class BoxBound(GaugeBound):
    """A bound by boxes, and the coordinates in which they are.

    Attributes
    ----------
    transfer : Transfer
        V, y, signs, linear, and what they cost.
    """

    transfer: Transfer


def evaluate(rows: np.ndarray, dual: np.ndarray, neuron: np.ndarray) -> float:
    """F(w) at a neuron of length one, in floating point."""
    with np.errstate(over="ignore", invalid="ignore"):
        heights = np.maximum(rows @ neuron, 0.0)
        return float(dual @ heights)


class Scalar:
    """G with the rows that count, as the search and the climbs want it."""

    def __init__(self, made: Transfer):
        keep = made.signs != 0
        self.y, self.linear = np.ascontiguousarray(made.y[keep]), np.ascontiguousarray(made.linear)
        self.signs = made.signs[keep].astype(float)
        self.sizes = np.abs(self.y).sum(axis=0) + np.abs(self.linear)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """G at each point."""
        return np.maximum(points @ self.y.T, 0.0) @ self.signs + points @ self.linear

    def rounding(self, H: float, point: np.ndarray | None) -> float:
        """Distance to the maximum, at ``point``, at which a search can end; anywhere without a point."""
        u = np.ones(len(self.sizes)) if point is None else point / np.abs(point).max()
        return 2.0 * float(margin(TYPICAL, self.sizes, u, np.zeros(len(u)), H))

    def norms(self) -> float:
        """Bound |G(u)|/‖u‖ by sums of norms."""
        lengths = np.linalg.norm(self.y, axis=1)
        sums = [float(lengths[self.signs == sign].sum()) for sign in (1.0, -1.0)]
        return (max(sums) + float(np.linalg.norm(self.linear))) * (1.0 + (len(lengths) + 16) * 2.0**-52)

    def starts(self, random: np.random.Generator) -> np.ndarray:
        """Directions to climb from: the rows that weigh most, random ones, random ones where the rows are round."""
        r = self.y.shape[1]
        heavy = self.y[np.argsort(-np.linalg.norm(self.y, axis=1))[: STARTS // 4]]
        normal = random.standard_normal((STARTS // 4, r))
        width = np.linalg.norm(self.y, axis=0)
        width = np.where(width > 0.0, width, 1.0)
        lead = (self.signs @ self.y)[None] + self.linear
        return np.concatenate([heavy, normal, normal * (width.max() / width), lead])

    def ascend(self, starts: np.ndarray) -> np.ndarray:
        """Climb on |G| from points, each with the sign that G has there; return unit points."""
        norms = np.linalg.norm(starts, axis=1)
        starts = starts[norms > 0.0] / norms[norms > 0.0, None]
        own = self(starts) >= 0.0
        ends = [np.eye(1, self.y.shape[1])]
        for sign, chosen in ((1.0, own), (-1.0, ~own)):
            points = climb(self.y, sign * self.signs, sign * self.linear, starts[chosen], n_threads=1)[0]
            ends.append(points / np.linalg.norm(points, axis=1, keepdims=True))
        return np.concatenate(ends)


def box_gauge(
    rows: np.ndarray,
    dual: np.ndarray,
    *,
    neurons: np.ndarray | None = None,
    rtol: float = 1e-9,
    max_nodes: int = DEFAULT_NODES,
    n_threads: int = 1,
    random_state: int = 0,
) -> BoxBound:
    r"""Bound h(λ) = max over ‖w‖₂ ≤ 1 of |Σ_i λ_i σ(x_i·w)| from above.

    The bound holds in exact arithmetic for the rows and the dual as given: the coordinates and every rounding are
    paid for (:mod:`covopt.oracles.coordinates`, :mod:`covopt.oracles.cones.kernel`), about 10⁻¹⁴ Σ|λ_i|‖x_i‖ in
    all. It is valid whatever the number of boxes; that number, at 1–2 µs a box, decides how tight it is.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        x_i, with their bias coordinate; of any scale, dependent or repeated rows included.
    dual : ndarray of shape (N,)
        λ.
    neurons : ndarray of shape (m, D), optional
        Directions to try beside those of a local search.
    rtol : float
        Wanted distance of the bound to the largest |F| met, relative. Where the maximum is one point, the bound comes
        closer (:data:`SHARP`), with no more boxes.
    max_nodes : int
        Boxes.
    n_threads : int
        Changes nothing in the answer.
    random_state : int
        For the local search.

    Raises
    ------
    InputError
        For arrays of the wrong shape, infinite or missing numbers.

    Examples
    --------
    >>> import numpy as np
    >>> answer = box_gauge(np.eye(2), np.array([3.0, 4.0]))
    >>> answer.closed, 5.0 <= answer.upper_bound <= 5.00000001
    (True, True)
    >>> answer.best_neuron.round(9), round(answer.best_value, 9)
    (array([0.6, 0.8]), 5.0)
    """
    rows, dual = validated(rows, dual, rtol, max_nodes)
    made = transfer(rows, dual)
    d = rows.shape[1]
    if made.V.shape[1] == 0:
        return BoxBound(0.0, np.zeros(d), 0.0, 0, True, made)
    scalar = Scalar(made)
    best = _Best(rows, dual, made)
    tried = np.zeros((0, made.V.shape[1]))
    if neurons is not None and len(neurons):
        tried = np.asarray(neurons, dtype=float) @ made.V
    starts = scalar.starts(np.random.default_rng(random_state))
    wanted = best.offer(scalar.ascend(np.concatenate([tried, starts, -starts])), scalar)
    trivial = scalar.norms()
    wanted = min(max(wanted, 2.0**-40 * trivial), trivial)
    bound, nodes = trivial, 0
    if made.V.shape[1] <= MOST_DIMENSIONS:
        bound, nodes = _prove(scalar, best, wanted, rtol, max_nodes, n_threads)
    upper = made.lift(bound)
    closed = upper <= (1.0 + rtol) * abs(best.height)
    return BoxBound(upper, best.neuron, best.height, nodes, closed, made)


def _prove(
    scalar: Scalar, best: _Best, wanted: float, rtol: float, max_nodes: int, n_threads: int
) -> tuple[float, int]:
    """Return the smallest bound that was proved, at most that of the sums of norms, and the boxes looked at."""
    lowest, nodes = scalar.norms(), 0

    def ask(H: float, budget: int, rtol: float = rtol) -> bool:
        nonlocal lowest, nodes
        found = search(
            scalar.y,
            scalar.signs,
            scalar.linear,
            H * (1.0 + 0.5 * rtol) + scalar.rounding(H, best.point),
            max_nodes=budget,
            growth=1.0 + 0.5 * rtol,
            n_threads=n_threads,
        )
        nodes += found.nodes
        best.offer(found.points, scalar)
        if found.upper_bound < lowest:
            lowest = found.upper_bound
            remember(best.rows, best.dual, best.made.lift(lowest))
        return found.finished

    if ask(wanted, max(max_nodes // DIRECT, 1), min(rtol, SHARP)):
        return lowest, nodes
    while nodes < max_nodes:
        base = max(best.value, wanted)
        mean = math.sqrt(base * lowest)
        if not ask(mean if mean > NEAR * base else base, max_nodes - nodes) or mean <= NEAR * base:
            break
    return lowest, nodes


class _Best:
    """The largest |F| met, and where."""

    def __init__(self, rows: np.ndarray, dual: np.ndarray, made: Transfer):
        self.rows, self.dual, self.made = rows, dual, made
        self.value = 0.0
        self.point: np.ndarray | None = None
        self.height = 0.0
        self.neuron = np.zeros(rows.shape[1])

    def offer(self, points: np.ndarray, scalar: Scalar) -> float:
        """Keep the best of unit points u; return the largest |G| so far."""
        if len(points):
            values = np.abs(scalar(points)) / np.maximum(np.linalg.norm(points, axis=1), 2.0**-500)
            top = int(values.argmax())
            if values[top] > self.value:
                self.value = float(values[top])
                self.point = points[top]
                neuron = self.made.V @ points[top]
                self.neuron = neuron / np.linalg.norm(neuron)
                self.height = evaluate(self.rows, self.dual, self.neuron)
                if not np.isfinite(self.height):
                    with np.errstate(over="ignore"):
                        self.height = float(np.ldexp(scalar(points[top][None])[0], self.made.exponent))
        return self.value


def validated(
    rows: np.ndarray, dual: np.ndarray, rtol: float, max_nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Check the arguments of the oracles of this package."""
    rows = np.ascontiguousarray(rows, dtype=float)
    dual = np.ascontiguousarray(dual, dtype=float)
    if rows.ndim != 2 or dual.shape != (len(rows),):
        raise InputError(
            f"rows must have shape (N, D) and dual shape (N,); received {rows.shape} and {dual.shape}: "
            "give one multiplier per row."
        )
    if not (np.isfinite(rows).all() and np.isfinite(dual).all()):
        raise InputError(
            "rows and dual must be finite; received infinite or missing numbers: remove those rows."
        )
    if not rtol > 0.0 or max_nodes < 1:
        raise InputError(f"rtol and max_nodes must be positive; received {rtol} and {max_nodes}: raise them.")
    return rows, dual
