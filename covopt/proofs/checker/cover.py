r"""The core of a proof: a cover of all directions by boxes, each of them closed in integer arithmetic.

**Statement.** For integer vectors y_i, signs s_i = ±1, an integer vector g and a rational H > 0

    σ (g·u + Σ_i s_i max(y_i·u, 0)) ≤ H |u|      for all u in R^r and both σ = ±1.

**Boxes.** Both sides are positively homogeneous, and every u ≠ 0 is a positive multiple of a point of the surface of
the cube [−1, 1]^r. Its 2r facets u_a = ±1 are the roots; a box, a product of intervals [l_j, h_j] of which one is the
point ±1, is halved along a coordinate as often as needed. The leaves cover the surface whatever the cuts were.

**Leaf.** Take lo_i ≤ y_i·u ≤ hi_i on the box, and w_i = σ s_i. For any a_i in [0, 1] and any |p| ≤ 1

    max(t, 0) ≤ a_i t + max(−a_i lo_i, (1 − a_i) hi_i)   for lo_i ≤ t ≤ hi_i   (used where w_i = +1),
    max(t, 0) ≥ a_i t                                    for every t           (used where w_i = −1),
    |u| ≥ p·u,

so the left side minus H|u| is at most q·u + b, whose maximum over the box is b + Σ_j max(q_j l_j, q_j h_j): the leaf
is closed when that is ≤ 0. Rows with lo_i ≥ 0 are linear on the box, rows with hi_i ≤ 0 vanish. As this holds for
EVERY a and p, :mod:`covopt.proofs.choice` may choose them in floating point; they are multiples of 2^-60. A leaf that
does not close is cut further. H is raised where a value of the left side exceeds it, and by what is left open in the
end: a maximum of e > 0 shows that the left side is at most H|u| + e ≤ (H + e)|u|, as |u| ≥ 1 on the box.

Everything that decides is a sum or a product of integers. lo and hi are kept in units 2^-F of the grid of y, rounded
outward: in 64 bits where counting bits beforehand excludes overflow, else in Python's integers.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from covopt.proofs.choice import BITS, choose

DEPTH = 120  # cuts along one coordinate: the corners of boxes are multiples of 2^-120
BATCH, ENTRIES = 4096, 2_000_000  # boxes at a time, and undecided rows in all of them


class Cover(NamedTuple):
    """What a cover proved: the statement with H + excess, by so many boxes and so many cuts beyond the tree."""

    excess: Fraction
    boxes: int
    extra: int


class Tree(NamedTuple):
    """Cuts in preorder: the coordinate of each node (−1 for a leaf), where its upper half begins, the roots."""

    cut: np.ndarray
    upper: np.ndarray
    roots: list[int]


class Rows(NamedTuple):
    """y_i, |y_i| 2^F and s_i in 64-bit or Python integers; F; H."""

    y: np.ndarray
    size: np.ndarray
    sign: np.ndarray
    shift: int
    H: Fraction


class Boxes(NamedTuple):
    """Boxes side by side: seven arrays with an entry per box, then three with ``undecided`` entries per box.

    ``node`` is the place in the tree, −1 beyond it; ``linear`` the sum of the rows that are decided; ``row``, ``lo``
    and ``hi`` are about those that are not.
    """

    node: np.ndarray
    sigma: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: np.ndarray
    linear: np.ndarray
    undecided: np.ndarray
    row: np.ndarray
    lo: np.ndarray
    hi: np.ndarray


def read_tree(code: bytes, dimension: int) -> Tree:
    """Read one byte per node, preorder: 0 a leaf, j + 1 a cut along coordinate j; the lower half comes first.

    The 4r roots follow each other: σ = +1 and then −1, for each of them u_0 = +1, u_0 = −1, u_1 = +1, …
    Raises ValueError when the bytes end early, go on after the last root, or cut along what is not a coordinate.
    """
    cut = np.frombuffer(code, dtype=np.uint8).astype(np.int64) - 1
    upper, roots, waiting = np.zeros(len(code), dtype=np.int64), [0], []
    for place, byte in enumerate(code):
        if byte:
            waiting.append(place)
        elif waiting:
            upper[waiting.pop()] = place + 1
        else:
            roots.append(place + 1)
    if waiting or len(roots) != 4 * dimension + 1:
        raise ValueError(f"the tree must have {4 * dimension} whole roots, it has {len(roots) - 1}")
    for k in range(4 * dimension):
        part = cut[roots[k] : roots[k + 1]]
        if (part >= dimension).any() or (part == k // 2 % dimension).any():
            raise ValueError(f"root {k} of the tree is cut along a coordinate that it does not have")
    return Tree(cut, upper, roots[:-1])


def check_cover(
    y: np.ndarray, sign: np.ndarray, linear: np.ndarray, H: Fraction, code: bytes, *, extra: int, wide: bool = False
) -> Cover:  # fmt: skip
    """Check the statement above for integers y (n, r), sign (n,), linear (r,), with the tree of :func:`read_tree`.

    ``extra`` cuts may be added to the tree's; ``wide`` uses Python's integers where 64 bits would do.
    Raises ValueError for a malformed tree.
    """
    tree = read_tree(code, y.shape[1])
    rows, boxes = begin(y, sign, linear, H, tree, wide)
    stack, proved, seen, spent = [boxes], H, 0, 0
    while stack:
        boxes = stack.pop()
        size = len(boxes.node)
        if size > 1 and (size > BATCH or len(boxes.row) > ENTRIES):
            first = np.arange(size) < size // 2
            stack += [take(boxes, first), take(boxes, ~first)]
            continue
        seen += size
        cut = np.where(boxes.node >= 0, tree.cut[boxes.node], -1)
        if (cut < 0).any():
            leaves = take(boxes, cut < 0)
            slopes, normals, advice, value = choose(rows, leaves)
            if 1 + 1e-11 < value < 1e300:  # the statement is false with this H
                rows = rows._replace(H=Fraction(float(rows.H) * value * (1 + 1e-9)))
                slopes, normals, advice, value = choose(rows, leaves)
            over = _evaluate(rows, leaves, slopes, normals)
            further = (over > 0) & (advice >= 0)
            further &= np.cumsum(further) <= extra - spent
            spent += int(further.sum())
            cut[cut < 0] = np.where(further, advice, -1)
            proved = max([proved, rows.H, *(rows.H + over[~further]).tolist()])
        if (cut >= 0).any():
            boxes, cut = take(boxes, cut >= 0), cut[cut >= 0]
            halves = half(rows, boxes, cut, tree, up=False), half(rows, boxes, cut, tree, up=True)
            stack.append(Boxes(*(np.concatenate(pair) for pair in zip(*halves, strict=True))))
    return Cover(proved - H, seen, spent)


def begin(
    y: np.ndarray, sign: np.ndarray, linear: np.ndarray, H: Fraction, tree: Tree, wide: bool
) -> tuple[Rows, Boxes]:
    """Choose F so that Σ_j |y_ij| 2^F, and without F every sum over rows, stay below 2^62; set up the roots."""
    reach = max((sum(map(abs, row)) for row in y.tolist()), default=0)
    column = sum(map(abs, y.ravel().tolist())) + sum(map(abs, linear.tolist()))
    if reach.bit_length() > 900 or abs(H.numerator.bit_length() - H.denominator.bit_length()) > 900:
        raise ValueError("the numbers of the proof span more than 270 orders of magnitude")
    wide = wide or reach.bit_length() > 57 or column.bit_length() > 61
    shift = 64 if wide else min(30, 61 - reach.bit_length())
    kind, (n, dimension), number = object if wide else np.int64, y.shape, len(tree.roots)
    whole: Any = y.astype(kind)
    rows = Rows(whole, abs(whole) << shift, sign.astype(np.int64), shift, H)
    place, one = np.arange(number), 1 << DEPTH
    sigma, side, axis = 1 - 2 * (2 * place // number), 1 - 2 * (place % 2), place // 2 % max(dimension, 1)
    low, high = (np.full((number, dimension), end, dtype=object) for end in (-one, one))
    low[place, axis] = high[place, axis] = side.astype(object) * one
    value = (whole << shift)[:, axis].T * side[:, None]
    radius = (rows.size.sum(axis=1)[:, None] - rows.size[:, axis]).T
    per_box = (
        np.array(tree.roots, dtype=np.int64), sigma, low, high, np.zeros((number, dimension), dtype=np.int64),
        sigma[:, None] * linear.astype(kind), np.full(number, n),
    )  # fmt: skip
    per_row = (np.tile(np.arange(n), number), (value - radius).ravel(), (value + radius).ravel())
    return rows, _decide(rows, Boxes(*per_box, *per_row))


def _decide(rows: Rows, boxes: Boxes) -> Boxes:
    """Move the rows that do not change sign on a box into its linear part, or out."""
    active, owner = boxes.lo >= 0, np.repeat(np.arange(len(boxes.node)), boxes.undecided)
    row, linear = boxes.row[active], boxes.linear.copy()
    weight = boxes.sigma[owner[active]] * rows.sign[row]
    for j in range(linear.shape[1]):
        np.add.at(linear[:, j], owner[active], weight * rows.y[row, j])
    keep = ~active & (boxes.hi > 0)
    count = np.bincount(owner[keep], minlength=len(boxes.node))
    return Boxes(*boxes[:5], linear, count, boxes.row[keep], boxes.lo[keep], boxes.hi[keep])


def take(boxes: Boxes, which: np.ndarray) -> Boxes:
    """Return some of the boxes."""
    return Boxes(*(p[which] for p in boxes[:7]), *(p[np.repeat(which, boxes.undecided)] for p in boxes[7:]))


def half(rows: Rows, boxes: Boxes, cut: np.ndarray, tree: Tree, *, up: bool) -> Boxes:
    """Return one half of every box: the range of y_i·u loses |y_ij| times the half-width at one of its two ends."""
    place, axis, node = np.arange(len(cut)), np.repeat(cut, boxes.undecided), boxes.node
    if (boxes.level[place, cut] >= DEPTH).any():
        raise ValueError(f"the tree cuts a box more than {DEPTH} times along one coordinate")
    step = rows.size[boxes.row, axis] >> np.repeat(boxes.level[place, cut], boxes.undecided)
    rises = (rows.y[boxes.row, axis] > 0) == up
    low, high, level = boxes.low.copy(), boxes.high.copy(), boxes.level.copy()
    (low if up else high)[place, cut] = (low[place, cut] >> 1) + (high[place, cut] >> 1)
    level[place, cut] += 1
    child = np.where((node >= 0) & (tree.cut[node] >= 0), tree.upper[node] if up else node + 1, -1)
    lo, hi = np.where(rises, boxes.lo + step, boxes.lo), np.where(rises, boxes.hi, boxes.hi - step)
    return _decide(rows, boxes._replace(node=child, low=low, high=high, level=level, lo=lo, hi=hi))


def _evaluate(rows: Rows, boxes: Boxes, slopes: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Return e, the maximum of q·u + b, for each box, 0 where it is closed: the one place that judges leaves.

    ``slopes`` has a_i for every undecided row, ``normals`` the vector p of every box, both times 2^BITS.
    """
    one, scale = 1 << BITS, rows.H.denominator
    p, a, lo, hi = (part.astype(object) for part in (normals, slopes.clip(0, one), boxes.lo, boxes.hi))
    p[(p * p).sum(axis=1) > one * one] = 0
    weight = np.repeat(boxes.sigma, boxes.undecided) * rows.sign[boxes.row]
    q, b = boxes.linear.astype(object) * one, np.zeros(len(p), dtype=object)
    some = boxes.undecided > 0
    if some.any():
        starts = (np.cumsum(boxes.undecided) - boxes.undecided)[some]
        q[some] += np.add.reduceat((a * weight)[:, None] * rows.y[boxes.row], starts)
        b[some] = np.add.reduceat(np.where(weight > 0, np.maximum(-a * lo, (one - a) * hi), 0), starts)
    q = q * scale - p * rows.H.numerator  # in units 2^-BITS / scale; corners are in units 2^-DEPTH
    over = (np.maximum(q * boxes.low, q * boxes.high).sum(axis=1) << rows.shift) + (b * scale << DEPTH)
    unit = Fraction(1, scale << (BITS + rows.shift + DEPTH))
    return np.array([value * unit if value > 0 else 0 for value in over.tolist()] + [None], dtype=object)[:-1]
