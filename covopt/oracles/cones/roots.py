"""One root of a cover: the path to the current box and the cuts so far."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from covopt.oracles.cones.kernel import LEVELS, Stack

LISTS = ("rows", "centre", "radius", "theta")  # of a stack, an entry for each undecided row of each level


@dataclass
class Root:
    """What is known of a root while it is walked.

    Attributes
    ----------
    weights, linear : ndarray
        σ times the signs and the linear part of G.
    old : ndarray of uint8
        Cuts of an earlier search, which are made again.
    stack : Stack
        The path to the current box.
    slices : list of ndarray of uint8
        The cuts so far, in preorder.
    """

    weights: np.ndarray
    linear: np.ndarray
    old: np.ndarray
    stack: Stack
    slices: list[np.ndarray] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether every box has been looked at."""
        return bool(self.stack.state[0] < 0)

    def stopped(self, growth: float) -> bool:
        """No more to do, or no room for points of a search that collects them."""
        return self.done or (growth == 0.0 and self.stack.state[1] == len(self.stack.points))

    def take_points(self) -> np.ndarray:
        """Points found since the last call."""
        found = self.stack.points[: self.stack.state[1]].copy()
        if not self.stopped(0.0):
            self.stack.state[1] = 0
        return found

    def pending(self) -> tuple[float, np.ndarray]:
        """Largest bound of a box that was not looked at, and the leaves that close the tree there."""
        if self.done:
            return 0.0, np.zeros(0, np.uint8)
        level = int(self.stack.state[0])
        if level == 0:  # not even the root was looked at
            return np.inf, np.zeros(1, np.uint8)
        above = self.stack.bound[:level]
        waiting = self.stack.stage[:level] == 1
        leaves = np.zeros(1 + int(waiting.sum()), np.uint8)
        waiting[-1:] = True
        return float(above[waiting].max(initial=0.0)), leaves


def make_stack(n: int, r: int, n_points: int) -> Stack:
    """Return room for the path to a box of n rows in dimension r, and for so many points."""
    depth = LEVELS * (r - 1) + 2
    capacity = 8 * n + 64
    return Stack(
        rows=np.empty(capacity, np.int32),
        centre=np.empty(capacity),
        radius=np.empty(capacity),
        theta=np.empty(capacity),
        first=np.zeros(depth + 1, np.int64),
        u0=np.zeros((depth, r)),
        s=np.zeros((depth, r)),
        g=np.zeros((depth, r)),
        g_low=np.zeros((depth, r)),
        axis=np.zeros(depth, np.int64),
        stage=np.zeros(depth, np.int64),
        bound=np.zeros(depth),
        points=np.zeros((n_points, r)),
        state=np.zeros(5, np.int64),
        level=np.zeros(2),
    )


def longer(stack: Stack) -> Stack:
    """Double the list of rows."""
    lists = {
        name: np.concatenate([getattr(stack, name), np.empty_like(getattr(stack, name))]) for name in LISTS
    }
    return stack._replace(**lists)
