"""Exact pricing in three dimensions: one walk along every great circle of the arrangement.

On the sphere the faces are vertices, arcs and cells. Circle i is {w : z_i·w = 0}; its crossings with the other
circles are sorted by angle once, when the sweep is made. One walk then carries the gradient g of F from arc to
arc (Θ(1) per crossing) and sees

- every arc, where the maximum of ⟨g, w⟩ is in closed form,
- every vertex, as the end of an arc,
- the two cells beside every arc, where F has a local maximum only if the gradient of the cell lies in the cell. A
  cell is asked for at its edge of least index; there the edge's own row and the six circles that cross next to it
  rule out nearly all cells before the full sign test.

Nearly everything is ruled out for all arcs of a circle at once (:mod:`covopt.oracles.scalar.sphere_walk`).

The walk covers half a circle: on the antipodal arc F(−w) = ⟨g − 2g₀ − S, w⟩ with S = Σ_{j≠i} μ_j z_j.

Maxima of F on circle i need μ_i ≤ 0 (a concave kink), minima μ_i ≥ 0, so each circle is searched for one sign;
cells are searched for both.

Rounding. The upper bound adds 64 ε·Lip, Lip = ‖g₀‖ + Σ|μ_i|‖z_i‖ (ε = 2u). Where every three unit rows have a volume
above 10⁻¹² (:func:`~covopt.oracles.conditioning.all_clear`) this is proved:

- *Order and signs are right.* With s_j = |z_j × z_i| and unit rows, two crossings on circle i are apart by an angle
  of at least 10⁻¹²/(s_j s_k) ≥ ½ 10⁻¹²(1/s_j + 1/s_k), and each is off by at most 16u/s < 2·10⁻¹⁵/s. At the middle of
  an arc |z_l·w| ≥ ¼ 10⁻¹² for the same reason, while its computed value is off by 16u; both margins are above a
  hundred. So every arc is visited with the signs that it has.
- *Gradients.* Products are off by u of themselves and compensated sums by u of theirs, so the total by 3u Lip in
  norm; the first g is half of the total less the sum over the half circle, and g is off by 6u Lip, u by 10u Lip, e by
  12u Lip. Frames are orthonormal to 8u and orthogonal to z_i to 8u; coordinates of u, its length and the slopes at an
  arc's ends are off by less than 40u Lip in all.
- *No face is missed.* A maximum of F inside a face has the face's signs and slopes ≥ 0 exactly; the computed ones are
  accepted down to −128u Lip (times ‖z_j‖ for the signs of a cell). What is accepted besides is the length of the
  gradient of a face next to it, which only raises the bound. F has no maximum on circle i where μ_i > 0: there the
  two slopes across it have a positive sum.
- *Nor by screening.* It allows 256u Lip, and 256u(1 + q)² Lip for signs of cells, where it adds q times a height to
  the slope at a crossing; q is the height of the crossing row over its slope along the circle, and 1/s ≤ 1 + q. The
  crossing is off by 16u(1 + q), q by 8u(1 + q)², the rest by 40u Lip, and 128u(1 + q) are owed to the signs
  themselves.

So |F| ≤ the largest length met + 40u Lip; who needs a proof adds 128u Lip. What is added here is the same with the
sizes that rows have in the planes of the circles, Σ|μ_i|(|z_i|·|e₁| + |z_i|·|e₂|) entry by entry: along rows that all
point nearly one way everything cancels, and no circle sees it. Without clear position a crossing that is sorted
wrongly moves the walk across a circle where |z_j·w| is a few u‖z_j‖; then the bound is a hint
(:mod:`covopt.oracles.support`).
"""

from __future__ import annotations

import numpy as np

from covopt.limits import in_pieces
from covopt.oracles.conditioning import all_clear
from covopt.oracles.scalar.sphere_walk import ALLOWANCE, find_leans, sum_rows, walk

CLEAR = 1e-12  # volume of three unit rows above which the bound is proved
MOST_PROVED = 3000  # rows whose triples are looked at: some seconds


def circle_frames(normals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two orthonormal vectors e₁, e₂ spanning each circle's plane, with e₁ × e₂ = normal."""
    helper = np.eye(3)[np.argmin(np.abs(normals), axis=1)]
    first = np.cross(normals, helper)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    return first, np.cross(normals, first)


def sort_crossings(
    rows: np.ndarray, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Sort, on every circle, the crossings with the other circles by angle in [0, π).

    Returns
    -------
    order : int32 ndarray of shape (n, n - 1)
        Row that is crossed.
    cosine, sine : ndarray of shape (n, n - 1)
        Of the crossing's angle.
    after : int8 ndarray of shape (n, n - 1)
        Sign of that row just behind the crossing.
    """
    n = len(rows)
    order = np.empty((n, n - 1), dtype=np.int32)
    cosine, sine = np.empty((n, n - 1)), np.empty((n, n - 1))
    signs = np.empty((n, n - 1), dtype=np.int8)

    def work(start: int, stop: int) -> None:
        found = _sort_some(rows, first[start:stop], second[start:stop], np.arange(start, stop))
        order[start:stop], cosine[start:stop], sine[start:stop], signs[start:stop] = found

    in_pieces(work, n)
    return order, cosine, sine, signs


def _sort_some(
    rows: np.ndarray, first: np.ndarray, second: np.ndarray, circles: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    n = len(rows)
    x = rows @ first.T  # [j, i] coordinates of row j in the frame of circle i
    y = rows @ second.T
    angle = np.arctan2(-x, y).T
    after = np.where((angle >= 0) & (angle < np.pi), 1, -1).astype(np.int8)
    below = angle < 0
    angle[below] += np.pi
    wrapped = angle >= np.pi  # a crossing at π is one at 0, seen from the antipode unless rounding moved it
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
        first, second = circle_frames(self.rows / self.norms[:, None])
        self._frames = np.ascontiguousarray(first), np.ascontiguousarray(second)
        self._spread = np.abs(first) + np.abs(second)
        crossings = sort_crossings(self.rows, *self._frames)
        self._crossings = *crossings, *self._find_leans(*crossings)
        self.truncated = False  # whether the last pricing left peaks out because a circle had too many

    def _find_leans(self, order, cosine, sine, after) -> tuple[np.ndarray, np.ndarray]:
        lean, tied = np.empty(cosine.shape), np.empty(len(order), dtype=bool)

        def work(start: int, stop: int) -> None:
            find_leans(
                self.rows, self.norms, *self._frames, order, cosine, sine, after, lean, tied, start, stop
            )

        in_pieces(work, len(order))
        return lean, tied

    def price(
        self, mu: np.ndarray, linear: np.ndarray, threshold: float, *, per_circle: int = 4, n_threads: int = 2
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return peaks of |F| above ``threshold`` (neurons, signed values) and an upper bound on |F|."""
        n = len(self.rows)
        found = np.empty((n, per_circle, 3))
        value = np.empty((n, per_circle))
        count = np.zeros(n, dtype=np.int64)
        best = np.zeros(n)
        weighted = mu[:, None] * self.rows
        whole, error = sum_rows(linear, weighted)
        lipschitz = float(np.linalg.norm(linear) + np.abs(mu) @ self.norms)
        # where the maximum on an arc falls on its end, rounding must not hide both
        rounding = ALLOWANCE * lipschitz

        def work(start: int, stop: int) -> None:
            walk(
                self.rows, self.norms, *self._frames, *self._crossings, mu, weighted, whole, error, rounding,
                threshold, start, stop, found, value, count, best,
            )  # fmt: skip

        in_pieces(work, n, first=50, n_threads=n_threads if n >= 400 else 1)
        self.truncated = bool((count == per_circle).any())
        chosen = np.arange(per_circle) < count[:, None]
        sizes = np.abs(linear) + np.abs(mu) @ np.abs(self.rows)
        seen = float((self._spread @ sizes).max())
        return found[chosen], value[chosen], float(best.max()) + ALLOWANCE * min(seen, lipschitz)


def proved_bound(rows: np.ndarray, dual: np.ndarray, found: float, close: float) -> float | None:
    """Return the bound that the head of this file proves, None where it needs boxes.

    Parameters
    ----------
    rows : ndarray of shape (n, 3)
    dual : ndarray of shape (n,)
    found : float
        Of :meth:`SphereSweep.price`.
    close : float
        Share of it that the allowance may be.

    Examples
    --------
    >>> proved_bound(np.eye(3), np.ones(3), 3.0**0.5, 1e-9) is None
    False
    """
    # a little more than Lip, whatever rows are on one line
    paid = ALLOWANCE * 2.0 * float(np.abs(dual) @ np.linalg.norm(rows, axis=1))
    if paid > close * found or not all_clear(rows, margin=CLEAR, most=MOST_PROVED):
        return None
    return float(np.nextafter(found + paid, np.inf))
