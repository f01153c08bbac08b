r"""The vector oracle for orthogonal rows (X = I and its scalings and rotations): a form on the orthant.

With unit rows e_i = z_i/‖z_i‖ orthonormal and u_i = e_i·w the question becomes

    h(Λ)² = max uᵀM u   over  u ≥ 0, ‖u‖ = 1,      M = D ΛΛᵀ D,  D = diag ‖z_i‖,

where a maximiser with support T is the top eigenvector of M_T. Local maxima come from ascents u ← (Mu)₊/‖(Mu)₊‖,
the bound from a branch and bound over supports (:mod:`covopt.oracles.vector.orthant_tree`).
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from covopt.errors import InputError
from covopt.exact.parallel_rows import ASCENT_DIGITS, first_of_each
from covopt.exact.rounding import UNIT, gamma, operator_norm_up, up
from covopt.oracles.base import Pricing
from covopt.oracles.vector.orthant_tree import bound_form

ORTHOGONAL = 1e-12
ENUMERATED = 12  # rows up to which ``complete`` looks at every support
ASCENT_STEPS = 400
RANDOM_STARTS = 64


def rows_are_orthogonal(rows: np.ndarray) -> bool:
    """Whether the rows are orthogonal to each other, to rounding.

    Examples
    --------
    >>> rows_are_orthogonal(np.eye(3)), rows_are_orthogonal(np.ones((2, 2)))
    (True, False)
    """
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return bool(np.abs(units @ units.T - np.eye(len(rows))).max() <= ORTHOGONAL)


class OrthantOracle:
    r"""Pricing for orthogonal rows: h(Λ) = max over unit w of ‖Λᵀσ(Zw)‖₂, exact by branch and bound.

    Parameters
    ----------
    rows : ndarray of shape (n, n)
        Z with Z Zᵀ diagonal.
    node_limit : int
        Largest number of nodes of the tree per pricing; beyond, the bound is valid but not attained.
    random_state : int, Generator or None
        For the starts of the ascents; the bound does not depend on it.

    Raises
    ------
    InputError
        If two rows are not orthogonal to each other.

    Examples
    --------
    >>> import numpy as np
    >>> answer = OrthantOracle(np.eye(2)).price(np.array([[3.0, 0.0], [4.0, 0.0]]))
    >>> answer.neurons[0].round(9), float(round(answer.upper_bound, 9)), answer.exact
    (array([0.6, 0.8]), 5.0, True)
    """

    def __init__(
        self,
        rows: np.ndarray,
        *,
        node_limit: int = 20_000,
        random_state: int | np.random.Generator | None = 0,
    ):
        self.rows = np.ascontiguousarray(rows, dtype=float)
        self.node_limit = node_limit
        self._lengths = np.linalg.norm(self.rows, axis=1)
        self._units = self.rows / self._lengths[:, None]
        products = self._units @ self._units.T - np.eye(len(self.rows))
        i, j = np.unravel_index(np.abs(products).argmax(), products.shape)
        if abs(products[i, j]) > ORTHOGONAL:
            raise InputError(
                f"rows {min(i, j)} and {max(i, j)} are not orthogonal (cosine {products[i, j]:.3g}); use "
                "VectorFaceOracle for such rows"
            )
        # unit w have ‖u‖ ≤ stretch, all but 1: the norm of the unit rows, off by a norm's and a quotient's rounding
        self._stretch = up(operator_norm_up(self._units.T) * (1.0 + gamma(2 * (self.rows.shape[1] + 8))))
        self._seed = random_state
        self.forget()

    @property
    def proved(self) -> bool:
        """Whether the bound is one in exact arithmetic: always, the tree believes no eigenvalue."""
        return True

    def forget(self) -> None:
        """Drop what earlier pricings found, so that the next answer depends on its question alone."""
        self._random = np.random.default_rng(self._seed)
        self._warm = np.empty((0, len(self.rows)))

    @property
    def sees_all(self) -> bool:
        """Whether ``complete=True`` is kept: up to 12 rows."""
        return len(self.rows) <= ENUMERATED

    def evaluate(self, dual: np.ndarray, neurons: np.ndarray) -> np.ndarray:
        """‖G‖ at each neuron, from the rows as given."""
        return np.linalg.norm(np.maximum(neurons @ self.rows.T, 0.0) @ dual, axis=1)

    def price(
        self,
        dual: np.ndarray,
        *,
        threshold: float = 0.0,
        max_neurons: int | None = None,
        complete: bool = False,
    ) -> Pricing:
        """Return local maxima of ‖Λᵀσ(Zw)‖ above ``threshold`` and a valid bound on h(Λ).

        Arguments as in :class:`covopt.oracles.base.Oracle`. With ``complete`` all supports are looked at, so that no
        isolated local maximum is missed: for up to 12 rows, ignored beyond. ``exact`` is False when the tree was cut
        at ``node_limit``.
        """
        dual = np.ascontiguousarray(dual, dtype=float)
        n = len(self.rows)
        if dual.ndim != 2 or len(dual) != n:
            raise InputError(f"dual must have shape ({n}, k), one row per row, got {dual.shape}")
        factor = self._lengths[:, None] * dual
        scale = float(np.linalg.norm(factor))
        if scale == 0.0:
            return Pricing(self._units[:1].copy(), np.zeros(1), 0.0, exact=True)
        factor = factor / scale
        form = factor @ factor.T
        points = ascend(form, self._starts(form))
        points = polish(form, points)
        if complete and n <= ENUMERATED:
            points = np.concatenate([points, all_maxima(form)])
        heights = np.linalg.norm(points @ factor, axis=1)
        points, heights = _distinct(points, heights)
        self._warm = points[: 4 * n]
        best, top, exact = bound_form(form, points, node_limit=self.node_limit)
        if best is not None:  # the tree met a better one
            points = np.concatenate([best[None], points])
        # the form is a rounded product of trace one, and the factor's entries are lengths times duals over the scale
        top = up(max(top, 0.0) + gamma(2 * (dual.shape[1] + 8)))
        seen = up(up(float(np.sqrt(top))) + gamma(2 * (self.rows.shape[1] + 8)))
        bound = up(up(up(seen * scale) * self._stretch) * (1.0 + 8.0 * UNIT))
        neurons = points @ self._units
        neurons /= np.linalg.norm(neurons, axis=1, keepdims=True)
        neurons, values = _distinct(neurons, self.evaluate(dual, neurons))
        keep = values >= threshold
        keep[0] = True
        if max_neurons is not None:
            keep[max(max_neurons, 1) :] = False
        return Pricing(neurons[keep], values[keep], max(bound, float(values[0])), exact=exact)

    def _starts(self, form: np.ndarray) -> np.ndarray:
        n = len(form)
        singles = np.eye(n)
        pairs = np.array([singles[i] + singles[j] for i, j in combinations(range(n), 2) if form[i, j] > 0])
        if len(pairs) > 4 * n:
            pairs = pairs[self._random.choice(len(pairs), 4 * n, replace=False)]
        vectors = np.linalg.eigh(form)[1].T
        drawn = np.maximum(self._random.standard_normal((RANDOM_STARTS + 2 * n, n)), 0.0)
        starts = [
            singles,
            pairs.reshape(-1, n),
            np.maximum(vectors, 0),
            np.maximum(-vectors, 0),
            drawn,
            self._warm,
        ]
        return np.concatenate(starts)


def ascend(form: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Ascend by u ← (Mu)₊/‖(Mu)₊‖: uᵀMu is convex, and this maximises its tangent over the orthant's ball.

    Parameters
    ----------
    form : ndarray of shape (n, n)
        Positive semidefinite M.
    starts : ndarray of shape (m, n)
        Nonnegative.

    Returns
    -------
    ndarray of shape (m', n)
        Unit vectors; starts where M vanishes are dropped.

    Examples
    --------
    >>> ascend(np.diag([1.0, 2.0]), np.array([[1.0, 1.0]])).round(6)
    array([[0., 1.]])
    """
    points = starts
    for _ in range(ASCENT_STEPS):
        ahead = np.maximum(points @ form, 0.0)
        length = np.linalg.norm(ahead, axis=1, keepdims=True)
        kept = length[:, 0] > 0
        ahead = ahead[kept] / length[kept]
        moved = np.abs(ahead - points[kept]).max(initial=0.0)
        points = ahead
        if moved < 1e-14:
            break
    return points


def polish(form: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Replace limits of ascents by the top eigenvector of their support, where that is nonnegative."""
    polished = points.copy()
    supports, first = np.unique(points > 1e-5, axis=0, return_index=True)
    for support, p in zip(supports, first, strict=True):
        chosen = np.flatnonzero(support)
        if len(chosen) == 0:
            continue
        vector = np.linalg.eigh(form[np.ix_(chosen, chosen)])[1][:, -1]
        vector *= np.sign(vector.sum()) or 1.0
        if vector.min() >= 0.0:
            polished[p] = 0.0
            polished[p, chosen] = vector
    return polished[first]


def all_maxima(form: np.ndarray) -> np.ndarray:
    """Return the isolated local maxima of uᵀMu over the nonnegative part of the sphere, from all 2ⁿ supports.

    Examples
    --------
    >>> all_maxima(np.diag([1.0, 2.0]))
    array([[0., 1.]])
    """
    n = len(form)
    tolerance = 1e-12 * np.trace(form)
    found = []
    for size in range(1, n + 1):
        supports = np.array(list(combinations(range(n), size)))
        values, vectors = np.linalg.eigh(form[supports[:, :, None], supports[:, None, :]])
        top = vectors[:, :, -1] * np.where(vectors[:, :, -1].sum(axis=1) < 0, -1.0, 1.0)[:, None]
        inside = (top.min(axis=1) > 0) & (values[:, -1] > tolerance)
        points = np.zeros((int(inside.sum()), n))
        np.put_along_axis(points, supports[inside], top[inside], axis=1)
        slopes = np.where(points > 0, -np.inf, points @ form)
        level = slopes >= -tolerance  # along these the second derivative decides
        rising = level & (np.diag(form) > values[inside, -1, None] + tolerance)
        found.append(points[(slopes.max(axis=1) <= tolerance) & ~rising.any(axis=1)])
    return np.concatenate(found)


def _distinct(points: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort by value, best first, and drop repeated directions."""
    order = np.argsort(-values, kind="stable")
    points, values = points[order], values[order]
    first = first_of_each(points, ASCENT_DIGITS)
    return points[first], values[first]
