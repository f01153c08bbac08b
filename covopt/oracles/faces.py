"""The exact oracle in at most three dimensions: visit every face of the arrangement once.

A maximiser of |F| lies in the relative interior of one face, and there it is the projection of the face's gradient on
the face's span (theory: Bach 2017 §2; SP20 §4). :mod:`covopt.oracles.sphere` implements three dimensions.

Certificates may use its second bound in three dimensions, which is proved (:meth:`FaceOracle.proved_bound`). All
other bounds are hints, and :mod:`covopt.oracles.certified` proves by other means.
"""

from __future__ import annotations

from math import comb

import numpy as np

from covopt.errors import BudgetError, InputError
from covopt.exact.rank import FOUND, merge_lines
from covopt.exact.rounding import ROUNDING
from covopt.oracles.base import Pricing, heights, kept, ranked
from covopt.oracles.sphere import SphereSweep
from covopt.proofs.checker.faces import DIMENSION

MOST_FACED = DIMENSION  # faces beyond are not proved in integers, and signs and boxes are quicker
DEFAULT_FACE_BUDGET = 5e8


def few_lines(n_lines: int, rank: int) -> str:
    """Return the error message for rows that lie on too few lines, up to rounding, to have faces."""
    return f"rows on {n_lines} lines in dimension {rank} are too near to dependent for faces"


def count_faces(n_lines: int, rank: int) -> float:
    """Return the number of faces that one pricing visits: each arc, and the 3^(r−2) − 1 faces that meet it.

    Faces are counted once for every arc on their boundary, as they are visited.
    """
    if rank <= 2:
        return 2.0 * n_lines
    return 2.0 * (n_lines - rank + 2) * comb(n_lines, rank - 2) * 3.0 ** (rank - 2)


class FaceOracle:
    """Exact pricing by faces, for scalar outputs and the variation norm, in at most three dimensions.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Rows of full column rank r ≤ 3 without zero rows; rows on one line are merged inside.
    budget : float
        Largest number of faces per pricing, as :func:`count_faces` counts them.

    Raises
    ------
    InputError
        With fewer rows than columns.
    BudgetError
        When r > 3, or the arrangement has more faces than ``budget``; nothing has been computed by then.

    Examples
    --------
    >>> import numpy as np
    >>> oracle = FaceOracle(np.eye(2))
    >>> oracle.price(np.array([3.0, 4.0])).neurons[0]
    array([0.6, 0.8])
    """

    def __init__(self, rows: np.ndarray, *, budget: float = DEFAULT_FACE_BUDGET, n_threads: int = 2):
        self.rows = np.ascontiguousarray(rows, dtype=float)
        if self.rows.shape[1] > MOST_FACED:
            raise BudgetError(
                f"faces are walked in at most {MOST_FACED} dimensions; received rows in {self.rows.shape[1]}"
            )
        lengths = np.linalg.norm(self.rows, axis=1)
        self.lines, self._line_of, self._ratio = merge_lines(self.rows)
        moved = np.linalg.norm(self.rows - self._ratio[:, None] * self.lines[self._line_of], axis=1)
        shared = np.bincount(self._line_of)[self._line_of] > 1
        # bound on what merging changes F by, per unit of |λ_i|: unlike the sums over a line, it cannot cancel
        self._merging = np.where(shared, moved + ROUNDING * lengths, 0.0)
        self._lengths = lengths
        if len(self.rows) < self.rows.shape[1]:
            raise InputError(
                f"rows must have full column rank; received {len(self.rows)} rows in dimension {self.rows.shape[1]}: "
                "reduce them with covopt.oracles.boxes.scalar.narrow."
            )
        if len(self.lines) < self.rows.shape[1] == MOST_FACED:  # in the plane a single line suffices
            raise BudgetError(few_lines(*self.lines.shape))
        self.rank = self.lines.shape[1]
        self.n_threads = n_threads
        self.n_faces = count_faces(len(self.lines), self.rank)
        if self.n_faces > budget:
            raise BudgetError(
                f"the exact oracle would look at {self.n_faces:.3g} faces per pricing ({len(self.lines)} rows in "
                f"dimension {self.rank}), above the budget of {budget:.3g}"
            )
        self._sphere = SphereSweep(self.lines) if self.rank == 3 else None

    def price(
        self,
        dual: np.ndarray,
        *,
        threshold: float = 0.0,
        max_neurons: int | None = None,
        complete: bool = False,
    ) -> Pricing:
        """Return the local maxima of |F| above ``threshold`` and a valid bound on h(λ).

        Arguments as in :class:`covopt.oracles.base.Oracle`; all maxima are returned with or without ``complete``.
        """
        mu, linear = self._merged(dual)
        neurons, _, bound = self._candidates(mu, linear, threshold)
        if len(neurons) == 0 and threshold > 0:
            # nothing above the threshold: find the best one, just below the bound
            allowance = 4 * ROUNDING * float(np.abs(dual) @ self._lengths)
            below = max(0.0, bound * (1 - 1e-9) - allowance)
            neurons, _, bound = self._candidates(mu, linear, below)
        bound += float(np.abs(dual) @ self._merging)
        values = heights(self.rows, dual, neurons)
        neurons, values = ranked(neurons, values)
        best = float(np.abs(values).max(initial=0.0))
        # rows that are nearly dependent can hide the neuron that attains the bound
        close = best * (1.0 + FOUND) + 16 * ROUNDING * float(np.abs(dual) @ self._lengths)
        return Pricing(
            *kept(neurons, values, 0.0, max_neurons), float(max(bound, best)), bool(bound <= close)
        )

    def bound(self, dual: np.ndarray) -> float:
        """Return only the bound on h(λ), in half the time of a pricing without a threshold.

        Parameters
        ----------
        dual : ndarray of shape (N,)
        """
        bound = self._candidates(*self._merged(dual), np.inf)[2]
        return float(bound + np.abs(dual) @ self._merging)

    def proved_bound(self, dual: np.ndarray, most: float) -> float | None:
        """Return a bound on h(λ) that includes rounding, in three dimensions; None where it exceeds ``most``.

        Parameters
        ----------
        dual : ndarray of shape (N,)
        most : float
        """
        if self._sphere is None:
            return None
        paid = (1.0 + ROUNDING) * float(np.abs(dual) @ self._merging)
        proved = self._sphere.prove(*self._merged(dual), most - paid, n_threads=self.n_threads)
        return None if proved is None else float(np.nextafter(proved + paid, np.inf))

    def _merged(self, dual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights of the lines and the linear part."""
        weight = np.abs(self._ratio) * dual
        mu = np.bincount(self._line_of, weights=weight, minlength=len(self.lines))
        opposite = np.where(self._ratio < 0, weight, 0.0)
        return mu, -np.bincount(self._line_of, weights=opposite, minlength=len(self.lines)) @ self.lines

    def _candidates(self, mu, linear, threshold):
        if self._sphere is not None:
            return self._sphere.price(mu, linear, threshold, n_threads=self.n_threads)
        if self.rank == 2:
            return price_plane(self.lines, mu, linear, threshold)
        padded = np.pad(self.lines, ((0, 0), (0, 1)))
        neurons, values, bound = price_plane(padded, mu, np.append(linear, 0.0), threshold)
        own = np.abs(neurons[:, 0]) > 0.5  # the others lie along the padded axis
        return np.sign(neurons[own, :1]), values[own], bound


def price_plane(
    rows: np.ndarray, mu: np.ndarray, linear: np.ndarray, threshold: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Maximise |F| over the circle: the rays orthogonal to a row, and the gradient in every arc between two.

    Returns
    -------
    neurons : ndarray of shape (m, 2)
        Candidates with |F| above ``threshold``.
    values : ndarray of shape (m,)
    upper_bound : float
    """
    angle = np.arctan2(rows[:, 1], rows[:, 0])
    # row j turns positive at angle − π/2 and negative at angle + π/2
    events = np.concatenate([angle - np.pi / 2, angle + np.pi / 2]) % (2 * np.pi)
    steps = np.concatenate([mu[:, None] * rows, -mu[:, None] * rows])
    order = np.argsort(events, kind="stable")
    events, steps = events[order], steps[order]
    start = np.array([np.cos(0.5 * (events[-1] + events[0] - 2 * np.pi)), 0.0])
    start[1] = np.sin(0.5 * (events[-1] + events[0] - 2 * np.pi))
    gradient = linear + (mu * (rows @ start > 0)) @ rows + np.cumsum(steps, axis=0)
    rays = np.column_stack([np.cos(events), np.sin(events)])
    ahead = np.roll(rays, -1, axis=0)
    candidates = [rays]
    for sign in (1.0, -1.0):
        g = sign * gradient
        inside = (rays[:, 0] * g[:, 1] >= rays[:, 1] * g[:, 0]) & (
            g[:, 0] * ahead[:, 1] >= g[:, 1] * ahead[:, 0]
        )
        length = np.linalg.norm(g, axis=1)
        # on an arc of half a circle or more (a single line) the gradient must point forward, too
        inside &= (length > 0) & (np.einsum("ij,ij->i", g, rays + ahead) >= -1e-15 * length)
        candidates.append(g[inside] / length[inside, None])
    neurons = np.concatenate(candidates)
    values = neurons @ linear + np.maximum(neurons @ rows.T, 0.0) @ mu
    lipschitz = float(np.linalg.norm(linear) + np.abs(mu) @ np.linalg.norm(rows, axis=1))
    keep = np.abs(values) > threshold
    return neurons[keep], values[keep], float(np.abs(values).max()) + ROUNDING * lipschitz
