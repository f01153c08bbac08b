"""Trees of cells for two rows with biases: halved along the cheapest chains until their bound meets the network."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numba import njit
from scipy.optimize import minimize

from covopt.depth.gram_cells import NOTHING, WILD, step
from covopt.depth.gram_chain import GramChain, TwoRows, pay
from covopt.depth.gram_trees import MOST_CELLS, MOST_HALVED, Cells
from covopt.limits import TimeUp, checkpoint

WORTH = 0.8  # of what is missing: the trees are written down where it is less
ROUNDS = MOST_HALVED  # each halves a cell once at most
STARTS = 6  # of descent
SAME = 0.1  # of the goal
SHARE = 0.5  # of a layer's part of what is missing: cells that lose more by themselves are halved


def gram_search(
    rows: tuple[int, int],
    X: np.ndarray,
    Y: np.ndarray,
    depth: int,
    bias: float,
    output_bias: str,
    *,
    upper: float,
    goal: float,
    most: int = MOST_CELLS,
) -> tuple[float, GramChain] | None:
    """Return a lower bound on R_L by two rows, and its trees; None where it is not about them.

    Parameters
    ----------
    rows : tuple of int
        Two.
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N, k)
    depth : int
    bias : float
    output_bias : {"none", "penalized", "free"}
    upper : float
        The squared norm of some network through the points: the bound is at most that.
    goal : float
        Relative distance to the cheapest chain found by descent, or to ``upper``, at which the search ends.
    most : int
        Cells of a layer.
    """
    pair = list(rows)
    try:
        task = TwoRows(X[pair], Y[pair], depth, bias, output_bias, upper)
    except ValueError:
        return None
    best: tuple[float, GramChain] | None = None
    try:
        least = min(upper, cheapest_chain(task))
        flat = _flat(task, least * (1.0 - SAME * goal))
        for value, trees in _raised(task, task.cells(flat), least * (1.0 - goal), most):
            best = value, GramChain(rows, trees, flat)
    except TimeUp:
        pass
    return best


def _flat(task: TwoRows, enough: float) -> int:
    """Return how many layers at the end may have cells of v = 1/β² alone: with them chains cost as much."""
    layers = len(task.roots)
    if not task.ray:
        return 0
    full = [k for k in range(1 - task.acute, layers) if cheapest_chain(task, full=k) >= enough]
    return layers - min(full, default=layers)


def _raised(
    task: TwoRows, layers: list[Cells], aim: float, most: int
) -> Iterator[tuple[float, tuple[str, ...]]]:
    """Halve cells until their bound is ``aim`` or they are too many, and yield bounds and trees on the way."""
    fresh = [np.arange(1) for _ in layers]
    asked: list[np.ndarray | None] = [None for _ in layers]
    share, told = SHARE, 0.0
    for _ in range(ROUNDS):
        for k in range(len(layers) - 1, -1, -1):
            checkpoint()
            pay(task, layers, k, fresh[k], asked[k])
        value = task.least(layers[0])
        last = value >= aim or max(len(layer.cells) for layer in layers) > most
        if value > told and (last or aim - value < WORTH * (aim - told)):
            told = value
            yield value, tuple(layer.written() for layer in layers)
        if last:
            break
        fresh, limits, share = _refine(task, layers, aim, share, aim - value)
        asked = [*limits]
        if not any(map(len, fresh)):
            break


def cheapest_chain(task: TwoRows, *, full: int | None = None) -> float:
    """Return what the cheapest chain of covariances found by descent costs.

    M̄_ℓ = AAᵀ with two neurons, entries ≥ 0; in the first layer a neuron that is on at one row only costs its square
    over G_ii. L-BFGS from a few starts.

    Parameters
    ----------
    task : TwoRows
    full : int, optional
        Behind so many layers entries may be negative; for targets on one ray, all by default.
    """
    rng = np.random.default_rng(0)
    count = task.depth - 2 + task.penalized
    gram, ones = task.gram, np.full((2, 2), task.beta2)
    alone = np.where(gram[0, 1] < 0.0, 1.0 / np.diag(gram), np.inf)
    single = gram[0, 1] < 0.0

    def cost(x: np.ndarray) -> tuple[float, np.ndarray]:
        A = x[: 4 * count].reshape(count, 2, 2)
        bars = [a @ a.T for a in A]
        value, slope = 0.0, np.zeros_like(x)
        if single:
            bars[0] = bars[0] + np.diag(x[4 * count :] ** 2)
            value = float(((alone - np.diag(np.linalg.inv(gram))) * x[4 * count :] ** 2).sum())
            slope[4 * count :] = 2.0 * (alone - np.diag(np.linalg.inv(gram))) * x[4 * count :]
        inverses = [np.linalg.inv(m) for m in (gram, *(bar + ones for bar in bars))]
        end, fall = task.end(inverses[-1])
        falls = [inverses[k] @ bars[k] @ inverses[k] for k in range(1, count)]
        falls.append(inverses[-1] @ fall @ inverses[-1])
        value += end + sum(
            float((bar * inverse).sum()) for bar, inverse in zip(bars, inverses[:-1], strict=True)
        )
        for k in range(count):
            rise = inverses[k] - falls[k]
            slope[4 * k : 4 * k + 4] = 2.0 * (rise @ A[k]).ravel()
            if single and k == 0:
                slope[4 * count :] += 2.0 * np.diag(rise) * x[4 * count :]
        return value, slope

    size = 4 * count + 2 * single
    wall = size if full is None else 4 * full
    bounds = [(0.0, None)] * wall + [(None, None)] * (size - wall)
    best = np.inf
    for _ in range(STARTS):
        checkpoint()
        start = np.abs(rng.standard_normal(size)) + 0.1
        try:
            found = minimize(
                cost, start, jac=True, method="L-BFGS-B", bounds=bounds,
                options={"maxiter": 3000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 30},
            )  # fmt: skip
        except np.linalg.LinAlgError:
            continue
        best = min(best, float(found.fun))
    return best


def _refine(
    task: TwoRows, layers: list[Cells], aim: float, share: float, gap: float
) -> tuple[list[np.ndarray], list[np.ndarray], float]:
    """Halve the cells that keep the bound below ``aim``; return those to be paid again, up to what, and the share."""
    at = np.array(task.starts)
    asked = np.full(len(at), aim)
    out, limits, halved = [], [], 0
    for layer in layers:
        cells = layer.cells
        missing, own = np.zeros(len(cells)), np.zeros(len(cells))
        mark(at, asked, cells, layer.beta2, missing, own)
        critical = np.flatnonzero(missing > 0.0)
        leaves = critical[cells["child"][critical] == 0]
        rough = leaves[own[leaves] >= share * np.maximum(missing[leaves], gap) / len(layers)]
        leaves = leaves[layer.open(leaves)]
        at = cells["points"][leaves, :: 1 + layer.flat].reshape(-1, 3)
        asked = (cells["left"][leaves] + missing[leaves, None])[:, :: 1 + layer.flat].ravel()
        limit = cells["left"] + missing[:, None]
        halved += len(rough)
        new = layer.halve(rough, _axes(cells["low"][rough], cells["high"][rough]))
        out.append(np.r_[critical, new])
        limits.append(np.vstack([limit, np.full((len(new), 8), 2.0 * task.cutoff)]))
    return out, limits, share if halved else 0.5 * share


def _axes(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the axis along which each cell is widest, measured by what a step loses."""
    a, b = low[:, 0], high[:, 0]
    u, v = low[:, 2], high[:, 2]
    widths = np.stack([
        np.log(b / a), 2.0 * (high[:, 1] - low[:, 1]) * np.sqrt(0.5 * (u + v) / np.sqrt(a * b)),
        np.log(v / np.where(u < 0.1 * v, u + 0.1 * v, u)),
    ])  # fmt: skip
    return np.argmax(widths, axis=0)


@njit(cache=True, nogil=True)
def mark(
    at: np.ndarray, asked: np.ndarray, cells: np.ndarray, beta2: float, missing: np.ndarray, own: np.ndarray
) -> None:
    """Find the cells by which what is left to pay at some B is below what is asked for, and what they lose.

    Parameters
    ----------
    at : ndarray of shape (m, 3)
        B as (u, v, w).
    asked : ndarray of shape (m,)
    cells : ndarray of CELL, of shape (n,)
    beta2 : float
        β².
    missing, own : ndarray of shape (n,)
        To be raised: by how much a cell is below; the largest distance of the tangent at its vertices.
    """
    ends, stack = np.empty(8), np.empty(256, dtype=np.int64)
    for p in range(len(at)):
        u, v, w = at[p, 0], at[p, 1], at[p, 2]
        stack[0] = 0
        size = 1
        while size > 0:
            size -= 1
            i = stack[size]
            less = asked[p] - step(at[p], cells, i, ends)
            if less <= 0.0:
                continue
            missing[i] = max(missing[i], less)
            k = cells[i].child
            if k > 0:
                stack[size], stack[size + 1] = k, k + 1
                size += 2
                continue
            if cells[i].kind == WILD:
                own[i] = NOTHING
                continue
            points, slopes = cells[i].points, cells[i].slopes
            for j in range(8):  # the same twice in cells of rank one
                U, V, W = points[j, 0], points[j, 1], points[j, 2]
                det = U * V - W * W
                if det <= 0.0:
                    own[i] = NOTHING
                    break
                true = (u * V - 2.0 * w * W + v * U) / det - v * beta2
                tangent = u * slopes[j, 0] + v * slopes[j, 1] + w * slopes[j, 2]
                own[i] = max(own[i], true - tangent)
