"""Rounds from a good start: exact masters with the curvature of the faces, priced until the gap is small.

From the solution for another λ the rounds of an interior-point method begin too far inside. Here the first master
takes the columns that were nearly tight there; then each round prices its dual, adds the new local maxima and carries
their curvature, so that neurons move within their faces instead of being approached by ever more columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from covopt.oracles.base import Pricing
from covopt.solvers.master.columns import ON_PLANE
from covopt.solvers.merging import Faces, face_matrix
from covopt.solvers.points import WarmStart
from covopt.solvers.regularised.newton import Curvature, NewtonPoint, solve_newton_master

CURVED = 1e-2  # gap from which on curvature is carried
LIGHT = 1e-6  # share of the largest weight below which a neuron does not move
NEAR = 0.03  # distance of a neuron from the local maximum that inherits its weight
TIGHT = 0.95
PATIENCE = 4


class Following:
    """The rounds of a :class:`~covopt.solvers.generation.Generation` from a warm start.

    Parameters
    ----------
    loop : Generation
        Its bounds and history are kept up to date.
    warm : WarmStart
        Where the columns come from.
    curved : bool
        Whether neurons cost their norm, so that faces have the curvature used here.
    """

    def __init__(self, loop: Any, warm: WarmStart, *, curved: bool):
        self.loop, self.offset, self.curved = loop, float(warm.offset[0]), curved
        self.neurons = warm.neurons
        self.atoms = np.ascontiguousarray(loop.problem.atoms(warm.neurons).T)
        self.weights = warm.weights[:, 0]
        if not len(self.weights):  # of a network without neurons: what its dual is nearly tight at
            self._append(loop.price(warm.dual, TIGHT).neurons)
            self.weights = np.zeros(len(self.neurons))
        self.live = loop.problem.live
        self.rows = loop.problem.rows[self.live]
        self.movers: tuple[Faces, np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None = None

    def run(self) -> bool:
        """Run until the loop should stop; False where the rounds no longer help and another method must go on."""
        loop = self.loop
        master = self._master(None)
        if not _is_finite(master):
            return False
        self._offer(master)
        idle = 0
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
            idle = 0 if gap < 0.5 * before or not number else idle + 1
            if idle > PATIENCE:
                loop.point.warm = self.state(master)
                return False
            curvature = self._curvature(pricing, dual[:, 0]) if self.curved and gap < CURVED else None
            self._prune(dual[:, 0], gap)
            fresh = self._append(pricing.neurons)
            self.weights = np.concatenate([self.weights, np.zeros(fresh)])
            master = self._master(curvature)
            if not _is_finite(master):
                return False
            self._offer(master)
        return False

    def state(self, master: NewtonPoint) -> WarmStart:
        """Return what the next solve may start from: nearly tight columns."""
        loop = self.loop
        heights = np.abs(self.atoms @ master.dual[:, 0])
        keep = (heights > 0.9) | (self.weights != 0)
        weights = self.weights[keep, None]
        return WarmStart(
            self.neurons[keep], weights, np.abs(weights[:, 0]), np.array([self.offset]), loop.point.dual
        )

    def _append(self, neurons: np.ndarray) -> int:
        """Add neurons of cost one that are not there yet and do something; the number that was added."""
        neurons = self.loop.normalise(neurons)
        atoms = self.loop.problem.atoms(neurons).T
        useful = atoms.max(axis=1, initial=0.0) > 1e-13
        if len(self.neurons) and useful.any():
            near, _ = cKDTree(self.neurons).query(neurons, distance_upper_bound=1e-10)
            useful &= ~np.isfinite(near)
        self.neurons = np.concatenate([self.neurons, neurons[useful]])
        self.atoms = np.ascontiguousarray(np.concatenate([self.atoms, atoms[useful]]))
        return int(useful.sum())

    # ------------------------------------------------------------------ a round
    def _master(self, curvature: Curvature | None) -> NewtonPoint:
        found = self._solved(curvature)
        self.weights, self.offset = found.weights, found.offset
        return found

    def _solved(self, curvature: Curvature | None) -> NewtonPoint:
        loop = self.loop
        tol = max(0.01 * min(loop.point.gap, 1.0), 0.01 * loop.tol)
        return solve_newton_master(
            loop.problem, self.atoms, self.weights, self.offset, tol=tol, curvature=curvature
        )

    def _offer(self, master: NewtonPoint) -> None:
        """Offer the network on the columns, and the one whose neurons have moved within their faces."""
        loop = self.loop
        offset = np.array([master.offset])
        used = master.weights != 0
        loop.offer(self.neurons[used], master.weights[used, None], offset)
        if master.moves is None or self.movers is None:
            return
        faces, basis, owner, scales, neurons = self.movers
        _, place = cKDTree(self.neurons).query(neurons)
        vectors = self.neurons * np.abs(master.weights)[:, None]
        signs = np.where(master.weights >= 0, 1.0, -1.0)
        agree = signs[place[owner]] == faces.signs[owner]
        step = (scales[owner] * master.moves)[:, None] * basis
        np.add.at(vectors, place[owner[agree]], step[agree])
        masses = np.linalg.norm(vectors, axis=1)
        used = masses > 1e-9 * masses.max(initial=0.0)
        loop.offer(vectors[used] / masses[used, None], (signs * masses)[used, None], offset)

    def _curvature(self, pricing: Pricing, dual: np.ndarray) -> Curvature | None:
        """Curvature of the faces of the priced maxima; each inherits the weights of the nearest neurons."""
        _loop, tops = self.loop, pricing.neurons
        self.movers = None
        heavy = np.abs(self.weights) > LIGHT * np.abs(self.weights).max(initial=0.0)
        held, weights = self.neurons[heavy], self.weights[heavy]
        inherited = np.zeros(len(tops))
        for sign in (1.0, -1.0):
            theirs, mine = np.flatnonzero(weights * sign > 0), np.flatnonzero(pricing.values * sign > 0)
            if len(theirs) and len(mine):
                far, which = cKDTree(tops[mine]).query(held[theirs])
                near = far < NEAR
                np.add.at(inherited, mine[which[near]], weights[theirs[near]])
        moving = inherited != 0
        if not moving.any():
            return None
        heights = tops[moving] @ (self.rows / np.linalg.norm(self.rows, axis=1, keepdims=True)).T
        masses = np.abs(inherited[moving])
        faces = Faces(
            tops[moving] * masses[:, None],
            np.sign(inherited[moving]),
            heights > ON_PLANE,
            np.abs(heights) > ON_PLANE,
        )
        basis, owner = faces.spans(self.rows, beside_neuron=True)
        if not len(owner):
            return None
        scales = np.sqrt(masses)
        factor = np.zeros((len(dual), len(owner)))
        factor[self.live] = face_matrix(self.rows, faces, basis, owner, scales)
        self.movers = faces, basis, owner, scales, tops[moving]
        return Curvature(factor, dual)

    def _prune(self, dual: np.ndarray, gap: float) -> None:
        heights = np.abs(self.atoms @ dual)
        keep = (heights > max(TIGHT, 1.0 - 10.0 * np.sqrt(gap))) | (self.weights != 0)
        self.neurons, self.atoms = self.neurons[keep], np.ascontiguousarray(self.atoms[keep])
        self.weights = self.weights[keep]


def _is_finite(master: NewtonPoint) -> bool:
    """Whether numbers did not overflow: the dual depends on all of them."""
    return bool(np.isfinite(master.weights).all() and np.isfinite(master.dual).all())
