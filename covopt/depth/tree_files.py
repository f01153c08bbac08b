"""Families of the tree bound as JSON types."""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.depth.families import Child, Family


def family_to_dict(family: Family) -> dict[str, Any]:
    """Return a family as JSON types."""
    return {
        "rows": list(family.rows),
        "direction": None if family.direction is None else list(family.direction),
        "members": family.members.tolist(),
        "children": [
            [c.parent, c.sign, c.on, list(c.mu), c.member, c.scale, *([c.maybe] if c.maybe else [])]
            for c in family.children
        ],
        "root": family.root,
    }


def family_from_dict(content: dict[str, Any]) -> Family:
    """Inverse of :func:`family_to_dict`.

    Raises
    ------
    ValueError, TypeError, LookupError
        Where the content is something else.
    """
    members = np.array(content["members"], dtype=float)
    if members.ndim != 2 or not np.isfinite(members).all():
        raise ValueError("the members of a family are no finite matrix")
    children = [
        Child(
            whole(p),
            whole(s),
            whole(on),
            tuple(float(m) for m in mu),
            whole(k),
            float(scale),
            *map(whole, maybe),
        )
        for p, s, on, mu, k, scale, *maybe in content["children"]
    ]
    direction = content["direction"]
    return Family(
        tuple(whole(i) for i in content["rows"]),
        None if direction is None else tuple(float(u) for u in direction),
        members,
        children,
        whole(content["root"]),
    )


def whole(value: Any) -> int:
    """Return an int that JSON held; nothing else counts as one."""
    if type(value) is not int:
        raise TypeError(f"{str(value)[:40]!r} is no whole number")
    return value
