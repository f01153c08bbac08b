"""Certificates by shares as JSON types."""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.depth.shares import Multipliers, Shares, Split
from covopt.depth.tree_files import whole


def shares_to_dict(shares: Shares) -> dict[str, Any]:
    """Return a certificate as JSON types."""
    return {
        "rows": list(shares.rows),
        "direction": None if shares.direction is None else list(shares.direction),
        "positive": list(shares.positive),
        "groups": [list(group) for group in shares.groups],
        "points": [[point.weights.tolist(), point.bends.tolist()] for point in shares.points],
        "nodes": [
            [node.axis, node.at, node.left, node.right] if isinstance(node, Split) else node
            for node in shares.nodes
        ],
    }


def shares_from_dict(content: dict[str, Any]) -> Shares:
    """Inverse of :func:`shares_to_dict`.

    Raises
    ------
    ValueError, TypeError, LookupError
        Where the content is something else.
    """
    direction = content["direction"]
    positive = content["positive"]
    if not all(isinstance(sign, bool) for sign in positive):
        raise TypeError("the signs of a certificate by shares are true or false")
    nodes: list[Split | int] = []
    for node in content["nodes"]:
        if isinstance(node, list):
            axis, at, left, right = node
            nodes.append(Split(whole(axis), float(at), whole(left), whole(right)))
        else:
            nodes.append(whole(node))
    return Shares(
        tuple(whole(i) for i in content["rows"]),
        None if direction is None else tuple(float(u) for u in direction),
        tuple(positive),
        tuple(tuple(whole(k) for k in group) for group in content["groups"]),
        [Multipliers(np.array(w, dtype=float), np.array(b, dtype=float)) for w, b in content["points"]],
        nodes,
    )
