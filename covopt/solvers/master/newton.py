r"""The restricted master, one Newton step at a time.

    min over Λ   Φ(Λ) + ½κ‖Λᵀ1‖²   s.t.  c_j(Λ) ≤ 1 for every column j   (Λᵀ1 = 0 with a free offset)

where c_j(Λ) is ‖Λᵀa_j‖ for a neuron that stays, and the best neuron of its face for one that moves. A step of
Mehrotra's predictor and corrector, with Gondzio's further correctors, is taken at the present columns; then the
caller prices the dual, columns move and new ones enter, and the next step starts from the present iterate, with
residuals computed afresh. New columns may enter violated, since their slacks are separate variables, and Λ takes no
step back for them.

For columns that move the constraint is curved. The Lagrangian's second derivative ω TᵀT is added to the normal
matrix, so that near the end this is sequential quadratic programming, and the gap converges quadratically. In the
primal the same term moves the neurons: a full step gives a feasible network long before the iterate is feasible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from covopt.checks.log import stage
from covopt.exact.rank import NEAR, ROUGH
from covopt.limits import HALF
from covopt.problems.problem import Problem
from covopt.solvers.master.columns import Columns, Frames, Tangents
from covopt.solvers.master.constraints import Box, Cones, total
from covopt.solvers.master.folding import Folding
from covopt.solvers.master.system import System

DAMPING = 0.95  # share of the longest feasible step that is taken; full steps are not damped
MISSING = 0.03  # products stay above this share of the gap: centred duals price better columns
# Gondzio's correctors: most, extra length of a trial step, least gain (uncapped, 1000 smooth points take half longer)
CORRECTORS, TRIAL, GAIN = 4, 0.2, 0.02
UNBOUNDED = 1e100  # edge of an unbounded domain; multipliers from here on have diverged


@dataclass(frozen=True)
class Candidate:
    """Network of a full step.

    Attributes
    ----------
    weights : ndarray of shape (M, k)
    moves : ndarray of shape (T,)
        How far neurons go along the tangents.
    offset : ndarray of shape (k,)
    outputs : ndarray of shape (N, k)
        Its outputs, to first order.
    left : ndarray of shape (N, k)
        Residual: the outputs demanded by the dual minus ``outputs``.
    """

    weights: np.ndarray
    moves: np.ndarray
    offset: np.ndarray
    outputs: np.ndarray
    left: np.ndarray


@dataclass(frozen=True)
class Step:
    """Result of a step: its lengths, the tangents used, and the networks of full steps.

    ``rows`` are what the tangents add to the outputs, shape (T, N·k).
    """

    primal: float
    dual: float
    residual: float
    tangents: Tangents
    scales: np.ndarray
    rows: np.ndarray
    candidates: tuple[Candidate, ...]


class Master:
    """Iterates of the interior-point method over columns that enter, move and leave.

    Parameters
    ----------
    problem : Problem
    fit_frames : callable, optional
        See :class:`~covopt.solvers.master.columns.Columns`.

    Attributes
    ----------
    columns : Columns
    cones : Box or Cones
        Slacks and multipliers of the columns.
    dual : ndarray of shape (N, k)
    offset : ndarray of shape (k,)
    edges : Box or None
        Slacks and multipliers of the domain of the loss.
    """

    def __init__(self, problem: Problem, fit_frames: Frames | None = None):
        self.problem = problem
        self.columns = Columns(problem.rows, fit_frames)
        n, k = len(problem.rows), problem.n_outputs
        self.cones: Any = Box() if k == 1 else Cones(k)
        self.dual, self.offset = np.zeros((n, k)), np.zeros(k)
        self.edges: Box | None = None
        bounds = problem.edges()
        if bounds is not None:
            sides = np.stack([bounds[1].ravel(), -bounds[0].ravel()])
            self.edges = Box(np.where(np.isfinite(sides), sides, UNBOUNDED))

    # ------------------------------------------------------------------ numbers
    @property
    def complementarity(self) -> float:
        """Complementarity of columns and edges."""
        return self.cones.complementarity + (self.edges.complementarity if self.edges is not None else 0.0)

    @property
    def level(self) -> float:
        """Mean product of slack and multiplier."""
        count = self.cones.count + (self.edges.count if self.edges is not None else 0)
        return self.complementarity / max(count, 1)

    @property
    def heights(self) -> np.ndarray:
        """Λᵀa_j, shape (M, k)."""
        return self.columns.atoms @ self.dual

    def shift(self) -> np.ndarray:
        """Return the offset of the iterate, shape (k,)."""
        return self.offset if self.problem.is_free else self.problem.kappa * self.dual.sum(axis=0)

    def slide(self) -> None:
        """Let columns follow the dual within their faces."""
        self.columns.slide(self.dual)
        self.cones.settle(self.heights)

    def enter_edges(self) -> None:
        """Set the slacks of the loss's domain to those of the dual."""
        if self.edges is not None:
            self.edges.enter(self.dual.reshape(-1, 1))

    # ------------------------------------------------------------------ a step
    @np.errstate(over="ignore", invalid="ignore")  # a step that is not finite is refused below
    @stage("master")
    def step(self, gap: float, value: float, *, with_networks: bool) -> Step:
        """Take one Newton step.

        Parameters
        ----------
        gap : float
            Relative gap of the dual, estimated by pricing and complementarity.
        value : float
            Approximate optimal value: the scale of the gap.
        with_networks : bool
            Whether to compute the networks of full steps.

        Raises
        ------
        LinAlgError
            Where the normal matrix cannot be factored or the step is not finite.
        """
        problem, columns, cones, edges = self.problem, self.columns, self.cones, self.edges
        atoms, dual = columns.atoms, self.dual
        u = atoms @ dual
        cones.prepare(u)
        demand = problem.demand(dual)
        residual = demand - atoms.T @ cones.weights - self.shift()
        blocks = problem.stiffness(dual)
        if edges is not None:
            edges.prepare(dual.reshape(-1, 1))
            residual = residual - edges.weights.reshape(dual.shape)
            stiff = edges.hessian()[0].reshape(dual.shape)
            blocks = _with_diagonal(blocks, stiff)
        level = self.level
        if not cones.sizes.max(initial=0.0) < UNBOUNDED:
            raise LinAlgError("the multipliers have run off")
        tangents, scales = self._tangents(u)
        rows = columns.tangent_rows(tangents, scales)
        accuracy = 1.0 if gap > ROUGH else 1e-8 if gap > 1e-5 else 1e-11
        hessian = cones.hessian()
        fold = Folding(atoms, columns.neurons, columns.rows, hessian[0])
        system = System(
            fold, hessian, rows, (tangents.owner, tangents.directions * scales[:, None]), blocks, problem.kappa,
            n_outputs=problem.n_outputs, is_free=problem.is_free, accuracy=accuracy,
        )  # fmt: skip
        sums = dual.sum(axis=0)

        def direction(aim: Any, edge_aim: Any, share: float) -> Any:
            push, inner = cones.push(aim, share)
            rhs = share * residual - fold.transposed(push)
            if edges is not None:
                edge_push, edge_inner = edges.push(edge_aim, share)
                rhs -= edge_push.reshape(rhs.shape)
            change, offset = system.solve(rhs, -share * sums)
            if not np.isfinite(change).all():
                raise LinAlgError("the step is not finite")
            moved = cones.respond(inner, fold.times(change), share)
            edge = edges.respond(edge_inner, change.reshape(-1, 1), share) if edges is not None else ()
            return change, offset, moved, edge

        def longest(found) -> tuple[float, float]:
            primal, far = cones.longest(found[2])
            if edges is not None:
                edge_primal, edge_far = edges.longest(found[3])
                primal, far = min(primal, edge_primal), min(far, edge_far)
            return primal, min(far, problem.reach(dual, found[0]))

        affine = direction(0.0, 0.0, 1.0)
        primal, far = longest(affine)
        reached = cones.reached(affine[2], primal, far)
        count = cones.count
        if edges is not None:
            reached += edges.reached(affine[3], primal, far)
            count += edges.count
        centring = float(np.clip(reached / max(count * level, 1e-300), 0.0, 1.0)) ** 3
        goal = max(centring * level, min(level, MISSING * gap * value / max(count, 1)))
        edge_aim = edges.second_order(affine[3], goal) if edges is not None else 0.0
        found = direction(cones.second_order(affine[2], goal), edge_aim, 1.0)
        primal, far = longest(found)
        for _ in range(CORRECTORS):
            if primal + far > 2.0 - GAIN:
                break
            trial = min(1.0, primal + TRIAL), min(1.0, far + TRIAL)
            edge_aim = edges.correction(found[3], *trial, goal) if edges is not None else 0.0
            try:
                more = direction(cones.correction(found[2], *trial, goal), edge_aim, 0.0)
            except LinAlgError:  # the step is good without it
                break
            better = (
                found[0] + more[0],
                found[1] + more[1],
                total(found[2], more[2]),
                total(found[3], more[3]),
            )
            new_primal, new_far = longest(better)
            gains = new_primal + new_far >= primal + far + GAIN  # NaN does not
            if not gains or not np.isfinite(better[0]).all():
                break
            found, primal, far = better, new_primal, new_far
        candidates: tuple[Candidate, ...] = ()
        if with_networks:
            candidates = tuple(
                self._candidate(rows, demand, cones.moved_weights(moved), change, offset)
                for change, offset, moved, _ in (affine, found)
            )
        primal = primal if primal >= 1.0 else DAMPING * primal
        far = far if far >= 1.0 else DAMPING * far
        if not problem.interpolates:
            far = self._checked(found[0], far)
        self.dual = dual + far * found[0]
        self.offset = self.offset + primal * found[1]
        cones.advance(found[2], primal, far)
        if edges is not None:
            edges.advance(found[3], primal, far)
        return Step(primal, far, float(np.abs(residual).max()), tangents, scales, rows, candidates)

    def _tangents(self, u: np.ndarray) -> tuple[Tangents, np.ndarray]:
        columns, cones = self.columns, self.cones
        size = np.linalg.norm(u, axis=1)
        mass = np.linalg.norm(cones.weights, axis=1) if isinstance(cones, Cones) else _pulling(cones, u)
        bent = columns.live & (columns.dims > 1) & (size > HALF)
        chosen = np.flatnonzero(bent & (mass > NEAR * mass.max(initial=0.0)))
        tangents = columns.tangents(self.dual, u, chosen)
        return tangents, np.sqrt(mass[tangents.owner])

    def _candidate(self, rows, demand, weights, change, offset) -> Candidate:
        moves = rows @ change.ravel()
        moved = self.offset + offset
        if not self.problem.is_free:
            moved = self.problem.kappa * (self.dual + change).sum(axis=0)
        outputs = self.columns.atoms.T @ weights + (rows.T @ moves).reshape(demand.shape) + moved
        return Candidate(weights, moves, moved, outputs, demand - outputs)

    def _checked(self, change: np.ndarray, length: float) -> float:
        """Shorten a step until −∇Φ is finite."""
        while length > ROUGH and not np.isfinite(self.problem.demand(self.dual + length * change)).all():
            length *= HALF
        return length


def _pulling(box: Box, u: np.ndarray) -> np.ndarray:
    """Return the multiplier of the side that a column is near."""
    return np.where(u[:, 0] > 0, box.force[0], box.force[1])


def _with_diagonal(blocks: np.ndarray | None, diagonal: np.ndarray) -> np.ndarray:
    if blocks is None:
        return diagonal
    if blocks.ndim == 2:
        return blocks + diagonal
    blocks = blocks.copy()
    place = np.arange(diagonal.shape[1])
    blocks[:, place, place] += diagonal
    return blocks
