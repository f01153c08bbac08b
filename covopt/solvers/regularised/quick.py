"""A cheap network with a loss, where no round of column generation would end in time: a few neurons, greedily."""

from __future__ import annotations

import contextlib

import numpy as np
from scipy.optimize import minimize

from covopt.limits import TimeUp, limited
from covopt.oracles.heights import heights
from covopt.oracles.local_search import climb, climb_outputs
from covopt.problems.regularised import RegularisedProblem, best_constant
from covopt.solvers.points import Point
from covopt.status import Status

ROUNDS = 10
FRESH = 4  # neurons per round
SAMPLE = 1000  # rows that neurons are looked for on
STARTS = 24
STEPS = 60  # of L-BFGS-B per round
FIRST_STEPS = 12
WORTH = 1e-4  # relative fall of the objective that another round has to bring


def fit_quickly(
    problem: RegularisedProblem, *, time_limit_s: float | None, random_state: int | None = None
) -> Point:
    """Return a network of few neurons that is no worse than the best constant, and its dual point.

    Each round climbs to a few neurons that the dual point of the network so far violates most, on a sample of the
    rows, and solves for the masses of all neurons at fixed output directions.

    Parameters
    ----------
    problem : RegularisedProblem
        With the norm as the price of a neuron.
    time_limit_s : float, optional
        The best of the rounds that ended in time is returned.
    random_state : int, optional

    Returns
    -------
    Point
        Its lower bound is 0: the dual point is not scaled.

    Examples
    --------
    >>> from covopt.losses import make_loss
    >>> rng, loss = np.random.default_rng(0), make_loss("squared")
    >>> rows = np.column_stack([rng.standard_normal((300, 2)), np.ones(300)])
    >>> _ = loss.encode_targets(np.abs(rows[:, 0]))
    >>> point = fit_quickly(RegularisedProblem(rows, loss, 0.01), time_limit_s=5.0)
    >>> len(point.neurons) < 40, round(point.upper_bound * 0.01, 2)
    (True, 0.02)
    """
    rng = np.random.default_rng(0 if random_state is None else random_state)
    n, r = problem.rows.shape
    q = problem.n_outputs
    constant = best_constant(problem)
    best = _point(problem, np.zeros((0, r)), np.zeros((0, q)), constant)
    atoms, neurons, directions = np.zeros((n, 0)), np.zeros((0, r)), np.zeros((0, q))
    masses, offset = np.zeros(0), constant
    # without a search first, in a few passes over the table: no time is no reason for a network without neurons
    fresh, towards = _pulled(problem, best.dual, _along(problem, best.dual))
    if len(fresh):
        atoms, neurons, directions = problem.atoms(fresh[:1]), fresh[:1], towards[:1]
        masses, offset = _weighed(problem, atoms, directions, np.zeros(1), offset, steps=FIRST_STEPS)
        first = _point(problem, neurons, masses[:, None] * directions, offset)
        if first.upper_bound < best.upper_bound and len(neurons) <= n * q:
            best = first
    with contextlib.suppress(TimeUp), limited(time_limit_s):
        for _ in range(ROUNDS):
            dual = problem.project_dual(problem.dual_of(atoms @ (masses[:, None] * directions) + offset))
            fresh, towards = _violated(problem, dual, rng)
            if not len(fresh):
                break
            atoms = np.concatenate([atoms, problem.atoms(fresh)], axis=1)
            neurons, directions = np.concatenate([neurons, fresh]), np.concatenate([directions, towards])
            masses = np.concatenate([masses, np.zeros(len(fresh))])
            masses, offset = _weighed(problem, atoms, directions, masses, offset)
            used = masses > 0.0
            atoms, neurons, directions, masses = atoms[:, used], neurons[used], directions[used], masses[used]
            found = _point(problem, neurons, masses[:, None] * directions, offset)
            enough = found.upper_bound > (1.0 - WORTH) * best.upper_bound
            if found.upper_bound < best.upper_bound and len(neurons) <= n * q:
                best = found
            if enough:
                break
    return best


def _point(
    problem: RegularisedProblem, neurons: np.ndarray, weights: np.ndarray, offset: np.ndarray
) -> Point:
    fitted = problem.fitted(neurons, weights, offset)
    value = problem.primal_value(fitted, weights, offset)
    dual = problem.project_dual(problem.dual_of(fitted))
    return Point(neurons, weights, offset, value, dual, 0.0, Status.TIME_LIMIT)


def _violated(
    problem: RegularisedProblem, dual: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return unit neurons with ‖Λᵀσ(Zw)‖ > 1, the best few, and the unit vectors along Λᵀσ(Zw)."""
    live = np.flatnonzero(problem.rows.any(axis=1))
    chosen = np.sort(rng.permutation(live)[:SAMPLE])
    rows, part = np.ascontiguousarray(problem.rows[chosen]), np.ascontiguousarray(dual[chosen])
    r = rows.shape[1]
    along = _along(problem, dual)
    width = np.linalg.norm(rows, axis=0)
    normal = rng.standard_normal((STARTS, r))
    edges = [rows[rng.choice(len(rows), min(len(rows), r - 1), replace=False)] for _ in range(STARTS)]
    vertices = [np.linalg.svd(edge)[2][-1] for edge in edges]
    starts = np.concatenate([normal / np.where(width > 0.0, width, 1.0), vertices])
    starts = np.concatenate([along, starts, -starts])
    lengths = np.linalg.norm(starts, axis=1)
    starts = starts[lengths > 0.0] / lengths[lengths > 0.0, None]
    if part.shape[1] == 1:
        ends = [climb(rows, sign * part[:, 0], np.zeros(r), starts, n_threads=1)[0] for sign in (1.0, -1.0)]
        points = np.concatenate(ends)
    else:
        points = climb_outputs(rows, part, starts, n_threads=1)[0]
    points = points[np.unique(points.round(6), axis=0, return_index=True)[1]]
    return _pulled(problem, dual, points[np.linalg.norm(points, axis=1) > 0.5])


def _along(problem: RegularisedProblem, dual: np.ndarray) -> np.ndarray:
    """Return ±Zᵀλ of each output, and the row where it is largest."""
    lines = (problem.rows.T @ dual).T
    return np.concatenate([lines, -lines, problem.rows[np.abs(dual).argmax(axis=0)]])


def _pulled(
    problem: RegularisedProblem, dual: np.ndarray, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best few of the neurons that are violated, as unit vectors, and their unit output weights."""
    lengths = np.linalg.norm(points, axis=1)
    points = points[lengths > 0.0] / lengths[lengths > 0.0, None]
    pulls = heights(problem.rows, dual, points)
    sizes = np.linalg.norm(pulls, axis=1)
    order = np.argsort(-sizes, kind="stable")[:FRESH]
    order = order[sizes[order] > 1.0]
    return points[order], pulls[order] / sizes[order, None]


def _weighed(
    problem: RegularisedProblem,
    atoms: np.ndarray,
    directions: np.ndarray,
    masses: np.ndarray,
    offset: np.ndarray,
    steps: int = STEPS,
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise over masses ≥ 0 and the offset; variables are measured in the sizes of what they add to F."""
    m = len(masses)
    units = np.linalg.norm(atoms, axis=0)
    root = np.sqrt(len(atoms))
    price = problem.offset_cost if problem.has_offset else 0.0

    def value(variables: np.ndarray) -> tuple[float, np.ndarray]:
        scaled, shift = variables[:m] / units, variables[m:] / root
        shift = shift if problem.has_offset else offset
        fitted = atoms @ (scaled[:, None] * directions) + shift
        slope = -problem.dual_of(fitted)
        pulls = ((atoms.T @ slope) * directions).sum(axis=1) + 1.0
        rises = (slope.sum(axis=0) + price * shift) / root if problem.has_offset else np.zeros(0)
        cost = problem.loss.value(problem.raise_outputs(fitted)) / problem.strength + float(scaled.sum())
        return cost + 0.5 * price * float(shift @ shift), np.concatenate([pulls / units, rises])

    start = np.concatenate([masses * units, offset * root if problem.has_offset else np.zeros(0)])
    bounds = [(0.0, None)] * m + [(None, None)] * (len(start) - m)
    found = minimize(value, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"maxiter": steps}).x
    return found[:m] / units, found[m:] / root if problem.has_offset else offset
