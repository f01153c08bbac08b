"""Lower bounds of deep networks: one registry of kinds, one file format, one recheck."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from covopt.data import Data
from covopt.depth.dual_trees import DualTree, dual_bound
from covopt.depth.families import Family
from covopt.depth.gram_chain import GramChain, gram_bound
from covopt.depth.pairs import PairBound, recompute
from covopt.depth.structs import from_json, to_json
from covopt.depth.tree import tree_bound
from covopt.errors import CovoptError
from covopt.losses import Loss

MAX_BOXES = 3000  # of the tree bound
TOL = 1e-3  # of its minimum over c


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
        With its targets.
    lam : float
    """

    data: Data
    depth: int
    output_bias: str
    upper: float
    loss: Loss | None = None
    lam: float = 0.0

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


def _tree_value(families: tuple[Family, ...], asked: Asked) -> float:
    return tree_bound(list(families), *asked.table, cutoff=asked.upper, tol=TOL, max_boxes=MAX_BOXES)


def _dual_value(trees: tuple[DualTree, ...], asked: Asked) -> float:
    assert asked.loss is not None
    return dual_bound(
        trees, asked.data, asked.loss, asked.lam, asked.depth, asked.output_bias, upper=asked.upper
    )


def _gone(proof: Any, asked: Asked) -> float:
    raise ValueError("it rests on a kind of proof that is no longer read; compute the bracket again")


def _seen(families: list[Family]) -> str:
    rows = {row for family in families for row in family.rows}
    return f"tree bound on {len(rows)} rows: copies of the lower layers for each neuron"


# by the name under which what it rests on stands in a file
KINDS: dict[str, Kind] = {
    "pair": Kind(PairBound, lambda pair: pair.title, lambda pair, asked: recompute(pair, *asked.table)),
    "families": Kind(tuple[Family, ...], lambda families: _seen(list(families)), _tree_value),
    "chain": Kind(
        GramChain,
        lambda chain: (
            "rows {} and {} with biases: shortest paths over cells of their covariances".format(*chain.rows)
        ),
        lambda chain, asked: gram_bound(chain, *asked.table, cutoff=asked.upper),
    ),
    "trees": Kind(
        tuple[DualTree, ...],
        lambda trees: _seen([t.family for t in trees]) if trees else "what the loss alone must be",
        _dual_value,
    ),
    "shares": Kind(object, lambda _: "branch and bound over shares, of an older version", _gone),
    "flows": Kind(object, lambda _: "a transport, of an older version", _gone),
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
    if (bound.kind == "trees") != (asked.loss is not None):
        return 0.0, "; it is about another problem"
    try:
        return KINDS[bound.kind].value(bound.proof, asked), ""
    except (CovoptError, ValueError, LookupError, ArithmeticError) as error:
        return 0.0, f"; {error}"
