r"""The maximum of the dual function over all faces, in integers, for rows of at most three numbers.

**Statement.** The result is at least h(Λ)², where h(Λ) = max over |w| ≤ 1 of |F(w)|, F(w) = Σ_i Λ_i max(z_i·w, 0),
z_i in R³ and Λ_i in R^k. There is no search, and the result depends neither on units nor on how nearly dependent the
rows are.

**Faces.** Rows on one line share a plane {w : n·w = 0}. The coordinate planes are added, with Λ = 0, so that all
planes meet in 0 alone: they cut the sphere into vertices, arcs shorter than half a turn, and cells that hold no line.
On each of them F(w) = Gᵀw, and |F| ≤ H|w| means wᵀAw ≥ 0 with A = H²I − GGᵀ. This is shown

- *on the arc from a to b* with its ends, w = sa + tb with s, t ≥ 0: aᵀAa ≥ 0, bᵀAb ≥ 0, and aᵀAb ≥ 0 or
  (aᵀAb)² ≤ aᵀAa · bᵀAb;
- *on a cell*, once it holds on all arcs. Then no path of points with wᵀAw < 0 crosses the boundary of the cell. If A
  has two or more negative eigenvalues, the set of such points is connected and symmetric about 0, so it is not inside
  a cell, and no point of it is. If A has one, the set is K and −K, both convex, and any of its points decides: if
  neither the point nor its opposite is in the cell, no point of the set is.

If |F|² exceeds H² on a face, H² is raised to its maximum there, rounded up; earlier conclusions stay true. With one
output A = H²I − ggᵀ, and g is the deciding point for every H, so one walk over all arcs and the cells beside them is
enough. With several outputs, cells are checked after all arcs.

*Rows of at most two numbers* lie in the plane w₃ = 0, and so does a maximiser w: the arcs of that circle are enough.

**Walk.** Around a normal n all other normals are written q_j = ±n_j, such that u_j = n × q_j are in one half turn
that begins with the first. Then u_j comes before u_k where (u_j × u_k)·n = |n|² u_j·q_k > 0, and q_j·w is positive
before u_j and negative behind it. So G is known on every arc from what it is on the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cmp_to_key
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from covopt.exact.elimination import integer_array, negative_direction
from covopt.exact.rounding import SLIP, root_up

Vector = Sequence[int]
Matrix = list[Vector]  # Gᵀ: a row for each output
DIMENSION = 3


class Plane(NamedTuple):
    """A normal n, and the part of Gᵀ from rows on its line where n·w > 0 and where n·w < 0."""

    normal: Vector
    above: Matrix
    below: Matrix


class Crossing(NamedTuple):
    """Where a circle meets another one: u, q, and the part of Gᵀ from the other's rows for q·w > 0 and q·w < 0."""

    u: Vector
    q: Vector
    above: Matrix
    below: Matrix


class Arc(NamedTuple):
    """An arc from a to b and Gᵀ without the rows of its own plane.

    It is the one behind ``crossings[place]``, where q·w is negative for those and all before them, and positive for
    all that come later; the other way round on the second half of the circle, where ``half`` is −1.
    """

    a: Vector
    b: Vector
    slopes: Matrix
    crossings: list[list[Crossing]]
    place: int
    half: int

    def leaves_out(self, point: Vector) -> bool:
        """Return whether a plane that crosses the circle separates the point from the arc."""
        k, count = self.place, len(self.crossings)
        near = [k, (k + 1) % count]
        for j in (*near, *range(count)):
            side = self.half if j > k else -self.half
            if any(side * _dot(crossing.q, point) < 0 for crossing in self.crossings[j]):
                return True
        return False


def square_above(rows: np.ndarray, dual: np.ndarray) -> Fraction:
    """Return a number that is at least h(Λ)², by a rounding above it.

    Rows (N, D), D ≤ 3, are floats, dual (N,) or (N, k) floats or sums of them. Raises ValueError for more columns.
    """
    if rows.shape[1] > DIMENSION:
        raise ValueError(f"faces are walked for rows of at most {DIMENSION} numbers, not of {rows.shape[1]}")
    if not len(rows):
        return Fraction(0)
    z, first = integer_array(np.pad(rows, ((0, 0), (0, DIMENSION - rows.shape[1]))))
    weights, second = integer_array(dual.reshape(len(dual), -1))
    unit = (first * second) ** 2
    planes = planes_of(z.tolist(), weights.tolist())
    square = Fraction(0)
    if rows.shape[1] < DIMENSION:
        for circle in [i for i, plane in enumerate(planes) if plane.normal[-1]]:
            for arc in arcs_of(planes, circle):
                square = on_arc(arc, square)
        return square * unit
    at_once = weights.shape[1] == 1
    for walk_arcs, walk_cells in [(True, True)] if at_once else [(True, False), (False, True)]:
        for i, plane in enumerate(planes):
            for arc in arcs_of(planes, i):
                if walk_arcs:
                    square = on_arc(arc, square)
                if walk_cells:
                    square = on_cell(arc, plane.normal, _sum(arc.slopes, plane.above), square)
                    square = on_cell(arc, _scaled(plane.normal, -1), _sum(arc.slopes, plane.below), square)
    return square * unit


def planes_of(rows: list[Vector], dual: list[Vector]) -> list[Plane]:
    """Return the planes of all rows, merged for rows on one line, and the coordinate planes."""
    found: dict[Vector, Plane] = {}

    def plane(normal: Vector) -> Plane:
        none: list[Matrix] = [[[0] * DIMENSION for _ in dual[0]] for _ in range(2)]
        return found.setdefault(normal, Plane(normal, *none))

    for row, weights in zip(rows, dual, strict=True):
        if any(row) and any(weights):
            side = 1 if next(x for x in row if x) > 0 else -1
            own = plane(tuple(side * x // gcd(*row) for x in row))
            part = own.above if side > 0 else own.below
            part[:] = _sum(part, [_scaled(row, weight) for weight in weights])
    for axis in range(DIMENSION):
        plane(tuple(int(axis == j) for j in range(DIMENSION)))
    return list(found.values())


def arcs_of(planes: list[Plane], i: int) -> Iterator[Arc]:
    """Yield all arcs of a circle, once around."""
    groups = crossings_of(planes, i)
    slopes: Matrix = [[0] * DIMENSION for _ in planes[i].above]
    for place, group in enumerate(groups):
        for crossing in group:
            slopes = _sum(slopes, crossing.above if place else crossing.below)
    ends = [group[0].u for group in groups]
    ends.append(_scaled(ends[0], -1))
    for half in (1, -1):
        for place, group in enumerate(groups):
            if (half, place) != (1, 0):
                for crossing in group:
                    new, old = (crossing.below, crossing.above)[::half]
                    slopes = _sum(slopes, new, old)
            yield Arc(_scaled(ends[place], half), _scaled(ends[place + 1], half), slopes, groups, place, half)


def crossings_of(planes: list[Plane], i: int) -> list[list[Crossing]]:
    """Return where a circle meets the others, counterclockwise within half a turn, grouped by point."""
    found: list[Crossing] = []
    for plane in planes[:i] + planes[i + 1 :]:
        here = Crossing(_cross(planes[i].normal, plane.normal), plane.normal, plane.above, plane.below)
        if found and (_dot(found[0].u, here.q) or _dot(found[0].u, here.u)) < 0:
            here = Crossing(_scaled(here.u, -1), _scaled(here.q, -1), plane.below, plane.above)
        found.append(here)

    def later(one: Crossing, two: Crossing) -> int:
        return -_dot(one.u, two.q)

    found.sort(key=cmp_to_key(later))
    groups: list[list[Crossing]] = []
    for here in found:
        if groups and _dot(groups[-1][0].u, here.q) == 0:
            groups[-1].append(here)
        else:
            groups.append([here])
    return groups


def on_arc(arc: Arc, square: Fraction) -> Fraction:
    """Return an upper bound on H² and on |F|² on an arc with its ends."""
    top, bottom = square.numerator, square.denominator
    aa, ab, bb = _dot(arc.a, arc.a), _dot(arc.a, arc.b), _dot(arc.b, arc.b)
    gaa = gab = gbb = 0
    for line in arc.slopes:
        at_a, at_b = _dot(line, arc.a), _dot(line, arc.b)
        gaa, gab, gbb = gaa + at_a * at_a, gab + at_a * at_b, gbb + at_b * at_b
    first, mixed, second = (top * aa - bottom * gaa, top * ab - bottom * gab, top * bb - bottom * gbb)
    if first >= 0 and second >= 0 and (mixed >= 0 or mixed * mixed <= first * second):
        return square
    ends = max(square, Fraction(gaa, aa), Fraction(gbb, bb))
    top, bottom = ends.numerator, ends.denominator
    first, mixed, second = (top * aa - bottom * gaa, top * ab - bottom * gab, top * bb - bottom * gbb)
    if mixed >= 0 or mixed * mixed <= first * second:
        return ends
    # the larger root of det(s (aa, ab; ab, bb) − (gaa, gab; gab, gbb))
    lead, half, last = aa * bb - ab * ab, aa * gbb + bb * gaa - 2 * ab * gab, gaa * gbb - gab * gab
    share = Fraction(root_up(Fraction(half * half - 4 * lead * last, half * half), 2))
    return Fraction(half, 2 * lead) * (1 + share)


def on_cell(arc: Arc, inward: Vector, slopes: Matrix, square: Fraction) -> Fraction:
    """Return H², raised to the maximum of |Gᵀw|² if the cell beside an arc has a point above H²."""
    point = above(slopes, square)
    if point is None:
        return square
    height = _dot(inward, point)
    if height == 0:
        return square
    if height < 0:
        point = _scaled(point, -1)
    if arc.leaves_out(point):
        return square
    if len(slopes) == 1:
        return Fraction(_dot(slopes[0], slopes[0]))
    scale = max(abs(x) for line in slopes for x in line)
    columns = np.array([[x / scale for x in line] for line in slopes])
    square = max(square, Fraction(float(np.linalg.norm(columns, 2)) ** 2) * scale * scale)
    step = 1 + Fraction(SLIP)
    while above(slopes, square) is not None:
        square, step = square * step, step * step
    return square


def above(slopes: Matrix, square: Fraction) -> Sequence[Any] | None:
    """Return a vector with |Gᵀw|² > H²|w|², or None."""
    if len(slopes) == 1:
        return slopes[0] if _dot(slopes[0], slopes[0]) * square.denominator > square.numerator else None
    top, bottom = square.numerator, square.denominator
    columns = range(DIMENSION)
    gram = [[sum(line[a] * line[b] for line in slopes) for b in columns] for a in columns]
    form = [[top * (a == b) - bottom * gram[a][b] for b in columns] for a in columns]
    across = _cross(form[0], form[1])
    if form[0][0] > 0 and across[2] > 0 and _dot(across, form[2]) > 0:  # definite, by its minors
        return None
    return negative_direction(form)


def _sum(one: Matrix, plus: Matrix, minus: Matrix | None = None) -> Matrix:
    if minus is None:
        return [[a[0] + b[0], a[1] + b[1], a[2] + b[2]] for a, b in zip(one, plus, strict=True)]
    lines = zip(one, plus, minus, strict=True)
    return [[a[0] + b[0] - c[0], a[1] + b[1] - c[1], a[2] + b[2] - c[2]] for a, b, c in lines]


def _scaled(vector: Vector, by: int) -> Vector:
    return [by * vector[0], by * vector[1], by * vector[2]]


def _dot(a: Vector, b: Vector) -> int:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _cross(a: Vector, b: Vector) -> Vector:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
