"""Lower bounds on training with weight decay, found where a trained network stands."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import linprog

from covopt.data import Data
from covopt.depth.rays import ORIGIN, FitBound, evaluate, round_flows
from covopt.depth.tree_search import TreeSearch
from covopt.limits import TimeUp
from covopt.losses import Loss

MOST_ROWS = 6  # of a tree: a second or two
SCALE = 0.5  # of the mean layer: c at which the family's μ are chosen; it hardly matters
ROUGH = 1e-4  # of each μ
MOST_TRANSPORTED = 60  # rows: a linear program over their pairs


def fit_bounds(
    data: Data, loss: Loss, lam: float, depth: int, output_bias: str, outputs: np.ndarray, upper: float
) -> list[FitBound]:
    """Return lower bounds on the least objective, best first.

    Parameters
    ----------
    data : Data
    loss : Loss
        With its targets.
    lam : float
    depth : int
    output_bias : {"none", "penalized", "free"}
    outputs : ndarray of shape (N, k)
        Of a trained network.
    upper : float
        Its objective.
    """
    found = [FitBound(0.0)]
    try:
        constant = np.zeros_like(outputs)
        for at in (outputs, constant):
            residuals = -loss.gradient(at)
            plan = _transport(data, residuals)
            found.extend([] if plan is None else [plan])
        found.extend(_trees(data, loss, depth, output_bias, outputs, upper / lam))
    except TimeUp:
        pass
    done = []
    for bound in found:
        try:
            value = evaluate(bound, data, loss, lam, depth, output_bias, upper)
        except TimeUp:
            break
        done.append(FitBound(value, bound.flows, bound.direction, bound.family))
    return sorted(done, key=lambda bound: -bound.value)


def _main(residuals: np.ndarray) -> tuple[np.ndarray, tuple[float, ...] | None]:
    """Return a column of residuals, and the direction of the outputs that it is along."""
    if residuals.shape[1] == 1:
        return residuals[:, 0], None
    u = np.linalg.svd(residuals, full_matrices=False)[2][0]
    return residuals @ u, tuple(u.tolist())


def _transport(data: Data, residuals: np.ndarray) -> FitBound | None:
    """Return the cheapest transport of positive residuals to negative ones, or to the origin where f(0) = 0."""
    column, direction = _main(residuals)
    rows = np.argsort(-np.abs(column), kind="stable")[:MOST_TRANSPORTED]
    rows = rows[column[rows] != 0.0]
    mass = column[rows].copy()
    if data.bias > 0.0:  # what is given must be what is taken; signs stay, where a loss needs them
        given, taken = mass[mass > 0].sum(), -mass[mass < 0].sum()
        if min(given, taken) <= 0.0:
            return None
        share = min(given, taken)
        mass = np.where(mass > 0, mass * (share / given), mass * (share / taken))
    sources, sinks = np.flatnonzero(mass > 0), np.flatnonzero(mass < 0)
    pairs = [(int(i), int(j)) for i in sources for j in sinks]
    lengths = [float(np.linalg.norm(data.X[rows[i]] - data.X[rows[j]])) for i, j in pairs]
    if data.bias == 0.0:
        pairs += [(int(i), ORIGIN) for i in range(len(rows)) if mass[i] != 0.0]
        lengths += [float(np.linalg.norm(data.X[rows[i]])) for i, j in pairs if j == ORIGIN]
    if not pairs:
        return None
    balance = np.zeros((len(rows), len(pairs)))
    for column_index, (i, j) in enumerate(pairs):
        if j == ORIGIN:
            balance[i, column_index] = math.copysign(1.0, mass[i])
        else:
            balance[i, column_index], balance[j, column_index] = 1.0, -1.0
    size = float(np.abs(mass).max())
    answer = linprog(np.array(lengths), A_eq=balance, b_eq=mass / size, bounds=(0.0, None), method="highs")
    if answer.x is None:
        return None
    flows = []
    for (i, j), amount in zip(pairs, answer.x.tolist(), strict=True):
        if amount <= 1e-9 * float(answer.x.max()):
            continue
        here = int(rows[i])
        if j != ORIGIN:
            flows.append((here, int(rows[j]), amount))
        else:
            flows.append((here, ORIGIN, amount) if mass[i] > 0 else (ORIGIN, here, amount))
    return FitBound(0.0, round_flows(flows), direction) if flows else None


def _trees(
    data: Data, loss: Loss, depth: int, output_bias: str, outputs: np.ndarray, upper: float
) -> list[FitBound]:
    """Return the family of the trained network's residuals: at the best network they are the dual."""
    counted = np.flatnonzero(loss.weights[:, 0] > 0.0)  # where a row costs nothing, residuals are zero
    residuals = np.zeros_like(outputs)
    residuals[counted] = -loss.take(counted).gradient(outputs[counted])
    column, direction = _main(residuals)
    rows = np.sort(np.argsort(-np.abs(column), kind="stable")[:MOST_ROWS])
    rows = rows[column[rows] != 0.0]
    free = output_bias == "free" and data.bias > 0.0
    found = column[rows] - (column[rows].mean() if free and len(rows) else 0.0)
    if not found.any() or not data.lifted[rows].any():
        return []
    search = TreeSearch(data.lifted[rows], found, data.bias, free=free, tol=ROUGH)
    search.use(SCALE * upper / depth)
    return [FitBound(0.0, (), None, search.family(tuple(rows.tolist()), direction, found))]
