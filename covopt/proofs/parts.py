"""Large covers in parts: which boxes go where, and what their answers say together.

No part of the checker: it is used on a cluster; what it must not do is leave
a box out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from covopt.proofs.checker.cover import (
    Boxes,
    Cover,
    Rows,
    Tree,
    begin,
    check_boxes,
    check_cover,
    half,
    read_tree,
    take,
)

PART = 4096  # nodes of the tree that are checked at a time: about a quarter of a second
MOST_PARTS = 1024  # their boxes are made beforehand, 100 kB for a part

Spread = Callable[[Callable[..., Any], Iterable[tuple[Any, ...]]], Iterable[Any]]


def in_parts(spread: Spread | None) -> Callable[..., Cover]:
    """Return :func:`~covopt.proofs.checker.cover.check_cover`, or what stands for it and gives parts away.

    Parameters
    ----------
    spread : callable or None
        Calls a function with each of several tuples of arguments, elsewhere, and yields the answers in order. With
        None everything is checked here.
    """

    def check(
        y: np.ndarray, sign: np.ndarray, linear: np.ndarray, H: Fraction, code: bytes, *, extra: int
    ) -> Cover:
        if len(code) <= PART:
            return check_cover(y, sign, linear, H, code, extra=extra)
        tree = read_tree(code, y.shape[1])
        rows, boxes = begin(y, sign, linear, H, tree, False)
        above, parts = cut_into_parts(rows, tree, boxes, PART)
        tasks = [(rows, part, below, extra) for below, part in parts]
        proved, last, seen, spent = zip(*spread(check_boxes, tasks), strict=True)  # type: ignore[misc]
        # in one piece a value above H, or too many cuts, would have had an effect on what comes after it
        if any(each != H for each in last) or sum(spent) > extra:
            return check_cover(y, sign, linear, H, code, extra=extra)
        return Cover(max(proved) - H, above + sum(seen), sum(spent))

    return check_cover if spread is None else check


def cut_into_parts(rows: Rows, tree: Tree, boxes: Boxes, nodes: int) -> tuple[int, list[tuple[Tree, Boxes]]]:
    """Make the cuts nearest to the roots, and parts of the tree, of so many nodes or more, of what is below them."""
    seen, size, done = 0, _sizes(tree), []
    most = max(nodes, len(size) // MOST_PARTS)
    while True:
        large = (size[boxes.node] > most) & (tree.cut[boxes.node] >= 0)
        done.append(take(boxes, ~large))
        boxes, cut = take(boxes, large), tree.cut[boxes.node[large]]
        if not len(cut):
            break
        seen += len(cut)
        boxes = _joined(half(rows, boxes, cut, tree, up=False), half(rows, boxes, cut, tree, up=True))
    boxes = _joined(*done)
    boxes = _ordered(boxes, np.argsort(boxes.node, kind="stable"))
    owner = np.cumsum(size[boxes.node]) // most
    parts = []
    for each in np.unique(owner):
        part = take(boxes, owner == each)
        begin, end = int(part.node[0]), int(part.node[-1] + size[part.node[-1]])
        below = Tree(tree.cut[begin:end], tree.upper[begin:end] - begin, [])
        parts.append((below, part._replace(node=part.node - begin)))
    return seen, parts


def _sizes(tree: Tree) -> np.ndarray:
    """Return how many nodes are at and below each one."""
    size = np.ones(len(tree.cut), dtype=np.int64)
    for place in range(len(size) - 1, -1, -1):
        if tree.cut[place] >= 0:
            size[place] += size[place + 1] + size[tree.upper[place]]
    return size


def _joined(*many: Boxes) -> Boxes:
    return Boxes(*(np.concatenate(parts) for parts in zip(*many, strict=True)))


def _ordered(boxes: Boxes, order: np.ndarray) -> Boxes:
    start = np.cumsum(boxes.undecided) - boxes.undecided
    count = boxes.undecided[order]
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    entries = np.repeat(start[order], count) + within
    return Boxes(*(part[order] for part in boxes[:7]), *(part[entries] for part in boxes[7:]))
