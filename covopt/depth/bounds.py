"""Lower bounds on the cost of deep networks: a registry of kinds, each with its search, file format and check."""

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
from covopt.exact.rank import NEAR, ROUGH
from covopt.limits import HALF, TimeUp
from covopt.losses import Interpolation, Loss


@dataclass(frozen=True)
class Asked:
    """The problem that is bounded: min ‖W‖² subject to interpolation, or min C + λ‖W‖² with a loss.

    Attributes
    ----------
    data : Data
    depth : int
    output_bias : {"none", "penalized", "free"}
    upper : float
        Objective of a known network; lower bounds are not raised beyond it.
    loss : Loss or None
        Bound to its targets; None for interpolation.
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
    """One kind of lower bound: the type of its proof, a title, and the function that evaluates it.

    Attributes
    ----------
    proof : type
        A type that :func:`covopt.depth.structs.from_json` reads.
    title : callable
        Maps a proof to a title.
    value : callable
        Maps a proof and an :class:`Asked` to a valid lower bound, whatever the proof contains; raises if damaged.
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


# the keys are the names of the kinds in files
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
        The data from which the bound is recomputed, of the type that its kind names.
    cutoff : float or None
        The upper bound at which its search stopped; any value is valid. None stands for that of the solution.
    """

    value: float
    kind: str
    proof: Any
    cutoff: float | None = None

    @property
    def title(self) -> str:
        """Short description of the bound."""
        return KINDS[self.kind].title(self.proof)

    def to_dict(self) -> dict[str, Any]:
        """Return the bound as JSON types."""
        return {"value": self.value, self.kind: to_json(self.proof), "cutoff": self.cutoff}


def bound_from_dict(content: dict[str, Any]) -> Bound:
    """Read what :meth:`Bound.to_dict` wrote; keys of other kinds may be present if they are empty.

    Raises
    ------
    ValueError, TypeError, LookupError
        If the content is not a bound.
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
    """Recompute a bound from the data; return its value and, if it is invalid, the reason.

    Parameters
    ----------
    bound : Bound
    asked : Asked
        ``upper`` is ignored for bounds that have a ``cutoff``.

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


MOST_ROWS = 5  # a family is closed over the sets of positive rows, of which there are 2^rows
LEVELS = (0.1, 0.3, 0.5, 1.0, 3.0)  # values of c, relative to the upper bound per layer


def closed_bounds(data: Data, depth: int, output_bias: str) -> list[Bound]:
    """Return the closed-form bounds that use one or two rows, best first.

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
    """Return the tree bound, from dual vectors at a few values of the layer norms c.

    Parameters
    ----------
    data : Data
    depth : int
    output_bias : {"none", "penalized", "free"}
    upper : float
        The squared norm of some network through the points.
    weights : ndarray of shape (N,) or (N, k), optional
        Dual variables of the shallow problem, used to choose the rows and the direction of the outputs.

    Returns
    -------
    list of Bound
        One bound, or none if nothing was found in time.
    """
    trees = tuple(dual_trees(data, depth, output_bias, upper=upper, weights=weights))
    value = _dual_value(trees, Asked(data, depth, output_bias, upper)) if trees else 0.0
    return [Bound(value, "trees", trees, upper)] if value > 0 else []


def chain_bounds(
    data: Data,
    depth: int,
    output_bias: str,
    *,
    upper: float,
    closed: list[Bound],
    known: float = 0.0,
    tol: float = NEAR,
) -> list[Bound]:
    """Return the bound by the pair of rows with the largest closed-form bound; exact for two rows with biases.

    Parameters
    ----------
    data : Data
    depth : int
    output_bias : {"none", "penalized", "free"}
    upper : float
        The squared norm of some network through the points.
    closed : list of Bound
        Result of :func:`closed_bounds`.
    known : float
        A known lower bound: a pair that a cheaper network interpolates cannot improve it and is skipped.
    tol : float
        Relative gap of the whole bracket; half of it is aimed at where the table has two rows only.

    Returns
    -------
    list of Bound
        One bound or none.
    """
    pairs = [bound.proof.rows for bound in closed if len(bound.proof.rows) == 2]
    if data.bias == 0.0 or not pairs:
        return []
    rows = (0, 1) if data.n_samples == 2 else pairs[0]
    found = gram_search(
        (rows[0], rows[1]), data.X, data.Y, depth, data.bias, output_bias, upper=upper, known=known,
        goal=HALF * tol if data.n_samples == 2 else ROUGH,
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
    """Return dual vectors with their trees, for a few values of the layer norms c.

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
    """Return the rows with the largest multipliers; all rows of a small table."""
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
    """Return a sentence for each bound that is left out, or uses part of the rows, because of table size or depth.

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
