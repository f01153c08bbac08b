"""Lower bounds of deep networks: the search for each kind."""

from __future__ import annotations

import numpy as np

from covopt.data import Data
from covopt.depth.bounds import MAX_BOXES, TOL, Bound
from covopt.depth.families import Family
from covopt.depth.gram_search import gram_search
from covopt.depth.gram_trees import MOST_CELLS
from covopt.depth.level import MOST_ROWS as LEVEL_ROWS
from covopt.depth.pairs import pair_bounds
from covopt.depth.tree import MOST_LAYERS, tree_bound
from covopt.depth.tree_search import TreeSearch
from covopt.limits import TimeUp, seconds_left

MOST_ROWS = 5  # a family is closed over sets of positive rows: 2^rows of them
LEVELS = (0.3, 0.5, 1.0, 3.0)  # of c, times the upper bound's mean layer
LOW_LEVELS = (0.1, 0.3, 0.5, 1.0)  # the same for more layers than four
MANY_LAYERS = 4
FINE, COARSE = 5e-7, 1e-3  # goals for two rows alone, and for two of many
FEW_CELLS = 4000  # of a layer, for two of many


def closed_bounds(data: Data, depth: int, output_bias: str) -> list[Bound]:
    """Return the bounds by one or two rows, best first.

    Parameters
    ----------
    data : Data
    depth : int
    output_bias : {"none", "penalized", "free"}
    """
    found = pair_bounds(data.X, data.Y, depth, data.bias, output_bias)
    return [Bound(pair.value, "pair", pair) for pair in found]


def tree_bounds(
    data: Data,
    depth: int,
    output_bias: str,
    *,
    upper: float,
    weights: np.ndarray | None = None,
) -> list[Bound]:
    """Return the tree bound, by families for a few sizes of the layers.

    Parameters
    ----------
    data : Data
    depth : int
    output_bias : {"none", "penalized", "free"}
    upper : float
        The squared norm of some network through the points.
    weights : ndarray of shape (N,) or (N, k), optional
        A dual of the shallow problem: says which rows, and which direction of the outputs, matter.

    Returns
    -------
    list of Bound
        One, or none where nothing was found in time.
    """
    families = tree_families(data, depth, output_bias, upper=upper, weights=weights)
    if not families:
        return []
    value = tree_bound(
        families, data.X, data.Y, depth, data.bias, output_bias, cutoff=upper, tol=TOL, max_boxes=MAX_BOXES
    )
    return [Bound(value, "families", tuple(families), upper)] if value > 0 else []


def chain_bounds(
    data: Data, depth: int, output_bias: str, *, upper: float, closed: list[Bound]
) -> list[Bound]:
    """Return the bound by the pair of rows that the closed forms find dearest, exact for two rows with biases.

    Parameters
    ----------
    data : Data
    depth : int
    output_bias : {"none", "penalized", "free"}
    upper : float
        The squared norm of some network through the points.
    closed : list of Bound
        Of :func:`closed_bounds`.

    Returns
    -------
    list of Bound
        One or none.
    """
    pairs = [bound.proof.rows for bound in closed if len(bound.proof.rows) == 2]
    if data.bias == 0.0 or not pairs:
        return []
    rows = (0, 1) if data.n_samples == 2 else pairs[0]
    found = gram_search(
        (rows[0], rows[1]), data.X, data.Y, depth, data.bias, output_bias, upper=upper,
        goal=FINE if data.n_samples == 2 else COARSE, most=MOST_CELLS if data.n_samples == 2 else FEW_CELLS,
    )  # fmt: skip
    return [] if found is None else [Bound(found[0], "chain", found[1], upper)]


def tree_families(
    data: Data,
    depth: int,
    output_bias: str,
    *,
    upper: float,
    weights: np.ndarray | None = None,
) -> list[Family]:
    """Return families of multipliers for a few sizes of the layers.

    Parameters
    ----------
    data, depth, output_bias, upper, weights
        As in :func:`tree_bounds`.
    """
    rows = _choose_rows(data, weights)
    direction = _choose_direction(data, weights)
    targets = data.Y[list(rows)] @ (np.ones(1) if direction is None else np.array(direction))
    lifted = data.lifted[list(rows)]
    if not targets.any() or not lifted.any():
        return []
    free = output_bias == "free" and data.bias > 0
    families: list[Family] = []
    try:
        search = TreeSearch(lifted, targets, data.bias, free=free)
        scales = LEVELS if depth <= MANY_LAYERS else LOW_LEVELS
        levels = [scale * upper / depth for scale in scales] if data.bias > 0 and depth > 2 else [1.0]
        for c in levels:
            search.use(c)
            found, value = search.multipliers()
            if value > 0 and found.any():
                families.append(search.family(rows, direction, found))
    except TimeUp:
        if seconds_left() <= 0 and not families:
            return []
    return families


def _choose_rows(data: Data, weights: np.ndarray | None) -> tuple[int, ...]:
    """Return the rows with the largest multipliers; all where they are few."""
    if data.n_samples <= MOST_ROWS:
        return tuple(range(data.n_samples))
    size = (
        np.abs(data.Y).max(axis=1)
        if weights is None
        else np.abs(weights.reshape(len(data.X), -1)).max(axis=1)
    )
    return tuple(sorted(np.argsort(-size, kind="stable")[:MOST_ROWS].tolist()))


def _choose_direction(data: Data, weights: np.ndarray | None) -> tuple[float, ...] | None:
    """Return the main direction of the multipliers, or of the targets; None for one output."""
    if data.n_outputs == 1:
        return None
    table = data.Y if weights is None or not np.any(weights) else weights.reshape(data.Y.shape)
    main = np.linalg.svd(table, full_matrices=False)[2][0]
    return tuple((main * np.copysign(1.0, float((data.Y @ main).sum()))).tolist())


def too_large(data: Data, depth: int) -> list[str]:
    """Return a sentence for each bound that a table or a depth is too large for, or that takes a part of the rows.

    Parameters
    ----------
    data : Data
    depth : int
    """
    found = []
    if depth > MOST_LAYERS and data.bias > 0:
        found.append(f"{depth} layers are too many for the tree bound, which takes {MOST_LAYERS}")
    elif data.n_samples > MOST_ROWS:
        found.append(f"{data.n_samples} rows are too many for the tree bound: it takes {MOST_ROWS} of them")
    if data.bias > 0 and data.n_samples > LEVEL_ROWS:
        found.append(
            f"{data.n_samples} rows are too many for the bound of pairs with one target, which takes {LEVEL_ROWS}"
        )
    return found
