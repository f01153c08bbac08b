"""Lower bounds on training with weight decay, found where a trained network stands."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

import numpy as np

from covopt.certificates.conjugate import balanced, into_domain
from covopt.data import Data
from covopt.depth.bounds import KINDS, Asked, Bound
from covopt.depth.copies import Copies
from covopt.depth.dual_trees import DualTree
from covopt.depth.families import Family
from covopt.depth.layers import Layout
from covopt.depth.tree_search import TreeSearch
from covopt.limits import TimeUp
from covopt.losses import Loss

MOST_ROWS = {3: 30, 4: 10}  # of a tree for so many layers
FEW_ROWS = 6  # for more layers, where a family is closed under taking children
MOST_MEMBERS = 6000
MOST_CELLS = 1000  # of the rows: each height asks for the best neuron
OWN_SHARE = 0.8  # where the family of a network's own residuals is chosen, of its mean layer's squared norm
SHARES = (0.6, 0.35, 0.1)  # of the mean layer's squared norm, where duals are taken
SIDES = 8  # half a polygon about the circle: two per cent are lost at most
ROUGH = 1e-4  # of each μ


def fit_bounds(
    data: Data, loss: Loss, lam: float, output_bias: str, layout: Layout, theta: np.ndarray, upper: float
) -> list[Bound]:
    """Return lower bounds on the least objective, best first.

    Parameters
    ----------
    data : Data
    loss : Loss
        With its targets.
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
            if len(trees) == 1:  # the rest may not be ready in time
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
    """Yield duals for several sizes of the lower layers, with their trees.

    At the best network its residuals are nearly the dual; at other sizes those of the best network of copies
    (:mod:`covopt.depth.copies`) are.
    """
    depth = layout.depth
    outputs = layout.forward(theta, data.X)[1][-1]
    residuals = _residuals(loss, outputs)
    rows = _heaviest(data, residuals, depth)
    if not len(rows):
        return
    part = loss.take(rows)
    copies = Copies(layout, theta, data.X[rows], part, lam, np.random.default_rng(0))
    layers = [float((w**2).sum()) for w in layout.split(theta)]
    mean = max(float(np.mean(layers)), 1e-3 * upper / (lam * depth))
    own = [(OWN_SHARE, outputs[rows], layout.forward(theta, data.X[rows])[1][-2])]
    if len(rows) < int(residuals.any(axis=1).sum()):  # the residuals of all rows are no dual of some
        own = []
    for share, here, activations in chain(own, ((share, *copies.train(share * mean)) for share in SHARES)):
        slope = into_domain(part, part.gradient(here), balanced=output_bias == "free" and data.bias > 0.0)
        tree = dual_tree(
            data, rows, -slope, depth, share * mean, activations, level=loss.domain_box() is None
        )
        if tree is not None:
            yield tree


def _residuals(loss: Loss, outputs: np.ndarray) -> np.ndarray:
    """Return −∇C, zero where a row costs nothing."""
    counted = np.flatnonzero(loss.weights[:, 0] > 0.0)
    residuals = np.zeros_like(outputs)
    residuals[counted] = -loss.take(counted).gradient(outputs[counted])
    return residuals


def _heaviest(data: Data, residuals: np.ndarray, depth: int) -> np.ndarray:
    """Return the rows that matter most, heaviest first: sets of rows are cut at these first."""
    sizes = np.linalg.norm(residuals, axis=1) * np.linalg.norm(data.lifted, axis=1)
    most, dim = MOST_ROWS.get(depth, FEW_ROWS), data.lifted.shape[1]
    while most > FEW_ROWS and 2 * sum(math.comb(most - 1, i) for i in range(dim)) > MOST_CELLS:
        most -= 1
    rows = np.argsort(-sizes, kind="stable")[:most]
    return rows[sizes[rows] > 0.0]


def dual_tree(
    data: Data,
    rows: np.ndarray,
    dual: np.ndarray,
    depth: int,
    c: float,
    activations: np.ndarray,
    *,
    level: bool,
) -> DualTree | None:
    """Return a dual with the heights of its directions."""
    if not dual.any():
        return None
    directions = _directions(dual, level)
    search = TreeSearch(data.lifted[rows], dual[:, 0], data.bias, tol=ROUGH)
    search.use(c)
    search.hints = list(activations.T)
    levels = depth - 2 if depth in MOST_ROWS else None
    members, children, places = search.close(
        [dual @ w for w in directions], levels=levels, max_members=MOST_MEMBERS
    )
    family = Family(tuple(rows.tolist()), None, members, children, places[0][0])
    return DualTree(family.rows, dual, directions, family, tuple(places))


def _directions(dual: np.ndarray, level: bool) -> np.ndarray:
    """Return directions of the outputs that :func:`covopt.depth.dual_trees.covering` takes."""
    k = dual.shape[1]
    if not level:
        space = np.eye(k)
    else:  # vectors that sum to zero
        space = np.linalg.svd(np.ones((1, k)))[2][1:]
        if k == 3:  # turning to the left in the first two coordinates
            space = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / np.sqrt([[2.0], [6.0]])
    if len(space) == 2:
        angles = np.pi * np.arange(SIDES) / SIDES
        found = np.cos(angles)[:, None] * space[0] + np.sin(angles)[:, None] * space[1]
    else:
        found = np.linalg.svd(dual @ space.T)[2] @ space
    return np.array([balanced(w) for w in found]) if level else found
