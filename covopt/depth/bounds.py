"""Lower bounds of deep networks: a registry of kinds, each with its search, its entries in files and its recheck."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from covopt.certificates.conjugate import balanced
from covopt.data import Data
from covopt.depth.dual_trees import dual_bound
from covopt.depth.families import DualTree
from covopt.depth.gram_chain import GramChain, gram_bound, gram_search
from covopt.depth.pairs import MOST_COMPARED, PairBound, pair_bounds, recompute
from covopt.depth.structs import from_json, to_json
from covopt.depth.tree import MOST_LAYERS
from covopt.depth.tree_search import TreeSearch
from covopt.errors import CovoptError
from covopt.exact.rank import ROUGH
from covopt.limits import TimeUp
from covopt.losses import Loss
from covopt.losses.regression import Interpolation


@dataclass(frozen=True)
class Asked:
    """What a bound is about: ‖W‖² of networks through the points, or C + λ‖W‖² where there is a loss.

    Attributes
    ----------
    data : Data
    depth : int
    output_bias : {"none", "penalized", "free"}
    upper : float
        Of some network: nothing above it is looked for.
    loss : Loss or None
        With its targets; None where the networks go through the points.
    lam : float
    """

    data: Data
    depth: int
    output_bias: str
    upper: float
    loss: Loss | None = None
    lam: float = 1.0

    @property
    def table(self) -> tuple[np.ndarray, np.ndarray, int, float, str]:
        """X, Y, the depth and the biases."""
        return self.data.X, self.data.Y, self.depth, self.data.bias, self.output_bias


@dataclass(frozen=True)
class Kind:
    """One kind of lower bound: the type of what it rests on, its name in words, and its value from the table.

    Attributes
    ----------
    proof : type
        As :func:`covopt.depth.structs.from_json` reads it.
    title : callable
        Of a proof.
    value : callable
        Of a proof and an :class:`Asked`: valid whatever the proof holds; raises where it is damaged.
    """

    proof: Any
    title: Callable[[Any], str]
    value: Callable[[Any, Asked], float]


def _dual_value(trees: tuple[DualTree, ...], asked: Asked) -> float:
    loss = asked.loss or Interpolation.of(asked.data.Y)
    return dual_bound(trees, asked.data, loss, asked.lam, asked.depth, asked.output_bias, upper=asked.upper)


def _gone(proof: Any, asked: Asked) -> float:
    raise ValueError("it rests on a kind of proof that is no longer read; compute the bracket again")


def _seen(trees: tuple[DualTree, ...]) -> str:
    rows = {row for tree in trees for row in tree.rows}
    return f"tree bound on {len(rows)} rows: copies of the lower layers for each neuron"


# by the name under which what it rests on stands in a file
KINDS: dict[str, Kind] = {
    "pair": Kind(PairBound, lambda pair: pair.title, lambda pair, asked: recompute(pair, *asked.table)),
    "cells": Kind(
        GramChain,
        lambda chain: (
            "rows {} and {} with biases: shortest paths over cells of their covariances".format(*chain.rows)
        ),
        lambda chain, asked: gram_bound(chain, *asked.table, cutoff=asked.upper),
    ),
    "trees": Kind(
        tuple[DualTree, ...],
        lambda trees: _seen(trees) if trees else "what the loss alone must be",
        _dual_value,
    ),
    **dict.fromkeys(
        ("chain", "families", "shares", "flows"), Kind(object, lambda _: "a proof of an older version", _gone)
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Bound:
    """One lower bound on R_L(X, Y), or on C + λ‖W‖².

    Attributes
    ----------
    value : float
    kind : str
        One of :data:`KINDS`.
    proof : object
        What it rests on.
    cutoff : float or None
        The norm beyond which it did not look. Any is valid; None for that of the network beside it.
    """

    value: float
    kind: str
    proof: Any
    cutoff: float | None = None

    @property
    def title(self) -> str:
        """What it is, in words."""
        return KINDS[self.kind].title(self.proof)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return {"value": self.value, self.kind: to_json(self.proof), "cutoff": self.cutoff}


def bound_from_dict(content: dict[str, Any]) -> Bound:
    """Inverse of :meth:`Bound.to_dict`; names of other kinds may stand beside with nothing in them.

    Raises
    ------
    ValueError, TypeError, LookupError
        Where the content is something else.
    """
    present = [kind for kind in KINDS if content.get(kind) is not None and content[kind] != []]
    present = present or [kind for kind in ("trees",) if kind in content]
    if len(present) != 1:
        raise ValueError("a bound rests on nothing" if not present else "a bound rests on two things")
    kind = present[0]
    cutoff = from_json(float | None, content.get("cutoff"))
    if cutoff is not None and not 0.0 < cutoff < math.inf:
        raise ValueError(f"a bound looks at norms up to {cutoff:g}")
    return Bound(
        from_json(float, content["value"]), kind, from_json(KINDS[kind].proof, content[kind]), cutoff
    )


def recompute_bound(bound: Bound, asked: Asked) -> tuple[float, str]:
    """Return the value of a bound, computed again from the data, and what was wrong with it if anything.

    Parameters
    ----------
    bound : Bound
    asked : Asked
        Bounds with a cutoff of their own do not look at ``upper``.

    Returns
    -------
    value : float
    why : str
        Empty, or a clause that begins with a semicolon.
    """
    if bound.cutoff is not None:
        asked = replace(asked, upper=bound.cutoff)
    if bound.kind != "trees" and asked.loss is not None:
        return 0.0, "; it is about another problem"
    try:
        return KINDS[bound.kind].value(bound.proof, asked), ""
    except (CovoptError, ValueError, LookupError, ArithmeticError) as error:
        return 0.0, f"; {error}"


MOST_ROWS = 5  # a family is closed over sets of positive rows: 2^rows of them
LEVELS = (0.1, 0.3, 0.5, 1.0, 3.0)  # of c, times the upper bound's mean layer
FINE = 5e-7  # goal for two rows alone


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
    """Return the tree bound, by duals for a few sizes of the layers.

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
    trees = tuple(dual_trees(data, depth, output_bias, upper=upper, weights=weights))
    value = _dual_value(trees, Asked(data, depth, output_bias, upper)) if trees else 0.0
    return [Bound(value, "trees", trees, upper)] if value > 0 else []


def chain_bounds(
    data: Data, depth: int, output_bias: str, *, upper: float, closed: list[Bound], known: float = 0.0
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
    known : float
        A bound: a pair that a cheaper network goes through is not looked at.

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
        (rows[0], rows[1]), data.X, data.Y, depth, data.bias, output_bias, upper=upper, known=known,
        goal=FINE if data.n_samples == 2 else ROUGH,
    )  # fmt: skip
    return [] if found is None else [Bound(found[0], "cells", found[1], upper)]


def dual_trees(
    data: Data,
    depth: int,
    output_bias: str,
    *,
    upper: float,
    weights: np.ndarray | None = None,
) -> list[DualTree]:
    """Return duals with their trees for a few sizes of the layers.

    Parameters
    ----------
    data, depth, output_bias, upper, weights
        As in :func:`tree_bounds`.
    """
    rows = _choose_rows(data, weights)
    direction = _choose_direction(data, weights)
    targets = data.Y[list(rows)] @ direction
    lifted = data.lifted[list(rows)]
    if not targets.any() or not lifted.any():
        return []
    free = output_bias == "free" and data.bias > 0
    found: list[DualTree] = []
    try:
        search = TreeSearch(lifted, targets, data.bias, free=free)
        levels = [scale * upper / depth for scale in LEVELS] if data.bias > 0 and depth > 2 else [1.0]
        for c in levels:
            search.use(c)
            dual, value = search.multipliers()
            if value > 0 and dual.any():
                along = np.outer(dual, direction)
                found.append(search.tree(rows, balanced(along) if free else along))
    except TimeUp:
        pass
    return found


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


def _choose_direction(data: Data, weights: np.ndarray | None) -> np.ndarray:
    """Return the main direction of the multipliers, or of the targets, as a unit vector."""
    table = data.Y if weights is None or not np.any(weights) else weights.reshape(data.Y.shape)
    main = np.linalg.svd(table, full_matrices=False)[2][0]
    return np.asarray(main * np.copysign(1.0, float((data.Y @ main).sum())))


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
    if data.bias > 0 and data.n_samples > MOST_COMPARED:
        found.append(
            f"{data.n_samples} rows are too many for the bound of pairs with one target, which takes {MOST_COMPARED}"
        )
    return found
