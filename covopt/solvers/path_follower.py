"""Rounds from a warm start: exact masters with the curvature of the faces, priced until the gap is small.

From the solution for another λ, the iterates of an interior-point method start too far inside. Here the first master
takes the columns that were nearly tight there; then each round prices its dual, adds the new local maxima and their
curvature, so that neurons move within their faces instead of being approximated by ever more columns. Without the
curvature, columns from the same start leave a gap of 1.2 % for 10 000 × 8 at half of λ_max, 5e-6 for 5000 × 8 and
5 % for 5000 × 2 in the time in which this method certifies them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from covopt.exact.rank import FOUND, NEAR
from covopt.oracles.base import Pricing
from covopt.solvers.active_set import Curvature, NewtonPoint, solve_newton_master
from covopt.solvers.loop import WarmStart
from covopt.solvers.master.columns import Columns, Tangents

TIGHT = 0.9  # least height of columns that are kept, in these rounds and for the next solve
INHERITED = 0.03  # largest distance of a neuron from the local maximum that inherits its weight


class PathFollower:
    """The rounds of a :class:`~covopt.solvers.generation.Generation` from a warm start.

    Parameters
    ----------
    loop : Generation
        Its bounds and history are updated.
    warm : WarmStart
        Source of the first columns.
    """

    def __init__(self, loop: Any, warm: WarmStart):
        self.loop, self.offset = loop, float(warm.offset[0])
        self.columns = Columns(loop.problem.rows, loop.unit.fit_frames)
        self.columns.append(warm.neurons)
        self.weights = np.zeros(len(self.columns))
        if len(self.weights) == len(warm.weights):  # no neuron is silent on these rows
            self.weights = warm.weights[:, 0]
        if not len(self.weights):  # no neurons: take those at which the dual is nearly tight
            self._append(loop.price(warm.dual, TIGHT).neurons)
        self.tangents: tuple[Tangents, np.ndarray] | None = None  # of the columns that move, and their scales

    def run(self) -> bool:
        """Run until the loop should stop; return False if the rounds stall and another method must go on."""
        loop = self.loop
        master = self._master(None)
        if not _is_finite(master):
            return False
        self._offer(master)
        idle, milestone = 0, np.inf
        for number in range(loop.max_rounds):
            dual = loop.problem.project_dual(master.dual)
            before = min(loop.point.gap, 1.0)
            pricing = loop.price(dual, 1.0 - min(0.05, 3.0 * np.sqrt(before)) if number else TIGHT)
            loop.offer_dual(dual, pricing)
            if master.moves is not None and loop.point.gap > loop.tol:
                # neurons that moved across a row may cost more than columns that stay
                self._offer(self._solved(None))
            if loop.should_stop():
                loop.point.warm = self.state(master)
                return True
            gap = min(loop.point.gap, 1.0)
            idle = 0 if gap < 0.5 * milestone else idle + 1
            milestone = milestone if idle else gap
            if idle > loop.schedule.stalled:
                loop.point.warm = self.state(master)
                return False
            heights = np.abs(self.columns.atoms @ dual[:, 0])
            self._keep((heights > max(TIGHT, 1.0 - 10.0 * np.sqrt(gap))) | (self.weights != 0))
            self._append(pricing.neurons)
            master = self._master(self._curvature(pricing, dual))
            if not _is_finite(master):
                return False
            self._offer(master)
        return False

    def state(self, master: NewtonPoint) -> WarmStart:
        """Return a warm start for the next solve: the nearly tight columns."""
        heights = np.abs(self.columns.atoms @ master.dual[:, 0])
        self._keep((heights > TIGHT) | (self.weights != 0))
        weights = self.weights[:, None]
        return WarmStart(self.columns.neurons, weights, np.array([self.offset]), self.loop.point.dual)

    def _append(self, neurons: np.ndarray) -> None:
        fresh = self.columns.append(self.loop.normalise(neurons))
        self.weights = np.concatenate([self.weights, np.zeros(fresh)])

    def _keep(self, kept: np.ndarray) -> None:
        self.columns.keep(kept)
        self.weights = self.weights[kept]

    # ------------------------------------------------------------------ a round
    def _master(self, curvature: Curvature | None) -> NewtonPoint:
        found = self._solved(curvature)
        self.weights, self.offset = found.weights, found.offset
        return found

    def _solved(self, curvature: Curvature | None) -> NewtonPoint:
        loop = self.loop
        tol = max(0.01 * min(loop.point.gap, 1.0), 0.01 * loop.tol)
        return solve_newton_master(
            loop.problem, self.columns.atoms, self.weights, self.offset, tol=tol, curvature=curvature
        )

    def _offer(self, master: NewtonPoint) -> None:
        """Offer the network on the columns, and the one whose neurons have moved within their faces."""
        loop, neurons = self.loop, self.columns.neurons
        offset = np.array([master.offset])
        used = master.weights != 0
        loop.offer(neurons[used], master.weights[used, None], offset)
        if master.moves is None or self.tangents is None:
            return
        tangents, scales = self.tangents
        signs = np.where(master.weights >= 0, 1.0, -1.0)
        agree = signs[tangents.owner] == tangents.outputs[:, 0]
        vectors = neurons * np.abs(master.weights)[:, None]
        np.add.at(
            vectors, tangents.owner[agree], ((scales * master.moves)[:, None] * tangents.directions)[agree]
        )
        masses = loop.unit.weigh(vectors)
        used = masses > FOUND * masses.max(initial=0.0)
        loop.offer(vectors[used] / masses[used, None], (signs * masses)[used, None], offset)

    def _curvature(self, pricing: Pricing, dual: np.ndarray) -> Curvature | None:
        """Return the curvature of the faces of priced maxima; each inherits the weights of the nearest neurons."""
        columns, heights = self.columns, self.columns.atoms @ dual
        masses, self.tangents = np.zeros(len(columns)), None
        heavy = np.abs(self.weights) > NEAR * np.abs(self.weights).max(initial=0.0)
        _, tops = cKDTree(columns.neurons).query(pricing.neurons)
        for sign in (1.0, -1.0):
            theirs, mine = (
                np.flatnonzero(heavy & (self.weights * sign > 0)),
                tops[heights[tops, 0] * sign > 0],
            )
            if len(theirs) and len(mine):
                far, which = cKDTree(columns.neurons[mine]).query(columns.neurons[theirs])
                np.add.at(masses, mine[which[far < INHERITED]], np.abs(self.weights[theirs[far < INHERITED]]))
        chosen = np.flatnonzero((masses > 0.0) & columns.live & (columns.dims > 1))
        if not len(chosen):
            return None
        tangents = columns.tangents(dual, heights, chosen)
        scales = np.sqrt(masses[tangents.owner])
        self.tangents = tangents, scales
        return Curvature(columns.tangent_rows(tangents, scales).T, dual[:, 0])


def _is_finite(master: NewtonPoint) -> bool:
    """Return whether nothing overflowed: the dual depends on all numbers."""
    return bool(np.isfinite(master.weights).all() and np.isfinite(master.dual).all())
