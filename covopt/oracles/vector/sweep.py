"""All great circles, presorted, and the walk along them shared by threads: :mod:`covopt.oracles.vector.circles`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from covopt.limits import in_pieces
from covopt.oracles.scalar.sphere import circle_frames, sort_crossings
from covopt.oracles.scalar.sphere_walk import find_leans
from covopt.oracles.vector.circles import BEST, DOUBTS, FOUND, SETTLED, find_chosen, walk_circles

EPS = float(np.finfo(float).eps)
UNIT = 2.0**-53
CROSSINGS_PER_PIECE = 2e5  # some hundredths of a second
CAPACITY = 4096


@dataclass(frozen=True)
class SphereAnswer:
    """What one walk over all circles saw.

    Attributes
    ----------
    neurons : ndarray of shape (m, 3)
        Local maxima, unsorted, possibly repeated.
    best_neuron : ndarray of shape (3,)
    best, settled : float
        The value of ``best_neuron`` and the largest squared maximum of a piece that is not in doubt.
    doubts : list of (float, float)
        See :func:`covopt.oracles.vector.doubts.settle_doubts`.
    """

    neurons: np.ndarray
    best_neuron: np.ndarray
    best: float
    settled: float
    doubts: list[tuple[float, float]]


class VectorSphereSweep:
    """All faces of an arrangement of great circles, presorted for repeated vector pricing.

    Parameters
    ----------
    rows : ndarray of shape (n, 3)
        One row per line, of rank 3.

    Attributes
    ----------
    least_part : float
        The smallest sine of the angle of two rows.

    Examples
    --------
    >>> sweep = VectorSphereSweep(np.eye(3))
    >>> errors = {'map_error': 1e-14, 'worst': 1e-14, 'size': 6.0}
    >>> answer = sweep.price(np.eye(3)[:, :1] * 2.0, np.zeros((1, 3)), 0.0, best=0.0, **errors)
    >>> answer.best, answer.best_neuron
    (2.0, array([1., 0., 0.]))
    """

    def __init__(self, rows: np.ndarray):
        self.rows = np.ascontiguousarray(rows, dtype=float)
        self.lengths = np.linalg.norm(self.rows, axis=1)
        units = self.rows / self.lengths[:, None]
        first, second = circle_frames(units)
        self._frames = np.ascontiguousarray(first), np.ascontiguousarray(second)
        self._crossings = sort_crossings(self.rows, *self._frames)
        parts = np.hypot(units @ first.T, units @ second.T).T  # [i, j] of row j in the plane of circle i
        self._parts = np.maximum(np.take_along_axis(parts, self._crossings[0].astype(np.int64), axis=1), EPS)
        self.least_part = float(self._parts.min())
        order, cosine, sine, after = self._crossings
        n = len(order)
        self._leans, self._chosen = np.empty(cosine.shape), np.empty(cosine.shape, dtype=bool)
        tied = np.empty(n, dtype=bool)
        lengths, frames = self.lengths, self._frames

        def work(start: int, stop: int) -> None:
            find_leans(
                self.rows, lengths, *frames, order, cosine, sine, after, self._leans, tied, start, stop
            )
            find_chosen(order, cosine, sine, self._parts, self._chosen, start, stop)

        in_pieces(work, n)

    def price(
        self,
        mu: np.ndarray,
        linear: np.ndarray,
        threshold: float,
        *,
        best: float,
        map_error: float,
        worst: float,
        size: float,
        n_threads: int = 2,
    ) -> SphereAnswer:
        """Walk all circles for G(w) = linear w + Σ mu_i σ(z_i·w).

        Parameters
        ----------
        mu : ndarray of shape (n, k)
        linear : ndarray of shape (k, 3)
        threshold : float
            Local maxima below it are left out.
        best : float
            A value of ‖G‖ that is known to be met; pieces below it and below the threshold are passed by.
        map_error : float
            What rounding may change a map's images of unit vectors by.
        worst : float
            The same for the vertices, as far off as they are.
        size : float
            Above the norm of every map.
        """
        n, k = mu.shape
        blur = (2.0 * size + map_error) * map_error + 64.0 * (k + 8) * UNIT * size * size
        shared = n_threads > 1 and n * n >= CROSSINGS_PER_PIECE
        n_cuts = max(4 * n_threads if shared else 1, int(n * n / CROSSINGS_PER_PIECE))
        cuts = np.linspace(0, n, min(n, n_cuts) + 1).astype(int)

        def work(piece: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
            state = np.array([best, 0.0, 0.0, 0.0])
            found, point, doubts = np.empty((CAPACITY, 3)), np.full(3, np.nan), np.empty((CAPACITY, 2))
            walk_circles(
                self.rows, self.lengths, *self._frames, *self._crossings, self._parts, self._leans, self._chosen, mu,
                linear, threshold, map_error, worst, blur, cuts[piece], cuts[piece + 1], state, found, point, doubts,
            )  # fmt: skip
            return state, found[: int(state[FOUND])], point, doubts[: int(state[DOUBTS])]

        if len(cuts) > 2 and n_threads > 1:
            with ThreadPoolExecutor(n_threads) as pool:
                parts = list(pool.map(work, range(len(cuts) - 1)))
        else:
            parts = [work(piece) for piece in range(len(cuts) - 1)]
        state, _, point, _ = max(parts, key=lambda part: (not np.isnan(part[2][0]), part[0][BEST]))
        return SphereAnswer(
            np.concatenate([part[1] for part in parts]),
            point,
            float(state[BEST]),
            max(float(part[0][SETTLED]) for part in parts),
            [(float(top), float(gap)) for part in parts for top, gap in part[3]],
        )
