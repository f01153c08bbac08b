"""Trees of cells for two rows with biases: halved along the cheapest chains until their bound meets the network."""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy.optimize import minimize

from covopt.depth.gram_cells import CUT, INSIDE, NOTHING, WILD, step
from covopt.depth.gram_chain import MOST_CELLS, MOST_HALVED, Cells, GramChain, TwoRows, pay
from covopt.limits import TimeUp, checkpoint

ROUNDS = MOST_HALVED  # each halves a cell once at most
STARTS = 6  # of descent
SHARE = 1.0  # of a layer's part of what is missing: cells that lose more by themselves are halved


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
    layers = task.cells()
    best: tuple[float, GramChain] | None = None
    fresh = [np.arange(1) for _ in layers]
    try:
        aim, share = min(upper, cheapest_chain(task)) * (1.0 - goal), SHARE
        for _ in range(ROUNDS):
            checkpoint()
            for k in range(len(layers) - 1, -1, -1):
                pay(task, layers, k, fresh[k])
            value = task.least(layers[0])
            if best is None or value > best[0]:
                best = value, GramChain(rows, tuple(layer.written() for layer in layers))
            if value >= aim:
                break
            fresh, share = _refine(task, layers, aim, share)
            if max(len(layer.low) for layer in layers) > most or not any(map(len, fresh)):
                break
    except TimeUp:
        pass
    return best


def cheapest_chain(task: TwoRows) -> float:
    """Return what the cheapest chain of covariances found by descent costs.

    M̄_ℓ = AAᵀ with two neurons, entries ≥ 0; in the first layer a neuron that is on at one row only costs its square
    over G_ii. L-BFGS from a few starts.

    Parameters
    ----------
    task : TwoRows
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

    best = np.inf
    for _ in range(STARTS):
        checkpoint()
        start = np.abs(rng.standard_normal(4 * count + 2 * single)) + 0.1
        try:
            found = minimize(
                cost, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(start),
                options={"maxiter": 3000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 30},
            )  # fmt: skip
        except np.linalg.LinAlgError:
            continue
        best = min(best, float(found.fun))
    return best


def _refine(task: TwoRows, layers: list[Cells], aim: float, share: float) -> tuple[list[np.ndarray], float]:
    """Halve the cells that keep the bound below ``aim``; return those that are to be paid again."""
    at = np.array(task.starts)
    asked = np.full(len(at), aim)
    out, halved = [], 0
    for layer in layers:
        missing, own = np.zeros(len(layer.low)), np.zeros(len(layer.low))
        mark(
            at, asked, layer.child, layer.slopes, layer.sizes, layer.room, layer.kinds, layer.left, layer.points,
            layer.beta2, missing, own,
        )  # fmt: skip
        critical = np.flatnonzero(missing > 0.0)
        leaves = critical[layer.child[critical] == 0]
        rough = leaves[own[leaves] >= share * missing[leaves] / len(layers)]
        open_leaves = leaves[(layer.kinds[leaves] == CUT) | (layer.kinds[leaves] == INSIDE)]
        at = layer.points[open_leaves].reshape(-1, 3)
        asked = (layer.left[open_leaves] + missing[open_leaves, None]).ravel()
        halved += len(rough)
        if len(rough):
            layer.halve(rough, _axes(layer.low[rough], layer.high[rough]))
        out.append(np.r_[critical, layer.fill()])
    return out, share if halved else 0.5 * share


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
    at: np.ndarray,
    asked: np.ndarray,
    child: np.ndarray,
    slopes: np.ndarray,
    sizes: np.ndarray,
    room: np.ndarray,
    kinds: np.ndarray,
    left: np.ndarray,
    points: np.ndarray,
    beta2: float,
    missing: np.ndarray,
    own: np.ndarray,
) -> None:
    """Find the cells by which what is left to pay at some B is below what is asked for, and what they lose.

    Parameters
    ----------
    at : ndarray of shape (m, 3)
        B as (u, v, w).
    asked : ndarray of shape (m,)
    child, slopes, sizes, room, kinds, left : ndarray
        The tree of cells, as in :func:`covopt.depth.gram_cells.cheapest`.
    points : ndarray of shape (n, 8, 3)
        Vertices.
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
            less = asked[p] - step(at[p], i, slopes, sizes, room, kinds, left, ends)
            if less <= 0.0:
                continue
            missing[i] = max(missing[i], less)
            k = child[i]
            if k > 0:
                stack[size], stack[size + 1] = k, k + 1
                size += 2
                continue
            if kinds[i] == WILD:
                own[i] = NOTHING
                continue
            for j in range(8):
                U, V, W = points[i, j, 0], points[i, j, 1], points[i, j, 2]
                det = U * V - W * W
                if det <= 0.0:
                    own[i] = NOTHING
                    break
                true = (u * V - 2.0 * w * W + v * U) / det - v * beta2
                tangent = u * slopes[i, j, 0] + v * slopes[i, j, 1] + w * slopes[i, j, 2]
                own[i] = max(own[i], true - tangent)
