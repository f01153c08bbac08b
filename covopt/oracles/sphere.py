"""Exact pricing in three dimensions: one walk along every great circle of the arrangement.

On the sphere the faces are vertices, arcs and cells. Circle i is {w : z_i·w = 0}; its crossings with the other
circles are sorted by angle once, in the constructor. One walk then carries the gradient g of F from arc to
arc (Θ(1) per crossing) and visits

- every arc, where the maximum of ⟨g, w⟩ is in closed form,
- every vertex, as the end of an arc,
- the two cells beside every arc, where F has a local maximum only if the gradient of the cell lies in the cell. A
  cell is tested at its edge of least index; there the edge's own row and the six circles that cross next to it
  rule out nearly all cells before the full sign test.

Most arcs and cells are ruled out for all arcs of a circle at once (:mod:`covopt.oracles.sphere_walk`). This takes .26
processor seconds where a walk for any dimension and boxes take .95 (250 noisy points); .38 against 2.5 (smooth), 1.2
against 2.8 (500).

The walk covers half a circle: on the antipodal arc F(−w) = ⟨g − 2g₀ − S, w⟩ with S = Σ_{j≠i} μ_j z_j.

Maxima of F on circle i need μ_i ≤ 0 (a concave kink), minima μ_i ≥ 0, so each circle is searched for one sign;
cells are searched for both.

Rounding. The bound of a pricing adds 128u Lip, Lip = ‖g₀‖ + Σ|μ_i|‖z_i‖ (u = 2⁻⁵³): not a proof, but good wherever
crossings can be told apart. :meth:`SphereSweep.prove` walks again, tests the cells beside every arc whatever their
indices, and accepts gradients that a row z_l contradicts by at most T‖z_l‖. With q the largest height of a row over
its slope along another's circle, so that the sines of two circles are above 1/(1 + q), it shows

    h ≤ (1 + η²) · (largest length met + paid),    η = 400u n (1 + q),    where T ≥ 3.1 η h,

for rows in any position: collinear points, lattices, clusters. Let S be Σ|μ_i||z_i| + |g₀| entry by entry. Then
paid = 64u max_i S·(|e₁| + |e₂|) + 4u Σ|μ_i|‖z_i‖κ_i + 16u‖S‖ with the κ_i below.

- *On circles nothing is missed.* Circle i stands for the plane of the computed e₁ and e₂. z_i is orthogonal to it up
  to 4u‖z_i‖κ_i, κ_i the entries of e₁·z_i and e₂·z_i in absolute values, for unit z_i. Row j has coordinates x, y
  there with errors 3u(|z_j|·|e₁|), 3u(|z_j|·|e₂|), and the direction of its crossing another 13u: it is that of a
  row 16u |z_j|·(|e₁| + |e₂|) away. So the walk, however crossings are sorted, is the exact walk of nearby rows. Their
  F differs by 16u S·(|e₁| + |e₂|), the gradients, which sum the given rows, by as much again; products with error u,
  compensated sums, coordinates and lengths add less than half of that. Every crossing counts where the circle is
  concave (μ_i ≤ 0 for maxima, so that omitting the row only raises F), and every arc whose slopes at its ends
  have the right sign up to 128u Lip; an arc shorter than the blur, 64u(1 + q) ≤ η/4, is no better than its ends.
- *Maxima near concave circles.* Let F have the maximum h of |F| at w*, in a closed cell of gradient e = h w*. On the
  way to a concave circle at a distance of at most η only convex ones are crossed, so F ≥ ⟨e, w⟩ where it is reached:
  a value of h cos η, less what concave rows contribute at a point of the plane that represents their circle.
- *Others.* Else F is convex on the cap of radius η about w*, so D = F − ⟨e, ·⟩ ≥ 0 is at most h(1 − cos η) on it and
  its gradients in the cap of half the radius are at most hη(1 + 2η). If no circle is as near as η/4, let C be the
  cell of w*: its circumference is at least 2π sin(η/4). Else such a circle cuts a chord of length at least .86η from
  the cap of radius η/2; let C be a cell beside a piece of the chord between two crossings. In both cases an edge of C
  is as long as L = .86η/n > 340u(1 + q). Crossings are off by 32u(1 + q) < L/10, so the arc that is walked there is
  longer than the blur, and at its middle every row is above 100u‖z_l‖ and has the sign that it has in C. The gradient
  of C is e + ∇D: its length is at least h cos(η/2), it is within 1.1η of w* and 1.6η of a point of C, so a row
  contradicts it by at most 1.7ηh‖z_l‖ < T‖z_l‖. It is met; gradients are off by 8u‖S‖.
- *Nor by screening*, which allows twice as much: 2T(1 + q)² for signs of cells, where it adds q times a height to the
  slope at a crossing, and T(1 + q) of that slope comes from T.

Anything else that is accepted only raises the bound, by little: by the square of T.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from covopt.exact.rounding import EPS, ROUNDING
from covopt.limits import PIECE, in_pieces
from covopt.oracles.sphere_walk import Circles, find_leans, look, screen, sum_rows

# kept of each crossing of two circles
CROSSING = tuple(map(np.dtype, ("i4", "f8", "f8", "i1", "f8", "?", "?")))
ETA = 200 * EPS  # times n(1 + q): η of the module docstring
WIDEST = 1e-4  # largest angles for which the expansions of the module docstring hold
BEYOND = 3.2  # times ηh: T


def circle_frames(normals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two orthonormal vectors e₁, e₂ spanning each circle's plane, with e₁ × e₂ = normal."""
    helper = np.eye(3)[np.argmin(np.abs(normals), axis=1)]
    first = np.cross(normals, helper)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    return first, np.cross(normals, first)


def _sort_some(
    rows: np.ndarray, first: np.ndarray, second: np.ndarray, circles: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Sort, on some circles, the crossings with the other circles by angle in [0, π): order, cosine, sine, after."""
    n = len(rows)
    x = rows @ first.T  # [j, i] coordinates of row j in the frame of circle i
    y = rows @ second.T
    angle = np.arctan2(-x, y).T
    after = np.where((angle >= 0) & (angle < np.pi), 1, -1).astype(np.int8)
    below = angle < 0
    angle[below] += np.pi
    wrapped = angle >= np.pi  # a crossing at π is one at 0 of the antipode, unless rounding moved it
    after[wrapped & below] = 1
    angle[wrapped] = 0.0
    angle[np.arange(len(circles)), circles] = np.inf
    order = np.argsort(angle, axis=1, kind="stable")[:, : n - 1].astype(np.int32)
    angle = np.take_along_axis(angle, order, axis=1)
    return order, np.cos(angle), np.sin(angle), np.take_along_axis(after, order, axis=1)


class SphereSweep:
    """All faces of an arrangement of great circles, presorted for repeated pricing.

    Parameters
    ----------
    rows : ndarray of shape (n, 3)
        One row per line, of rank 3.
    """

    def __init__(self, rows: np.ndarray):
        self.rows = np.ascontiguousarray(rows, dtype=float)
        self.norms = np.linalg.norm(self.rows, axis=1)
        normals = self.rows / self.norms[:, None]
        first, second = circle_frames(normals)
        self._spread = np.abs(first) + np.abs(second)
        n = len(self.rows)
        frames = np.ascontiguousarray(np.stack([first, second, normals], axis=1))
        crossings = [np.empty((n, n - 1), dtype=kind) for kind in CROSSING]
        tied = np.empty(n, dtype=bool)

        def work(start: int, stop: int) -> None:
            some = slice(start, stop)
            found = _sort_some(self.rows, first[some], second[some], np.arange(start, stop))
            *leans, tied[some] = find_leans(self.rows, self.norms, frames[some], *found)
            for whole, part in zip(crossings, (*found, *leans), strict=True):
                whole[some] = part

        in_pieces(work, n)
        order, cosine, sine, after, lean, lone, merged = crossings
        self.circles = Circles(
            self.rows, self.norms, frames, order, cosine, sine, after, lean, lone, merged, tied
        )
        flat = np.abs(normals), np.abs(first)
        # the terms whose sums cancel in e₁·z and e₂·z, e₂ = z × e₁
        turned = flat[0][:, [1, 2, 0]] * flat[1][:, [2, 0, 1]] + flat[0][:, [2, 0, 1]] * flat[1][:, [1, 2, 0]]
        self._tilts = self.norms * (flat[0] * (flat[1] + turned)).sum(axis=1)  # ‖z‖κ

    def price(
        self,
        mu: np.ndarray,
        linear: np.ndarray,
        threshold: float,
        *,
        n_threads: int = 2,
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return peaks of |F| above ``threshold`` (neurons, signed values) and an upper bound on |F|."""
        circle, found, value, best = self._walk(mu, linear, threshold, n_threads)
        order = np.argsort(circle, kind="stable")  # threads do not change the answer
        seen = float((self._spread @ self._sizes(mu, linear)).max())
        bound = best + ROUNDING * min(seen, self._lipschitz(mu, linear))
        return found[order], value[order], bound

    def _sizes(self, mu: np.ndarray, linear: np.ndarray) -> np.ndarray:
        return np.abs(linear) + np.abs(mu) @ np.abs(self.rows)

    def _lipschitz(self, mu: np.ndarray, linear: np.ndarray) -> float:
        return float(np.linalg.norm(linear) + np.abs(mu) @ self.norms)

    def _walk(
        self, mu: np.ndarray, linear: np.ndarray, threshold: float, n_threads: int, beyond: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Walk all circles; return the peaks with circles and values, and the largest |F|. ``beyond`` is T."""
        n, circles = len(self.rows), self.circles
        if beyond:
            circles = replace(circles, tied=np.ones(n, dtype=bool))
        weighted = mu[:, None] * self.rows
        whole, error = sum_rows(linear, weighted)
        rest = whole - weighted
        error = error + ((whole - rest) - weighted)
        totals = np.einsum("iba,ia->ib", circles.frames, rest + error)
        # where the maximum on an arc falls on its end, rounding must not hide both
        rounding = max(ROUNDING * self._lipschitz(mu, linear), beyond)
        found, best = [(np.zeros(0, dtype=np.int64), np.zeros((0, 3)), np.zeros(0))], 0.0
        kinks, length = mu * self.norms, max(1, PIECE // n)

        def work(start: int, stop: int) -> None:
            nonlocal best
            index, values = np.empty((2 * length * n, 4), dtype=np.int64), np.empty((2 * length * n, 5))
            for at in range(start, stop, length):
                count, running = screen(
                    circles.order, circles.cosine, circles.sine, circles.after, circles.lean, circles.tied,
                    circles.frames, weighted, kinks, totals, rounding, threshold, best, at, min(at + length, stop),
                    index, values,
                )  # fmt: skip
                peaks, running = look(
                    circles, mu, index[:count], values[:count], rounding, threshold, running
                )
                found.extend(peaks)
                best = max(best, running)

        in_pieces(work, n, first=max(50, length), n_threads=n_threads if n >= 400 else 1)
        circle, neurons, value = (np.concatenate(part) for part in zip(*found, strict=True))
        return circle, neurons, value, best

    def prove(self, mu: np.ndarray, linear: np.ndarray, most: float, *, n_threads: int = 2) -> float | None:
        """Return a bound on |F| proved as in the module docstring; None where it would not be below ``most``.

        Examples
        --------
        >>> square = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0], [2.0, 2.0, 1.0]])
        >>> round(SphereSweep(square).prove(np.ones(4), np.zeros(3), 7.0), 9) == round(48**0.5, 9)
        True
        """
        lipschitz = self._lipschitz(mu, linear)
        leans = self.circles.lean
        eta = ETA * len(self.rows) * (1.0 + float(max(leans.max(), -leans.min())))
        sizes = self._sizes(mu, linear)
        paid = 32.0 * float((self._spread @ sizes).max()) + 2.0 * float(np.abs(mu) @ self._tilts)
        paid = EPS * (paid + 8.0 * float(np.linalg.norm(sizes)))
        if not eta <= WIDEST or most <= paid:
            return None
        bound = float(1.0 + 2.0 * EPS * (len(self.rows) + 8)) * lipschitz
        for _ in range(2):  # the first bound determines the tolerance T of the second walk
            found = self._walk(mu, linear, np.inf, n_threads, BEYOND * eta * bound)[-1]
            bound = min(bound, float(np.nextafter((1.0 + eta * eta) * (found + paid), np.inf)))
            if bound <= most:
                return bound
        return None
