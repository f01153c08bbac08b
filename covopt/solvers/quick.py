"""Estimates of the time and memory of a solve, and a quick interpolating network where they are too large.

Two neurons with a kink at each point, in random directions, have more than enough independent outputs: one linear
system gives the least-norm weights that interpolate. Where N³ operations are too many, a piecewise linear function of
u·x interpolates along one direction u. Both networks are far from optimal, the second more so: on many points double
precision may not suffice for it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from covopt.checks.memory import gives_way, memory_left
from covopt.errors import Status
from covopt.exact.rank import FOUND
from covopt.limits import HALF
from covopt.problems.problem import PASSES, Problem
from covopt.solvers.least_norm import LeastNorm
from covopt.solvers.loop import Point
from covopt.solvers.master.columns import SQUARE

DIRECTIONS = 8
FLOPS_PER_S = 1.5e10  # of one thread in the products of the master problem
INSTEAD = "a quick network and the bound of a few points take its place"
BY_GRADIENTS = "descent on both layers takes its place"
COLUMNS_PER_ROW = 3
MOST_BYTES = 8e9
MASTER = 360.0  # bytes of the master and its pricing, for a row and an unknown


def round_seconds(problem: Problem) -> float:
    """Estimate the seconds that one round of column generation takes on one thread.

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((1000, 3))
    >>> 0.1 < round_seconds(Problem.through(rows, np.ones(1000))) < 1.0
    True
    """
    n = _unknowns(problem)
    return COLUMNS_PER_ROW * float(n) ** 3 / FLOPS_PER_S


def _unknowns(problem: Problem) -> int:
    return len(problem.rows) * problem.n_outputs


def is_out_of_reach(problem: Problem, time_limit_s: float | None) -> bool:
    """Return whether a solve would exceed the time limit by its start and its first bounds, or the memory."""
    size = 8.0 * COLUMNS_PER_ROW * float(_unknowns(problem)) * len(problem.rows)
    # through 1000 to 3000 points in the plane the first bound takes four to seven rounds, a network twice that
    least = (COLUMNS_PER_ROW if problem.interpolates else 1) * round_seconds(problem)
    return size > MOST_BYTES or (time_limit_s is not None and least > HALF * time_limit_s)


def has_no_room(problem: Problem) -> bool:
    """Return whether the restricted master would take more memory than allowed, and warn if so.

    With a loss it may have few columns, and is watched while it grows: only its least size counts here.

    Warns
    -----
    MemoryLimitWarning
    """
    instead = INSTEAD if problem.interpolates else BY_GRADIENTS
    return gives_way(master_bytes(problem), "the restricted master", instead)


def master_bytes(problem: Problem) -> float:
    """Estimate the bytes of the restricted master: all of them for interpolation, the least possible for a fit.

    Examples
    --------
    >>> master_bytes(Problem.through(np.eye(3), np.ones(3)))
    3240.0
    """
    unknowns = float(_unknowns(problem))
    return MASTER * unknowns * len(problem.rows) if problem.interpolates else SQUARE * unknowns**2


def quick_network(problem: Problem, seconds: float, random_state: int | None = None) -> Point:
    """Return an interpolating network within about ``seconds``, or almost at once along a line.

    Without a bias there may be none; then the upper bound is infinite.

    Examples
    --------
    >>> rows = np.column_stack([np.random.default_rng(0).standard_normal((50, 2)), np.ones(50)])
    >>> [len(quick_network(Problem.through(rows, np.sin(np.arange(50.0))), s).neurons) for s in (0.0, 1.0)]
    [50, 100]
    """
    rng = np.random.default_rng(0 if random_state is None else random_state)
    point = Point.nothing(problem, Status.TIME_LIMIT, finished=True)
    # in coordinates that whiten the rows: far from the origin, others lose digits to the part common to all rows
    units, triangle = np.linalg.qr(problem.rows)
    inside = replace(problem, rows=units)
    n, found = float(len(problem.rows)), None
    if n**3 / FLOPS_PER_S <= seconds and 2.0 * SQUARE * n**2 <= memory_left():
        found = _kinks_at_points(inside, rng)
    found = found or _along_a_line(inside, rng)
    if found is not None:
        neurons = np.linalg.solve(triangle, found[0].T).T
        lengths = np.linalg.norm(neurons, axis=1, keepdims=True)
        point.neurons, point.weights = neurons / lengths, found[1] * lengths
        point.upper_bound = problem.network_value(point.weights, point.offset)
    return point


def _kinks_at_points(problem: Problem, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray] | None:
    """Return random neurons, two with a kink at every point, and the least-norm weights that interpolate.

    Their outputs span all targets for almost all directions; None where double precision does not suffice.
    """
    if problem.rows.shape[1] == 1:  # no neuron is orthogonal to a point
        return None
    rows = np.concatenate([problem.rows, problem.rows])
    units = rows / np.linalg.norm(rows, axis=1)[:, None]
    neurons = rng.standard_normal(rows.shape)
    neurons -= np.einsum("ij,ij->i", neurons, units)[:, None] * units
    neurons /= np.linalg.norm(neurons, axis=1)[:, None]
    weights = LeastNorm(problem.atoms(neurons).T).solve(problem.targets, accurate=True)
    missed = np.abs(problem.targets - problem.atoms(neurons) @ weights)
    return (neurons, weights) if missed.max() <= PASSES else None


def _along_a_line(problem: Problem, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the cheapest of the networks along a few directions; None for points without a bias."""
    rows = problem.rows
    ones = np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)[0]
    if np.abs(rows @ ones - 1.0).max() > FOUND:
        return None
    best: tuple[np.ndarray, np.ndarray] | None = None
    cost = np.inf
    spread = np.ptp(rows, axis=0)
    # in columns of mean zero, the constant one varies only by rounding
    varies = spread > FOUND * np.abs(rows).max(axis=0)
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=varies)
    for direction in rng.standard_normal((DIRECTIONS, rows.shape[1])) * scale:
        along = rows @ direction
        order = np.argsort(along, kind="stable")
        steps = np.diff(along[order])
        if not steps.min(initial=np.inf) > 0.0:
            continue
        targets = problem.targets[order]
        slopes = np.diff(targets, axis=0) / steps[:, None]
        vectors = np.concatenate([ones[None], direction - along[order[:-1], None] * ones])
        weights = np.concatenate([targets[:1], slopes[:1], np.diff(slopes, axis=0)])
        lengths = np.linalg.norm(vectors, axis=1)
        weights = weights * lengths[:, None]
        mass = float(np.linalg.norm(weights, axis=1).sum())
        if mass < cost:
            best, cost = (vectors / lengths[:, None], weights), mass
    return best
