"""Make a closed cover: slopes, normals and further cuts for a tree of boxes, until every leaf closes in integers.

Nothing here is trusted: the result is checked by :mod:`covopt.proofs.checker.covopt_check`, whose functions also cut
the boxes here. Slopes and normals are computed in floating point.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from covopt.exact.rank import ATOMS
from covopt.proofs.checker.covopt_check import (
    DEEPEST,
    check_cover,
    closed,
    fields,
    half,
    pull,
    rows_of,
    start,
    widths,
)  # fmt: skip

ENTRIES = 1 << 19  # undecided rows of the boxes of a batch


class Node:
    """A box: cut along a coordinate, or a leaf with its numbers in bits; its axis is D where it is quadratic."""

    __slots__ = ("axis", "cuts", "leaf", "lower", "state", "upper")

    def __init__(self, state: Any, cuts: tuple[int, ...]):
        self.state, self.cuts = state, cuts
        self.axis = -1
        self.leaf: Any = None
        self.lower: Any = None
        self.upper: Any = None

    def cut(self, axis: int) -> list[Node]:
        """Cut the box; return the upper half and the lower."""
        cuts = (*self.cuts[:axis], self.cuts[axis] + 1, *self.cuts[axis + 1 :])
        (box, rows, linear), self.axis, self.state = self.state, axis, None
        self.upper, self.lower = (Node(half(box, rows, linear, axis, up), cuts) for up in (True, False))
        return [self.upper, self.lower]

    def keep(self, numbers: list[tuple[int, int]]) -> None:
        """Store the numbers of a leaf, each given with its width in bits."""
        value, width = 0, 0
        for number, bits in numbers:
            value, width = value << bits | number, width + bits
        self.leaf = f"0{width}b", value

    def closes(self, choice: Choice, own: Any) -> bool:
        """Return whether the choice closes the box, and store it; keep the box if a larger H might open it again."""
        box, rows, linear = self.state
        normal, slopes = choice.normal, choice.slopes
        self.leaf = None
        if not closed(box, rows, linear, normal, slopes, own):
            return False
        self.keep(
            [*((p + own.unit, own.normal_bits) for p in normal), *((a, own.slope_bits) for a in slopes)]
        )
        ends = zip(pull(own.basis, normal), box, strict=True)
        if sum([min(p * low, p * high) for p, (low, high) in ends]) >= 0:
            self.state = None
        return True


def close(own: Any, known: int, most: int, advisor_of: Callable[..., Any]) -> None:
    """Give ``own`` a tree that closes, and raise its H where necessary.

    Boxes are cut depth first, in batches whose undecided rows fit into memory.

    Parameters
    ----------
    own : namespace
        As :func:`covopt.proofs.checker.covopt_check.read` returns it; ``H``, ``corner`` and ``tree`` are set. Until
        then its corner has as many bits as boxes are halved along one axis at most.
    known : int
        An H that is known to suffice: the next one to be tried if cuts run out.
    most : int
        Most cuts for each of the two. If they run out again, H is raised until the boxes close.
    advisor_of : callable
        :class:`covopt.certificates.leaves.Advisor`.
    """
    rows = rows_of(own)
    advisor, roots = advisor_of(own, [r for _, r in rows]), planted(own, rows)
    open_, spent = roots[::-1], 0
    loose: list[Node] = []  # closed, but perhaps not for a larger H

    def closes(pair: tuple[Node, Choice]) -> bool:
        node, choice = pair
        return node.closes(choice, own) or node.closes(choice._replace(normal=outward(own, node)), own)

    while open_:
        first, size = len(open_), 0
        while first and size <= ENTRIES:
            first -= 1
            size += 1 + len(open_[first].state[1])
        batch, open_ = open_[first:], open_[:first]
        choices, value = advisor(batch)
        if value > 1.0 + ATOMS:  # H is too small
            own.H = math.ceil(own.H * Fraction(value) * (1 + Fraction(ATOMS)))
            open_, loose = open_ + batch + loose, []
            continue
        pairs = zip(batch, choices, strict=True)
        left = [(node, choice) for node, choice in pairs if not (choice.may and node.closes(choice, own))]
        loose += [node for node in batch if node.state and node.leaf]
        spent += len(left)
        if spent <= most and all(choice.axis >= 0 and sum(node.cuts) < DEEPEST for node, choice in left):
            open_ += [part for node, choice in left for part in node.cut(choice.axis)]
        elif known > own.H:
            own.H, spent = known, 0
            open_, loose = open_ + loose + [node for node, _ in left], []
        else:
            raise_until(own, own.normal_bits, left, closes, math.inf)
            open_, loose = open_ + loose + [node for node, _ in left if node.state], []
    own.corner = 1 << max(1, *(each - 1 for node in preorder(roots) for each in node.cuts))
    own.tree = packed(roots, own)


class Choice(NamedTuple):
    """A normal and slopes for a box, the coordinate to cut, and whether the box may close with them."""

    normal: list[int]
    slopes: list[int]
    axis: int
    may: bool


def planted(own: Any, rows: list[tuple[int, list[int]]]) -> list[Node]:
    """Return the roots of a tree: both signs of all facets."""
    D, found = len(own.basis), []
    for k in range(4 * D):
        signed = [((1 - 2 * (k // (2 * D))) * sign, r) for sign, r in rows]
        found.append(Node(start(k // 2 % D, 1 - 2 * (k % 2), own.corner, signed), (0,) * D))
    return found


def raise_until(own: Any, bits: int, left: list[Any], closes: Callable[[Any], bool], most: float) -> bool:
    """Raise H, in steps that double, until all boxes that are left close; return whether ``most`` suffices."""
    step = 1 + (own.H >> bits)
    while left and own.H + step <= most:
        own.H, step = own.H + step, 2 * step
        left = [one for one in left if not closes(one)]
    return not left


def outward(own: Any, node: Node) -> list[int]:
    """Return the normal of a box's facet."""
    box = node.state[0]
    facet = next(j for j, (low, high) in enumerate(box) if low == high)
    size = math.isqrt(sum(x * x for x in own.basis[facet])) + 1
    side = own.unit if box[facet][0] > 0 else -own.unit
    return [side * x // size if side * x > 0 else -(-side * x // size) for x in own.basis[facet]]


def preorder(roots: Sequence[Node]) -> Iterator[Node]:
    """All nodes, the lower half first."""
    stack = list(roots[::-1])
    while stack:
        node = stack.pop()
        yield node
        if node.lower is not None:
            stack += [node.upper, node.lower]


def packed(roots: Sequence[Node], own: Any) -> str:
    """Return the bits of a tree."""
    bits, width = [], (len(own.basis) + 1).bit_length()
    for node in preorder(roots):
        bits.append(f"{node.axis + 1:0{width}b}")
        if node.lower is None:
            bits.append(format(node.leaf[1], node.leaf[0]))
    return "".join(bits)


def encoded(bits: str) -> str:
    """Return the bits of a tree in base64."""
    bits += "0" * (-len(bits) % 8)
    return base64.b64encode(int(bits, 2).to_bytes(len(bits) // 8, "big")).decode()


class Entry(NamedTuple):
    """A node of a file: its token, its state, and the numbers of a leaf with their widths in bits."""

    token: int
    state: Any
    numbers: list[tuple[int, int]]


def entries_of(own: Any) -> list[Entry]:
    """Return the nodes of a tree in preorder, whether its leaves close or not."""
    states, found, at, last = list[Any](), list[Entry](), 0, len(own.basis) + 1

    def keep(*state: Any) -> bool:
        states.append(state)
        return True

    check_cover(own, keep, keep)
    for state in states:
        token = -1
        while token not in (0, last):
            (token,), at = fields(own.tree, at, [last.bit_length()])
            sizes = widths(own, state[1], token) if token in (0, last) else []
            numbers, at = fields(own.tree, at, sizes)
            found.append(Entry(token, state, list(zip(numbers, sizes, strict=True))))
    return found
