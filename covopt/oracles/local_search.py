r"""Heuristic pricing in any dimension: many climbs by linearising the convex kinks.

Write F = C + K with C the rows of positive weight (convex) and K those of negative weight
(concave). At w replace C by its tangent b·v, a minorant that is exact at w, and maximise b·v + K(v)
over the ball (:mod:`covopt.oracles.concave`). The result v satisfies F(v) ≥ F(w), and as there are
finitely many tangents the climb ends after finitely many steps, mostly three or four. At its end no
convex kink passes through w, as a rule, and then w is a local maximum of F: the projection of the
gradient on its flat, exact to rounding, not a limit of gradient steps.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit

from covopt.oracles.base import Pricing
from covopt.oracles.bounds import gauge_bound
from covopt.oracles.concave import descend, evaluate

MAX_TANGENTS = 100
MAX_ROUNDS = 200
GAIN = 1e-14


@njit(cache=True, nogil=True)
def _climb(rows, mu, linear, starts, values):
    """Climb from every start, in place."""
    n, r = rows.shape
    squares = np.empty(n)
    concave = np.empty(n, np.int64)
    count = 0
    for i in range(n):
        s = 0.0
        for c in range(r):
            s += rows[i, c] * rows[i, c]
        squares[i] = s
        if mu[i] < 0.0:
            concave[count] = i
            count += 1
    theta = np.empty(count)
    ell = np.empty(r)
    scratch = np.empty((r, 2 * r))
    free = np.empty(r, np.int64)
    shift = np.empty(r)
    for p in range(len(starts)):
        w = starts[p]
        values[p] = evaluate(rows, mu, linear, w)
        for _ in range(MAX_TANGENTS):
            for c in range(r):
                ell[c] = linear[c]
            j = 0
            for i in range(n):
                s = 0.0
                for c in range(r):
                    s += rows[i, c] * w[c]
                active = s > 0.0
                if mu[i] < 0.0:
                    theta[j] = 1.0 if active else 0.0
                    j += 1
                if active:
                    for c in range(r):
                        ell[c] += mu[i] * rows[i, c]
            norm = descend(ell, rows, mu, squares, concave[:count], theta, MAX_ROUNDS, scratch, free, shift)
            if not norm > 0.0:
                break
            for c in range(r):
                ell[c] /= norm
            value = evaluate(rows, mu, linear, ell)
            if not value > values[p] + GAIN * abs(value):
                break
            gained = value > values[p] + 1e-9 * abs(value)
            values[p] = value
            for c in range(r):
                w[c] = ell[c]
            if not gained:
                break


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
    cuts = np.linspace(0, len(points), 4 * n_threads + 1 if n_threads > 1 else 2).astype(int)

    def work(start: int, stop: int) -> None:
        _climb(rows, mu, linear, points[start:stop], values[start:stop])

    if n_threads > 1 and len(points) >= 64:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(work, cuts[:-1], cuts[1:]))
    else:
        work(0, len(points))
    return points, values


class LocalSearchOracle:
    """Pricing by many climbs, for arrangements too big to walk; its upper bound is valid but not tight.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Rows without zero rows, in any position.
    n_starts : int
        Climbs per pricing and sign, without the warm ones.
    random_state : int, Generator or None
    n_threads : int

    Attributes
    ----------
    warm : ndarray of shape (m, r)
        Neurons that are tried in addition; each pricing leaves its best ones here.

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

    def _starts(self, dual: np.ndarray) -> np.ndarray:
        n, r = self.rows.shape
        quarter = max(1, self.n_starts // 4)
        heavy = np.argsort(-np.abs(dual) * np.linalg.norm(self.rows, axis=1))[:quarter]
        vertices = np.empty((quarter, r))
        for p in range(quarter):
            normals = self.rows[self._random.choice(n, min(n, r - 1), replace=False)]
            vertices[p] = np.linalg.qr(normals.T, mode="complete")[0][:, -1]
        starts = np.concatenate(
            [
                [dual @ self.rows],
                self.rows[heavy],
                vertices,
                self._random.standard_normal((2 * quarter, r)),
            ]
        )
        starts = np.concatenate([starts, -starts, self.warm])
        norms = np.linalg.norm(starts, axis=1, keepdims=True)
        return (starts / np.where(norms > 0, norms, 1.0))[norms[:, 0] > 0]

    def price(self, dual: np.ndarray, *, threshold: float = 0.0, max_neurons: int | None = None) -> Pricing:
        """Return the local maxima of |F| that the climbs met, and a bound on h(λ) from :func:`gauge_bound`.

        Parameters
        ----------
        dual : ndarray of shape (N,)
        threshold : float
            Maxima below it are left out, the best one never.
        max_neurons : int, optional
            Keep only that many, the best first.
        """
        dual = np.ascontiguousarray(dual, dtype=float)
        zero = np.zeros(self.rows.shape[1])
        starts = self._starts(dual)
        ends = []
        for sign in (1.0, -1.0):
            points, heights = climb(self.rows, sign * dual, zero, starts, n_threads=self.n_threads)
            # a climb that stays below zero had no tangent to follow and says nothing about the other sign
            ends.append(points[heights >= 0.0])
        points = np.concatenate(ends)
        _, first = np.unique(np.round(points, 8) + 0.0, axis=0, return_index=True)
        points = points[first]
        values = np.maximum(points @ self.rows.T, 0.0) @ dual
        order = np.argsort(-np.abs(values), kind="stable")
        points, values = points[order], values[order]
        keep = np.abs(values) > threshold
        keep[0] = True
        if max_neurons is not None:
            keep[max_neurons:] = False
        self.warm = points[: max(self.n_starts // 2, 1)]
        best = float(abs(values[0]))
        return Pricing(points[keep], values[keep], max(gauge_bound(self.rows, dual), best), exact=False)
