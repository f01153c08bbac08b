r"""Lower bounds on training with weight decay from dual variables on many rows and outputs, by the tree bound.

Let c_ℓ = ‖W_ℓ‖² for ℓ ≤ L − 2, and let each neuron have its own copy of the layers below (:mod:`covopt.depth.tree`).
The outputs are F = Σ_j σ(z_j) v_jᵀ + β1bᵀ with Σ c_ℓ + 2 Σ_j ‖v_j‖ + ‖b‖² ≤ ‖W‖² and z_j in the ball B_{L−2}(c). For
dual variables N (rows, outputs) and H(N; c) = max ‖Nᵀσ(z)‖ over the ball, ⟨N, F⟩ ≤ H Σ‖v_j‖ + β‖Nᵀ1‖‖b‖, so

.. math:: \min_W C(f_W) + \lambda\|W\|^2 \ge
    \min_c\; \lambda\sum_\ell c_\ell + \max_{0 \le p \le 2\lambda/H(N;c)} D(p), \qquad
    D(p) = -C^*(-pN) - p^2\beta^2\|N^T 1\|^2 / 4\lambda,

and on each box of c the best of several N is used. D is concave. log H is convex in log c, so its values at the
corners of a box give an upper bound s·log c + r on it. With the chord of D over the range of p = 2λe^{−r}c^{−s}, the
objective is a sum of exponentials in log c, bounded below by a tangent: the error is of second order in the box size.

**Several outputs.** ‖Nᵀσ(z)‖ = max ⟨Nw, σ(z)⟩ over unit w, a scalar height for each w. The root of the sum of squared
heights over an orthonormal basis is an upper bound; in a plane, so is the largest height over vectors ±w_m whose
polygon contains the unit circle. If the rows of N sum to zero (softmax), w may be restricted to vectors of sum zero.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np

from covopt.certificates.conjugate import conjugate_above
from covopt.data import Data
from covopt.depth.families import DualTree, Recursion
from covopt.depth.tree import MOST_LAYERS, Search
from covopt.depth.tree_search import TIGHT
from covopt.depth.two_rows import dot, exactly
from covopt.exact.rounding import UNIT, above, down, gamma, root_up, up
from covopt.losses import Loss

# the values that files of earlier versions depend on; with more layers each box has more corners
MAX_BOXES, FEW_BOXES, FEW_AXES = 3000, 800, 2


def dual_bound(
    trees: tuple[DualTree, ...],
    data: Data,
    loss: Loss,
    lam: float,
    depth: int,
    output_bias: str,
    *,
    upper: float,
) -> float:
    """Return a lower bound on C + λ‖W‖², valid whatever the trees contain; without trees a lower bound on C.

    Parameters
    ----------
    trees : tuple of DualTree
    data : Data
    loss : Loss
        Bound to its targets.
    lam : float
    depth : int
        L ≥ 3.
    output_bias : {"none", "penalized", "free"}
    upper : float
        The objective of a known network; the lower bound is not raised beyond it.

    Raises
    ------
    ValueError
        If a tree is damaged.
    """
    counted = np.flatnonzero(loss.weights[:, 0] > 0.0)  # rows of weight zero do not enter the loss
    alone = conjugate_at(loss.take(counted), np.zeros((len(counted), data.n_outputs)))
    floor = 0.0 if alone is None else max(0.0, -alone)
    if not trees or (depth > MOST_LAYERS and data.bias > 0.0):
        return floor
    most = MAX_BOXES if depth - 2 <= FEW_AXES or data.bias == 0.0 else FEW_BOXES
    duals = [DualHeights(tree, data, loss, lam, depth, output_bias) for tree in trees]
    return max(floor, Search(duals, lam, depth, data.bias, upper).run(TIGHT, most))


class DualHeights:
    """Upper bounds on H(c) and lower bounds on D(p) for one dual vector N."""

    def __init__(
        self, tree: DualTree, data: Data, loss: Loss, lam: float, depth: int, output_bias: str
    ) -> None:
        rows, dual, directions = list(tree.rows), tree.dual, tree.directions
        if any(not 0 <= i < data.n_samples for i in rows) or len(set(rows)) != len(rows):
            raise ValueError("the rows are not rows of the table")
        if dual.shape != (len(rows), data.n_outputs) or not np.isfinite(dual).all() or not dual.any():
            raise ValueError("the dual is none of these rows and outputs")
        if (
            directions.ndim != 2
            or directions.shape[1] != data.n_outputs
            or len(tree.places) != len(directions)
        ):
            raise ValueError("the directions are none of these outputs")
        if not 1e-100 < float(np.abs(dual).max()) < 1e100:
            raise ValueError("the multipliers are too large or too small")
        level = not any(sum(exactly(row), Fraction(0)) for row in dual)
        if loss.is_level and not level:
            raise ValueError("the rows of the dual do not sum to zero")
        sums = [sum(exactly(column), Fraction(0)) for column in dual.T]
        if output_bias == "free" and data.bias > 0.0 and any(sums):
            raise ValueError("the columns of the dual do not sum to zero, and the output bias is free")
        counted = loss.weights[:, 0] > 0.0
        if not counted[rows].all():
            raise ValueError("a row of weight zero has a multiplier")
        self._loss = loss.take(np.array(rows))
        others = loss.take(np.setdiff1d(np.flatnonzero(counted), rows))
        rest = conjugate_at(others, np.zeros(others.targets.shape)) if len(others.targets) else 0.0
        self._rest = -math.inf if rest is None else -rest  # least loss of the other rows
        self._dual = dual
        self._penalty = 0.0
        if output_bias == "penalized":
            total = Fraction(data.bias) ** 2 * sum((value**2 for value in sums), Fraction(0))
            self._penalty = up(above(total) / down(4.0 * lam))
        self.recursion = Recursion(
            tree.family, data.lifted[rows], data.bias, depth, [m for m, _ in tree.places]
        )
        self._is_plane, self._factor = covering(directions, level)
        self._which = np.array([member for member, _ in tree.places])
        self._scales = np.array([abs(scale) for _, scale in tree.places])
        members = tree.family.members
        rests = []
        for w, (member, scale) in zip(directions, tree.places, strict=True):
            vector, matched = dual @ w, scale * members[member]
            size = np.abs(dual) @ np.abs(w) + np.abs(matched)
            rests.append(np.abs(vector - matched) + gamma(len(w) + 4) * size)
        self._rests = np.array(rests)
        self.best = self._best()

    def heights(self, c: np.ndarray) -> np.ndarray:
        """Return upper bounds on H at the columns of c."""
        n = self._rests.shape[1]
        found = self.recursion.heights(c, np.concatenate([np.arange(n), self._which]))
        with np.errstate(over="ignore", invalid="ignore"):
            values = self._scales[:, None] * found[n:] + self._rests @ found[:n]
            values = np.where(np.isnan(values), np.inf, values)
            total = values.max(axis=0) if self._is_plane else np.sqrt((values**2).sum(axis=0))
        return total * self._factor * (1.0 + gamma(2 * n + len(self._scales) + 16))

    def at(self, p: float) -> float:
        """Return a lower bound on D(p)."""
        if not 0.0 <= p < math.inf:
            return -math.inf
        value = conjugate_at(self._loss, -p * self._dual)
        if value is None:
            return -math.inf
        found = self._rest - value - up(up(p * p) * self._penalty)
        return found - 2.0**-50 * (abs(self._rest) + abs(value) + p * p * self._penalty)

    def _best(self) -> float:
        """Return an approximate maximiser p of D."""
        unit = 1.0 / float(np.abs(self._dual).max())
        grid = unit * np.geomspace(1e-9, 1e9, 73)
        for _ in range(4):
            values = [self.at(p) for p in grid.tolist()]
            k = int(np.argmax(values))
            grid = np.geomspace(grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)], 15)
        k = int(np.argmax([self.at(p) for p in grid.tolist()]))
        return float(grid[k])


def covering(directions: np.ndarray, level: bool) -> tuple[bool, float]:
    """Return whether the directions form a polygon in a plane, and the factor that makes their bound valid.

    Parameters
    ----------
    directions : ndarray of shape (m, k)
    level : bool
        Whether only unit vectors of sum zero have to be covered; then each direction must have sum zero, too.

    Raises
    ------
    ValueError
        If they do not span the space.

    Examples
    --------
    >>> covering(np.eye(3), False), covering(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [-1.0, 1.0]]), False)
    ((False, 1.0), (True, 1.0))
    """
    vectors = [exactly(w) for w in directions]
    k = directions.shape[1]
    if level and any(sum(w, Fraction(0)) for w in vectors):
        level = False
    dim = k - 1 if level else k
    if not np.isfinite(directions).all():
        raise ValueError("the directions are not finite")
    if dim == 2 and len(vectors) > 2:
        around = [*vectors, [-a for a in vectors[0]]]
        if not all(a[0] * b[1] - a[1] * b[0] > 0 for a, b in pairwise(around)):
            raise ValueError("the directions are no polygon")
        return True, max(_reach(a, b) for a, b in pairwise(around))
    if len(vectors) != dim:
        raise ValueError(f"there are {len(vectors)} directions of {dim} dimensions")
    most = max(sum((abs(dot(a, b) - (a is b)) for b in vectors), Fraction(0)) for a in vectors)
    if most >= 1:
        raise ValueError("the directions are no basis")
    return False, root_up(Fraction(1) / (1 - most), 2)


def _reach(a: list[Fraction], b: list[Fraction]) -> float:
    """Return an upper bound on the inverse distance of the origin from the line through two points."""
    apart = [x - y for x, y in zip(a, b, strict=True)]
    return root_up(dot(apart, apart) / (dot(a, a) * dot(b, b) - dot(a, b) ** 2), 2)


def conjugate_at(loss: Loss, U: np.ndarray) -> float | None:
    """Return an upper bound on C*(pν) from U = pν with at most four roundings; None if its domain may not hold pν."""
    if not loss.contains(U * (1.0 + 8.0 * UNIT)):
        return None
    value = conjugate_above(loss, U, roundings=4)
    return value if math.isfinite(value) else None
