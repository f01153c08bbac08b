r"""Exact pricing in four and more dimensions: one walk along every circle of the arrangement.

A maximiser of |F|, F(w) = ⟨g₀, w⟩ + Σ μ_i σ(z_i·w), lies in the relative interior of one face. With J
the rows that vanish there and g the gradient, it is the projection w* = P_J g of the gradient on the
flat of J, with the face's signs, and F(w*/‖w*‖) = ‖P_J g‖. Every face has an edge, so all of them are
met on a walk along the circles: each set K of r − 2 rows leaves a plane; its crossings with the other
rows are sorted by angle, and the gradient is carried from arc to arc. On every arc

- the maximum over the closed arc is in closed form: ‖P_K g‖, or the value at an end (a vertex);
- a face of higher dimension lifts some rows L ⊂ K off zero, with signs, and keeps J = K \ L. Then w* is
  its part in the plane, which no lift changes, plus Π_J a, with a the coordinates of g in an orthonormal
  basis of span K and Π_J the projection on the complement of J there, prepared once per circle by
  Gram–Schmidt (an inverse of J's Gram matrix would square the condition number, which is large for
  points far from the origin). The signs of z_j·w*, for the rows in L and the two that end the arc, rule
  out most lifts, for all arcs of a circle at once; they are affine in a. The rows crossed next rule out
  most others, only then all signs are tested.

Maxima of F on a simple arrangement need μ_j ≤ 0 on J (concave kinks), minima μ_j ≥ 0; this filters the
lifts, and circles for their arcs and vertices. What is left is reported only where it is a local maximum:
there θ ∈ [0, 1] exist with g + Σ θ_k μ_k z_k parallel to w.

**Degenerate data and rounding.** Rows are scaled to length one (μ_i absorbs the length) and moved by
fixed pseudorandom vectors of length δ = 1e-13; the sweep works on the moved rows and their function F̃.

1. |F̃(w) − F(w)| ≤ δ Σ|μ_i| for every unit w: max|F| ≤ max|F̃| + δ Σ|μ_i|.
2. The moved arrangement is simple, so the faces of F̃ are the ones listed above, each beside the walk
   of a circle. A sign that the walk or a test gets wrong by rounding belongs to a row with |z_i·w| =
   O(δ) at most; sign tests tolerate 8 δ (16 δ where many arcs are asked at once), and crossing such a row
   changes F̃ by 8 δ |μ_i| at most, so values are right up to 8 δ Σ|μ_i|.
3. Circles of rows that are dependent up to 32 δ are left out, and nothing would be seen where all are:
   :class:`~covopt.oracles.faces.FaceOracle` drops directions that the rows do not have beyond that. A face of the
   true arrangement, seen from the points of one of its edges, is cut by the rows through that edge; moving them makes
   it a polyhedron, and a linear function that is bounded on the true cone is optimal on the moved one at a basis that
   was one before (dual feasibility does not see the right-hand side). So it meets a circle of truly independent rows.

Rows that nearly all point one way are moved by δ of each column's own size, and what is allowed for is that of the
coordinates of the maximum.

Together with rounding (the gradient is a sum of n terms) the bound adds 24 δ (‖g₀‖ + Σ|μ_i|). This is a
hint and no proof: rows of a circle that are dependent up to s let its plane turn by u/s, beyond what sign
tests tolerate. No certificate takes it (:mod:`covopt.oracles.support` asks boxes, and begins where the hint
is). A neuron's value is always F of the rows as given, at a point of the sphere.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from math import comb

import numpy as np

from covopt.checks.memory import room
from covopt.oracles.scalar.flat_frames import DELTA
from covopt.oracles.scalar.flat_walk import sort_circles, walk
from covopt.parallel import active_cluster

ALLOWANCE = 24 * DELTA
SILENT, RANK = 1e-9, 1e-11  # height of a unit row that vanishes, and what counts as zero among such rows
THIN = 1e-2  # size of a column of unit rows beside another's, below which rows are moved in proportion
BUFFER = 4096
FACES_PER_CHUNK = 5e6  # about a tenth of a second: interrupts and deadlines wait for no longer
MOST_KEPT = 1e8  # arcs whose order is kept from one pricing to the next: 100 MB
FACES_PER_TASK = 5e6  # that one message to a cluster is about
WORTH_SENDING = 1e7

Orders = dict[tuple[int, int], np.ndarray]  # of the crossings on ranges of circles


def arc_visits(n: int, r: int) -> int:
    """Count the arcs that one pricing of n rows in dimension r visits.

    >>> arc_visits(50, 5)
    1842400
    """
    return comb(n, r - 2) * 2 * (n - r + 2)


def unrank(rank: int, n: int, k: int) -> np.ndarray:
    """Return the k-subset of {0, …, n − 1} at position ``rank`` of the lexicographic order.

    >>> unrank(3, 4, 2)
    array([1, 2])
    """
    subset = []
    first = 0
    for left in range(k, 0, -1):
        while rank >= (block := comb(n - first - 1, left - 1)):
            rank -= block
            first += 1
        subset.append(first)
        first += 1
    return np.array(subset, dtype=np.int64)


class FlatSweep:
    """All faces of a central arrangement of n hyperplanes in dimension r ≥ 4, for repeated pricing.

    Parameters
    ----------
    rows : ndarray of shape (n, r)
        One row per line, none zero, of full column rank r ≥ 4.

    Attributes
    ----------
    n_faces : int
        Number of arcs that one pricing visits, known before any work.

    Examples
    --------
    >>> import numpy as np
    >>> neurons, values, bound = FlatSweep(np.eye(4)).price(np.ones(4), np.zeros(4), 0.0)
    >>> neurons[0], float(round(bound, 9))
    (array([0.5, 0.5, 0.5, 0.5]), 2.0)
    """

    def __init__(self, rows: np.ndarray):
        self.rows = np.ascontiguousarray(rows, dtype=float)
        n, r = self.rows.shape
        self.n_faces = arc_visits(n, r)
        self.norms = np.linalg.norm(self.rows, axis=1)
        moved = np.random.default_rng(20).standard_normal((n, r))
        moved *= DELTA / np.linalg.norm(moved, axis=1, keepdims=True)
        units = self.rows / self.norms[:, None]
        sizes = np.abs(units).max(axis=0)
        self._is_thin = bool(sizes.min() < THIN * sizes.max())
        self._units = units + (moved * sizes if self._is_thin else moved)
        self._kept: Orders | None = {} if self.n_faces <= min(MOST_KEPT, room(self.n_faces)) else None

    def price(
        self,
        mu: np.ndarray,
        linear: np.ndarray,
        threshold: float = 0.0,
        max_neurons: int | None = None,
        *,
        n_threads: int = 2,
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Maximise |F|, F(w) = ⟨linear, w⟩ + Σ mu_i σ(z_i·w), over the unit sphere.

        Parameters
        ----------
        mu : ndarray of shape (n,)
        linear : ndarray of shape (r,)
        threshold : float
            Local maxima below it are left out, the best point never.
        max_neurons : int, optional
            Keep only that many, the best first.
        n_threads : int
            Threads that share the circles.

        Returns
        -------
        neurons : ndarray of shape (m, r)
            Unit vectors, best first. All local maxima above ``threshold`` for rows in general position, up to
            a few thousand.
        values : ndarray of shape (m,)
            F there, from the rows as given.
        upper_bound : float
            Not exceeded by |F| on the sphere, but for what the head of the module says of nearly dependent rows.
        """
        n, r = self.rows.shape
        weight = np.ascontiguousarray(mu * self.norms)
        linear = np.ascontiguousarray(linear, dtype=float)
        n_subsets = comb(n, r - 2)
        n_chunks = 4 * n_threads if n_threads > 1 and self.n_faces > 20_000 else 1
        n_chunks = min(n_subsets, max(n_chunks, int(self.n_faces / FACES_PER_CHUNK)))
        cuts = [n_subsets * c // n_chunks for c in range(n_chunks + 1)]

        def work(chunk: int) -> tuple[np.ndarray, float, np.ndarray]:
            ranges = [cuts[chunk : chunk + 2]]
            return _walk_part(self._units, weight, linear, ranges, threshold, self._kept)[0]

        cluster = active_cluster() if self.n_faces >= WORTH_SENDING else None
        if cluster is not None:
            step = max(1, int(FACES_PER_TASK / FACES_PER_CHUNK))
            pairs = [cuts[c : c + 2] for c in range(n_chunks)]
            tasks = [(weight, linear, pairs[c : c + step], threshold) for c in range(0, n_chunks, step)]
            parts = [part for task in cluster.spread(_walk_part, tasks, (self._units,)) for part in task]
        elif n_chunks > 1 and n_threads > 1:
            with ThreadPoolExecutor(n_threads) as pool:
                parts = list(pool.map(work, range(n_chunks)))
        else:
            parts = [work(chunk) for chunk in range(n_chunks)]
        _, best, top = max(parts, key=lambda part: part[1])
        neurons = np.concatenate([top[None]] * (best > 0) + [part[0] for part in parts])
        if len(neurons) == 0:  # F vanishes
            neurons = np.eye(1, r)
        if self._is_thin:
            neurons = self._back_on_faces(neurons)
        values = neurons @ linear + np.maximum(neurons @ self.rows.T, 0.0) @ mu
        order = np.argsort(-np.abs(values), kind="stable")
        chosen = [order[0]]
        for p in order[1:]:
            if abs(values[p]) <= threshold or (max_neurons is not None and len(chosen) >= max_neurons):
                break
            if not _seen(neurons, values, chosen, p):
                chosen.append(p)
        lipschitz = float(np.linalg.norm(linear) + np.abs(weight).sum())
        if self._is_thin:  # what every coordinate is worth where the maximum is
            at = np.abs(neurons[order[0]])
            lipschitz = min(
                lipschitz, float(np.abs(linear) @ at + np.abs(weight) @ (np.abs(self._units) @ at))
            )
        return neurons[chosen], values[chosen], max(best, abs(values[order[0]])) + ALLOWANCE * lipschitz

    def _back_on_faces(self, neurons: np.ndarray) -> np.ndarray:
        """Take out of neurons what rounding left along rows that vanish there: of a long gradient that is much."""
        units = self.rows / self.norms[:, None]
        found = neurons.copy()
        for j in range(len(found)):
            silent = units[np.abs(units @ found[j]) < SILENT]
            for _ in range(2 if len(silent) else 0):
                found[j] -= np.linalg.lstsq(silent, silent @ found[j], rcond=RANK)[0]
        return found / np.linalg.norm(found, axis=1, keepdims=True)


def _walk_part(
    units: np.ndarray,
    weight: np.ndarray,
    linear: np.ndarray,
    ranges: list[list[int]],
    threshold: float,
    kept: Orders | None = None,
) -> list[tuple[np.ndarray, float, np.ndarray]]:
    """Walk ranges of circles, each by itself; return maxima, the best value and where it is.

    The order of their crossings is left in ``kept``, for the next pricing.
    """
    n, r = units.shape
    parts = []
    for start, stop in ranges:
        found, value, top = np.empty((BUFFER, r)), np.empty(BUFFER), np.zeros(r)
        first = unrank(start, n, r - 2)
        orders = None if kept is None else kept.get((start, stop))
        if orders is None:
            orders = np.empty((stop - start, n - r + 2), dtype=np.int16)
            sort_circles(units, first.copy(), orders)
            if kept is not None:
                kept[start, stop] = orders
        count, best = walk(units, weight, linear, first, orders, threshold, found, value, top)
        parts.append((found[:count].copy(), best, top))
    return parts


def _seen(neurons: np.ndarray, values: np.ndarray, chosen: list[int], candidate: int) -> bool:
    """Whether a direction is among the chosen ones; those with a larger value cannot be it."""
    for p in reversed(chosen):
        if abs(values[p]) - abs(values[candidate]) > 1e-9 * abs(values[p]):
            return False
        if np.abs(neurons[p] - neurons[candidate]).max() < 1e-8:
            return True
    return False
