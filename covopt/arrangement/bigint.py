"""Cells of integer rows in Python integers: slow, exact whatever their size.

Rows are added one at a time. The cells that a new row's hyperplane cuts are the cells of the earlier rows
restricted to it, an arrangement of one dimension less: each comes with an integer point, and moving that
point to either side gives a point in each half. Every other cell keeps its point, which says on which side
of the new hyperplane it lies.
"""

from __future__ import annotations

from math import gcd

Vector = tuple[int, ...]


def _dot(x: Vector, w: Vector) -> int:
    return sum(a * b for a, b in zip(x, w, strict=True))


def _primitive(w: Vector) -> Vector:
    common = gcd(*w)
    return tuple(a // common for a in w) if common > 1 else w


def _hyperplane_basis(x: Vector) -> list[Vector]:
    p = min((i for i, a in enumerate(x) if a), key=lambda i: abs(x[i]))
    basis = []
    for q in range(len(x)):
        if q != p:
            v = [0] * len(x)
            v[q], v[p] = x[p], -x[q]
            basis.append(_primitive(tuple(v)))
    return basis


def interior_points(rows: list[Vector]) -> list[Vector]:
    """Return one integer point strictly inside each cell of a central arrangement.

    Parameters
    ----------
    rows : list of tuple of int
        Nonzero normals, all of one length; repetitions and parallel rows are welcome.

    Returns
    -------
    list of tuple of int

    Examples
    --------
    >>> len(interior_points([(1, 0), (0, 1), (1, 1), (-2, -2)]))
    6
    """
    points: list[Vector] = [(0,) * len(rows[0])] if rows else [()]
    seen: list[Vector] = []
    for row in rows:
        x = _primitive(row)
        if x in seen or tuple(-a for a in x) in seen:
            continue
        on_plane = [(0,) * len(x)]
        if len(x) > 1 and seen:
            basis = _hyperplane_basis(x)
            restricted = [tuple(_dot(y, v) for v in basis) for y in seen]
            on_plane = [
                tuple(sum(c * v[i] for c, v in zip(u, basis, strict=True)) for i in range(len(x)))
                for u in interior_points(restricted)
            ]
        elif seen:
            continue
        kept = {}
        for w in points:
            side = _dot(x, w)
            if side:
                kept[tuple(_dot(y, w) > 0 for y in seen), side > 0] = w
        norm = _dot(x, x)
        reach = max((abs(_dot(y, x)) for y in seen), default=0)
        for u in on_plane:
            # far enough along the hyperplane for the step x to change no other sign
            far = tuple((reach + 1) * a for a in u)
            for step in (1, -1):
                w = _primitive(tuple(a + step * b for a, b in zip(far, x, strict=True)))
                kept[tuple(_dot(y, u) > 0 for y in seen), step > 0] = w
        assert norm > 0
        seen.append(x)
        points = list(kept.values())
    return points
