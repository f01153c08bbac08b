"""Heuristic pricing in any dimension: many climbs (:mod:`covopt.oracles.ascent`) from many starts.

At the end of a climb usually no convex kink passes through w. Then w is a local maximum of F: the projection of the
gradient on its flat, exact to rounding, not a limit of gradient steps. With several outputs a climb converges like a
power iteration, so each end point is replaced by the top eigenvector of its cell's form on its flat.
"""

from __future__ import annotations

import numpy as np

from covopt.exact.rank import FOUND, NEAR, ROUGH, first_of_each, null_space
from covopt.exact.rounding import TINY
from covopt.limits import PIECE, checkpoint
from covopt.oracles.ascent import climb_on, climb_outputs_on, in_turns
from covopt.oracles.base import Pricing, heights, kept
from covopt.oracles.bounds import importance, relaxed_dual_norm

POWERS = 30  # power steps before a climb
STARTS = 128  # where a few maxima are enough


def climb(
    rows: np.ndarray, mu: np.ndarray, linear: np.ndarray, starts: np.ndarray, *, n_threads: int = 2
) -> tuple[np.ndarray, np.ndarray]:
    """Climb on F(w) = ⟨linear, w⟩ + Σ mu_i σ(z_i·w) from unit vectors.

    Parameters
    ----------
    rows : ndarray of shape (n, r)
    mu : ndarray of shape (n,)
    linear : ndarray of shape (r,)
    starts : ndarray of shape (m, r)

    Returns
    -------
    points : ndarray of shape (m, r)
    values : ndarray of shape (m,)
        F at the points, nowhere smaller than at the starts.

    Examples
    --------
    >>> import numpy as np
    >>> point, value = climb(np.eye(2), np.array([3.0, 4.0]), np.zeros(2), np.array([[0.8, 0.6]]))
    >>> np.round(point, 9), np.round(value, 9)
    (array([[0.6, 0.8]]), array([5.]))
    """
    rows = np.ascontiguousarray(rows, dtype=float)
    points = np.array(starts, dtype=float, order="C")
    values = np.empty(len(points))

    in_turns(climb_on, (rows, mu, linear), points, values, n_threads)
    return points, values


def starts_for(rows: np.ndarray) -> int:
    """Return how many starts are enough for a few maxima: :data:`STARTS`, fewer where a climb takes long.

    Examples
    --------
    >>> starts_for(np.ones((1000, 3))), starts_for(np.ones((10_000, 3))), starts_for(np.ones((100_000, 3)))
    (128, 34, 8)
    """
    return int(np.clip(PIECE / max(rows.size, 1), STARTS / 16, STARTS))


def approach(rows: np.ndarray, dual: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Move starts towards local maxima of ‖Λᵀσ(Zw)‖, all at once, and keep one of those that meet.

    Each step w ← ∇‖Λᵀσ(Zw)‖, scaled to length one, never decreases the value where Λ ≥ 0. A step of all starts costs
    two matrix products; a climb costs some hundred times as much.

    Parameters
    ----------
    rows : ndarray of shape (n, r)
    dual : ndarray of shape (n, k)
    starts : ndarray of shape (m, r)

    Examples
    --------
    >>> approach(np.eye(2), np.array([[3.0], [4.0]]), np.array([[0.8, 0.6], [0.6, 0.8]])).round(2)
    array([[0.6, 0.8]])
    """
    pieces = np.array_split(starts, 1 + len(rows) * len(starts) // PIECE)
    points = np.concatenate([_by_powers(rows, dual, piece) for piece in pieces])
    return np.ascontiguousarray(points[first_of_each(points, ROUGH)])


def _by_powers(rows: np.ndarray, dual: np.ndarray, points: np.ndarray) -> np.ndarray:
    for _ in range(POWERS):
        checkpoint()
        products = rows @ points.T
        outputs = np.maximum(products, 0.0).T @ dual  # not normalised: only the direction counts
        pulls = ((dual @ outputs.T) * (products > 0.0)).T @ rows
        lengths = np.linalg.norm(pulls, axis=1)
        moves = lengths > 0.0
        points = np.where(moves[:, None], pulls / np.where(moves, lengths, 1.0)[:, None], points)
    return points


def climb_outputs(
    rows: np.ndarray, dual: np.ndarray, starts: np.ndarray, *, n_threads: int = 2
) -> tuple[np.ndarray, np.ndarray]:
    """Climb on ‖Λᵀσ(Zw)‖ from unit vectors to local maxima.

    Parameters
    ----------
    rows : ndarray of shape (n, r)
    dual : ndarray of shape (n, k)
    starts : ndarray of shape (m, r)

    Returns
    -------
    points : ndarray of shape (p, r)
        Distinct end points, p ≤ m.
    values : ndarray of shape (p,)
        Values there; the best is at least that of the best start.

    Examples
    --------
    >>> import numpy as np
    >>> dual = np.array([[3.0, 0.0], [0.0, 4.0]])
    >>> _, heights = climb_outputs(np.eye(2), dual, np.array([[0.8, 0.6], [1.0, 0.0]]))
    >>> heights.round(9)
    array([4., 3.])
    """
    rows = np.ascontiguousarray(rows, dtype=float)
    dual = np.ascontiguousarray(dual, dtype=float)
    points = np.array(starts, dtype=float, order="C")
    values = np.empty(len(points))

    for step in (NEAR, FOUND):
        in_turns(climb_outputs_on, (rows, dual), points, values, n_threads)
        # rounded keys also merge end points that approach one maximum from two sides
        first = first_of_each(points, step)
        points, values = points[first], values[first]
        for p in range(len(points)):
            points[p], values[p] = _settle(rows, dual, points[p], values[p])
    first = first_of_each(points)
    return points[first], values[first]


def _settle(rows: np.ndarray, dual: np.ndarray, w: np.ndarray, value: float) -> tuple[np.ndarray, float]:
    """Jump to the top eigenvector of the cell's quadratic form on the flat through w, if that is higher."""
    heights = rows @ w
    at_zero = np.abs(heights) <= FOUND * np.linalg.norm(rows, axis=1)
    matrix = dual[heights > 0].T @ rows[heights > 0]
    if at_zero.any():
        basis = null_space(rows[at_zero], FOUND).T
        if not len(basis):
            return w, value
        vector = np.linalg.svd(matrix @ basis.T)[2][0] @ basis
    else:
        vector = np.linalg.svd(matrix)[2][0]
    vector *= 1.0 if vector @ w >= 0 else -1.0
    found = float(np.linalg.norm(np.maximum(rows @ vector, 0.0) @ dual))
    return (vector, found) if found > value else (w, value)


class LocalSearchOracle:
    """Pricing by many climbs, for arrangements too big to enumerate; its upper bound is valid but not tight.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Rows without zero rows, in any position.
    n_starts : int
        Starts per pricing, in addition to the warm ones and their opposites; each climbs with the sign of F at the
        start.
    random_state : int, Generator or None
    n_threads : int

    Attributes
    ----------
    warm : ndarray of shape (m, r)
        Neurons used as additional starts; each pricing stores its best ones here.

    Examples
    --------
    >>> import numpy as np
    >>> answer = LocalSearchOracle(np.eye(3), random_state=0).price(np.array([3.0, 4.0, -6.0]))
    >>> answer.values[:2].round(9), answer.exact
    (array([-6., 5.]), False)
    """

    def __init__(
        self,
        rows: np.ndarray,
        *,
        n_starts: int = 1024,
        random_state: int | np.random.Generator | None = None,
        n_threads: int = 2,
    ):
        self.rows = np.ascontiguousarray(rows, dtype=float)
        self.n_starts = n_starts
        self.n_threads = n_threads
        self.warm = np.empty((0, self.rows.shape[1]))
        self._random = np.random.default_rng(random_state)
        # uniform directions in whitened coordinates: they split the rows in different ways
        self._round = np.linalg.pinv(np.linalg.qr(self.rows, mode="r")).T

    def _starts(self, dual: np.ndarray, count: int) -> np.ndarray:
        n, r = self.rows.shape
        quarter = max(1, count // 4)
        heavy = np.argsort(-importance(self.rows, dual))[:quarter]
        chosen = [self._random.choice(n, min(n, r - 1), replace=False) for _ in range(quarter)]
        vertices = np.linalg.qr(self.rows[chosen].transpose(0, 2, 1), mode="complete")[0][..., -1]
        normal = self._random.standard_normal((2 * quarter, r))
        starts = np.concatenate(
            [
                np.atleast_2d(dual.T @ self.rows),
                self.rows[heavy],
                vertices,
                normal[:quarter],
                normal[quarter:, : len(self._round)] @ self._round,
            ]
        )
        starts = np.concatenate([self.warm, starts, -starts])
        norms = np.linalg.norm(starts, axis=1, keepdims=True)
        return (starts / np.where(norms > 0, norms, 1.0))[norms[:, 0] > 0]

    def price(self, dual: np.ndarray, *, threshold: float = 0.0, max_neurons: int | None = None) -> Pricing:
        """Return the local maxima that the climbs found, and a bound on h from :func:`relaxed_dual_norm`.

        Parameters
        ----------
        dual : ndarray of shape (N,) or (N, k)
            One output: maxima of |F|. Several: maxima of ‖Λᵀσ(Zw)‖, values ≥ 0.
        threshold : float
            Maxima below it are left out; the best one is always returned.
        max_neurons : int, optional
            Return at most this many, the best first.
        """
        found = self.search(dual, threshold=threshold, max_neurons=max_neurons)
        bound = max(relaxed_dual_norm(self.rows, dual), found.upper_bound)
        return Pricing(found.neurons, found.values, bound, exact=False)

    def search(
        self,
        dual: np.ndarray,
        *,
        threshold: float = 0.0,
        max_neurons: int | None = None,
        n_starts: int | None = None,
    ) -> Pricing:
        """Price without a bound: ``upper_bound`` is only the best value found, which h may exceed.

        ``n_starts`` of the oracle's starts that are not warm are used, by default all.
        """
        dual = np.ascontiguousarray(dual, dtype=float)
        count = self.n_starts if n_starts is None else min(n_starts, self.n_starts)
        starts = self._starts(dual, count)
        if dual.ndim == 1:
            points, values = self._climb_both_signs(dual, starts)
        else:
            points, values = climb_outputs(self.rows, dual, starts, n_threads=self.n_threads)
        order = np.argsort(-np.abs(values), kind="stable")
        points, values = points[order], values[order]
        found = kept(points, values, max(threshold, TINY), max_neurons)
        self.warm = found[0][: max(self.n_starts // 2, 1)]
        return Pricing(*found, float(abs(values[0])), exact=False)

    def _climb_both_signs(self, dual: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        zero = np.zeros(self.rows.shape[1])
        upwards = heights(self.rows, dual, starts) >= 0.0
        ends = []
        for sign, own in ((1.0, upwards), (-1.0, ~upwards)):
            points, values = climb(self.rows, sign * dual, zero, starts[own], n_threads=self.n_threads)
            # a climb that stays below zero had no tangent to follow and says nothing about the other sign
            ends.append(points[values >= 0.0])
        points = np.concatenate(ends)[first_of_each(np.concatenate(ends))]
        return points, heights(self.rows, dual, points)
