"""Make a closed cover of quadratic leaves: few large boxes, where hundreds of rows change sign on each.

Nothing here is trusted, as in :mod:`covopt.proofs.closing`: boxes and multipliers come from floating point
(:mod:`covopt.certificates.curves`), are rounded, and hold by the reader's rule or with a larger H.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from covopt.proofs.checker.covopt_check import MAGNITUDE, curved, rows_of, start
from covopt.proofs.closing import Node, packed

MANTISSA = 16  # bits of a multiplier


def curve(own: Any, curves: Any) -> bool:
    """Give ``own`` the tree of a search with multipliers in integers, and an H that may have to be larger.

    False, and no tree, where a leaf does not close with twice that H: its multipliers have too few bits.

    Parameters
    ----------
    own : namespace
        As :func:`covopt.proofs.checker.covopt_check.read` returns it; ``H``, ``corner`` and ``tree`` are set.
    curves : Curves
        What was searched; H is its bound.
    """
    unit, stack, narrowest = own.H / curves.bound, list(curves.roots), 2.0
    while stack:
        box = stack.pop()
        width = box.high - box.low
        narrowest = min(narrowest, float(width[width > 0.0].min()))
        stack += box.parts
    own.corner = 1 << round(2.0 - math.log2(narrowest))  # none is rounded, multipliers of m have room
    rows, D = rows_of(own), len(own.basis)
    place = {id(r): i for i, (_, r) in enumerate(rows)}
    roots, leaves = [], []
    for k, root in enumerate(curves.roots):
        signed = [((1 - 2 * (k // (2 * D))) * sign, r) for sign, r in rows]
        roots.append(Node(start(k // 2 % D, 1 - 2 * (k % 2), own.corner, signed), (0,) * D))
        pairs = [(roots[-1], root)]
        while pairs:
            node, box = pairs.pop()
            if box.parts:
                upper, lower = node.cut(box.cut)
                pairs += [(upper, box.parts[1]), (lower, box.parts[0])]
            else:
                leaves.append((node, box.moves, box.chart))
    step, first = 1 + (own.H >> own.slope_bits), own.H
    while left := [leaf for leaf in leaves if not closes(own, *leaf, place, unit, curves.size)]:
        while left:
            if step > first:
                return False
            own.H, step = own.H + step, 2 * step
            left = [leaf for leaf in left if not closes(own, *leaf, place, unit, curves.size)]
    own.tree = packed(roots, own)
    return True


def closes(
    own: Any, node: Node, moves: Any, chart: int, place: dict[int, int], unit: float, size: float
) -> bool:
    """Whether a leaf is closed with these multipliers, rounded; then it keeps them. H is H/unit of theirs."""
    box, rows, linear = node.state
    A, D = own.one, len(box)
    whole = 2 * A * own.H
    pulls = moves.d * size**2
    pulls[chart] = 2.0**MAGNITUDE * size**2  # there it holds with equality
    lead = moves.lead * size * own.corner / (A // 2)
    numbers = [(field(whole, unit * x), MAGNITUDE) for x in (moves.nu, *pulls.tolist(), lead)]
    arm = np.trunc(moves.arm * (0.5 * A - 2.0)).astype(int).tolist()
    numbers += [(A // 2 - x, own.slope_bits) for x in arm]
    for sign, r, _, _ in rows:
        i = place[id(r)]
        if sign > 0:
            numbers.append((field(whole, 0.25 / (float(moves.tau[i]) * unit)), MAGNITUDE))
            continue
        vector = np.trunc(moves.vector[i] * (A - 4.0)).astype(int).tolist()
        length = math.isqrt(sum(x * x for x in vector)) + 1
        first = min(max(round(float(moves.slope[i]) * A), length), A - length)
        numbers += [(x, own.slope_bits) for x in (first, *(x + A // 2 for x in vector))]
    if not curved(box, rows, linear, [number for number, _ in numbers], own):
        return False
    value = 0
    for number, bits in numbers:
        value = value << bits | number
    node.axis, node.leaf = D, (f"0{sum(bits for _, bits in numbers)}b", value)
    return True


def field(whole: int, share: float) -> int:
    """Write ``whole`` times a positive double as a multiplier, the nearest below that has room in its bits."""
    top, bottom = share.as_integer_ratio()
    value = whole * top // bottom
    places = max(value.bit_length() - MANTISSA, 0)
    return min(places << MANTISSA | value >> places, (1 << MAGNITUDE) - 1)
