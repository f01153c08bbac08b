"""Networks from a step of the master: neurons shifted in their faces, weights corrected to interpolate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from covopt.exact.rank import COMPUTED, FOUND
from covopt.limits import HALF
from covopt.problems.problem import PASSES
from covopt.solvers.least_norm import LeastNorm
from covopt.solvers.master.columns import Columns
from covopt.solvers.master.newton import Candidate, Step


@np.errstate(over="ignore")  # an infinite mass is never the best
def mass(step: Step, candidate: Candidate) -> float:
    """Return Σ‖v_j‖ of a candidate with shifted neurons."""
    squares = np.einsum("jk,jk->j", candidate.weights, candidate.weights)
    np.add.at(squares, step.tangents.owner, (step.scales * candidate.moves) ** 2 * step.tangents.squares)
    return float(np.sqrt(squares).sum())


def shifted(
    columns: Columns, step: Step, candidate: Candidate, chosen: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return neurons, weights and atoms of a candidate; a neuron that would leave its closed face stops at the edge.

    Parameters
    ----------
    columns : Columns
        As they were in the step.
    step : Step
    candidate : Candidate
    chosen : ndarray of bool, shape (M,), optional
        Columns to return, in their order; all without it.

    Returns
    -------
    neurons : ndarray of shape (M, r)
        Of cost one.
    weights : ndarray of shape (M, k)
    atoms : ndarray of shape (M, N)
    """
    every = np.ones(len(columns), dtype=bool) if chosen is None else chosen
    neurons, weights = columns.neurons.copy(), candidate.weights.copy()
    owner = step.tangents.owner
    if not len(owner):
        return neurons[every], weights[every], columns.atoms if every.all() else columns.atoms[every]
    moving, place = np.unique(owner, return_inverse=True)
    mass = np.linalg.norm(weights[moving], axis=1)
    units = weights[moving] / np.where(mass > 0, mass, 1.0)[:, None]
    shares = step.scales * candidate.moves
    along = shares * np.einsum("tk,tk->t", units[place], step.tangents.outputs)
    start = mass[:, None] * neurons[moving]
    way = np.zeros_like(start)
    np.add.at(way, place, along[:, None] * step.tangents.directions)
    share = np.ones(len(moving))
    leaves = columns.displaced(_of_length_one(start + way), moving)
    share[leaves] = _longest_inside(columns, columns.atoms[moving[leaves]], start[leaves], way[leaves])
    vectors = start + share[:, None] * way
    if weights.shape[1] > 1:  # mixed tangents are not orthogonal
        masses = np.linalg.norm(vectors, axis=1)
        outputs = units * masses[:, None]
        np.add.at(outputs, place, (share[place] * shares)[:, None] * step.tangents.turns)
    else:
        squares = mass**2
        np.add.at(squares, place, (share[place] * along) ** 2 * step.tangents.squares)
        masses = np.sqrt(squares)
        outputs = units * masses[:, None]
    there = vectors / np.where(masses > 0, masses, 1.0)[:, None]
    stays = (masses > 0) & ~columns.displaced(there, moving) & every[moving]
    moved = moving[stays]
    neurons[moved], weights[moved] = there[stays], outputs[stays]
    atoms, at = columns.atoms[every], (np.cumsum(every) - 1)[moved]
    atoms[at] = np.where(atoms[at] > 0, there[stays] @ columns.rows.T, 0.0)
    return neurons[every], weights[every], atoms


def _of_length_one(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0)


def _longest_inside(columns: Columns, atoms: np.ndarray, start: np.ndarray, way: np.ndarray) -> np.ndarray:
    """Return the largest share, at most one, of each move that stays in the closed face, shape (m,)."""
    heights, slopes = start @ columns.rows.T, way @ columns.rows.T
    active = atoms > 0
    blocks = np.where(active, slopes < 0, (slopes > 0) & (heights < 0))
    ratio = np.divide(-heights, slopes, out=np.full_like(heights, np.inf), where=blocks)
    return np.clip((1.0 - FOUND) * ratio.min(axis=1, initial=1.0), 0.0, 1.0)


def completed(
    columns: Columns,
    step: Step,
    candidate: Candidate,
    chosen: np.ndarray,
    *,
    has_offset: bool,
) -> Candidate:
    """Correct weights and moves of some columns to meet the demand, to first order; see :func:`interpolate`.

    For one output: within closed faces outputs are linear in both, and both cost their squares over the masses.

    Parameters
    ----------
    columns : Columns
        As they were in the step.
    step : Step
    candidate : Candidate
    chosen : ndarray of bool, shape (M,)
        Columns of the network; the others get no weight.
    has_offset : bool
        Whether the offset may change as well.
    """
    weights, moves, offset = interpolate(
        columns.atoms, candidate.outputs + candidate.left, np.where(chosen[:, None], candidate.weights, 0.0),
        candidate.offset, has_offset=has_offset, moving=(step.rows, candidate.moves, step.tangents.owner),
    )  # fmt: skip
    return replace(candidate, weights=weights, moves=moves, offset=offset)


def interpolate(
    atoms: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    offset: np.ndarray,
    *,
    has_offset: bool,
    moving: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Correct weights by the smallest change, relative to their size, that interpolates to rounding.

    A weight that changes its sign costs twice what it gains. Such neurons are left out and the others corrected once
    more, while they interpolate and the weights that turn become fewer.

    Parameters
    ----------
    atoms : ndarray of shape (M, N)
        σ(Z w) of the neurons.
    targets : ndarray of shape (N, k)
    weights : ndarray of shape (M, k)
        Neurons of weight zero get none.
    offset : ndarray of shape (k,)
    has_offset : bool
        Whether the offset may change as well.
    moving : tuple of ndarrays, optional
        What the moves of neurons add to one output, (T, N), the moves, (T,), and the neurons that move, (T,).

    Returns
    -------
    (ndarray of shape (M, k), ndarray of shape (T,), ndarray of shape (k,))
        Weights, moves and offset.
    """
    rows, moves, owner = moving or (atoms[:0], np.zeros(0), np.zeros(0, dtype=int))
    found, given, lost = (weights, moves, offset), weights, np.inf
    kept: np.ndarray = np.asarray(weights.any(axis=1))
    while kept.any() and lost > 0.0:
        own = kept[owner]
        inside, turns, shift, missed = _corrected(
            atoms[kept], rows[own], targets, found[0][kept], found[1][own], found[2], has_offset=has_offset
        )
        products = np.einsum("mk,mk->m", inside, given[kept])
        wasted = float(np.linalg.norm(inside[products < 0.0], axis=1).sum())
        if lost < np.inf and (missed > PASSES or wasted > HALF * lost):
            break
        lost, found = wasted, (np.zeros_like(weights), np.zeros_like(moves), shift)
        found[0][kept], found[1][own] = inside, turns
        kept[kept] = products >= 0.0
    return found


def _corrected(
    atoms: np.ndarray, rows: np.ndarray, targets: np.ndarray, weights: np.ndarray, moves: np.ndarray,
    offset: np.ndarray, *, has_offset: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:  # fmt: skip
    """Return weights, moves and offset after the least change, and the largest residual left."""
    mass = np.linalg.norm(weights, axis=1)
    metric = np.sqrt(mass + FOUND * mass.max(initial=0.0))
    lever = np.sqrt(max(float(np.abs(offset).max(initial=0.0)), float(mass.mean()))) if has_offset else 0.0
    correction: LeastNorm | None = None
    accurate, before = False, np.inf
    while True:
        residual = targets - atoms.T @ weights - offset
        if len(rows):
            residual -= rows.T @ moves[:, None]
        missed = float(np.abs(residual).max())
        falls = missed < HALF * before  # NaN does not
        if missed <= COMPUTED or (accurate and not falls):
            return weights, moves, offset, missed
        accurate, before = not falls, missed
        if correction is None:
            constant = np.full((int(lever > 0.0), atoms.shape[1]), lever)
            correction = LeastNorm(np.concatenate([metric[:, None] * atoms, rows, constant]))
        ends = len(weights), len(weights) + len(rows)
        change, turn, shift = np.split(correction.solve(residual, accurate=accurate), ends)
        weights = weights + metric[:, None] * change
        if len(rows):
            moves = moves + turn[:, 0]
        if has_offset:
            offset = offset + lever * shift[0]
