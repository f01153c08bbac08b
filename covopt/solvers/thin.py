r"""Rows in a thin cone (years, incomes, seconds since 1970): solved where rows are of size one in every coordinate.

Rows far from the origin for their spread, or with columns of very different sizes, point nearly one way. Which rows
vanish together, and which neurons are one, is then lost in what all rows have in common. So the restricted problems
are said in other coordinates, X̃ w = R p with w = T p: the columns of R are of size one, and a neuron costs ‖T p‖,
which is no ball any more. The oracle keeps its ball, of rows that are brought as close as they can be and leave what
neurons with a kink among the points cost (:mod:`covopt.exact.far_rows`); beside its neurons there is the one at
which all rows are active, Λᵀ X̃, whose cost they do not say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from covopt.exact.far_rows import FarRows, coordinates, frame
from covopt.oracles.base import Oracle, Pricing
from covopt.problems.problem import Problem
from covopt.solvers.finish import finish_network
from covopt.solvers.generation import generate
from covopt.solvers.merging import Faces, Unit, merge_in_cells
from covopt.solvers.points import Point

THIN = 1e3  # ratio of the sizes of two coordinates from which rows are a thin cone
# size of the shortest coordinates beside the second that are told apart: frames lose what is beyond
LEAST = 1e-5
SHARE = 0.5  # of the tolerance: the rest is for what bringing rows closer costs
ALONG = 0.9  # cosine to the middle of all rows that every row has then


@dataclass(frozen=True)
class Thin:
    """Rows in a thin cone and their coordinates; make one with :meth:`of`.

    Attributes
    ----------
    closer : ndarray of shape (N, r)
        The oracle's rows.
    rows : ndarray of shape (N, r)
        R.
    turn : ndarray of shape (r, r)
        T, such that X̃ T p = s R p.
    size : float
        s: neurons of the oracle of length one are of size one in the second coordinate.
    from_ball : ndarray of shape (r,)
        Neurons p of neurons of the oracle, entry by entry.
    is_far : bool
        Whether the oracle's rows are closer than the rows.
    """

    closer: np.ndarray
    rows: np.ndarray
    turn: np.ndarray
    size: float
    from_ball: np.ndarray
    is_far: bool

    @classmethod
    def of(cls, rows: np.ndarray) -> Thin | None:
        """Return coordinates for rows in a thin cone, None for all others.

        Parameters
        ----------
        rows : ndarray of shape (N, r)
            Of full column rank, without zero rows.

        Examples
        --------
        >>> incomes = np.column_stack([np.linspace(2e4, 3e5, 9), np.cos(np.arange(9.0)), np.ones(9)])
        >>> np.abs(Thin.of(incomes).rows).max(axis=0).round(9)
        array([1., 1., 1.])
        >>> Thin.of(np.random.default_rng(0).standard_normal((9, 3))) is None
        True
        """
        if rows.shape[1] < 3 or len(rows) < rows.shape[1]:
            return None
        far = FarRows.of(rows)
        if far is not None:
            basis, closer = far.basis, far.rows
        else:
            units = rows / np.linalg.norm(rows, axis=1)[:, None]
            middle = units.mean(axis=0)
            middle /= max(float(np.linalg.norm(middle)), 1e-300)
            if (units @ middle < ALONG).any():
                return None
            basis = frame(middle)
            closer = coordinates(rows, basis)
        sizes = np.abs(closer).max(axis=0)
        if not sizes.min() > 0.0 or sizes.max() < THIN * sizes.min():
            return None
        size = 2.0 ** float(np.frexp(np.sort(sizes)[-2])[1])
        sizes = np.maximum(sizes, LEAST * size)
        return cls(closer, closer / sizes, basis * (size / sizes), size, sizes / size, far is not None)

    def units(self, directions: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the problem's neurons T p of length one and their weights, of neurons p with weights for R."""
        neurons = directions @ self.turn.T
        lengths = np.linalg.norm(neurons, axis=1)
        shares = (lengths / self.size)[:, None]
        return neurons / np.where(lengths > 0.0, lengths, 1.0)[:, None], weights * shares


class ThinUnit(Unit):
    """Neurons p that cost ‖T p‖.

    Parameters
    ----------
    thin : Thin
    """

    has_curvature = False

    def __init__(self, thin: Thin):
        self.turn = thin.turn
        self.fit_frames = self._fit

    def normalise(self, neurons: np.ndarray) -> np.ndarray:
        """See the base class."""
        costs = self.weigh(neurons)
        live = costs > 0.0
        return neurons[live] / costs[live, None]

    def weigh(self, vectors: np.ndarray) -> np.ndarray:
        """See the base class."""
        return np.linalg.norm(vectors @ self.turn.T, axis=1)

    def merge(self, rows: np.ndarray, neurons: np.ndarray, weights: np.ndarray) -> Faces:
        """See the base class."""
        lengths = np.linalg.norm(neurons, axis=1)
        return merge_in_cells(rows, neurons / lengths[:, None], weights * lengths)

    def _fit(self, neurons: np.ndarray, atoms: np.ndarray, frames: np.ndarray, dims: np.ndarray) -> None:
        """Turn orthonormal frames of faces into frames of this cost, the neuron first."""
        for j in range(len(neurons)):
            d = int(dims[j])
            vectors = frames[j, :d].copy()
            vectors[0] = neurons[j]
            if d == len(self.turn):  # the whole space: to the last digit
                vectors = np.concatenate([neurons[j, None], np.linalg.inv(self.turn).T])
            orthogonal, triangle = np.linalg.qr(self.turn @ vectors.T)
            if d == len(self.turn):
                frames[j] = np.linalg.solve(self.turn, orthogonal).T
            else:
                frames[j, :d] = np.linalg.solve(triangle.T, vectors)
            frames[j, 0] = neurons[j]


class ThinOracle:
    """The oracle of rows brought closer, beside the neuron at which all rows are active.

    Parameters
    ----------
    thin : Thin
    inner : Oracle
        Of ``thin.closer``.
    """

    def __init__(self, thin: Thin, inner: Oracle):
        self.thin, self.inner = thin, inner
        self.unit = ThinUnit(thin)

    def price(
        self,
        dual: np.ndarray,
        *,
        threshold: float = 0.0,
        max_neurons: int | None = None,
        complete: bool = False,
    ) -> Pricing:
        """See :class:`~covopt.oracles.base.Oracle`: neurons p of cost one, for duals of the rows R."""
        found = self.inner.price(
            dual / self.thin.size, threshold=threshold, max_neurons=max_neurons, complete=complete
        )
        neurons, above = found.neurons * self.thin.from_ball, found.upper_bound
        costs = self.unit.weigh(neurons)  # one, but less where all rows are active
        neurons, values = neurons / costs[:, None], found.values / costs
        if self.thin.is_far:
            columns = dual.reshape(len(dual), -1)
            turned = np.linalg.solve(self.thin.turn.T, self.thin.rows.T @ columns)
            left, heights, _ = np.linalg.svd(turned, full_matrices=False)
            if heights[0] > threshold:
                linear = np.linalg.solve(self.thin.turn, left[:, 0])
                if (self.thin.rows @ linear).sum() < 0.0:
                    linear = -linear
                if (self.thin.rows @ linear > 0.0).all():
                    value = heights[0] if dual.ndim == 2 else float((self.thin.rows @ linear) @ dual)
                    neurons, values = np.concatenate([linear[None], neurons]), np.append(value, values)
            above = max(above, float(heights[0]))
            order = np.argsort(-np.abs(values), kind="stable")
            neurons, values = neurons[order], values[order]
        best = float(np.abs(values).max(initial=0.0))
        return Pricing(neurons, values, above, bool(found.exact and above <= best * (1.0 + 1e-9)))


def generate_thin(problem: Problem, thin: Thin, inner: Oracle, **options: Any) -> Point:
    """Solve a problem with rows in a thin cone by column generation.

    Parameters
    ----------
    problem : Problem
    thin : Thin
        Of its rows.
    inner : Oracle
        Of ``thin.closer``.
    **options
        Of :func:`~covopt.solvers.generation.generate`.
    """
    oracle = ThinOracle(thin, inner)
    inside = replace(problem, rows=thin.rows, offset_cost=problem.offset_cost * thin.size)

    def back(point: Point) -> Point:
        neurons, weights = thin.units(point.neurons, point.weights)
        return replace(
            point, neurons=neurons, weights=weights, upper_bound=point.upper_bound / thin.size,
            lower_bound=point.lower_bound / thin.size, dual=point.dual / thin.size,
        )  # fmt: skip

    tell = options.get("callback")
    if tell is not None:
        options["callback"] = lambda state, point: tell(
            state.scaled(1.0 / thin.size, state.time_s), back(point)
        )
    options["warm"] = None  # it is of other coordinates
    point = generate(inside, oracle, unit=oracle.unit, **options | {"tol": SHARE * options["tol"]})
    if problem.is_scalar and np.isfinite(point.upper_bound):
        point.neurons, point.weights, point.offset = finish_network(
            inside, point.neurons, point.weights, point.offset, unit=oracle.unit
        )
        point.upper_bound, point.finished = inside.network_value(point.weights, point.offset), True
    return back(point)
