"""Lower bounds on training with weight decay, from the residuals of trained networks.

The tree bound is the dual of training networks in which each last hidden neuron has its own copy of the lower layers.
For fixed squared norms c_ℓ of the lower L − 2 layers (equal in all copies, counted once) the residuals of the best
such network are optimal dual variables. With c instead of c₀ in the lower layers, the last two cost √(c₀/c)^{L−2} as
much for the same outputs: dual variables at c are the residuals of training with λ multiplied by that factor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from covopt.certificates.conjugate import into_domain
from covopt.data import Data
from covopt.depth.bounds import KINDS, MOST_ROWS, Asked, Bound
from covopt.depth.descent import decay
from covopt.depth.families import DualTree
from covopt.depth.layers import Layout
from covopt.depth.tree_search import TIGHT, TreeSearch
from covopt.limits import TimeUp
from covopt.losses import Loss

ROWS = {3: 30, 4: 10}  # rows of a tree, by depth; for larger depths, where families are closed, MOST_ROWS
MOST_CELLS = 1000  # activation cells of the rows: each height is a maximum over them
# values of c relative to the mean squared norm of a layer; the first uses the network's own residuals
SHARES = (0.8, 0.6, 0.35, 0.1)


def fit_bounds(
    data: Data, loss: Loss, lam: float, output_bias: str, layout: Layout, theta: np.ndarray, upper: float
) -> list[Bound]:
    """Return lower bounds on the least objective, best first.

    Parameters
    ----------
    data : Data
    loss : Loss
        Bound to its targets.
    lam : float
    output_bias : {"none", "penalized", "free"}
    layout, theta : Layout, ndarray of shape (layout.size,)
        A trained network.
    upper : float
        Its objective.
    """
    asked = Asked(data, layout.depth, output_bias, upper, loss, lam)
    done = [_bound((), asked)]
    trees: list[DualTree] = []
    try:
        for tree in _trees(data, loss, lam, output_bias, layout, theta, upper):
            trees.append(tree)
            if len(trees) == 1:  # keep a bound now: the other trees may not be ready before the deadline
                done.append(_bound((tree,), asked))
        if len(trees) > 1:
            done[1] = _bound(tuple(trees), asked)
    except TimeUp:
        pass
    return sorted(done, key=lambda bound: -bound.value)


def _bound(trees: tuple[DualTree, ...], asked: Asked) -> Bound:
    return Bound(KINDS["trees"].value(trees, asked), "trees", trees)


def _trees(
    data: Data, loss: Loss, lam: float, output_bias: str, layout: Layout, theta: np.ndarray, upper: float
) -> Iterator[DualTree]:
    """Yield dual variables with their trees, for several norms of the lower layers."""
    depth = layout.depth
    residuals = _residuals(loss, layout.forward(theta, data.X)[1][-1])
    rows = _heaviest(data, residuals, depth)
    if not len(rows):
        return
    X, part = data.X[rows], loss.take(rows)
    layers = [float((w**2).sum()) for w in layout.split(theta)]
    mean = max(float(np.mean(layers)), 1e-3 * upper / (lam * depth))
    # the network's own residuals serve only if ``rows`` contains every row with a residual
    seen = len(rows) == int(residuals.any(axis=1).sum())
    for share in SHARES if seen else SHARES[1:]:
        there = (
            theta if share == SHARES[0] else decay(layout, theta, X, part, lam * share ** (1.0 - depth / 2.0))
        )
        *_, activations, outputs = layout.forward(there, X)[1]
        slope = into_domain(part, part.gradient(outputs), free=output_bias == "free" and data.bias > 0.0)
        if slope.any():
            search = TreeSearch(data.lifted[rows], -slope[:, 0], data.bias, tol=TIGHT)
            search.use(share * mean)
            search.hints = list(activations.T)
            yield search.tree(
                rows.tolist(), -slope, level=loss.is_level,
                levels=depth - 2 if depth in ROWS else None,
            )  # fmt: skip


def _residuals(loss: Loss, outputs: np.ndarray) -> np.ndarray:
    """Return −∇C, with zeros for rows of weight zero."""
    counted = np.flatnonzero(loss.weights[:, 0] > 0.0)
    residuals = np.zeros_like(outputs)
    residuals[counted] = -loss.take(counted).gradient(outputs[counted])
    return residuals


def _heaviest(data: Data, residuals: np.ndarray, depth: int) -> np.ndarray:
    """Return the rows with the largest ‖residual‖·‖(x, β)‖, in decreasing order: sets of rows are split in it."""
    sizes = np.linalg.norm(residuals, axis=1) * np.linalg.norm(data.lifted, axis=1)
    most, dim = ROWS.get(depth, MOST_ROWS), data.lifted.shape[1]
    while most > MOST_ROWS and 2 * sum(math.comb(most - 1, i) for i in range(dim)) > MOST_CELLS:
        most -= 1
    rows = np.argsort(-sizes, kind="stable")[:most]
    return rows[sizes[rows] > 0.0]
