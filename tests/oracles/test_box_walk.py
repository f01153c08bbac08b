"""The walk through a tree of boxes, against a recursion that carries nothing from box to box but θ."""

from __future__ import annotations

from math import fsum

import numpy as np
import pytest

from covopt.oracles.ascent import make_room
from covopt.oracles.cones.kernel import LEVELS, Stack, explore, look, plant


def empty_stack(n: int, r: int) -> Stack:
    depth, room = LEVELS * (r - 1) + 2, 64 * n
    floats = {name: np.zeros(room) for name in ("centre", "radius", "theta")}
    boxes = {name: np.zeros((depth, r)) for name in ("u0", "s", "g", "g_low")}
    marks = {name: np.zeros(depth, np.int64) for name in ("axis", "stage")}
    return Stack(
        rows=np.zeros(room, np.int32), first=np.zeros(depth + 1, np.int64), bound=np.zeros(depth),
        points=np.zeros((1, r)), state=np.zeros(3, np.int64), level=np.zeros(2), **floats, **boxes, **marks,
    )  # fmt: skip


class Twin:
    """Every box on its own: rows sorted anew from all of them, the gradient summed anew."""

    def __init__(self, rows, weights, linear, H):
        self.rows, self.weights, self.linear, self.H = rows, weights, linear, H
        self.sizes = np.abs(rows).sum(axis=0) + np.abs(linear)
        self.stack, self.tree = empty_stack(*rows.shape), []

    def walk(self, a, u0, s, theta, level):
        r, stack = len(u0), self.stack
        kept, gradient = [], [[x] for x in self.linear.tolist()]
        for i, row in enumerate(self.rows.tolist()):
            centre = radius = 0.0
            for j in range(r):
                centre += row[j] * u0[j]
                radius += abs(row[j]) * s[j]
            if centre >= radius:
                for j in range(r):
                    gradient[j].append(self.weights[i] * row[j])
            elif centre > -radius:
                kept.append((i, centre, radius, theta[i]))
        m = len(kept)
        for place, box in enumerate(kept):
            stack.rows[place], stack.centre[place], stack.radius[place], stack.theta[place] = box
        stack.first[level], stack.first[level + 1] = 0, m
        stack.u0[level], stack.s[level], stack.g_low[level] = u0, s, 0.0
        stack.g[level] = [fsum(terms) for terms in gradient]
        stack.state[2] = a
        axis, _, _ = look(
            self.rows, self.weights, self.linear, self.sizes, stack, 0.0, level, self.H,
            np.empty((5, r)), make_room(len(self.rows), r),
        )  # fmt: skip
        self.tree.append(axis + 1)
        if axis < 0:
            return
        theta = dict(theta) | {int(stack.rows[place]): float(stack.theta[place]) for place in range(m)}
        for way in (-1.0, 1.0):
            centre, width = u0.copy(), s.copy()
            width[axis] *= 0.5
            centre[axis] += way * width[axis]
            self.walk(a, centre, width, theta, level + 1)


@pytest.mark.parametrize(
    "kind",
    [pytest.param("normal", marks=pytest.mark.slow), pytest.param("integers", marks=pytest.mark.slow), "few"],
)
def test_the_tree_is_that_of_a_recursion_without_a_stack(kind):
    random = np.random.default_rng(len(kind))
    n, r = {"normal": (12, 3), "integers": (11, 3), "few": (7, 2)}[kind]
    rows, linear = random.standard_normal((n, r)), 0.1 * random.standard_normal(r)
    if kind == "integers":
        rows, linear = random.integers(-2, 3, (n, r)) / 2.0, np.zeros(r)
        rows[~rows.any(axis=1)] = 1.0
    weights = np.where(np.arange(n) % 3, 1.0, -1.0)
    points = random.standard_normal((4000, r))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    H = 1.02 * float((np.maximum(points @ rows.T, 0.0) @ weights + points @ linear).max())
    cuts = 0
    for a in range(r):
        for side in (1.0, -1.0):
            stack, tree = empty_stack(n, r), []
            twin = Twin(rows, weights, linear, H)
            plant(rows, weights, linear, stack, a, side, H)
            while (level := int(stack.state[0])) >= 0:  # one box at a time
                assert explore(rows, weights, linear, twin.sizes, stack, 0.0, 1) == 1
                tree.append(int(stack.axis[level]) + 1 if stack.state[0] == level + 1 else 0)
            assert stack.state[1] == 0  # no point above H
            u0, s = np.zeros(r), np.ones(r)
            u0[a], s[a] = side, 0.0
            twin.walk(a, u0, s, dict.fromkeys(range(n), 0.5), 0)
            assert twin.tree == tree
            plant(rows, weights, linear, stack, a, side, H)
            assert explore(rows, weights, linear, twin.sizes, stack, 0.0, 50_000) == len(tree)
            cuts += sum(cut > 0 for cut in tree)
    assert cuts > 0
